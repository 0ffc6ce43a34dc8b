#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/zkr/run/descriptor.hpp"
#include "tools/zkr/run/holder.hpp"

namespace zkr {

using Words = std::vector<std::string>;

/// A folder that goes with its contents.
class Folder {
 public:
  Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// A pipe that no program inherits.
struct PipeEnds {
  PipeEnds();
  Descriptor out;
  Descriptor in;
};

/// Lines that processes write, until the last of them is gone.
class Lines {
 public:
  explicit Lines(Descriptor source) : source_(std::move(source)) {}

  /// Waits for a line that begins like that. Nothing: all who could write it are gone.
  std::optional<std::string> await(const std::string& beginning);
  /// Waits until all who could write are gone. All lines since the last await().
  Words rest();
  /// All lines that have been read so far, also those that await() has passed over.
  const Words& all() const { return all_; }
  /// Whether they are gone now, without waiting. What they had written is read.
  bool ended_now();
  /// The newest instant in lines of `t`.
  Instant last_tick() const { return last_tick_; }

 private:
  bool read_more(bool wait);
  std::optional<std::string> next_line();

  Descriptor source_;
  std::string text_;
  Words all_;
  bool ended_ = false;
  Instant last_tick_{};
};

/// The other end of the lease of a rig: the test holds it.
class LeaseHand {
 public:
  explicit LeaseHand(const std::string& path);

  /// Waits until the keeper asks for its lease. Returns its number.
  pid_t meet();
  void set(const Lease& lease);
  /// Waits until the lease is given back. False: the keeper is gone without.
  bool await_release();
  bool released_now();
  /// Answers what was awaited.
  void confirm_release();

 private:
  Descriptor listener_;
  Descriptor keeper_;
  Lease last_;
};

/// A lease that lasts longer than any test.
Lease long_lease();
/// One whose command is to be killed at the instant, with that margin until its end. `doubt`: how long before.
Lease lease_to_kill_at(Instant instant, Duration margin, Duration doubt = Duration::zero());

struct RigSetup {
  Words options;
  bool grant = true;  // A long lease, at once.
  std::function<void()> before_exec = [] {};
  bool open_to_all = false;  // Another user may be the keeper's.
};

/// A `zkr` whose lease a test holds. Its command's standard input and output are pipes to the test.
class Rig {
 public:
  explicit Rig(const Words& command, const RigSetup& setup = {});
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  ~Rig();

  pid_t front() const { return front_; }
  pid_t keeper() const { return keeper_; }
  Lines& lines() { return lines_; }
  LeaseHand& hand() { return hand_; }
  const Folder& folder() const { return folder_; }

  void signal(int signal) const;
  /// Waits until the keeper of `--again yes` asks for its next lease, and grants it unless told otherwise.
  void next_run(bool grant = true);
  /// To the command's standard input.
  void type(const std::string& text) const;
  void close_input() { input_.close(); }
  /// Waits for the release, which must come when nothing is left, and answers it.
  void expect_release_of_empty_tree();
  /// Waits until the front has ended: its status, as of waitpid().
  int await_end();

 private:
  Folder folder_;
  LeaseHand hand_;
  Descriptor input_;
  Lines lines_{Descriptor()};
  pid_t front_ = -1;
  pid_t keeper_ = -1;
  std::optional<int> status_;
};

/// From now on orphans of processes below this one are its children. What a test leaves of them that has failed, which
/// may be a storm of forks, is killed.
void end_what_tests_leave();

/// For a process that is to find signals as they are by default, however the test was started.
void forget_signal_state();
/// The puppet and its words.
Words puppet(const std::string& words);
std::string rig_program();

/// A process's state as in /proc: 'T' when it is stopped. 'X': it is gone.
char state_of(pid_t process);
/// The page of that front, which stays when the front is gone.
Descriptor page_of(pid_t front);
/// The end of the lease, as a page says it. Long ago: there is no page.
Instant valid_until_on_page(const Descriptor& page);
Instant valid_until_on_page(pid_t front);
/// T.
Duration timeout_on_page(const Descriptor& page);
/// Looks until it is so: for what the kernel tells nobody of.
void await(const std::function<bool()>& condition);
/// Looks until a process that reads its signals has none left, and waits again.
void await_signals_taken(pid_t process);
/// The number in a line like "pid 17".
pid_t number_in(const std::string& line);
std::string exited(int code);
std::string killed_by(int signal);
/// A status of waitpid(), in those words.
std::string told(int status);

}  // namespace zkr
