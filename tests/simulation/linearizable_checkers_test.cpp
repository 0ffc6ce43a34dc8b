// The judge of registers and counters must refuse histories that are wrong, and nothing else.

#include "storm/checkers/linearizable.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace storm {
namespace {

using Operations = std::vector<Operation>;
constexpr std::int64_t never = Operation::never;
constexpr std::int64_t absent = Operation::absent;

Operation read_of(std::int64_t begin, std::int64_t end, std::int64_t value,
                  std::int64_t version = Operation::any_version) {
  return {Operation::read, begin, end, value, absent, version};
}
Operation write_of(std::int64_t begin, std::int64_t end, std::int64_t value) {
  return {Operation::write, begin, end, value};
}
Operation change_of(std::int64_t begin, std::int64_t end, std::int64_t expected, std::int64_t value) {
  return {Operation::change, begin, end, value, expected};
}
Operation refusal_of(std::int64_t begin, std::int64_t end, std::int64_t expected) {
  return {Operation::refuse, begin, end, absent, expected};
}
Operation add_of(std::int64_t begin, std::int64_t end, std::int64_t delta) {
  return {Operation::add, begin, end, delta};
}
Operation create_of(std::int64_t begin, std::int64_t end, std::int64_t value) {
  return {Operation::create, begin, end, value};
}
Operation set_of(std::int64_t begin, std::int64_t end, std::int64_t value, std::int64_t version) {
  return {Operation::set, begin, end, value, absent, version};
}
Operation remove_of(std::int64_t begin, std::int64_t end, std::int64_t version = Operation::any_version) {
  return {Operation::remove, begin, end, absent, absent, version};
}
Operation version_refusal_of(std::int64_t begin, std::int64_t end, std::int64_t version) {
  return {Operation::refuse_version, begin, end, absent, absent, version};
}

LinearizabilityVerdict::Answer judged(const Operations& history, std::int64_t initial = 0) {
  return judge_operations(history, initial).answer;
}
bool accepts(const Operations& history, std::int64_t initial = 0) {
  const LinearizabilityVerdict::Answer answer = judged(history, initial);
  EXPECT_NE(answer, LinearizabilityVerdict::undecided);
  return answer == LinearizabilityVerdict::linearizable;
}

// --- Values without versions ---------------------------------------------------------------------

TEST(LinearizableChecker, AcceptsWhatHappenedOneAfterTheOther) {
  EXPECT_TRUE(accepts({}));
  EXPECT_TRUE(accepts({read_of(0, 1, 0), write_of(2, 3, 1), read_of(4, 5, 1), write_of(6, 7, 2), read_of(8, 9, 2)}));
}

TEST(LinearizableChecker, RefusesAValueThatNobodyWrote) { EXPECT_FALSE(accepts({read_of(0, 1, 5)})); }

TEST(LinearizableChecker, RefusesAStaleRead) {
  EXPECT_FALSE(accepts({write_of(0, 1, 1), read_of(2, 3, 0)}));
  EXPECT_FALSE(accepts({write_of(0, 1, 1), write_of(2, 3, 2), read_of(4, 5, 1)}));
}

TEST(LinearizableChecker, RefusesAValueFromTheFuture) { EXPECT_FALSE(accepts({read_of(0, 1, 1), write_of(2, 3, 1)})); }

TEST(LinearizableChecker, AReadDuringAWriteMayFindEither) {
  EXPECT_TRUE(accepts({write_of(0, 10, 1), read_of(2, 3, 0)}));
  EXPECT_TRUE(accepts({write_of(0, 10, 1), read_of(2, 3, 1)}));
}

TEST(LinearizableChecker, ReadsDuringAWriteDoNotGoBack) {
  EXPECT_TRUE(accepts({write_of(0, 10, 1), read_of(1, 2, 0), read_of(3, 4, 1)}));
  EXPECT_FALSE(accepts({write_of(0, 10, 1), read_of(1, 2, 1), read_of(3, 4, 0)}));
  EXPECT_TRUE(accepts({write_of(0, 10, 1), read_of(1, 3, 1), read_of(2, 4, 0)}));
}

TEST(LinearizableChecker, ReadersAgreeOnTheOrderOfWrites) {
  EXPECT_FALSE(accepts({write_of(0, 10, 1), write_of(0, 10, 2), read_of(11, 12, 1), read_of(13, 14, 2)}));
  EXPECT_FALSE(accepts({write_of(0, 10, 1), write_of(0, 10, 2), read_of(1, 2, 1), read_of(3, 4, 2), read_of(5, 6, 1)}));
  EXPECT_TRUE(accepts({write_of(0, 10, 1), write_of(0, 10, 2), read_of(1, 2, 2), read_of(3, 4, 1)}));
}

TEST(LinearizableChecker, AWriteInDoubtWasAppliedOrNot) {
  EXPECT_TRUE(accepts({write_of(0, never, 1), read_of(2, 3, 0)}));
  EXPECT_TRUE(accepts({write_of(0, never, 1), read_of(2, 3, 1)}));
  EXPECT_TRUE(accepts({write_of(0, never, 1), read_of(2, 3, 0), read_of(90, 91, 1)}));
}

TEST(LinearizableChecker, AWriteInDoubtWasAppliedOnceAndNotBeforeItBegan) {
  EXPECT_FALSE(accepts({write_of(0, never, 1), read_of(2, 3, 1), write_of(4, 5, 2), read_of(6, 7, 1)}));
  EXPECT_FALSE(accepts({write_of(5, never, 1), read_of(2, 3, 1)}));
}

TEST(LinearizableChecker, AChangeFindsWhatItExpects) {
  EXPECT_TRUE(accepts({change_of(0, 1, 0, 1), change_of(2, 3, 1, 2), read_of(4, 5, 2)}));
  EXPECT_FALSE(accepts({change_of(0, 1, 0, 1), change_of(2, 3, 0, 2)}));
  EXPECT_FALSE(accepts({change_of(0, 10, 0, 1), change_of(0, 10, 0, 2)}));
}

TEST(LinearizableChecker, ARefusalFindsSomethingElse) {
  EXPECT_TRUE(accepts({write_of(0, 1, 1), refusal_of(2, 3, 0)}));
  EXPECT_FALSE(accepts({write_of(0, 1, 1), refusal_of(2, 3, 1)}));
}

TEST(LinearizableChecker, AbsenceIsAValue) {
  EXPECT_TRUE(accepts({write_of(0, 1, absent), read_of(2, 3, absent)}));
  EXPECT_FALSE(accepts({write_of(0, 1, absent), read_of(2, 3, 0)}));
}

TEST(LinearizableChecker, AChangeInDoubtMayBeNeededByAnother) {
  EXPECT_TRUE(accepts({change_of(0, never, 0, 1), change_of(0, never, 1, 2), read_of(5, 6, 2)}));
  EXPECT_FALSE(accepts({change_of(0, never, 1, 2), read_of(5, 6, 2)}));
}

TEST(LinearizableChecker, AWriteInDoubtMayBeWhatARefusalFound) {
  EXPECT_TRUE(accepts({write_of(0, never, 1), refusal_of(2, 3, 0)}));
}

// --- Versions ------------------------------------------------------------------------------------

TEST(LinearizableChecker, VersionsCountFromTheCreation) {
  EXPECT_TRUE(accepts({create_of(0, 1, 5), read_of(2, 3, 5, 0), set_of(4, 5, 6, 0), read_of(6, 7, 6, 1)}, absent));
  EXPECT_FALSE(accepts({create_of(0, 1, 5), set_of(2, 3, 6, 1)}, absent));
  EXPECT_TRUE(accepts({create_of(0, 1, 5), remove_of(2, 3, 0), create_of(4, 5, 6), set_of(6, 7, 8, 0)}, absent));
  EXPECT_FALSE(accepts({create_of(0, 1, 5), set_of(2, 3, 6, 0), read_of(4, 5, 6, 0)}, absent));
}

TEST(LinearizableChecker, TwoSetsOfOneVersionAreRefused) {
  EXPECT_FALSE(accepts({create_of(0, 1, 5), set_of(2, 9, 6, 0), set_of(2, 9, 7, 0)}, absent));
  EXPECT_TRUE(accepts({create_of(0, 1, 5), set_of(2, 9, 6, 0), version_refusal_of(2, 9, 0)}, absent));
  EXPECT_FALSE(accepts({create_of(0, 1, 5), version_refusal_of(2, 9, 0)}, absent));
}

TEST(LinearizableChecker, NothingCanBeChangedWhereNothingIs) {
  EXPECT_FALSE(accepts({set_of(0, 1, 5, 0)}, absent));
  EXPECT_FALSE(accepts({remove_of(0, 1)}, absent));
  EXPECT_FALSE(accepts({create_of(0, 1, 5), create_of(2, 3, 6)}, absent));
  EXPECT_FALSE(accepts({refusal_of(0, 1, absent)}, absent)) << "a creation was refused, and there is nothing";
  EXPECT_TRUE(accepts({create_of(0, 1, 5), refusal_of(2, 3, absent), remove_of(4, 5), read_of(6, 7, absent)}, absent));
}

TEST(LinearizableChecker, SetsInDoubtMayHaveRaisedTheVersion) {
  const Operation made = create_of(0, 1, 5);
  const Operation any = set_of(2, never, 6, Operation::any_version);
  EXPECT_FALSE(accepts({made, set_of(8, 9, 7, 2)}, absent));
  EXPECT_FALSE(accepts({made, any, set_of(8, 9, 7, 2)}, absent));
  EXPECT_TRUE(accepts({made, any, set_of(2, never, 6, Operation::any_version), set_of(8, 9, 7, 2)}, absent));
  EXPECT_TRUE(accepts({made, any, set_of(2, never, 6, 1), set_of(8, 9, 7, 2)}, absent));
  EXPECT_FALSE(accepts({made, any, set_of(2, never, 6, 2), set_of(8, 9, 7, 2)}, absent));
}

TEST(LinearizableChecker, ARemovalInDoubtMayHaveMadeRoom) {
  EXPECT_TRUE(accepts({create_of(0, 1, 5), remove_of(2, never, 0), create_of(8, 9, 7)}, absent));
  EXPECT_FALSE(accepts({create_of(0, 1, 5), remove_of(2, never, 1), create_of(8, 9, 7)}, absent));
}

// --- Counters ------------------------------------------------------------------------------------

TEST(LinearizableChecker, AdditionsAreStepsOfOneCount) {
  EXPECT_TRUE(accepts({change_of(0, 9, 1, 2), change_of(0, 9, 0, 1), read_of(10, 11, 2)}));
  EXPECT_FALSE(accepts({change_of(0, 9, 0, 1), change_of(0, 9, 0, 1)}));
  EXPECT_FALSE(accepts({change_of(0, 1, 0, 1), read_of(2, 3, 0)}));
  EXPECT_TRUE(accepts({add_of(0, 1, 3), add_of(0, 1, 4), read_of(2, 3, 7)}));
  EXPECT_FALSE(accepts({add_of(0, 1, 3), read_of(2, 3, 0)}));
}

TEST(LinearizableChecker, AnAdditionInDoubtIsCountedOnceOrNot) {
  EXPECT_TRUE(accepts({add_of(0, never, 1), read_of(2, 3, 0), read_of(4, 5, 1)}));
  EXPECT_FALSE(accepts({add_of(0, never, 1), read_of(2, 3, 1), read_of(4, 5, 0)}));
  EXPECT_FALSE(accepts({add_of(0, never, 1), read_of(2, 3, 2)}));
  EXPECT_FALSE(accepts({add_of(4, never, 1), read_of(2, 3, 1)}));
  EXPECT_TRUE(accepts({add_of(0, never, 1), change_of(0, 3, 1, 2), read_of(4, 5, 2)}));
  EXPECT_FALSE(accepts({add_of(0, never, 1), change_of(0, 3, 1, 2), read_of(4, 5, 3)}));
  EXPECT_TRUE(accepts({add_of(0, never, 5), add_of(0, never, -3), read_of(2, 3, 2)}));
}

// --- Compared with all orders --------------------------------------------------------------------

struct Object {
  std::int64_t value = 0;
  std::int64_t version = 0;
};

/// By the words of the header, without any thought for speed. False: it cannot happen now.
bool happens(const Operation& one, Object& object) {
  const bool exists = object.value != absent;
  const bool same_version = one.version == Operation::any_version || one.version == object.version;
  switch (one.kind) {
    case Operation::read: return one.value == object.value && same_version;
    case Operation::refuse: return one.expected != object.value;
    case Operation::refuse_version: return exists && one.version != object.version;
    case Operation::write: object.value = one.value; return true;
    case Operation::add: object.value += one.value; return true;
    case Operation::change:
      if (one.expected != object.value) return false;
      object.value = one.value;
      return true;
    case Operation::create:
      if (exists) return false;
      object = {one.value, 0};
      return true;
    case Operation::set:
      if (!exists || !same_version) return false;
      object = {one.value, object.version + 1};
      return true;
    case Operation::remove:
      if (!exists || !same_version) return false;
      object = {absent, 0};
      return true;
  }
  return false;
}

/// Tries every order of every choice of those in doubt.
bool fits_in_some_order(const Operations& history, const Object& object, std::vector<bool>& done) {
  bool complete = true;
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (done[i]) continue;
    const Operation& next = history[i];
    complete = complete && next.end == never;
    bool may_be_next = true;
    for (std::size_t other = 0; other < history.size(); ++other)
      may_be_next = may_be_next && (done[other] || history[other].end >= next.begin);
    Object then = object;
    if (!may_be_next || !happens(next, then)) continue;
    done[i] = true;
    const bool fits = fits_in_some_order(history, then, done);
    done[i] = false;
    if (fits) return true;
  }
  return complete;
}
bool fits_in_some_order(const Operations& history, std::int64_t initial) {
  std::vector<bool> done(history.size());
  return fits_in_some_order(history, Object{initial, 0}, done);
}

