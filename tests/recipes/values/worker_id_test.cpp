#include <zkrecipes/worker_id.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/error.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

/// A clock that stands still unless it is moved. Copies are one clock.
class HandClock {
 public:
  std::chrono::system_clock::time_point operator()() const {
    return std::chrono::system_clock::time_point(std::chrono::milliseconds(*now_));
  }
  void move(std::chrono::milliseconds by) { *now_ += by.count(); }

 private:
  std::shared_ptr<std::atomic<std::int64_t>> now_ = std::make_shared<std::atomic<std::int64_t>>(1'700'000'000'000);
};

class WorkerIdTest : public testkit::RecipeTest {
 protected:
  WorkerIdTest() : RecipeTest("/workers/held") {}
  static WorkerIds make(const Client& client, WorkerIdOptions options = {}) {
    return WorkerIds(client, "/workers", std::move(options));
  }
  std::string reserved(int number = 0) { return client().get(times / std::to_string(number)).data; }
  static std::int64_t time_of(std::int64_t id, const IdLayout& layout = {}) {
    return std::chrono::floor<std::chrono::milliseconds>(layout.parts_of(id).time.time_since_epoch()).count();
  }

  static inline const zkclient::Path times = "/workers/times";
};

TEST_F(WorkerIdTest, IdsOfTheClockTheNumberAndASequence) {
  HandClock clock;
  WorkerIds workers = make(client(), {.id = "me", .clock = clock});
  EXPECT_EQ(workers.path(), "/workers");
  const WorkerId other = workers.acquire(patient());
  WorkerId worker = workers.acquire(patient());
  EXPECT_EQ(worker.number(), 1);
  const IdLayout layout;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(layout.parts_of(worker.next()), (IdParts{clock(), 1, i}));
  EXPECT_EQ(reserved(1), "1700000005000");
  clock.move(7ms);
  EXPECT_EQ(layout.parts_of(worker.next()), (IdParts{clock(), 1, 0}));
  EXPECT_TRUE(client().get("/workers/held/1").data.starts_with("id=me host="));
  EXPECT_TRUE(worker.lease().valid());
  EXPECT_EQ(worker.lease().token().value, client().exists("/workers/held/1")->czxid);
}

// V93
TEST_F(WorkerIdTest, TheLowestFreeNumber) {
  WorkerIds workers = make(client());
  std::vector<WorkerId> held;
  for (int i = 0; i < 4; ++i) {
    held.push_back(workers.acquire(patient()));
    EXPECT_EQ(held.back().number(), i);
  }
  held[1].release(patient());
  EXPECT_EQ(error_of([&] { held[1].next(); }), Errc::not_held);
  held[2] = WorkerId();
  EXPECT_TRUE(remain(4)) << "two nodes each";
  held[1] = workers.acquire(patient());
  held[2] = workers.acquire(patient());
  EXPECT_EQ(held[1].number(), 1);
  EXPECT_EQ(held[2].number(), 2);
}

// V93: whether they give the number back or end without a word.
TEST_F(WorkerIdTest, NumbersAreRecycled) {
  std::int64_t last = 0;
  for (int i = 0; i < 30; ++i) {
    Client own = i % 10 == 0 ? make_client() : client();
    WorkerId worker = make(own, {.layout = {.worker_bits = 1}}).acquire(patient());
    EXPECT_EQ(worker.number(), 0);
    const std::int64_t id = worker.next();
    EXPECT_GT(id, last);
    last = id;
    i % 10 == 0 ? own.close() : worker.release(patient());
    EXPECT_TRUE(remain(0)) << "closing does not wait for a server that is slow";
  }
  EXPECT_EQ(names(times), std::vector<std::string>{"0"});
}

// V90: the same host, port and name.
TEST_F(WorkerIdTest, DifferentNumbersForOneAddress) {
  Client second = make_client();
  const WorkerId a = make(client(), {.id = "10.0.0.1:80"}).acquire(patient());
  const WorkerId b = make(second, {.id = "10.0.0.1:80"}).acquire(patient());
  const WorkerId c = make(second, {.id = "10.0.0.1:80"}).acquire(patient());
  EXPECT_EQ((std::set{a.number(), b.number(), c.number()}), (std::set{0, 1, 2}));
}

