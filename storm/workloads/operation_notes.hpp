#pragma once

#include <string>
#include <utility>

#include <zkclient/error.hpp>

#include "storm/checkers/operations.hpp"
#include "storm/place.hpp"

namespace storm {

/// Notes what a process does to registers and counters, as check_operations() wants it. Used by one thread, or under a
/// lock of its own.
class OperationNotes {
 public:
  explicit OperationNotes(Place& place)
      : place_(place), first_(place.now().count() / 1'000'000 * 1'000'000), number_(place.number() & 15) {}

  /// Nobody else in the history gets the same number, nor does a later life of this process.
  std::int64_t fresh() { return (first_ + ++made_) * 16 + number_; }

  std::int64_t begin(const std::string& object, const Operation& asked) {
    const std::int64_t number = fresh();
    note("begins", number, object, asked);
    return number;
  }
  void tries(std::int64_t number, const std::string& object, const Operation& one) {
    note("tries", number, object, one);
  }
  void end(std::int64_t number, const std::string& object, const Operation& done) {
    note("ends", number, object, done);
  }
  /// Whether it was done is in doubt for some errors only.
  void fail(std::int64_t number, const zkclient::Error& error) {
    if (error.code() != zkclient::ErrorKind::in_doubt) place_.note("fails", number, 0, error.what());
  }
  /// `act` returns the operation as it was done.
  template <typename Act>
  void perform(const std::string& object, const Operation& asked, Act act) {
    const std::int64_t number = begin(object, asked);
    try {
      end(number, object, act(number));
    } catch (const zkclient::Error& error) {
      fail(number, error);
      throw;
    }
  }

 private:
  void note(const char* what, std::int64_t number, const std::string& object, const Operation& operation) {
    place_.note(what, number, operation.kind, text_of(object, operation));
  }

  Place& place_;
  const std::int64_t first_;
  const std::int64_t number_;
  std::int64_t made_ = 0;
};

}  // namespace storm
