#include "storm/workloads/calls.hpp"

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <zkrecipes/asio.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/queue.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/workloads/operation_notes.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr const char* calls_lock = "/calls/lock";
constexpr const char* calls_queue = "/calls/queue";
constexpr const char* calls_counter = "/calls/counter";
constexpr const char* the_count = "count";
constexpr auto longest_hold = 15s;

zkclient::ClientOptions client_options(Place& place) {
  const std::chrono::milliseconds drawn(2000 + place.below(8000));
  return {.session_timeout = std::max(drawn, place.tick()),  // No lease lives on a session of less than a tick.
          .server_tick = place.tick(),
          .operation_timeout = 10s};
}

Operation one_more() { return {Operation::add, 0, 0, 1}; }
Operation counted(const zkrecipes::CounterChange& change) {
  return {Operation::change, 0, 0, change.after, change.before};
}

/// Two of each, which know nothing of each other.
struct Recipes {
  explicit Recipes(zkclient::Client& client)
      : mutexes{zkrecipes::Mutex(client, calls_lock), zkrecipes::Mutex(client, calls_lock)},
        queues{zkrecipes::Queue(client, calls_queue), zkrecipes::Queue(client, calls_queue)},
        counters{zkrecipes::Counter(client, calls_counter), zkrecipes::Counter(client, calls_counter)} {}

  zkrecipes::Mutex mutexes[2];
  zkrecipes::Queue queues[2];
  zkrecipes::Counter counters[2];
};

/// Numbers of items, which no other life of the process uses.
class ItemNumbers {
 public:
  explicit ItemNumbers(Place& place) : life_(place.now().count() / 1'000'000), producer_(place.number()) {}
  std::int64_t next() { return (life_ * 1000 + ++made_) * 1000 + producer_; }

 private:
  const std::int64_t life_;
  const std::int64_t producer_;
  std::int64_t made_ = 0;
};

void note_popped(Place& place, const std::optional<std::string>& item) {
  place.note(item ? "popped" : "not popped", item ? std::stoll(*item) : 0);
}
void note_not_popped(Place& place, const zkclient::Error& error) {
  place.note(error.code() == zkclient::ErrorKind::in_doubt ? "pop in doubt" : "not popped", 0, 0, error.what());
}

/// False: it is lost.
bool look_at_lease(Place& place, const zkrecipes::Lease& lease, const char* what) {
  const std::int64_t token = lease.token().value;
  const Nanos before = place.now();
  if (!lease.valid()) return false;
  place.note_at(before, what, token);
  return true;
}

}  // namespace

// --- Handlers ------------------------------------------------------------------------------------

namespace {

/// All that one process has begun with one client. Everything is written down under a lock, by whichever thread.
class Handlers {
 public:
  Handlers(Place& place, zkclient::Client client, OperationNotes& notes, ItemNumbers& items)
      : place_(place), client_(std::move(client)), recipes_(client_), notes_(notes), items_(items) {}

  void begin_something() {
    const std::uint64_t which = place_.below(2);
    const std::lock_guard lock(mutex_);
    switch (place_.below(4)) {
      case 0: add(recipes_.counters[which]); break;
      case 1: push(recipes_.queues[which]); break;
      case 2: pop(recipes_.queues[which]); break;
      default: acquire(recipes_.mutexes[which]); break;
    }
  }
  void look_at_leases() {
    std::list<Held> over;  // Given back without the lock.
    const std::lock_guard lock(mutex_);
    for (auto held = held_.begin(); held != held_.end();) {
      const auto one = held++;
      const bool valid = look_at_lease(place_, one->lease, "valid");
      if (valid && place_.below(8) != 0 && std::chrono::steady_clock::now() < one->until) continue;
      if (place_.below(2) == 0) begin_release(one->lease);
      over.splice(over.end(), held_, one);
    }
  }
  /// Each handler is called once, whatever happens.
  bool all_are_called() {
    std::unique_lock lock(mutex_);
    return called_.wait_for(lock, 200s, [&] { return begun_ == 0; });
  }
  zkclient::Client& client() { return client_; }

 private:
  struct Held {
    zkrecipes::Lease lease;
    std::chrono::steady_clock::time_point until;  ///< The others want it, too.
  };