TEST_F(WorkerIdTest, AnotherProcessTakesTheNumberFirst) {
  constexpr std::size_t crowd = 12;
  std::vector<Client> clients;
  for (std::size_t i = 0; i < crowd; ++i)
    clients.push_back(make_client());
  std::vector<std::future<WorkerId>> starting;
  for (const Client& one : clients)
    starting.push_back(in_thread([&] { return make(one).acquire(patient()); }));
  std::vector<WorkerId> workers;
  std::set<int> numbers;
  for (auto& one : starting)
    numbers.insert(workers.emplace_back(result_of(one)).number());
  EXPECT_EQ(numbers.size(), crowd);
  EXPECT_LT(*numbers.rbegin(), 100);
}

TEST_F(WorkerIdTest, AllNumbersAreTaken) {
  WorkerIds workers = make(client(), {.layout = {.worker_bits = 1}});
  WorkerId first = workers.acquire(patient());
  const WorkerId second = workers.acquire(patient());
  std::string told;
  const auto tells = [&] { return told.find("all 2 numbers are taken") != std::string::npos; };
  // Again, with more time, if the deadline was there before it had seen that.
  for (auto limit = 500ms; !tells() && limit < 20s; limit *= 2) {
    try {
      (void)workers.acquire({.deadline = limit});
      ADD_FAILURE() << "there is a third number";
    } catch (const Error& error) {
      EXPECT_EQ(error.errc(), Errc::deadline_exceeded);
      told = error.what();
    }
  }
  EXPECT_TRUE(tells()) << told;
  Client other = make_client();
  auto waiting = in_thread([&] { return make(other, {.layout = {.worker_bits = 1}}).acquire(patient()); });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  const std::int64_t last = first.next();
  first.release(patient());
  WorkerId third = result_of(waiting);
  EXPECT_EQ(third.number(), 0);
  EXPECT_GT(third.next(), last);
}

