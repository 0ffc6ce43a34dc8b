#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zkclient/export.hpp>
#include <zkclient/function.hpp>
#include <zkclient/reconfig.hpp>
#include <zkclient/stop.hpp>
#include <zkclient/transaction.hpp>
#include <zkclient/types.hpp>

#include "zkclient/detail/loop/cancel_scope.hpp"
#include "zkclient/detail/requests/session_state.hpp"

namespace zkclient::detail {

class CallRecord;
class Handle;

/// `connect` is not sent: it is done as soon as a session is connected. `authenticate` has no reply: it is done as soon
/// as it was handed to the C client, and what the server thinks of it shows in the requests after it.
enum class OpType {
  create,
  get,
  set,
  exists,
  children,
  remove,
  multi,
  sync,
  connect,
  get_acl,
  set_acl,
  reconfig,
  remove_watches,
  authenticate
};

const char* to_string(OpType type) noexcept;

/// The proof of the client's identity. It never appears in a log or an error.
struct Credential {
  std::string scheme;
  std::string secret;
  bool confirmed = false;  ///< A server has accepted it.
  bool refused = false;
  bool sent = false;  ///< Handed to the C client by a call that asked for it.
  int calls = 0;      ///< That have not sent it yet.
};

/// The data of a request, or none. Copies share it, so that a call that keeps its request for another attempt does not
/// hold the data twice.
class Payload {
 public:
  Payload() = default;
  Payload(std::string data) : data_(std::make_shared<const std::string>(std::move(data))) {}
  Payload(std::string_view data) : Payload(std::string(data)) {}
  Payload(const char* data) : Payload(std::string(data)) {}

  explicit operator bool() const noexcept { return data_ != nullptr; }
  const std::string& operator*() const noexcept { return *data_; }
  const std::string* operator->() const noexcept { return data_.get(); }

 private:
  std::shared_ptr<const std::string> data_;
};

/// One request to the server. Paths are full: the client's prefix is already in front.
struct ZKRECIPES_INTERNAL_API Request {
  // Compiled once: every coroutine moves requests and replies about.
  Request();
  Request(const Request&);
  Request(Request&&) noexcept;
  Request& operator=(const Request&);
  Request& operator=(Request&&) noexcept;
  ~Request();

  OpType type = OpType::get;
  std::string path;
  Payload data = {};
  std::int32_t version = any_version;
  CreateMode mode = CreateMode::persistent;
  std::int64_t ttl_ms = -1;
  AclList acl = {};
  bool watch = false;
  std::vector<Transaction::Operation> operations = {};
  std::shared_ptr<const Reconfig> reconfig = {};
  bool of_children = false;  ///< remove_watches: the watches of its children, or of its data.
  std::shared_ptr<Credential> credential = {};

  bool is_write() const noexcept {
    return type == OpType::create || type == OpType::set || type == OpType::remove || type == OpType::multi ||
           type == OpType::set_acl || type == OpType::reconfig || type == OpType::remove_watches;
  }
  /// The size of the request on the wire, roughly; never less.
  std::size_t wire_size() const noexcept;
};

/// A request for `path` of the given type, with nothing else set.
ZKRECIPES_INTERNAL_API Request make_request(OpType type, std::string path);

/// The codes of the C client that the library tells apart (its constants are not usable as case labels).
namespace rc {
inline constexpr int ok = 0;
inline constexpr int system_error = -1;
inline constexpr int runtime_inconsistency = -2;
inline constexpr int connection_loss = -4;
inline constexpr int marshalling_error = -5;
inline constexpr int unimplemented = -6;
inline constexpr int operation_timeout = -7;
inline constexpr int bad_arguments = -8;
inline constexpr int invalid_state = -9;
inline constexpr int new_config_no_quorum = -13;
inline constexpr int reconfig_in_progress = -14;
inline constexpr int no_node = -101;
inline constexpr int no_auth = -102;
inline constexpr int bad_version = -103;
inline constexpr int no_children_for_ephemerals = -108;
inline constexpr int node_exists = -110;
inline constexpr int not_empty = -111;
inline constexpr int session_expired = -112;
inline constexpr int invalid_acl = -114;
inline constexpr int auth_failed = -115;
inline constexpr int closing = -116;
inline constexpr int session_moved = -118;
inline constexpr int no_watcher = -121;
inline constexpr int reconfig_disabled = -123;
inline constexpr int quota_exceeded = -125;
inline constexpr int throttled = -127;

/// The reply is missing, whatever the reason: the request may or may not have been applied. (auth_failed is what the C
/// client says to all requests on their way when the server refuses an identity; it never is an answer to one of them.)
constexpr bool is_loss(int code) noexcept {
  return code == auth_failed || code == system_error || code == connection_loss || code == operation_timeout ||
         code == runtime_inconsistency || code == closing || code == session_expired || code == session_moved ||
         code == invalid_state;
}
/// Not about one operation of a transaction, but about the request.
constexpr bool is_of_request(int code) noexcept { return code > -100 || code == throttled; }
/// The meaning of a definite answer of the server.
ZKRECIPES_INTERNAL_API Errc to_errc(int code) noexcept;
}  // namespace rc

/// The operation of a transaction that the server refused, which is why none was applied.
struct Refusal {
  std::size_t index = 0;
  int code = 0;

