// One test for each row of the table "What goes wrong" in <zkrecipes/shared_value.hpp> that needs a fault; the others are
// in shared_value_test.cpp.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/shared_value.hpp>

#include "tests/recipes/values/value_faults.hpp"
#include "tests/support/forged_log.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::forge_version;

// One for each kind of fault, and those that forge a file of the server.
const testkit::OnRealServers shared_values_on_real_servers{
    "SharedValueFaults.VersionAboutToBeMinusOne", "SharedValueFaults.VersionIsMinusOne", "SharedValueFaults.SetLost",
    "SharedValueFaults.ListenersAfterAConnectionOrASessionIsLost"};

std::optional<std::string> add_plus(const VersionedValue& seen) { return seen.data + "+"; }

class SharedValueFaults : public ValueFaults {
 protected:
  SharedValueFaults() : ValueFaults(node) {}
  static SharedValue make(const Client& client, bool durable = false) { return {client, node, {.durable = durable}}; }
  /// Waits until the object knows its value, and a watch would tell it of a change.
  ValueVersion watched(SharedValue& value) {
    EXPECT_TRUE(eventually([&] { return server.watch_count() == 1; }));
    return value.get(patient()).version;  // Answered behind the look.
  }
  /// What it returned, in words.
  static std::string update(SharedValue& value, const SharedValue::Function& function, bool asynchronous) {
    try {
      if (!asynchronous) return value.update(function, patient()).value_or("nothing");
      Box<zkclient::Result<std::optional<std::string>>> told;
      value.async_update(
          function, [&](auto result) { told.put(std::move(result)); }, patient());
      return told.take().value().value_or("nothing");
    } catch (const zkclient::Error&) {
      return "an error";
    }
  }
  /// `write` meets the end of its session when it was applied, or before it could be.
  template <typename Write>
  auto lose_session(const Client& client, bool applied, Write write) {
    const zkclient::Session session = client.connect(patient());
    std::optional<zktesting::HeldReply> held;
    std::optional<zktesting::Fault> dropped;
    if (applied) {
      held.emplace(proxy.hold_next_reply(RequestType::multi));
    } else {
      proxy.refuse(true);  // What was dropped cannot be sent again.
      dropped.emplace(proxy.drop_next_request(RequestType::multi));
    }
    auto writing = in_thread(write);
    EXPECT_TRUE(applied ? held->wait(patience) : dropped->wait(patience));
    refuse_and_cut();
    zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    if (held) held->release();
    proxy.refuse(false);
    return result_of(writing);
  }

  static inline const zkclient::Path node = "/values/shared";
};

// --- Lost replies ---------------------------------------------------------------------------------------------------

TEST_F(SharedValueFaults, GetLost) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  value.set("1", patient());
  for (const bool request : {true, false}) {
    auto fault = lose(request, RequestType::get_data);
    EXPECT_EQ(value.get(patient()).data, "1");
    EXPECT_TRUE(fault.wait(patience));
  }
}

// V84: another client writes before the call whose reply was lost is sent again.
TEST_F(SharedValueFaults, SetLost) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  value.set("0", patient());
  for (const bool request : {true, false}) {
    auto fault = lose(request);
    const std::int32_t before = version();
    value.set("X", patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(data(), "X");
    EXPECT_EQ(version(), before + 1);
  }
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto setting = in_thread([&] { value.set("X", patient()); });
  ASSERT_TRUE(held.wait(patience));
  make(the_operator()).set("Y", patient());
  proxy.cut();
  held.release();
  result_of(setting);
  EXPECT_EQ(data(), "Y");
}

TEST_F(SharedValueFaults, FirstSetLost) {
  Client client = calm_proxied();
  for (const RequestType type : {RequestType::create2, RequestType::multi}) {  // The former: the slot.
    for (const bool request : {true, false}) {
      SharedValue fresh = make(client);
      auto fault = lose(request, type);
      fresh.set("1", patient());
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(data(), "1");
      EXPECT_EQ(version(), 0);
      the_operator().remove(node);
    }
  }
}

