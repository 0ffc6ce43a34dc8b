// One test for each row of the table "What goes wrong" in <zkrecipes/coherent_cache.hpp> that needs a fault, and recorded
// histories; the others are in coherent_cache_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/coherent_cache.hpp>
#include <zktesting/ensemble.hpp>

#include "storm/checkers/linearizable.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using storm::Operation;

const testkit::OnRealServers coherent_on_real_servers{"CoherentFaults.WriteLost",
                                                      "CoherentFaults.V73AReaderThatIsCutOffLosesItsLeaseBeforeAWrite",
                                                      "CoherentFaults.HistoriesUnderFaultsAreLinearizable"};

/// Null if that does not work.
CoherentItemPtr get_or_null(CoherentCache& cache, std::string_view name, const CallOptions& call) {
  try {
    return cache.get(name, call);
  } catch (const zkclient::Error&) {
    return nullptr;
  }
}

class CoherentFaults : public testkit::RecipeFaultTest {
 protected:
  static constexpr auto term = 1000ms;

  CoherentFaults() : RecipeFaultTest("/coherent") { the_operator().set("/coherent", "coherent 1 shards=1"); }
  static CoherentCache make(const Client& client, std::chrono::milliseconds lease = term) {
    return CoherentCache(client, "/coherent", {.lease_term = lease});
  }
  static std::string data(CoherentCache& cache) { return cache.get("a", patient())->data; }
  /// Its session lives on for a minute: long enough to be told from a lease's term on a machine that stalls.
  Client long_lived_proxied() {
    const Client client(proxy.connect_string(), {.session_timeout = 60s});
    client.create("/alive", "", {.mode = zkclient::CreateMode::ephemeral}, patient());
    return client;
  }
  bool its_session_lives() { return the_operator().exists("/alive").has_value(); }
  std::string gate() {
    std::error_code error;
    return the_operator().get("/coherent/gates/0", {}, error).data;
  }
  bool gate_is(std::string_view word) {
    return eventually([&] { return gate().starts_with(word); });
  }
  std::string value() { return the_operator().get("/coherent/items/a").data; }
  std::size_t holders() { return names("/coherent/holders/0").size(); }
  /// As a writer that closes the gate, and then does nothing more.
  void close_gate(const Client& client) {
    const auto version = client.get("/coherent/gates/0").stat.version;
    Transaction close;
    close.set("/coherent/gates/0", "closed by-hand", version);
    close.create("/coherent/writers/0", "", {.mode = zkclient::CreateMode::ephemeral});
    client.commit(close, patient());
  }
};

// --- Readers that are there, ask, or do not answer ------------------------------------------------------------------

TEST_F(CoherentFaults, V71ReadersThatKeepAskingDoNotHoldUpWrites) {
  std::vector<Client> clients;
  std::vector<CoherentCache> readers;
  for (int i = 0; i < 5; ++i)
    clients.push_back(calm_direct());
  for (int i = 0; i < 50; ++i)
    readers.push_back(make(clients[static_cast<std::size_t>(i % 5)]));
  CoherentCache writer = make(the_operator());
  writer.put("a", "0", patient());
  EXPECT_EQ(data(readers.front()), "0");
  std::atomic<int> written{0};
  std::atomic<bool> ended{false};
  std::vector<std::future<void>> reading;
  for (std::size_t i = 0; i < 5; ++i) {
    reading.push_back(in_thread([&, i] {
      for (std::size_t n = i; !ended; n = (n + 5) % readers.size()) {
        const int before = written;
        EXPECT_GE(std::stoi(data(readers[n])), before);
      }
    }));
  }
  // On a slow machine the first ones may find no reader, as its lease has run out.
  for (int i = 1; i <= 20 || (i <= 2000 && writer.statistics().closings == 0); ++i) {
    writer.put("a", std::to_string(i), patient());
    written = i;
  }
  ended = true;
  for (auto& one : reading)
    result_of(one);
  EXPECT_GT(writer.statistics().closings, 0U);
}

