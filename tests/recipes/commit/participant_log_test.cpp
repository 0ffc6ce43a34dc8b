#include <zkrecipes/participant_log.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>

#include <zkclient/error.hpp>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/testkit.hpp"

namespace zkrecipes {
namespace {

using testkit::error_of;
using zkclient::Errc;
using Entry = LogEntry;
using State = LogState;

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

/// What a log holds, in one line.
std::string contents(const ParticipantLog& log) {
  std::string text;
  for (const LoggedTransaction& transaction : log.open())
    text += transaction.id + ":" + to_string(transaction.state) + ":" + transaction.data + " ";
  return text;
}

class ParticipantLogTest : public ::testing::Test {
 protected:
  testkit::TemporaryFolder folder;
  const std::filesystem::path file = folder / "log";
};

TEST(LogTransitions, OnlyTheLegalOnes) {
  constexpr std::array states{State::none,      State::begun,   State::ready,
                              State::committed, State::aborted, State::applied};
  constexpr std::array entries{Entry::begin, Entry::ready, Entry::commit, Entry::abort, Entry::applied, Entry::end};
  const auto expected = [](State from, Entry entry) -> std::optional<State> {
    if (from == State::none && entry == Entry::begin) return State::begun;
    if (from == State::begun && entry == Entry::ready) return State::ready;
    if (from == State::begun && entry == Entry::abort) return State::aborted;
    if (from == State::ready && entry == Entry::commit) return State::committed;
    if (from == State::ready && entry == Entry::abort) return State::aborted;
    if (from == State::committed && entry == Entry::applied) return State::applied;
    if (from == State::aborted && entry == Entry::applied) return State::applied;
    if (from == State::applied && entry == Entry::end) return State::none;
    return std::nullopt;
  };
  for (const State from : states) {
    for (const Entry entry : entries)
      EXPECT_EQ(advance(from, entry), expected(from, entry)) << to_string(from) << " " << to_string(entry);
  }
  EXPECT_EQ(advance(State::none, static_cast<Entry>(99)), std::nullopt);
}

TEST_F(ParticipantLogTest, IsThereAgain) {
  std::string identity;
  {
    FileLog log(file);
    identity = log.identity();
    EXPECT_EQ(identity.size(), 36U);
    log.append(Entry::begin, "a", "first");
    log.append(Entry::ready, "a");
    log.append(Entry::begin, "b", std::string("\0\n2PCF", 6));
    log.sync();
    log.append(Entry::commit, "a");
    log.append(Entry::begin, "c");
    log.append(Entry::abort, "c");
    log.append(Entry::applied, "c");
    log.sync();
    log.append(Entry::end, "c");
  }
  FileLog log(file);
  EXPECT_EQ(log.identity(), identity);
  EXPECT_EQ(contents(log), "a:committed:first b:begun:" + std::string("\0\n2PCF", 6) + " ");
}

TEST_F(ParticipantLogTest, RefusesWhatIsIllegal) {
  FileLog log(file);
  EXPECT_EQ(error_of([&] { log.append(Entry::ready, "a"); }), Errc::invalid_argument);
  log.append(Entry::begin, "a");
  EXPECT_EQ(error_of([&] { log.append(Entry::begin, "a"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { log.append(Entry::commit, "a"); }), Errc::invalid_argument) << "it was not ready";
  log.append(Entry::ready, "a");
  log.append(Entry::abort, "a");
  EXPECT_EQ(error_of([&] { log.append(Entry::commit, "a"); }), Errc::invalid_argument) << "it was aborted";
  EXPECT_EQ(error_of([&] { log.append(Entry::begin, ""); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { log.append(Entry::begin, std::string(70'000, 'x')); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { log.append(Entry::applied, "a", "data"); }), Errc::invalid_argument);
  EXPECT_EQ(contents(log), "a:aborted: ");
}

TEST_F(ParticipantLogTest, OneProcessAtATime) {
  FileLog log(file);
  EXPECT_EQ(error_of([&] { FileLog other(file); }), Errc::system_error);
}

TEST_F(ParticipantLogTest, WhatCannotBeOpened) {
  EXPECT_EQ(error_of([&] { FileLog log(folder / "missing" / "log"); }), Errc::system_error);
  write(file, "something else, of somebody else, that is longer than our header\n");
  EXPECT_EQ(error_of([&] { FileLog log(file); }), Errc::system_error);
  EXPECT_EQ(read(file).substr(0, 14), "something else") << "it is left alone";
}

/// Writes frames one by one; what the log holds after each, and how long the file is then.
struct Written {
  std::vector<std::size_t> sizes;
  std::vector<std::string> contents;
};

Written write_frames(const std::filesystem::path& file) {
  Written written;
  FileLog log(file);
  const auto keep = [&] {
    log.sync();
    written.sizes.push_back(static_cast<std::size_t>(log.size()));
    written.contents.push_back(contents(log));
  };
  keep();  // The header alone.
  log.append(Entry::begin, "a", "payload of a");
  log.append(Entry::ready, "a");
  keep();
  log.append(Entry::begin, "b", "2PCF");
  log.append(Entry::ready, "b");
  log.append(Entry::commit, "a");
  keep();
  log.append(Entry::applied, "a");
  log.append(Entry::abort, "b");
  keep();
  log.append(Entry::end, "a");
  log.append(Entry::applied, "b");
  keep();
  return written;
}

// Whatever part of the last frames a crash has left, the log opens, holds exactly the whole frames, and can be used.
TEST_F(ParticipantLogTest, CutAtEveryByte) {
  const Written written = write_frames(file);
  const std::string bytes = read(file);
  ASSERT_EQ(bytes.size(), written.sizes.back());
  for (std::size_t length = written.sizes.front(); length <= bytes.size(); ++length) {
    write(file, bytes.substr(0, length));
    std::size_t whole = 0;
    while (whole + 1 < written.sizes.size() && written.sizes[whole + 1] <= length)
      ++whole;
    std::string before;
    {
      FileLog log(file);
      ASSERT_EQ(contents(log), written.contents[whole]) << "cut at " << length;
      log.append(Entry::begin, "new", "later");
      log.sync();
      before = contents(log);
    }
    FileLog again(file);
    ASSERT_EQ(contents(again), before) << "cut at " << length;
  }
}

// The same for a file that a crash has left with the right length, but with rubbish in its last frame.
TEST_F(ParticipantLogTest, LastFrameTornAtEveryByte) {
  const Written written = write_frames(file);
  const std::string bytes = read(file);
  const std::size_t last = written.sizes[written.sizes.size() - 2];
  for (std::size_t at = last; at < bytes.size(); ++at) {
    std::string torn = bytes;
    torn[at] = static_cast<char>(torn[at] ^ 0x5A);
    write(file, torn);
    FileLog log(file);
    ASSERT_EQ(contents(log), written.contents[written.contents.size() - 2]) << "torn at " << at;
    torn.replace(at, std::string::npos, bytes.size() - at, '\0');  // What a file system may leave.
  }
}

// But what is damaged in the middle was promised to a coordinator.
TEST_F(ParticipantLogTest, DamageBeforeAGoodFrameIsRefused) {
  const Written written = write_frames(file);
  const std::string bytes = read(file);
  const std::size_t last = written.sizes[written.sizes.size() - 2];
  for (std::size_t at = written.sizes.front(); at < last; ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x5A);
    write(file, damaged);
    ASSERT_EQ(error_of([&] { FileLog log(file); }), Errc::system_error) << "damaged at " << at;
    ASSERT_EQ(read(file), damaged) << "it is left as it is";
  }
}

TEST_F(ParticipantLogTest, HeaderCutAtEveryByte) {
  { FileLog log(file); }
  const std::string bytes = read(file);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    write(file, bytes.substr(0, length));
    FileLog log(file);
    EXPECT_EQ(log.identity().size(), 36U);
    EXPECT_TRUE(log.open().empty());
  }
}

TEST_F(ParticipantLogTest, CheckpointKeepsWhatIsOpen) {
  {
    FileLog log(file);
    for (const char* id : {"begun", "ready", "committed", "aborted", "applied", "ended"})
      log.append(Entry::begin, id, std::string("payload of ") + id);
    for (const char* id : {"ready", "committed", "applied", "ended"})
      log.append(Entry::ready, id);
    for (const char* id : {"committed", "applied", "ended"})
      log.append(Entry::commit, id);
    log.append(Entry::abort, "aborted");
    for (const char* id : {"applied", "ended"})
      log.append(Entry::applied, id);
    log.append(Entry::end, "ended");
    log.sync();
    const std::string before = contents(log);
    const std::string identity = log.identity();
    const auto size = log.size();
    log.checkpoint();
    EXPECT_LT(log.size(), size);
    EXPECT_EQ(log.size(), std::filesystem::file_size(file));
    EXPECT_EQ(contents(log), before);
    EXPECT_EQ(log.identity(), identity);
    log.append(Entry::commit, "ready");
    log.sync();
  }
  const FileLog log(file);
  EXPECT_EQ(contents(log),
            "begun:begun:payload of begun ready:committed:payload of ready committed:committed:payload of committed "
            "aborted:aborted:payload of aborted applied:applied:payload of applied ");
  EXPECT_FALSE(std::filesystem::exists(folder / "log.new"));
}

TEST_F(ParticipantLogTest, StaysSmall) {
  FileLog log(file, {.checkpoint_bytes = 4096});
  log.append(Entry::begin, "kept", "for ever");
  for (int i = 0; i < 500; ++i) {
    const std::string id = "transaction " + std::to_string(i);
    log.append(Entry::begin, id, std::string(100, 'x'));
    log.append(Entry::ready, id);
    log.sync();
    log.append(Entry::commit, id);
    log.append(Entry::applied, id);
    log.append(Entry::end, id);
    log.sync();
    ASSERT_LE(log.size(), 4096U + 400U);
  }
  EXPECT_EQ(contents(log), "kept:begun:for ever ");
}

// A crash in the middle of a checkpoint leaves the old file, and a new one that nobody looks at.
TEST_F(ParticipantLogTest, InterruptedCheckpoint) {
  {
    FileLog log(file);
    log.append(Entry::begin, "a");
    log.sync();
  }
  write(folder / "log.new", "half a checkpoint");
  const FileLog log(file);
  EXPECT_EQ(contents(log), "a:begun: ");
  EXPECT_FALSE(std::filesystem::exists(folder / "log.new"));
}

/// No file of this process can grow beyond that, while it lives: what a write finds on a disk that is full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("the size of files cannot be limited");
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

// Wherever in the frame the disk is full: what was synced before is there, and nothing else.
TEST_F(ParticipantLogTest, DiskIsFullAtEveryByte) {
  std::size_t frame = 1;
  for (std::size_t room = 0; room < frame; ++room) {
    std::filesystem::remove(file);
    std::string before;
    {
      FileLog log(file);
      log.append(Entry::begin, "a", "payload");
      log.sync();
      before = contents(log);
      const auto size = log.size();
      log.append(Entry::ready, "a");
      log.append(Entry::begin, "b", "another payload");
      std::optional<Errc> failure;
      {
        const FileSizeLimit limit(size + room);
        failure = error_of([&] { log.sync(); });
      }
      ASSERT_EQ(failure, Errc::system_error) << "room for " << room;
      ASSERT_EQ(error_of([&] { log.sync(); }), Errc::system_error) << "for ever, although there is room again";
      ASSERT_EQ(error_of([&] { log.append(Entry::commit, "a"); }), Errc::system_error);
      ASSERT_EQ(error_of([&] { log.checkpoint(); }), Errc::system_error);
    }
    FileLog log(file);
    ASSERT_EQ(contents(log), before) << "room for " << room;
    log.append(Entry::ready, "a");
    log.append(Entry::begin, "b", "another payload");
    const auto size = log.size();
    log.sync();
    frame = static_cast<std::size_t>(log.size() - size);
  }
  EXPECT_GT(frame, 20U);
}

/// The descriptor that this process has of a file.
int descriptor_of(const std::filesystem::path& file) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (std::filesystem::read_symlink(entry, ignored) == file) return std::stoi(entry.path().filename().string());
  }
  throw std::runtime_error("the file is not open");
}

// A descriptor that cannot be written to, and one that can be written to but not synced.
TEST_F(ParticipantLogTest, WriteOrSyncFails) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  for (const bool writable : {false, true}) {
    std::filesystem::remove(file);
    {
      FileLog log(file);
      log.append(Entry::begin, "a");
      log.sync();
      log.append(Entry::ready, "a");
      ASSERT_NE(::dup2(pipe[writable ? 1 : 0], descriptor_of(file)), -1);
      EXPECT_EQ(error_of([&] { log.sync(); }), Errc::system_error);
      EXPECT_EQ(error_of([&] { log.sync(); }), Errc::system_error) << "the second one would find nothing to write";
      EXPECT_EQ(error_of([&] { log.append(Entry::commit, "a"); }), Errc::system_error);
    }
    const FileLog log(file);
    EXPECT_EQ(contents(log), "a:begun: ");
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
}

// More waits than is kept in memory. It can be written, but not synced: so the next frame must not follow it, and no sync()
// may take it for durable.
TEST_F(ParticipantLogTest, TooMuchToWaitForASync) {
  FileLog log(file);
  const int sink = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_NE(::dup2(sink, descriptor_of(file)), -1);
  ::close(sink);
  const std::string data(400'000, 'x');
  log.append(Entry::begin, "a", data);
  log.append(Entry::begin, "b", data);
  EXPECT_EQ(error_of([&] { log.append(Entry::begin, "c", data); }), Errc::system_error);
  EXPECT_EQ(error_of([&] { log.sync(); }), Errc::system_error);
}

// A log on a full disk: nothing is taken for durable any more.
TEST_F(ParticipantLogTest, FullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  std::filesystem::create_symlink("/dev/full", folder / "log.new");
  // The first thing that is written is a checkpoint, which goes to "log.new"; the symbolic link is removed before.
  FileLog log(file);
  std::filesystem::create_symlink("/dev/full", folder / "log.new");
  log.append(Entry::begin, "a");
  EXPECT_EQ(error_of([&] { log.checkpoint(); }), Errc::system_error);
  EXPECT_EQ(error_of([&] { log.append(Entry::ready, "a"); }), Errc::system_error) << "for ever";
  EXPECT_EQ(error_of([&] { log.sync(); }), Errc::system_error);
}

}  // namespace
}  // namespace zkrecipes
