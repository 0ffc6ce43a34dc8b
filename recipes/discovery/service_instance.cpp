#include <zkrecipes/service_instance.hpp>

namespace zkrecipes {

namespace {

std::string lower_case(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char byte) { return static_cast<unsigned char>(byte) <= ' '; };  // As Java has it.
  while (!text.empty() && blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && blank(text.back()))
    text.remove_suffix(1);
  return text;
}

std::string uri_variable(const ServiceInstance& instance, std::string_view name) {
  const auto number = [](const std::optional<std::int32_t>& port) { return port ? std::to_string(*port) : ""; };
  if (name == "scheme") return instance.ssl_port ? "https" : "http";
  if (name == "address") return instance.address;
  if (name == "port") return number(instance.port ? instance.port : instance.ssl_port);
  if (name == "ssl-port") return number(instance.ssl_port);
  if (name == "name") return instance.name;
  if (name == "id") return instance.id;
  if (name == "registration-time-utc") return std::to_string(instance.registered.time_since_epoch().count());
  if (name == "service-type") return lower_case(to_string(instance.type));
  if (name == "[") return "{";
  if (name == "]") return "}";
  return "";
}

}  // namespace

UriSpec UriSpec::parse(std::string_view pattern) {
  UriSpec uri;
  const auto add = [&uri](std::string_view text, bool variable) {
    if (!text.empty()) uri.parts.push_back({std::string(text), variable});
  };
  while (!pattern.empty()) {
    const std::size_t close = pattern.find('}');
    // The innermost pair counts, so that an open brace alone is plain text.
    const std::size_t open = close == std::string_view::npos ? close : pattern.rfind('{', close);
    if (open == std::string_view::npos) {
      // Text up to a closing brace without a partner, or to the end.
      const std::size_t end = close == std::string_view::npos ? pattern.size() : close + 1;
      if (!uri.parts.empty() && !uri.parts.back().variable) {
        uri.parts.back().value += pattern.substr(0, end);
      } else {
        add(pattern.substr(0, end), false);
      }
      pattern.remove_prefix(end);
      continue;
    }
    const std::string_view text = pattern.substr(0, open);
    if (!uri.parts.empty() && !uri.parts.back().variable) {
      uri.parts.back().value += text;
    } else {
      add(text, false);
    }
    add(trimmed(pattern.substr(open + 1, close - open - 1)), true);
    pattern.remove_prefix(close + 1);
  }
  return uri;
}

std::string ServiceInstance::uri() const {
  std::string text;
  if (!uri_spec) return text;
  for (const UriPart& part : uri_spec->parts)
    text += part.variable ? uri_variable(*this, part.value) : part.value;
  return text;
}

}  // namespace zkrecipes