// V82: by the time that it is asked again, the value is another one.
TEST_F(SharedValueFaults, CompareSetLost) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  SharedValue other = make(the_operator());
  for (const bool request : {true, false}) {
    value.set("1", patient());
    const ValueVersion seen = value.get(patient()).version;
    auto fault = lose(request);
    EXPECT_TRUE(value.compare_set(seen, "2", patient()));
    EXPECT_TRUE(fault.wait(patience));
    fault = lose(request);
    EXPECT_FALSE(value.compare_set(seen, "x", patient()));
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(data(), "2");
    the_operator().remove(node);
    fault = lose(request);
    EXPECT_FALSE(value.compare_set(seen, "x", patient()));
    EXPECT_TRUE(fault.wait(patience));
    fault = lose(request);
    EXPECT_TRUE(value.compare_set({}, "new", patient()));
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(data(), "new");
  }
  const ValueVersion seen = value.get(patient()).version;
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto comparing = in_thread([&] { return value.compare_set(seen, "mine", patient()); });
  ASSERT_TRUE(held.wait(patience));
  other.set("of the other", patient());
  proxy.cut();
  held.release();
  EXPECT_TRUE(result_of(comparing));
  EXPECT_EQ(data(), "of the other");
}

TEST_F(SharedValueFaults, UpdateLost) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  std::string expected;
  for (const RequestType type : {RequestType::get_data, RequestType::multi}) {
    for (const bool request : {true, false}) {
      // The function meddles once, so that what is known is outdated.
      bool meddled = false;
      const auto meddle = [&](const VersionedValue& seen) {
        if (!std::exchange(meddled, true)) make(the_operator()).set(seen.data + "o", patient());
        return add_plus(seen);
      };
      auto fault = lose(request, type);
      expected += "o+";
      EXPECT_EQ(value.update(meddle, patient()), expected);
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(data(), expected);
    }
  }
}

// --- Sessions, deadlines --------------------------------------------------------------------------------------------

/// All changes, one after another.
struct SharedValueCall {
  std::function<void(SharedValue&, const CallOptions&)> run;
  std::string after;
};
const std::vector<SharedValueCall> all_shared_calls = {
    {[](SharedValue& value, const CallOptions& call) { value.set("1", call); }, "1"},
    {[](SharedValue& value, const CallOptions& call) {
       EXPECT_TRUE(value.compare_set(value.get(call).version, "2", call));
     },
     "2"},
    {[](SharedValue& value, const CallOptions& call) { EXPECT_EQ(value.update(add_plus, call), "2+"); }, "2+"},
};

TEST_F(SharedValueFaults, SessionLostDuringAChange) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  value.set("0", patient());
  for (const SharedValueCall& call : all_shared_calls) {
    const auto run = [&] { return error_of([&] { call.run(value, patient()); }); };
    EXPECT_EQ(lose_session(client, true, run), Errc::in_doubt);
    EXPECT_EQ(data(), call.after);
  }
  // Before anything was sent.
  const zkclient::Session session = client.connect(patient());
  refuse_and_cut();
  ASSERT_TRUE(reaches(client, ConnectionState::suspended));
  auto writing = in_thread([&] { value.set("next", patient()); });
  zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
  proxy.refuse(false);
  result_of(writing);
  EXPECT_EQ(data(), "next");
}

TEST_F(SharedValueFaults, DurableSessionLostDuringAChange) {
  Client client = calm_proxied();
  SharedValue value = make(client, true);
  for (const bool applied : {true, false}) {
    value.set("0", patient());
    for (const SharedValueCall& call : all_shared_calls) {
      lose_session(client, applied, [&] { call.run(value, patient()); });
      EXPECT_EQ(data(), call.after);
    }
  }
  EXPECT_EQ(names("/values/_c_markers").size(), 1U);
}

TEST_F(SharedValueFaults, DeadlineOrStopDuringAChange) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  value.set("0", patient());
  std::string before = "0";
  for (const SharedValueCall& call : all_shared_calls) {
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    EXPECT_EQ(error_of([&] { call.run(value, {.deadline = 50ms}); }), Errc::deadline_exceeded) << "nothing was sent";
    std::stop_source at_once;
    at_once.request_stop();
    EXPECT_EQ(error_of([&] { call.run(value, {.stop = at_once.get_token()}); }), Errc::cancelled);
    EXPECT_EQ(data(), before);
    proxy.refuse(false);
    client.connect(patient());
    std::stop_source stop;
    auto held = proxy.hold_next_reply(RequestType::multi);
    auto writing =
        in_thread([&] { return error_of([&] { call.run(value, {.deadline = soon(), .stop = stop.get_token()}); }); });
    ASSERT_TRUE(held.wait(patience));
    stop.request_stop();
    EXPECT_EQ(result_of(writing), Errc::in_doubt);
    held.release();
    before = call.after;
    EXPECT_EQ(data(), before);
  }
}

