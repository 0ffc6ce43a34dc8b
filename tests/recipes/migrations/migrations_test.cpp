#include <zkrecipes/migrations.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/semaphore.hpp>

#include "recipes/migrations/sha256.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Names = std::vector<std::string>;

class MigrationsTest : public testkit::RecipeTest {
 protected:
  MigrationsTest() : RecipeTest("/meta") {}
  Migrations make() { return Migrations(client(), "/locks", path()); }
  /// The steps of the program's first version.
  static MigrationSet first_version() {
    MigrationSet set("users");
    return set.add("make the folder", Transaction().create("/app", "v1").create("/app/users", ""));
  }
  static MigrationSet second_version() {
    return first_version()
        .add("name the version", Transaction().set("/app", "v2").create("/app/version", "2"))
        .add("count the users", [](OptimisticView& view) {
          view.create("/app/count", std::to_string(view.children("/app/users").size()));
        });
  }
  Names records() { return names(path() / "users"); }
  std::string data(const zkclient::Path& path) { return client().get(path, patient()).data; }
  std::string refusal_of(const MigrationSet& set) {
    try {
      make().migrate(set, patient());
    } catch (const Error& error) {
      EXPECT_EQ(error.errc(), Errc::foreign_node);
      return error.detail();
    }
    return "no error";
  }
};

TEST_F(MigrationsTest, EachStepOnce) {
  Migrations migrations = make();
  EXPECT_EQ(migrations.path(), path());
  EXPECT_EQ(migrations.migrate(first_version(), patient()), (Names{"make the folder"}));
  EXPECT_EQ(migrations.migrate(first_version(), patient()), Names());
  client().create("/app/users/ann", "");
  EXPECT_EQ(make().migrate(second_version(), patient()), (Names{"name the version", "count the users"}));
  EXPECT_EQ(make().migrate(second_version(), patient()), Names());
  EXPECT_EQ(data("/app"), "v2");
  EXPECT_EQ(data("/app/count"), "1");
  EXPECT_EQ(records().size(), 3U);
  EXPECT_TRUE(remain(0, "/locks/users/leases"));
}

TEST_F(MigrationsTest, TheNodesAreThoseOfCurator) {
  make().migrate(second_version(), patient());
  Names nodes = records();
  std::sort(nodes.begin(), nodes.end());
  EXPECT_EQ(nodes, (Names{"meta-0000000000", "meta-0000000001", "meta-0000000002"}));
  EXPECT_EQ(data("/meta/users/meta-0000000002"), detail::sha256("count the users"));
  EXPECT_EQ(client().exists("/meta/users")->ephemeral_owner, 0) << "where Curator has a container";
  const auto made = client().create("/meta/users/meta-", "", {.mode = CreateMode::persistent_sequential}, patient());
  EXPECT_EQ(made.path, "/meta/users/meta-0000000003") << "what a server would give next";
}

// The bytes that Curator 5.4 writes for this step.
TEST_F(MigrationsTest, ARecordOfCuratorIsUnderstood) {
  std::string digest;
  for (const char* byte = "fc985c59af3679d35983ede95ff88b76764884f219c78731c1b6cf906da658e5"; *byte != '\0'; byte += 2)
    digest += static_cast<char>(std::stoi(std::string(byte, 2), nullptr, 16));
  client().ensure("/meta/curator", CreateMode::container);
  client().create("/meta/curator/meta-", digest, {.mode = CreateMode::persistent_sequential});
  MigrationSet set("curator");
  set.add("one", Transaction().create("/app", "hello")).add("two", Transaction().create("/two"));
  EXPECT_EQ(make().migrate(set, patient()), (Names{"two"}));
  EXPECT_FALSE(client().exists("/app"));
}

