#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <zkclient/export.hpp>

namespace zkclient {

/// What went wrong. The values are stable; `make_error_code(Errc)` puts them into zkclient's error category.
enum class Errc {
  // The connection, the session, the call.
  connection_loss = 1,  ///< The connection broke and the retry budget of a read is spent.
  in_doubt,             ///< A write was sent and its reply never came: it may or may not have happened.
  deadline_exceeded,    ///< The deadline passed; nothing was changed on the server. (== std::errc::timed_out)
  cancelled,            ///< The caller's stop token fired; nothing was changed. (== std::errc::operation_canceled)
  closed,               ///< The client was closed; nothing was changed on the server.
  session_lost,         ///< The session that the call depended on is over, and its ephemeral nodes with it.
  overloaded,           ///< Too many calls or watches are outstanding in this client.
  // Answers of the server.
  no_node = 100,
  node_exists,
  bad_version,
  not_empty,
  no_children_for_ephemerals,
  no_auth,
  auth_failed,
  invalid_acl,
  quota_exceeded,
  throttled,
  unimplemented,       ///< The server does not know the request, or has it switched off (TTL nodes, ...).
  transaction_failed,  ///< Rolled back; `Error::refused()` is the operation that failed, and why.
  server_error,        ///< The server reported a failure of its own.
  reconfig_disabled,   ///< The server does not allow changes of its ensemble (reconfigEnabled).
  reconfig_in_progress,
  new_config_no_quorum,  ///< Too few servers of the new ensemble are connected and up to date.
  // Refusals before anything was sent.
  invalid_path = 200,
  invalid_argument,
  too_large,         ///< The request would exceed the server's frame limit (jute.maxbuffer).
  unsupported,       ///< The installed C client lacks the feature.
  library_conflict,  ///< libzookeeper_mt is loaded in this process as well; the two cannot live together.
  system_error,
  // Findings of a recipe.
  not_held = 300,     ///< The lease is no longer held.
  foreign_node,       ///< A node at the recipe's path is not what the recipe put there.
  would_deadlock,     ///< The caller itself holds what it would wait for. (== std::errc::resource_deadlock_would_occur)
  timeout_too_short,  ///< The session timeout leaves no time in which a lease is safe; nothing was acquired.
  connection_too_slow,  ///< The server answers too slowly for a lease to be kept; nothing was acquired.
  not_available,        ///< What was waited for did not come in time: see WaitOptions.
  // Of this process.
  forked = 400,  ///< The client belongs to the parent of this process. Make another one here.
};

/// What the caller can do about an error. Compare with a code: `error.code() == ErrorKind::in_doubt`.
enum class ErrorKind {
  retryable = 1,  ///< Nothing was changed; the same call may succeed later.
  in_doubt,       ///< The change may have happened: look before repeating it.
  session_lost,   ///< The session is over. Anything it held is gone; start again with a new session.
  precondition,   ///< The call cannot succeed as it stands; repeating it unchanged is of no use.
  cancelled,      ///< The caller ended it (stop token or close()); nothing was changed.
};

/// For std::error_code and std::error_condition: the categories of Errc and of ErrorKind.
ZKRECIPES_API const std::error_category& error_category() noexcept;
ZKRECIPES_API const std::error_category& error_kind_category() noexcept;
/// What makes an Errc a std::error_code, and an ErrorKind a std::error_condition.
ZKRECIPES_API std::error_code make_error_code(Errc code) noexcept;
ZKRECIPES_API std::error_condition make_error_condition(ErrorKind kind) noexcept;

/// The kind of any code of zkclient's category; `precondition` for codes of other categories.
ZKRECIPES_API ErrorKind kind_of(const std::error_code& code) noexcept;
ZKRECIPES_API const char* to_string(ErrorKind kind) noexcept;

/// Why a transaction was rolled back.
struct RefusedOperation {
  std::size_t index = 0;  ///< Which of its operations the server refused, from 0, in the order of their appending.
  Errc reason = {};       ///< What the operation would have failed with alone.

  friend bool operator==(const RefusedOperation&, const RefusedOperation&) = default;
};

/// The one exception type of zkclient and zkrecipes. `what()` names the operation, the path and what to do.
/// Copies share an immutable text; copying never throws.
class ZKRECIPES_API Error : public std::system_error {
 public:
  Error(Errc code, std::string_view operation, std::string_view path, std::string_view detail = {},
        std::string_view node = {});
  /// Of a transaction.
  Error(Errc code, std::string_view operation, std::string_view path, std::string_view detail,
        RefusedOperation refused);
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;
  ~Error() override = default;

  /// All of it in one line.
  const char* what() const noexcept override;
  /// What the caller can do about it.
  ErrorKind kind() const noexcept { return kind_of(code()); }
  /// The code, the operation, the path as its caller wrote it, and what is known besides.
  Errc errc() const noexcept { return static_cast<Errc>(code().value()); }
  const std::string& operation() const noexcept;
  const std::string& path() const noexcept;
  const std::string& detail() const noexcept;
  /// The node that is meant, where the caller could not know it: the item that a pop in doubt may have taken. Else "".
  const std::string& node() const noexcept;
  /// Of Client::commit() with Errc::transaction_failed: what the server refused. Of all else nothing.
  std::optional<RefusedOperation> refused() const noexcept;

 private:
  struct Text;
  std::shared_ptr<const Text> text_;
};

}  // namespace zkclient

template <>
struct std::is_error_code_enum<zkclient::Errc> : std::true_type {};
template <>
struct std::is_error_condition_enum<zkclient::ErrorKind> : std::true_type {};
