#include "storm/workloads/soup.hpp"

#include <map>
#include <string>
#include <thread>

#include <zkrecipes/counter.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/id_blocks.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/checkers/operations.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr int soup_permits = 2;

/// What one process does in its present life.
struct Bowl {
  std::int64_t made = 0;
  std::int64_t producer = 0;
  std::int64_t life = 0;  ///< A later one has a greater number.
  std::int64_t makers = 0;
};

void stir(Place& place, zkrecipes::Lease lease, const std::string& name) {
  const std::int64_t token = lease.token().value;
  place.note("acquired", token, 0, name);
  for (std::uint64_t looks = place.below(15); looks > 0 && !place.stopped(); --looks) {
    const Nanos before = place.now();
    if (!lease.valid()) return;
    place.note_at(before, "valid", token, 0, name);
    place.pause(200);
  }
  if (place.below(3) == 0) lease.release(within(5s));
}

template <typename Acquirable>
void taste(Place& place, Acquirable recipe, const std::string& name) {
  if (auto lease = recipe.try_acquire_for(std::chrono::milliseconds(100 + place.below(4000))))
    stir(place, std::move(*lease), name);
}

/// Leases of all kinds, one at a time.
void hold_something(Place& place, zkclient::Client& client) {
  switch (place.below(4)) {
    case 0: taste(place, zkrecipes::Mutex(client, "/soup/mutex"), "mutex"); break;
    case 1: taste(place, zkrecipes::UnfairMutex(client, "/soup/unfair"), "unfair"); break;
    case 2: taste(place, zkrecipes::Semaphore(client, "/soup/shared", soup_permits), "shared"); break;
    default: {
      zkrecipes::LeaderElection election(client, "/soup/election");
      stir(place, election.campaign(within(std::chrono::milliseconds(500 + place.below(5000)))), "election");
      break;
    }
  }
}

void pop_something(Place& place, zkrecipes::Queue& queue) {
  place.note("popping");
  try {
    const auto item = queue.try_pop_for(1s);
    place.note(item ? "popped" : "not popped", item ? std::stoll(*item) : 0);
  } catch (const zkclient::Error& error) {
    const bool doubtful = error.code() == zkclient::ErrorKind::in_doubt;
    place.note(doubtful ? "pop in doubt" : "not popped", 0, 0, error.what());
    throw;
  }
}

void count_something(Place& place, zkrecipes::Counter counter) {
  place.note("adding", 1);
  try {
    const zkrecipes::CounterChange change = counter.add(1, within(15s));
    place.note("added", change.before, change.after);
  } catch (const zkclient::Error& error) {
    if (error.code() != zkclient::ErrorKind::in_doubt) place.note("not added", 1);
    throw;
  }
}

/// Items, counts and numbers.
void move_something(Place& place, zkclient::Client& client, Bowl& bowl) {
  switch (place.below(4)) {
    case 0: {
      zkrecipes::Queue queue(client, "/soup/queue");
      const std::int64_t item = (bowl.life * 1000 + ++bowl.made) * 1000 + bowl.producer;
      place.note("pushing", item);
      queue.push(std::to_string(item), within(15s));
      place.note("pushed", item);
      break;
    }
    case 1: {
      zkrecipes::Queue queue(client, "/soup/queue");
      pop_something(place, queue);
      break;
    }
    case 2: count_something(place, zkrecipes::Counter(client, "/soup/counter")); break;
    default: {
      zkrecipes::IdBlocks ids(client, "/soup/ids", {.block = 10});
      const std::int64_t maker = bowl.life * 1000 + ++bowl.makers;
      for (std::uint64_t i = place.below(12); i > 0; --i)
        place.note("id", ids.next(within(15s)), maker, "block");
      break;
    }
  }
}

template <typename Do>
void for_a_while(Place& place, Do act) {
  try {
    for (int i = 0; i < 20 && !place.stopped(); ++i) {
      act();
      place.pause(100);
    }
  } catch (const zkclient::Error& error) {
    place.note("error", 0, 0, error.what());
    place.pause(500);
  }
}

}  // namespace

void run_soup(Place& place) {
  Bowl bowl;
  bowl.producer = place.number();
  bowl.life = place.now().count() / 1'000'000;
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Group group(client, "/soup/group");
    const zkrecipes::Membership member = group.begin_join(place.name());
    const std::jthread holder([&] { for_a_while(place, [&] { hold_something(place, client); }); });
    for_a_while(place, [&] { move_something(place, client, bowl); });
  });
}

void look_at_soup(Place& place) {
  for (const char* path : {"/soup/mutex", "/soup/unfair", "/soup/shared/leases", "/soup/election", "/soup/group"})
    expect_nothing_below(place, path);
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  zkrecipes::Queue queue(client, "/soup/queue");
  while (const auto item = queue.try_pop_for(1s))
    place.note("popped", std::stoll(*item));
  place.note("total", zkrecipes::Counter(client, "/soup/counter").get(within(60s)));
}

Faults check_soup(const History& history) {
  // Who was killed while it popped leaves a pop in doubt.
  History judged;
  std::map<std::string, bool> pops;
  for (const Entry& entry : history.entries()) {
    judged.add(entry);
    bool& popping = pops[entry.who];
    if (entry.what == "killed" && popping) judged.add({entry.at, entry.who, "pop in doubt", 0, 0, "killed"});
    const bool over =
        entry.what == "killed" || entry.what == "popped" || entry.what == "not popped" || entry.what == "pop in doubt";
    popping = entry.what == "popping" || (popping && !over);
  }
  return all_of({check_named_leases(history, soup_permits), check_queue(judged, false), check_counter(history),
                 check_additions(history), check_ids(history), check_named_progress(history, "acquired"),
                 check_progress(history, "popped"), check_progress(history, "added"), check_progress(history, "id")});
}

}  // namespace storm