// While a write waits for a reader that does not answer, others go on reading, and nobody gets a lease.
TEST_F(CoherentFaults, V72ReadsDuringAPendingWriteDoNotWaitAndAreNotCached) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  const Client silent_client = calm_proxied();
  CoherentCache silent = make(silent_client, 15s);
  EXPECT_EQ(data(silent), "1");
  const Client quick_client = calm_direct();
  CoherentCache quick = make(quick_client, 15s);  // So it does not just run out.
  EXPECT_EQ(data(quick), "1");
  EXPECT_EQ(quick.statistics().leases, 1U);

  proxy.stall(Direction::both);
  auto writing = in_thread([&] { writer.put("a", "2", patient()); });
  ASSERT_TRUE(gate_is("closed"));
  ASSERT_TRUE(eventually([&] { return quick.statistics().leases == 0; })) << "it was told to let go";
  ASSERT_TRUE(eventually([&] { return holders() == 1; })) << "the silent one's is left";
  const auto before = quick.statistics();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(data(quick), "1");
  EXPECT_EQ(quick.statistics().hits, before.hits);
  EXPECT_EQ(quick.statistics().fills, before.fills);
  EXPECT_EQ(writing.wait_for(0s), std::future_status::timeout) << "the reads did not wait for it";
  EXPECT_EQ(holders(), 1U);

  proxy.unstall(Direction::both);  // It hears of the gate, and lets go: no waiting for its term.
  result_of(writing);
  EXPECT_EQ(data(quick), "2");
  EXPECT_EQ(data(silent), "2");
}

// What was read is old by the time that it registers: it gets no lease for that, and asks again.
TEST_F(CoherentFaults, AWriteBetweenTheLookOfAReadAndItsRegistration) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  const Client client = calm_proxied();
  CoherentCache reader = make(client);
  EXPECT_FALSE(reader.get("other", patient())->exists);
  for (int i = 2; i < 6; ++i) {
    writer.put("a", "0", patient());
    ASSERT_TRUE(eventually([&] { return reader.statistics().leases == 0; }));
    const auto fills = reader.statistics().fills;
    auto held = proxy.hold_next_reply(RequestType::get_data);
    auto reading = in_thread([&] { return data(reader); });
    ASSERT_TRUE(held.wait(patience));
    const std::string next = std::to_string(i);
    writer.put("a", next, patient());
    held.release();
    EXPECT_EQ(result_of(reading), next);
    EXPECT_EQ(reader.statistics().fills, fills);
    EXPECT_EQ(data(reader), next);
  }
}

// Told by the watch of the gate, the readers let go: a write does not wait for their terms.
TEST_F(CoherentFaults, ReadersAreToldToLetGo) {
  CoherentCache writer = make(the_operator());
  const Client client = long_lived_proxied();
  CoherentCache reader = make(client, 35s);
  writer.put("a", "0", patient());
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(data(reader), std::to_string(i - 1));
    const std::size_t farewells = proxy.request_count(RequestType::remove);
    writer.put("a", std::to_string(i), patient());
    EXPECT_GT(proxy.request_count(RequestType::remove), farewells) << "it has not waited for the term";
  }
  EXPECT_EQ(writer.statistics().closings, 10U);
}

// Nothing passes, and nothing is closed: the reader goes on with what it has until its lease has run out.
TEST_F(CoherentFaults, V73AReaderThatIsCutOffLosesItsLeaseBeforeAWrite) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  const Client client = long_lived_proxied();
  CoherentCache reader = make(client);
  EXPECT_EQ(data(reader), "1");
  for (const Direction direction : {Direction::both, Direction::to_client, Direction::to_server}) {
    std::size_t hits = 0;
    // Again, if the lease was over before the first read: it has run out, or the event of the gate was quicker.
    for (int attempt = 0; attempt < 20 && hits == 0; ++attempt) {
      writer.put("a", "1", patient());
      EXPECT_EQ(data(reader), "1");
      proxy.stall(direction);
      std::atomic<bool> written{false};
      auto writing = in_thread([&] {
        writer.put("a", "2", patient());
        written = true;
      });
      for (;;) {
        const bool late = written;
        const CoherentItemPtr item = get_or_null(reader, "a", {.deadline = SteadyClock::now()});
        if (item == nullptr) break;
        EXPECT_FALSE(late) << "a read that began after the write has returned";
        EXPECT_EQ(item->data, "1");
        ++hits;
      }
      result_of(writing);
      EXPECT_TRUE(its_session_lives()) << "the write has not waited for its end";
      proxy.unstall(direction);
      EXPECT_EQ(data(reader), "2");
    }
    EXPECT_GT(hits, 0U);
  }
}

TEST_F(CoherentFaults, V73AReaderThatIsGoneDelaysAWriteByItsTermAtMost) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  const Client client = long_lived_proxied();
  CoherentCache reader = make(client);
  // Again, if its lease had run out before: then its registration is gone, or its farewell was sent.
  ASSERT_TRUE(eventually([&] {
    proxy.refuse(false);
    EXPECT_EQ(data(reader), "1");
    refuse_and_cut();
    return reader.statistics().leases == 1 && holders() == 1;
  }));
  writer.put("a", "2", patient());
  EXPECT_TRUE(its_session_lives()) << "the write has not waited for its end";
  EXPECT_EQ(holders(), 0U) << "the write has removed it";
  writer.put("a", "3", patient());
  EXPECT_EQ(writer.statistics().closings, 1U) << "once";
  proxy.refuse(false);
  EXPECT_EQ(data(reader), "3");
}