  /// Counts, and lets `act` run under the lock.
  template <typename T, typename Act>
  zkclient::Handler<T> handler(Act act) {
    ++begun_;
    return [this, act = std::move(act)](zkclient::Result<T> result) mutable {
      const std::lock_guard lock(mutex_);
      act(std::move(result));
      if (--begun_ == 0) called_.notify_all();
    };
  }
  void add(zkrecipes::Counter& counter) {
    const std::int64_t number = notes_.begin(the_count, one_more());
    counter.async_add(1,
                      handler<zkrecipes::CounterChange>([this, number](zkclient::Result<zkrecipes::CounterChange> now) {
                        if (!now) return notes_.fail(number, now.error());
                        notes_.end(number, the_count, counted(*now));
                        place_.note("added");
                      }),
                      within(15s));
  }
  void push(zkrecipes::Queue& queue) {
    const std::int64_t item = items_.next();
    place_.note("pushing", item);
    queue.async_push(std::to_string(item), handler<void>([this, item](const zkclient::Result<void>& done) {
                       if (done) place_.note("pushed", item);
                     }),
                     within(15s));
  }
  void pop(zkrecipes::Queue& queue) {
    place_.note("popping");
    using Popped = zkclient::Result<std::optional<std::string>>;
    queue.async_try_pop(handler<std::optional<std::string>>([this](const Popped& item) {
                          item ? note_popped(place_, *item) : note_not_popped(place_, item.error());
                        }),
                        within(15s));
  }
  void acquire(zkrecipes::Mutex& mutex) {
    mutex.async_acquire(handler<zkrecipes::Lease>([this](zkclient::Result<zkrecipes::Lease> lease) {
                          if (!lease) return;
                          if (!look_at_lease(place_, *lease, "acquired")) return;
                          held_.push_back({std::move(*lease), std::chrono::steady_clock::now() + longest_hold});
                        }),
                        within(std::chrono::milliseconds(500 + place_.below(10'000))));
  }
  void begin_release(zkrecipes::Lease& lease) {
    lease.async_release(handler<void>([](const zkclient::Result<void>&) {}), within(5s));
  }

  Place& place_;
  zkclient::Client client_;
  Recipes recipes_;
  OperationNotes& notes_;
  ItemNumbers& items_;
  std::mutex mutex_;
  std::condition_variable called_;
  int begun_ = 0;
  std::list<Held> held_;
};

void use_handlers(Place& place, OperationNotes& notes, ItemNumbers& items) {
  zkclient::Client client(place.servers(), client_options(place));
  client.connect(within(20s));
  Handlers all(place, client, notes, items);
  const std::uint64_t pace = place.below(3) == 0 ? 200 : 2000;
  for (std::uint64_t i = 10 + place.below(60); i > 0 && !place.stopped(); --i) {
    for (std::uint64_t more = place.below(4); more > 0; --more)
      all.begin_something();
    place.pause(pace);
    all.look_at_leases();
  }
  if (place.below(3) == 0) {
    place.note("closing");
    client.close();  // While all that is on its way.
  }
  if (!all.all_are_called()) place.note("left behind", 0, 0, "a handler that is never called");
}

}  // namespace

void run_handlers(Place& place) {
  OperationNotes notes(place);
  ItemNumbers items(place);
  while (!place.stopped()) {
    try {
      use_handlers(place, notes, items);
    } catch (const zkclient::Error& error) {
      place.note("error", 0, 0, error.what());
      place.pause(500);
    }
  }
}

// --- Coroutines ----------------------------------------------------------------------------------

namespace {

using boost::asio::awaitable;
using boost::asio::use_awaitable;

/// Coroutines on the process's own io_context, which one thread runs.
class Coroutines {
 public:
  Coroutines(Place& place, zkclient::Client& client, OperationNotes& notes, ItemNumbers& items)
      : place_(place),
        recipes_(client),
        notes_(notes),
        items_(items),
        length_(5000 + place.below(15'000)),
        end_(std::chrono::steady_clock::now() + length_),
        pace_(place.below(3) == 0 ? 300 : 3000) {}

  /// Until all have ended.
  void run() {
    spawn(count());
    spawn(move_items());
    spawn(hold());
    spawn(count());
    context_.run();
  }

 private:
  void spawn(awaitable<void> coroutine) {
    boost::asio::co_spawn(context_, std::move(coroutine), [this](const std::exception_ptr& error) {
      try {
        if (error) std::rethrow_exception(error);
      } catch (const zkclient::Error& known) {
        place_.note("error", 0, 0, known.what());
      }
    });
  }
  [[nodiscard]] bool goes_on() const { return std::chrono::steady_clock::now() < end_ && !place_.stopped(); }
  /// What only a new client can mend ends the coroutine.
  void bear(const zkclient::Error& error) {
    place_.note("error", 0, 0, error.what());
    if (error.code() == zkclient::Errc::closed) throw error;
  }
  awaitable<void> pause() {
    boost::asio::steady_timer timer(context_, std::chrono::microseconds(1 + place_.below(pace_ * 1000)));
    co_await timer.async_wait(use_awaitable);
  }
  awaitable<void> count() {
    for (int i = 0; goes_on(); ++i) {
      const std::int64_t number = notes_.begin(the_count, one_more());
      const zkclient::CallOptions call = within(15s);
      try {
        const zkrecipes::CounterChange now =
            co_await zkrecipes::async_add(recipes_.counters[i % 2], 1, call, use_awaitable);
        notes_.end(number, the_count, counted(now));
        place_.note("added");
      } catch (const zkclient::Error& error) {
        notes_.fail(number, error);
        bear(error);
      }
      co_await pause();
    }
  }
  awaitable<void> move_items() {
    for (int i = 0; goes_on(); ++i) {
      if (place_.below(2) == 0) {
        co_await push(recipes_.queues[i % 4 / 2]);
      } else {
        co_await pop(recipes_.queues[i % 4 / 2]);
      }
      co_await pause();
    }
  }
  awaitable<void> push(zkrecipes::Queue& queue) {
    const std::int64_t item = items_.next();
    const std::string text = std::to_string(item);
    const zkclient::CallOptions call = within(15s);
    place_.note("pushing", item);
    try {
      co_await zkrecipes::async_push(queue, text, call, use_awaitable);
      place_.note("pushed", item);
    } catch (const zkclient::Error& error) {
      bear(error);
    }
  }
  awaitable<void> pop(zkrecipes::Queue& queue) {
    const zkclient::CallOptions call = within(15s);
    place_.note("popping");
    try {
      const std::optional<std::string> item = co_await zkrecipes::async_try_pop(queue, call, use_awaitable);
      note_popped(place_, item);
    } catch (const zkclient::Error& error) {
      note_not_popped(place_, error);
      bear(error);
    }
  }
  awaitable<void> hold() {
    for (int i = 0; goes_on(); ++i) {
      const zkclient::CallOptions call = within(std::chrono::milliseconds(500 + place_.below(10'000)));
      try {
        zkrecipes::Lease lease = co_await zkrecipes::async_acquire(recipes_.mutexes[i % 2], call, use_awaitable);
        bool valid = look_at_lease(place_, lease, "acquired");
        for (std::uint64_t looks = place_.below(10); looks > 0 && valid && !place_.stopped(); --looks) {
          co_await pause();
          valid = look_at_lease(place_, lease, "valid");
        }
        if (valid && place_.below(2) == 0) co_await zkrecipes::async_release(lease, within(5s), use_awaitable);
      } catch (const zkclient::Error& error) {
        bear(error);
      }
      co_await pause();
    }
  }

  Place& place_;
  boost::asio::io_context context_;
  Recipes recipes_;
  OperationNotes& notes_;
  ItemNumbers& items_;
  const std::chrono::milliseconds length_;
  const std::chrono::steady_clock::time_point end_;
  const std::uint64_t pace_;
};

}  // namespace

void run_coroutines(Place& place) {
  OperationNotes notes(place);
  ItemNumbers items(place);
  while (!place.stopped()) {
    try {
      zkclient::Client client(place.servers(), client_options(place));
      client.connect(within(20s));
      Coroutines all(place, client, notes, items);
      std::optional<std::jthread> closer;
      if (place.below(4) == 0) {  // While the coroutines wait for it.
        closer.emplace([client, most = 1 + place.below(10'000)]() mutable {
          std::this_thread::sleep_for(std::chrono::milliseconds(most));
          client.close();
        });
      }
      all.run();
    } catch (const zkclient::Error& error) {
      place.note("error", 0, 0, error.what());
      place.pause(500);
    }
  }
}

// --- Both ----------------------------------------------------------------------------------------

void look_at_calls(Place& place) {
  expect_nothing_below(place, calls_lock);
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  zkrecipes::Queue queue(client, calls_queue);
  while (const auto item = queue.try_pop_for(1s))
    place.note("popped", std::stoll(*item));
  OperationNotes notes(place);
  notes.perform(the_count, {Operation::read}, [&](std::int64_t) {
    const std::int64_t total = zkrecipes::Counter(client, calls_counter).add(0, within(60s)).after;
    return Operation{Operation::read, 0, 0, total};
  });
}

Faults check_calls(const History& history) {
  // Who was killed while it popped leaves as many pops in doubt.
  History judged;
  std::map<std::string, int> popping;
  for (const Entry& entry : history.entries()) {
    judged.add(entry);
    int& pops = popping[entry.who];
    if (entry.what == "popping") ++pops;
    if (entry.what == "popped" || entry.what == "not popped" || entry.what == "pop in doubt") --pops;
    for (; entry.what == "killed" && pops > 0; --pops)
      judged.add({entry.at, entry.who, "pop in doubt", 0, 0, "killed"});
  }
  return all_of({check_leases(history, 1), check_queue(judged, false), check_operations(history, 0),
                 check_progress(history, "acquired"), check_progress(history, "popped"),
                 check_progress(history, "added")});
}

}  // namespace storm
