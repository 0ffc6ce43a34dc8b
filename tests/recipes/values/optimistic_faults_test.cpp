// One test for each row of the table "What goes wrong" in <zkrecipes/optimistic.hpp> that needs a fault; the others are in
// optimistic_test.cpp.

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/optimistic.hpp>

#include "tests/support/forged_log.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::forge_version;

// One for each kind of fault, and those that forge a file of the server.
const testkit::OnRealServers optimistic_on_real_servers{
    "OptimisticFaults.WritingLost", "OptimisticFaults.VersionAboutToBeMinusOne", "OptimisticFaults.VersionIsMinusOne"};

class OptimisticFaults : public testkit::RecipeFaultTest {
 protected:
  OptimisticFaults() : RecipeFaultTest("/bank") {
    the_operator().create(ann, "0");
    the_operator().create(bob, "0");
  }
  static Optimistic make(const Client& client) { return Optimistic(client, "/bank"); }
  std::string data(const zkclient::Path& path = ann) { return the_operator().get(path).data; }
  /// One more; and `bob` gets the same number.
  static void add(OptimisticView& view) {
    view.set(ann, std::to_string(std::stoi(view.get(ann)) + 1));
    view.set(bob, view.get(ann));
  }
  void expect_number(int number) {
    EXPECT_EQ(data(), std::to_string(number));
    EXPECT_EQ(data(bob), std::to_string(number));
  }

  static inline const zkclient::Path ann = "/bank/ann";
  static inline const zkclient::Path bob = "/bank/bob";
};

TEST_F(OptimisticFaults, ReadLost) {
  Client client = calm_proxied();
  Optimistic bank = make(client);
  const auto list = [](OptimisticView& view) { (void)view.children("/bank"); };
  for (const bool request : {true, false}) {
    for (const RequestType type : {RequestType::get_data, RequestType::get_children2}) {
      auto fault = lose(request, type);
      type == RequestType::get_data ? bank.atomically(add, patient()) : bank.atomically(list, patient());
      EXPECT_TRUE(fault.wait(patience));
    }
  }
  expect_number(2);
}

TEST_F(OptimisticFaults, WritingLost) {
  Client client = calm_proxied();
  Optimistic bank = make(client);
  for (int number = 1; number <= 6; ++number) {
    const RequestType type = number <= 2 ? RequestType::create2 : RequestType::multi;  // The former: the slot.
    auto fault = number % 2 == 0 ? proxy.drop_next_reply(type) : proxy.drop_next_request(type);
    int runs = 0;
    Optimistic fresh = make(client);
    (number <= 2 ? fresh : bank)
        .atomically(
            [&](OptimisticView& view) {
              ++runs;
              add(view);
            },
            patient());
    EXPECT_EQ(runs, 1);
    EXPECT_TRUE(fault.wait(patience));
    expect_number(number);
  }
}

// An attempt whose connection broke may reach the leader after its repetition was refused. No server can be made to do
// it, so the test writes in its place.
TEST_F(OptimisticFaults, FirstAttemptComesAfterTheRefusal) {
  const zkclient::Path cid = "/bank/cid";
  Client client = calm_proxied();
  Optimistic bank = make(client);
  for (const bool comes : {true, false}) {
    bank.atomically(add, patient());
    const std::vector<std::string> slots = names("/bank/_c_writes");
    ASSERT_EQ(slots.size(), 1U);
    const zkclient::Path slot = zkclient::Path("/bank/_c_writes") / slots.front();
    auto lost = proxy.drop_next_request(RequestType::multi);
    proxy.refuse(true);
    std::atomic<int> runs = 0;
    auto opening = in_thread([&] {
      bank.atomically(
          [&](OptimisticView& view) {
            ++runs;
            if (!view.find(cid)) view.create(cid, "1");
          },
          patient());
    });
    ASSERT_TRUE(lost.wait(patience));
    the_operator().create(cid, "foreign");
    auto refused = proxy.hold_next_reply(RequestType::multi);
    proxy.refuse(false);
    ASSERT_TRUE(refused.wait(patience));
    the_operator().remove(cid);
    if (comes) the_operator().commit(zkclient::Transaction().set(slot, "").create(cid, "1"));
    refused.release();
    result_of(opening);
    EXPECT_EQ(runs, comes ? 1 : 2);
    EXPECT_EQ(data(cid), "1");
    EXPECT_EQ(the_operator().exists(slot).has_value(), comes);
    the_operator().remove(cid);
  }
}

// Its reply is lost, and before it is asked again another client has written.
TEST_F(OptimisticFaults, WrittenOverBeforeItIsAskedAgain) {
  Client client = calm_proxied();
  Optimistic bank = make(client);
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto adding = in_thread([&] { bank.atomically(add, patient()); });
  ASSERT_TRUE(held.wait(patience));
  the_operator().set(ann, "7");
  proxy.cut();
  held.release();
  result_of(adding);
  EXPECT_EQ(data(), "7");
  EXPECT_EQ(data(bob), "1");
}

