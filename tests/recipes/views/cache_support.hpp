#pragma once

#include <string>
#include <utility>
#include <vector>

#include <zkrecipes/cache.hpp>

#include "tests/support/recipe_test.hpp"

namespace testkit {

/// A call of a listener.
struct Call {
  std::vector<zkrecipes::Change> changes;
  zkrecipes::Snapshot now;
};

/// Writes down what a cache tells its listener.
class Told {
 public:
  explicit Told(const zkrecipes::Cache& cache)
      : subscription_(
            cache.on_change([this](const std::vector<zkrecipes::Change>& changes, const zkrecipes::Snapshot& now) {
              calls_.put({changes, now});
            })) {}

  Call next() { return calls_.take(); }
  /// Takes calls until one brings this, and returns all changes up to there: "added /cache/a".
  std::vector<std::string> until(const std::string& wanted) {
    std::vector<std::string> all;
    while (all.empty() || std::find(all.begin(), all.end(), wanted) == all.end()) {
      for (const zkrecipes::Change& change : next().changes)
        all.push_back(std::string(to_string(change.kind)) + " " + change.path);
    }
    return all;
  }
  std::size_t calls() const { return calls_.size(); }

 private:
  Box<Call> calls_;
  zkclient::Subscription subscription_;
};

/// Writes down the states of a cache.
class States {
 public:
  explicit States(const zkrecipes::Cache& cache)
      : subscription_(cache.on_state([this](zkrecipes::CacheState state) { states_.put(state); })) {}
  zkrecipes::CacheState next() { return states_.take(); }
  std::size_t size() const { return states_.size(); }

 private:
  Box<zkrecipes::CacheState> states_;
  zkclient::Subscription subscription_;
};

inline bool has_data(const zkrecipes::Snapshot& snapshot, std::string_view path, const std::string& data) {
  const zkrecipes::CachedNode* node = snapshot.find(path);
  return node != nullptr && node->has_data && node->data == data;
}
/// For wait_until().
inline zkrecipes::Cache::Predicate data_is(std::string path, std::string data) {
  return [path = std::move(path), data = std::move(data)](const zkrecipes::Snapshot& snapshot) {
    return has_data(snapshot, path, data);
  };
}
inline zkrecipes::Cache::Predicate is_gone(std::string path) {
  return [path = std::move(path)](const zkrecipes::Snapshot& snapshot) { return !snapshot.exists(path); };
}

}  // namespace testkit