TEST_F(CoherentFaults, V74AFarewellThatIsLostIsRepeated) {
  CoherentCache writer = make(the_operator());
  const Client client = long_lived_proxied();
  CoherentCache reader = make(client, 35s);
  writer.put("a", "0", patient());
  int written = 0;
  for (const bool request : {true, false}) {
    EXPECT_EQ(data(reader), std::to_string(written));
    const std::size_t farewells = proxy.request_count(RequestType::remove);
    auto fault = lose(request, RequestType::remove);
    writer.put("a", std::to_string(++written), patient());
    EXPECT_TRUE(fault.happened());
    const std::size_t sent = proxy.request_count(RequestType::remove) - farewells;
    EXPECT_GE(sent, request ? 2U : 1U) << "it has not waited for the term";
    EXPECT_EQ(data(reader), std::to_string(written));
  }
}

// --- Messages that are lost -----------------------------------------------------------------------------------------

TEST_F(CoherentFaults, WriteLost) {
  const Client client = calm_proxied();
  CoherentCache writer = make(client);
  CoherentCache reader = make(the_operator());
  int version = 0;
  writer.put("a", "first", patient());
  for (const bool request : {true, false}) {
    for (int lost = 0; lost <= 3; ++lost) {  // With a reader: the attempt without a closing, the closing, the commit.
      if (lost > 0) (void)data(reader);
      std::vector<zktesting::Fault> faults;
      for (int i = 0; i < std::max(lost, 1); ++i)
        faults.push_back(lose(request, RequestType::multi));
      const std::string next = std::to_string(++version);
      writer.put("a", next, patient());
      for (const zktesting::Fault& fault : faults)
        EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(value(), next);
      EXPECT_TRUE(gate().starts_with("open"));
      EXPECT_EQ(data(reader), next);
    }
  }
  const auto stat = the_operator().get("/coherent/items/a").stat;
  EXPECT_EQ(stat.version, version) << "each one once";
}

TEST_F(CoherentFaults, ReadLost) {
  CoherentCache writer = make(the_operator());
  const Client client = calm_proxied();
  CoherentCache reader = make(client);
  int version = 0;
  for (const RequestType type : {RequestType::get_data, RequestType::multi}) {
    for (const bool request : {true, false}) {
      writer.put("a", std::to_string(++version), patient());
      auto fault = lose(request, type);
      EXPECT_EQ(data(reader), std::to_string(version));
      EXPECT_TRUE(fault.wait(patience));
    }
  }
  EXPECT_TRUE(eventually([&] { return holders() <= 1; })) << "a registration in doubt is removed";
}

// --- Writers that die -----------------------------------------------------------------------------------------------

TEST_F(CoherentFaults, V75WriterDiesAfterItClosedAGate) {
  for (const bool by_read : {true, false}) {
    const Client client = calm_direct();
    CoherentCache reader = make(client);
    CoherentCache writer = make(the_operator());
    writer.put("a", "1", patient());
    EXPECT_EQ(data(reader), "1");
    std::optional<Client> dying(calm_direct());
    close_gate(*dying);
    EXPECT_TRUE(eventually([&] { return reader.statistics().leases == 0; }));
    EXPECT_EQ(data(reader), "1");
    EXPECT_EQ(reader.statistics().leases, 0U);
    EXPECT_TRUE(gate().starts_with("closed")) << "its writer is alive";
    dying->close();
    ASSERT_TRUE(eventually([&] { return !the_operator().exists("/coherent/writers/0"); }));
    if (by_read) {
      EXPECT_EQ(data(reader), "1");
      EXPECT_TRUE(gate_is("open"));
      EXPECT_TRUE(eventually([&] {
        (void)data(reader);
        return reader.statistics().leases == 1;
      }));
    } else {
      writer.put("a", "2", patient());
      EXPECT_EQ(data(reader), "2");
    }
  }
}

TEST_F(CoherentFaults, AWriterWaitsForAnotherOneThatIsAlive) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  std::optional<Client> slow(calm_direct());
  close_gate(*slow);
  auto writing = in_thread([&] { writer.put("a", "2", patient()); });
  ASSERT_TRUE(eventually([&] { return server.watch_count() >= 2; }));
  EXPECT_EQ(writing.wait_for(0s), std::future_status::timeout);
  EXPECT_EQ(value(), "1");
  slow->close();
  result_of(writing);
  EXPECT_EQ(value(), "2");
}