// The list is missing, and there, with a child, when its node is looked for.
TEST_F(OptimisticFaults, AListIsMadeWhileItIsRead) {
  Client client = calm_proxied();
  Optimistic bank = make(client);
  client.connect(patient());
  auto held = proxy.hold_next_reply(RequestType::get_children2);
  auto counting = in_thread([&] {
    bank.atomically([](OptimisticView& view) { view.set(ann, std::to_string(view.children("/late").size())); },
                    patient());
  });
  ASSERT_TRUE(held.wait(patience));
  the_operator().create("/late", "");
  the_operator().create("/late/child", "");
  held.release();
  result_of(counting);
  EXPECT_EQ(data(), "1");
}

TEST_F(OptimisticFaults, SessionLostWhileWriting) {
  Client client = calm_proxied();
  Optimistic bank = make(client);
  const zkclient::Session session = client.connect(patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto adding = in_thread([&] { return error_of([&] { bank.atomically(add, patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  refuse_and_cut();
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  held.release();
  proxy.refuse(false);
  EXPECT_EQ(result_of(adding), Errc::in_doubt);
  expect_number(1);
}

TEST_F(OptimisticFaults, SessionLostBeforeWriting) {
  Client client = calm_proxied();
  Optimistic bank = make(client);
  bank.atomically(add, patient());
  const zkclient::Session session = client.connect(patient());
  bool first = true;
  auto adding = in_thread([&] {
    bank.atomically(
        [&](OptimisticView& view) {
          add(view);
          if (!std::exchange(first, false)) return;
          refuse_and_cut();
          EXPECT_TRUE(reaches(client, ConnectionState::suspended));
          zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
          proxy.refuse(false);
        },
        patient());
  });
  result_of(adding);
  expect_number(2);
}

TEST_F(OptimisticFaults, DeadlineOrStop) {
  Client client = calm_proxied();
  Optimistic bank = make(client);
  client.connect(patient());
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  int caught = 0;
  const auto goes_on = [&](OptimisticView& view) {  // What it could not read it takes for something else.
    try {
      add(view);
    } catch (const Error&) {
      ++caught;
    }
  };
  EXPECT_EQ(error_of([&] { bank.atomically(goes_on, {.deadline = 50ms}); }), Errc::deadline_exceeded);
  std::stop_source at_once;
  at_once.request_stop();
  EXPECT_EQ(error_of([&] { bank.atomically(goes_on, {.stop = at_once.get_token()}); }), Errc::cancelled);
  EXPECT_EQ(caught, 2);
  proxy.refuse(false);
  client.connect(patient());
  expect_number(0);
  std::stop_source stop;
  auto held = proxy.hold_next_reply(RequestType::multi);
  const CallOptions limits = {.deadline = soon(), .stop = stop.get_token()};
  auto adding = in_thread([&] { return error_of([&] { bank.atomically(add, limits); }); });
  ASSERT_TRUE(held.wait(patience));
  stop.request_stop();
  EXPECT_EQ(result_of(adding), Errc::in_doubt);
  held.release();
  expect_number(1);
}

TEST_F(OptimisticFaults, VersionAboutToBeMinusOne) {
  forge_version(server, ann, "0", -3);
  Client client = calm_proxied();
  Optimistic bank = make(client);
  bank.atomically(add, patient());
  EXPECT_EQ(the_operator().get(ann).stat.version, -2);
  bank.atomically(add, patient());
  EXPECT_EQ(the_operator().get(ann).stat.version, 0);
  bank.atomically(add, patient());
  expect_number(3);
}

TEST_F(OptimisticFaults, VersionIsMinusOne) {
  forge_version(server, ann, "0", -1);
  Client client = calm_proxied();
  Optimistic bank = make(client);
  try {
    bank.atomically(add, patient());
    ADD_FAILURE() << "it cannot be checked";
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::bad_version);
    EXPECT_NE(std::string(error.what()).find("/bank/ann"), std::string::npos) << error.what();
  }
  expect_number(0);
}

TEST_F(OptimisticFaults, SlotDeletedByHand) {
  Client client = calm_proxied();
  Optimistic bank = make(client);
  bank.atomically(add, patient());
  for (const std::string& slot : names("/bank/_c_writes"))
    the_operator().remove(zkclient::Path("/bank/_c_writes") / slot);
  bank.atomically(add, patient());
  expect_number(2);
}

TEST_F(OptimisticFaults, ClientClosed) {
  Client client = calm_proxied();
  Optimistic bank = make(client);
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto adding = in_thread([&] { return error_of([&] { bank.atomically(add, patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  refuse_and_cut();
  auto closing = in_thread([client]() mutable { client.close(); });
  EXPECT_EQ(result_of(adding), Errc::in_doubt);
  held.release();
  result_of(closing);
  EXPECT_EQ(error_of([&] { bank.atomically(add, patient()); }), Errc::closed);
  Box<zkclient::Result<void>> told;
  bank.async_atomically(add, [&](auto result) { told.put(std::move(result)); });
  EXPECT_EQ(told.take().code(), Errc::closed);
  expect_number(1);
}

}  // namespace
}  // namespace zkrecipes
