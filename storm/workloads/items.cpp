#include "storm/workloads/items.hpp"

#include <map>
#include <optional>
#include <type_traits>

#include <zkrecipes/counter.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/shared_value.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/checkers/operations.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr const char* items_path = "/items";

bool in_doubt(const zkclient::Error& error) { return error.code() == zkclient::ErrorKind::in_doubt; }

void put(Place&, zkrecipes::Queue& queue, const std::string& item) { queue.push(item, within(15s)); }
void put(Place& place, zkrecipes::DelayQueue& queue, const std::string& item) {
  const zkclient::CallOptions call = within(15s);
  const std::chrono::milliseconds pause(place.below(2000));
  queue.push(item, std::chrono::system_clock::now() + pause, call);
}
void put(Place&, zkrecipes::IdQueue& queue, const std::string& item) { queue.push(item, item, within(15s)); }

template <typename AnyQueue>
void push(Place& place, AnyQueue& queue, std::int64_t item) {
  place.note("pushing", item);
  put(place, queue, std::to_string(item));
  place.note("pushed", item);
}

/// `take` returns the number of the item that it has taken out, if there was one.
template <typename Take>
void pop(Place& place, Take take) {
  // Whoever is killed between the two has popped something, perhaps.
  place.note("popping");
  try {
    if (const std::optional<std::int64_t> item = take()) {
      place.note("popped", *item);
    } else {
      place.note("not popped");
    }
  } catch (const zkclient::Error& error) {
    place.note(in_doubt(error) ? "pop in doubt" : "not popped", 0, 0, error.what());
    throw;
  }
}

std::optional<std::int64_t> number_of(const std::optional<std::string>& item) {
  return item ? std::optional(std::stoll(*item)) : std::nullopt;
}

/// What is removed by its id has left the queue as what is popped has: once.
template <typename AnyQueue>
void take_one(Place& place, AnyQueue& queue, std::int64_t newest) {
  if constexpr (std::is_same_v<AnyQueue, zkrecipes::IdQueue>) {
    if (newest != 0 && place.below(2) == 0) {
      return pop(place, [&] {
        const std::size_t removed = queue.remove(std::to_string(newest), within(15s));
        return removed > 0 ? std::optional(newest) : std::nullopt;
      });
    }
  }
  pop(place, [&] { return number_of(queue.try_pop_for(2s)); });
}

template <typename AnyQueue>
void run_items(Place& place) {
  std::int64_t made = 0;
  std::int64_t newest = 0;
  const std::int64_t producer = place.number();
  const std::int64_t life = place.now().count() / 1'000'000;  // A later life of this process has greater numbers.
  with_sessions(place, [&](zkclient::Client& client) {
    AnyQueue queue(client, items_path);
    for (int i = 0; i < 20 && !place.stopped(); ++i) {
      if (place.below(2) == 0) {
        const std::int64_t item = (life * 1000 + ++made) * 1000 + producer;
        push(place, queue, item);
        newest = item;
      } else {
        take_one(place, queue, newest);
      }
      place.pause(300);
    }
  });
}

/// `longest`: until the last item is due, by the clock of whoever drains.
template <typename AnyQueue>
void drain_items(Place& place, std::chrono::seconds longest) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  AnyQueue queue(client, items_path);
  while (const auto item = queue.try_pop_for(longest))
    place.note("popped", std::stoll(*item));
}

}  // namespace

void run_queue(Place& place) { run_items<zkrecipes::Queue>(place); }
void drain_queue(Place& place) { drain_items<zkrecipes::Queue>(place, 1s); }
void run_delay_queue(Place& place) { run_items<zkrecipes::DelayQueue>(place); }
void drain_delay_queue(Place& place) { drain_items<zkrecipes::DelayQueue>(place, 10s); }
void run_id_queue(Place& place) { run_items<zkrecipes::IdQueue>(place); }
void drain_id_queue(Place& place) { drain_items<zkrecipes::IdQueue>(place, 1s); }

