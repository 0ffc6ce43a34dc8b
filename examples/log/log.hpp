#pragma once

// A log on a disk: one replica's copy of what clients have appended.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "connection.hpp"

namespace logs {

using Sum = std::uint64_t;

constexpr std::size_t most_records = 64;  // In one message.
constexpr Sum empty_sum = 0xcbf29ce484222325;

/// After a disk has failed nobody knows what is on it: the process ends, and the next start looks.
inline int check(ssize_t result) {
  if (result >= 0) return static_cast<int>(result);
  std::perror("the folder");
  std::_Exit(EXIT_FAILURE);
}

/// What a client has appended, with its number there, and the epoch in which the primary took it.
struct Entry {
  Entry(Sum before, std::string text) : body(std::move(text)), sum(before) {
    for (const char byte : body + '\n')  // FNV-1a: two logs with one sum at a position are equal before it.
      sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    Words(body) >> epoch >> key.first >> key.second;
  }
  /// As it is on the disk and on its way. Another length, or another sum: it throws.
  static Entry parse(Sum before, const std::string& record) {
    Sum sum = 0;
    std::size_t length = 0;
    Words words(record);
    words >> sum >> length;
    Entry entry(before, words.rest());
    if (entry.body.size() != length || entry.sum != sum) throw std::invalid_argument("a damaged record");
    return entry;
  }
  std::string record() const { return fmt::format("{} {} {}\n", sum, body.size(), body); }

