#include "tests/fuzz/targets.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>

#include <zkclient/error.hpp>
#include <zkclient/path.hpp>
#include <zkclient/reconfig.hpp>

#include "recipes/detail/commit_record.hpp"
#include "recipes/detail/leader_record.hpp"
#include "recipes/detail/sequence.hpp"
#include "zkclient/detail/hosts.hpp"
#include "zktesting/detail/frames.hpp"

namespace fuzz {
namespace {

using namespace std::string_literals;

void require(bool property, const char* what) {
  if (!property) throw std::logic_error(what);
}

std::optional<zkclient::Path> parse_path(std::string_view text) {
  try {
    return zkclient::Path(text);
  } catch (const zkclient::Error& error) {
    require(error.errc() == zkclient::Errc::invalid_path, "a bad path has a code of its own");
    return std::nullopt;
  }
}

void check_path(std::string_view input) {
  const auto path = parse_path(input);
  if (!path) return;
  require(path->str() == input, "an accepted path is what was written");
  require(input.starts_with('/') && input.find('\0') == std::string_view::npos, "the C client could misread it");
  require(input.find("//") == std::string_view::npos && (input.size() == 1 || !input.ends_with('/')), "no empty parts");
  require(path->starts_with(path->parent()) && path->starts_with({}), "it lies below its parent and the root");
  if (path->is_root()) {
    require(path->parent() == *path && path->name().empty(), "the root is its own parent");
    return;
  }
  require(path->parent() / path->name() == *path, "parent and name make the path again");
  require(path->name() != "." && path->name() != "..", "no relative parts");
  require(!path->parent().starts_with(*path), "nothing lies below its child");
  require(parse_path(path->parent().str()).has_value(), "the parent is valid as well");
}

void check_hosts(std::string_view input) {
  std::vector<zkclient::detail::Host> hosts;
  try {
    hosts = zkclient::detail::parse_hosts(input);
  } catch (const zkclient::Error& error) {
    require(error.errc() == zkclient::Errc::invalid_argument, "a bad list has a code of its own");
    return;
  }
  require(!hosts.empty(), "a list names a host");
  std::string written;
  for (const auto& host : hosts) {
    require(!host.name.empty() && host.port != 0, "a host has a name and a port");
    require(host.name.find_first_of("/,[] \t\n\0"s) == std::string::npos, "nothing foreign is in a name");
    if (!written.empty()) written += ',';
    const bool six = host.name.find(':') != std::string::npos;
    written += (six ? "[" + host.name + "]" : host.name) + ":" + std::to_string(host.port);
  }
  const auto again = zkclient::detail::parse_hosts(written);
  const auto same = [](const auto& a, const auto& b) { return a.name == b.name && a.port == b.port; };
  require(std::equal(hosts.begin(), hosts.end(), again.begin(), again.end(), same), "written and read, it is the same");
}

const std::vector<std::string_view> infixes{"-lock-", "-latch-", "__lock__"};

// Lines are names of children.
void check_sequence(std::string_view input) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= input.size() && names.size() < 64;) {
    const std::size_t end = std::min(input.find('\n', begin), input.size());
    names.emplace_back(input.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<std::string> numbered;
  for (const std::string& name : names) {
    const auto number = zkrecipes::detail::sequence_of(name, infixes);
    if (!number) continue;
    numbered.push_back(name);
    std::array<char, 16> digits{};
    std::snprintf(digits.data(), digits.size(), "%010d", *number);  // As the server prints it.
    require(name.size() >= std::strlen(digits.data()), "the number is in the name");
    const auto alone = zkrecipes::detail::sequence_of("x-lock-" + std::string(digits.data()), infixes);
    require(alone == number, "printed and read, it is the same number");
  }
  const auto ordered = zkrecipes::detail::in_order(names, infixes);
  require(std::is_permutation(ordered.begin(), ordered.end(), numbered.begin(), numbered.end()),
          "ordering loses and adds nothing");
  std::vector<std::string> shuffled(names.rbegin(), names.rend());
  const auto is_near = [](const std::string& a, const std::string& b) {
    const auto x = static_cast<std::uint32_t>(*zkrecipes::detail::sequence_of(a, infixes));
    const auto y = static_cast<std::uint32_t>(*zkrecipes::detail::sequence_of(b, infixes));
    return std::min(x - y, y - x) < 0x4000'0000U;
  };
  const bool near = std::all_of(ordered.begin(), ordered.end(),
                                [&](const std::string& name) { return is_near(name, ordered.front()); });
  if (!near) return;  // Made by hand: the order means nothing, but must not crash.
  require(zkrecipes::detail::in_order(shuffled, infixes) == ordered, "the order does not depend on the listing");
  for (std::size_t i = 1; i < ordered.size(); ++i) {
    const auto before = *zkrecipes::detail::sequence_of(ordered[i - 1], infixes);
    const auto after = *zkrecipes::detail::sequence_of(ordered[i], infixes);
    require(before == after || zkrecipes::detail::precedes(before, after), "older ones come first, across the wrap");
    require(!zkrecipes::detail::precedes(after, before), "and not the other way round");
  }
}

void check_leader_record(std::string_view input) {
  using zkrecipes::detail::decode_leader_record;
  using zkrecipes::detail::LeaderRecord;
  if (const auto record = decode_leader_record(input)) {
    require(decode_leader_record(encode(*record)) == record, "written and read, it is the same");
  }
  // Any value may be proclaimed.
  const LeaderRecord any{static_cast<std::int64_t>(std::hash<std::string_view>()(input)), input.size() % 2 == 0,
                         std::string(input)};
  require(decode_leader_record(encode(any)) == any, "every value comes back whole");
}

void check_commit_record(std::string_view input) {
  using namespace zkrecipes::detail;
  if (const auto header = decode_transaction(input)) {
    require(decode_transaction(encode(*header)) == header, "written and read, it is the same transaction");
    require(!header->participants.empty(), "a transaction has participants");
    for (const std::string& name : header->participants)
      require(name_defect(name) == nullptr, "a participant's name can be the name of a node");
  }
  if (const auto decision = decode_decision(input)) {
    if (decision->reason.size() <= max_reason) require(encode(*decision) == input, "a decision is what was written");
  }
  if (const auto logged = decode_logged(input)) {
    require(decode_logged(encode(*logged)) == logged, "written and read, it is the same");
  }
}

struct Scanned {
  std::vector<std::optional<std::int32_t>> xids;
  bool refused = false;
  friend bool operator==(const Scanned&, const Scanned&) = default;
};

// As the relay does it: what arrives is appended, what was passed on is dropped.
Scanned scan(std::string_view input, std::size_t piece) {
  zktesting::detail::FrameScanner scanner;
  Scanned result;
  std::string buffer;
  for (std::size_t fed = 0; fed < input.size();) {
    const std::size_t count = std::min(piece, input.size() - fed);
    buffer.append(input.substr(fed, count));
    fed += count;
    std::size_t position = 0;
    for (;;) {
      const std::size_t before = position;
      const auto step = scanner.next(buffer, position);
      require(position >= before && position <= buffer.size(), "the position stays inside and never goes back");
      if (step == zktesting::detail::FrameScanner::Step::not_ours) {
        result.refused = true;
        return result;
      }
      if (step == zktesting::detail::FrameScanner::Step::need) break;
      require(scanner.head().first == result.xids.empty(), "only the first frame is the first");
      result.xids.push_back(scanner.head().xid);
      scanner.accept();
    }
    buffer.erase(0, position);
  }
  return result;
}

void check_frames(std::string_view input) {
  const Scanned whole = scan(input, input.size() + 1);
  require(scan(input, 1) == whole, "byte by byte it finds the same frames");
  require(scan(input, 7) == whole, "and in pieces of seven");
}

void check_ensemble_config(std::string_view input) {
  const zkclient::EnsembleConfig config = zkclient::parse_ensemble_config(input);
  require(config.text == input, "the text is kept as it is");
  require(config.version >= -1, "a version, or none");
  std::string members;
  for (const std::string& member : config.members) {
    require(member.starts_with("server.") && member.find('\n') == std::string::npos, "a member is one line");
    require(input.find(member) != std::string_view::npos, "it stands in the text");
    members += member + '\n';
  }
  require(zkclient::parse_ensemble_config(members).members == config.members, "its members are read the same again");
}

std::string frame(std::string_view body) {
  std::string bytes(3, '\0');
  bytes += static_cast<char>(body.size());
  return bytes.append(body);
}

std::vector<Target> make_targets() {
  const std::string six = "\0\0\0\5\0\0\0\4"s;
  return {
      {"path",
       &check_path,
       {"/", "/a", "/a/b", "/a//b", "/a/", "a", "/./a", "/a/..", "/\xc3\xa4", "/\xed\xa0\x80", "/a\0b"s}},
      {"hosts",
       &check_hosts,
       {"a", "a:1", "a:1,b:2", "[::1]:2181", "127.0.0.1:2181 , host", "[fe80::1]", "[::\0x]:1"s, "[::1", "a:0",
        "a:65536", ",", "a/b"}},
      {"commit_record",
       &check_commit_record,
       {"2pc/1 mediated 10000 0 2\na\nb\npayload", "2pc/1 all-to-all 1 7 1\nx\n", "commit", "abort why", "17 data",
        ""}},
      {"sequence",
       &check_sequence,
       {"_c_0-lock-0000000001", "x-lock-2147483647\ny-lock--2147483648\nz-lock-0000000000", "a__lock__0000000007",
        "_c_0-latch--000000001", "lock-", "-lock--1000000000\n-lock-2147483646"}},
      {"leader_record",
       &check_leader_record,
       {"leader/1 7 1 1\nhttp://a", "leader/1 -1 0 0\n", "leader/1 7 1 0\nx", ""}},
      {"ensemble_config",
       &check_ensemble_config,
       {"server.1=h:2888:3888:participant;0.0.0.0:2181\nserver.2=i:1:2:observer;3\nversion=100000000", "version=zz",
        "version=-1", "server.", "\n\nversion="}},
      {"frames",
       &check_frames,
       {frame("handshake") + frame(six) + frame(six + "abc"), frame("") + frame("") + frame("x"), "ruok", six}},
  };
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all = make_targets();
  return all;
}

}  // namespace fuzz