Faults check_queue_workload(const History& history) {
  // Who was killed while it popped leaves a pop in doubt.
  History judged;
  std::map<std::string, bool> popping;
  for (const Entry& entry : history.entries()) {
    judged.add(entry);
    if (entry.what == "killed" && std::exchange(popping[entry.who], false))
      judged.add({entry.at, entry.who, "pop in doubt", 0, 0, "killed"});
    if (entry.what == "popping") popping[entry.who] = true;
    if (entry.what == "popped" || entry.what == "not popped" || entry.what == "pop in doubt")
      popping[entry.who] = false;
  }
  Faults faults = check_queue(judged, false);
  for (const std::string& fault : check_progress(history, "popped"))
    faults.push_back(fault);
  return faults;
}

// Claimed, worked on, committed: each item is committed by one, whoever dies meanwhile.
void run_claims(Place& place) {
  std::int64_t made = 0;
  const std::int64_t producer = place.number();
  const std::int64_t life = place.now().count() / 1'000'000;
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Queue queue(client, items_path);
    for (int i = 0; i < 20 && !place.stopped(); ++i) {
      if (place.below(2) == 0) {
        push(place, queue, (life * 1000 + ++made) * 1000 + producer);
      } else if (auto claim = queue.try_claim_for(2s)) {
        const std::int64_t item = std::stoll(claim->data());
        place.pause(300);
        place.note("committing", item);
        try {
          claim->commit(within(15s));
        } catch (const zkclient::Error& error) {
          if (!in_doubt(error)) place.note("not committed", item);
          throw;
        }
        place.note("committed", item);
      }
      place.pause(200);
    }
  });
}

void drain_claims(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  zkrecipes::Queue queue(client, items_path);
  // Claims of killed processes last as long as their sessions.
  for (int idle = 0; idle < 30;) {
    if (auto claim = queue.try_claim_for(2s)) {
      const std::int64_t item = std::stoll(claim->data());
      place.note("committing", item);
      claim->commit(within(15s));
      place.note("committed", item);
    } else {
      ++idle;
    }
  }
}

Faults check_claims(const History& history) {
  Faults faults;
  std::map<std::int64_t, int> pushed;
  std::map<std::int64_t, int> committed;
  std::map<std::int64_t, int> tried;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "pushed") ++pushed[entry.a];
    if (entry.what == "committing") ++tried[entry.a];
    if (entry.what == "not committed") --tried[entry.a];
    if (entry.what == "committed" && ++committed[entry.a] > 1)
      faults.push_back("item " + std::to_string(entry.a) + " was committed twice");
  }
  for (const auto& [item, times] : pushed) {
    // A commit in doubt may have been done.
    if (!committed.contains(item) && tried[item] == 0) faults.push_back("item " + std::to_string(item) + " was lost");
  }
  for (const std::string& fault : check_progress(history, "committed"))
    faults.push_back(fault);
  return faults;
}

void run_counter(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Counter counter(client, items_path);
    for (int i = 0; i < 20 && !place.stopped(); ++i) {
      if (place.below(4) == 0) {  // What the leader knows.
        place.note("counting");
        place.note("counted", counter.add(0, within(15s)).after);
      }
      place.note("adding", 1);
      try {
        const zkrecipes::CounterChange change = counter.add(1, within(15s));
        place.note("added", change.before, change.after);
      } catch (const zkclient::Error& error) {
        if (!in_doubt(error)) place.note("not added", 1);
        throw;
      }
      place.pause(300);
    }
  });
}

void read_counter(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  place.note("total", zkrecipes::Counter(client, items_path).get(within(60s)));
}

void run_shared_value(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::SharedValue value(client, items_path);
    for (int i = 0; i < 20 && !place.stopped(); ++i) {
      place.note("adding", 1);
      try {
        const auto now = value.update(
            [](const zkrecipes::VersionedValue& before) {
              return std::optional(std::to_string(before.exists ? std::stoll(before.data) + 1 : 1));
            },
            within(15s));
        place.note("added", std::stoll(*now) - 1, std::stoll(*now));
      } catch (const zkclient::Error& error) {
        if (!in_doubt(error)) place.note("not added", 1);
        throw;
      }
      place.pause(300);
    }
  });
}

void read_shared_value(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  const zkrecipes::VersionedValue value = zkrecipes::SharedValue(client, items_path).get(within(60s));
  place.note("total", value.exists ? std::stoll(value.data) : 0);
}

Faults check_counter_workload(const History& history) {
  return all_of({check_counter(history), check_additions(history), check_progress(history, "added")});
}

}  // namespace storm