TEST_F(CoherentFaults, V75SessionLostDuringAWrite) {
  for (const bool applied : {true, false}) {
    for (const bool with_reader : {false, true}) {
      const Client client = calm_proxied();
      CoherentCache writer = make(client);
      writer.put("a", "before", patient());
      const Client other = calm_direct();
      CoherentCache reader = make(other);
      if (with_reader) (void)data(reader);
      const auto session = client.connect(patient());
      std::optional<zktesting::HeldReply> held;
      std::optional<zktesting::Fault> fault;
      if (applied) {
        held.emplace(proxy.hold_next_reply(RequestType::multi));
      } else {
        proxy.refuse(true);
        fault.emplace(proxy.drop_next_request(RequestType::multi));
      }
      auto writing = in_thread([&] { writer.put("a", "after", patient()); });
      if (applied) {
        ASSERT_TRUE(held->wait(patience));
      } else {
        ASSERT_TRUE(fault->wait(patience));
      }
      proxy.refuse(true);
      zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
      proxy.cut();
      proxy.refuse(false);
      if (held) held->release();
      result_of(writing);
      EXPECT_EQ(value(), "after");
      EXPECT_EQ(data(reader), "after");
    }
  }
}

// What it would have told was overwritten by the time that it is asked.
TEST_F(CoherentFaults, V75InDoubtWhenTheGateCannotTell) {
  const Client client = calm_proxied();
  CoherentCache writer = make(client, 15s);  // It renews no lease meanwhile.
  CoherentCache other = make(the_operator());
  writer.put("a", "before", patient());
  EXPECT_EQ(data(writer), "before");
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto writing = in_thread([&] { writer.put("a", "mine", patient()); });
  ASSERT_TRUE(held.wait(patience));
  EXPECT_EQ(value(), "mine");
  other.put("a", "of the other", patient());
  proxy.refuse(true);
  expire(client);
  proxy.cut();
  proxy.refuse(false);
  held.release();
  EXPECT_EQ(failure_of(writing), Errc::in_doubt);
  EXPECT_EQ(writer.peek("a"), nullptr) << "what it had in memory may have been overwritten by itself";
  EXPECT_EQ(value(), "of the other");
}

// --- Callers that give up -------------------------------------------------------------------------------------------

TEST_F(CoherentFaults, DeadlineOrStopDuringAWrite) {
  const Client client = calm_proxied();
  CoherentCache writer = make(client, 15s);  // It renews no lease meanwhile.
  writer.put("a", "1", patient());
  for (const bool stopped : {false, true}) {
    EXPECT_EQ(data(writer), value());
    auto held = proxy.hold_next_reply(RequestType::multi);
    const std::string next = stopped ? "3" : "2";
    std::optional<Errc> failure = Errc::deadline_exceeded;
    // Again, with more time, if the deadline was there before the write was sent.
    for (auto limit = 300ms; failure == Errc::deadline_exceeded && limit < 20s; limit *= 2) {
      std::stop_source stop;
      const CallOptions call{.deadline = stopped ? soon() : SteadyClock::now() + limit, .stop = stop.get_token()};
      auto writing = in_thread([&] { writer.put("a", next, call); });
      if (stopped) {
        ASSERT_TRUE(held.wait(patience));
        stop.request_stop();
      }
      failure = failure_of(writing);
    }
    EXPECT_EQ(failure, Errc::in_doubt);
    EXPECT_EQ(writer.peek("a"), nullptr);
    ASSERT_TRUE(held.wait(patience));
    held.release();
    EXPECT_TRUE(eventually([&] { return value() == next; }));
  }
}

// It waits for a reader: nothing was written, and the gate is opened again.
TEST_F(CoherentFaults, DeadlineOrStopBeforeAWriteIsSent) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  const Client client = calm_proxied();
  CoherentCache reader = make(client, 15s);
  EXPECT_EQ(data(reader), "1");
  proxy.stall(Direction::both);
  for (const bool stopped : {false, true}) {
    bool closed = false;
    std::optional<Errc> failure;
    // Again, with more time, if the deadline was there before the gate was seen closed.
    for (auto limit = 500ms; !closed && limit < 5s; limit *= 2) {
      std::stop_source stop;
      const CallOptions call{.deadline = stopped ? soon() : SteadyClock::now() + limit, .stop = stop.get_token()};
      auto writing = in_thread([&] { writer.put("a", "2", call); });
      EXPECT_TRUE(eventually([&] {
        const bool ended = writing.wait_for(0s) == std::future_status::ready;
        closed = gate().starts_with("closed");
        return closed || ended;
      }));
      if (stopped) stop.request_stop();
      failure = failure_of(writing);
      EXPECT_TRUE(gate_is("open"));
    }
    EXPECT_TRUE(closed);
    EXPECT_EQ(failure, stopped ? Errc::cancelled : Errc::deadline_exceeded);
    EXPECT_EQ(value(), "1");
    EXPECT_FALSE(the_operator().exists("/coherent/writers/0"));
  }
  proxy.unstall(Direction::both);
}

