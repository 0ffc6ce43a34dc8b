#include "wire_text.hpp"

#include <fmt/format.h>

#include <cctype>

namespace zktesting::simulated {
namespace {

std::string shown(std::string_view bytes) {
  std::string text = "'";
  for (const char byte : bytes.substr(0, 60)) {
    if (std::isprint(static_cast<unsigned char>(byte)) != 0)
      text += byte;
    else
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return text + (bytes.size() > 60
                     ? fmt::format("...' ({} bytes, {})", bytes.size(), std::hash<std::string_view>()(bytes))
                     : "'");
}

std::string shown(const std::optional<std::string>& data) { return data ? shown(std::string_view(*data)) : "null"; }

std::string shown(const std::vector<std::string>& strings) {
  std::string text = "[";
  for (const std::string& string : strings)
    text += shown(std::string_view(string)) + " ";
  return text + "]";
}

std::string shown(const std::vector<Acl>& acl) {
  std::string text = "[";
  for (const Acl& entry : acl)
    text += fmt::format("{}:{}:{} ", entry.perms, entry.id.scheme, entry.id.id);
  return text + "]";
}

std::string_view name_of(Op op) {
  switch (op) {
    case Op::create: return "create";
    case Op::remove: return "delete";
    case Op::exists: return "exists";
    case Op::get_data: return "getData";
    case Op::set_data: return "setData";
    case Op::get_acl: return "getACL";
    case Op::set_acl: return "setACL";
    case Op::get_children: return "getChildren";
    case Op::sync: return "sync";
    case Op::ping: return "ping";
    case Op::get_children2: return "getChildren2";
    case Op::check: return "check";
    case Op::multi: return "multi";
    case Op::create2: return "create2";
    case Op::check_watches: return "checkWatches";
    case Op::remove_watches: return "removeWatches";
    case Op::create_container: return "createContainer";
    case Op::create_ttl: return "createTTL";
    case Op::multi_read: return "multiRead";
    case Op::auth: return "auth";
    case Op::set_watches: return "setWatches";
    case Op::set_watches2: return "setWatches2";
    case Op::get_ephemerals: return "getEphemerals";
    case Op::get_all_children_number: return "getAllChildrenNumber";
    case Op::add_watch: return "addWatch";
    case Op::close_session: return "closeSession";
    case Op::error: return "error";
    default: return "other";
  }
}

bool is_create(Op op) {
  return op == Op::create || op == Op::create2 || op == Op::create_container || op == Op::create_ttl;
}

void put_body(Encoder& out, const Request& request) {
  if (is_create(request.op)) {
    out.buffer(request.path).nullable(request.data).acl(request.acl).int32(request.flags);
    if (request.op == Op::create_ttl) out.int64(request.ttl);
    return;
  }
  switch (request.op) {
    case Op::ping:
    case Op::close_session: return;
    case Op::multi:
    case Op::multi_read:
      for (const Request& part : request.parts) {
        out.int32(static_cast<std::int32_t>(part.op)).byte(false).int32(-1);
        put_body(out, part);
      }
      out.int32(-1).byte(true).int32(-1);
      return;
    case Op::auth: out.int32(0).buffer(request.scheme).buffer(request.credential); return;
    case Op::set_watches:
    case Op::set_watches2:
      out.int64(request.relative_zxid).strings(request.data_watches);
      out.strings(request.exist_watches).strings(request.child_watches);
      if (request.op == Op::set_watches2)
        out.strings(request.persistent_watches).strings(request.persistent_recursive_watches);
      return;
    default: break;
  }
  out.buffer(request.path);
  switch (request.op) {
    case Op::set_data: out.nullable(request.data).int32(request.version); return;
    case Op::set_acl: out.acl(request.acl).int32(request.version); return;
    case Op::remove:
    case Op::check: out.int32(request.version); return;
    case Op::exists:
    case Op::get_data:
    case Op::get_children:
    case Op::get_children2: out.byte(request.watch); return;
    case Op::check_watches:
    case Op::remove_watches:
    case Op::add_watch: out.int32(request.flags); return;
    default: return;
  }
}

/// Reads a reply's body, and writes what it says if that is wanted.
class Teller {
 public:
  Teller(std::string_view body, bool with_text) : in_(body), size_(body.size()), with_text_(with_text) {}

  void tell(const Request& request) {
    switch (request.op) {
      case Op::create: tell_buffer(); return;
      case Op::create2:
      case Op::create_container:
      case Op::create_ttl: tell_buffer(); return tell_stat();
      case Op::exists:
      case Op::set_data:
      case Op::set_acl:
      case Op::check:
        if (!in_.empty()) tell_stat();
        return;
      case Op::get_data: tell_buffer(); return tell_stat();
      case Op::get_acl: tell_acl(); return tell_stat();
      case Op::get_children:
      case Op::get_ephemerals: tell_strings(); return;
      case Op::get_children2: tell_strings(); return tell_stat();
      case Op::multi:
      case Op::multi_read: return tell_results();
      default: return;
    }
  }

  std::string text() {
    for (const char byte : in_.rest())
      text_ += fmt::format(" {:02x}", static_cast<unsigned char>(byte));
    if (!in_.ok()) text_ += " CUT SHORT";
    return text_;
  }
  [[nodiscard]] const std::vector<std::size_t>& stats() const { return stats_; }

 private:
  void say(const std::string& word) { text_ += " " + word; }

  void tell_buffer() {
    if (with_text_)
      say(shown(in_.buffer()));
    else
      in_.view();
  }

  void tell_strings() {
    if (with_text_) return say(shown(in_.strings()));
    for (std::int32_t left = in_.int32(); in_.ok() && left > 0; --left)
      in_.view();
  }

  void tell_acl() {
    const std::vector<Acl> acl = in_.acl();
    if (with_text_) say(shown(acl));
  }

  void tell_stat() {
    stats_.push_back(size_ - in_.rest().size());
    const Stat stat = in_.stat();
    if (with_text_)
      say(fmt::format("{{c{} m{} p{} ctime {} mtime {} v{} cv{} av{} owner {:x} data {} children {}}}", stat.czxid,
                      stat.mzxid, stat.pzxid, stat.ctime, stat.mtime, stat.version, stat.cversion, stat.aversion,
                      stat.ephemeral_owner, stat.data_length, stat.num_children));
  }

  void tell_results() {
    while (in_.ok()) {
      Request part;
      part.op = static_cast<Op>(in_.int32());
      const bool done = in_.byte();
      const std::int32_t error = in_.int32();
      if (with_text_) say(fmt::format("| {} {}", done ? "end" : name_of(part.op), error));
      if (done) return;
      if (part.op == Op::error)
        in_.int32();
      else if (part.op != Op::check)
        tell(part);
    }
  }

  Decoder in_;
  const std::size_t size_;
  const bool with_text_;
  std::string text_;
  std::vector<std::size_t> stats_;
};

}  // namespace

std::string encode_request(const Request& request) {
  Encoder out;
  out.int32(request.xid).int32(static_cast<std::int32_t>(request.op));
  put_body(out, request);
  return out.take();
}

std::string text_of(const Request& request) {
  std::string text = fmt::format("{} {}", name_of(request.op), shown(std::string_view(request.path)));
  if (is_create(request.op))
    text += fmt::format(" mode {} ttl {} data {} acl {}", request.flags, request.ttl, shown(request.data),
                        shown(request.acl));
  if (request.op == Op::set_data) text += " data " + shown(request.data);
  if (request.op == Op::set_acl) text += " acl " + shown(request.acl);
  if (request.version != -1) text += fmt::format(" version {}", request.version);
  if (request.watch) text += " and watch";
  if (!is_create(request.op) && request.flags != 0) text += fmt::format(" kind {}", request.flags);
  if (request.op == Op::auth) text += request.scheme + ":" + request.credential;
  if (request.op == Op::set_watches || request.op == Op::set_watches2)
    text += fmt::format(" since {} data {} exist {} child {} persistent {} recursive {}", request.relative_zxid,
                        shown(request.data_watches), shown(request.exist_watches), shown(request.child_watches),
                        shown(request.persistent_watches), shown(request.persistent_recursive_watches));
  for (const Request& part : request.parts)
    text += "\n      + " + text_of(part);
  return text;
}

bool is_event(std::string_view frame) { return Decoder(frame).int32() == xid::notification; }

std::vector<std::size_t> stats_in(std::string_view frame, const Request& request) {
  constexpr std::size_t header_size = 16;
  Decoder header(frame);
  if (header.int32() == xid::notification || header.int64() < 0 || header.int32() != code::ok) return {};
  Teller teller(header.rest(), false);
  teller.tell(request);
  std::vector<std::size_t> stats = teller.stats();
  for (std::size_t& at : stats)
    at += header_size;
  return stats;
}

std::string text_of(std::string_view frame, const Request& request) {
  Decoder header(frame);
  const std::int32_t number = header.int32();
  const Zxid zxid = header.int64();
  const std::int32_t error = header.int32();
  if (number == xid::notification) {
    const std::int32_t type = header.int32();
    const std::int32_t state = header.int32();
    return fmt::format("event {} state {} {} zxid {}", type, state, shown(header.buffer()), zxid);
  }
  Teller teller(header.rest(), true);
  if (error == 0) teller.tell(request);
  return fmt::format("reply {} zxid {} error {}{}", number, zxid, error, teller.text());
}

}  // namespace zktesting::simulated