/// Small histories of the kinds from `first` to `last`, of which many fit and many do not.
void compare_with_all_orders(unsigned seed, const std::vector<Operation::Kind>& kinds, std::int64_t initial) {
  std::mt19937 random(seed);
  int accepted = 0;
  constexpr int runs = 15'000;
  for (int run = 0; run < runs; ++run) {
    Operations history;
    for (std::size_t i = 3 + random() % 4; i > 0; --i) {
      Operation one;
      one.kind = kinds[random() % kinds.size()];
      one.begin = static_cast<std::int64_t>(random() % 12);
      one.end = one.begin + 1 + static_cast<std::int64_t>(random() % 8);
      if (one.kind != Operation::remove && one.kind != Operation::refuse_version && one.kind != Operation::refuse)
        one.value = static_cast<std::int64_t>(random() % 3);
      if (one.kind == Operation::add) one.value = 1 + static_cast<std::int64_t>(random() % 2);
      if (one.kind == Operation::change) one.expected = static_cast<std::int64_t>(random() % 3);
      if (one.kind == Operation::change && initial == 0 && random() % 4 != 0) one.value = one.expected + 1;
      if (one.kind == Operation::refuse && initial == 0) one.expected = static_cast<std::int64_t>(random() % 3);
      const bool changes =
          one.kind != Operation::read && one.kind != Operation::refuse && one.kind != Operation::refuse_version;
      if (changes && random() % 3 == 0) one.end = never;
      one.version = static_cast<std::int64_t>(random() % 3);
      const bool may_be_any = one.kind == Operation::read || one.kind == Operation::remove ||
                              (one.kind == Operation::set && one.end == never);
      if (may_be_any && (initial == 0 || random() % 2 == 0)) one.version = Operation::any_version;
      if (one.kind == Operation::read && initial == absent && random() % 3 == 0)
        one = read_of(one.begin, one.end, absent);
      history.push_back(one);
    }
    const bool fits = fits_in_some_order(history, initial);
    accepted += fits ? 1 : 0;
    if (accepts(history, initial) == fits) continue;
    for (const Operation& one : history)
      ADD_FAILURE() << to_string(one);
    FAIL() << "run " << run << ": " << (fits ? "refused, and it fits" : "accepted, and it does not fit");
  }
  EXPECT_GT(accepted, runs / 20);
  EXPECT_LT(accepted, runs - runs / 20);
}

