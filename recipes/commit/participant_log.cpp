#include <zkrecipes/participant_log.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <zkclient/error.hpp>

#include "recipes/commit/log_format.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;
using detail::log_format::encode_entry;
using detail::log_format::encode_frame;
using detail::log_format::entry_at;
using detail::log_format::entry_header;
using detail::log_format::frame_at;
using detail::log_format::frame_header;
using detail::log_format::frame_mark;
using detail::log_format::header_size;
using detail::log_format::identity_size;
using detail::log_format::magic;
using detail::log_format::max_frame;
using detail::log_format::max_id;

const char* to_string(LogEntry entry) noexcept {
  switch (entry) {
    case LogEntry::begin: return "begin";
    case LogEntry::ready: return "ready";
    case LogEntry::commit: return "commit";
    case LogEntry::abort: return "abort";
    case LogEntry::applied: return "applied";
    case LogEntry::end: return "end";
  }
  return "unknown";
}

const char* to_string(LogState state) noexcept {
  switch (state) {
    case LogState::none: return "none";
    case LogState::begun: return "begun";
    case LogState::ready: return "ready";
    case LogState::committed: return "committed";
    case LogState::aborted: return "aborted";
    case LogState::applied: return "applied";
  }
  return "unknown";
}

std::optional<LogState> advance(LogState from, LogEntry entry) noexcept {
  switch (entry) {
    case LogEntry::begin:
      if (from == LogState::none) return LogState::begun;
      break;
    case LogEntry::ready:
      if (from == LogState::begun) return LogState::ready;
      break;
    case LogEntry::commit:
      if (from == LogState::ready) return LogState::committed;
      break;
    case LogEntry::abort:
      if (from == LogState::begun || from == LogState::ready) return LogState::aborted;
      break;
    case LogEntry::applied:
      if (from == LogState::committed || from == LogState::aborted) return LogState::applied;
      break;
    case LogEntry::end:
      if (from == LogState::applied) return LogState::none;
      break;
  }
  return std::nullopt;
}

namespace {

constexpr std::size_t max_pending = 1024U * 1024U;  // Entries that no sync() has written are written then.

}  // namespace

struct FileLog::Impl {
  struct Live {
    LogState state = LogState::none;
    std::string data;
    std::uint64_t order = 0;
  };

  const zkclient::detail::ProcessGeneration process = {};  // A forked child has nothing to write.
  std::filesystem::path file;
  FileLogOptions options;
  std::string identity;
  int lock = -1;
  int descriptor = -1;
  std::uint64_t size = 0;
  std::string pending;  // Entries that are not in the file yet.
  std::map<std::string, Live, std::less<>> live;
  std::uint64_t live_bytes = 0;
  std::uint64_t next_order = 0;
  bool failed = false;

  Impl(std::filesystem::path where, FileLogOptions how) : file(std::move(where)), options(how) {}
  ~Impl() {
    if (descriptor != -1) ::close(descriptor);
    if (lock != -1) ::close(lock);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[noreturn]] void fail(const std::string& what) {
    failed = true;
    throw Error(Errc::system_error, "participant log", file.string(), what);
  }
  [[noreturn]] void fail_errno(const char* what) { fail(fmt::format("{}: {}", what, std::strerror(errno))); }
  void require_sound() const {
    if (failed) throw Error(Errc::system_error, "participant log", file.string(), "an earlier write failed");
  }

  void take_lock();
  void load();
  std::string read_all();
  void replay(std::string_view entries);
  bool apply(LogEntry entry, std::string_view id, std::string_view data);
  std::uint64_t cut_tail(std::string_view bytes, std::size_t good);
  void write_all(int to, std::string_view bytes);
  void write_pending();
  void write_durably();
  void sync_folder();
  std::string live_entries() const;
  void checkpoint();
};

