#include "zkclient/detail/requests/request.hpp"

namespace zkclient::detail {

Request::Request() = default;
Request::Request(const Request&) = default;
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(const Request&) = default;
Request& Request::operator=(Request&&) noexcept = default;
Request::~Request() = default;

Reply::Reply() = default;
Reply::Reply(const Reply&) = default;
Reply::Reply(Reply&&) noexcept = default;
Reply& Reply::operator=(const Reply&) = default;
Reply& Reply::operator=(Reply&&) noexcept = default;
Reply::~Reply() = default;

Request make_request(OpType type, std::string path) {
  Request request;
  request.type = type;
  request.path = std::move(path);
  return request;
}

const char* to_string(OpType type) noexcept {
  switch (type) {
    case OpType::create: return "create";
    case OpType::get: return "get";
    case OpType::set: return "set";
    case OpType::exists: return "exists";
    case OpType::children: return "children";
    case OpType::remove: return "remove";
    case OpType::multi: return "commit";
    case OpType::sync: return "sync";
    case OpType::connect: return "connect";
    case OpType::get_acl: return "get_acl";
    case OpType::set_acl: return "set_acl";
    case OpType::reconfig: return "reconfig";
    case OpType::remove_watches: return "remove_watches";
    case OpType::authenticate: return "add_auth";
  }
  return "unknown";
}

std::size_t Request::wire_size() const noexcept {
  constexpr std::size_t overhead = 64;
  const auto acl_size = [](const AclList& list) {
    std::size_t size = 4;
    for (const Acl& entry : list)
      size += 12 + entry.scheme.size() + entry.id.size();
    return size;
  };
  std::size_t size = overhead + path.size() + (data ? data->size() : 0) + acl_size(acl);
  if (reconfig != nullptr) {
    for (const auto* list : {&reconfig->joining, &reconfig->leaving, &reconfig->members}) {
      for (const std::string& entry : *list)
        size += entry.size() + 1;
    }
  }
  for (const auto& operation : operations) {
    size += overhead;
    if (const auto* create = std::get_if<Transaction::Create>(&operation)) {
      size += create->path.str().size() + (create->data ? create->data->size() : 0) + acl_size(create->acl);
    } else if (const auto* set = std::get_if<Transaction::Set>(&operation)) {
      size += set->path.str().size() + (set->data ? set->data->size() : 0);
    } else if (const auto* remove = std::get_if<Transaction::Remove>(&operation)) {
      size += remove->path.str().size();
    } else if (const auto* check = std::get_if<Check>(&operation)) {
      size += check->path.str().size();
    }
  }
  return size;
}

std::optional<Refusal> Reply::refusal() const noexcept {
  if (!failed(Errc::transaction_failed)) return std::nullopt;
  // Those before it are said to have worked; those after it, not to have been tried.
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] != rc::ok && codes[i] != rc::runtime_inconsistency) return Refusal{i, codes[i]};
  }
  return std::nullopt;
}

bool Reply::lacks_parent(const Request& request) const {
  const std::optional<Refusal> refused = refusal();
  return refused && refused->code == rc::no_node &&
         std::holds_alternative<Transaction::Create>(request.operations[refused->index]);
}

Errc Reply::cause() const noexcept {
  const std::optional<Refusal> refused = refusal();
  return refused ? rc::to_errc(refused->code) : error.value_or(Errc::server_error);
}

std::size_t Reply::size() const noexcept {
  std::size_t size = sizeof *this + data.size();
  for (const std::string& name : names)
    size += sizeof(std::string) + name.size();
  for (const OperationResult& result : results)
    size += sizeof(OperationResult) + result.path.size();
  return size;
}

Errc rc::to_errc(int code) noexcept {
  switch (code) {
    case no_watcher:  // "There is no such watch", which only the client itself asks about.
    case no_node: return Errc::no_node;
    case no_auth: return Errc::no_auth;
    case bad_version: return Errc::bad_version;
    case no_children_for_ephemerals: return Errc::no_children_for_ephemerals;
    case node_exists: return Errc::node_exists;
    case not_empty: return Errc::not_empty;
    case invalid_acl: return Errc::invalid_acl;
    case auth_failed: return Errc::auth_failed;
    case quota_exceeded: return Errc::quota_exceeded;
    case reconfig_disabled: return Errc::reconfig_disabled;
    case reconfig_in_progress: return Errc::reconfig_in_progress;
    case new_config_no_quorum: return Errc::new_config_no_quorum;
    case throttled: return Errc::throttled;
    case unimplemented: return Errc::unimplemented;
    case bad_arguments:
    case marshalling_error: return Errc::invalid_argument;
    default: return Errc::server_error;
  }
}

}  // namespace zkclient::detail
