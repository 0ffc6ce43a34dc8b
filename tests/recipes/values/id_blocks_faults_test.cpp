// One test for each row of the table "What goes wrong" in <zkrecipes/id_blocks.hpp> that needs a fault; the others are in
// id_blocks_test.cpp.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/id_blocks.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class IdBlocksFaults : public testkit::RecipeFaultTest {
 protected:
  IdBlocksFaults() : RecipeFaultTest("/ids") {}
  static IdBlocks make(const Client& client, std::int64_t block = 4) {
    return IdBlocks(client, node, {.block = block, .encoding = CounterEncoding::kazoo});
  }
  std::string data() {
    std::error_code error;
    return the_operator().get(node, {}, error).data;
  }
  bool reserved(std::int64_t highest) {
    return eventually([&] { return data() == std::to_string(highest); });
  }

  static inline const zkclient::Path node = "/ids/orders";
};

TEST_F(IdBlocksFaults, ReservingLost) {
  Client client = calm_proxied();
  IdBlocks ids = make(client);
  std::int64_t id = 0;
  for (const bool request : {true, false}) {
    for (const RequestType type : {RequestType::multi, RequestType::get_data}) {
      auto fault = lose(request, type);
      while (!fault.happened()) {
        EXPECT_EQ(ids.next(patient()), id + 1);
        ++id;
      }
    }
  }
  for (int i = 0; i < 9; ++i)
    EXPECT_EQ(ids.next(patient()), ++id) << "no block was reserved twice";
}

TEST_F(IdBlocksFaults, SessionLostWhileReserving) {
  Client client = calm_proxied();
  IdBlocks ids = make(client);
  EXPECT_EQ(ids.next(patient()), 1);
  EXPECT_EQ(ids.next(patient()), 2);
  ASSERT_TRUE(reserved(8));
  for (std::int64_t id = 3; id <= 5; ++id)
    EXPECT_EQ(ids.next(patient()), id);
  const zkclient::Session session = client.connect(patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  EXPECT_EQ(ids.next(patient()), 6) << "now the next one is reserved";
  ASSERT_TRUE(held.wait(patience));
  refuse_and_cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  held.release();
  for (std::int64_t id = 7; id <= 8; ++id)
    EXPECT_EQ(ids.next(patient()), id);
  auto waiting = in_thread([&] { return ids.next(patient()); });
  proxy.refuse(false);
  EXPECT_EQ(result_of(waiting), 13) << "from 9 to 12 is a gap";
  EXPECT_TRUE(reserved(16));
}

TEST_F(IdBlocksFaults, ConnectionBreaks) {
  Client client = calm_proxied();
  IdBlocks ids = make(client, 100);
  EXPECT_EQ(ids.next(patient()), 1);
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  for (std::int64_t id = 2; id <= 100; ++id)
    EXPECT_EQ(ids.next(patient()), id);
  auto waiting = in_thread([&] { return ids.next(patient()); });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  proxy.refuse(false);
  EXPECT_EQ(result_of(waiting), 101);
}

TEST_F(IdBlocksFaults, DeadlineOrStop) {
  Client client = calm_proxied();
  IdBlocks ids = make(client);
  client.connect(patient());
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  EXPECT_EQ(error_of([&] { (void)ids.next({.deadline = 50ms}); }), Errc::deadline_exceeded);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { (void)ids.next({.stop = stop.get_token()}); }); });
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
  EXPECT_EQ(data(), "");
  proxy.refuse(false);
  EXPECT_TRUE(reserved(4)) << "it comes all the same";
  EXPECT_EQ(ids.next(patient()), 1);
}

TEST_F(IdBlocksFaults, AReservationThatNobodyWaitsForEndsWithTheObject) {
  Client client = calm_proxied();
  client.connect(patient());
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  {
    IdBlocks ids = make(client);
    EXPECT_EQ(error_of([&] { (void)ids.next({.deadline = 20ms}); }), Errc::deadline_exceeded);
  }
  // The call outlives the object.
  Box<Result<std::int64_t>> told;
  make(client).async_next([&](auto id) { told.put(std::move(id)); }, {.deadline = 20ms});
  EXPECT_EQ(told.take().code(), Errc::deadline_exceeded);
  proxy.refuse(false);
  client.connect(patient());
  // Its reservation would come at any time from now on.
  for (std::int64_t id = 1; id <= 21; id += 4)
    EXPECT_EQ(make(client).next(patient()), id) << "nobody else reserves";
}

TEST_F(IdBlocksFaults, ClientClosed) {
  Client client = calm_direct();
  IdBlocks ids = make(client, 100);
  EXPECT_EQ(ids.next(patient()), 1);
  client.close();
  for (std::int64_t id = 2; id <= 100; ++id)
    EXPECT_EQ(ids.next(patient()), id);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(error_of([&] { (void)ids.next(patient()); }), Errc::closed);
}

}  // namespace
}  // namespace zkrecipes