// Each attempt is shorter than the term of a reader that is gone: together they outlast it.
TEST_F(CoherentFaults, AWriterThatGaveUpHasWaitedForTheNextOne) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  const Client client = calm_proxied();
  CoherentCache reader = make(client, 2000ms);
  // Again, if its lease had run out before: then its registration is gone, or its farewell was sent.
  ASSERT_TRUE(eventually([&] {
    proxy.unstall(Direction::both);
    EXPECT_EQ(data(reader), "1");
    proxy.stall(Direction::both);
    return reader.statistics().leases == 1 && holders() == 1;
  }));
  int attempts = 1;
  const auto writes = [&] {
    try {
      writer.put("a", "2", {.deadline = SteadyClock::now() + 700ms});
      return true;
    } catch (const zkclient::Error& error) {
      EXPECT_TRUE(gate_is("open"));
      const bool written = value() == "2";
      // In doubt, if a transaction was on its way just then: it may have been the one that writes.
      const bool in_doubt = error.errc() == Errc::in_doubt;
      EXPECT_TRUE(in_doubt || error.errc() == Errc::deadline_exceeded) << error.what();
      EXPECT_TRUE(in_doubt || !written);
      return written;
    }
  };
  while (attempts < 20 && !writes())
    ++attempts;
  EXPECT_GT(attempts, 1);
  EXPECT_LT(attempts, 20);
  EXPECT_EQ(value(), "2");
  EXPECT_EQ(holders(), 0U);
  proxy.unstall(Direction::both);
  EXPECT_EQ(data(reader), "2");
}

// --- Nodes of others --------------------------------------------------------------------------------------------------

// The first one is listed with the readers, and no writer can remove it.
TEST_F(CoherentFaults, NodesWithChildrenOfOthersAreToldOf) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  the_operator().create("/coherent/holders/0/another", "");
  the_operator().create("/coherent/holders/0/another/child", "");
  for (const bool alone : {true, false}) {
    if (!alone) the_operator().create("/coherent/holders/0/a-third", "");
    EXPECT_EQ(error_of([&] { writer.put("a", "2", patient()); }), Errc::foreign_node);
    EXPECT_TRUE(gate_is("open"));
    EXPECT_EQ(value(), "1");
  }
  the_operator().remove_tree("/coherent/holders/0/another", patient());
  writer.put("a", "2", patient());
  EXPECT_EQ(value(), "2");
  the_operator().create("/coherent/items/a/child", "");
  EXPECT_EQ(error_of([&] { writer.remove("a", patient()); }), Errc::foreign_node);
}

// --- Gates whose writer does not know them --------------------------------------------------------------------------

/// The answer to a transaction is lost, and its repetition, in the same session, cannot tell: the slot is gone.
class CoherentDoubts : public CoherentFaults {
 protected:
  void remove_slots() {
    for (const std::string& slot : names("/coherent/_c_writes"))
      the_operator().remove(Path("/coherent/_c_writes") / slot);
  }
  /// The reader that makes the writer close the gate.
  void begin_to_read() { EXPECT_EQ(data(reader_), "1"); }
  /// Holds the answer to the closing of the next write.
  zktesting::HeldReply hold_closing(const std::function<void()>& begin) {
    auto refused = proxy.hold_next_reply(RequestType::multi);  // The attempt without a closing.
    begin();
    EXPECT_TRUE(refused.wait(patience));
    auto closing = proxy.hold_next_reply(RequestType::multi);
    refused.release();
    EXPECT_TRUE(closing.wait(patience));
    EXPECT_TRUE(gate().starts_with("closed"));
    return closing;
  }

  const Client reading_ = calm_direct();
  CoherentCache reader_ = make(reading_, 15s);  // It lets go when it is told, not before.
};

TEST_F(CoherentDoubts, AClosingThatNoAnswerTellsOfIsFoundOut) {
  const Client client = calm_proxied();
  CoherentCache writer = make(client);
  writer.put("a", "1", patient());
  begin_to_read();
  std::future<void> writing;
  auto held = hold_closing([&] { writing = in_thread([&] { writer.put("a", "2", patient()); }); });
  remove_slots();
  proxy.cut();
  held.release();
  result_of(writing);
  EXPECT_EQ(value(), "2");
  EXPECT_TRUE(gate().starts_with("open"));
  EXPECT_EQ(data(reader_), "2");
}

