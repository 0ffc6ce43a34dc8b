#include <zkclient/error.hpp>

#include <fmt/format.h>

namespace zkclient {
namespace {

struct Entry {
  Errc code;
  ErrorKind kind;
  const char* message;
};

// One line per code: what the caller can do, and what happened.
constexpr Entry entries[] = {
    {Errc::connection_loss, ErrorKind::retryable, "the connection to the server was lost"},
    {Errc::in_doubt, ErrorKind::in_doubt,
     "the reply was lost after the request was sent: it may or may not have taken effect; look before repeating it"},
    {Errc::deadline_exceeded, ErrorKind::retryable, "the deadline passed; nothing was changed"},
    {Errc::cancelled, ErrorKind::cancelled, "cancelled by the caller; nothing was changed"},
    {Errc::closed, ErrorKind::cancelled, "the client is closed; nothing was changed"},
    {Errc::session_lost, ErrorKind::session_lost,
     "the session is over, and its ephemeral nodes with it; start again with a new session"},
    {Errc::overloaded, ErrorKind::retryable, "too many calls or watches are outstanding in this client"},
    {Errc::no_node, ErrorKind::precondition, "there is no such node"},
    {Errc::node_exists, ErrorKind::precondition, "the node exists already"},
    {Errc::bad_version, ErrorKind::precondition, "the node has another version"},
    {Errc::not_empty, ErrorKind::precondition, "the node has children"},
    {Errc::no_children_for_ephemerals, ErrorKind::precondition, "the parent is ephemeral and can have no children"},
    {Errc::no_auth, ErrorKind::precondition, "the node's access control list does not allow it"},
    {Errc::auth_failed, ErrorKind::precondition, "the server refused the credentials"},
    {Errc::invalid_acl, ErrorKind::precondition, "the access control list is empty or not valid for this session"},
    {Errc::quota_exceeded, ErrorKind::precondition, "a quota would be exceeded"},
    {Errc::throttled, ErrorKind::retryable, "the server is overloaded and refused the request"},
    {Errc::unimplemented, ErrorKind::precondition,
     "the server does not support the request (TTL nodes need extendedTypesEnabled=true)"},
    {Errc::transaction_failed, ErrorKind::precondition, "the transaction was rolled back"},
    {Errc::server_error, ErrorKind::precondition, "the server reported an error of its own"},
    {Errc::reconfig_disabled, ErrorKind::precondition,
     "the server does not allow changes of its ensemble (reconfigEnabled=true is needed)"},
    {Errc::reconfig_in_progress, ErrorKind::retryable, "another change of the ensemble is in progress"},
    {Errc::new_config_no_quorum, ErrorKind::retryable,
     "too few servers of the new ensemble are connected and up to date; nothing was changed"},
    {Errc::invalid_path, ErrorKind::precondition, "the path is not valid"},
    {Errc::invalid_argument, ErrorKind::precondition, "an argument is not valid"},
    {Errc::too_large, ErrorKind::precondition, "the request is larger than the server accepts (jute.maxbuffer)"},
    {Errc::unsupported, ErrorKind::precondition, "the installed ZooKeeper C client cannot do this"},
    {Errc::library_conflict, ErrorKind::precondition,
     "libzookeeper_mt is loaded in this process as well; it exports the same symbols as libzookeeper_st, which this "
     "library uses: link only one of them"},
    {Errc::system_error, ErrorKind::retryable, "the operating system refused a resource"},
    {Errc::not_held, ErrorKind::session_lost, "the lease is no longer held"},
    {Errc::foreign_node, ErrorKind::precondition, "a node at this path was not made by this recipe"},
    {Errc::would_deadlock, ErrorKind::precondition, "the caller holds what it would wait for, for ever"},
    {Errc::timeout_too_short, ErrorKind::precondition,
     "the session timeout is too short for leases; nothing was acquired"},
    {Errc::connection_too_slow, ErrorKind::retryable,
     "the server answers too slowly for leases of this session; nothing was acquired"},
    {Errc::not_available, ErrorKind::retryable, "what was waited for did not come in time"},
    {Errc::forked, ErrorKind::precondition,
     "the client was made by the process that this one is a fork of; make another one here"},
};

const Entry* find(int value) noexcept {
  for (const Entry& entry : entries) {
    if (static_cast<int>(entry.code) == value) return &entry;
  }
  return nullptr;
}

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "zkclient"; }
  std::string message(int value) const override {
    const Entry* entry = find(value);
    return entry != nullptr ? entry->message : fmt::format("unknown error {}", value);
  }
  std::error_condition default_error_condition(int value) const noexcept override {
    const Entry* entry = find(value);
    return make_error_condition(entry != nullptr ? entry->kind : ErrorKind::precondition);
  }
  // The conditions of the standard that say the same.
  bool equivalent(int value, const std::error_condition& condition) const noexcept override {
    switch (static_cast<Errc>(value)) {
      case Errc::would_deadlock:
        if (condition == std::errc::resource_deadlock_would_occur) return true;
        break;
      case Errc::deadline_exceeded:
        if (condition == std::errc::timed_out) return true;
        break;
      case Errc::cancelled:
        if (condition == std::errc::operation_canceled) return true;
        break;
      default: break;
    }
    return default_error_condition(value) == condition;
  }
};

class KindCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "zkclient kind"; }
  std::string message(int value) const override { return to_string(static_cast<ErrorKind>(value)); }
};

std::string context(std::string_view operation, std::string_view path, std::string_view detail) {
  std::string text(operation);
  if (!path.empty()) text += fmt::format(" {}", path);
  if (!detail.empty()) text += fmt::format(" ({})", detail);
  return text;
}

}  // namespace

const std::error_category& error_category() noexcept {
  static const Category category;
  return category;
}

const std::error_category& error_kind_category() noexcept {
  static const KindCategory category;
  return category;
}

std::error_code make_error_code(Errc code) noexcept { return {static_cast<int>(code), error_category()}; }

std::error_condition make_error_condition(ErrorKind kind) noexcept {
  return {static_cast<int>(kind), error_kind_category()};
}

ErrorKind kind_of(const std::error_code& code) noexcept {
  const Entry* entry = code.category() == error_category() ? find(code.value()) : nullptr;
  return entry != nullptr ? entry->kind : ErrorKind::precondition;
}

const char* to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::retryable: return "retryable";
    case ErrorKind::in_doubt: return "in doubt";
    case ErrorKind::session_lost: return "session lost";
    case ErrorKind::precondition: return "precondition";
    case ErrorKind::cancelled: return "cancelled";
  }
  return "unknown";
}

struct Error::Text {
  std::string operation;
  std::string path;
  std::string detail;
  std::string node;
  std::optional<RefusedOperation> refused;
  std::string what;
};

Error::Error(Errc code, std::string_view operation, std::string_view path, std::string_view detail,
             std::string_view node)
    : std::system_error(make_error_code(code)) {
  text_ = std::make_shared<Text>(Text{std::string(operation), std::string(path), std::string(detail), std::string(node),
                                      std::nullopt,
                                      fmt::format("{}: {}", context(operation, path, detail), this->code().message())});
}

Error::Error(Errc code, std::string_view operation, std::string_view path, std::string_view detail,
             RefusedOperation refused)
    : Error(code, operation, path, detail) {
  auto text = std::make_shared<Text>(*text_);
  text->refused = refused;
  text_ = std::move(text);
}

const char* Error::what() const noexcept { return text_->what.c_str(); }
const std::string& Error::operation() const noexcept { return text_->operation; }
const std::string& Error::path() const noexcept { return text_->path; }
const std::string& Error::detail() const noexcept { return text_->detail; }
const std::string& Error::node() const noexcept { return text_->node; }
std::optional<RefusedOperation> Error::refused() const noexcept { return text_->refused; }

}  // namespace zkclient
