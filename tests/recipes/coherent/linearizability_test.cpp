#include "linearizability.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace zkrecipes::testing {
namespace {

using Operation = RecordedOperation;
using History = std::vector<Operation>;

Operation read_of(std::int64_t begin, std::int64_t end, std::int64_t value) {
  return {Operation::read, begin, end, value, Operation::absent};
}
Operation write_of(std::int64_t begin, std::int64_t end, std::int64_t value) {
  return {Operation::write, begin, end, value, Operation::absent};
}
Operation change_of(std::int64_t begin, std::int64_t end, std::int64_t expected, std::int64_t value) {
  return {Operation::change, begin, end, value, expected};
}
Operation refusal_of(std::int64_t begin, std::int64_t end, std::int64_t expected) {
  return {Operation::refuse, begin, end, Operation::absent, expected};
}

bool accepts(History history, std::int64_t initial = 0) {
  return LinearizabilityChecker(std::move(history), initial).linearizable();
}

TEST(LinearizabilityChecker, AcceptsWhatHappenedOneAfterTheOther) {
  EXPECT_TRUE(accepts({}));
  EXPECT_TRUE(accepts({read_of(0, 1, 0), write_of(2, 3, 1), read_of(4, 5, 1), write_of(6, 7, 2), read_of(8, 9, 2)}));
}

TEST(LinearizabilityChecker, RefusesAValueThatNobodyWrote) { EXPECT_FALSE(accepts({read_of(0, 1, 5)})); }

TEST(LinearizabilityChecker, RefusesAStaleRead) {
  EXPECT_FALSE(accepts({write_of(0, 1, 1), read_of(2, 3, 0)}));
  EXPECT_FALSE(accepts({write_of(0, 1, 1), write_of(2, 3, 2), read_of(4, 5, 1)}));
}

TEST(LinearizabilityChecker, RefusesAValueFromTheFuture) {
  EXPECT_FALSE(accepts({read_of(0, 1, 1), write_of(2, 3, 1)}));
}

TEST(LinearizabilityChecker, AReadDuringAWriteMayFindEither) {
  EXPECT_TRUE(accepts({write_of(0, 10, 1), read_of(2, 3, 0)}));
  EXPECT_TRUE(accepts({write_of(0, 10, 1), read_of(2, 3, 1)}));
}

TEST(LinearizabilityChecker, ReadsDuringAWriteDoNotGoBack) {
  EXPECT_TRUE(accepts({write_of(0, 10, 1), read_of(1, 2, 0), read_of(3, 4, 1)}));
  EXPECT_FALSE(accepts({write_of(0, 10, 1), read_of(1, 2, 1), read_of(3, 4, 0)}));
  EXPECT_TRUE(accepts({write_of(0, 10, 1), read_of(1, 3, 1), read_of(2, 4, 0)}));
}

TEST(LinearizabilityChecker, ReadersAgreeOnTheOrderOfWrites) {
  EXPECT_FALSE(accepts({write_of(0, 10, 1), write_of(0, 10, 2), read_of(11, 12, 1), read_of(13, 14, 2)}));
  EXPECT_FALSE(accepts({write_of(0, 10, 1), write_of(0, 10, 2), read_of(1, 2, 1), read_of(3, 4, 2), read_of(5, 6, 1)}));
  EXPECT_TRUE(accepts({write_of(0, 10, 1), write_of(0, 10, 2), read_of(1, 2, 2), read_of(3, 4, 1)}));
}

TEST(LinearizabilityChecker, AWriteInDoubtWasAppliedOrNot) {
  EXPECT_TRUE(accepts({write_of(0, Operation::never, 1), read_of(2, 3, 0)}));
  EXPECT_TRUE(accepts({write_of(0, Operation::never, 1), read_of(2, 3, 1)}));
  EXPECT_TRUE(accepts({write_of(0, Operation::never, 1), read_of(2, 3, 0), read_of(90, 91, 1)}));
}

TEST(LinearizabilityChecker, AWriteInDoubtWasAppliedOnceAndNotBeforeItBegan) {
  EXPECT_FALSE(accepts({write_of(0, Operation::never, 1), read_of(2, 3, 1), write_of(4, 5, 2), read_of(6, 7, 1)}));
  EXPECT_FALSE(accepts({write_of(5, Operation::never, 1), read_of(2, 3, 1)}));
}

TEST(LinearizabilityChecker, AChangeFindsWhatItExpects) {
  EXPECT_TRUE(accepts({change_of(0, 1, 0, 1), change_of(2, 3, 1, 2), read_of(4, 5, 2)}));
  EXPECT_FALSE(accepts({change_of(0, 1, 0, 1), change_of(2, 3, 0, 2)}));
  EXPECT_FALSE(accepts({change_of(0, 10, 0, 1), change_of(0, 10, 0, 2)}));
}

TEST(LinearizabilityChecker, ARefusalFindsSomethingElse) {
  EXPECT_TRUE(accepts({write_of(0, 1, 1), refusal_of(2, 3, 0)}));
  EXPECT_FALSE(accepts({write_of(0, 1, 1), refusal_of(2, 3, 1)}));
}

TEST(LinearizabilityChecker, AbsenceIsAValue) {
  EXPECT_TRUE(accepts({write_of(0, 1, Operation::absent), read_of(2, 3, Operation::absent)}));
  EXPECT_FALSE(accepts({write_of(0, 1, Operation::absent), read_of(2, 3, 0)}));
}

TEST(LinearizabilityChecker, NamesTheOperationThatFitsNowhere) {
  LinearizabilityChecker checker({write_of(0, 1, 1), read_of(2, 3, 1), read_of(4, 5, 0), read_of(6, 7, 1)}, 0);
  ASSERT_FALSE(checker.linearizable());
  EXPECT_EQ(checker.culprit().begin, 4);
}

/// A history of an item that is linearizable, because each operation takes effect at one moment.
History random_history(std::mt19937& random, std::size_t count) {
  History history;
  std::int64_t value = 0;
  std::int64_t written = 0;
  std::int64_t now = 0;
  const auto up_to = [&random](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  for (std::size_t i = 0; i < count; ++i) {
    now += 1 + up_to(4);
    const std::int64_t begin = now - up_to(12);
    const std::int64_t end = now + up_to(12);
    switch (up_to(5)) {
      case 0:
        value = ++written;
        history.push_back(write_of(begin, up_to(9) == 0 ? Operation::never : end, value));
        break;
      case 1:
        history.push_back(change_of(begin, end, value, written + 1));
        value = ++written;
        break;
      default: history.push_back(read_of(begin, end, value));
    }
  }
  return history;
}

TEST(LinearizabilityChecker, AcceptsRandomHistories) {
  std::mt19937 random(20);
  for (int run = 0; run < 200; ++run)
    ASSERT_TRUE(accepts(random_history(random, 100))) << run;
}

// A read that returns what was overwritten by a write that had ended before the read began.
TEST(LinearizabilityChecker, RefusesRandomHistoriesWithOneStaleRead) {
  std::mt19937 random(21);
  int refused = 0;
  for (int run = 0; run < 200; ++run) {
    History history = random_history(random, 100);
    std::int64_t end = 0;
    for (const Operation& one : history) {
      if (one.end != Operation::never) end = std::max(end, one.end);
    }
    history.push_back(write_of(end + 1, end + 2, 1000));
    history.push_back(write_of(end + 3, end + 4, 1001));
    history.push_back(read_of(end + 5, end + 6, 1000));
    if (!accepts(std::move(history))) ++refused;
  }
  EXPECT_EQ(refused, 200);
}

/// Tries every order of every choice of those in doubt.
bool fits_in_some_order(const History& history, std::int64_t value, std::vector<bool> done) {
  bool complete = true;
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (done[i]) continue;
    const Operation& next = history[i];
    complete = complete && next.end == Operation::never;
    bool may_be_next = true;
    for (std::size_t other = 0; other < history.size(); ++other)
      may_be_next = may_be_next && (done[other] || history[other].end >= next.begin);
    const bool is_set = next.kind == Operation::write || next.kind == Operation::change;
    if (next.kind == Operation::refuse) {
      may_be_next = may_be_next && next.expected != value;
    } else if (next.kind != Operation::write) {
      may_be_next = may_be_next && (next.kind == Operation::read ? next.value : next.expected) == value;
    }
    if (!may_be_next) continue;
    done[i] = true;
    if (fits_in_some_order(history, is_set ? next.value : value, done)) return true;
    done[i] = false;
  }
  return complete;
}

TEST(LinearizabilityChecker, AgreesWithAllOrdersTriedOneAfterTheOther) {
  std::mt19937 random(24);
  int accepted = 0;
  constexpr int runs = 20000;
  for (int run = 0; run < runs; ++run) {
    History history;
    for (int i = 0; i < 6; ++i) {
      Operation operation;
      operation.kind = static_cast<Operation::Kind>(random() % 4);
      operation.begin = static_cast<std::int64_t>(random() % 12);
      operation.end = operation.begin + 1 + static_cast<std::int64_t>(random() % 6);
      operation.value = static_cast<std::int64_t>(random() % 3);
      operation.expected = static_cast<std::int64_t>(random() % 3);
      const bool changes = operation.kind == Operation::write || operation.kind == Operation::change;
      if (changes && random() % 3 == 0) operation.end = Operation::never;
      history.push_back(operation);
    }
    const bool fits = fits_in_some_order(history, 0, std::vector<bool>(history.size()));
    accepted += fits ? 1 : 0;
    ASSERT_EQ(accepts(history), fits) << run;
  }
  EXPECT_GT(accepted, runs / 20);
  EXPECT_LT(accepted, runs - runs / 20);
}

// Without an order in which they fit, all the orders are tried.
TEST(LinearizabilityChecker, RefusesLongHistories) {
  std::mt19937 random(23);
  History history = random_history(random, 2000);
  const std::int64_t begin = history[1000].begin;
  history.push_back(read_of(begin, begin + 1, 1000000));
  EXPECT_FALSE(accepts(std::move(history)));
}

TEST(LinearizabilityChecker, AChangeInDoubtMayBeNeededByAnother) {
  const Operation first = {Operation::change, 0, Operation::never, 1, 0};
  const Operation second = {Operation::change, 0, Operation::never, 2, 1};
  EXPECT_TRUE(accepts({first, second, read_of(5, 6, 2)}));
  EXPECT_FALSE(accepts({second, read_of(5, 6, 2)}));
}

TEST(LinearizabilityChecker, AWriteInDoubtMayBeWhatARefusalFound) {
  EXPECT_TRUE(accepts({write_of(0, Operation::never, 1), refusal_of(2, 3, 0)}));
}

TEST(LinearizabilityChecker, TakesLongHistories) {
  std::mt19937 random(22);
  EXPECT_TRUE(accepts(random_history(random, 5000)));
}

}  // namespace
}  // namespace zkrecipes::testing