TEST_F(CoherentDoubts, AClosingThatNobodyWantsAnyMoreIsUndone) {
  const Client client = calm_proxied();
  CoherentCache writer = make(client);
  writer.put("a", "1", patient());
  begin_to_read();
  std::stop_source stop;
  std::future<void> writing;
  auto held = hold_closing(
      [&] { writing = in_thread([&] { writer.put("a", "2", {.deadline = soon(), .stop = stop.get_token()}); }); });
  stop.request_stop();
  EXPECT_EQ(failure_of(writing), Errc::cancelled);
  remove_slots();
  proxy.cut();
  held.release();
  EXPECT_TRUE(gate_is("open"));
  EXPECT_EQ(value(), "1");
}

// The one that commits: what became of it is not known, and the gate is still closed by this writer.
TEST_F(CoherentDoubts, ACommitThatNoAnswerTellsOfLeavesNoGateClosed) {
  const Client client = calm_proxied();
  CoherentCache writer = make(client);
  writer.put("a", "1", patient());
  begin_to_read();
  std::future<void> writing;
  auto held = hold_closing([&] { writing = in_thread([&] { writer.put("a", "2", patient()); }); });
  EXPECT_TRUE(eventually([&] { return holders() == 0; }));
  proxy.refuse(true);
  auto commit = proxy.drop_next_request(RequestType::multi);
  held.release();
  ASSERT_TRUE(commit.wait(patience));
  remove_slots();
  proxy.refuse(false);
  result_of(writing);
  EXPECT_EQ(value(), "2");
  EXPECT_TRUE(gate().starts_with("open"));
}

// Nothing but this writer may open it while its session lives.
TEST_F(CoherentDoubts, AGateThatCouldNotBeOpenedIsOpenedAgain) {
  const Client client = calm_proxied();
  CoherentCache writer = make(client);
  writer.put("a", "1", patient());
  zktesting::Proxy other(server.connect_string());
  const Client silent_client(other.connect_string(), {.session_timeout = calm});
  CoherentCache silent = make(silent_client, 15s);
  EXPECT_EQ(data(silent), "1");
  other.stall(Direction::both);
  std::stop_source stop;
  auto writing = in_thread([&] { writer.put("a", "2", {.deadline = soon(), .stop = stop.get_token()}); });
  ASSERT_TRUE(gate_is("closed"));
  proxy.refuse(true);
  auto opening = proxy.drop_next_request(RequestType::multi);
  stop.request_stop();
  EXPECT_EQ(failure_of(writing), Errc::cancelled);
  ASSERT_TRUE(opening.wait(patience));
  EXPECT_TRUE(gate().starts_with("closed"));
  remove_slots();
  proxy.refuse(false);
  EXPECT_TRUE(gate_is("open"));
  EXPECT_EQ(value(), "1");
  EXPECT_FALSE(the_operator().exists("/coherent/writers/0"));
}

// --- Closing --------------------------------------------------------------------------------------------------------

// Whatever they wait for: the server, or another read's registration.
TEST_F(CoherentFaults, ClosingEndsReadsUnderWay) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  const Client client = calm_proxied();
  for (const bool opened : {false, true}) {
    CoherentCache reader = make(client);
    if (opened) {
      EXPECT_EQ(data(reader), "1");
      writer.put("a", "1", patient());
      ASSERT_TRUE(eventually([&] { return reader.statistics().leases == 0; }));
    }
    auto held = proxy.hold_next_reply(RequestType::get_data);
    std::vector<std::future<CoherentItemPtr>> reading;
    for (int i = 0; i < 3; ++i)
      reading.push_back(in_thread([&] { return reader.get("a", patient()); }));
    ASSERT_TRUE(held.wait(patience));
    ASSERT_TRUE(eventually([&] { return reader.statistics().misses >= (opened ? 4U : 0U); }));
    reader.close();
    for (auto& one : reading)
      EXPECT_EQ(failure_of(one), Errc::closed);
    held.release();
  }
  EXPECT_TRUE(eventually([&] { return holders() == 0; }));
}

// --- Sessions -------------------------------------------------------------------------------------------------------

TEST_F(CoherentFaults, SessionLostBetweenReads) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  const Client client = calm_proxied();
  CoherentCache reader = make(client);
  EXPECT_EQ(data(reader), "1");
  expire(client);
  writer.put("a", "2", patient());
  EXPECT_EQ(writer.statistics().closings, 0U) << "its registration went with the session";
  EXPECT_TRUE(eventually([&] { return data(reader) == "2" && reader.statistics().leases == 1; }));
}

