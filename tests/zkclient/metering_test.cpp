#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <zkclient/client.hpp>
#include <zkclient/log.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zktesting/expire.hpp>

#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using zkclient::Metrics;
using zkclient::Observer;
using zkclient::Span;
using zkrecipes::Lease;
using zkrecipes::Mutex;
using zkrecipes::Semaphore;
using Counter = Metrics::Counter;
using Gauge = Metrics::Gauge;
using Timing = Metrics::Timing;

// The wall clock may be set while a test runs. What it showed a moment ago is compared no closer than that.
bool is_of_today(std::chrono::system_clock::time_point time) {
  return std::chrono::abs(time - std::chrono::system_clock::now()) < std::chrono::hours(24);
}

// --- Metrics ---------------------------------------------------------------------------------------------------------

class MetricsTest : public testkit::FaultTest {
 protected:
  /// Its session ends by nothing but what the test does.
  static constexpr auto calm = 30s;
  Client counted(std::chrono::milliseconds timeout = calm) {
    return Client(proxy.connect_string(), {.session_timeout = timeout, .metrics = metrics});
  }
  void expire(const Session& session) const {
    const auto credentials = session.credentials();
    zktesting::expire(server.connect_string(), credentials.id, credentials.password);
  }
  std::uint64_t value(Counter counter) const { return metrics->value(counter); }
  std::int64_t value(Gauge gauge) const { return metrics->value(gauge); }
  std::uint64_t count(Timing timing) const { return metrics->histogram(timing).count(); }

  const std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
};

TEST_F(MetricsTest, ASessionsLifeIsCounted) {
  {
    const Client client = counted();
    const Session session = client.connect(patient());
    EXPECT_EQ(value(Counter::sessions_opened), 1u);
    EXPECT_EQ(value(Counter::connections_opened), 1u);
    EXPECT_EQ(value(Gauge::sessions_connected), 1);
    proxy.cut();
    EXPECT_TRUE(eventually([&] { return value(Counter::connections_opened) == 2; }));
    EXPECT_EQ(value(Counter::connections_lost), 1u);
    EXPECT_GE(value(Counter::attempts_failed), 1u);
    EXPECT_EQ(value(Counter::sessions_opened), 1u) << "it is the same session";
    expire(session);
    EXPECT_TRUE(eventually([&] { return value(Counter::sessions_opened) == 2; }));
    EXPECT_EQ(value(Counter::sessions_expired), 1u);
    client.connect(patient());
    EXPECT_EQ(value(Gauge::sessions_connected), 1);
    EXPECT_EQ(value(Counter::sessions_closed), 0u);
  }
  EXPECT_EQ(value(Counter::sessions_closed), 1u);
  EXPECT_EQ(value(Gauge::sessions_connected), 0);
  EXPECT_EQ(value(Gauge::requests_pending), 0);
  EXPECT_EQ(value(Counter::sessions_given_up) + value(Counter::sessions_refused), 0u);
}

TEST_F(MetricsTest, ASessionWithoutAServerIsGivenUp) {
  const Client client = counted(session_timeout);
  client.connect(patient());
  proxy.refuse(true);
  proxy.cut();
  EXPECT_TRUE(eventually([&] { return value(Gauge::sessions_connected) == 0; }));  // From now on.
  EXPECT_TRUE(eventually([&] { return value(Counter::sessions_given_up) >= 1; }));
  EXPECT_EQ(value(Gauge::sessions_connected), 0);
  proxy.refuse(false);
}

TEST_F(MetricsTest, ASessionWhoseCredentialsAreRefused) {
  const Client client = counted();
  client.connect(patient());
  EXPECT_EQ(error_of([&] { client.add_auth("unknown", "secret", patient()); }), Errc::auth_failed);
  EXPECT_TRUE(eventually([&] { return value(Counter::sessions_refused) == 1; }));
}