TEST_F(SharedValueFaults, ClientClosed) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  value.set("0", patient());
  std::atomic<int> heard{0};
  const zkclient::Subscription subscription = value.on_change([&](const VersionedValue&) { ++heard; });
  EXPECT_TRUE(eventually([&] { return heard == 1; }));
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto setting = in_thread([&] { return error_of([&] { value.set("1", patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  refuse_and_cut();
  auto closing = in_thread([client]() mutable { client.close(); });
  EXPECT_EQ(result_of(setting), Errc::in_doubt);
  held.release();
  result_of(closing);
  EXPECT_EQ(error_of([&] { value.set("x"); }), Errc::closed);
  EXPECT_EQ(error_of([&] { (void)value.get(); }), Errc::closed);
  EXPECT_EQ(error_of([&] { (void)value.compare_set({}, "x"); }), Errc::closed);
  EXPECT_EQ(error_of([&] { value.update(add_plus); }), Errc::closed);
  EXPECT_EQ(data(), "1");
  EXPECT_EQ(heard, 1);
}

// V85: listeners hear of what came while nothing could be heard, once.
TEST_F(SharedValueFaults, ListenersAfterAConnectionOrASessionIsLost) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  value.set("0", patient());
  Box<VersionedValue> heard;
  const zkclient::Subscription subscription = value.on_change([&](const VersionedValue& now) { heard.put(now); });
  EXPECT_EQ(heard.take().data, "0");
  for (const bool session_lost : {false, true}) {
    const zkclient::Session session = client.connect(patient());
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    make_again("between");
    const std::string last = session_lost ? "2" : "1";
    the_operator().set(node, last);
    if (session_lost) zktesting::expire(server.connect_string(), session.id(), session.credentials().password);
    proxy.refuse(false);
    EXPECT_EQ(heard.take().data, last);
  }
}

// --- Round trips ----------------------------------------------------------------------------------------------------

TEST_F(SharedValueFaults, OneRoundTripWithoutConflict) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  value.set("0", patient());
  for (int i = 0; i < 6; ++i) {
    (void)value.get(patient());  // So the look behind the set before was answered: else this one would look, too.
    const std::size_t before = transactions();
    const std::size_t looks = proxy.request_count(RequestType::get_data);
    // The look behind it is not waited for.
    auto held = proxy.hold_next_reply(RequestType::get_data);
    i % 3 == 0 ? value.set("1", patient()) : void(update(value, add_plus, i % 3 == 1));
    ASSERT_TRUE(held.wait(patience));
    held.release();
    EXPECT_EQ(transactions(), before + 1);
    EXPECT_EQ(proxy.request_count(RequestType::get_data), looks + 1);
  }
}

// The refusal has made sure that the next read is not older.
TEST_F(SharedValueFaults, AConflictCostsOneRead) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  value.set("0", patient());
  enum class How { compare_set, update, async_update };
  for (const How how : {How::update, How::async_update, How::compare_set}) {
    const bool comparing = how == How::compare_set;
    const ValueVersion known = watched(value);
    const std::size_t before = transactions();
    const std::size_t looks = proxy.request_count(RequestType::get_data);
    proxy.stall(zktesting::Direction::to_client);  // No event tells of it.
    the_operator().set(node, "1");
    auto writing = in_thread([&] {
      if (comparing) return std::string(value.compare_set(known, "x", patient()) ? "true" : "false");
      return update(value, add_plus, how == How::async_update);
    });
    EXPECT_TRUE(proxy.wait_for_requests(RequestType::multi, before + 1, patience));
    proxy.unstall(zktesting::Direction::to_client);
    EXPECT_EQ(result_of(writing), comparing ? "false" : "1+");
    EXPECT_EQ(data(), comparing ? "1" : "1+");
    EXPECT_EQ(transactions(), before + (comparing ? 1 : 2)) << "a refused compare_set has the word of the leader";
    EXPECT_LE(proxy.request_count(RequestType::get_data), looks + 3) << "one, and those behind the transactions";
    EXPECT_EQ(proxy.request_count(RequestType::sync), 0U);
  }
}

// It is told what is remembered, which may be old.
TEST_F(SharedValueFaults, AnUpdateThatWritesNothingRestsOnARead) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  for (const bool throwing : {false, true}) {
    for (const bool asynchronous : {false, true}) {
      value.set("1", patient());
      (void)watched(value);
      std::vector<std::string> seen;
      const auto decline = [&](const VersionedValue& now) -> std::optional<std::string> {
        seen.push_back(now.data);
        if (throwing) throw zkclient::Error(Errc::invalid_argument, "test", "", "no");
        return std::nullopt;
      };
      const std::size_t looks = proxy.request_count(RequestType::get_data);
      proxy.stall(zktesting::Direction::to_client);
      the_operator().set(node, "2");
      auto updating = in_thread([&] { return update(value, decline, asynchronous); });
      EXPECT_TRUE(proxy.wait_for_requests(RequestType::get_data, looks + 1, patience));
      proxy.unstall(zktesting::Direction::to_client);
      EXPECT_EQ(result_of(updating), throwing ? "an error" : "nothing");
      EXPECT_EQ(seen, (std::vector<std::string>{"1", "2"}));
    }
  }
}