// No lease could live there, so no registration makes writers wait.
TEST_F(CoherentFaults, AnswersAreTooSlowForLeases) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  const Client client(proxy.connect_string(), {.session_timeout = session_timeout, .server_tick = 3000ms});
  CoherentCache reader = make(client);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(data(reader), "1");
  EXPECT_EQ(reader.statistics().hits, 0U);
  EXPECT_EQ(reader.statistics().leases, 0U);
  EXPECT_EQ(holders(), 0U);
  writer.put("a", "2", patient());
  EXPECT_EQ(data(reader), "2");
  EXPECT_EQ(writer.statistics().closings, 0U);
}

TEST_F(CoherentFaults, AConnectionThatComesBackFindsTheLeaseAlive) {
  CoherentCache writer = make(the_operator());
  writer.put("a", "1", patient());
  const Client client = calm_proxied();
  CoherentCache reader = make(client, 15s);
  EXPECT_EQ(data(reader), "1");
  const auto misses = reader.statistics().misses;
  for (int i = 0; i < 5; ++i) {
    const std::size_t connections = proxy.accepted_connections();
    proxy.cut();
    ASSERT_TRUE(eventually([&] { return proxy.accepted_connections() > connections; }));
    EXPECT_EQ(data(reader), "1");
  }
  EXPECT_EQ(reader.statistics().misses, misses);
  writer.put("a", "2", patient());
  EXPECT_EQ(data(reader), "2");
}

// --- Histories ------------------------------------------------------------------------------------------------------

/// Records what clients do to a few items.
class History {
 public:
  static std::int64_t now() { return SteadyClock::now().time_since_epoch() / 1ns; }

