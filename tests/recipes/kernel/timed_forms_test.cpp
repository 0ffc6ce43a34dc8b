// The timed forms: what they promise when the time is over, whatever is lost on the way, and how they tell "others have it"
// from "there is no server".

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/multi_lock.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/recipe_test.hpp"

namespace {

using namespace std::chrono_literals;
using testkit::error_of;
using zkclient::Client;
using zkclient::Errc;
using zkclient::Error;
using zkrecipes::WaitOptions;
using zktesting::RequestType;

// One timed form; true when it got what it asked for. What it got goes at once.
struct Form {
  const char* name;
  std::function<bool(Client& client, std::chrono::nanoseconds time, WaitOptions options)> call;
  /// Somebody else takes it, and keeps it until the result goes.
  std::function<std::shared_ptr<void>(Client& other)> occupy;
};

template <typename T>
std::shared_ptr<void> keep(T value) {
  return std::make_shared<T>(std::move(value));
}

const std::vector<Form> forms = {
    {"Mutex",
     [](Client& client, auto time, auto options) {
       return zkrecipes::Mutex(client, "/m").try_acquire_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::Mutex(other, "/m").acquire()); }},
    {"UnfairMutex",
     [](Client& client, auto time, auto options) {
       return zkrecipes::UnfairMutex(client, "/u").try_acquire_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::UnfairMutex(other, "/u").acquire()); }},
    {"SharedMutexToWrite",
     [](Client& client, auto time, auto options) {
       return zkrecipes::SharedMutex(client, "/s").try_acquire_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::SharedMutex(other, "/s").acquire_shared()); }},
    {"SharedMutexToRead",
     [](Client& client, auto time, auto options) {
       return zkrecipes::SharedMutex(client, "/s").try_acquire_shared_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::SharedMutex(other, "/s").acquire()); }},
    {"Semaphore",
     [](Client& client, auto time, auto options) {
       return zkrecipes::Semaphore(client, "/p", 1).try_acquire_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::Semaphore(other, "/p", 1).acquire()); }},
    {"MultiLock",
     [](Client& client, auto time, auto options) {
       zkrecipes::Mutex one(client, "/m1");
       zkrecipes::UnfairMutex two(client, "/m2");
       return zkrecipes::MultiLock().add(one).add(two).try_acquire_for(time, options).has_value();
     },
     [](Client& other) { return keep(zkrecipes::UnfairMutex(other, "/m2").acquire()); }},
    {"Barrier",
     [](Client& client, auto time, auto options) { return zkrecipes::Barrier(client, "/b").wait_for(time, options); },
     [](Client& other) {
       zkrecipes::Barrier(other, "/b").raise();
       return std::shared_ptr<void>(nullptr, [&other](void*) { zkrecipes::Barrier(other, "/b").lower(); });
     }},
    {"DoubleBarrier",
     [](Client& client, auto time, auto options) {
       zkrecipes::DoubleBarrier alone(client, "/d1", 1);
       return alone.try_enter_for(time, options).has_value();
     },
     nullptr},
    {"Pop",
     [](Client& client, auto time, auto options) {
       return zkrecipes::Queue(client, "/q").try_pop_for(time, options).has_value();
     },
     [](Client&) { return std::shared_ptr<void>(); }},
    {"Claim",
     [](Client& client, auto time, auto options) {
       return zkrecipes::PriorityQueue(client, "/pq").try_claim_for(time, options).has_value();
     },
     [](Client&) { return std::shared_ptr<void>(); }},
};

class TimedForms : public testkit::RecipeFaultTest, public ::testing::WithParamInterface<Form> {
 protected:
  TimedForms() : RecipeFaultTest("/timed") {}
};

// With little time left, one lost reply is enough to have none.
TEST_P(TimedForms, ThrowNothingWhenAReplyIsLostShortlyBeforeTheEnd) {
  const Form& form = GetParam();
  Client client = calm_proxied();
  for (const RequestType lost :
       {RequestType::create2, RequestType::multi, RequestType::get_children2, RequestType::exists, RequestType::any}) {
    for (const auto time : {20ms, 35ms, 60ms}) {
      client.connect({.deadline = testkit::soon()});
      auto fault = proxy.drop_next_reply(lost);
      try {
        form.call(client, time, {});
      } catch (const Error& error) {
        ADD_FAILURE() << form.name << ", " << static_cast<int>(lost) << ", " << time.count() << " ms: " << error.what();
      }
      fault.cancel();
    }
  }
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
    if (std::string(form.name) != "Pop" && std::string(form.name) != "Claim") {
      EXPECT_TRUE(form.call(client, testkit::patience, why));
      EXPECT_EQ(why, std::error_code());
    }
  }
  proxy.refuse(true);
  proxy.cut();
  EXPECT_FALSE(form.call(client, 100ms, why));
  EXPECT_EQ(why, Errc::deadline_exceeded);
  EXPECT_NE(client.trouble().find("refused the connection"), std::string::npos) << client.trouble();
  proxy.refuse(false);
}

INSTANTIATE_TEST_SUITE_P(Each, TimedForms, ::testing::ValuesIn(forms),
                         [](const auto& param) { return std::string(param.param.name); });

// --- Why it takes so long -----------------------------------------------------------------------------------------

class LateErrors : public testkit::RecipeFaultTest {
 protected:
  LateErrors() : RecipeFaultTest("/late") {}
  template <typename Call>
  std::string detail_of(Call call) {
    try {
      call(zkclient::CallOptions{.deadline = testkit::SteadyClock::now() + 100ms});
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
    const std::string why = detail_of([&](const auto& call) { (void)mutex.acquire(call); });
    EXPECT_TRUE(why.starts_with("held by id=the first host=")) << why;
    EXPECT_NE(why.find(held.node()), std::string::npos) << why;
    auto second = testkit::in_thread([&] { return zkrecipes::Mutex(other, "/m", {.id = "the second"}).acquire(); });
    ASSERT_TRUE(testkit::eventually([&] { return mutex.contenders().size() == 2; }));
    const std::string later = detail_of([&](const auto& call) { (void)mutex.acquire(call); });
    EXPECT_TRUE(later.starts_with("waits behind others, next id=the second host=")) << later;
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
  const std::string why =
      detail_of([&](const auto& call) { (void)zkrecipes::UnfairMutex(client, "/u").acquire(call); });
  EXPECT_TRUE(why.starts_with("held by id=alone host=")) << why;
  const zkrecipes::Lease taken = zkrecipes::Semaphore(other, "/s", 1).acquire();
  EXPECT_EQ(detail_of([&](const auto& call) { (void)zkrecipes::Semaphore(client, "/s", 1).acquire(call); }),
            "1 of 1 leases are taken, 1 are wanted");
}

// As with Curator it blocks the lock for ever: so its name is told, and what to do.
TEST_F(LateErrors, SayThatAPersistentNodeIsInTheWay) {
  Client client = calm_proxied();
  zkrecipes::Mutex mutex(client, "/m");
  mutex.acquire().release();
  client.create("/m/_c_00000000-0000-0000-0000-000000000000-lock-0000000000", "left");
  const std::string why = detail_of([&](const auto& call) { (void)mutex.acquire(call); });
  EXPECT_TRUE(why.starts_with("held by left, since ")) << why;
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
