#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>

namespace zkr {

/// How to reach an ensemble, as a file says it. Durations as in options, paths of files relative to the file's folder.
///
///   profile = "prod"                       the one that is used when none is named; else that called "default"
///   [profiles.prod]
///   server = "zk1:2181,zk2:2181/prefix"
///   prefix = "/team"
///   session_timeout = "30s"                also connect_timeout, server_tick
///   auth_file = "prod.auth"                see identities.hpp
///   [profiles.prod.tls]
///   ca_file = "ca.pem"                     also certificate_file, key_file, key_passphrase_file
///   [profiles.prod.sasl]
///   mechanisms = "DIGEST-MD5"              also user, password_file, realm, service, host
struct Profile {
  std::string server = {};
  std::string prefix = {};
  std::optional<std::chrono::nanoseconds> session_timeout = {};
  std::optional<std::chrono::nanoseconds> connect_timeout = {};
  std::optional<std::chrono::nanoseconds> server_tick = {};
  std::optional<std::filesystem::path> auth_file = {};
  std::optional<zkclient::TlsOptions> tls = {};
  std::optional<zkclient::SaslOptions> sasl = {};
};

/// $XDG_CONFIG_HOME/zkr/config.toml, or ~/.config/zkr/config.toml, then /etc/zkrecipes/zkr.toml.
std::vector<std::filesystem::path> profile_files();

/// From the first of the files that has it; files that are not there are passed over. `name` "": see Profile; an empty
/// one if no file names any. Errors: Failure (exit_configuration): no file has that profile; a file is not TOML, or has
/// something that is not known, which the text says with its line.
Profile load_profile(const std::string& name, const std::vector<std::filesystem::path>& files);

}  // namespace zkr
