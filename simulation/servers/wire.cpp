#include "simulation/servers/wire.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "simulation/servers/owner.hpp"

namespace zktesting::simulated {
namespace {

template <typename T>
void put(std::string& out, T value) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8)
    out += static_cast<char>((static_cast<std::uint64_t>(value) >> shift) & 0xff);
}

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char byte : bytes)
    value = (value << 8) | static_cast<unsigned char>(byte);
  return value;
}

}  // namespace

// ---- Writing --------------------------------------------------------------------------------------

Encoder& Encoder::byte(bool value) {
  bytes_ += value ? '\1' : '\0';
  return *this;
}

Encoder& Encoder::int32(std::int32_t value) {
  put(bytes_, value);
  return *this;
}

Encoder& Encoder::int64(std::int64_t value) {
  put(bytes_, value);
  return *this;
}

Encoder& Encoder::buffer(std::string_view bytes) { return int32(static_cast<std::int32_t>(bytes.size())).raw(bytes); }

Encoder& Encoder::nullable(const std::optional<std::string>& bytes) { return bytes ? buffer(*bytes) : int32(-1); }

Encoder& Encoder::stat(const Stat& stat) {
  int64(stat.czxid).int64(stat.mzxid).int64(stat.ctime).int64(stat.mtime);
  int32(stat.version).int32(stat.cversion).int32(stat.aversion);
  return int64(stat.ephemeral_owner).int32(stat.data_length).int32(stat.num_children).int64(stat.pzxid);
}

Encoder& Encoder::acl(const std::vector<Acl>& acl) {
  int32(static_cast<std::int32_t>(acl.size()));
  for (const Acl& entry : acl)
    int32(entry.perms).buffer(entry.id.scheme).buffer(entry.id.id);
  return *this;
}

Encoder& Encoder::strings(const std::vector<std::string>& strings) {
  int32(static_cast<std::int32_t>(strings.size()));
  for (const std::string& string : strings)
    buffer(string);
  return *this;
}

Encoder& Encoder::raw(std::string_view bytes) {
  bytes_ += bytes;
  return *this;
}

std::string Encoder::frame() const { return Encoder().buffer(bytes_).take(); }

// ---- Reading --------------------------------------------------------------------------------------

void Decoder::fail() {
  ok_ = false;
  rest_ = {};
}