TEST(LinearizableChecker, AgreesWithAllOrdersOfValues) {
  compare_with_all_orders(24, {Operation::read, Operation::write, Operation::change, Operation::refuse}, 0);
}
TEST(LinearizableChecker, AgreesWithAllOrdersOfVersions) {
  compare_with_all_orders(25,
                          {Operation::read, Operation::create, Operation::set, Operation::remove, Operation::refuse,
                           Operation::refuse_version, Operation::set, Operation::create},
                          absent);
}
TEST(LinearizableChecker, AgreesWithAllOrdersOfACount) {
  compare_with_all_orders(26, {Operation::read, Operation::add, Operation::change, Operation::add}, 0);
  compare_with_all_orders(27, {Operation::read, Operation::add, Operation::change, Operation::refuse}, 0);
}

// --- Long ones -----------------------------------------------------------------------------------

constexpr std::size_t processes = 5;

/// What `processes` clients did to a good object, of which each operation takes effect at one moment between its begin
/// and its end. One in `doubtful` ends in doubt, and was done or not.
class GoodObject {
 public:
  GoodObject(unsigned seed, std::int64_t initial, unsigned doubtful) : random_(seed), doubtful_(doubtful) {
    object_.value = initial;
  }
  /// `draw` says what is asked, `answer` how that ends.
  template <typename Draw>
  Operations history(std::size_t count, Draw draw) {
    Operations history;
    for (std::size_t i = 0; i < count; ++i) {
      now_ += 2;
      std::int64_t& free = free_[i % processes];  // When this client's last operation was over.
      Operation one = draw(*this);
      one.begin = std::max(free, now_ - below(12));
      const std::int64_t moment = std::max(now_, one.begin);
      now_ = moment;
      one.end = moment + below(14);
      const bool doubtful = doubtful_ != 0 && below(doubtful_) == 0;
      const bool certain = changes_nothing(one) || !doubtful;
      if (certain || below(2) == 0) one = happened(one);
      if (!certain) one.end = never;
      free = (certain ? one.end : moment + 1) + 1;
      history.push_back(one);
    }
    return history;
  }
  std::int64_t below(std::int64_t end) { return static_cast<std::int64_t>(random_() % static_cast<unsigned>(end)); }
  std::int64_t fresh() { return ++fresh_; }
  [[nodiscard]] const Object& object() const { return object_; }

