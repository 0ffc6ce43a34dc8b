#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/export.hpp>

namespace zkrecipes {

/// The entries that a participant of a two-phase commit writes, in this order.
enum class LogEntry : std::uint8_t {
  begin = 1,  ///< Before prepare(); with the transaction's data. Need not be durable.
  ready,      ///< Before the vote to commit. From here on the participant may not decide alone.
  commit,     ///< The decision, before it is applied.
  abort,      ///< The same, if it is to abort.
  applied,    ///< commit() or abort() has returned; before the acknowledgement.
  end,        ///< Acknowledged; the transaction may be forgotten. Need not be durable.
};

/// How far a participant is with a transaction, as its log tells.
enum class LogState : std::uint8_t { none, begun, ready, committed, aborted, applied };

ZKRECIPES_API const char* to_string(LogEntry entry) noexcept;
ZKRECIPES_API const char* to_string(LogState state) noexcept;

/// The legal transitions, all others are refused:
///
///   from       entry    to         from       entry    to
///   ---------  -------  ---------  ---------  -------  -------
///   none       begin    begun      committed  applied  applied
///   begun      ready    ready      aborted    applied  applied
///   begun      abort    aborted    applied    end      none
///   ready      commit   committed
///   ready      abort    aborted
ZKRECIPES_API std::optional<LogState> advance(LogState from, LogEntry entry) noexcept;

/// What a log knows of one transaction.
struct LoggedTransaction {
  std::string id;  ///< The transaction's.
  /// Where the participant stands with it.
  LogState state = LogState::none;
  std::string data;  ///< The data that came with `begin`.
};

/// A participant's durable memory. Implement it if your participant has a journal of its own (a table in the database
/// that it prepares in, say); FileLog is there for all others.
///
/// Every member may throw; a participant whose log has failed stops serving, and takes up its transactions when it
/// serves again. Called on the callback executor, never by two threads at once.
class ZKRECIPES_API ParticipantLog {
 public:
  virtual ~ParticipantLog() = default;
  /// Names this log for ever; two logs never share it. Tells a participant that was restarted from another one that
  /// took its name. One line of at most 64 printable characters.
  virtual std::string identity() const = 0;
  /// All transactions that were begun and not ended, in the order in which they were begun.
  virtual std::vector<LoggedTransaction> open() const = 0;
  /// Adds an entry, which may stay in memory until sync(). `data` only with `begin`. Refuses illegal transitions.
  virtual void append(LogEntry entry, std::string_view transaction, std::string_view data = {}) = 0;
  /// Returns when all entries are on the disk. Entries that were not synced when the process died are lost from the
  /// last one backwards, or not at all.
  virtual void sync() = 0;
};

struct FileLogOptions {
  /// Written anew, without what has ended, when it is larger than this and less than half of it is needed.
  std::uint64_t checkpoint_bytes = 1U << 20U;
};

/// A log in one file (and `<file>.lock`, and for a moment `<file>.new`).
///
///   file:   "zkrecipes 2pc log 1\n" identity(36) "\n"   then frames
///   frame:  "2PCF" length(4) crc32c(4) entry...         numbers little-endian; the checksum covers length and entries
///   entry:  kind(1) id length(2) data length(4) id data
///
/// Each sync() writes one frame and waits until it is on the disk; the next one is not written before that. An append()
/// does the same when more than 1 MiB waits. So a crash can tear the last frame only, which is then cut off: nothing
/// relied on it. A frame that is damaged while others follow it is not the work of a crash: the log refuses to open,
/// rather than forget what was promised. After a failed write or fsync every further call throws, since the kernel may
/// have dropped what it could not write.
///
/// Errors: zkclient::Error, Errc::system_error (with the file's name): no access, no space, damaged, in use by another
/// process (the lock is held while the object lives, and while a child lives that was forked meanwhile and runs no other
/// program); Errc::invalid_argument: an illegal transition, an id that is too long.
/// Thread safety: none; the participant that it is given to uses it from one thread at a time.
class ZKRECIPES_API FileLog final : public ParticipantLog {
 public:
  /// Opens or creates it; the folder must exist.
  explicit FileLog(std::filesystem::path file, FileLogOptions options = {});
  /// Writes what is left, without waiting for the disk.
  ~FileLog() override;
  FileLog(const FileLog&) = delete;
  FileLog& operator=(const FileLog&) = delete;

  std::string identity() const override;
  std::vector<LoggedTransaction> open() const override;
  void append(LogEntry entry, std::string_view transaction, std::string_view data = {}) override;
  void sync() override;

  /// Writes the file anew with what is needed only. Called by sync() when it is time; atomic.
  void checkpoint();
  /// The present size of the file.
  std::uint64_t size() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zkrecipes
