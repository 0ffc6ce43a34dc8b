// One test for each row of the table "What goes wrong" in <zkrecipes/migrations.hpp> that needs a fault; the others are in
// migrations_test.cpp.

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/migrations.hpp>
#include <zkrecipes/semaphore.hpp>

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
  MigrationsFaults() : RecipeFaultTest("/meta") {}
  static Migrations make(const Client& client) { return Migrations(client, "/locks", "/meta"); }
  /// Of changes, and of a function that a second application would show.
  static MigrationSet set(std::size_t steps, bool functions = false) {
    MigrationSet set("users");
    for (std::size_t i = 1; i <= steps; ++i) {
      const std::string node = "/node-" + std::to_string(i);
      if (functions) {
        set.add(node, [node](OptimisticView& view) {
          view.create(node, "");
          view.set("/count", std::to_string(std::stoi(view.get("/count")) + 1));
        });
      } else {
        set.add(node, Transaction().create(node).create(node + "/below"));
      }
    }
    return set;
  }
  void expect_applied(std::size_t steps) {
    EXPECT_EQ(names("/meta/users").size(), steps);
    for (std::size_t i = 1; i <= steps + 1; ++i)
      EXPECT_EQ(the_operator().exists("/node-" + std::to_string(i)).has_value(), i <= steps) << i;
  }
  /// While the records are read, `arm` is called: the next transaction is that of a step. Needs a record.
  template <typename Arm>
  std::future<Names> migrate(const Client& client, const MigrationSet& more, Arm arm) {
    auto reading = proxy.hold_next_reply(RequestType::get_data);
    auto migrating = in_thread([client, more] { return make(client).migrate(more, patient()); });
    EXPECT_TRUE(reading.wait(patience));
    arm();
    reading.release();
    return migrating;
  }
  void delete_locks() {
    for (const std::string& lease : names("/locks/users/leases"))
      the_operator().remove(zkclient::Path("/locks/users/leases") / lease);
  }
};

TEST_F(MigrationsFaults, StepLost) {
  Client client = calm_proxied();
  std::size_t steps = 1;
  make(client).migrate(set(steps), patient());
  for (const bool request : {true, false}) {
    std::optional<Fault> fault;
    auto migrating = migrate(client, set(steps + 2), [&] { fault.emplace(lose(request)); });
    EXPECT_EQ(result_of(migrating).size(), 2U);
    EXPECT_TRUE(fault->wait(patience));
    expect_applied(steps += 2);
  }
}

// Whatever request it is: the lock's, the folder's, the first step's.
TEST_F(MigrationsFaults, TheFirstRequestOfEachKindIsLost) {
  std::size_t steps = 0;
  for (const RequestType type :
       {RequestType::multi, RequestType::create2, RequestType::get_children2, RequestType::sync, RequestType::any}) {
    for (const bool request : {true, false}) {
      Client client = calm_proxied();
      client.connect(patient());
      auto fault = lose(request, type);
      EXPECT_EQ(make(client).migrate(set(++steps), patient()).size(), 1U);
      fault.cancel();
      expect_applied(steps);
    }
  }
}

TEST_F(MigrationsFaults, FunctionLost) {
  the_operator().create("/count", "0");
  Client client = calm_proxied();
  std::size_t steps = 0;
  for (const bool request : {true, false}) {
    for (const RequestType type : {RequestType::multi, RequestType::create2, RequestType::get_data}) {
      auto fault = lose(request, type);
      EXPECT_EQ(make(client).migrate(set(++steps, true), patient()).size(), 1U);
      EXPECT_TRUE(fault.wait(patience));
      expect_applied(steps);
      EXPECT_EQ(the_operator().get("/count").data, std::to_string(steps));
    }
  }
}

TEST_F(MigrationsFaults, ReadLost) {
  Client client = calm_proxied();
  make(client).migrate(set(1), patient());
  for (const RequestType type : {RequestType::get_data, RequestType::get_children2}) {
    for (const bool request : {true, false}) {
      auto fault = lose(request, type);
      EXPECT_EQ(make(client).pending(set(2), patient()).size(), 1U);
      EXPECT_TRUE(fault.wait(patience));
    }
  }
}

