#include "simulation/servers/access.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "simulation/servers/java_set.hpp"

namespace zktesting::simulated {
namespace {

using Sha1 = std::array<std::uint32_t, 5>;

std::uint32_t rotated(std::uint32_t word, int by) { return (word << by) | (word >> (32 - by)); }

std::uint32_t mixed(int round, const Sha1& v) {
  const auto& [a, b, c, d, e] = v;
  std::ignore = a;
  std::ignore = e;
  if (round < 20) return ((b & c) | (~b & d)) + 0x5A827999u;
  if (round < 40) return (b ^ c ^ d) + 0x6ED9EBA1u;
  if (round < 60) return ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDCu;
  return (b ^ c ^ d) + 0xCA62C1D6u;
}

void add_block(Sha1& hash, std::string_view block) {
  std::array<std::uint32_t, 80> words{};
  for (std::size_t i = 0; i < 64; ++i)
    words[i / 4] = (words[i / 4] << 8) | static_cast<unsigned char>(block[i]);
  for (std::size_t i = 16; i < 80; ++i)
    words[i] = rotated(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  Sha1 v = hash;
  for (int round = 0; round < 80; ++round) {
    const std::uint32_t next = rotated(v[0], 5) + mixed(round, v) + v[4] + words[static_cast<std::size_t>(round)];
    v = {next, v[0], rotated(v[1], 30), v[2], v[3]};
  }
  for (std::size_t i = 0; i < hash.size(); ++i)
    hash[i] += v[i];
}

std::string sha1(std::string_view text) {
  std::string padded(text);
  padded += '\x80';
  padded.resize((padded.size() + 8 + 63) / 64 * 64 - 8);
  for (int shift = 56; shift >= 0; shift -= 8)
    padded += static_cast<char>(((text.size() * 8) >> shift) & 0xff);
  Sha1 hash{0x67452301u, 0xEFCDAB89u, 0x98BADCFEu, 0x10325476u, 0xC3D2E1F0u};
  for (std::size_t at = 0; at < padded.size(); at += 64)
    add_block(hash, std::string_view(padded).substr(at, 64));
  std::string bytes;
  for (const std::uint32_t word : hash)
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes += static_cast<char>((word >> shift) & 0xff);
  return bytes;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = (group << 8) | (i < have ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= have ? digits[(group >> (18 - 6 * i)) & 63] : '=';
  }
  return text;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// An IPv4 address and how many of its bits count: "10.0.0.0/8".
struct Addresses {
  std::uint32_t address = 0;
  int bits = 32;
  [[nodiscard]] std::uint32_t masked(std::uint32_t other) const {
    return bits == 0 ? 0 : other & (0xffffffffu << (32 - bits));
  }
};

std::optional<std::uint32_t> address_of(std::string_view text) {
  std::uint32_t address = 0;
  for (int part = 0; part < 4; ++part) {
    const std::size_t dot = text.find('.');
    if ((dot == std::string_view::npos) != (part == 3)) return std::nullopt;
    const std::optional<int> byte = number(text.substr(0, dot));
    if (!byte || *byte < 0 || *byte > 255) return std::nullopt;
    address = (address << 8) | static_cast<std::uint32_t>(*byte);
    text.remove_prefix(part == 3 ? text.size() : dot + 1);
  }
  return address;
}

std::optional<Addresses> addresses_of(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::optional<std::uint32_t> address = address_of(text.substr(0, slash));
  if (!address) return std::nullopt;
  if (slash == std::string_view::npos) return Addresses{*address, 32};
  const std::optional<int> bits = number(text.substr(slash + 1));
  if (!bits || *bits < 0 || *bits > 32) return std::nullopt;
  return Addresses{*address, *bits};
}

/// As Java's split(":") sees it: two parts, and what is empty at the end does not count.
bool is_user_and_digest(std::string_view id) {
  while (id.ends_with(':'))
    id.remove_suffix(1);
  return std::count(id.begin(), id.end(), ':') == 1;
}

bool is_known(const Id& id) {
  if (id.scheme == "digest") return is_user_and_digest(id.id);
  return id.scheme == "ip" && addresses_of(id.id).has_value();
}

bool is(const Id& wanted, const Id& have) {
  if (wanted.scheme != have.scheme) return false;
  if (wanted.scheme == "digest") return wanted.id == have.id;
  if (wanted.scheme != "ip") return false;
  const std::optional<Addresses> addresses = addresses_of(wanted.id);
  const std::optional<std::uint32_t> address = address_of(have.id);
  return addresses && address && addresses->masked(*address) == addresses->masked(addresses->address);
}

bool is_anyone(const Id& id) { return id.scheme == "world" && id.id == "anyone"; }

/// The caller's own identities, with the permissions of an "auth" entry. False: there is none.
bool add_own(std::vector<Acl>& all, std::int32_t perms, const std::vector<Id>& identities) {
  bool found = false;
  for (const Id& id : identities) {
    if (id.scheme != "digest") continue;  // An address proves nothing, and "super" is nobody.
    all.push_back({perms, id});
    found = true;
  }
  return found;
}

/// Where a Java set of 16 buckets has it.
std::uint32_t place_of(const Id& id) {
  const std::uint32_t hash = 37 * (37 * 17 + java_hash(id.scheme)) + java_hash(id.id);
  return (hash ^ (hash >> 16)) & 15;
}

}  // namespace

const std::vector<Acl>& SharedAcl::operator*() const {
  static const std::vector<Acl> none;
  return acl_ ? *acl_ : none;
}

std::string digest_of(std::string_view user_and_password) {
  std::string digest(user_and_password.substr(0, user_and_password.find(':')));
  digest += ':';
  return digest + base64(sha1(user_and_password));
}

bool permits(const std::vector<Acl>& acl, std::int32_t wanted, const std::vector<Id>& identities) {
  if (acl.empty()) return true;
  const auto super = [](const Id& id) { return id.scheme == "super"; };
  if (std::any_of(identities.begin(), identities.end(), super)) return true;
  return std::any_of(acl.begin(), acl.end(), [&](const Acl& entry) {
    if ((entry.perms & wanted) == 0) return false;
    const auto matches = [&](const Id& id) { return is(entry.id, id); };
    return is_anyone(entry.id) || std::any_of(identities.begin(), identities.end(), matches);
  });
}

std::optional<std::vector<Acl>> expanded(const std::vector<Acl>& acl, const std::vector<Id>& identities) {
  if (acl.empty()) return std::nullopt;
  std::vector<Acl> all;
  for (auto entry = acl.begin(); entry != acl.end(); ++entry) {
    if (std::find(acl.begin(), entry, *entry) != entry) continue;
    if (entry->id.scheme == "auth") {
      if (!add_own(all, entry->perms, identities)) return std::nullopt;
    } else if (is_anyone(entry->id) || is_known(entry->id)) {
      all.push_back(*entry);
    } else {
      return std::nullopt;
    }
  }
  return all;
}

std::optional<std::vector<Id>> authenticate(const Request& request, std::string_view ip, std::string_view super) {
  if (request.scheme == "ip") return std::vector<Id>{{"ip", std::string(ip)}};
  if (request.scheme != "digest") return std::nullopt;
  std::vector<Id> identities;
  const std::string digest = digest_of(request.credential);
  if (!super.empty() && digest == super) identities.push_back({"super", ""});
  identities.push_back({"digest", digest});
  return identities;
}

void add_identities(std::vector<Id>& identities, const std::vector<Id>& more) {
  for (const Id& id : more)
    if (std::find(identities.begin(), identities.end(), id) == identities.end()) identities.push_back(id);
  std::stable_sort(identities.begin(), identities.end(),
                   [](const Id& left, const Id& right) { return place_of(left) < place_of(right); });
}

}  // namespace zktesting::simulated
