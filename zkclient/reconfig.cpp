#include <zkclient/reconfig.hpp>

#include <charconv>

namespace zkclient {

EnsembleConfig parse_ensemble_config(std::string_view text) {
  EnsembleConfig config;
  config.text = text;
  constexpr std::string_view version = "version=";
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with("server.")) {
      config.members.emplace_back(line);
    } else if (line.starts_with(version)) {  // Hexadecimal, without a prefix.
      const std::string_view digits = line.substr(version.size());
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
      if (error == std::errc() && end == digits.data() + digits.size() && value >= 0) config.version = value;
    }
  }
  return config;
}

}  // namespace zkclient
