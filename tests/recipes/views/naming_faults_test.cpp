// One test for each row of the table "What goes wrong" in <zkrecipes/naming.hpp> that needs a fault; the others are in
// naming_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include <zkclient/error.hpp>
#include <zkrecipes/naming.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

// One for each kind of fault, and one that stalls a link in the middle of a call; the others are simulated.
const testkit::OnRealServers names_on_real_servers{"NamingFaults.BindLost", "NamingFaults.SessionLostWhileBound",
                                                   "NamingFaults.RobbedHolderTakesThePermanentBindingAlong"};

class NamingFaults : public testkit::RecipeFaultTest {
 protected:
  NamingFaults() : RecipeFaultTest("/names") {}
  void TearDown() override {
    expect_no_watch_left();
    RecipeFaultTest::TearDown();
  }
  /// What another client sees.
  std::optional<Binding> seen(const std::string& name) { return Naming(the_operator(), "/names").resolve(name); }
  std::string data(const std::string& name) {
    const std::optional<Binding> binding = seen(name);
    return binding ? binding->data : "(not bound)";
  }
  bool waits(const Client& client) { return watches(client, "/names/one"); }
  std::future<Lease> wait_for_name(const Client& client) {
    auto waiting = in_thread([client] { return Naming(client, "/names").bind("one", "next", patient()); });
    EXPECT_TRUE(waits(client));
    return waiting;
  }
};

// --- Lost replies ---------------------------------------------------------------------------------------------------

TEST_F(NamingFaults, BindLost) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  for (const bool request : {true, false}) {
    for (const bool once : {true, false}) {
      auto fault = lose(request);
      std::optional<Lease> lease =
          once ? naming.try_bind("one", "data", patient()) : naming.bind("one", "data", patient());
      EXPECT_TRUE(fault.wait(patience));
      ASSERT_TRUE(lease);
      EXPECT_TRUE(lease->valid());
      EXPECT_EQ(data("one"), "data");
      EXPECT_EQ(seen("one")->token, lease->token());
      lease->release(patient());
      EXPECT_TRUE(remain(0));
    }
    auto fault = lose(request);
    Lease unique = naming.make_unique("w-", "data", patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(Naming(the_operator(), "/names").list(), std::vector<std::string>{Naming::name_of(unique)});
    unique.release(patient());
  }
  expect_nothing_left();
}

TEST_F(NamingFaults, BindPermanentLost) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  for (const RequestType type : {RequestType::create2, RequestType::multi}) {  // The former: what makes it happen once.
    for (const bool request : {true, false}) {
      Naming fresh(client, "/names");
      auto fault = lose(request, type);
      fresh.bind_permanent("one", "data", patient());
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(data("one"), "data");
      EXPECT_EQ(error_of([&] { naming.bind_permanent("one", "again", patient()); }), Errc::node_exists);
      naming.unbind("one", 0, patient());
    }
  }
}

// The name was another client's by the time the answer was missed: that is no failure of the one before it. If it is
// nobody's, it is not bound again.
TEST_F(NamingFaults, BindPermanentLostAndUnbound) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  Naming other(the_operator(), "/names");
  for (const bool bound_again : {false, true}) {
    auto held = proxy.hold_next_reply(RequestType::multi);
    auto binding = in_thread([&] { naming.bind_permanent("one", "mine", patient()); });
    ASSERT_TRUE(held.wait(patience));
    other.unbind("one", 0, patient());
    if (bound_again) other.bind_permanent("one", "theirs", patient());
    proxy.cut();
    held.release();
    if (bound_again) {
      result_of(binding);
    } else {
      EXPECT_EQ(failure_of(binding), Errc::in_doubt);
    }
    EXPECT_EQ(data("one"), bound_again ? "theirs" : "(not bound)");
  }
}