TEST_F(MetricsTest, RequestsAreCountedByWhatBecomesOfThem) {
  const Client client = counted();
  client.connect(patient());
  EXPECT_EQ(value(Counter::reads) + value(Counter::writes), 0u);
  client.create("/n", "x");
  EXPECT_EQ(client.get("/n").data, "x");
  EXPECT_EQ(error_of([&] { client.get("/none"); }), Errc::no_node);
  EXPECT_EQ(value(Counter::writes), 1u);
  EXPECT_EQ(value(Counter::reads), 2u);
  EXPECT_EQ(count(Timing::write), 1u);
  EXPECT_EQ(count(Timing::read), 2u);
  EXPECT_EQ(value(Counter::calls_failed), 1u);
  EXPECT_EQ(value(Counter::retries), 0u);
  auto fault = proxy.drop_next_reply(zktesting::RequestType::get_data);
  EXPECT_EQ(client.get("/n", patient()).data, "x");
  EXPECT_TRUE(fault.wait(patience));
  EXPECT_EQ(value(Counter::reads), 3u) << "once, though it was sent twice";
  EXPECT_GE(value(Counter::retries), 1u);
  fault = proxy.drop_next_reply(zktesting::RequestType::set_data);
  EXPECT_EQ(error_of([&] { client.set("/n", "y", zkclient::any_version, patient()); }), Errc::in_doubt);
  EXPECT_EQ(value(Counter::requests_in_doubt), 1u);
  EXPECT_EQ(count(Timing::write), 1u) << "it has no answer";
  EXPECT_EQ(value(Counter::requests_unsent), 0u);
  proxy.refuse(true);
  proxy.cut();
  ASSERT_TRUE(eventually([&] { return client.session().state() == ConnectionState::suspended; }));
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { client.get("/n", {.stop = stop.get_token()}); }); });
  EXPECT_TRUE(eventually([&] { return value(Gauge::requests_pending) == 1; }));
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
  EXPECT_EQ(value(Counter::requests_unsent), 1u);
  EXPECT_EQ(error_of([&] { client.get("/n", {.deadline = SteadyClock::now() - 1s}); }), Errc::deadline_exceeded);
  EXPECT_EQ(value(Counter::requests_unsent), 2u) << "also one that never began";
  EXPECT_EQ(value(Gauge::requests_pending), 0);
  proxy.refuse(false);
}

TEST_F(MetricsTest, LeasesAndWaitsAreCounted) {
  const Client client = counted();
  Mutex mutex(client, "/lock");
  Lease lease = mutex.acquire(patient());
  EXPECT_EQ(value(Counter::leases_granted), 1u);
  EXPECT_EQ(value(Gauge::leases_held), 1);
  EXPECT_EQ(count(Timing::call_wait), 1u);
  Mutex other(client, "/lock");
  auto waiting = in_thread([&] { return other.acquire(patient()); });
  EXPECT_TRUE(eventually([&] { return value(Gauge::calls_waiting) == 1; }));
  EXPECT_TRUE(eventually([&] { return count(Timing::heartbeat) > 0 && count(Timing::validity_left) > 0; }));
  EXPECT_LE(metrics->histogram(Timing::validity_left).least(), 2 * calm);
  lease.release(patient());
  Lease second = result_of(waiting);
  EXPECT_EQ(value(Counter::leases_released), 1u);
  EXPECT_EQ(value(Counter::leases_granted), 2u);
  EXPECT_EQ(value(Gauge::calls_waiting), 0);
  EXPECT_EQ(count(Timing::lease_held), 1u);
  const Client by_hand(server.connect_string(), {.session_timeout = calm});
  by_hand.remove(Path(second.node()), any_version, patient());
  EXPECT_TRUE(stopped(second.lost()));
  EXPECT_EQ(value(Counter::leases_lost), 1u);
  EXPECT_EQ(value(Gauge::leases_held), 0);
  std::optional<Lease> third = mutex.try_acquire(patient());
  ASSERT_TRUE(third);
  EXPECT_EQ(value(Gauge::leases_held), 1);
  third.reset();  // Without waiting.
  EXPECT_EQ(value(Gauge::leases_held), 0);
  EXPECT_EQ(value(Counter::leases_released), 2u);
}

