#include "recipes/migrations/migration_decider.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <zkclient/error.hpp>

#include "recipes/migrations/sha256.hpp"
#include "tests/support/testkit.hpp"

namespace zkrecipes::detail {
namespace {

using zkclient::Acl;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Transaction;

std::string hex(std::string_view bytes) {
  std::string all;
  for (const char byte : bytes)
    all += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return all;
}

std::string digest(Transaction changes) {
  const MigrationStep step{"step", std::move(changes), {}};
  return hex(digest_of(step));
}

// --- SHA-256 --------------------------------------------------------------------------------------------------------

// The examples of FIPS 180-4, and lengths around the end of a block.
TEST(Sha256, Examples) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(hex(sha256(std::string(55, 'a'))), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(hex(sha256(std::string(56, 'a'))), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(hex(sha256(std::string(64, 'a'))), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

// --- What Curator 5.4 makes of the same operations, on ZooKeeper 3.8 ----------------------------------------------

TEST(MigrationDigest, IsThatOfCurator) {
  EXPECT_EQ(digest(Transaction().create("/app", "hello")),
            "fc985c59af3679d35983ede95ff88b76764884f219c78731c1b6cf906da658e5");
  EXPECT_EQ(digest(Transaction().create("/app", "")),
            "10e4f82ea5ee3d40d3d5e1bdad0a4be787f015d3af44ced5881abbb0d2549063");
  EXPECT_EQ(digest(Transaction().create("/a'b,c%d", std::string("\0\1\xff',%", 6))),
            "5f33a08937885d0784bd9321935c6f66107a2bfe966825c8d0cfa1f9698ec9cd");
  EXPECT_EQ(digest(Transaction().create("/\u00e4", "x")),
            "f492d6f758e6119f3b2743d1a1c375f2f9ab9523089d7856e83f389b3d9e0cf2");
  EXPECT_EQ(digest(Transaction().set("/app", "x")), "2887b98313276ed9ee5eee89decda317177f0d9ff4bfbaa3f3d99f42563b54d3");
  EXPECT_EQ(digest(Transaction().set("/app", "xy", 7)),
            "c69c97490ac40953fc6414f76454d99982f5a3d7095dc4b76a71d2c1ec38d6fd");
  EXPECT_EQ(digest(Transaction().remove("/app")), "8f4666eb5f2d73287860f62d0c27a7085a0ecb3abf8984e47dc4ad765ab1a6a2");
  EXPECT_EQ(digest(Transaction().remove("/app", 3)),
            "6a5ede489907bda57653516ca0c0968b77ccfd2099acd711343dadf917601407");
  EXPECT_EQ(digest(Transaction().check("/app")), "762baa34dd304a44745c82184bdb4a57e07cb81e1dd47a1eb59810bfb8891cdd");
  EXPECT_EQ(digest(Transaction().check("/app", 2)), "9c74d32d8d3f47a02cef958280581a701c2d1f509224803ad22b0c3c12d48cfe");
  EXPECT_EQ(digest(Transaction().create("/app", "hello").set("/app", "x").remove("/old")),
            "32e4986b91169a964758d76e96002bb2d2d72cda2daa2484b7259a1436aecaef");
}

TEST(MigrationDigest, TellsAccessAndModes) {
  zkclient::CreateOptions options;
  options.acl = {Acl{Acl::read, "digest", "ann:h,a'sh"}, Acl{}};
  EXPECT_EQ(digest(Transaction().create("/app/a", "x", options)),
            "0fea4ea9ed42cbc286f6d1957b2538d70996f562222c10d3f285138cce42fbac");
  EXPECT_NE(digest(Transaction().create("/app/s-", "x", {.mode = CreateMode::persistent_sequential})),
            digest(Transaction().create("/app/s-", "x")));
}

TEST(MigrationDigest, OfAFunctionIsThatOfItsName) {
  const MigrationStep step{"abc", {}, [](OptimisticView&) {}};
  EXPECT_EQ(digest_of(step), sha256("abc"));
}

// --- The history ----------------------------------------------------------------------------------------------------

MigrationSet three_steps() {
  MigrationSet set("users");
  set.add("one", Transaction().create("/a")).add("two", Transaction().create("/b"));
  return set.add("three", [](OptimisticView&) {});
}

TEST(MigrationHistory, EveryLengthAndEveryChange) {
  const MigrationSet set = three_steps();
  const std::vector<std::string> digests = {"d1", "d2", "d3"};
  for (std::size_t length = 0; length <= 4; ++length) {
    std::vector<MigrationRecord> records;
    for (std::size_t i = 0; i < length; ++i)
      records.push_back({fmt::format("meta-{:010}", i), i < 3 ? digests[i] : "d4"});
    const MigrationVerdict verdict = judge_history(set, digests, records);
    EXPECT_EQ(verdict.applied, std::min<std::size_t>(length, 3));
    EXPECT_EQ(verdict.why, length < 4 ? ""
                                      : "set \"users\" has 3 steps, and 4 were applied: from meta-0000000003 on by a "
                                        "newer program, by another set, or by hand");
    for (std::size_t wrong = 0; wrong < std::min<std::size_t>(length, 3); ++wrong) {
      std::vector<MigrationRecord> other = records;
      other[wrong].digest = "x";
      const MigrationVerdict refused = judge_history(set, digests, other);
      EXPECT_EQ(
          refused.why,
          fmt::format("set \"users\", step {} \"{}\" is not the one that was applied: meta-{:010} has another digest",
                      wrong + 1, set.steps()[wrong].name, wrong));
    }
  }
}

TEST(MigrationHistory, TheNextRecordIsBehindAllOthers) {
  EXPECT_EQ(next_record({}), "meta-0000000000");
  EXPECT_EQ(next_record({{"meta-0000000000", ""}, {"meta-0000000001", ""}}), "meta-0000000002");
  EXPECT_EQ(next_record({{"meta-0000000007", ""}}), "meta-0000000008") << "of those before it nothing is left";
  EXPECT_EQ(next_record({{"something", ""}, {"meta-x", ""}}), "meta-0000000002");
  EXPECT_EQ(next_record({{"meta-9223372036854775807", ""}}), "meta-0000000001") << "no server has given that name";
}

// --- Sets -----------------------------------------------------------------------------------------------------------

TEST(MigrationSet, RefusesWhatIsNone) {
  using testkit::error_of;
  for (const char* name : {"", "a/b", ".", "_c_set", "a\nb"})
    EXPECT_EQ(error_of([&] { zkrecipes::MigrationSet set(name); }), Errc::invalid_argument) << name;
  zkrecipes::MigrationSet set = three_steps();
  EXPECT_EQ(error_of([&] { set.add("", Transaction().create("/c")); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { set.add("two", Transaction().create("/c")); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { set.add("two", [](OptimisticView&) {}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { set.add("four", Transaction()); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { set.add("four", Optimistic::Function()); }), Errc::invalid_argument);
  for (const CreateMode mode : {CreateMode::ephemeral, CreateMode::ephemeral_sequential})
    EXPECT_EQ(error_of([&] { set.add("four", Transaction().create("/c", "", {.mode = mode})); }),
              Errc::invalid_argument);
  EXPECT_EQ(set.steps().size(), 3U);
  EXPECT_EQ(set.name(), "users");
}

}  // namespace
}  // namespace zkrecipes::detail
