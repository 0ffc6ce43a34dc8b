#include "storm/workloads/latches.hpp"

#include <string>
#include <thread>
#include <utility>

#include <zkrecipes/latch.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/checkers/latches.hpp"
#include "storm/workloads/operation_notes.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr const char* latch_path = "/latch";
constexpr std::int64_t latch_count = 7;

zkrecipes::Latch latch_of(const Place& place, const zkclient::Client& client, std::int64_t generation) {
  return {client, latch_path, latch_count, {.generation = generation, .durable = place.number() % 2 == 1}};
}

/// What no program may meet that gives the right numbers.
bool is_wrong_of_latch(const zkclient::Error& error) {
  using zkclient::Errc;
  return error.errc() == Errc::foreign_node || error.errc() == Errc::invalid_argument;
}

/// `number`: of this count.
void count_down(Place& place, zkrecipes::Latch latch, std::int64_t number) {
  const auto by = static_cast<std::int64_t>(1 + place.below(2));
  place.note("counting", number, by, std::to_string(latch.generation()));
  try {
    place.note("counted", number, latch.count_down(by, within(10s)));
  } catch (const zkclient::Error& error) {
    if (is_wrong_of_latch(error)) place.note("wrong", 0, 0, error.what());
    if (error.errc() == zkclient::Errc::not_available) return place.note("too early", number);
    if (error.code() != zkclient::ErrorKind::in_doubt) place.note("not counted", number, 0, error.what());
    throw;
  }
}

/// At the same time as the next one: one transaction may be for both.
void count_beside(Place& place, zkrecipes::Latch latch, std::int64_t number) try {
  count_down(place, std::move(latch), number);
} catch (const zkclient::Error& error) {
  place.note("error", 0, 0, error.what());
}

/// The first one that is not open, or an earlier one: a server may lag behind.
std::int64_t first_closed(const Place& place, const zkclient::Client& client) {
  const auto is_open = [&](std::int64_t generation) {
    return latch_of(place, client, generation).left(within(10s)) == 0;
  };
  std::int64_t open = 0;
  std::int64_t closed = 1;
  while (is_open(closed))
    open = std::exchange(closed, 2 * closed);
  while (closed - open > 1) {
    const std::int64_t middle = open + (closed - open) / 2;
    (is_open(middle) ? open : closed) = middle;
  }
  return closed;
}

void count_in(Place& place, zkclient::Client& client, OperationNotes& numbers, std::int64_t generation) {
  const zkrecipes::Latch latch = latch_of(place, client, generation);
  std::jthread beside;
  if (place.below(4) == 0) {
    beside = std::jthread([&place, second = latch_of(place, client, generation), number = numbers.fresh()]() mutable {
      count_beside(place, std::move(second), number);
    });
  }
  const bool early = place.below(6) == 0;
  const bool late = generation > 1 && place.below(6) == 0;
  count_down(place,
             latch_of(place, client,
                      early  ? generation + 1
                      : late ? generation - 1
                             : generation),
             numbers.fresh());
}

}  // namespace

void run_latches(Place& place) {
  OperationNotes numbers(place);
  with_sessions(place, [&](zkclient::Client& client) {
    std::int64_t generation = first_closed(place, client);
    for (int i = 0; i < 40 && !place.stopped(); ++i) {
      count_in(place, client, numbers, generation);
      place.pause(200);
      if (!latch_of(place, client, generation).wait_for(std::chrono::milliseconds(place.below(3000)))) continue;
      place.note("passed", generation);
      if (place.below(3) != 0) ++generation;  // Who stays is late.
    }
  });
}

void look_at_latches(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  client.commit(zkclient::Transaction().check("/"), within(60s));
  const std::int64_t last = first_closed(place, client);
  for (std::int64_t generation = 1; generation <= last + 1; ++generation)
    place.note("left", generation, latch_of(place, client, generation).left(within(60s)));
}

Faults check_latches_workload(const History& history) {
  return all_of({check_latches(history, latch_count), check_progress(history, "passed")});
}

}  // namespace storm
