#include "recipes/replication/replica_format.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace zkrecipes::detail {
namespace {

using std::chrono::milliseconds;

ReplicaState a_state() {
  ReplicaState state;
  state.epoch = 7;
  state.primary = "b";
  state.in_sync = {{"a", "disk-1", milliseconds(4666)}, {"b", "disk-2", milliseconds(0)}};
  state.minimum = 2;
  state.forced = 5;
  state.leaving = milliseconds(1500);
  return state;
}

ReplicaDefect defect_of(std::string_view text) {
  ReplicaDefect defect = ReplicaDefect::none;
  const bool read = decode_replica_state(text, &defect).has_value();
  EXPECT_EQ(read, defect == ReplicaDefect::none);
  return defect;
}

TEST(ReplicaFormat, WritesAState) {
  EXPECT_EQ(encode(a_state()),
            "replicas 1 epoch=7 primary=b minimum=2 forced=5 leaving=1500\n"
            "a disk-1 4666\n"
            "b disk-2 0\n");
}

TEST(ReplicaFormat, ReadsWhatItWrites) {
  EXPECT_EQ(decode_replica_state(encode(a_state())), a_state());
  ReplicaState least;
  EXPECT_EQ(decode_replica_state(encode(least)), least);
  ReplicaState most = a_state();
  most.epoch = std::numeric_limits<std::int64_t>::max() - 1;
  most.in_sync.clear();
  const std::string long_part(longest_replica_id - 2, 'x');
  for (std::size_t i = 0; i < most_replicas; ++i)
    most.in_sync.push_back(
        {std::to_string(10 + i) + long_part, std::string(longest_replica_id, 'y'), milliseconds(86400000)});
  EXPECT_EQ(decode_replica_state(encode(most)), most);
}

TEST(ReplicaFormat, NamesWhatIsWrong) {
  const std::string good = encode(a_state());
  EXPECT_EQ(defect_of(""), ReplicaDefect::other_kind);
  EXPECT_EQ(defect_of("hello"), ReplicaDefect::other_kind);
  EXPECT_EQ(defect_of("replicas 2 epoch=7"), ReplicaDefect::unknown_version);
  EXPECT_EQ(defect_of("replicas 1"), ReplicaDefect::bad_field);
  EXPECT_EQ(defect_of(good + std::string(100000, 'x')), ReplicaDefect::too_long);
  const auto with = [&](std::string_view old, std::string_view text) {
    std::string changed = good;
    changed.replace(changed.find(old), old.size(), text);
    return defect_of(changed);
  };
  for (const char* epoch :
       {"epoch=", "epoch=-1", "epoch=07", "epoch=+7", "epoch=9223372036854775807", "Epoch=7", "epoch=7x"})
    EXPECT_EQ(with("epoch=7", epoch), ReplicaDefect::bad_field) << epoch;
  EXPECT_EQ(with("primary=b", "primary="), ReplicaDefect::bad_field);
  EXPECT_EQ(with("primary=b", "primary=b/c"), ReplicaDefect::bad_field);
  EXPECT_EQ(with("minimum=2", "minimum=0"), ReplicaDefect::bad_field);
  EXPECT_EQ(with("minimum=2", "minimum=65"), ReplicaDefect::bad_field);
  EXPECT_EQ(with("leaving=1500", "leaving=86400001"), ReplicaDefect::bad_field);
  EXPECT_EQ(with("leaving=1500", "leaving=1500 more=1"), ReplicaDefect::bad_field);
  EXPECT_EQ(with("a disk-1 4666", "a disk-1"), ReplicaDefect::bad_replica);
  EXPECT_EQ(with("a disk-1 4666", "a disk-1 4666 x"), ReplicaDefect::bad_replica);
  EXPECT_EQ(with("a disk-1 4666", "- disk-1 4666"), ReplicaDefect::bad_replica);
  EXPECT_EQ(with("a disk-1 4666\n", "\n"), ReplicaDefect::bad_replica);
  EXPECT_EQ(with("a disk-1", "c disk-1"), ReplicaDefect::not_ordered);
  EXPECT_EQ(with("a disk-1", "b disk-1"), ReplicaDefect::not_ordered);
  EXPECT_STREQ(to_string(ReplicaDefect::not_ordered), "its members are not in order");
}

// A write that rests on this version would rest on none.
TEST(ReplicaFormat, RefusesAStateWhoseVersionMeansAny) {
  const std::string text = "replicas 1 epoch=1 primary=a minimum=1 forced=0 leaving=0\na disk 500\n";
  ReplicaDefect defect = ReplicaDefect::none;
  EXPECT_TRUE(read_replica_state(text, -2, defect));
  EXPECT_EQ(defect, ReplicaDefect::none);
  EXPECT_FALSE(read_replica_state(text, -1, defect));
  EXPECT_EQ(defect, ReplicaDefect::any_version);
  EXPECT_FALSE(read_replica_state("", -1, defect));
  EXPECT_EQ(defect, ReplicaDefect::other_kind);
}

TEST(ReplicaFormat, ReadsAMember) {
  const ReplicaMember member{"a", "disk-1", milliseconds(4666), std::numeric_limits<std::uint64_t>::max(),
                             "host 1:80 x"};
  EXPECT_EQ(encode(member), "replica 1 disk-1 4666 18446744073709551615 host 1:80 x");
  EXPECT_EQ(decode_replica_member("a", encode(member)), member);
  ReplicaMember silent = member;
  silent.address = "";
  EXPECT_EQ(decode_replica_member("a", encode(silent)), silent);
  for (const char* text : {"", "replica", "replica 1 ", "replica 2 d 1 1 x", "replica 1 d x 1 a", "replica 1 d 1 -1 a",
                           "replica 1 d 1 18446744073709551616 a", "replica 1 - 1 1 a"})
    EXPECT_FALSE(decode_replica_member("a", text)) << text;
  EXPECT_FALSE(decode_replica_member("a b", encode(member)));
  EXPECT_FALSE(decode_replica_member("a", encode(member) + std::string(2000, 'x')));
}

TEST(ReplicaFormat, RefusesIdsThatItCannotWrite) {
  EXPECT_EQ(replica_id_defect("node-1.example:80"), nullptr);
  for (const std::string& id :
       {std::string(), std::string("-"), std::string("."), std::string(".."), std::string("a b"), std::string("a/b"),
        std::string("a\n"), std::string("\xc3\xa4"), std::string(129, 'x')})
    EXPECT_NE(replica_id_defect(id), nullptr) << id;
}

// Whatever was changed in it, it is refused or means exactly what it says.
TEST(ReplicaFormat, SurvivesDamage) {
  std::mt19937_64 random(17);  // NOLINT(cert-msc51-cpp): the same in each run.
  const std::string good = encode(a_state());
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text[at] = static_cast<char>(random() % 256);
      } else {
        text.erase(at, 1 + random() % 4);
      }
      if (text.empty()) text = " ";
    }
    const auto read = decode_replica_state(text);
    if (read) {
      EXPECT_EQ(decode_replica_state(encode(*read)), read);
    }
    decode_replica_member("a", text);
  }
}

}  // namespace
}  // namespace zkrecipes::detail
