#pragma once

#include <memory>
#include <vector>

#include "zkclient/detail/requests/request.hpp"

namespace zkclient::detail {

/// A client's identities: proven once on each session, in this order, before anything else is sent there. Lives on the
/// loop thread.
class Credentials {
 public:
  /// The one that is known already, if there is one like it.
  std::shared_ptr<Credential> remember(Credential credential);
  void forget(const std::shared_ptr<Credential>& credential) { std::erase(all_, credential); }
  /// The server has refused one, and does not say which.
  void refuse();
  const std::vector<std::shared_ptr<Credential>>& all() const noexcept { return all_; }

 private:
  std::vector<std::shared_ptr<Credential>> all_;
};

}  // namespace zkclient::detail
