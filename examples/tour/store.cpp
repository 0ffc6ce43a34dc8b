#include "store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>
#include <system_error>

#include "unique_fd.hpp"

namespace tour {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file) {
  throw std::system_error(errno, std::generic_category(), file.string());
}

// Opened anew for each use: flock excludes open files from each other, not processes or threads.
UniqueFd open_locked(const std::filesystem::path& file, int lock) {
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
  if (fd.get() < 0) {
    fail(file);
  }
  while (::flock(fd.get(), lock) != 0) {
    if (errno != EINTR) {
      fail(file);
    }
  }
  return fd;
}

std::vector<Entry> read_entries(int fd, const std::filesystem::path& file) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0) {
      fail(file);
    }
    if (count == 0) {
      break;
    }
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  std::vector<Entry> entries;
  std::istringstream stream(text);
  for (Entry entry; stream >> entry.token >> entry.worker >> entry.number;) {
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace

void Store::create() {
  const UniqueFd fd(::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0) {
    fail(file_);
  }
}

std::optional<std::int64_t> Store::append(const Entry& entry) {
  const auto fd = open_locked(file_, LOCK_EX);
  std::int64_t highest = 0;
  for (const auto& written : read_entries(fd.get(), file_)) {
    highest = std::max(highest, written.token);
  }
  if (entry.token < highest) {
    return highest;
  }
  const auto line = fmt::format("{} {} {}\n", entry.token, entry.worker, entry.number);
  if (::write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    fail(file_);
  }
  return std::nullopt;
}

std::vector<Entry> Store::entries() const {
  const auto fd = open_locked(file_, LOCK_SH);
  return read_entries(fd.get(), file_);
}

}  // namespace tour
