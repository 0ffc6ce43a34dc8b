// The timed forms: what they promise when the time is over, whatever is lost on the way, and how they tell "others have
// it" from "there is no server".

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/latch.hpp>
#include <zkrecipes/multi_lock.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/naming.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using zkrecipes::WaitOptions;

const testkit::OnRealServers timed_on_real_servers{
    "Each/TimedForms.ThrowNothingWhenAReplyIsLostShortlyBeforeTheEnd/Claim"};

// One timed form; true when it got what it asked for. What it got goes at once.
struct Form {
  const char* name;
  std::function<bool(Client& client, std::chrono::nanoseconds time, WaitOptions options)> call;
  /// Another client takes it, and keeps it until the result goes.
  std::function<std::shared_ptr<void>(Client& other)> occupy;
  /// What it certainly sends when nothing keeps it waiting.
  std::vector<RequestType> sends = {};
  /// Whether it gets what it asks for once the other client has let go.
  bool comes = true;
};

const auto nothing = [](Client&) { return std::shared_ptr<void>(); };

template <typename T>
std::shared_ptr<void> keep(T value) {
  return std::make_shared<T>(std::move(value));
}

const std::vector<Form> forms = {
    {"Mutex",
     [](Client& client, auto time, auto options) {
       return zkrecipes::Mutex(client, "/m").try_acquire_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::Mutex(other, "/m").acquire()); },
     {RequestType::create2, RequestType::get_children2}},
    {"UnfairMutex",
     [](Client& client, auto time, auto options) {
       return zkrecipes::UnfairMutex(client, "/u").try_acquire_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::UnfairMutex(other, "/u").acquire()); },
     {RequestType::multi}},
    {"Naming",
     [](Client& client, auto time, auto options) {
       return zkrecipes::Naming(client, "/n").try_bind_for("one", "data", time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::Naming(other, "/n").bind("one", "other")); },
     {RequestType::multi}},
    {"SharedMutexToWrite",
     [](Client& client, auto time, auto options) {
       return zkrecipes::SharedMutex(client, "/s").try_acquire_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::SharedMutex(other, "/s").acquire_shared()); },
     {RequestType::create2, RequestType::get_children2}},
    {"SharedMutexToRead",
     [](Client& client, auto time, auto options) {
       return zkrecipes::SharedMutex(client, "/s").try_acquire_shared_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::SharedMutex(other, "/s").acquire()); },
     {RequestType::create2, RequestType::get_children2}},
    {"Semaphore",
     [](Client& client, auto time, auto options) {
       return zkrecipes::Semaphore(client, "/p", 1).try_acquire_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::Semaphore(other, "/p", 1).acquire()); },
     {RequestType::create2, RequestType::get_children2, RequestType::exists}},
    {"MultiLock",
     [](Client& client, auto time, auto options) {
       zkrecipes::Mutex one(client, "/m1");
       zkrecipes::UnfairMutex two(client, "/m2");
       return zkrecipes::MultiLock().add(one).add(two).try_acquire_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::UnfairMutex(other, "/m2").acquire()); },
     {RequestType::create2, RequestType::get_children2, RequestType::multi}},
    {"Barrier",
     [](Client& client, auto time, auto options) { return zkrecipes::Barrier(client, "/b").wait_for(time, options); },
     [](Client& other) {
       zkrecipes::Barrier(other, "/b").raise();
       return std::shared_ptr<void>(nullptr, [&other](void*) { zkrecipes::Barrier(other, "/b").lower(); });
     },
     {RequestType::get_data}},
    {"Latch",
     [](Client& client, auto time, auto options) { return zkrecipes::Latch(client, "/l", 1).wait_for(time, options); },
     [](Client& other) {
       return std::shared_ptr<void>(nullptr, [&other](void*) { zkrecipes::Latch(other, "/l", 1).count_down(); });
     },
     {RequestType::get_data}},
    {"DoubleBarrier",
     [](Client& client, auto time, auto options) {
       zkrecipes::DoubleBarrier alone(client, "/d1", 1);
       return alone.try_enter_for(time, options).has_value();
     },
     nullptr,
     {RequestType::get_children2, RequestType::get_data, RequestType::multi}},
    {"DoubleBarrierOfTwo",
     [](Client& client, auto time, auto options) {
       zkrecipes::DoubleBarrier one_of_two(client, "/d2", 2);
       return one_of_two.try_enter_for(time, options).has_value();
     },
     nothing,
     {RequestType::get_children2, RequestType::get_data},
     false},
    {"Pop",
     [](Client& client, auto time, auto options) {
       return zkrecipes::Queue(client, "/q").try_pop_for(time, options).has_value();
     },
     nothing,
     {RequestType::get_children2},
     false},
    {"Claim",
     [](Client& client, auto time, auto options) {
       return zkrecipes::PriorityQueue(client, "/pq").try_claim_for(time, options).has_value();
     },
     nothing,
     {RequestType::get_children2},
     false},
};

