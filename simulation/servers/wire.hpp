#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zktesting::simulated {

using Zxid = std::int64_t;
using SessionId = std::int64_t;
/// Since the epoch, or how long.
using Millis = std::int64_t;

/// The operations of the protocol, by their numbers on the wire.
enum class Op : std::int32_t {
  notification = 0,
  create = 1,
  remove = 2,
  exists = 3,
  get_data = 4,
  set_data = 5,
  get_acl = 6,
  set_acl = 7,
  get_children = 8,
  sync = 9,
  ping = 11,
  get_children2 = 12,
  check = 13,
  multi = 14,
  create2 = 15,
  reconfig = 16,
  check_watches = 17,
  remove_watches = 18,
  create_container = 19,
  delete_container = 20,  // Only the leader's reaper sends it.
  create_ttl = 21,
  multi_read = 22,
  auth = 100,
  set_watches = 101,
  sasl = 102,
  get_ephemerals = 103,
  get_all_children_number = 104,
  set_watches2 = 105,
  add_watch = 106,
  who_am_i = 107,
  create_session = -10,
  close_session = -11,
  error = -1,  // In transactions and in results of a multi only.
};

/// A server's error codes.
namespace code {
constexpr std::int32_t ok = 0;
constexpr std::int32_t runtime_inconsistency = -2;  // Parts of a multi behind the one that failed.
constexpr std::int32_t marshalling_error = -5;
constexpr std::int32_t unimplemented = -6;
constexpr std::int32_t bad_arguments = -8;
constexpr std::int32_t no_node = -101;
constexpr std::int32_t no_auth = -102;
constexpr std::int32_t bad_version = -103;
constexpr std::int32_t no_children_for_ephemerals = -108;
constexpr std::int32_t node_exists = -110;
constexpr std::int32_t not_empty = -111;
constexpr std::int32_t session_expired = -112;
constexpr std::int32_t invalid_acl = -114;
constexpr std::int32_t auth_failed = -115;
constexpr std::int32_t session_moved = -118;  // No reply carries it: the server closes the connection.
constexpr std::int32_t no_watcher = -121;
constexpr std::int32_t reconfig_disabled = -123;
}  // namespace code

/// The xids of frames that are no reply to a numbered request.
namespace xid {
constexpr std::int32_t notification = -1;
constexpr std::int32_t ping = -2;
constexpr std::int32_t auth = -4;
constexpr std::int32_t set_watches = -8;
}  // namespace xid

struct Id {
  std::string scheme;
  std::string id;
  friend auto operator<=>(const Id&, const Id&) = default;
};

namespace perms {
constexpr std::int32_t read = 1;
constexpr std::int32_t write = 2;
constexpr std::int32_t create = 4;
constexpr std::int32_t remove = 8;
constexpr std::int32_t admin = 16;
constexpr std::int32_t all = 31;
}  // namespace perms

struct Acl {
  std::int32_t perms = perms::all;
  Id id;
  friend bool operator==(const Acl&, const Acl&) = default;
};

struct Stat {
  Zxid czxid = 0;
  Zxid mzxid = 0;
  Millis ctime = 0;
  Millis mtime = 0;
  std::int32_t version = 0;
  std::int32_t cversion = 0;
  std::int32_t aversion = 0;
  std::int64_t ephemeral_owner = 0;
  std::int32_t data_length = 0;
  std::int32_t num_children = 0;
  Zxid pzxid = 0;
  friend bool operator==(const Stat&, const Stat&) = default;
};

/// What a client's first frame says.
struct ConnectRequest {
  std::int32_t protocol = 0;
  Zxid last_zxid_seen = 0;
  std::int32_t timeout = 0;  // Milliseconds.
  SessionId session = 0;     // 0: a new one is wanted.
  std::string password;
  bool read_only = false;
  bool knows_read_only = true;  // Old clients do not send the flag, and get none back.
};

struct ConnectResponse {
  std::int32_t protocol = 0;
  std::int32_t timeout = 0;  // 0, session 0: the session is over.
  SessionId session = 0;
  std::string password = std::string(16, '\0');
  bool read_only = false;
  bool knows_read_only = true;
};

/// A client's request, or a part of a multi. Which members say something depends on `op`.
struct Request {
  std::int32_t xid = 0;
  Op op{};
  /// The body could not be read. Real servers answer with marshalling_error, and keep the connection: `prepare` and
  /// `read` do so for what passes through them.
  bool malformed = false;

