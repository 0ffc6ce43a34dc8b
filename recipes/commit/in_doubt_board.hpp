#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/two_phase_commit.hpp>

namespace zkrecipes::detail {

/// The transactions that a participant is in doubt about, and how operators have resolved them. For any thread.
class InDoubtBoard {
 public:
  void put(InDoubtTransaction transaction);
  void set_problem(const std::string& id, std::string problem, bool resolvable);
  void remove(const std::string& id);
  std::vector<InDoubtTransaction> list() const;
  /// False: this transaction does not wait for an operator.
  bool resolve(const std::string& id, bool commit);
  std::optional<bool> resolution(const std::string& id) const;

 private:
  struct Entry {
    InDoubtTransaction transaction;
    bool resolvable = false;
    std::optional<bool> resolved = {};
  };
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace zkrecipes::detail
