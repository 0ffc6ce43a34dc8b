#include "recipes/configuration/configuration_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {
namespace {

std::error_code last_error() { return {errno, std::generic_category()}; }

class Descriptor {
 public:
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int operator*() const noexcept { return number_; }
  bool open() const noexcept { return number_ >= 0; }

 private:
  const int number_;
};

std::error_code write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ::ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return last_error();
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(descriptor) == 0 ? std::error_code() : last_error();
}

}  // namespace

std::optional<std::string> read_whole_file(const std::filesystem::path& file, std::error_code& error) {
  error.clear();
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.open()) {
    if (errno != ENOENT) error = last_error();
    return std::nullopt;
  }
  std::string text;
  std::array<char, 16384> part{};
  for (;;) {
    const ::ssize_t size = ::read(*opened, part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      error = last_error();
      return std::nullopt;
    }
    if (size == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(size));
  }
}

std::error_code replace_file(const std::filesystem::path& file, std::string_view text) {
  // Unique: several followers may keep one file.
  const std::string fresh = file.string() + "." + zkclient::detail::make_uuid();
  {
    const Descriptor made(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!made.open()) return last_error();
    if (const std::error_code error = write_all(*made, text)) {
      ::unlink(fresh.c_str());
      return error;
    }
  }
  if (std::rename(fresh.c_str(), file.c_str()) != 0) {
    const std::error_code error = last_error();
    ::unlink(fresh.c_str());
    return error;
  }
  // The name as well. A folder that cannot be synced has it all the same.
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.open()) (void)::fsync(*opened);
  return {};
}

}  // namespace zkrecipes::detail