// A timed call that loses a reply, and what comes before the reply is to be lost.
struct LossyCall {
  std::string name;
  std::function<void(std::chrono::nanoseconds time)> call;
  std::function<void()> prepare = [] {};
};

class TimedFaults : public testkit::RecipeFaultTest {
 protected:
  TimedFaults() : RecipeFaultTest("/timed") {}

  // With little time left, one lost reply is enough to have none; nothing may be thrown. `certain`: the call sends such
  // a request, though on a loaded machine little time may be over before.
  void lose_replies(const Client& client, RequestType lost, bool certain, const LossyCall& lossy) {
    bool happened = false;
    for (const auto time : {20ms, 35ms, 60ms}) {
      if (lose_reply(client, lost, time, lossy)) happened = true;
    }
    for (auto time = 120ms; certain && !happened && time < testkit::patience; time *= 2)
      happened = lose_reply(client, lost, time, lossy);
    EXPECT_TRUE(happened || !certain) << lossy.name << ", " << static_cast<int>(lost) << ": no reply was lost";
  }

 private:
  bool lose_reply(const Client& client, RequestType lost, std::chrono::milliseconds time, const LossyCall& lossy) {
    client.connect({.deadline = testkit::soon()});
    lossy.prepare();
    auto fault = proxy.drop_next_reply(lost);
    try {
      lossy.call(time);
    } catch (const Error& error) {
      ADD_FAILURE() << lossy.name << ", " << static_cast<int>(lost) << ", " << time.count() << " ms: " << error.what();
    }
    const bool happened = fault.happened();
    fault.cancel();
    return happened;
  }
};

class TimedForms : public TimedFaults, public ::testing::WithParamInterface<Form> {};

TEST_P(TimedForms, ThrowNothingWhenAReplyIsLostShortlyBeforeTheEnd) {
  const Form& form = GetParam();
  Client client = calm_proxied();
  const LossyCall lossy{form.name, [&](auto time) { form.call(client, time, {}); }};
  for (const RequestType lost : {RequestType::create2, RequestType::multi, RequestType::get_children2,
                                 RequestType::exists, RequestType::get_data, RequestType::any}) {
    const bool certain = lost == RequestType::any || std::ranges::count(form.sends, lost) != 0;
    lose_replies(client, lost, certain, lossy);
  }
}

// To leave sends other requests than to enter.
TEST_F(TimedFaults, LeaveThrowsNothingWhenAReplyIsLostShortlyBeforeTheEnd) {
  Client client = calm_proxied();
  std::unique_ptr<zkrecipes::DoubleBarrier> barrier;
  LossyCall lossy{"leave", [&](auto time) { (void)barrier->try_leave_for(time); }};
  lossy.prepare = [&] {
    barrier = std::make_unique<zkrecipes::DoubleBarrier>(client, "/d1", 1);
    (void)barrier->enter({.deadline = testkit::soon()});
  };
  for (const RequestType lost : {RequestType::remove, RequestType::get_children2, RequestType::any}) {
    lose_replies(client, lost, true, lossy);
    EXPECT_FALSE(barrier->inside());
  }
}

// The deadline passes anywhere between the caller and the server: the wait has an end all the same.
TEST_P(TimedForms, EndHoweverShortTheTimeIs) {
  const Form& form = GetParam();
  Client client = calm_direct();
  Client other = calm_direct();
  client.connect({.deadline = testkit::soon()});
  const auto occupied = form.occupy ? form.occupy(other) : nullptr;
  std::stop_source give_up;
  auto calls = testkit::in_thread([&] {
    for (auto time = 1ns; time <= 300ns; time += 3ns)
      form.call(client, time, give_up.get_token());
  });
  if (calls.wait_for(testkit::patience) != std::future_status::ready) {
    ADD_FAILURE() << "a call does not end";
    give_up.request_stop();
  }
  EXPECT_NO_THROW(testkit::result_of(calls));
}

TEST_P(TimedForms, TellWhatIsNotAvailableFromWhatCannotBeReached) {
  const Form& form = GetParam();
  Client client = calm_proxied();
  Client other = calm_direct();
  client.connect({.deadline = testkit::soon()});
  std::error_code why = Errc::closed;
  if (form.occupy) {
    {
      const auto occupied = form.occupy(other);
      for (const auto time : {std::chrono::nanoseconds(0), std::chrono::nanoseconds(50ms)}) {
        EXPECT_FALSE(form.call(client, time, why));
        EXPECT_EQ(why, Errc::not_available);
      }
    }
    if (form.comes) {
      EXPECT_TRUE(form.call(client, testkit::patience, why));
      EXPECT_EQ(why, std::error_code());
    }
  }
  refuse_and_cut();
  // On a busy machine the client hears of that later than the next call would end.
  ASSERT_TRUE(reaches(client, zkclient::ConnectionState::suspended));
  EXPECT_FALSE(form.call(client, 100ms, why));
  EXPECT_EQ(why, Errc::deadline_exceeded);
  EXPECT_TRUE(testkit::eventually([&] { return client.trouble().find("refused the connection") != std::string::npos; }))
      << client.trouble();
  proxy.refuse(false);
}

