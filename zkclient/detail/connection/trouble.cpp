#include "zkclient/detail/connection/trouble.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

namespace zkclient::detail {
namespace {

// The text between two texts; empty if they are not there.
std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
  const std::size_t begin = line.find(before);
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin + before.size());
  const std::size_t end = line.find(after);
  return end == std::string_view::npos ? std::string_view() : line.substr(0, end);
}

std::string reason_of(int error, std::string_view message) {
  if (message.find("timed out") != std::string_view::npos) return "does not answer";
  switch (error) {
    case ECONNREFUSED: return "refused the connection";
    case EACCES:
    case EPERM:
      return fmt::format("cannot be reached: a rule of this host or its network forbids it ({})", std::strerror(error));
    case EADDRNOTAVAIL:
      return fmt::format("cannot be reached: this host has no address or no port left for it ({})",
                         std::strerror(error));
    case EAFNOSUPPORT:
      return fmt::format("was not tried: this host does not have addresses of that family ({})", std::strerror(error));
    case EHOSTUNREACH:
    case ENETUNREACH: return "cannot be reached: there is no route to it";
    case ETIMEDOUT: return "does not answer";
    case EHOSTDOWN:  // The C client's word for a server that ends the connection.
    case ECONNRESET:
    case EPIPE: return "closed the connection";
    case ESTALE: return "said that the session has expired";  // The C client's word for that.
    case EMFILE:
    case ENFILE: return "was not tried: no descriptor is left (too many open files)";
    default: return fmt::format("cannot be reached: {}", std::strerror(error));
  }
}

void append(std::string& text, const std::string& sentence) { text += text.empty() ? sentence : "; " + sentence; }

}  // namespace

// "...: Socket 127.0.0.1:2181 zk retcode=-4, errno=111(Connection refused): server refused to accept the client"
std::optional<ServerTrouble> trouble_in(std::string_view line) {
  const std::string_view address = between(line, ": Socket ", " ");
  const std::string_view code = between(line, " errno=", "(");
  int error = 0;
  const auto [end, failure] = std::from_chars(code.data(), code.data() + code.size(), error);
  if (address.empty() || code.empty() || failure != std::errc() || end != code.data() + code.size())
    return std::nullopt;
  const std::size_t message = line.rfind("): ");
  return ServerTrouble{std::string(address),
                       reason_of(error, message == std::string_view::npos ? std::string_view() : line.substr(message))};
}

// int32 length of the rest (36, or 37 with a flag for read-only servers), int32 version 0, int32 timeout, int64
// session, int32 length of the password (16).
const char* handshake_defect(std::string_view bytes) noexcept {
  constexpr const char* foreign = "does not answer as a ZooKeeper server does";
  const auto number_at = [&](std::size_t place) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
      value = value << 8U | static_cast<unsigned char>(bytes[place + i]);
    return static_cast<std::int32_t>(value);
  };
  constexpr std::int32_t longest_timeout = 0x7fff'ffff / 16;  // More than a day.
  if (bytes.size() < 4) return nullptr;
  if (number_at(0) != 36 && number_at(0) != 37) return foreign;
  if (bytes.size() >= 12 && (number_at(8) < 0 || number_at(8) > longest_timeout)) return foreign;
  if (bytes.size() >= 24 && number_at(20) != 16) return foreign;
  return nullptr;
}

void ServerTroubles::resolved(const Resolution& resolution) {
  resolution_ = resolution;
  std::erase_if(reasons_, [this](const auto& known) { return !resolution_.names.contains(known.first); });
}

void ServerTroubles::clear() {
  waits_ = false;
  own_.clear();
  reasons_.clear();
}

void ServerTroubles::note(ServerTrouble trouble) {
  own_.clear();
  if (trouble.address.empty()) {
    own_ = std::move(trouble.reason);
    return;
  }
  reasons_.insert_or_assign(std::move(trouble.address), std::move(trouble.reason));
}

std::string ServerTroubles::text(const std::vector<Host>& hosts) const {
  std::string text = own_;
  const auto add = [&text](const std::string& sentence) { append(text, sentence); };
  for (const Host& host : hosts) {
    const std::string name = to_string(host);
    if (const auto unknown = resolution_.unknown.find(name); unknown != resolution_.unknown.end()) {
      add(fmt::format("{} {}", name, unknown->second));
    }
    for (const auto& [address, reason] : reasons_) {
      const auto owner = resolution_.names.find(address);
      if (owner == resolution_.names.end() || owner->second != name) continue;
      add(address == name ? fmt::format("{} {}", name, reason) : fmt::format("{} ({}) {}", name, address, reason));
    }
  }
  if (!text.empty()) return text;
  for (const auto& [address, reason] : reasons_)  // Of servers that have no name that the user gave.
    add(fmt::format("{} {}", address, reason));
  return text;
}

std::string ServerTroubles::silence(const std::vector<Host>& hosts) const {
  if (!waits_) return {};
  std::string text;
  const bool found = !resolution_.addresses.empty();
  for (const Host& host : hosts)
    append(text, to_string(host) + (found ? " has not answered yet" : " has a name that is still being looked up"));
  return text;
}

}  // namespace zkclient::detail