std::string_view Decoder::take(std::size_t size) {
  if (rest_.size() < size) {
    fail();
    return {};
  }
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

bool Decoder::byte() { return big_endian(take(1)) != 0; }

std::int32_t Decoder::int32() { return static_cast<std::int32_t>(static_cast<std::uint32_t>(big_endian(take(4)))); }

std::int64_t Decoder::int64() { return static_cast<std::int64_t>(big_endian(take(8))); }

std::optional<std::string_view> Decoder::view() {
  const std::int32_t size = int32();
  if (size == -1) return std::nullopt;
  if (size < 0) fail();
  return take(static_cast<std::size_t>(std::max(0, size)));
}

std::optional<std::string> Decoder::buffer() {
  const std::optional<std::string_view> bytes = view();
  if (!bytes) return std::nullopt;
  return std::string(*bytes);
}

std::string Decoder::string() { return buffer().value_or(std::string()); }

/// A null vector has no entries.
std::int32_t Decoder::count() { return std::max(0, int32()); }

std::vector<Acl> Decoder::acl() {
  std::vector<Acl> acl;
  for (std::int32_t left = count(); ok_ && left > 0; --left) {
    Acl& entry = acl.emplace_back();
    entry.perms = int32();
    entry.id.scheme = string();
    entry.id.id = string();
  }
  return acl;
}

std::vector<std::string> Decoder::strings() {
  std::vector<std::string> all;
  for (std::int32_t left = count(); ok_ && left > 0; --left)
    all.push_back(string());
  return all;
}

Stat Decoder::stat() {
  Stat stat;
  stat.czxid = int64();
  stat.mzxid = int64();
  stat.ctime = int64();
  stat.mtime = int64();
  stat.version = int32();
  stat.cversion = int32();
  stat.aversion = int32();
  stat.ephemeral_owner = int64();
  stat.data_length = int32();
  stat.num_children = int32();
  stat.pzxid = int64();
  return stat;
}

// ---- Requests --------------------------------------------------------------------------------------

namespace {

/// A path that is null makes a real server stumble, as if the body were too short.
void read_path(Decoder& in, Request& request) {
  std::optional<std::string> path = in.buffer();
  if (!path) in.fail();
  request.path = std::move(path).value_or(std::string());
}

void read_create(Decoder& in, Request& request) {
  read_path(in, request);
  request.data = in.buffer();
  request.acl = in.acl();
  request.flags = in.int32();
  if (request.op == Op::create_ttl) request.ttl = in.int64();
}

void read_set_watches(Decoder& in, Request& request) {
  request.relative_zxid = in.int64();
  request.data_watches = in.strings();
  request.exist_watches = in.strings();
  request.child_watches = in.strings();
  if (request.op != Op::set_watches2) return;
  request.persistent_watches = in.strings();
  request.persistent_recursive_watches = in.strings();
}

bool is_create(Op op) {
  return op == Op::create || op == Op::create2 || op == Op::create_container || op == Op::create_ttl;
}

bool is_part_of(Op multi, Op part) {
  if (multi == Op::multi_read) return part == Op::get_data || part == Op::get_children;
  return is_create(part) || part == Op::remove || part == Op::set_data || part == Op::check;
}

void read_body(Decoder& in, Request& request);

/// In a multi, the mode decides what kind of a create it is; that it is a create2 is forgotten. A TTL's mode without a TTL
/// makes the server stumble when it gets there.
void read_create_part(Decoder& in, Request& part) {
  read_create(in, part);
  const bool has_ttl = part.op == Op::create_ttl;
  if (mode::is_ttl(part.flags)) {
    part.malformed = !has_ttl;
    part.op = Op::create_ttl;
  } else {
    part.op = part.flags == mode::container ? Op::create_container : Op::create;
  }
}

void read_parts(Decoder& in, Request& request) {
  for (;;) {
    Request part;
    part.op = static_cast<Op>(in.int32());
    const bool done = in.byte();
    in.int32();  // An error, which says nothing here.
    if (!in.ok() || done) return;
    if (!is_part_of(request.op, part.op)) return in.fail();
    if (is_create(part.op))
      read_create_part(in, part);
    else
      read_body(in, part);
    part.watch = false;  // Reads in a multi leave none.
    request.parts.push_back(std::move(part));
  }
}

void read_auth(Decoder& in, Request& request) {
  request.auth_type = in.int32();
  request.scheme = in.string();
  request.credential = in.string();
}

void read_body(Decoder& in, Request& request) {
  switch (request.op) {
    case Op::create:
    case Op::create2:
    case Op::create_container:
    case Op::create_ttl: return read_create(in, request);
    case Op::set_watches:
    case Op::set_watches2: return read_set_watches(in, request);
    case Op::multi:
    case Op::multi_read: return read_parts(in, request);
    case Op::auth: return read_auth(in, request);
    case Op::remove:
    case Op::exists:
    case Op::get_data:
    case Op::set_data:
    case Op::get_acl:
    case Op::set_acl:
    case Op::get_children:
    case Op::get_children2:
    case Op::sync:
    case Op::check:
    case Op::check_watches:
    case Op::remove_watches:
    case Op::get_ephemerals:
    case Op::get_all_children_number:
    case Op::add_watch: break;
    default: return;  // No body, or one that is of no interest.
  }
  if (request.op == Op::get_ephemerals) {
    request.path = in.string();
    return;
  }
  read_path(in, request);
  switch (request.op) {
    case Op::set_data:
      request.data = in.buffer();
      request.version = in.int32();
      return;
    case Op::set_acl:
      request.acl = in.acl();
      request.version = in.int32();
      return;
    case Op::remove:
    case Op::check: request.version = in.int32(); return;
    case Op::exists:
    case Op::get_data:
    case Op::get_children:
    case Op::get_children2: request.watch = in.byte(); return;
    case Op::check_watches:
    case Op::remove_watches:
    case Op::add_watch: request.flags = in.int32(); return;
    default: return;
  }
}

}  // namespace

std::optional<ConnectRequest> decode_connect(std::string_view frame) {
  Decoder in(frame);
  ConnectRequest request;
  request.protocol = in.int32();
  request.last_zxid_seen = in.int64();
  request.timeout = in.int32();
  request.session = in.int64();
  request.password = in.string();
  if (!in.ok()) return std::nullopt;
  request.knows_read_only = !in.empty();
  request.read_only = request.knows_read_only && in.byte();
  return request;
}

std::optional<Request> decode_request(std::string_view frame) {
  Decoder in(frame);
  Request request;
  request.xid = in.int32();
  request.op = static_cast<Op>(in.int32());
  if (!in.ok()) return std::nullopt;
  read_body(in, request);
  request.malformed = !in.ok();
  if (request.malformed && request.op == Op::auth) return std::nullopt;
  return request;
}

bool is_known(Op op) {
  const auto number = static_cast<std::int32_t>(op);
  if (op == Op::close_session || op == Op::auth || op == Op::set_watches) return true;
  if (op == Op::delete_container) return false;
  return (number >= 1 && number <= 22 && number != 10) || (number >= 103 && number <= 106);
}

bool is_write(Op op) {
  switch (op) {
    case Op::create:
    case Op::create2:
    case Op::create_container:
    case Op::create_ttl:
    case Op::remove:
    case Op::set_data:
    case Op::set_acl:
    case Op::check:
    case Op::multi:
    case Op::reconfig:
    case Op::delete_container:
    case Op::create_session:
    case Op::close_session: return true;
    default: return false;
  }
}

// ---- Answers ---------------------------------------------------------------------------------------

std::string encode_connect(const ConnectResponse& response) {
  Encoder out;
  out.int32(response.protocol).int32(response.timeout).int64(response.session);
  out.buffer(response.password);
  if (response.knows_read_only) out.byte(response.read_only);
  return out.frame();
}

std::string encode_reply(std::int32_t xid, Zxid zxid, std::int32_t error, std::string_view body) {
  return Encoder().int32(xid).int64(zxid).int32(error).raw(body).frame();
}

std::string encode_event(EventType type, std::string_view path) {
  constexpr std::int32_t connected = 3;
  const Encoder body = Encoder().int32(static_cast<std::int32_t>(type)).int32(connected).buffer(path);
  return encode_reply(xid::notification, -1, code::ok, body.bytes());
}

// ---- Frames ----------------------------------------------------------------------------------------

void FrameReader::add(std::string_view bytes) {
  bytes_.erase(0, std::exchange(read_, 0));
  bytes_ += bytes;
}

std::optional<std::string> FrameReader::next() {
  const std::string_view rest = std::string_view(bytes_).substr(read_);
  if (bad_ || rest.size() < 4) return std::nullopt;
  const std::int32_t size = Decoder(rest).int32();
  bad_ = size < 0 || size > max_buffer_;
  if (bad_ || rest.size() - 4 < static_cast<std::size_t>(size)) return std::nullopt;
  read_ += 4 + static_cast<std::size_t>(size);
  return std::string(rest.substr(4, static_cast<std::size_t>(size)));
}

std::optional<std::string> FrameReader::four_letter_word() const {
  constexpr std::array words{"conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr",
                             "ruok", "srst", "srvr", "stat", "stmk", "wchc", "wchp", "wchs", "lsnp"};
  const std::string_view first = std::string_view(bytes_).substr(read_, 4);
  if (std::find(words.begin(), words.end(), first) == words.end()) return std::nullopt;
  return std::string(first);
}

}  // namespace zktesting::simulated