TEST_F(MigrationsTest, ADryRunSaysWhatWouldBeDone) {
  Migrations migrations = make();
  const std::vector<PendingStep> all = migrations.pending(second_version(), patient());
  EXPECT_EQ(all, (std::vector<PendingStep>{{"make the folder", {"create /app", "create /app/users"}},
                                           {"name the version", {"set /app", "create /app/version"}},
                                           {"count the users", {}}}));
  EXPECT_FALSE(client().exists("/app"));
  EXPECT_FALSE(client().exists("/meta"));
  EXPECT_FALSE(client().exists("/locks"));
  migrations.migrate(first_version(), patient());
  EXPECT_EQ(migrations.pending(first_version(), patient()).size(), 0U);
  EXPECT_EQ(migrations.pending(second_version(), patient()).size(), 2U);
  MigrationSet other("users");
  other.add("make the folder", Transaction().create("/other"));
  EXPECT_EQ(error_of([&] { (void)migrations.pending(other, patient()); }), Errc::foreign_node);
}

TEST_F(MigrationsTest, AnAppliedStepWasChanged) {
  make().migrate(first_version(), patient());
  MigrationSet changed("users");
  changed.add("make the folder", Transaction().create("/app", "another").create("/app/users", ""));
  changed.add("more", Transaction().create("/more"));
  EXPECT_EQ(refusal_of(changed),
            "set \"users\", step 1 \"make the folder\" is not the one that was applied: "
            "meta-0000000000 has another digest");
  EXPECT_FALSE(client().exists("/more"));
  EXPECT_TRUE(remain(0, "/locks/users/leases"));
}

TEST_F(MigrationsTest, TheTreeHasMoreSteps) {
  make().migrate(second_version(), patient());
  EXPECT_EQ(
      refusal_of(first_version()),
      "set \"users\" has 1 steps, and 3 were applied: from meta-0000000001 on by a newer program, by another set, or "
      "by hand");
}

TEST_F(MigrationsTest, AStepIsRefused) {
  client().create("/app", "foreign");
  MigrationSet set("users");
  set.add("fits", Transaction().create("/one"));
  set.add("does not fit", Transaction().create("/two").create("/app", "v1"));
  set.add("comes too late", Transaction().create("/three"));
  try {
    make().migrate(set, patient());
    FAIL() << "it was applied";
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::node_exists);
    EXPECT_EQ(error.detail(), "set \"users\", step \"does not fit\": operation 2 of 2, create /app");
  }
  EXPECT_TRUE(client().exists("/one"));
  EXPECT_FALSE(client().exists("/two")) << "no half step";
  EXPECT_EQ(records().size(), 1U);
  client().remove("/app");
  EXPECT_EQ(make().migrate(set, patient()), (Names{"does not fit", "comes too late"}));
}

TEST_F(MigrationsTest, AFunctionThrows) {
  MigrationSet set("users");
  set.add("one", Transaction().create("/one"));
  bool throws = true;
  set.add("two", [&](OptimisticView& view) {
    view.create("/two", "");
    if (throws) throw std::runtime_error("not today");
  });
  EXPECT_THROW(make().migrate(set, patient()), std::runtime_error);
  EXPECT_FALSE(client().exists("/two"));
  Box<Result<Names>> told;
  make().async_migrate(
      set, [&](Result<Names> result) { told.put(std::move(result)); }, patient());
  EXPECT_EQ(told.take().code(), Errc::invalid_argument);
  set.add("three", [](OptimisticView&) { throw Error(Errc::in_doubt, "its own", "/x", "reason"); });
  throws = false;
  try {
    make().migrate(set, patient());
    FAIL() << "it was applied";
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::in_doubt);
    EXPECT_EQ(error.detail(), "set \"users\", step \"three\": reason");
  }
  EXPECT_EQ(records().size(), 2U);
}

TEST_F(MigrationsTest, AnotherProcessMigrates) {
  constexpr int processes = 4;
  MigrationSet set("users");
  for (int i = 0; i < 5; ++i)
    set.add("step " + std::to_string(i), Transaction().create("/node-" + std::to_string(i)));
  std::vector<std::future<Names>> migrating;
  for (int i = 0; i < processes; ++i) {
    migrating.push_back(in_thread([&] {
      Client own = make_client();
      return Migrations(own, "/locks", path()).migrate(set, patient());
    }));
  }
  std::size_t applied = 0;
  for (auto& one : migrating)
    applied += result_of(one).size();
  EXPECT_EQ(applied, 5U);
  EXPECT_EQ(records().size(), 5U);
}

