// One test for each row of the table "What goes wrong" in <zkrecipes/migrations.hpp> that needs a fault; the others are in
// migrations_test.cpp.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/migrations.hpp>
#include <zkrecipes/semaphore.hpp>

#include "recipes/migrations/migration_decider.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Names = std::vector<std::string>;

// One of each kind of fault.
const testkit::OnRealServers migrations_on_real_servers{"MigrationsFaults.StepLost",
                                                        "MigrationsFaults.SessionLostMeanwhile"};

class MigrationsFaults : public testkit::RecipeFaultTest {
 protected:
  MigrationsFaults() : RecipeFaultTest("/meta") { the_operator().create("/count", "0"); }
  static Migrations make(const Client& client) { return Migrations(client, "/locks", "/meta"); }
  std::string next_node() { return "/node-" + std::to_string(history.steps().size() + 1); }
  /// A step that makes the next node, which fails if it is applied twice.
  void add_changes() {
    const std::string node = next_node();
    history.add(node, Transaction().create(node).create(node + "/below"));
  }
  void add_function() {
    const std::string node = next_node();
    history.add(node, [node](OptimisticView& view) {
      view.create(node, "");
      view.set("/count", std::to_string(std::stoi(view.get("/count")) + 1));
    });
  }
  void add(bool function) { function ? add_function() : add_changes(); }
  /// Migrates a step of its own, and what is added behind that by `add_more`. While the reply to that step's transaction
  /// is held, `arm` is called: the next transaction is that of the step behind it.
  template <typename AddMore, typename Arm>
  std::future<Names> migrate(const Client& client, AddMore add_more, Arm arm, std::stop_token stop = {}) {
    std::promise<void> gated;
    const std::string node = next_node();
    std::optional<zktesting::HeldReply> gate;
    history.add(node, [&, node](OptimisticView& view) {
      view.create(node, "");
      gate.emplace(proxy.hold_next_reply(RequestType::multi));
      gated.set_value();
    });
    add_more();
    auto migrating = in_thread(
        [client, all = history, stop] { return make(client).migrate(all, {.deadline = soon(), .stop = stop}); });
    EXPECT_EQ(gated.get_future().wait_for(patience), std::future_status::ready);
    EXPECT_TRUE(gate->wait(patience));
    arm();
    gate->release();
    return migrating;
  }
  /// Migrates all. While the reply to the request for the records' folder is held, `meanwhile` is called.
  template <typename Meanwhile>
  std::future<Names> migrate_up_to_folder(const Client& client, Meanwhile meanwhile, std::stop_token stop = {}) {
    keep_folders_of_locks();
    auto locking = proxy.hold_next_reply(RequestType::multi);
    auto migrating = in_thread(
        [client, all = history, stop] { return make(client).migrate(all, {.deadline = soon(), .stop = stop}); });
    EXPECT_TRUE(locking.wait(patience));
    auto making_folder = proxy.hold_next_reply(RequestType::create2);
    locking.release();
    EXPECT_TRUE(making_folder.wait(patience));
    meanwhile(migrating);
    making_folder.release();
    return migrating;
  }
  Names migrate_all(const Client& client) { return make(client).migrate(history, patient()); }
  void expect_applied(std::size_t steps) {
    EXPECT_EQ(names("/meta/users").size(), steps);
    for (std::size_t i = 1; i <= steps + 1; ++i)
      EXPECT_EQ(the_operator().exists("/node-" + std::to_string(i)).has_value(), i <= steps) << i;
  }
  void expect_all_applied() { expect_applied(history.steps().size()); }
  /// The server deletes them otherwise when it likes, and then a lock makes them.
  void keep_folders_of_locks() {
    for (const char* folder : {"leases", "locks"})
      the_operator().ensure(zkclient::Path("/locks") / history.name() / folder, CreateMode::persistent);
  }
  void delete_locks() {
    for (const std::string& lease : names("/locks/users/leases"))
      the_operator().remove(zkclient::Path("/locks/users/leases") / lease);
  }

  MigrationSet history{"users"};
};

TEST_F(MigrationsFaults, StepLost) {
  Client client = calm_proxied();
  for (const bool request : {true, false}) {
    std::optional<Fault> fault;
    const auto two_more = [&] {
      add_changes();
      add_changes();
    };
    auto migrating = migrate(client, two_more, [&] { fault.emplace(lose(request)); });
    EXPECT_EQ(result_of(migrating).size(), 3U);
    EXPECT_TRUE(fault->wait(patience));
    expect_all_applied();
  }
}

// An attempt whose connection broke may reach the leader after the records were read. No server can be made to do it, so
// the test writes in its place.
TEST_F(MigrationsFaults, TheFirstAttemptComesLate) {
  Client client = calm_proxied();
  auto migrating = migrate(
      client, [&] { add_changes(); },
      [&] {
        const MigrationStep& step = history.steps().back();
        Transaction late = step.changes;
        late.create("/meta/users/meta-0000000001", detail::digest_of(step));
        the_operator().commit(late);
      });
  EXPECT_EQ(result_of(migrating).size(), 2U);
  expect_all_applied();
}