  std::string body;  // "EPOCH CLIENT NUMBER TEXT"
  Sum sum;           // Of this one and all before it.
  std::int64_t epoch = 0;
  std::pair<std::string, std::uint64_t> key = {};
};

/// The entries of a folder, as records in the file `log`. The file `promise` has what this storage must not forget: the
/// highest epoch that it has accepted, its name, how many entries were on the disk, and their sum. It is renewed before
/// anybody hears of new entries, and before entries are cut off. At the start the log may have more than was promised:
/// what is whole is kept; what is torn was never confirmed, and goes. With less, or with another sum, entries are lost
/// that may have been confirmed: that is another storage, with a new name, and not in sync. Never restore old folders!
class Log {
 public:
  explicit Log(const std::filesystem::path& folder) : folder_(folder) {
    std::filesystem::create_directories(folder_);
    directory_ = check(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    file_ = check(::open((folder_ / "log").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    check(::flock(file_, LOCK_EX | LOCK_NB));  // No other process has it.
    read("log", [this](const std::string& record) { push(Entry::parse(sum_at(entries_.size()), record)); });
    bool kept = false;
    read("promise", [&](const std::string& record) {
      const Entry promised = Entry::parse(empty_sum, record);
      epoch_ = promised.epoch;
      storage_ = promised.key.first;
      kept = promised.key.second <= entries_.size() && promised.body == promise(promised.key.second);
    });
    if (!kept) storage_ = fmt::format("{:08x}{:08x}", std::random_device{}(), std::random_device{}());
    check(::fsync(file_));  // Of a process that was killed, the system may still have what it wrote.
    cut(entries_.size());
  }
  ~Log() {
    ::close(file_);
    ::close(directory_);
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Takes the folder from the disk, unless a process has it. The name goes first: whatever is left after a crash is
  /// another storage. Throws if another process has it, or the system refuses.
  static void erase(const std::filesystem::path& folder) {
    if (!std::filesystem::exists(folder)) return;
    const Log last_owner(folder);
    std::filesystem::remove(folder / "promise");
    check(::fsync(last_owner.directory_));
    std::filesystem::remove_all(folder);
  }

  const std::string& storage() const { return storage_; }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }
  std::string read(std::size_t position) const {
    const std::lock_guard lock(mutex_);
    return position < std::min(acknowledged_, entries_.size()) ? "ok " + entries_[position].body : "end";
  }
  void acknowledge(std::size_t count) {
    const std::lock_guard lock(mutex_);
    acknowledged_ = std::max(acknowledged_, count);
  }
  /// Lower epochs are refused from then on. False: so is this one.
  bool accept(std::int64_t epoch) {
    const std::lock_guard lock(mutex_);
    if (epoch > std::exchange(epoch_, std::max(epoch, epoch_))) keep_promise(entries_.size());
    return epoch == epoch_;
  }
  /// The primary's own entry, if it is not there yet; its position. Nothing: another epoch has begun.
  std::optional<std::size_t> append(std::int64_t epoch, const std::string& text) {
    const std::lock_guard lock(mutex_);
    const Entry entry(sum_at(entries_.size()), fmt::format("{} {}", epoch, text));
    if (!accept(epoch)) return std::nullopt;
    const bool begins = entries_.empty() || entries_.back().epoch != epoch;
    if (begins || !positions_.contains(entry.key)) write({entry});
    return positions_.at(entry.key);
  }
  std::string message(std::int64_t epoch, std::size_t from) const {
    const std::lock_guard lock(mutex_);
    if (epoch != epoch_ || from > entries_.size()) throw std::runtime_error("another epoch has begun");
    const std::size_t end = std::min(from + most_records, entries_.size());
    std::string text = fmt::format("replicate {} {} {} {} {}\n", end - from, epoch, acknowledged_, from, sum_at(from));
    for (; from < end; ++from)
      text += entries_[from].record();
    return text;
  }
  /// What a member does with it.
  std::string take(Words& words, const std::vector<std::string>& records) {
    const std::lock_guard lock(mutex_);
    std::int64_t epoch = 0;
    std::size_t acknowledged = 0, position = 0;
    Sum sum = 0;
    words >> epoch >> acknowledged >> position >> sum;
    if (!accept(epoch)) return fmt::format("refused {} {}", storage_, entries_.size());
    if (!agrees(position, sum)) return fmt::format("differs {} {}", storage_, entries_.size());
    std::vector<Entry> fresh;
    for (const std::string& record : records) {
      const Entry entry = Entry::parse(sum, record);
      sum = entry.sum;
      if (!agrees(++position, sum) || !fresh.empty()) fresh.push_back(entry);
    }
    if (!fresh.empty() && position - fresh.size() < entries_.size()) cut(position - fresh.size());
    write(fresh);
    acknowledge(std::min(position, acknowledged));
    return fmt::format("has {} {}", storage_, position);
  }

 private:
  Sum sum_at(std::size_t position) const { return position == 0 ? empty_sum : entries_[position - 1].sum; }
  bool agrees(std::size_t position, Sum sum) const { return position <= entries_.size() && sum_at(position) == sum; }
  void push(const Entry& entry) {
    positions_[entry.key] = entries_.size();
    entries_.push_back(entry);
  }
  /// Each line, up to the first that is torn or damaged.
  void read(const char* name, auto each) try {
    std::ifstream file(folder_ / name);
    for (std::string line; std::getline(file, line) && !file.eof();)
      each(line);
  } catch (const std::exception&) {
  }
  static void put(int file, const std::string& text) {
    check(::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? ::fsync(file) : -1);
  }
  void write(const std::vector<Entry>& entries) {
    std::string text;
    for (const Entry& entry : entries) {
      text += entry.record();
      push(entry);
    }
    if (entries.empty()) return;
    put(file_, text);
    keep_promise(entries_.size());
  }
  void cut(std::size_t position) {
    keep_promise(position);
    for (; entries_.size() > position; entries_.pop_back())
      positions_.erase(entries_.back().key);
    std::size_t size = 0;
    for (const Entry& entry : entries_)
      size += entry.record().size();
    check(::ftruncate(file_, static_cast<off_t>(size)));
    check(::fsync(file_));
  }
  std::string promise(std::size_t at) const { return fmt::format("{} {} {} {}", epoch_, storage_, at, sum_at(at)); }
  void keep_promise(std::size_t count) {
    const auto next = folder_ / "promise.new";
    const int file = check(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    put(file, Entry(empty_sum, promise(count)).record());
    ::close(file);
    check(::rename(next.c_str(), (folder_ / "promise").c_str()));
    check(::fsync(directory_));
  }

  const std::filesystem::path folder_;
  int directory_ = -1, file_ = -1;
  mutable std::recursive_mutex mutex_;
  std::string storage_;
  std::int64_t epoch_ = 0;
  std::size_t acknowledged_ = 0;  // As far as is known here.
  std::vector<Entry> entries_;
  std::map<std::pair<std::string, std::uint64_t>, std::size_t> positions_;
};

}  // namespace logs