TEST_F(NamingFaults, RebindLost) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  naming.bind_permanent("one", "0", patient());
  std::int32_t version = 0;
  for (const bool request : {true, false}) {
    for (const bool any : {true, false}) {
      auto fault = lose(request);
      const std::string next = std::to_string(version + 1);
      EXPECT_EQ(naming.rebind("one", next, any ? any_version : version, patient()), version + 1);
      ++version;
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(data("one"), next);
      EXPECT_EQ(seen("one")->version, version) << "written once";
    }
    auto fault = lose(request);
    EXPECT_EQ(error_of([&] { naming.rebind("one", "late", version - 1, patient()); }), Errc::bad_version);
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(seen("one")->version, version);
  }
}

// A leader answers syncs before it has applied what was acknowledged elsewhere. A transaction finds out. (Here it is lost,
// and bound is what was acknowledged, before it is sent again.)
TEST_F(NamingFaults, RebindOfANameThatTheServerDoesNotShowYet) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  client.connect(patient());
  proxy.refuse(true);
  auto lost_request = proxy.drop_next_request(RequestType::multi);
  auto rebinding = in_thread([&] { return naming.rebind("one", "mine", any_version, patient()); });
  ASSERT_TRUE(lost_request.wait(patience));
  Naming(the_operator(), "/names").bind_permanent("one", "theirs", patient());
  proxy.refuse(false);
  EXPECT_EQ(result_of(rebinding), 1);
  EXPECT_EQ(data("one"), "mine");
}

TEST_F(NamingFaults, RebindLostAndOverwritten) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  Naming other(the_operator(), "/names");
  naming.bind_permanent("one", "0", patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto rebinding = in_thread([&] { return naming.rebind("one", "mine", 0, patient()); });
  ASSERT_TRUE(held.wait(patience));
  EXPECT_EQ(other.rebind("one", "theirs", 1, patient()), 2);
  proxy.cut();
  held.release();
  EXPECT_EQ(result_of(rebinding), 1);
  EXPECT_EQ(data("one"), "theirs");
}

TEST_F(NamingFaults, UnbindLost) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  for (const bool request : {true, false}) {
    for (const bool any : {true, false}) {
      naming.bind_permanent("one", "", patient());
      auto fault = lose(request);
      naming.unbind("one", any ? any_version : 0, patient());
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_FALSE(seen("one"));
    }
    auto fault = lose(request);
    EXPECT_EQ(error_of([&] { naming.unbind("one", 0, patient()); }), Errc::no_node);
    EXPECT_TRUE(fault.wait(patience));
  }
}

// Neither a permanent binding that came after it, nor a holder's, is taken for the one that was to go.
TEST_F(NamingFaults, UnbindLostAndBoundAgain) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  Naming other(the_operator(), "/names");
  for (const bool permanent : {true, false}) {
    naming.bind_permanent("one", "mine", patient());
    auto held = proxy.hold_next_reply(RequestType::multi);
    auto unbinding = in_thread([&] { naming.unbind("one", any_version, patient()); });
    ASSERT_TRUE(held.wait(patience));
    std::optional<Lease> lease;
    if (permanent) {
      other.bind_permanent("one", "theirs", patient());
    } else {
      lease = other.bind("one", "theirs", patient());
    }
    proxy.cut();
    held.release();
    result_of(unbinding);
    EXPECT_EQ(data("one"), "theirs");
    if (permanent) other.unbind("one", 0, patient());
    EXPECT_TRUE(!lease || lease->valid());
  }
}

/// The three writes of permanent bindings, each in its turn.
struct Write {
  std::function<void(Naming&, const CallOptions&)> run;
  std::string before;  ///< What is bound before it, and after it.
  std::string after;
};
const std::vector<Write> writes = {
    {[](Naming& naming, const CallOptions& call) { naming.bind_permanent("one", "bound", call); }, "(not bound)",
     "bound"},
    {[](Naming& naming, const CallOptions& call) { naming.rebind("one", "rebound", 0, call); }, "bound", "rebound"},
    {[](Naming& naming, const CallOptions& call) { naming.unbind("one", 1, call); }, "rebound", "(not bound)"},
};

