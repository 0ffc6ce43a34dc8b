#include "random_requests.hpp"

#include <algorithm>
#include <utility>

#include "simulation/servers/access.hpp"
#include "simulation/servers/owner.hpp"

namespace zktesting::simulated {
namespace {

using namespace std::string_literals;

constexpr std::size_t remembered = 12;

/// What a server sends back as it is: Java writes characters beyond U+FFFF in its own way.
std::string echoed(const std::string& path) { return path.find('\xf0') == std::string::npos ? path : "/"; }

Request request_of(Op op, std::string path = {}) {
  Request request;
  request.op = op;
  request.path = std::move(path);
  return request;
}

}  // namespace

Request RandomRequests::next(Zxid last_zxid) {
  const std::uint64_t kind = random_.below(100);
  if (kind < 40) return read();
  if (kind < 86) return write();
  if (kind < 95) return multi();
  return set_watches(last_zxid);
}

void RandomRequests::note_created(const std::string& path) {
  if (!path.starts_with(root_) || std::find(created_.begin(), created_.end(), path) != created_.end()) return;
  created_.push_back(path);
  if (created_.size() > remembered) created_.erase(created_.begin());
}

bool RandomRequests::waits(const Request& request) {
  if (request.op == Op::set_acl) return true;
  if (request.op == Op::create_container) return request.flags != mode::container;
  return (request.op == Op::create || request.op == Op::create2) && request.flags >= mode::container;
}

Request RandomRequests::read() {
  const Op op =
      one_of({Op::exists, Op::exists, Op::exists, Op::get_data, Op::get_data, Op::get_data, Op::get_children,
              Op::get_children, Op::get_children2, Op::get_children2, Op::get_acl, Op::sync, Op::ping,
              Op::get_ephemerals, Op::get_all_children_number, Op::check_watches, Op::remove_watches, Op::add_watch});
  Request request = request_of(op, op == Op::ping ? "" : path());
  if (op == Op::sync) request.path = echoed(request.path);
  if (op == Op::check_watches && request.path == "relative/a") request.path = "relative";  // Else it depends on others.
  if (op == Op::get_ephemerals) request.path = one_of({""s, "/"s, root_, root_ + "/a"});
  request.watch = random_.one_in(2) &&
                  (op == Op::exists || op == Op::get_data || op == Op::get_children || op == Op::get_children2);
  if (op == Op::check_watches || op == Op::remove_watches) request.flags = chance(95) ? one_of({1, 2, 3}) : 7;
  if (op == Op::add_watch) request.flags = chance(90) ? one_of({0, 1}) : 2;
  return request;
}

Request RandomRequests::write() {
  const std::uint64_t kind = random_.below(10);
  if (kind < 5) return create();
  if (kind == 9 && random_.one_in(4)) {
    Request request = request_of(Op::set_acl, path());
    if (request.path == "/" || request.path == root_) request.path = root_ + "/a";  // Else nothing works from then on.
    request.acl = acl();
    request.version = version();
    return request;
  }
  Request request = part();
  if (request.op != Op::check) return request;
  Request alone = request_of(Op::multi);  // Outside of a multi, a real server never answers a check that is right.
  alone.parts.push_back(std::move(request));
  return alone;
}

Request RandomRequests::create() {
  if (chance(4)) {
    Request request = request_of(Op::create, root_);
    request.acl = {{perms::all, {"world", "anyone"}}};
    return request;
  }
  Request request = request_of(
      one_of({Op::create, Op::create, Op::create2, Op::create2, Op::create_container, Op::create_ttl}), path());
  request.data = data();
  request.acl = acl();
  request.flags = one_of({0, 0, 1, 1, 2, 3, 3});
  if (request.op == Op::create_container) request.flags = chance(90) ? 4 : one_of({0, 1, 2});
  if (request.op == Op::create_ttl) {
    request.flags = one_of({5, 6});
    request.ttl =
        chance(90) ? random_.between(1, 1'000'000'000) : one_of<Millis>({0, -5, longest_ttl, longest_ttl + 1});
  }
  if (chance(3)) request.flags = one_of({4, 5, 6, 7, -1});
  if (request.op == Op::create_ttl && request.ttl < 0) request.flags = 5;  // Another mode ends the real server.
  return request;
}

Request RandomRequests::part() {
  const std::uint64_t kind = random_.below(10);
  Request request = kind < 3 ? create()
                             : request_of(kind < 6   ? Op::remove
                                          : kind < 8 ? Op::set_data
                                                     : Op::check,
                                          path());
  if (kind < 3) return request;
  request.version = version();
  if (request.op == Op::set_data) request.data = data();
  return request;
}

Request RandomRequests::multi() {
  Request request = request_of(chance(75) ? Op::multi : Op::multi_read);
  for (std::uint64_t left = random_.below(6); left > 0; --left) {
    if (request.op == Op::multi)
      request.parts.push_back(part());
    else
      request.parts.push_back(request_of(one_of({Op::get_data, Op::get_children}), path()));
  }
  return request;
}

Request RandomRequests::set_watches(Zxid last_zxid) {
  Request request = request_of(random_.one_in(2) ? Op::set_watches : Op::set_watches2);
  request.relative_zxid = last_zxid - random_.between(0, 30);
  request.data_watches = paths();
  request.exist_watches = paths();
  request.child_watches = paths();
  if (request.op == Op::set_watches2 && random_.one_in(3)) {
    request.persistent_watches = paths();
    request.persistent_recursive_watches = paths();
  }
  return request;
}

Request RandomRequests::auth() {
  Request request = request_of(Op::auth);
  request.scheme = "digest";
  request.credential = one_of({"alice:one"s, "alice:one"s, "bob:two"s, "bob:two"s, "nobody"s, ""s});
  if (random_.one_in(10)) request.credential = super;
  if (random_.one_in(8)) request.scheme = "ip";
  return request;
}

Request RandomRequests::fatal() {
  if (random_.one_in(2)) return request_of(static_cast<Op>(one_of({10, 23, 50, 99, 108, -3})));
  Request request = auth();
  request.scheme = "kerberos";
  return request;
}

std::string RandomRequests::path() {
  if (chance(3)) return strange_path();
  if (!created_.empty() && chance(15)) return created_[random_.below(created_.size())];
  std::string path = root_;
  static const std::vector<std::uint64_t> depths{0, 1, 1, 1, 1, 2, 2, 2, 3};
  for (std::uint64_t depth = depths[random_.below(depths.size())]; depth > 0; --depth)
    path += one_of({"/a", "/a", "/b", "/c", "/some-longer-name", "/\xc3\xa9t\xc3\xa9"});
  return path;
}

std::string RandomRequests::strange_path() {
  return one_of({""s,
                 "/"s,
                 "/"s,
                 "/zookeeper"s,
                 "/zookeeper/quota"s,
                 "/zookeeper/config"s,
                 "relative"s,
                 "relative/a"s,
                 root_ + "/"s,
                 root_ + "//a",
                 root_ + "/.",
                 root_ + "/..",
                 root_ + "/../a",
                 root_ + "/a/./b",
                 root_ + "/...",
                 root_ + "/\x01",
                 root_ + "/\x7f",
                 root_ + "/\xc2\x9f",
                 root_ + "/\xc2\xa0",
                 root_ + "/\xee\x80\x80",
                 root_ + "/\xf0\x9f\x98\x80",
                 root_ + "/\xef\xbf\xbf",
                 root_ + "/\xef\xbf\xaf",
                 root_ + "/a\0b"s,
                 "/zookeeper/"s,
                 "//"s,
                 "/."s,
                 root_ + "/ blank "});
}

std::vector<std::string> RandomRequests::paths() {
  std::vector<std::string> all;
  for (std::uint64_t left = random_.below(4); left > 0; --left)
    all.push_back(echoed(path()));
  return all;
}

std::vector<Acl> RandomRequests::acl() {
  static const Id anyone{"world", "anyone"};
  static const std::vector<std::vector<Acl>> usual{
      {{perms::all, {"auth", ""}}},
      {{perms::all, {"digest", digest_of("alice:one")}}, {perms::read, anyone}},
      {{perms::read | perms::create, anyone}, {perms::all, {"digest", digest_of("bob:two")}}},
      {{perms::all & ~perms::remove, anyone}},
      {{perms::all & ~perms::admin, anyone}, {perms::all, {"digest", "x:y"}}},
      {{perms::admin, anyone}},
      {{perms::all, {"ip", "127.0.0.0/8"}}},
      {{perms::all, {"ip", "127.0.0.1"}}, {perms::all, {"ip", "127.0.0.1"}}},
      {{perms::all, {"ip", "10.0.0.0/8"}}, {perms::read, anyone}},
  };
  static const std::vector<std::vector<Acl>> strange{
      {},
      {{perms::all, {"world", "somebody"}}},
      {{perms::all, {"digest", "nocolon"}}},
      {{perms::all, {"digest", "a:b:c"}}},
      {{perms::all, {"digest", ":"}}},
      {{perms::all, {"digest", "a:b::"}}},
      {{perms::all, {"digest", "a:"}}},
      {{perms::all, {"ip", "300.0.0.1"}}},
      {{perms::all, {"ip", "1.2.3"}}},
      {{perms::all, {"ip", "1.2.3.4/33"}}},
      {{perms::all, {"ip", "1.2.3.4/0"}}},
      {{perms::all, {"x509", "CN=a"}}},
      {{perms::all, {"super", ""}}},
      {{0, anyone}},
      {{perms::all, anyone}, {perms::all, anyone}, {perms::all, {"auth", "x"}}},
  };
  if (chance(75)) return {{perms::all, anyone}};
  const auto& from = chance(80) ? usual : strange;
  return from[random_.below(from.size())];
}

std::optional<std::string> RandomRequests::data() {
  if (chance(10)) return std::nullopt;
  if (chance(2)) return std::string(random_.below(20'000), 'x');
  return std::string(random_.below(4), static_cast<char>('a' + random_.below(26)));
}

std::int32_t RandomRequests::version() {
  if (chance(60)) return -1;
  return chance(80) ? static_cast<std::int32_t>(random_.between(0, 3))
                    : static_cast<std::int32_t>(random_.between(-5, 40));
}

}  // namespace zktesting::simulated
