// What a counter writes for many callers at once, and how numbers look in a node: rules without a server.

#include "recipes/values/counter_decider.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "recipes/values/counter_format.hpp"

namespace zkrecipes::detail {
namespace {

using zkclient::Errc;
using RequestKind = CounterRequest::Kind;
using Write = CounterStep::Write;
using Requests = std::vector<CounterRequest>;
using Wide = std::numeric_limits<std::int64_t>;
using Narrow = std::numeric_limits<std::int32_t>;

constexpr auto wide = CounterEncoding::curator_int64;
constexpr auto narrow = CounterEncoding::curator_int32;
constexpr auto decimal = CounterEncoding::kazoo;

CounterView there(std::optional<std::int64_t> value, std::int32_t version = 3) { return {true, value, version}; }
CounterRequest add(std::int64_t delta) { return {RequestKind::add, delta, 0}; }
CounterRequest set(std::int64_t value) { return {RequestKind::set, value, 0}; }
CounterRequest swap(std::int64_t expected, std::int64_t desired) {
  return {RequestKind::compare_set, desired, expected};
}

// --- The format -----------------------------------------------------------------------------------------------------

TEST(CounterFormat, NumbersLookAsCuratorAndKazooWriteThem) {
  EXPECT_EQ(encode_counter(1, wide), std::string("\0\0\0\0\0\0\0\1", 8));
  EXPECT_EQ(encode_counter(-2, wide), "\xff\xff\xff\xff\xff\xff\xff\xfe");
  EXPECT_EQ(encode_counter(0x0102030405060708, wide), "\1\2\3\4\5\6\7\x8");
  EXPECT_EQ(encode_counter(258, narrow), std::string("\0\0\1\2", 4));
  EXPECT_EQ(encode_counter(-1, narrow), "\xff\xff\xff\xff");
  EXPECT_EQ(encode_counter(-17, decimal), "-17");
}

TEST(CounterFormat, NumbersComeBack) {
  for (const CounterEncoding encoding : {wide, narrow, decimal}) {
    for (const std::int64_t value : {Wide::min(), std::int64_t{Narrow::min()}, std::int64_t{-129}, std::int64_t{-1},
                                     std::int64_t{0}, std::int64_t{128}, std::int64_t{Narrow::max()}, Wide::max()}) {
      if (fits(value, encoding)) {
        EXPECT_EQ(decode_counter(encode_counter(value, encoding), encoding), value);
      }
    }
    EXPECT_EQ(decode_counter("", encoding), 0);
  }
  EXPECT_FALSE(fits(std::int64_t{Narrow::max()} + 1, narrow));
  EXPECT_FALSE(fits(std::int64_t{Narrow::min()} - 1, narrow));
}

TEST(CounterFormat, WhatIsNoNumberIsNone) {
  for (const std::string& data : {std::string("1"), std::string(7, '\0'), std::string(9, '\0'), std::string(4, '\0')})
    EXPECT_FALSE(decode_counter(data, wide)) << data.size();
  for (const std::string& data : {std::string("1"), std::string(3, '\0'), std::string(8, '\0')})
    EXPECT_FALSE(decode_counter(data, narrow)) << data.size();
  for (const char* data : {"1.5", "x", "1x", " 1", "+1", "-", "9223372036854775808"})
    EXPECT_FALSE(decode_counter(data, decimal)) << data;
}

// --- The decider ----------------------------------------------------------------------------------------------------

TEST(CounterDecider, EachCallerGetsItsOwnStep) {
  const CounterStep step = decide_counter(there(10), {add(1), add(-5), set(7), swap(7, 8), swap(7, 9), add(0)}, wide);
  EXPECT_EQ(step.write, Write::set);
  EXPECT_EQ(step.value, 8);
  const std::vector<CounterChange> changes = {{10, 11}, {11, 6}, {6, 7}, {7, 8}, {8, 8}, {8, 8}};
  ASSERT_EQ(step.answers.size(), changes.size());
  for (std::size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(step.answers[i].change, changes[i]) << i;
    EXPECT_FALSE(step.answers[i].error) << i;
    EXPECT_EQ(step.answers[i].matched, i != 4) << i;
  }
}

// What was read may be old, so "it is not that" is checked, too.
TEST(CounterDecider, WhatChangesNothingIsCheckedAllTheSame) {
  for (const Requests& requests :
       {Requests{swap(1, 2)}, Requests{add(0)}, Requests{swap(10, 10)}, Requests{add(Wide::max())}})
    EXPECT_EQ(decide_counter(there(10), requests, wide).write, Write::check);
  EXPECT_EQ(decide_counter(there(10), {set(10)}, wide).write, Write::set);
  EXPECT_EQ(decide_counter(CounterView(), {swap(1, 2)}, wide).write, Write::create);
  EXPECT_EQ(decide_counter(CounterView(), {swap(1, 2)}, wide).value, 0);
}

TEST(CounterDecider, ASumBeyondTheEncodingIsRefusedAndTheOthersGoOn) {
  const struct {
    CounterEncoding encoding;
    std::int64_t highest;
    std::int64_t lowest;
  } encodings[] = {
      {wide, Wide::max(), Wide::min()}, {narrow, Narrow::max(), Narrow::min()}, {decimal, Wide::max(), Wide::min()}};
  for (const auto& [encoding, highest, lowest] : encodings) {
    const CounterStep up =
        decide_counter(there(highest), {add(1), add(Wide::max()), add(-3), add(4), add(3)}, encoding);
    EXPECT_EQ(up.answers[0].error, Errc::invalid_argument);
    EXPECT_EQ(up.answers[1].error, Errc::invalid_argument);
    EXPECT_FALSE(up.answers[2].error);
    EXPECT_EQ(up.answers[3].error, Errc::invalid_argument);
    EXPECT_EQ(up.answers[4].change, (CounterChange{highest - 3, highest}));
    const CounterStep down = decide_counter(there(lowest), {add(-1), add(Wide::min()), add(1)}, encoding);
    EXPECT_EQ(down.answers[0].error, Errc::invalid_argument);
    EXPECT_EQ(down.answers[1].error, Errc::invalid_argument);
    EXPECT_EQ(down.value, lowest + 1);
  }
}

TEST(CounterDecider, WhatIsNoNumberCanOnlyBeSet) {
  const CounterStep refused = decide_counter(there(std::nullopt), {add(1), swap(0, 1)}, wide);
  EXPECT_EQ(refused.write, Write::check);
  EXPECT_EQ(refused.answers[0].error, Errc::foreign_node);
  EXPECT_EQ(refused.answers[1].error, Errc::foreign_node);
  const CounterStep set_first = decide_counter(there(std::nullopt), {add(1), set(4), add(1)}, wide);
  EXPECT_EQ(set_first.write, Write::set);
  EXPECT_EQ(set_first.answers[0].error, Errc::foreign_node);
  EXPECT_EQ(set_first.answers[2].change, (CounterChange{4, 5}));
}

// V87
TEST(CounterDecider, AVersionOfMinusOneIsSkippedOrOverwritten) {
  for (const std::int32_t version : {Narrow::max(), Narrow::min(), -3, 0})
    EXPECT_EQ(decide_counter(there(1, version), {add(1)}, wide).write, Write::set) << version;
  EXPECT_EQ(decide_counter(there(1, -2), {add(1)}, wide).write, Write::set_twice);
  EXPECT_EQ(decide_counter(there(1, -2), {add(0)}, wide).write, Write::check);

  const CounterStep refused = decide_counter(there(1, -1), {add(1), swap(2, 3)}, wide);
  EXPECT_EQ(refused.write, Write::nothing);
  EXPECT_EQ(refused.answers[0].error, Errc::bad_version);
  EXPECT_EQ(refused.answers[1].error, Errc::bad_version);
  const CounterStep set_first = decide_counter(there(1, -1), {add(1), set(4), add(1)}, wide);
  EXPECT_EQ(set_first.write, Write::set_always);
  EXPECT_EQ(set_first.value, 5);
  EXPECT_EQ(set_first.answers[0].error, Errc::bad_version);
  EXPECT_EQ(set_first.answers[2].change, (CounterChange{4, 5}));
}

__extension__ using Huge = __int128;

/// One request at a time, with numbers that cannot overflow.
CounterAnswer one_by_one(const CounterRequest& request, Huge& value, CounterEncoding encoding) {
  CounterAnswer answer;
  const Huge before = value;
  if (request.kind == RequestKind::set) value = request.operand;
  if (request.kind == RequestKind::compare_set) {
    answer.matched = value == request.expected;
    if (answer.matched) value = request.operand;
  }
  if (request.kind == RequestKind::add) {
    const Huge sum = value + request.operand;
    const bool narrow_sum = sum >= Narrow::min() && sum <= Narrow::max();
    const bool wide_sum = sum >= Wide::min() && sum <= Wide::max();
    if (encoding == narrow ? narrow_sum : wide_sum) {
      value = sum;
    } else {
      answer.error = Errc::invalid_argument;
    }
  }
  answer.change = {static_cast<std::int64_t>(before), static_cast<std::int64_t>(value)};
  return answer;
}

TEST(CounterDecider, TogetherIsTheSameAsOneByOne) {
  std::mt19937_64 random(20240817);
  for (int round = 0; round < 20'000; ++round) {
    const CounterEncoding encoding = std::vector{wide, narrow, decimal}[random() % 3];
    const auto any = [&]() -> std::int64_t {
      const bool high = random() % 4 == 0;
      const std::int64_t limit = encoding == narrow ? Narrow::max() : Wide::max();
      const auto small = static_cast<std::int64_t>(random() % 5);
      return (random() % 2 == 0 ? 1 : -1) * (high ? limit - small : small);
    };
    Requests requests;
    for (std::uint64_t i = random() % 6; i > 0; --i)
      requests.push_back(
          {std::vector{RequestKind::add, RequestKind::set, RequestKind::compare_set}[random() % 3], any(), any()});
    const CounterView view = random() % 5 == 0 ? CounterView() : there(any());
    Huge value = *view.value;
    const CounterStep step = decide_counter(view, requests, encoding);
    ASSERT_EQ(step.answers.size(), requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const CounterAnswer wanted = one_by_one(requests[i], value, encoding);
      ASSERT_EQ(step.answers[i].error, wanted.error) << "round " << round;
      if (wanted.error) continue;
      ASSERT_EQ(step.answers[i].matched, wanted.matched) << "round " << round;
      ASSERT_EQ(step.answers[i].change, wanted.change) << "round " << round;
    }
    ASSERT_EQ(step.value, static_cast<std::int64_t>(value)) << "round " << round;
    ASSERT_EQ(step.write == Write::create, !view.exists);
    ASSERT_TRUE(step.write != Write::check || step.value == *view.value) << "round " << round;
  }
}

}  // namespace
}  // namespace zkrecipes::detail