// With the session goes what would have told; then it is not told as if it were known.
TEST_F(NamingFaults, SessionLostWhileWriting) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  for (const Write& write : writes) {
    EXPECT_EQ(data("one"), write.before);
    naming.list(patient());
    const zkclient::Session session = client.connect(patient());
    auto held = proxy.hold_next_reply(RequestType::multi);
    auto writing = in_thread([&] { return error_of([&] { write.run(naming, patient()); }); });
    ASSERT_TRUE(held.wait(patience));
    refuse_and_cut();
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    held.release();
    proxy.refuse(false);
    EXPECT_EQ(result_of(writing), Errc::in_doubt);
    EXPECT_EQ(data("one"), write.after);
  }
}

TEST_F(NamingFaults, SessionLostBeforeWriting) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  for (const Write& write : writes) {
    const zkclient::Session session = client.connect(patient());
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    auto writing = in_thread([&] { write.run(naming, patient()); });
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    proxy.refuse(false);
    result_of(writing);
    EXPECT_EQ(data("one"), write.after);
  }
  // While it makes ready: of the write itself nothing was sent.
  for (const Write& write : writes) {
    Naming fresh(client, "/names");
    const zkclient::Session session = client.connect(patient());
    auto held = proxy.hold_next_reply(RequestType::create2);
    auto writing = in_thread([&] { write.run(fresh, patient()); });
    ASSERT_TRUE(held.wait(patience));
    refuse_and_cut();
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    held.release();
    proxy.refuse(false);
    result_of(writing);
    EXPECT_EQ(data("one"), write.after);
  }
}

TEST_F(NamingFaults, DeadlineOrStopWhileWriting) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  for (const Write& write : writes) {
    naming.list(patient());
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    EXPECT_EQ(error_of([&] { write.run(naming, {.deadline = 50ms}); }), Errc::deadline_exceeded) << "nothing was sent";
    std::stop_source at_once;
    at_once.request_stop();
    EXPECT_EQ(error_of([&] { write.run(naming, {.stop = at_once.get_token()}); }), Errc::cancelled);
    EXPECT_EQ(data("one"), write.before);
    proxy.refuse(false);
    client.connect(patient());
    std::stop_source stop;
    auto held = proxy.hold_next_reply(RequestType::multi);
    auto writing =
        in_thread([&] { return error_of([&] { write.run(naming, {.deadline = soon(), .stop = stop.get_token()}); }); });
    ASSERT_TRUE(held.wait(patience));
    stop.request_stop();
    EXPECT_EQ(result_of(writing), Errc::in_doubt);
    held.release();
    EXPECT_EQ(data("one"), write.after);
  }
}

// The server removes empty containers whenever it likes.
TEST_F(NamingFaults, DirectoryRemovedAgainAndAgain) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  std::jthread reaper([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::error_code ignored;
      for (const char* node : {"/names/_c_writes", "/names"})
        the_operator().remove(node, any_version, {}, ignored);
    }
  });
  for (int i = 0; i < 15; ++i) {
    {
      Naming fresh(client, "/names");
      fresh.bind_permanent("one", "x", patient());
      fresh.unbind("one", 0, patient());
    }
    Lease lease = naming.bind("one", "y", patient());
    lease.release(patient());
  }
}

// What a robbed holder has left goes by itself between the list and the write.
TEST_F(NamingFaults, LeftoverGoesMeanwhile) {
  const Path leftover = "/names/_c_0f8fad5b-d9cb-469f-a165-70867728950e-one";
  Client client = calm_proxied();
  Naming naming(client, "/names");
  client.connect(patient());
  the_operator().create(leftover, "");
  auto held = proxy.hold_next_reply(RequestType::get_children2);
  auto binding = in_thread([&] { naming.bind_permanent("one", "mine", patient()); });
  ASSERT_TRUE(held.wait(patience));
  the_operator().remove(leftover);
  held.release();
  result_of(binding);
  EXPECT_EQ(data("one"), "mine");
}