// V91: it had ended without a word, and its time went on until then.
TEST_F(WorkerIdTest, NextOwnersClockIsBehind) {
  HandClock clock;
  std::vector<std::int64_t> ids;
  for (int owner = 0; owner < 4; ++owner) {
    Client own = make_client();
    WorkerId worker = make(own, {.clock = clock}).acquire(patient());
    EXPECT_EQ(worker.number(), 0);
    for (int i = 0; i < 10'000; ++i)
      ids.push_back(worker.next());
    own.close();
    EXPECT_TRUE(remain(0)) << "closing does not wait for a server that is slow";
    clock.move(-1s);
  }
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

// Or the number's time would run away from the clock with each restart.
TEST_F(WorkerIdTest, WhatIsNotNeededIsGivenBack) {
  HandClock clock;
  // So long that no reservation of its own accord is on its way at the release.
  WorkerIds workers = make(client(), {.ahead = 1h, .clock = clock});
  std::int64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    WorkerId worker = workers.acquire(patient());
    const std::int64_t id = worker.next();
    EXPECT_GT(id, last);
    last = id;
    worker.release(patient());
    EXPECT_EQ(reserved(), std::to_string(time_of(id)));
  }
  EXPECT_LE(time_of(last), 1'700'000'000'010);
}

// V89
TEST_F(WorkerIdTest, ClockStepsBack) {
  HandClock clock;
  WorkerId worker = make(client(), {.clock = clock}).acquire(patient());
  std::int64_t last = worker.next();
  for (int i = 0; i < 10'000; ++i) {
    if (i % 1'000 == 0) clock.move(-500ms);
    const std::int64_t id = worker.next();
    ASSERT_GT(id, last);
    last = id;
  }
  EXPECT_LE(time_of(last), 1'700'000'000'003) << "three sequences";
}

TEST_F(WorkerIdTest, ClockStepsForward) {
  HandClock clock;
  WorkerId worker = make(client(), {.clock = clock}).acquire(patient());
  std::int64_t last = worker.next();
  clock.move(1h);
  EXPECT_TRUE(eventually([&] {
    const std::int64_t id = worker.next();
    EXPECT_GT(id, last);
    last = id;
    return IdLayout().parts_of(id).time == clock();
  }));
}

TEST_F(WorkerIdTest, IdsAreMadeFasterThanTheLayoutHas) {
  HandClock clock;
  WorkerId worker = make(client(), {.layout = {.worker_bits = 1, .sequence_bits = 1}, .ahead = 100ms, .clock = clock})
                        .acquire(patient());
  std::int64_t last = -1;
  bool refused = false;
  int count = 0;
  EXPECT_TRUE(eventually([&] {
    try {
      for (int i = 0; i < 1'000; ++i) {
        const std::int64_t id = worker.next();
        EXPECT_GT(id, last);
        last = id;
        ++count;
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.errc(), Errc::overloaded);
      refused = true;
    }
    return refused && count > 1'000;
  }));
}

TEST_F(WorkerIdTest, NodeDeletedByHandWhileHolding) {
  Client other_client = make_client();
  HandClock clock;
  for (const bool wanted : {true, false}) {
    WorkerId robbed = make(client(), {.clock = clock}).acquire(patient());
    const std::int64_t before = robbed.next();
    client().remove(wanted ? zkclient::Path("/workers/held/0") : zkclient::Path(robbed.lease().node()));
    EXPECT_TRUE(stopped(robbed.lease().lost()));
    EXPECT_EQ(error_of([&] { robbed.next(); }), Errc::not_held);
    EXPECT_TRUE(remain(0));
    WorkerId next = make(other_client, {.clock = clock}).acquire(patient());
    EXPECT_EQ(next.number(), 0);
    EXPECT_GT(next.next(), before);
    next.release(patient());
  }
}

TEST_F(WorkerIdTest, TimesHoldsNoTime) {
  client().ensure(times, zkclient::CreateMode::persistent);
  client().create(times / "0", "yesterday");
  try {
    (void)make(client()).acquire(patient());
    ADD_FAILURE() << "that is no time";
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::foreign_node);
    EXPECT_NE(std::string(error.what()).find("/workers/times/0"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(remain(0));
}

TEST_F(WorkerIdTest, TimesDeletedWhileHeld) {
  HandClock clock;
  WorkerId worker = make(client(), {.ahead = 100ms, .clock = clock}).acquire(patient());
  client().remove(times / "0");
  client().remove(times);
  EXPECT_TRUE(eventually([&] {
    clock.move(10ms);
    (void)worker.next();
    return client().exists(times / "0").has_value();
  }));
}

TEST_F(WorkerIdTest, TimesDeletedWhileFree) {
  HandClock clock;
  WorkerId worker = make(client(), {.clock = clock}).acquire(patient());
  worker.release(patient());
  client().remove(times / "0");
  clock.move(-1h);
  worker = make(client(), {.clock = clock}).acquire(patient());
  EXPECT_EQ(IdLayout().parts_of(worker.next()).time, clock()) << "nothing tells";
}

TEST_F(WorkerIdTest, ParentsMissingOrRemoved) {
  WorkerIds workers = make(client());
  for (int i = 0; i < 3; ++i) {
    WorkerId worker = workers.acquire(patient());
    EXPECT_EQ(worker.number(), 0);
    worker.release(patient());
    client().remove_tree("/workers", patient());
  }
}

TEST_F(WorkerIdTest, TimeIsReservedAgainAndAgain) {
  WorkerId worker = make(client(), {.ahead = 100ms}).acquire(patient());
  std::set<std::string> seen;
  EXPECT_TRUE(eventually([&] {
    seen.insert(reserved());
    const std::int64_t time = time_of(worker.next());
    EXPECT_LE(time, std::stoll(reserved()));
    return seen.size() >= 5;
  })) << "also without a call";
}

TEST_F(WorkerIdTest, ManyThreadsMakeIds) {
  WorkerId worker = make(client()).acquire(patient());
  std::vector<std::vector<std::int64_t>> made(4);
  {
    std::vector<std::jthread> crew;
    for (auto& own : made) {
      crew.emplace_back([&worker, &own] {
        for (int i = 0; i < 5'000; ++i)
          own.push_back(worker.next());
      });
    }
  }
  std::set<std::int64_t> all;
  for (const auto& own : made) {
    EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
    all.insert(own.begin(), own.end());
  }
  EXPECT_EQ(all.size(), 20'000u);
}

TEST_F(WorkerIdTest, AnEmptyOne) {
  WorkerId empty;
  EXPECT_EQ(empty.number(), -1);
  EXPECT_FALSE(empty.lease().valid());
  EXPECT_EQ(error_of([&] { empty.next(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { empty.release(); }), Errc::not_held);
  WorkerId worker = make(client()).acquire(patient());
  WorkerId moved = std::move(worker);
  EXPECT_EQ(worker.number(), -1);
  EXPECT_EQ(moved.number(), 0);
  (void)moved.next();
  moved = WorkerId();
  EXPECT_TRUE(remain(0));
}

TEST_F(WorkerIdTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { make(client(), {.acl = {}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { make(client(), {.layout = {.worker_bits = 11}}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { make(client(), {.ahead = 99ms}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { make(client(), {.ahead = 2h}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { make(client(), {.clock = nullptr}); }), Errc::invalid_argument);
}

}  // namespace
}  // namespace zkrecipes
