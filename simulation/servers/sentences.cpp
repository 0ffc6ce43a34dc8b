#include "simulation/servers/sentences.hpp"

#include <cstdio>

namespace zktesting::simulated {
namespace {

std::string name_of(Op op) {
  switch (op) {
    case Op::create:
    case Op::create2: return "create";
    case Op::create_container: return "create container";
    case Op::create_ttl: return "create with TTL";
    case Op::remove:
    case Op::delete_container: return "remove";
    case Op::set_data: return "set";
    case Op::set_acl: return "set the ACL of";
    case Op::check: return "check";
    case Op::multi: return "multi";
    case Op::close_session: return "close its session";
    default: return "operation " + std::to_string(static_cast<std::int32_t>(op));
  }
}

std::string told_error(std::int32_t error) {
  switch (error) {
    case code::no_node: return "no node";
    case code::node_exists: return "node exists";
    case code::bad_version: return "bad version";
    case code::not_empty: return "not empty";
    case code::no_auth: return "no permission";
    case code::session_expired: return "session expired";
    case code::session_moved: return "session moved";
    default: return "error " + std::to_string(error);
  }
}

std::string told_changes(const Txn& done) {
  std::string text;
  for (const Change& change : done.changes)
    text += (text.empty() ? "" : ", ") + name_of(change.op) + " " + change.path;
  return text;
}

}  // namespace

std::string told(const Request& asked, const Txn& done, std::int32_t error) {
  std::string text = name_of(asked.op);
  const bool failed = error != code::ok;
  if (asked.op == Op::multi || asked.op == Op::close_session) {
    if (!failed && !done.changes.empty()) text += ": " + told_changes(done);
  } else {
    text += " " + (failed || done.changes.empty() ? asked.path : done.changes.front().path);
  }
  return failed ? text + ": " + told_error(error) : text;
}

std::string told(SessionId session) {
  char text[32];
  std::snprintf(text, sizeof text, "session 0x%llx", static_cast<unsigned long long>(session));
  return text;
}

}  // namespace zktesting::simulated