void FileLog::Impl::take_lock() {
  lock = ::open((file.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock == -1) fail_errno("its lock cannot be opened");
  if (::flock(lock, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) fail("in use by another process");
  fail_errno("it cannot be locked");
}

std::string FileLog::Impl::read_all() {
  std::string bytes;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno("it cannot be read");
    if (count == 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

bool FileLog::Impl::apply(LogEntry entry, std::string_view id, std::string_view data) {
  const auto found = live.find(id);
  const LogState from = found == live.end() ? LogState::none : found->second.state;
  const auto to = advance(from, entry);
  if (!to) return false;
  if (from == LogState::none) {
    live.emplace(std::string(id), Live{*to, std::string(data), next_order++});
    live_bytes += 3 * (entry_header + id.size()) + data.size();
  } else if (*to == LogState::none) {
    live_bytes -= 3 * (entry_header + id.size()) + found->second.data.size();
    live.erase(found);
  } else {
    found->second.state = *to;
  }
  return true;
}

void FileLog::Impl::replay(std::string_view entries) {
  while (!entries.empty()) {
    if (entries.size() < entry_header) fail("an entry is too short");
    const auto entry = entry_at(entries);
    if (!entry) fail("an entry is too long");
    if (!apply(entry->kind, entry->id, entry->data)) {
      fail(fmt::format("an illegal transition of transaction {}: {}", entry->id, to_string(entry->kind)));
    }
    entries.remove_prefix(entry_header + entry->id.size() + entry->data.size());
  }
}

// The torn end that a crash leaves goes; a good frame behind it shows that it is no torn end.
std::uint64_t FileLog::Impl::cut_tail(std::string_view bytes, std::size_t good) {
  for (std::size_t at = bytes.find(frame_mark, good); at != std::string_view::npos;
       at = bytes.find(frame_mark, at + 1)) {
    if (frame_at(bytes.substr(at))) fail(fmt::format("damaged at byte {}, while good entries follow", good));
  }
  if (::ftruncate(descriptor, static_cast<off_t>(good)) != 0) fail_errno("its torn end cannot be cut off");
  return good;
}

void FileLog::Impl::load() {
  std::error_code ignored;
  std::filesystem::remove(file.string() + ".new", ignored);  // A checkpoint that a crash has stopped.
  descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor == -1) fail_errno("it cannot be opened");
  const std::string all = read_all();
  const std::string_view bytes = all;
  if (bytes.size() < header_size && (bytes.substr(0, magic.size()) == magic.substr(0, bytes.size()))) {
    identity = zkclient::detail::make_uuid();  // New, or a crash came before the first byte that counts.
    checkpoint();
    return;
  }
  if (!bytes.starts_with(magic) || bytes[header_size - 1] != '\n') fail("it is not a participant's log");
  identity = bytes.substr(magic.size(), identity_size);
  std::size_t good = header_size;
  while (good < bytes.size()) {
    const auto entries = frame_at(bytes.substr(good));
    if (!entries) break;
    replay(*entries);
    good += frame_header + entries->size();
  }
  size = good == bytes.size() ? good : cut_tail(bytes, good);
  // The former process may have written its last frame without waiting for the disk, or in vain: then the kernel still
  // shows what it has lost. So what counts is written anew.
  checkpoint();
}

void FileLog::Impl::write_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(to, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno("write");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void FileLog::Impl::write_pending() {
  if (pending.empty()) return;
  const std::string frame = encode_frame(pending);
  write_all(descriptor, frame);
  size += frame.size();
  pending.clear();
}

// A frame is not begun before the one ahead of it is on the disk: a crash could tear that, and leave this one whole.
void FileLog::Impl::write_durably() {
  write_pending();
  if (::fdatasync(descriptor) != 0) fail_errno("fdatasync");
}

void FileLog::Impl::sync_folder() {
  const auto parent = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  const int folder = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder == -1) fail_errno("its folder cannot be opened");
  const int result = ::fsync(folder);
  ::close(folder);
  if (result != 0) fail_errno("fsync of its folder");
}

std::string FileLog::Impl::live_entries() const {
  std::map<std::uint64_t, std::pair<const std::string*, const Live*>> ordered;
  for (const auto& [id, transaction] : live)
    ordered.emplace(transaction.order, std::pair(&id, &transaction));
  std::string entries;
  for (const auto& [order, item] : ordered) {
    const auto& [id, transaction] = item;
    const LogState state = transaction->state;
    entries += encode_entry(LogEntry::begin, *id, transaction->data);
    if (state == LogState::begun) continue;
    if (state == LogState::ready || state == LogState::committed) entries += encode_entry(LogEntry::ready, *id, {});
    if (state == LogState::ready) continue;
    // Of what was applied it does not matter any more which way it went.
    entries += encode_entry(state == LogState::committed ? LogEntry::commit : LogEntry::abort, *id, {});
    if (state == LogState::applied) entries += encode_entry(LogEntry::applied, *id, {});
  }
  return entries;
}

void FileLog::Impl::checkpoint() {
  std::string bytes = fmt::format("{}{}\n", magic, identity);
  const std::string entries = live_entries();
  if (!entries.empty()) bytes += encode_frame(entries);
  const std::string next = file.string() + ".new";
  const int fresh = ::open(next.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  if (fresh == -1) fail_errno("a checkpoint cannot be created");
  ::close(std::exchange(descriptor, fresh));
  write_all(fresh, bytes);
  if (::fsync(fresh) != 0) fail_errno("fsync");
  if (::rename(next.c_str(), file.c_str()) != 0) fail_errno("rename");
  sync_folder();
  size = bytes.size();
  pending.clear();
}

FileLog::FileLog(std::filesystem::path file, FileLogOptions options)
    : impl_(std::make_unique<Impl>(std::move(file), options)) {
  impl_->take_lock();
  impl_->load();
}

FileLog::~FileLog() {
  try {
    if (!impl_->failed && !impl_->process.forked()) impl_->write_pending();
  } catch (const std::exception&) {
    // Nothing was promised of entries that were not synced.
  }
}

std::string FileLog::identity() const { return impl_->identity; }

std::vector<LoggedTransaction> FileLog::open() const {
  std::map<std::uint64_t, LoggedTransaction> ordered;
  for (const auto& [id, transaction] : impl_->live)
    ordered.emplace(transaction.order, LoggedTransaction{id, transaction.state, transaction.data});
  std::vector<LoggedTransaction> all;
  all.reserve(ordered.size());
  for (auto& [order, transaction] : ordered)
    all.push_back(std::move(transaction));
  return all;
}

void FileLog::append(LogEntry entry, std::string_view transaction, std::string_view data) {
  impl_->require_sound();
  const auto refuse = [&](const std::string& why) {
    throw Error(Errc::invalid_argument, "participant log", impl_->file.string(), why);
  };
  if (transaction.empty() || transaction.size() > max_id) refuse("the id is empty or too long");
  if (!data.empty() && entry != LogEntry::begin) refuse("data comes with begin only");
  const std::string text = encode_entry(entry, transaction, data);
  if (impl_->pending.size() + text.size() > max_frame) refuse("too much at once");
  if (!impl_->apply(entry, transaction, data)) {
    refuse(fmt::format("an illegal transition of transaction {}: {}", transaction, to_string(entry)));
  }
  impl_->pending += text;
  if (impl_->pending.size() > max_pending) impl_->write_durably();
}

void FileLog::sync() {
  impl_->require_sound();
  if (impl_->pending.empty()) return;
  const std::uint64_t next = impl_->size + frame_header + impl_->pending.size();
  if (next > impl_->options.checkpoint_bytes && impl_->live_bytes < next / 2) {
    impl_->checkpoint();
    return;
  }
  impl_->write_durably();
}

void FileLog::checkpoint() {
  impl_->require_sound();
  impl_->checkpoint();
}

std::uint64_t FileLog::size() const noexcept { return impl_->size; }

}  // namespace zkrecipes
