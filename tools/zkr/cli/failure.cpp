#include "tools/zkr/cli/failure.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace zkr {
namespace {

/// Of a recipe, "mutex acquire": a node of its own below the path, whose list is read.
bool is_of_recipe(const std::string& operation) {
  constexpr std::array recipes{
      "mutex ", "shared mutex ", "semaphore ", "multi lock ",      "double barrier ",   "group ",
      "queue ", "campaign",      "lease",      "two-phase commit", "serve transactions"};
  return std::any_of(recipes.begin(), recipes.end(), [&](const char* name) { return operation.starts_with(name); });
}

// The server does not say it. "": it is not known.
const char* right_for(const std::string& operation) {
  if (operation == "set") return "the right to write";
  if (operation == "create") return "the right to create, at the parent";
  if (operation == "remove" || operation == "remove_tree") return "the right to delete, at the parent";
  if (operation == "get" || operation == "children") return "the right to read";
  if (operation == "get_acl") return "the right to read or to administer";
  if (operation == "set_acl") return "the right to administer";
  if (operation == "ready" || operation == "proclaim") return "the right to write, at the leader's node";
  if (is_of_recipe(operation)) return "the rights to read, create and delete, at the path";
  return "";
}

}  // namespace

std::string explain(const zkclient::Error& error, const std::vector<std::string>& identities) {
  std::string text = error.what();
  if (error.errc() != zkclient::Errc::no_auth) return text;
  if (const std::string right = right_for(error.operation()); !right.empty()) text += "; it takes " + right;
  if (identities.empty()) return text + "; this call has no identity";
  return text + fmt::format("; this call is {}", fmt::join(identities, ", "));
}

ExitCode exit_code_of(zkclient::Errc error) {
  using zkclient::Errc;
  switch (error) {
    case Errc::invalid_path:
    case Errc::invalid_argument:
    case Errc::invalid_acl:
    case Errc::no_children_for_ephemerals:
    case Errc::too_large:
    case Errc::would_deadlock: return exit_usage;
    case Errc::foreign_node: return exit_format;
    case Errc::no_node: return exit_no_node;
    case Errc::connection_loss:
    case Errc::deadline_exceeded:
    case Errc::session_lost:
    case Errc::throttled:
    case Errc::connection_too_slow:
    case Errc::new_config_no_quorum: return exit_no_server;
    case Errc::system_error: return exit_system;
    case Errc::node_exists:
    case Errc::bad_version:
    case Errc::not_empty:
    case Errc::transaction_failed: return exit_exists;
    case Errc::in_doubt: return exit_in_doubt;
    case Errc::not_available:
    case Errc::reconfig_in_progress: return exit_not_acquired;
    case Errc::no_auth:
    case Errc::auth_failed:
    case Errc::quota_exceeded: return exit_refused;
    case Errc::timeout_too_short:
    case Errc::unsupported:
    case Errc::unimplemented:
    case Errc::reconfig_disabled: return exit_configuration;
    case Errc::not_held: return exit_lost;
    default: return exit_bug;
  }
}

}  // namespace zkr