// Whatever request it is: the lock's, the folder's, the first step's.
TEST_F(MigrationsFaults, TheFirstRequestOfEachKindIsLost) {
  for (const RequestType type :
       {RequestType::multi, RequestType::create2, RequestType::get_children2, RequestType::sync, RequestType::any}) {
    for (const bool request : {true, false}) {
      Client client = calm_proxied();
      client.connect(patient());
      add_changes();
      auto fault = lose(request, type);
      EXPECT_EQ(migrate_all(client).size(), 1U);
      EXPECT_TRUE(fault.wait(patience));
      expect_all_applied();
    }
  }
}

TEST_F(MigrationsFaults, FunctionLost) {
  Client client = calm_proxied();
  std::size_t functions = 0;
  for (const bool request : {true, false}) {
    for (const RequestType type : {RequestType::multi, RequestType::create2, RequestType::get_data}) {
      std::optional<Fault> fault;
      auto migrating = migrate(
          client, [&] { add_function(); }, [&] { fault.emplace(lose(request, type)); });
      EXPECT_EQ(result_of(migrating).size(), 2U);
      EXPECT_TRUE(fault->wait(patience));
      expect_all_applied();
      EXPECT_EQ(the_operator().get("/count").data, std::to_string(++functions));
    }
  }
}

TEST_F(MigrationsFaults, ReadLost) {
  Client client = calm_proxied();
  add_changes();
  migrate_all(client);
  add_changes();
  for (const RequestType type : {RequestType::get_data, RequestType::get_children2}) {
    for (const bool request : {true, false}) {
      auto fault = lose(request, type);
      EXPECT_EQ(make(client).pending(history, patient()).size(), 1U);
      EXPECT_TRUE(fault.wait(patience));
    }
  }
}

// A sync comes before the records are read. A lock reads as much as it likes, but sends none.
TEST_F(MigrationsFaults, ReadLostTooOften) {
  Client client(proxy.connect_string(), {.session_timeout = calm, .retry = {.max_attempts = 1}});
  add_changes();
  migrate_all(client);
  add_changes();
  auto fault = lose(true, RequestType::sync);
  EXPECT_EQ(error_of([&] { migrate_all(client); }), Errc::connection_loss);
  EXPECT_TRUE(fault.wait(patience));
  expect_applied(1);
  EXPECT_EQ(migrate_all(client).size(), 1U);
}

// What was applied is known: nothing is read once more.
TEST_F(MigrationsFaults, TheLastStepIsTheEnd) {
  Client client = calm_proxied();
  add_changes();
  migrate_all(client);
  const auto reads_of_a_call = [&] {
    const std::size_t before = proxy.request_count(RequestType::sync);
    migrate_all(client);
    return proxy.request_count(RequestType::sync) - before;
  };
  const std::size_t with_nothing_to_do = reads_of_a_call();
  add_changes();
  EXPECT_EQ(reads_of_a_call(), with_nothing_to_do);
  expect_all_applied();
}

// The session ends before a step was applied, and after that. Then its name is nobody's: another process may have applied
// it with the next lock.
TEST_F(MigrationsFaults, SessionLostMeanwhile) {
  // A heartbeat for the lock is a transaction as well: none of so long a session comes before the step.
  Client client(proxy.connect_string(), {.session_timeout = 60s});
  for (const bool function : {false, true}) {
    for (const bool request : {true, false}) {
      const Session session = client.connect(patient());
      std::optional<Fault> fault;
      const auto two_more = [&] {
        add(function);
        add_changes();
      };
      auto migrating = migrate(client, two_more, [&] {
        proxy.refuse(true);  // It cannot come back.
        fault.emplace(lose(request));
      });
      EXPECT_TRUE(fault->wait(patience));
      zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
      proxy.refuse(false);
      EXPECT_EQ(result_of(migrating).size(), request ? 3U : 2U);
      expect_all_applied();
    }
  }
  EXPECT_EQ(the_operator().get("/count").data, "2");
}

TEST_F(MigrationsFaults, LockDeletedByHandMeanwhile) {
  Client client = calm_proxied();
  for (const bool function : {false, true}) {
    const std::size_t before = history.steps().size();
    std::optional<Lease> other;  // Another process has the lock then, and writes nothing yet.
    auto migrating = migrate(
        client, [&] { add(function); },
        [&] {
          delete_locks();
          other = Semaphore(the_operator(), "/locks/users", 1).acquire(patient());
        });
    EXPECT_TRUE(eventually([&] {
      return names("/locks/users/leases").size() == 2 || names("/meta/users").size() > before + 1;
    })) << "it waits for the lock, or does not";
    expect_applied(before + 1);
    other->release(patient());
    EXPECT_EQ(result_of(migrating).size(), 2U);
    expect_all_applied();
  }
}

// It is held all the same: to acquire it again would not help.
TEST_F(MigrationsFaults, TheLockMayNotBeReadAnyMore) {
  Client client = calm_proxied();
  const zkclient::AclList unreadable = {{zkclient::Acl::all & ~zkclient::Acl::read, "world", "anyone"}};
  auto migrating = migrate(
      client, [&] { add_changes(); },
      [&] {
        for (const std::string& lease : names("/locks/users/leases"))
          the_operator().set_acl(zkclient::Path("/locks/users/leases") / lease, unreadable);
      });
  EXPECT_EQ(failure_of(migrating), Errc::no_auth);
  expect_applied(1);
}