// The record tells that it was applied, too.
TEST_F(MigrationsTest, AFunctionSetsANodeThatWasMadeAgain) {
  client().create("/node", "old");
  MigrationSet set("users");
  set.add("one", [&](OptimisticView& view) {
    view.set("/node", view.get("/node") + "+");
    client().remove("/node");
    client().create("/node", "new");
  });
  EXPECT_NE(refusal_of(set).find("set \"users\", step \"one\": /node was deleted and made again"), std::string::npos);
  EXPECT_EQ(data("/node"), "old+");
  EXPECT_EQ(records().size(), 1U);
  EXPECT_EQ(make().migrate(set, patient()), Names());
}

// What a step checks may belong to a session: of another one, nothing may be written.
TEST_F(MigrationsTest, AStepOfOneSessionIsRefused) {
  const Lease lease = Semaphore(client(), "/locks/other", 1).acquire(patient());
  MigrationSet set("users");
  EXPECT_EQ(error_of([&] { set.add("one", lease.transaction().create("/one")); }), Errc::invalid_argument);
  EXPECT_TRUE(set.steps().empty());
}

TEST_F(MigrationsTest, ItWaitsForTheLock) {
  Semaphore lock(client(), "/locks/users", 1);
  Lease held = lock.acquire(patient());
  EXPECT_EQ(error_of([&] { make().migrate(first_version(), {.deadline = 50ms}); }), Errc::deadline_exceeded);
  EXPECT_EQ(make().pending(first_version(), patient()).size(), 1U) << "a dry run does not";
  MigrationSet other("others");
  other.add("one", Transaction().create("/one"));
  EXPECT_EQ(make().migrate(other, patient()).size(), 1U) << "each set has its own";
  held.release();
  EXPECT_EQ(make().migrate(first_version(), patient()).size(), 1U);
}

TEST_F(MigrationsTest, RecordsDeletedByHand) {
  MigrationSet set("users");
  set.add("one", Transaction().create("/one"));
  set.add("two", [](OptimisticView& view) { view.set("/one", view.get("/one") + "+"); });
  make().migrate(set, patient());
  client().remove("/meta/users/meta-0000000001");
  EXPECT_EQ(make().migrate(set, patient()), (Names{"two"}));
  EXPECT_EQ(data("/one"), "++");
  client().remove("/meta/users/meta-0000000000");
  EXPECT_EQ(error_of([&] { make().migrate(set, patient()); }), Errc::foreign_node);
}

// They may be notes, but what is named as a record counts as one.
TEST_F(MigrationsTest, ForeignNodesInTheFolder) {
  make().migrate(first_version(), patient());
  for (const char* note : {"/meta/users/README", "/meta/users/notes"})
    client().create(note, "words");
  EXPECT_EQ(make().pending(second_version(), patient()).size(), 2U);
  EXPECT_EQ(make().migrate(second_version(), patient()), (Names{"name the version", "count the users"}));
  EXPECT_EQ(data("/meta/users/meta-0000000002"), detail::sha256("count the users"));
  client().create("/meta/users/meta-copy", data("/meta/users/meta-0000000000"));
  EXPECT_EQ(
      refusal_of(second_version()),
      "set \"users\" has 3 steps, and 4 were applied: from meta-copy on by a newer program, by another set, or by "
      "hand");
}

TEST_F(MigrationsTest, FoldersThatOverlapAreRefused) {
  using Folders = std::pair<const char*, const char*>;
  for (const Folders& folders : {Folders("/m", "/m"), Folders("/m/lock", "/m"), Folders("/m", "/m/records"),
                                 Folders("/", "/m"), Folders("/m", "/")})
    EXPECT_EQ(error_of([&] { Migrations(client(), folders.first, folders.second); }), Errc::invalid_argument);
}

}  // namespace
}  // namespace zkrecipes