 private:
  static bool changes_nothing(const Operation& one) { return one.kind == Operation::read; }
  /// As it turns out when it is done now.
  Operation happened(Operation one) {
    const Object before = object_;
    if (one.kind == Operation::read)
      return read_of(one.begin, one.end, object_.value,
                     object_.value == absent ? Operation::any_version : object_.version);
    if (one.kind == Operation::set && one.version == Operation::any_version) one.version = before.version;
    if (happens(one, object_)) {
      if (one.kind == Operation::add) return change_of(one.begin, one.end, before.value, object_.value);
      return one;
    }
    if (one.kind == Operation::change) return refusal_of(one.begin, one.end, one.expected);
    if (one.kind == Operation::create) return refusal_of(one.begin, one.end, absent);
    if (before.value == absent) return read_of(one.begin, one.end, absent);
    return version_refusal_of(one.begin, one.end, one.version);
  }

  std::mt19937 random_;
  const unsigned doubtful_;
  Object object_;
  std::int64_t now_ = 20;
  std::int64_t fresh_ = 100;
  std::int64_t free_[processes] = {};
};

Operation some_of_values(GoodObject& good) {
  switch (good.below(5)) {
    case 0: return write_of(0, 0, good.fresh());
    case 1: return change_of(0, 0, good.object().value, good.fresh());
    case 2: return change_of(0, 0, 1 + good.below(200), good.fresh());
    default: return read_of(0, 0, 0);
  }
}
Operation some_of_versions(GoodObject& good) {
  switch (good.below(9)) {
    case 0: return create_of(0, 0, good.fresh());
    case 1: return remove_of(0, 0);
    case 2: return remove_of(0, 0, good.object().version);
    case 3: return set_of(0, 0, good.fresh(), Operation::any_version);
    case 4:
    case 5: return set_of(0, 0, good.fresh(), good.object().version);
    case 6: return set_of(0, 0, good.fresh(), good.below(4));
    default: return read_of(0, 0, 0);
  }
}
Operation some_of_a_count(GoodObject& good) {
  return good.below(3) == 0 ? read_of(0, 0, 0) : add_of(0, 0, 1 + good.below(2));
}