// The holder that watches over its lease waits for nobody, and its end is no failure.
TEST_F(MetricsTest, AWatchOverALeaseIsNoCall) {
  const Client client = counted();
  Mutex mutex(client, "/lock");
  Lease lease = mutex.acquire(patient());
  Box<std::error_code> over;
  lease.async_lost([&](Result<void> result) { over.put(result.code()); });
  client.sync("/", patient());  // It has begun.
  EXPECT_EQ(value(Gauge::calls_waiting), 0);
  lease.release(patient());
  EXPECT_EQ(over.take(), Errc::not_held);
  EXPECT_EQ(value(Counter::calls_failed), 0u);
  EXPECT_EQ(count(Timing::call_wait), 1u) << "that of the acquisition";
}

TEST_F(MetricsTest, APermitIsOneLease) {
  const Client client = counted();
  Semaphore semaphore(client, "/permits", 1);
  Lease permit = semaphore.acquire(patient());
  EXPECT_EQ(value(Counter::leases_granted), 1u);
  EXPECT_EQ(value(Gauge::leases_held), 1);
  auto waiting = in_thread([&] { return semaphore.acquire(patient()); });
  // It has its turn when its node stands beside the holder's.
  ASSERT_TRUE(eventually([&] { return client.children("/permits/leases", patient()).names.size() == 2; }));
  EXPECT_EQ(value(Gauge::leases_held), 1) << "who waits has nothing";
  permit.release(patient());
  result_of(waiting).release(patient());
  EXPECT_EQ(value(Counter::leases_granted), 2u);
  EXPECT_EQ(value(Counter::leases_released), 2u);
}

// An executor may drop what it is given: the leadership goes with its handler.
TEST_F(MetricsTest, ALeaseThatNobodyTookIsNotHeldForEver) {
  std::atomic<bool> drops{false};
  zkclient::Runtime runtime({.callback_executor = [&](std::function<void()> task) {
    if (!drops) std::thread(std::move(task)).detach();
  }});
  Client client(runtime, proxy.connect_string(), {.session_timeout = calm, .metrics = metrics});
  client.connect(patient());
  const Client observer = direct();
  zkrecipes::LeaderElection election(client, "/election");
  drops = true;
  election.async_campaign([](Result<zkrecipes::Leadership>) {}, patient());
  EXPECT_TRUE(eventually([&] { return value(Counter::leases_granted) == 1; }));
  EXPECT_TRUE(eventually([&] { return value(Gauge::leases_held) == 0; }));
  const auto candidates = [&] {
    std::error_code error;
    return observer.children("/election", patient(), error).names.size();
  };
  EXPECT_TRUE(eventually([&] { return candidates() == 0; })) << "the next one may lead";
  drops = false;
  client.close();
}

// A listener that is slow delays its next events, and nothing else would show that.
TEST_F(MetricsTest, ASlowListenersNextEventIsLate) {
  const auto start = SteadyClock::now();
  const Client client = counted();
  client.connect(patient());
  Box<bool> begun;
  Box<bool> go_on;
  Box<bool> again;
  Box<ConnectionState> told;
  std::atomic<int> calls{0};
  const auto subscription = client.on_state_change([&](const zkclient::StateChange&) {
    if (calls++ > 0) return again.put(true);
    begun.put(true);
    (void)go_on.take();
  });
  EXPECT_TRUE(begun.take());
  // It is told after the slow one, whose event waits by then.
  const auto quick = client.on_state_change([&](const zkclient::StateChange& change) { told.put(change.state); });
  proxy.cut();
  (void)told.take_until([](const ConnectionState& state) { return state == ConnectionState::suspended; });
  const auto waits_since = SteadyClock::now();
  ASSERT_TRUE(eventually([&] { return SteadyClock::now() - waits_since >= 100ms; }));
  go_on.put(true);
  EXPECT_TRUE(again.take());
  const auto longest = metrics->histogram(Timing::callback_delay).most();
  EXPECT_GE(longest, 100ms);
  EXPECT_LE(longest, 2 * (SteadyClock::now() - start));
}