  std::string path;
  std::optional<std::string> data;  // create, set_data. Null and empty are two things on the wire.
  std::vector<Acl> acl;             // create, set_acl
  std::int32_t flags = 0;           // create: the mode. add_watch: its mode. check_watches, remove_watches: the kind.
  Millis ttl = 0;                   // create_ttl
  std::int32_t version = -1;        // remove, set_data, set_acl, check
  bool watch = false;               // exists, get_data, get_children, get_children2
  std::vector<Request> parts;       // multi, multi_read

  /// auth
  std::int32_t auth_type = 0;
  std::string scheme;
  std::string credential;

  /// set_watches, set_watches2
  Zxid relative_zxid = 0;
  std::vector<std::string> data_watches;
  std::vector<std::string> exist_watches;
  std::vector<std::string> child_watches;
  std::vector<std::string> persistent_watches;
  std::vector<std::string> persistent_recursive_watches;
};

/// The numbers of a WatcherEvent.
enum class EventType : std::int32_t {
  none = -1,
  created = 1,
  deleted = 2,
  data_changed = 3,
  children_changed = 4,
  data_watch_removed = 5,
  child_watch_removed = 6,
  persistent_watch_removed = 7,
};

/// Bodies and frames, as bytes of the protocol (jute: numbers big-endian, buffers with their length first).
class Encoder {
 public:
  Encoder& byte(bool value);
  Encoder& int32(std::int32_t value);
  Encoder& int64(std::int64_t value);
  Encoder& buffer(std::string_view bytes);
  Encoder& nullable(const std::optional<std::string>& bytes);  // Null is a length of -1.
  Encoder& stat(const Stat& stat);
  Encoder& acl(const std::vector<Acl>& acl);
  Encoder& strings(const std::vector<std::string>& strings);
  Encoder& raw(std::string_view bytes);

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }
  /// With the length in front.
  [[nodiscard]] std::string frame() const;

 private:
  std::string bytes_;
};

/// Reads what an Encoder writes. After the first thing that is not there, `ok()` is false and everything is empty.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}

  bool byte();
  std::int32_t int32();
  std::int64_t int64();
  std::optional<std::string> buffer();
  std::string string();  // Null is read as empty.
  /// Of the bytes that are being read.
  std::optional<std::string_view> view();
  std::vector<Acl> acl();
  std::vector<std::string> strings();
  Stat stat();

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  void fail();

 private:
  std::string_view take(std::size_t size);
  std::int32_t count();

  std::string_view rest_;
  bool ok_ = true;
};

/// Nothing: a real server closes the connection.
std::optional<ConnectRequest> decode_connect(std::string_view frame);
/// Nothing: not even the header can be read, and a real server closes the connection. Operations that 3.8 does not know
/// are decoded as such, with their header only: `is_known` tells.
std::optional<Request> decode_request(std::string_view frame);

/// False: the real server answers `unimplemented`, and closes the connection.
bool is_known(Op op);
/// True: it becomes a transaction. (sync goes through the leader as well, without one.)
bool is_write(Op op);

/// Whole frames, with their lengths.
std::string encode_connect(const ConnectResponse& response);
std::string encode_reply(std::int32_t xid, Zxid zxid, std::int32_t error, std::string_view body = {});
std::string encode_event(EventType type, std::string_view path);  // State "connected", zxid -1.

/// Cuts a client's bytes into frames.
class FrameReader {
 public:
  static constexpr std::int32_t usual_max_buffer = 0xfffff;
  explicit FrameReader(std::int32_t max_buffer = usual_max_buffer) : max_buffer_(max_buffer) {}

  void add(std::string_view bytes);
  /// The next whole frame, without its length.
  std::optional<std::string> next();
  /// The next frame claims a length that a server closes the connection for.
  [[nodiscard]] bool bad() const { return bad_; }
  /// Before the first frame only: the first four bytes, if they are one of the four-letter words.
  [[nodiscard]] std::optional<std::string> four_letter_word() const;

 private:
  std::int32_t max_buffer_;
  bool bad_ = false;
  std::string bytes_;
  std::size_t read_ = 0;
};

}  // namespace zktesting::simulated