  bool operator==(const Refusal&) const = default;
};

/// The answer to a request. `error` is set when the operation failed, for whatever reason; the rest depends on the
/// type.
struct ZKRECIPES_INTERNAL_API Reply {
  Reply();
  Reply(const Reply&);
  Reply(Reply&&) noexcept;
  Reply& operator=(const Reply&);
  Reply& operator=(Reply&&) noexcept;
  ~Reply();

  std::optional<Errc> error = {};
  std::string detail = {};
  /// Set when the caller or the deadline ended it, and not an answer or a lost connection: cancelled, or
  /// deadline_exceeded. `error` may be in_doubt all the same.
  std::optional<Errc> given_up = {};
  std::string path = {};  ///< Created path.
  std::string data = {};
  bool is_null = false;
  Stat stat = {};
  std::vector<std::string> names = {};
  AclList acl = {};
  std::vector<OperationResult> results = {};
  std::vector<int> codes = {};                 ///< Per operation of a failed transaction.
  BootClock::time_point sent = {};             ///< Just before the request was handed to the C client.
  std::shared_ptr<SessionState> session = {};  ///< The session that answered, or on which it was lost.

  bool ok() const noexcept { return !error; }
  bool failed(Errc code) const noexcept { return error == code; }
  /// The reply of a write was lost, while the caller still waits: there is time to find out whether it was applied.
  bool unanswered() const noexcept { return failed(Errc::in_doubt) && !given_up; }
  /// Of a transaction that failed; nullopt for everything else.
  std::optional<Refusal> refusal() const noexcept;
  /// True if the operation at `index` was refused with `code`.
  bool refused(std::size_t index, int code) const noexcept { return refusal() == Refusal{index, code}; }
  /// True if a create of the transaction `request` was refused because its parent does not exist.
  bool lacks_parent(const Request& request) const;
  /// Why it failed: of a transaction, what is wrong with the operation that was refused. Call it for a failure only.
  Errc cause() const noexcept;
  /// Its size in memory, roughly.
  std::size_t size() const noexcept;
};

/// One call on its way: made by ClientCore, carried by Handle. Lives on the loop thread.
class ZKRECIPES_INTERNAL_API Op : public std::enable_shared_from_this<Op> {
 public:
  using Done = UniqueFunction<void(Reply)>;
  using TimePoint = std::chrono::steady_clock::time_point;

  enum class State { idle, waiting, pausing, in_flight, done };

  Request request;
  Done done;  ///< Called once.
  std::optional<TimePoint> deadline;
  std::shared_ptr<SessionState> bound;   ///< Runs on this session or not at all.
  std::optional<std::uint32_t> only_on;  ///< Is sent on this connection of that session or not at all.
  CancelScope::Guard cancel_guard;
  AnyStop caller;
  std::optional<std::stop_callback<std::function<void()>>> stop;
  bool urgent = false;  ///< A heartbeat: goes before everything that waits.
  State state = State::idle;
  int attempts = 0;
  std::unique_ptr<CallRecord> record;  ///< Of the call that is this request, if somebody counts, or is told.
  std::optional<TimePoint> metered;    ///< Since when the meter counts it as pending.
  std::size_t sent_bytes = 0;          ///< When it was sent for the last time.
  std::size_t admitted_bytes = 0;      ///< Its share of the client's limit.
  int code = 0;                        ///< The C client's result code.
  bool answered = false;               ///< By the server: not lost, nor refused by the C client.
  Reply reply;
  std::shared_ptr<Op> in_library;  ///< Keeps the op alive while the C client knows its address.
  Handle* handle = nullptr;
  // Memory that the C client writes into when a transaction completes.
  struct MultiBuffers;
  std::unique_ptr<MultiBuffers> multi;

  Op();
  ~Op();
};

}  // namespace zkclient::detail