TEST_F(SharedValueFaults, NothingIsLeftBesideTheValue) {
  Client client = calm_proxied();
  {
    SharedValue value = make(client);
    const zkclient::Subscription subscription = value.on_change([](const VersionedValue&) {});
    EXPECT_FALSE(value.compare_set({1, 1}, "x", patient()));
    for (int i = 0; i < 5; ++i)
      value.set("1", patient());
    EXPECT_EQ(server.ephemeral_count(), 1U);
  }
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; })) << server.four_letter_word("wchp");
  EXPECT_TRUE(eventually([&] { return server.ephemeral_count() == 0; }));
  EXPECT_EQ(data(), "1");
}

// --- What others do -------------------------------------------------------------------------------------------------

// The event has not come yet, and the version is the same.
TEST_F(SharedValueFaults, MadeAgainInTheInstantOfAChange) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  for (const bool comparing : {true, false}) {
    for (const bool reply_lost : {false, true}) {
      std::error_code ignored;
      the_operator().remove(node, zkclient::any_version, {}, ignored);
      value.set("1", patient());
      const ValueVersion seen = value.get(patient()).version;
      proxy.stall(zktesting::Direction::to_client);
      make_again("2");
      const std::size_t before = transactions();
      auto writing =
          in_thread([&] { comparing ? void(value.compare_set(seen, "3", patient())) : value.set("3", patient()); });
      EXPECT_TRUE(proxy.wait_for_requests(RequestType::multi, before + 1, patience));
      EXPECT_TRUE(eventually([&] { return version() == 1; }));
      if (reply_lost) proxy.cut();
      proxy.unstall(zktesting::Direction::to_client);
      if (comparing) {
        EXPECT_EQ(failure_of(writing), reply_lost ? Errc::in_doubt : Errc::foreign_node);
      } else {
        result_of(writing);  // It is written, whatever was there.
      }
      EXPECT_EQ(data(), "3");
    }
  }
}

// V87
TEST_F(SharedValueFaults, VersionAboutToBeMinusOne) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  value.set("0", patient());
  forge_version(server, node, "a", std::numeric_limits<std::int32_t>::max() - 1);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(value.compare_set(value.get(patient()).version, "b", patient()));
  EXPECT_EQ(version(), std::numeric_limits<std::int32_t>::min() + 1);
  forge_version(server, node, "c", -4);
  for (int i = 0; i < 5; ++i) {
    auto fault = lose(i % 2 == 0);
    if (i < 3) {
      EXPECT_TRUE(value.compare_set(value.get(patient()).version, "d", patient()));
    } else {
      value.set("d", patient());
    }
    EXPECT_TRUE(fault.wait(patience));
  }
  EXPECT_EQ(version(), 2) << "-3, -2, 0, 1, 2";
}

TEST_F(SharedValueFaults, VersionIsMinusOne) {
  Client client = calm_proxied();
  SharedValue value = make(client);
  value.set("0", patient());
  forge_version(server, node, "a", -1);
  const VersionedValue seen = value.get(patient());
  EXPECT_EQ(seen.version.version, -1);
  EXPECT_EQ(error_of([&] { (void)value.compare_set(seen.version, "x", patient()); }), Errc::bad_version);
  EXPECT_EQ(error_of([&] { value.update(add_plus, patient()); }), Errc::bad_version);
  EXPECT_EQ(data(), "a");
  value.set("b", patient());
  EXPECT_EQ(version(), 0);
  EXPECT_EQ(value.update(add_plus, patient()), "b+");
}

}  // namespace
}  // namespace zkrecipes
