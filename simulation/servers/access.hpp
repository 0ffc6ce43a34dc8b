#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulation/servers/wire.hpp"

namespace zktesting::simulated {

/// A node's ACLs. They never change, and are shared: most nodes have the same.
class SharedAcl {
 public:
  SharedAcl() = default;
  SharedAcl(std::vector<Acl> acl) : acl_(std::make_shared<const std::vector<Acl>>(std::move(acl))) {}

  /// Empty: everybody may do everything.
  [[nodiscard]] const std::vector<Acl>& operator*() const;
  friend bool operator==(const SharedAcl& left, const SharedAcl& right) {
    return left.acl_ == right.acl_ || *left == *right;
  }

 private:
  std::shared_ptr<const std::vector<Acl>> acl_;
};

/// May somebody with these identities do one of `wanted` (perms::...)? An identity {"super", ""} may do everything.
bool permits(const std::vector<Acl>& acl, std::int32_t wanted, const std::vector<Id>& identities);

/// The ACLs that a node gets: without duplicates, "auth" replaced by who the caller is. Nothing: invalid_acl.
std::optional<std::vector<Acl>> expanded(const std::vector<Acl>& acl, const std::vector<Id>& identities);

/// The identities that a client's auth request proves. Nothing: answer auth_failed, and close the connection. `super` is
/// what the digest of a password is compared with ("user:base64 of sha1(user:password)"); empty: nobody is super.
std::optional<std::vector<Id>> authenticate(const Request& request, std::string_view ip, std::string_view super = {});
/// Adds what authenticate() gave to a connection's identities, in the order in which a real server keeps them.
void add_identities(std::vector<Id>& identities, const std::vector<Id>& more);

/// "user:base64 of sha1(user:password)" for "user:password".
std::string digest_of(std::string_view user_and_password);

}  // namespace zktesting::simulated
