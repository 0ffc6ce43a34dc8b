#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// Leases that one cause has cost, as one line of the log has them.
class LostLeases {
 public:
  LostLeases(const zk::ClientCore* client, std::string cause) : client_(client), cause_(std::move(cause)) {}

  /// Whether they are of the same client and cause.
  bool are_of(const LostLeases& other) const { return client_ == other.client_ && cause_ == other.cause_; }
  void add(const std::string& path);
  /// "lease lost: PATH: CAUSE", or "200 leases lost: PATH, PATH, PATH and 197 more: CAUSE".
  std::string text() const;
  zk::LogFields fields() const;

 private:
  const zk::ClientCore* const client_;
  const std::string cause_;
  std::size_t count_ = 0;
  std::string paths_;  // The first ones.
};

/// Loop thread: warns that a lease was lost. The warning comes a moment later, together with those of the same cause.
void warn_of_loss(const std::shared_ptr<zk::ClientCore>& client, const std::string& path, std::string cause);

}  // namespace zkrecipes::detail
