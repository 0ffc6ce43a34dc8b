#include "tools/zkr/cli/identities.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/run/descriptor.hpp"

namespace zkr {
namespace {

[[noreturn]] void refuse(const std::string& source, const std::string& why) {
  throw Failure(exit_configuration, source + ": " + why);
}

std::string read_all(int file, const std::string& source) {
  constexpr std::size_t limit = 1 << 20;
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t size = ::read(file, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) refuse(source, std::strerror(errno));
    if (size == 0) return text;
    text.append(buffer, static_cast<std::size_t>(size));
    if (text.size() > limit) refuse(source, "this is too long for credentials");
  }
}

std::string read_private(const std::filesystem::path& path) {
  const std::string source = path.string();
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) refuse(source, std::strerror(errno));
  struct stat what {};
  if (::fstat(file.get(), &what) != 0) refuse(source, std::strerror(errno));
  if (!S_ISREG(what.st_mode)) refuse(source, "it is no file");
  if ((what.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    refuse(source, fmt::format("others may read or change it (mode {:04o}): chmod 600", what.st_mode & 07777U));
  }
  return read_all(file.get(), source);
}

std::vector<Identity> parse(std::string_view text, const std::string& source) {
  std::vector<Identity> identities;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::size_t blank = line.find(' ');
    if (blank == 0 || blank == std::string_view::npos || blank + 1 == line.size()) {
      refuse(source, fmt::format("line {} is not \"scheme credentials\"", number));
    }
    identities.push_back({std::string(line.substr(0, blank)), std::string(line.substr(blank + 1))});
  }
  return identities;
}

}  // namespace

std::string Identity::shown() const {
  const std::size_t colon = credentials.find(':');
  return scheme == "digest" && colon != std::string::npos ? scheme + ":" + credentials.substr(0, colon) : scheme;
}

std::vector<std::string> shown(const std::vector<Identity>& identities) {
  std::vector<std::string> all;
  for (const Identity& identity : identities)
    all.push_back(identity.shown());
  return all;
}

std::vector<Identity> read_identities(const std::filesystem::path& file) {
  return parse(read_private(file), file.string());
}

std::vector<Identity> read_identities(int descriptor) {
  const std::string source = fmt::format("--auth-fd {}", descriptor);
  const auto identities = parse(read_all(descriptor, source), source);
  if (descriptor > STDERR_FILENO) ::close(descriptor);
  return identities;
}

std::string read_secret(const std::filesystem::path& file) {
  std::string secret = read_private(file);
  if (secret.ends_with('\n')) secret.pop_back();
  return secret;
}

std::vector<Identity> find_identities(const std::optional<int>& auth_fd,
                                      const std::optional<std::filesystem::path>& auth_file) {
  if (auth_fd) return read_identities(*auth_fd);
  if (const char* file = std::getenv("ZKR_AUTH_FILE"); file != nullptr && *file != '\0') {
    return read_identities(std::filesystem::path(file));
  }
  if (const char* folder = std::getenv("CREDENTIALS_DIRECTORY"); folder != nullptr && *folder != '\0') {
    const auto file = std::filesystem::path(folder) / "zkr-auth";
    std::error_code missing;
    if (std::filesystem::exists(file, missing)) return read_identities(file);
  }
  if (auth_file) return read_identities(*auth_file);
  return {};
}

void prove(const zkclient::Client& client, const std::vector<Identity>& identities, const zkclient::CallOptions& call) {
  for (const Identity& identity : identities)
    client.add_auth(identity.scheme, identity.credentials, call);
}

}  // namespace zkr
