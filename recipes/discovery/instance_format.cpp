#include "recipes/discovery/instance_format.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace zkrecipes {

const char* to_string(ServiceType type) noexcept {
  switch (type) {
    case ServiceType::dynamic: return "DYNAMIC";
    case ServiceType::dynamic_sequential: return "DYNAMIC_SEQUENTIAL";
    case ServiceType::fixed: return "STATIC";
    case ServiceType::permanent: return "PERMANENT";
  }
  return "UNKNOWN";
}

namespace detail {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array service_types = {ServiceType::dynamic, ServiceType::dynamic_sequential, ServiceType::fixed,
                                      ServiceType::permanent};
constexpr std::array<std::string_view, 10> known_keys = {
    "name", "id", "address", "port", "sslPort", "payload", "registrationTimeUTC", "serviceType", "uriSpec", "enabled",
};

/// What is wrong, found while reading or writing. Never leaves this file.
struct Defect {
  std::string text;
  bool of_size = false;
};

bool is_known(std::string_view key) {
  for (const std::string_view known : known_keys) {
    if (key == known) return true;
  }
  return false;
}

// The library's own message would quote foreign bytes.
Json parse_bounded(std::string_view text, std::string_view what) {
  if (text.size() > max_instance_bytes) throw Defect{fmt::format("{} has {} bytes", what, text.size()), true};
  // Thrown through the parser, so that the rest costs nothing.
  int parts = 0;
  const auto look = [&](int depth, Json::parse_event_t event, Json&) {
    const bool ends = event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end;
    if (!ends && ++parts > max_instance_parts) {
      throw Defect{fmt::format("{} has more than {} keys and values", what, max_instance_parts), true};
    }
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= max_instance_depth) {
      throw Defect{fmt::format("{} is nested deeper than {}", what, max_instance_depth)};
    }
    return true;
  };
  try {
    return Json::parse(text, look);
  } catch (const Json::parse_error& error) {
    throw Defect{fmt::format("{} is no JSON text, from byte {} on", what, error.byte)};
  } catch (const Json::exception&) {  // A number that no double can hold.
    throw Defect{fmt::format("{} has a value that is out of range", what)};
  }
}

std::string dumped(const Json& json, std::string_view what) {
  try {
    return json.dump();
  } catch (const Json::exception&) {
    throw Defect{fmt::format("{} is not UTF-8", what)};
  }
}

// --- Reading, as lenient as Jackson is ---

const Json* find(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_at(const Json& object, const char* key) {
  const Json* value = find(object, key);
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  if (value->is_structured()) throw Defect{fmt::format("\"{}\" is no text", key)};
  return value->dump();  // A number or a truth value, as text.
}

// A decimal number in a text counts as one; what follows the point is cut off.
std::optional<std::int64_t> number_at(const Json& object, const char* key, std::int64_t least, std::int64_t most) {
  const Json* value = find(object, key);
  if (value == nullptr) return std::nullopt;
  const auto refuse = [key] { throw Defect{fmt::format("\"{}\" is no number of its range", key)}; };
  std::int64_t number = 0;
  if (value->is_number_unsigned()) {
    const auto wide = value->get<std::uint64_t>();
    if (wide > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) refuse();
    number = static_cast<std::int64_t>(wide);
  } else if (value->is_number_integer()) {
    number = value->get<std::int64_t>();
  } else if (value->is_number_float()) {
    const double real = std::trunc(value->get<double>());
    if (!(real >= static_cast<double>(least) && real <= static_cast<double>(most)) || std::abs(real) > 9e18) refuse();
    number = static_cast<std::int64_t>(real);
  } else if (value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || rest != end) refuse();
  } else {
    refuse();
  }
  if (number < least || number > most) refuse();
  return number;
}

std::optional<std::int32_t> port_at(const Json& object, const char* key) {
  const auto number =
      number_at(object, key, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max());
  if (!number) return std::nullopt;
  return static_cast<std::int32_t>(*number);
}

ServiceType type_of(const Json& object) {
  const std::string name = text_at(object, "serviceType");
  if (name.empty()) return ServiceType::dynamic;
  for (const ServiceType type : service_types) {
    if (name == to_string(type)) return type;
  }
  throw Defect{"\"serviceType\" is none that is known"};
}

bool truth_at(const Json& object, const char* key, bool absent) {
  const auto found = object.find(key);
  if (found == object.end()) return absent;
  if (found->is_null()) return false;  // A Java boolean without a value.
  if (!found->is_boolean()) throw Defect{fmt::format("\"{}\" is neither true nor false", key)};
  return found->get<bool>();
}