// A program that ends well is no reason for an alert.
TEST_F(MetricsTest, ALeaseOfAClientThatIsClosedIsGivenBackAndNotLost) {
  Client client = counted();
  Mutex mutex(client, "/lock");
  const Lease lease = mutex.acquire(patient());
  client.close();
  EXPECT_EQ(value(Counter::leases_released), 1u);
  EXPECT_EQ(value(Counter::leases_lost), 0u);
  EXPECT_EQ(value(Gauge::leases_held), 0);
}

TEST_F(MetricsTest, HandlersAndWatchEventsAreCounted) {
  const Client client = counted();
  client.create("/n", "", {}, patient());
  const std::uint64_t before = count(Timing::callback_delay);
  Box<bool> ended;
  client.async_get(
      "/n", [&](Result<zkclient::NodeData> result) { ended.put(result.has_value()); }, patient());
  EXPECT_TRUE(ended.take());
  EXPECT_GE(count(Timing::callback_delay), before + 1);
  EXPECT_EQ(value(Counter::watch_events), 0u);
  Box<WatchEventType> events;
  const auto watched = client.get_and_watch(
      "/n", [&](const WatchEvent& event) { events.put(event.type); }, patient());
  client.set("/n", "x", any_version, patient());
  EXPECT_EQ(events.take(), WatchEventType::data_changed);
  EXPECT_EQ(value(Counter::watch_events), 1u);
}

TEST_F(MetricsTest, ClientsAddUp) {
  const Client first = counted();
  first.connect(patient());
  {
    const Client second = counted();
    second.connect(patient());
    EXPECT_EQ(value(Counter::sessions_opened), 2u);
    EXPECT_EQ(value(Gauge::sessions_connected), 2);
  }
  EXPECT_EQ(value(Counter::sessions_opened), 2u);
  EXPECT_EQ(value(Gauge::sessions_connected), 1);
}

// --- Observer --------------------------------------------------------------------------------------------------------

// A span whose texts it owns.
struct Seen {
  Span::Kind kind;
  std::string operation;
  std::string path;
  std::chrono::system_clock::time_point begin;
  std::chrono::nanoseconds duration;
  std::error_code error;
  std::string detail;
  std::int64_t session;
  std::int64_t token;
  std::thread::id captured;  // That of the thread that called.
};

class SpanJournal : public Observer {
 public:
  std::shared_ptr<const void> capture() override {
    return std::make_shared<const std::thread::id>(std::this_thread::get_id());
  }
  void on_span(const Span& span, const std::shared_ptr<const void>& context) override {
    const auto* const thread = static_cast<const std::thread::id*>(context.get());
    spans.put({span.kind, std::string(span.operation), std::string(span.path), span.begin, span.duration, span.error,
               std::string(span.detail), span.session, span.token, thread != nullptr ? *thread : std::thread::id()});
  }
  Seen next(Span::Kind kind) {
    return spans.take_until([kind](const Seen& span) { return span.kind == kind; });
  }
  Box<Seen> spans;
};

class ObserverTest : public testkit::FaultTest {
 protected:
  Client observed(std::shared_ptr<Observer> observer) {
    return Client(proxy.connect_string(), {.session_timeout = 30s, .observer = std::move(observer)});
  }
  const std::shared_ptr<SpanJournal> journal = std::make_shared<SpanJournal>();
};