  void add(int item, Operation operation) {
    const std::lock_guard lock(mutex_);
    of_item_[item].push_back(operation);
  }
  void read(CoherentCache& cache, int item) {
    Operation operation;
    operation.kind = Operation::read;
    operation.begin = now();
    const CoherentItemPtr found = get_or_null(cache, name(item), {.deadline = SteadyClock::now() + 300ms});
    operation.end = now();
    if (found == nullptr) return;
    operation.value = found->exists ? std::stoll(found->data) : Operation::absent;
    add(item, operation);
  }
  void write(CoherentCache& cache, int item) {
    Operation operation;
    operation.kind = Operation::write;
    operation.value = ++last_value_;
    operation.begin = now();
    try {
      cache.put(name(item), std::to_string(operation.value), {.deadline = SteadyClock::now() + 1500ms});
      operation.end = now();
    } catch (const zkclient::Error& error) {
      if (error.errc() != Errc::in_doubt) return;
      operation.end = Operation::never;
    }
    add(item, operation);
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    std::size_t operations = 0;
    for (const auto& [item, history] : of_item_)
      operations += history.size();
    return operations;
  }
  void expect_linearizable() {
    for (const auto& [item, history] : of_item_) {
      const storm::LinearizabilityVerdict verdict = storm::judge_operations(history);
      EXPECT_NE(verdict.answer, storm::LinearizabilityVerdict::undecided);
      if (verdict.answer != storm::LinearizabilityVerdict::refused) continue;
      ADD_FAILURE() << "item " << item << ": no order of " << history.size() << " operations explains the "
                    << to_string(verdict.culprit) << around(history, verdict.culprit);
    }
    EXPECT_GT(size(), 100U);
  }
  static std::string name(int item) { return "item-" + std::to_string(item); }
  /// Those of about the same time, in microseconds after its begin.
  static std::string around(std::vector<Operation> history, const Operation& one) {
    std::sort(history.begin(), history.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    std::string text;
    std::int64_t last = Operation::absent;
    for (const Operation& other : history) {
      const bool write = other.kind == Operation::write;
      const std::int64_t begin = (other.begin - one.begin) / 1000;
      if (begin < -3'000'000 || begin > 1'000'000 || (!write && other.value == last && begin != 0)) continue;
      if (!write) last = other.value;
      text += "\n  " + std::string(write ? "write " : "read ") + std::to_string(other.value) + " from " +
              std::to_string(begin) + " to " +
              (other.end == Operation::never ? "?" : std::to_string((other.end - one.begin) / 1000));
    }
    return text;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<Operation>> of_item_;
  std::atomic<std::int64_t> last_value_{0};
};

/// Clients, each with a proxy of its own, that read and write, while everything happens to their connections.
TEST_F(CoherentFaults, HistoriesUnderFaultsAreLinearizable) {
  the_operator().set("/coherent", "coherent 1 shards=2");
  struct Peer {
    Peer(const std::string& hosts, std::chrono::milliseconds timeout, std::chrono::milliseconds lease)
        : proxy(hosts),
          client(proxy.connect_string(), {.session_timeout = timeout, .server_tick = testkit::server_tick}),
          cache(client, "/coherent", {.lease_term = lease}) {}
    zktesting::Proxy proxy;
    Client client;
    CoherentCache cache;
  };
  std::vector<std::unique_ptr<Peer>> peers;
  for (const auto timeout : {2000ms, 4000ms, 30000ms, 30000ms})
    peers.push_back(std::make_unique<Peer>(server.connect_string(), timeout, timeout > 4000ms ? 700ms : 0ms));
  History history;
  std::atomic<bool> ended{false};
  std::vector<std::future<void>> acting;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    acting.push_back(in_thread([&, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      while (!ended) {
        const int item = static_cast<int>(random() % 3);
        const bool writes = i == 0 || i == 3 ? random() % 8 == 0 : false;
        writes ? history.write(peers[i]->cache, item) : history.read(peers[i]->cache, item);
        std::this_thread::sleep_for(2ms);  // The pace of the clients: a part of the experiment.
      }
    }));
  }
  const auto hits = [&] {
    std::uint64_t sum = 0;
    for (const auto& peer : peers)
      sum += peer->cache.statistics().hits;
    return sum;
  };
  const auto enough = [&] { return hits() > 50 && history.size() > 100; };  // That takes a slow machine longer.
  std::mt19937 random(std::random_device{}());
  for (int fault = 0; fault < 14 || (fault < 100 && !enough()); ++fault) {
    Peer& peer = *peers[random() % peers.size()];
    switch (random() % 6) {
      case 0: peer.proxy.cut(); break;
      case 1: (void)peer.proxy.drop_next_reply(RequestType::multi); break;
      case 2: (void)peer.proxy.drop_next_reply(RequestType::remove); break;
      default: {
        const Direction direction =
            std::vector<Direction>{Direction::both, Direction::to_client, Direction::to_server}[random() % 3];
        peer.proxy.stall(direction);
        testkit::let_age(std::chrono::milliseconds(random() % 900));
        peer.proxy.unstall(direction);
      }
    }
    testkit::let_age(150ms);
  }
  ended = true;
  for (auto& one : acting)
    result_of(one);
  EXPECT_GT(hits(), 50U);
  history.expect_linearizable();
}

// --- A follower that is cut off -------------------------------------------------------------------------------------

class CoherentEnsembleFaults : public ::testing::Test {
 protected:
  static zktesting::EnsembleOptions options() {
    zktesting::EnsembleOptions options;
    options.sync_limit = 8;  // So long, 4 s, an isolated follower goes on serving.
    return options;
  }
  zktesting::Ensemble ensemble_{options()};
};

// It goes on answering reads, and hears of no write.
TEST_F(CoherentEnsembleFaults, V76AReaderOnACutOffFollowerLosesItsLeaseBeforeAWrite) {
  ASSERT_FALSE(ensemble_.followers().empty());
  const std::size_t follower = ensemble_.followers().front();
  const std::size_t other = follower == 0 ? 1 : 0;
  const Client near(ensemble_.connect_string(other), {.session_timeout = 20s});
  const Client far(ensemble_.connect_string(follower), {.session_timeout = 20s});
  CoherentCache writer(near, "/coherent", {.shards = 1});
  CoherentCache reader(far, "/coherent", {.lease_term = 1500ms});
  for (const zktesting::Isolation mode : {zktesting::Isolation::freeze, zktesting::Isolation::deaf}) {
    std::size_t hits = 0;
    // Again, if the lease had run out before the first read.
    for (int attempt = 0; attempt < 20 && hits == 0; ++attempt) {
      writer.put("a", "1", patient());
      // A server that has not heard of the open gate yet gives no lease.
      const auto leased = [&] { return reader.get("a", patient())->data == "1" && reader.statistics().leases == 1; };
      ASSERT_TRUE(eventually(leased));
      ensemble_.isolate(follower, mode);
      auto writing = in_thread([&] { writer.put("a", "2", patient()); });
      for (bool late = false; !late;) {
        late = writing.wait_for(0s) == std::future_status::ready;
        const CoherentItemPtr item = get_or_null(reader, "a", {.deadline = SteadyClock::now() + 20ms});
        if (item == nullptr) continue;
        EXPECT_FALSE(late && item->data == "1") << "a read that began after the write has returned";
        if (item->data == "1") ++hits;
      }
      result_of(writing);
      ensemble_.heal(follower);
      EXPECT_EQ(reader.get("a", patient())->data, "2");
    }
    EXPECT_GT(hits, 0U);
  }
}

}  // namespace
}  // namespace zkrecipes
