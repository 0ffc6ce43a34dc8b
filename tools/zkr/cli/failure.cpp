#include "tools/zkr/cli/failure.hpp"

namespace zkr {

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