TEST_F(ObserverTest, CallsAreSpans) {
  const Client client = observed(journal);
  client.connect(patient());
  EXPECT_EQ(journal->next(Span::Kind::call).operation, "connect");
  client.create("/n", "x", {}, patient());
  const Seen created = journal->next(Span::Kind::call);
  EXPECT_EQ(created.operation, "create");
  EXPECT_EQ(created.path, "/n");
  EXPECT_FALSE(created.error);
  EXPECT_GT(created.duration, 0ns);
  EXPECT_TRUE(is_of_today(created.begin));
  EXPECT_EQ(created.session, client.session().id());
  EXPECT_EQ(created.captured, std::this_thread::get_id());
  Box<bool> ended;
  std::thread([&] {
    client.async_get(
        "/none", [&](Result<zkclient::NodeData> result) { ended.put(result.has_value()); }, patient());
  }).join();
  EXPECT_FALSE(ended.take());
  const Seen read = journal->next(Span::Kind::call);
  EXPECT_EQ(read.operation, "get");
  EXPECT_EQ(read.error, Errc::no_node);
  EXPECT_NE(read.captured, std::this_thread::get_id()) << "that of the caller";
  EXPECT_NE(read.captured, std::thread::id());
}

TEST_F(ObserverTest, LeasesAndHeartbeatsAreSpans) {
  const Client client = observed(journal);
  Mutex mutex(client, "/lock");
  Lease lease = mutex.acquire(patient());
  const Seen acquired = journal->next(Span::Kind::call);
  EXPECT_EQ(acquired.operation, "mutex acquire");
  EXPECT_EQ(acquired.path, "/lock");
  const Seen beat = journal->next(Span::Kind::heartbeat);
  EXPECT_FALSE(beat.error);
  EXPECT_GT(beat.duration, 0ns);
  EXPECT_EQ(beat.captured, std::thread::id());
  const std::string node = lease.node();
  const std::int64_t token = lease.token().value;
  lease.release(patient());
  const Seen released = journal->next(Span::Kind::lease);
  EXPECT_EQ(released.path, node);
  EXPECT_EQ(released.token, token);
  EXPECT_FALSE(released.error);
  const Lease second = mutex.acquire(patient());
  const Client by_hand(server.connect_string(), {.session_timeout = 30s});
  by_hand.remove(Path(second.node()), any_version, patient());
  EXPECT_TRUE(stopped(second.lost()));
  const Seen lost = journal->next(Span::Kind::lease);
  EXPECT_EQ(lost.error, Errc::not_held);
  EXPECT_NE(lost.detail, "");
  EXPECT_EQ(lost.token, second.token().value);
}

TEST_F(ObserverTest, AClosedClientHasToldEverythingAndTellsNothingAnyMore) {
  Client client = observed(journal);
  client.connect(patient());
  client.create("/n", "", {}, patient());
  client.close();
  EXPECT_EQ(journal->spans.size(), 2u);
  EXPECT_EQ(error_of([&] { client.get("/n"); }), Errc::closed);
  EXPECT_EQ(journal->spans.size(), 2u);
}

class Thrower : public Observer {
 public:
  std::shared_ptr<const void> capture() override { throw std::runtime_error("capture"); }
  void on_span(const Span&, const std::shared_ptr<const void>& context) override {
    contexts.put(context);
    throw std::runtime_error("span");
  }
  Box<std::shared_ptr<const void>> contexts;
};

TEST_F(ObserverTest, ExceptionsAreIgnored) {
  const auto thrower = std::make_shared<Thrower>();
  const Client client = observed(thrower);
  client.create("/n", "", {}, patient());
  EXPECT_EQ(client.get("/n", patient()).data, "");
  EXPECT_EQ(thrower->contexts.take(), nullptr);
  EXPECT_EQ(thrower->contexts.take(), nullptr);
}

