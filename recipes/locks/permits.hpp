#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/kernel/contend.hpp"

namespace zkrecipes::detail {

/// What makes a semaphore: a queue for those who want leases, and the directory of the leases.
struct PermitSpec {
  ContendSpecPtr queue;   ///< Of the inner mutex.
  std::string directory;  ///< Of the leases, full.
  int fixed_limit = 0;    ///< 0: the limit stands in a node.
  std::string limit_node = {};
  std::optional<int> initial_limit = {};  ///< Written into the node with the limit if that is missing.
  std::string operation;
};
using PermitSpecPtr = std::shared_ptr<const PermitSpec>;

/// What one who wants leases does after it has read the list of leases.
enum class PermitStep { acquired, wait, vanished };

/// Curator's rule: every child counts, our own nodes included. `own`: names of our nodes.
PermitStep decide_permits(const std::vector<std::string>& children, const std::vector<std::string>& own, int limit);

/// More leases than the server could list the nodes of: nobody means that.
inline constexpr int most_leases = 1'000'000;

/// Curator's SharedCount; nullopt for anything else, or what is not from 0 to most_leases (a number in digits, say).
std::optional<int> decode_limit(std::string_view data);
std::string encode_limit(int limit);

/// Gets `count` leases; none when `patience` is try_once and they are not free.
zk::Awaitable<zkclient::Result<std::vector<LeasePtr>>> take_leases(PermitSpecPtr spec, std::string data, int count,
                                                                   Patience patience, zk::Call call);

}  // namespace zkrecipes::detail
