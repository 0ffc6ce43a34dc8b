#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <zkclient/types.hpp>

/// How `zkr` writes things in JSON. docs/zkr.md promises these forms to scripts: members may be added, none is renamed or
/// removed.
namespace zkr {

namespace json = boost::json;

/// Without a line break at its end.
std::string json_text(const json::value& value);
/// Errors: Failure (exit_format); `what` says what was read.
json::value parse_json(std::string_view text, const std::string& what);

/// "0x1000a2b3c0001", as servers print it.
std::string session_text(std::int64_t session);
/// "2026-11-29T08:10:11.123Z"
std::string utc_text(std::chrono::system_clock::time_point time);

json::object json_of(const zkclient::Stat& stat);

/// Adds "data" if the bytes are UTF-8, else "data_base64". Null data is "data": null.
void add_data(json::object& object, const zkclient::DataView& data);
/// What add_data() has written. `where` says for an error in which line.
std::optional<std::string> take_data(const json::object& object, const std::string& where);

/// "cdrwa": create, delete, read, write, admin, as servers' shells write it.
std::string permissions_text(std::int32_t permissions);
std::optional<std::int32_t> parse_permissions(std::string_view text);
json::array json_of(const zkclient::AclList& acl);

/// Whether it is a session's. (Servers do not tell containers, and nodes with a time to live, from others.)
bool is_ephemeral(const zkclient::Stat& stat);

}  // namespace zkr