std::optional<UriSpec> uri_spec_of(const Json& object) {
  const Json* spec = find(object, "uriSpec");
  if (spec == nullptr) return std::nullopt;
  UriSpec uri;
  if (!spec->is_object()) throw Defect{"\"uriSpec\" is no object"};
  const Json* parts = find(*spec, "parts");
  if (parts == nullptr) return uri;
  if (!parts->is_array()) throw Defect{"the parts of \"uriSpec\" are no array"};
  for (const Json& part : *parts) {
    if (!part.is_object()) throw Defect{"a part of \"uriSpec\" is no object"};
    uri.parts.push_back({text_at(part, "value"), truth_at(part, "variable", false)});
  }
  return uri;
}

ServiceInstance instance_of(const Json& object) {
  if (!object.is_object()) throw Defect{"it is no JSON object"};
  ServiceInstance instance;
  instance.name = text_at(object, "name");
  instance.id = text_at(object, "id");
  if (instance.id.empty()) throw Defect{"it has no \"id\""};
  instance.address = text_at(object, "address");
  instance.port = port_at(object, "port");
  instance.ssl_port = port_at(object, "sslPort");
  if (const Json* payload = find(object, "payload")) instance.payload = payload->dump();
  const auto registered = number_at(object, "registrationTimeUTC", std::numeric_limits<std::int64_t>::min(),
                                    std::numeric_limits<std::int64_t>::max());
  instance.registered = ServiceInstance::Milliseconds(std::chrono::milliseconds(registered.value_or(0)));
  instance.type = type_of(object);
  instance.uri_spec = uri_spec_of(object);
  instance.enabled = truth_at(object, "enabled", true);
  Json unknown = Json::object();
  for (const auto& [key, value] : object.items()) {
    if (!is_known(key)) unknown[key] = value;
  }
  if (!unknown.empty()) instance.unknown = unknown.dump();
  return instance;
}

// --- Writing ---

Json port_or_null(const std::optional<std::int32_t>& port) { return port ? Json(*port) : Json(nullptr); }

Json json_of(const UriSpec& uri) {
  Json parts = Json::array();
  for (const UriPart& part : uri.parts) {
    Json written = Json::object();
    written["value"] = part.value;
    written["variable"] = part.variable;
    parts.push_back(std::move(written));
  }
  Json spec = Json::object();
  spec["parts"] = std::move(parts);
  return spec;
}

Json json_of(const ServiceInstance& instance) {
  Json object = Json::object();
  object["name"] = instance.name;
  object["id"] = instance.id;
  object["address"] = instance.address.empty() ? Json(nullptr) : Json(instance.address);
  object["port"] = port_or_null(instance.port);
  object["sslPort"] = port_or_null(instance.ssl_port);
  object["payload"] = instance.payload.empty() ? Json(nullptr) : parse_bounded(instance.payload, "the payload");
  object["registrationTimeUTC"] = static_cast<std::int64_t>(instance.registered.time_since_epoch().count());
  object["serviceType"] = to_string(instance.type);
  object["uriSpec"] = instance.uri_spec ? json_of(*instance.uri_spec) : Json(nullptr);
  // Older readers refuse what they do not know, so it is written only where they would be wrong without it.
  if (!instance.enabled) object["enabled"] = false;
  if (instance.unknown.empty()) return object;
  const Json unknown = parse_bounded(instance.unknown, "the text of unknown keys");
  if (!unknown.is_object()) throw Defect{"the text of unknown keys is no JSON object"};
  for (const auto& [key, value] : unknown.items()) {
    if (is_known(key)) throw Defect{"an unknown key has the name of one that is known"};
    object[key] = value;
  }
  return object;
}

}  // namespace

ReadInstance read_instance(std::string_view bytes) {
  ReadInstance read;
  try {
    if (bytes.empty()) throw Defect{"it is empty"};
    read.instance = instance_of(parse_bounded(bytes, "it"));
  } catch (const Defect& defect) {
    read.defect = defect.text;
  }
  return read;
}

WrittenInstance write_instance(const ServiceInstance& instance) {
  WrittenInstance written;
  try {
    std::string bytes = dumped(json_of(instance), "a text of the instance");
    // What was within the limits on its own is one of several parts here, and nested one deeper.
    (void)parse_bounded(bytes, "the instance");
    written.bytes = std::move(bytes);
  } catch (const Defect& defect) {
    written.defect = defect.text;
    written.too_large = defect.of_size;
  }
  return written;
}

}  // namespace detail
}  // namespace zkrecipes