INSTANTIATE_TEST_SUITE_P(Each, TimedForms, ::testing::ValuesIn(forms),
                         [](const auto& param) { return std::string(param.param.name); });

// --- Why it takes so long -----------------------------------------------------------------------------------------

class LateErrors : public testkit::RecipeFaultTest {
 protected:
  LateErrors() : RecipeFaultTest("/late") {}
  // What a wait says that had time enough to find out `expected`: on a busy machine little time may be over before.
  template <typename Call>
  static std::string detail_of(Call call, const std::string& expected) {
    std::string detail;
    for (auto time = 100ms; !detail.starts_with(expected) && time < testkit::patience; time *= 2)
      detail = detail_of(call, time);
    EXPECT_TRUE(detail.starts_with(expected)) << detail;
    return detail;
  }

 private:
  template <typename Call>
  static std::string detail_of(Call call, std::chrono::milliseconds time) {
    try {
      call(zkclient::CallOptions{.deadline = testkit::SteadyClock::now() + time});
    } catch (const Error& error) {
      EXPECT_EQ(error.errc(), Errc::deadline_exceeded) << error.what();
      return error.detail();
    }
    ADD_FAILURE() << "it did not wait";
    return "";
  }
};

TEST_F(LateErrors, SayWhoHolds) {
  Client client = calm_proxied();
  Client other = calm_direct();
  zkrecipes::Mutex mutex(client, "/m");
  {
    const zkrecipes::Lease held = zkrecipes::Mutex(other, "/m", {.id = "the first"}).acquire();
    const auto acquire = [&](const auto& call) { (void)mutex.acquire(call); };
    const std::string why = detail_of(acquire, "held by id=the first host=");
    EXPECT_NE(why.find(held.node()), std::string::npos) << why;
    auto second = testkit::in_thread([&] { return zkrecipes::Mutex(other, "/m", {.id = "the second"}).acquire(); });
    ASSERT_TRUE(testkit::eventually([&] { return mutex.contenders().size() == 2; }));
    detail_of(acquire, "waits behind others, next id=the second host=");
    // Whoever waits can be asked at any time.
    const auto contenders = mutex.contenders();
    EXPECT_EQ(contenders.front().node, held.node().substr(held.node().rfind('/') + 1));
    EXPECT_TRUE(contenders.front().holds);
    EXPECT_NE(contenders.front().session_id, 0);
    zkrecipes::Lease done = std::move(const_cast<zkrecipes::Lease&>(held));
    done.release();
    testkit::result_of(second).release();
  }
  const zkrecipes::Lease alone = zkrecipes::UnfairMutex(other, "/u", {.id = "alone"}).acquire();
  detail_of([&](const auto& call) { (void)zkrecipes::UnfairMutex(client, "/u").acquire(call); },
            "held by id=alone host=");
  const zkrecipes::Lease taken = zkrecipes::Semaphore(other, "/s", 1).acquire();
  const std::string all_taken = "1 of 1 leases are taken, 1 are wanted";
  EXPECT_EQ(detail_of([&](const auto& call) { (void)zkrecipes::Semaphore(client, "/s", 1).acquire(call); }, all_taken),
            all_taken);
}

// As with Curator it blocks the lock for ever: so its name is told, and what to do.
TEST_F(LateErrors, SayThatAPersistentNodeIsInTheWay) {
  Client client = calm_proxied();
  zkrecipes::Mutex mutex(client, "/m");
  client.create("/m", "");  // Not a container, which the server may take away in between.
  client.create("/m/_c_00000000-0000-0000-0000-000000000000-lock-0000000000", "left");
  const std::string why = detail_of([&](const auto& call) { (void)mutex.acquire(call); }, "held by left, since ");
  EXPECT_NE(
      why.find("/m/_c_00000000-0000-0000-0000-000000000000-lock-0000000000, a persistent node: no session ends it, "
               "an operator has to delete it"),
      std::string::npos)
      << why;
  const auto contenders = mutex.contenders();
  ASSERT_EQ(contenders.size(), 1U);
  EXPECT_EQ(contenders.front().session_id, 0);
  client.remove("/m/_c_00000000-0000-0000-0000-000000000000-lock-0000000000");
  EXPECT_TRUE(mutex.try_acquire());
}

}  // namespace