// The holder came after the list, an operator deleted its node before the write, and the holder learns of it last.
TEST_F(NamingFaults, HolderIsRobbedBetweenTheListAndTheWrite) {
  zktesting::Proxy slow(server.connect_string());
  const Client holder(slow.connect_string(), {.session_timeout = 30s});
  Client client = calm_proxied();
  Naming naming(client, "/names");
  client.connect(patient());
  naming.bind_permanent("another", "", patient());
  auto held = proxy.hold_next_reply(RequestType::get_children2);
  auto binding = in_thread([&] { naming.bind_permanent("one", "mine", patient()); });
  ASSERT_TRUE(held.wait(patience));
  const Lease robbed = Naming(holder, "/names").bind("one", "theirs", patient());
  slow.stall(Direction::to_client);
  the_operator().remove("/names/one");
  held.release();
  result_of(binding);
  slow.unstall(Direction::to_client);
  EXPECT_TRUE(stopped(robbed.lost()));
  const Path leftover(robbed.node());
  EXPECT_TRUE(eventually([&] { return !the_operator().exists(leftover); }));
  EXPECT_EQ(data("one"), "mine");
}

// The same, but the holder learns of it at once. What it gives up is the new binding as well.
TEST_F(NamingFaults, RobbedHolderTakesThePermanentBindingAlong) {
  zktesting::Proxy slow(server.connect_string());
  const Client holder(slow.connect_string(), {.session_timeout = 30s});
  Client client = calm_proxied();
  Naming naming(client, "/names");
  client.connect(patient());
  naming.bind_permanent("another", "", patient());
  auto held = proxy.hold_next_reply(RequestType::get_children2);
  auto binding = in_thread([&] { return error_of([&] { naming.bind_permanent("one", "mine", patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  const Lease robbed = Naming(holder, "/names").bind("one", "theirs", patient());
  const Path leftover(robbed.node());
  slow.stall(Direction::to_server);
  the_operator().remove("/names/one");
  EXPECT_TRUE(stopped(robbed.lost()));
  auto written = proxy.hold_next_reply(RequestType::multi);
  held.release();
  ASSERT_TRUE(written.wait(patience));
  EXPECT_EQ(data("one"), "mine");
  slow.unstall(Direction::to_server);
  EXPECT_TRUE(eventually([&] { return !the_operator().exists(leftover); }));
  written.release();
  EXPECT_EQ(result_of(binding), Errc::in_doubt);
  EXPECT_EQ(data("one"), "(not bound)");
}

// The server refuses the second one because of the first, in a transaction that changes nothing. Then the first is given
// up, so its version is not what the second can have met.
TEST_F(NamingFaults, RefusalThatRestsOnACallThatIsGivenUp) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  for (const char* name : {"other", "one"})
    naming.bind_permanent(name, "0", patient());
  testkit::Box<zkclient::Result<std::int32_t>> first;
  testkit::Box<zkclient::Result<std::int32_t>> second;
  testkit::Box<zkclient::Result<std::int32_t>> before;
  const auto rebind = [&](const char* name, const char* data, auto& result, const CallOptions& call) {
    naming.async_rebind(
        name, data, 0, [&](auto ended) { result.put(std::move(ended)); }, call);
  };
  // While the answer to one is held, the next two wait, and then share a transaction.
  auto reply_before = proxy.hold_next_reply(RequestType::multi);
  rebind("other", "1", before, patient());
  ASSERT_TRUE(reply_before.wait(patience));
  auto reply_of_both = proxy.hold_next_reply(RequestType::multi);
  std::stop_source stop;
  rebind("one", "first", first, {.deadline = soon(), .stop = stop.get_token()});
  rebind("one", "second", second, patient());
  // A later call has ended, so these two are in the line.
  EXPECT_EQ(error_of([&] { client.sync("/", {.deadline = SteadyClock::now()}); }), Errc::deadline_exceeded);
  reply_before.release();
  ASSERT_TRUE(reply_of_both.wait(patience));
  stop.request_stop();
  EXPECT_EQ(first.take().code(), Errc::in_doubt);
  reply_of_both.release();
  const zkclient::Result<std::int32_t> ended = second.take();
  EXPECT_EQ(data("one"), ended ? "second" : "first");
}

// --- While waiting --------------------------------------------------------------------------------------------------

TEST_F(NamingFaults, ConnectionBreaksWhileWaiting) {
  Client client = calm_proxied();
  Naming other(the_operator(), "/names");
  for (const bool permanent : {true, false}) {
    std::optional<Lease> held;
    if (permanent) {
      other.bind_permanent("one", "held", patient());
    } else {
      held = other.bind("one", "held", patient());
    }
    auto waiting = wait_for_name(client);
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    if (permanent) {
      other.unbind("one", 0, patient());
    } else {
      held->release(patient());
    }
    proxy.refuse(false);
    Lease lease = result_of(waiting);
    EXPECT_EQ(data("one"), "next");
    lease.release(patient());
  }
}

TEST_F(NamingFaults, SessionLostWhileWaiting) {
  Client client = calm_direct();
  Lease held = Naming(the_operator(), "/names").bind("one", "held", patient());
  auto waiting = wait_for_name(client);
  expire(client);
  EXPECT_EQ(failure_of(waiting), Errc::session_lost);
  EXPECT_TRUE(held.valid());
  held.release(patient());
  expect_nothing_left();
}

// Nothing of a waiter or a former holder stays at the server while their client lives on.
TEST_F(NamingFaults, NoWatchIsLeftOfWhoHasGone) {
  const Client client = calm_proxied();
  Naming naming(client, "/names");
  const std::int64_t session = client.connect(patient()).id();
  const auto expect_none = [&](const char* when) {
    client.sync("/", patient());
    EXPECT_TRUE(eventually([&] {
      const auto all = testkit::watches_at(server);
      return std::none_of(all.begin(), all.end(), [&](const auto& watch) { return watch.session_id == session; });
    })) << when
        << "\n"
        << server.four_letter_word("wchp");
  };
  (void)naming.list(patient());
  (void)naming.resolve("one", patient());
  for (const bool unique : {false, true}) {
    Lease lease = unique ? naming.make_unique("w-", "data", patient()) : naming.bind("one", "data", patient());
    lease.release(patient());
  }
  { const Lease dropped = naming.bind("one", "data", patient()); }
  EXPECT_TRUE(remain(0));
  expect_none("held no more");
  Lease theirs = Naming(the_operator(), "/names").bind("one", "theirs", patient());
  for (const bool cut : {false, true}) {
    std::stop_source stop;
    auto waiting = in_thread([&] { return naming.bind("one", "ours", {.stop = stop.get_token()}); });
    EXPECT_TRUE(waits(client));
    if (cut) {
      refuse_and_cut();
      EXPECT_TRUE(reaches(client, ConnectionState::suspended));
    }
    stop.request_stop();
    EXPECT_EQ(failure_of(waiting), Errc::cancelled);
    proxy.refuse(false);
    expect_none("given up");
  }
  theirs.release(patient());
  EXPECT_TRUE(remain(0));
}

// --- While bound ----------------------------------------------------------------------------------------------------

TEST_F(NamingFaults, SessionLostWhileBound) {
  Client client = calm_direct();
  Naming naming(client, "/names");
  naming.bind_permanent("stays", "x", patient());
  Lease lease = naming.bind("one", "mine", patient());
  auto waiting = wait_for_name(the_operator());
  expire(client);
  ASSERT_TRUE(stopped(lease.lost()));
  EXPECT_EQ(lease.state(), LeaseState::lost);
  const Lease next = result_of(waiting);
  EXPECT_GT(next.token(), lease.token());
  EXPECT_EQ(data("stays"), "x");
  EXPECT_EQ(error_of([&] { lease.release(patient()); }), Errc::not_held);
  EXPECT_TRUE(next.valid());
  naming.unbind("stays", 0, patient());  // With the next session.
}

TEST_F(NamingFaults, ConnectionBreaksWhileBound) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  Lease lease = naming.bind("one", "mine", patient());
  const auto created = seen("one")->token;
  refuse_and_cut();
  ASSERT_TRUE(eventually([&] { return lease.state() == LeaseState::uncertain; }));
  EXPECT_TRUE(lease.valid());
  EXPECT_FALSE(Naming(the_operator(), "/names").try_bind("one", "theirs"));
  const auto until = lease.valid_until();
  proxy.refuse(false);
  ASSERT_TRUE(eventually([&] { return lease.state() == LeaseState::held; }));
  ASSERT_TRUE(eventually([&] { return lease.valid_until() > until; })) << "the proof is renewed";
  EXPECT_FALSE(lease.lost().stop_requested());
  EXPECT_EQ(seen("one")->token, created) << "the node is untouched";
  lease.release(patient());
  expect_nothing_left();
}

// A holder that was cut off knows before another client binds the name, in either way.
TEST_F(NamingFaults, PartitionedPastExpiryWhileBound) {
  const testkit::StallWatch stalls;
  Client client = contended_proxied();
  Naming naming(client, "/names");
  Lease lease = naming.bind("one", "mine", patient());
  Lease second = naming.bind("two", "mine", patient());
  auto waiting = wait_for_name(the_operator());
  proxy.stall(Direction::both);
  auto permanent = in_thread([&] {
    Naming other(the_operator(), "/names");
    EXPECT_TRUE(eventually([&] {
      try {
        other.bind_permanent("two", "for good", patient());
        return true;
      } catch (const Error& error) {
        if (error.errc() != Errc::node_exists) throw;
        return false;
      }
    }));
    EXPECT_FALSE(second.valid());
    EXPECT_TRUE(second.lost().stop_requested() || stalls.seen()) << "told before it was bound for good";
  });
  const Lease next = result_of(waiting);
  EXPECT_FALSE(lease.valid());
  EXPECT_TRUE(lease.lost().stop_requested() || stalls.seen()) << "told before the other one has it";
  EXPECT_GT(next.token(), lease.token());
  result_of(permanent);
  proxy.unstall(Direction::both);
  EXPECT_EQ(error_of([&] { lease.release(patient()); }), Errc::not_held);
  EXPECT_TRUE(next.valid());
  EXPECT_EQ(data("two"), "for good");
}

TEST_F(NamingFaults, ReleaseLost) {
  Client client = calm_proxied();
  Naming naming(client, "/names");
  for (const bool request : {true, false}) {
    Lease lease = naming.bind("one", "mine", patient());
    auto fault = lose(request);
    lease.release(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_FALSE(seen("one")) << "it waited until the node was gone";
    EXPECT_EQ(lease.state(), LeaseState::released);
  }
  expect_nothing_left();
}

TEST_F(NamingFaults, ClientClosed) {
  Client client = calm_direct();
  Naming naming(client, "/names");
  naming.bind_permanent("stays", "x", patient());
  const Lease lease = naming.bind("one", "mine", patient());
  auto waiting = in_thread([&] { return naming.bind("one", "again", patient()); });
  ASSERT_TRUE(waits(client));
  client.close();
  EXPECT_EQ(failure_of(waiting), Errc::closed);
  EXPECT_TRUE(lease.lost().stop_requested());
  EXPECT_EQ(lease.state(), LeaseState::lost);
  EXPECT_TRUE(eventually([&] { return !seen("one"); }));
  EXPECT_EQ(data("stays"), "x");
  EXPECT_EQ(error_of([&] { (void)naming.bind("one", "", patient()); }), Errc::closed);
  EXPECT_EQ(error_of([&] { naming.bind_permanent("two", "", patient()); }), Errc::closed);
  EXPECT_EQ(error_of([&] { naming.rebind("stays", "", 0, patient()); }), Errc::closed);
  EXPECT_EQ(error_of([&] { naming.unbind("stays", 0, patient()); }), Errc::closed);
  EXPECT_EQ(error_of([&] { (void)naming.resolve("stays", patient()); }), Errc::closed);
  EXPECT_EQ(error_of([&] { (void)naming.list(patient()); }), Errc::closed);
}

}  // namespace
}  // namespace zkrecipes
