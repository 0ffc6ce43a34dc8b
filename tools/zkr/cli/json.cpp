#include "tools/zkr/cli/json.hpp"

#include <array>
#include <ctime>

#include <fmt/format.h>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "tools/zkr/cli/base64.hpp"
#include "tools/zkr/cli/failure.hpp"

namespace zkr {
namespace {

using zkclient::Acl;

constexpr std::array<std::pair<char, std::int32_t>, 5> permission_letters{
    {{'c', Acl::create}, {'d', Acl::remove}, {'r', Acl::read}, {'w', Acl::write}, {'a', Acl::admin}}};

// The size of the sequence that begins with this byte; 0: none does.
std::size_t sequence_size(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  return first >= 0xF0 && first <= 0xF4 ? 4 : 0;
}

bool is_sequence(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  for (const char next : bytes.substr(1)) {
    if ((static_cast<unsigned char>(next) & 0xC0U) != 0x80) return false;
  }
  if (bytes.size() < 3) return true;
  const auto second = static_cast<unsigned char>(bytes[1]);
  const bool too_long = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  return !too_long && !surrogate && !(first == 0xF4 && second >= 0x90);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = sequence_size(static_cast<unsigned char>(text.front()));
    if (size == 0 || size > text.size() || !is_sequence(text.substr(0, size))) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace

std::string json_text(const json::value& value) { return json::serialize(value); }

json::value parse_json(std::string_view text, const std::string& what) {
  json::error_code error;
  json::value value = json::parse({text.data(), text.size()}, error);
  if (error) throw Failure(exit_format, what + " is no JSON: " + error.message());
  return value;
}

std::string session_text(std::int64_t session) { return fmt::format("{:#x}", static_cast<std::uint64_t>(session)); }

std::string utc_text(std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto since_epoch = duration_cast<milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = static_cast<std::time_t>(since_epoch / 1000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", text, since_epoch % 1000);
}

json::object json_of(const zkclient::Stat& stat) {
  const auto time = [](std::int64_t ms) {
    return utc_text(std::chrono::system_clock::time_point(std::chrono::milliseconds(ms)));
  };
  json::object object;
  object["czxid"] = stat.czxid;
  object["mzxid"] = stat.mzxid;
  object["pzxid"] = stat.pzxid;
  object["ctime"] = time(stat.ctime_ms);
  object["mtime"] = time(stat.mtime_ms);
  object["version"] = stat.version;
  object["children_version"] = stat.children_version;
  object["acl_version"] = stat.acl_version;
  object["data_length"] = stat.data_length;
  object["children_count"] = stat.children_count;
  object["session"] = is_ephemeral(stat) ? json::value(session_text(stat.ephemeral_owner)) : json::value(nullptr);
  return object;
}

void add_data(json::object& object, const zkclient::DataView& data) {
  if (!data) {
    object["data"] = nullptr;
  } else if (is_utf8(*data)) {
    object["data"] = json::string_view(data->data(), data->size());
  } else {
    object["data_base64"] = to_base64(*data);
  }
}

std::optional<std::string> take_data(const json::object& object, const std::string& where) {
  if (const json::value* text = object.if_contains("data")) {
    if (text->is_null()) return std::nullopt;
    if (text->is_string()) return std::string(text->get_string());
  }
  if (const json::value* coded = object.if_contains("data_base64"); coded != nullptr && coded->is_string()) {
    if (auto bytes = from_base64(coded->get_string())) return bytes;
  }
  throw Failure(exit_format, where + " has neither \"data\" nor \"data_base64\"");
}

std::string permissions_text(std::int32_t permissions) {
  std::string text;
  for (const auto& [letter, permission] : permission_letters) {
    if ((permissions & permission) != 0) text += letter;
  }
  return text;
}

std::optional<std::int32_t> parse_permissions(std::string_view text) {
  std::int32_t sum = 0;
  for (const char wanted : text) {
    std::int32_t found = 0;
    for (const auto& [letter, permission] : permission_letters) {
      if (letter == wanted) found = permission;
    }
    if (found == 0) return std::nullopt;
    sum |= found;
  }
  return text.empty() ? std::nullopt : std::optional(sum);
}

json::array json_of(const zkclient::AclList& acl) {
  json::array list;
  for (const Acl& entry : acl) {
    const std::string& scheme = entry.scheme;
    const std::string& id = entry.id;
    json::object object;
    object["scheme"] = scheme;
    object["id"] = id;
    object["permissions"] = permissions_text(entry.permissions);
    list.push_back(std::move(object));
  }
  return list;
}

bool is_ephemeral(const zkclient::Stat& stat) {
  constexpr std::uint64_t container = std::uint64_t{1} << 63U;
  constexpr std::uint64_t time_to_live = 0xFF;  // These two are how servers note it for themselves.
  const auto owner = static_cast<std::uint64_t>(stat.ephemeral_owner);
  return owner != 0 && owner != container && owner >> 56U != time_to_live;
}

}  // namespace zkr