class Sleeper : public Observer {
 public:
  void on_span(const Span&, const std::shared_ptr<const void>&) override {
    (void)may_go.wait(lock);
    ++told;
  }
  struct Gate {
    bool wait(std::mutex& mutex) {
      std::unique_lock held(mutex);
      return changed.wait_for(held, patience, [this] { return open; });
    }
    std::condition_variable changed;
    bool open = false;
  } may_go;
  std::mutex lock;
  std::atomic<int> told{0};
};

// One that hangs costs the client nothing but its spans.
TEST_F(ObserverTest, SpansThatPileUpAreDropped) {
  const auto sleeper = std::make_shared<Sleeper>();
  Client client = observed(sleeper);
  client.connect(patient());
  constexpr int calls = 1500;
  for (int i = 0; i < calls; ++i)
    (void)client.exists("/n", patient());
  EXPECT_EQ(sleeper->told, 0);
  {
    const std::lock_guard guard(sleeper->lock);
    sleeper->may_go.open = true;
    sleeper->may_go.changed.notify_all();
  }
  client.close();
  EXPECT_GE(sleeper->told, 1000);
  EXPECT_LE(sleeper->told, 1002) << "those that waited, and the one that hung";
}

// --- Log records -----------------------------------------------------------------------------------------------------

struct KeptRecord {
  zkclient::LogLevel level;
  std::string message;
  std::chrono::system_clock::time_point time;
  std::string source;
  std::int64_t session;
  std::string server;
  std::string path;
};

class LogRecordTest : public testkit::FaultTest {
 protected:
  LogRecordTest() {
    zkclient::set_log_record_handler([this](const zkclient::LogRecord& record) {
      records.put({record.level, std::string(record.message), record.time, std::string(record.source), record.session,
                   std::string(record.server), std::string(record.path)});
    });
    zkclient::set_log_level(zkclient::LogLevel::info);
  }
  ~LogRecordTest() override {
    zkclient::set_log_level(zkclient::LogLevel::error);
    zkclient::set_log_record_handler({});
  }
  KeptRecord next(const std::string& text) {
    return records.take_until([&](const KeptRecord& record) { return record.message.find(text) != std::string::npos; });
  }
  Box<KeptRecord> records;
};

TEST_F(LogRecordTest, FieldsSayWhatAMessageIsAbout) {
  const Client client(proxy.connect_string(), {.session_timeout = 30s});
  const std::int64_t id = client.connect(patient()).id();
  const KeptRecord opened = next(": opened at ");
  EXPECT_EQ(opened.level, zkclient::LogLevel::info);
  EXPECT_EQ(opened.session, id);
  EXPECT_EQ(opened.server, proxy.connect_string());
  EXPECT_EQ(opened.source, "zkclient");
  EXPECT_EQ(opened.path, "");
  EXPECT_TRUE(is_of_today(opened.time));
  proxy.cut();
  const KeptRecord suspended = next(": the connection was lost");
  EXPECT_EQ(suspended.session, id);
  EXPECT_EQ(suspended.server, proxy.connect_string());
  client.connect(patient());
  Mutex mutex(client, "/lock");
  const Lease lease = mutex.acquire(patient());
  client.remove(Path(lease.node()), any_version, patient());
  const KeptRecord lost = next("lease lost");
  EXPECT_EQ(lost.level, zkclient::LogLevel::warning);
  EXPECT_EQ(lost.source, "zkrecipes");
  EXPECT_EQ(lost.path, lease.node());
}

TEST_F(LogRecordTest, TheHandlerThatWasSetLastIsTheOnlyOne) {
  Box<std::string> texts;
  zkclient::set_log_handler([&](zkclient::LogLevel, std::string_view text) { texts.put(std::string(text)); });
  const Client client(proxy.connect_string(), {.session_timeout = 30s});
  client.connect(patient());
  (void)texts.take_until([](const std::string& text) { return text.find(": opened at ") != std::string::npos; });
  EXPECT_TRUE(records.empty());
  zkclient::set_log_handler({});
}

}  // namespace