// The session ends when a step was applied, and before it was.
TEST_F(MigrationsFaults, SessionLostMeanwhile) {
  the_operator().create("/count", "0");
  Client client = calm_proxied();
  for (const bool functions : {false, true}) {
    std::size_t steps = 1;
    MigrationSet before = set(steps, functions);
    make(client).migrate(before, patient());
    for (const bool request : {true, false}) {
      const Session session = client.connect(patient());
      std::optional<Fault> fault;
      auto migrating = migrate(client, set(steps + 2, functions), [&] {
        proxy.refuse(true);  // It cannot come back.
        fault.emplace(lose(request));
      });
      EXPECT_TRUE(fault->wait(patience));
      zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
      proxy.refuse(false);
      EXPECT_EQ(result_of(migrating).size(), 2U);
      expect_applied(steps += 2);
    }
    EXPECT_EQ(the_operator().get("/count").data, std::to_string(functions ? steps : 0));
    for (std::size_t i = 1; i <= steps; ++i)
      the_operator().remove_tree("/node-" + std::to_string(i));
    the_operator().remove_tree("/meta/users");
  }
}

TEST_F(MigrationsFaults, LockDeletedByHandMeanwhile) {
  Client client = calm_proxied();
  make(client).migrate(set(1), patient());
  // Another process has the lock then, and writes nothing yet.
  std::optional<Lease> other;
  auto migrating = migrate(client, set(3), [&] {
    delete_locks();
    other = Semaphore(the_operator(), "/locks/users", 1).acquire(patient());
  });
  EXPECT_TRUE(eventually([&] { return names("/locks/users/leases").size() == 2 || names("/meta/users").size() > 1; }));
  expect_applied(1);
  other->release(patient());
  EXPECT_EQ(result_of(migrating).size(), 2U);
  expect_applied(3);
  // Between what a function has read, and its write.
  std::atomic<int> runs = 0;
  MigrationSet more = set(3);
  more.add("robbed", [&](OptimisticView& view) {
    view.create("/robbed", "");
    if (++runs == 1) delete_locks();
  });
  EXPECT_EQ(make(client).migrate(more, patient()), (Names{"robbed"}));
  EXPECT_EQ(runs, 2) << "it was not written without the lock";
  EXPECT_EQ(names("/meta/users").size(), 4U);
}

TEST_F(MigrationsFaults, DeadlineOrStop) {
  Client client = calm_proxied();
  make(client).migrate(set(1), patient());
  std::stop_source stop;
  std::optional<zktesting::HeldReply> held;
  std::atomic<bool> armed = false;
  MigrationSet more = set(1);
  more.add("held", [&](OptimisticView& view) {
    view.create("/held", "");
    held.emplace(proxy.hold_next_reply(RequestType::multi));
    armed = true;
  });
  auto migrating = in_thread(
      [&] { return error_of([&] { make(client).migrate(more, {.deadline = soon(), .stop = stop.get_token()}); }); });
  ASSERT_TRUE(eventually([&] { return armed.load(); }));
  ASSERT_TRUE(held->wait(patience));
  stop.request_stop();
  EXPECT_EQ(result_of(migrating), Errc::in_doubt);
  held->release();
  EXPECT_EQ(make(client).migrate(more, patient()), Names()) << "it was applied";
  std::stop_source at_once;
  at_once.request_stop();
  EXPECT_EQ(error_of([&] { make(client).migrate(set(2), {.stop = at_once.get_token()}); }), Errc::cancelled);
  refuse_and_cut();
  EXPECT_EQ(error_of([&] { make(client).migrate(set(2), {.deadline = 50ms}); }), Errc::deadline_exceeded);
}

// A client that is closed stands for a process that dies: another one goes on.
TEST_F(MigrationsFaults, ClientClosed) {
  Client client = calm_proxied();
  MigrationSet more = set(1);
  more.add("closes", [&](OptimisticView& view) {
    view.create("/closed", "");
    if (view.attempt() == 1 && client.session().state() == ConnectionState::connected) client.close();
  });
  EXPECT_EQ(error_of([&] { make(client).migrate(more, patient()); }), Errc::closed);
  expect_applied(1);
  EXPECT_FALSE(the_operator().exists("/closed"));
  EXPECT_EQ(error_of([&] { (void)make(client).pending(more); }), Errc::closed);
  Client next = calm_direct();
  EXPECT_EQ(make(next).migrate(more, patient()), (Names{"closes"}));
}

}  // namespace
}  // namespace zkrecipes