using Draw = Operation (*)(GoodObject&);
struct Family {
  const char* name;
  Draw draw;
  std::int64_t initial;
};
constexpr Family families[] = {
    {"values", some_of_values, 0}, {"versions", some_of_versions, absent}, {"a count", some_of_a_count, 0}};

/// A doubtful operation that was noted as it turned out would know too much.
Operations long_history(const Family& family, unsigned seed, std::size_t count, unsigned doubtful) {
  Operations history = GoodObject(seed, family.initial, doubtful).history(count, family.draw);
  for (Operation& one : history) {
    if (one.end != never) continue;
    if (family.draw == some_of_a_count && one.kind == Operation::change)
      one = add_of(one.begin, never, one.value - one.expected);
    if (family.draw == some_of_versions && one.kind == Operation::set) one.version = Operation::any_version;
  }
  return history;
}

TEST(LinearizableChecker, AcceptsLongHistories) {
  for (const Family& family : families) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      for (const unsigned doubtful : {0U, 10U, 100U})
        ASSERT_TRUE(accepts(long_history(family, seed, 500, doubtful), family.initial)) << family.name << " " << seed;
    }
    const LinearizabilityVerdict verdict = judge_operations(long_history(family, 77, 10'000, 100), family.initial);
    EXPECT_EQ(verdict.answer, LinearizabilityVerdict::linearizable) << family.name;
    EXPECT_LT(verdict.steps, 100'000U) << family.name;
  }
}

// One read finds what was replaced long ago.
TEST(LinearizableChecker, RefusesLongHistoriesWithAStaleRead) {
  for (const Family& family : families) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      Operations history = long_history(family, seed, seed == 0 ? 10'000 : 500, seed % 2 == 0 ? 0 : 100);
      std::vector<std::size_t> reads;
      for (std::size_t i = 0; i < history.size(); ++i) {
        if (history[i].kind == Operation::read && history[i].value != absent) reads.push_back(i);
      }
      Operation& late = history[reads[reads.size() * 3 / 4]];
      const Operation& early = history[reads[reads.size() / 2]];
      if (early.value == late.value) continue;
      late.value = early.value;
      late.version = early.version;
      const Operation mutated = late;
      const LinearizabilityVerdict verdict = judge_operations(history, family.initial);
      ASSERT_EQ(verdict.answer, LinearizabilityVerdict::refused) << family.name << " " << seed;
      EXPECT_EQ(verdict.culprit.end, mutated.end) << family.name << " " << seed << ": " << to_string(verdict.culprit);
    }
  }
}

