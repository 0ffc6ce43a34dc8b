#include "storm/workloads/priorities.hpp"

#include <map>

#include <zkrecipes/priority_queue.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr const char* priorities_path = "/priorities";

/// As it is written: its number, and its priority.
std::string item_of(std::int64_t number, std::int32_t priority) {
  return std::to_string(number) + " " + std::to_string(priority);
}

void push_somewhere(Place& place, zkrecipes::PriorityQueue& queue, std::int64_t number) {
  const auto priority = static_cast<std::int32_t>(place.below(5)) - 2;
  place.note("pushing", number, priority);
  queue.push(item_of(number, priority), priority, within(15s));
  place.note("pushed", number, priority);
}

void pop_the_first(Place& place, zkrecipes::PriorityQueue& queue) {
  place.note("popping");
  try {
    if (const auto item = queue.try_pop_for(2s)) {
      place.note("popped", std::stoll(*item));
    } else {
      place.note("not popped");
    }
  } catch (const zkclient::Error& error) {
    const bool doubtful = error.code() == zkclient::ErrorKind::in_doubt;
    place.note(doubtful ? "pop in doubt" : "not popped", 0, 0, error.what());
    throw;
  }
}

/// Who was killed while it popped leaves a pop in doubt.
void with_doubts(const History& history, History& judged) {
  std::map<std::string, bool> popping;
  for (const Entry& entry : history.entries()) {
    judged.add(entry);
    bool& pops = popping[entry.who];
    if (entry.what == "killed" && pops) judged.add({entry.at, entry.who, "pop in doubt", 0, 0, "killed"});
    if (entry.what == "popping") pops = true;
    if (entry.what == "killed" || entry.what == "popped" || entry.what == "not popped" || entry.what == "pop in doubt")
      pops = false;
  }
}

}  // namespace

void run_priority_queue(Place& place) {
  std::int64_t made = 0;
  const std::int64_t producer = place.number();
  const std::int64_t life = place.now().count() / 1'000'000;  // A later life of this process has greater numbers.
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::PriorityQueue queue(client, priorities_path);
    for (int i = 0; i < 20 && !place.stopped(); ++i) {
      if (place.below(2) == 0) {
        push_somewhere(place, queue, (life * 1000 + ++made) * 1000 + producer);
      } else {
        pop_the_first(place, queue);
      }
      place.pause(300);
    }
  });
}

// Nothing else runs: here the order of priorities is certain.
void drain_priority_queue(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  zkrecipes::PriorityQueue queue(client, priorities_path);
  while (const auto item = queue.try_pop_for(1s)) {
    place.note("popped", std::stoll(*item));
    place.note("drained", std::stoll(*item), std::stoll(item->substr(item->find(' '))));
  }
}

Faults check_priority_queue(const History& history) {
  History judged;
  with_doubts(history, judged);
  return all_of({check_queue(judged, false), check_drained_order(history), check_progress(history, "popped")});
}

}  // namespace storm