// Between what a function has read, and its write.
TEST_F(MigrationsFaults, LockDeletedByHandWhileAFunctionRuns) {
  Client client = calm_proxied();
  std::atomic<int> runs = 0;
  const std::string node = next_node();
  history.add(node, [&](OptimisticView& view) {
    view.create(node, "");
    if (++runs == 1) delete_locks();
  });
  EXPECT_EQ(migrate_all(client), (Names{node}));
  EXPECT_EQ(runs, 2) << "it was not written without the lock";
  expect_all_applied();
}

// Curator's programs make a container, which a server may delete while it is empty.
TEST_F(MigrationsFaults, FolderOfTheRecordsIsGone) {
  Client client = calm_proxied();
  const auto lose_folder = [&] { the_operator().remove("/meta/users"); };
  the_operator().create("/meta/users", "", {.mode = CreateMode::container});
  const std::string node = next_node();
  history.add(node, [&, runs = 0](OptimisticView& view) mutable {
    view.create(node, "");
    if (++runs == 1) lose_folder();
  });
  EXPECT_EQ(migrate_all(client), (Names{node}));
  expect_all_applied();

  history = MigrationSet("more");
  history.add("changes", Transaction().create("/changes"));
  auto migrating = migrate_up_to_folder(client, [&](auto&) { the_operator().remove("/meta/more"); });
  EXPECT_EQ(result_of(migrating), (Names{"changes"}));
  EXPECT_EQ(names("/meta/more").size(), 1U);
}

TEST_F(MigrationsFaults, DeadlineOrStop) {
  Client client = calm_proxied();
  std::stop_source stop;
  std::promise<void> armed;
  std::optional<zktesting::HeldReply> held;
  history.add("held", [&](OptimisticView& view) {
    view.create("/held", "");
    held.emplace(proxy.hold_next_reply(RequestType::multi));
    armed.set_value();
  });
  auto migrating = in_thread(
      [&] { return error_of([&] { make(client).migrate(history, {.deadline = soon(), .stop = stop.get_token()}); }); });
  ASSERT_EQ(armed.get_future().wait_for(patience), std::future_status::ready);
  ASSERT_TRUE(held->wait(patience));
  stop.request_stop();
  EXPECT_EQ(result_of(migrating), Errc::in_doubt);
  held->release();
  EXPECT_EQ(migrate_all(client), Names()) << "it was applied";
  add_changes();
  std::stop_source at_once;
  at_once.request_stop();
  EXPECT_EQ(error_of([&] { make(client).migrate(history, {.stop = at_once.get_token()}); }), Errc::cancelled);
  refuse_and_cut();
  EXPECT_EQ(error_of([&] { make(client).migrate(history, {.deadline = 50ms}); }), Errc::deadline_exceeded);
}

// No step was sent: only the folder of the records is in doubt.
TEST_F(MigrationsFaults, StoppedBeforeTheFirstStep) {
  Client client = calm_proxied();
  add_changes();
  std::stop_source stop;
  const auto stop_it = [&](std::future<Names>& migrating) {
    EXPECT_TRUE(the_operator().exists("/meta/users"));
    stop.request_stop();
    EXPECT_EQ(failure_of(migrating), Errc::cancelled);
  };
  (void)migrate_up_to_folder(client, stop_it, stop.get_token());
  expect_applied(0);
}

// The records do not show the step, which was sent: it may come late.
TEST_F(MigrationsFaults, StoppedBeforeTheSecondAttempt) {
  Client client = calm_proxied();
  std::stop_source stop;
  std::optional<Fault> fault;
  std::optional<zktesting::HeldReply> held;
  auto migrating = migrate(
      client, [&] { add_changes(); },
      [&] {
        fault.emplace(lose(true));
        held.emplace(proxy.hold_next_reply(RequestType::create2));
      },
      stop.get_token());
  ASSERT_TRUE(fault->wait(patience));
  ASSERT_TRUE(held->wait(patience)) << "after the records were read";
  stop.request_stop();
  EXPECT_EQ(failure_of(migrating), Errc::in_doubt);
  held->release();
  expect_applied(1);
}

// A client that is closed stands for a process that dies: another one goes on.
TEST_F(MigrationsFaults, ClientClosed) {
  Client client = calm_proxied();
  add_changes();
  const std::string node = next_node();
  history.add(node, [&, node](OptimisticView& view) {
    view.create(node, "");
    if (client.session().state() == ConnectionState::connected) client.close();
  });
  EXPECT_EQ(error_of([&] { migrate_all(client); }), Errc::closed);
  expect_applied(1);
  EXPECT_EQ(error_of([&] { (void)make(client).pending(history); }), Errc::closed);
  Client next = calm_direct();
  EXPECT_EQ(migrate_all(next), (Names{node}));
  expect_all_applied();
}

}  // namespace
}  // namespace zkrecipes
