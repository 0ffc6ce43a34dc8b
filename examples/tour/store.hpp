#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tour {

struct Entry {
  std::int64_t token = 0;
  std::string worker;
  std::int64_t number = 0;

  friend bool operator==(const Entry&, const Entry&) = default;
};

/// The resource that the lock protects: a file of lines "token worker number".
///
/// It does what every resource behind a distributed lock should do: it remembers the highest fencing
/// token that it has seen and refuses a write that comes with a lower one. A holder that was paused past
/// its lease can do no harm then, whatever it believes. (The last line has the highest token, so the
/// file itself is the memory; flock makes look-and-append one step.)
class Store {
 public:
  explicit Store(std::filesystem::path file) : file_(std::move(file)) {}

  /// Makes the file. (Only the director does; no worker that is late brings it back.) Here and below,
  /// std::system_error if the file fails.
  void create();
  /// Appends; nothing is returned then. Or refuses, and returns the higher token it has seen.
  std::optional<std::int64_t> append(const Entry& entry);
  /// All entries, oldest first.
  [[nodiscard]] std::vector<Entry> entries() const;

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
};

}  // namespace tour
