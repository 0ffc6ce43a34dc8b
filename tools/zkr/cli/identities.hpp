#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>

namespace zkr {

/// What a client proves to the servers.
struct Identity {
  std::string scheme;
  std::string credentials;  // A secret.

  /// "digest:user", as servers name it; without what is secret.
  std::string shown() const;
};

/// Those of all of them.
std::vector<std::string> shown(const std::vector<Identity>& identities);

/// Reads lines "digest user:password"; empty ones, and those that begin with "#", mean nothing. Nobody but its owner may
/// be able to read the file. Errors: Failure (exit_configuration), which shows no secret.
std::vector<Identity> read_identities(const std::filesystem::path& file);
/// The same from a descriptor, up to its end. It is closed, unless it is one of the three that all programs have: a
/// command that is run is not to inherit it.
std::vector<Identity> read_identities(int descriptor);

/// The content of a file with a secret, without the line break at its end. Errors: as read_identities().
std::string read_secret(const std::filesystem::path& file);

/// Of the first that is there: --auth-fd, $ZKR_AUTH_FILE, the file "zkr-auth" in $CREDENTIALS_DIRECTORY, the profile's.
std::vector<Identity> find_identities(const std::optional<int>& auth_fd,
                                      const std::optional<std::filesystem::path>& auth_file);

/// Proves them, now and in each session to come. Blocks until the server has accepted them. Errors: Error (auth_failed).
void prove(const zkclient::Client& client, const std::vector<Identity>& identities,
           const zkclient::CallOptions& call = {});

}  // namespace zkr
