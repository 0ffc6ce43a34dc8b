#include "tools/zkr/cli/profile.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/identities.hpp"

namespace zkr {
namespace {

namespace fs = std::filesystem;

/// A table of a file. What is not asked for is not known.
class Section {
 public:
  Section(const toml::table& table, fs::path file) : table_(table), file_(std::move(file)) {}

  std::optional<std::string> text(std::string_view name) {
    const toml::node* node = find(name);
    if (node == nullptr) return std::nullopt;
    const auto value = node->value_exact<std::string>();
    if (!value) fail(*node, fmt::format("{} is no text", name));
    return value;
  }
  std::string text_or_empty(std::string_view name) { return text(name).value_or(""); }

  std::optional<std::chrono::nanoseconds> duration(std::string_view name) {
    const auto value = text(name);
    if (!value) return std::nullopt;
    const auto parsed = parse_duration(*value);
    if (!parsed) fail(*table_.get(name), fmt::format("{} is no duration: 500ms, 30s, 5m, 2h", name));
    return parsed;
  }

  /// A file, relative to the folder of this one; "~/" is the user's folder.
  std::optional<fs::path> path(std::string_view name) {
    const auto value = text(name);
    if (!value) return std::nullopt;
    const char* home = std::getenv("HOME");
    if (value->starts_with("~/") && home != nullptr) return fs::path(home) / value->substr(2);
    return file_.parent_path() / *value;
  }
  std::string required_path(std::string_view name) {
    const auto value = path(name);
    if (!value) throw Failure(exit_configuration, fmt::format("{}: {} is missing", place(table_), name));
    return value->string();
  }

  std::optional<Section> section(std::string_view name) {
    const toml::node* node = find(name);
    if (node == nullptr) return std::nullopt;
    if (!node->is_table()) fail(*node, fmt::format("{} is no table", name));
    return Section(*node->as_table(), file_);
  }

  /// Errors: Failure, if it has something that nobody has asked for.
  void require_all_known() const {
    for (const auto& [key, node] : table_) {
      if (std::find(known_.begin(), known_.end(), key.str()) == known_.end()) {
        fail(node, fmt::format("{} is not known", key.str()));
      }
    }
  }

 private:
  const toml::node* find(std::string_view name) {
    known_.emplace_back(name);
    return table_.get(name);
  }
  std::string place(const toml::node& node) const {
    return fmt::format("{}:{}", file_.string(), node.source().begin.line);
  }
  [[noreturn]] void fail(const toml::node& node, const std::string& why) const {
    throw Failure(exit_configuration, place(node) + ": " + why);
  }

  const toml::table& table_;
  fs::path file_;
  std::vector<std::string> known_;
};

zkclient::TlsOptions read_tls(Section section) {
  zkclient::TlsOptions tls;
  tls.ca_file = section.required_path("ca_file");
  tls.certificate_file = section.required_path("certificate_file");
  tls.key_file = section.required_path("key_file");
  if (const auto file = section.path("key_passphrase_file")) tls.key_passphrase = read_secret(*file);
  section.require_all_known();
  return tls;
}

zkclient::SaslOptions read_sasl(Section section) {
  zkclient::SaslOptions sasl;
  sasl.mechanisms = section.text_or_empty("mechanisms");
  sasl.user = section.text_or_empty("user");
  if (const auto file = section.path("password_file")) sasl.password = read_secret(*file);
  sasl.realm = section.text_or_empty("realm");
  sasl.service = section.text("service").value_or(sasl.service);
  sasl.host = section.text("host").value_or(sasl.host);
  section.require_all_known();
  return sasl;
}

Profile read_profile(Section section) {
  Profile profile;
  profile.server = section.text_or_empty("server");
  profile.prefix = section.text_or_empty("prefix");
  profile.session_timeout = section.duration("session_timeout");
  profile.connect_timeout = section.duration("connect_timeout");
  profile.server_tick = section.duration("server_tick");
  profile.auth_file = section.path("auth_file");
  if (const auto tls = section.section("tls")) profile.tls = read_tls(*tls);
  if (const auto sasl = section.section("sasl")) profile.sasl = read_sasl(*sasl);
  section.require_all_known();
  return profile;
}

toml::table parse_file(const fs::path& file) {
  try {
    return toml::parse_file(file.string());
  } catch (const toml::parse_error& error) {
    throw Failure(exit_configuration,
                  fmt::format("{}:{}: {}", file.string(), error.source().begin.line, error.description()));
  }
}

std::string names_of(const std::vector<fs::path>& files) {
  std::vector<std::string> names;
  for (const fs::path& file : files)
    names.push_back(file.string());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The profile of that name, if the file has it. `name` becomes that of the file's choice, if it is empty.
std::optional<Profile> find_in(const fs::path& file, std::string& name) {
  const toml::table table = parse_file(file);
  Section all(table, file);
  const auto chosen = all.text("profile");
  if (name.empty() && chosen) name = *chosen;
  auto profiles = all.section("profiles");
  all.require_all_known();
  if (!profiles) return std::nullopt;
  const auto section = profiles->section(name.empty() ? "default" : name);
  return section ? std::optional(read_profile(*section)) : std::nullopt;
}

}  // namespace

std::vector<fs::path> profile_files() {
  std::vector<fs::path> files;
  const char* folder = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (folder != nullptr && *folder != '\0') {
    files.push_back(fs::path(folder) / "zkr" / "config.toml");
  } else if (home != nullptr && *home != '\0') {
    files.push_back(fs::path(home) / ".config" / "zkr" / "config.toml");
  }
  files.emplace_back("/etc/zkrecipes/zkr.toml");
  return files;
}

Profile load_profile(const std::string& name, const std::vector<fs::path>& files) {
  std::string wanted = name;
  for (const fs::path& file : files) {
    std::error_code missing;
    if (!fs::exists(file, missing)) continue;
    if (auto profile = find_in(file, wanted)) return *profile;
  }
  if (!wanted.empty()) throw Failure(exit_configuration, "no profile \"" + wanted + "\" in " + names_of(files));
  return {};
}

}  // namespace zkr