TEST(LinearizableChecker, RefusesALostWrite) {
  for (const Family& family : families) {
    Operations history = long_history(family, 5, 600, 0);
    const auto written = std::find_if(history.begin() + 300, history.end(), [&](const Operation& one) {
      const bool writes = one.kind == Operation::write || one.kind == Operation::set || one.kind == Operation::change;
      return writes && std::any_of(history.begin(), history.end(), [&](const Operation& other) {
               return other.kind == Operation::read && other.value == one.value;
             });
    });
    ASSERT_NE(written, history.end());
    history.erase(written);
    EXPECT_FALSE(accepts(history, family.initial)) << family.name;
  }
}

// --- What it says --------------------------------------------------------------------------------

TEST(LinearizableChecker, NamesTheOperationThatFitsNowhere) {
  const Operation wrong = read_of(4, 5, 0);
  const auto verdict = judge_operations({write_of(0, 1, 1), read_of(2, 3, 1), wrong, read_of(6, 7, 1)}, 0);
  ASSERT_EQ(verdict.answer, LinearizabilityVerdict::refused);
  EXPECT_EQ(verdict.culprit, wrong);
  EXPECT_EQ(to_string(wrong), "read 0 from 4 to 5");
}

// What comes first is explained as long as it can be: it is the second read that nobody can explain.
TEST(LinearizableChecker, NamesTheEndOfTheShortestPrefix) {
  const Operation second = read_of(13, 14, 2);
  const auto verdict =
      judge_operations({write_of(0, 20, 1), write_of(0, 10, 2), read_of(11, 12, 1), second, read_of(15, 16, 1)}, 0);
  ASSERT_EQ(verdict.answer, LinearizabilityVerdict::refused);
  EXPECT_EQ(verdict.culprit, second);
}

TEST(LinearizableChecker, SaysWhenItDoesNotKnow) {
  EXPECT_EQ(judge_operations(long_history(families[0], 1, 500, 0), 0, 100).answer, LinearizabilityVerdict::undecided);
}

}  // namespace
}  // namespace storm
