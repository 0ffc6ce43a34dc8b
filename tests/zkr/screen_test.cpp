// `zkr` on a terminal: what stands on the screen of `zkr top`, and what its keys do; what `zkr rm -r` asks.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include <zkrecipes/mutex.hpp>

#include "tests/support/program.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"
#include "tests/zkr/zkr_call.hpp"
#include "tools/zkr/run/descriptor.hpp"

extern char** environ;

namespace zkr {
namespace {

using namespace testkit::words;

/// The letters on a terminal of the kind vt100, as far as programs on it move and write without scrolling.
class Vt100 {
 public:
  Vt100(std::size_t rows, std::size_t columns) : lines_(rows, std::string(columns, ' ')) {}

  void take(char letter) {
    if (!escape_.empty()) return take_escape(letter);
    switch (letter) {
      case '\x1b': escape_ = letter; return;
      case '\r': column_ = 0; return;
      case '\n': row_ = std::min(row_ + 1, lines_.size() - 1); return;
      case '\b': column_ -= column_ > 0 ? 1 : 0; return;
      case '\t': column_ = std::min((column_ / 8 + 1) * 8, lines_[0].size() - 1); return;
      default: break;
    }
    if (static_cast<unsigned char>(letter) < ' ' || column_ >= lines_[0].size()) return;
    lines_[row_][column_++] = letter;
  }
  /// The lines, without blanks at their ends.
  std::string text() const {
    std::string all;
    for (const std::string& line : lines_)
      all += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    return all;
  }

 private:
  void take_escape(char letter) {
    escape_ += letter;
    if (escape_.size() == 2 && letter != '[' && letter != '(' && letter != ')') escape_.clear();
    if (escape_.size() < 3) return;
    if (escape_[1] == '[' && (letter < '@' || letter > '~')) return;
    if (escape_[1] == '[' && escape_[2] != '?') obey(letter, escape_.substr(2, escape_.size() - 3));
    escape_.clear();
  }
  void obey(char order, const std::string& numbers) {
    const std::size_t first = static_cast<std::size_t>(std::atoi(numbers.c_str()));
    const std::size_t semicolon = numbers.find(';');
    const std::size_t second =
        semicolon == std::string::npos ? 0 : static_cast<std::size_t>(std::atoi(numbers.c_str() + semicolon + 1));
    const std::size_t count = std::max<std::size_t>(first, 1);
    std::string& line = lines_[row_];
    switch (order) {
      case 'H':
        row_ = std::min(count, lines_.size()) - 1;
        column_ = std::min(std::max<std::size_t>(second, 1), line.size()) - 1;
        break;
      case 'A': row_ -= std::min(count, row_); break;
      case 'B': row_ = std::min(row_ + count, lines_.size() - 1); break;
      case 'C': column_ = std::min(column_ + count, line.size() - 1); break;
      case 'D': column_ -= std::min(count, column_); break;
      case 'K': erase(line, first); break;
      case 'J':
        erase(line, first);
        for (std::size_t i = 0; i < lines_.size(); ++i) {
          if (first == 2 || (first == 0 && i > row_) || (first == 1 && i < row_)) lines_[i].assign(line.size(), ' ');
        }
        break;
      default: break;
    }
  }
  void erase(std::string& line, std::size_t which) const {
    const std::size_t begin = which == 0 ? column_ : 0;
    const std::size_t end = which == 1 ? column_ + 1 : line.size();
    std::fill(line.begin() + static_cast<std::ptrdiff_t>(begin), line.begin() + static_cast<std::ptrdiff_t>(end), ' ');
  }

  std::vector<std::string> lines_;
  std::size_t row_ = 0;
  std::size_t column_ = 0;
  std::string escape_;
};

/// A `zkr` with a terminal of its own.
class OnScreen {
 public:
  explicit OnScreen(std::vector<std::string> words) : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    ::grantpt(master_.get());
    ::unlockpt(master_.get());
    const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(master_.get(), TIOCSWINSZ, &size);
    modes_before_ = modes();
    words.insert(words.begin(), zkr_program());
    std::vector<std::string> entries = {"TERM=vt100", "XDG_CONFIG_HOME=/nowhere"};
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (!text.starts_with("LINES=") && !text.starts_with("COLUMNS=") && !text.starts_with("TERM=")) {
        entries.push_back(text);
      }
    }
    spawn(words, entries);
  }
  OnScreen(const OnScreen&) = delete;
  OnScreen& operator=(const OnScreen&) = delete;
  ~OnScreen() {
    if (status_) return;
    signal(SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  void type(const std::string& keys) const {
    EXPECT_EQ(::write(master_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  void signal(int number) const { ::kill(process_, number); }
  void resize(unsigned short width) const {
    const winsize size{.ws_row = rows, .ws_col = width, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(master_.get(), TIOCSWINSZ, &size);
  }
  termios modes() const {
    termios now{};
    ::tcgetattr(master_.get(), &now);
    return now;
  }
  const termios& modes_before() const { return modes_before_; }
  /// Waits until this stands on the screen.
  testing::AssertionResult shows(const std::string& text) {
    const auto end = SteadyClock::now() + patience;
    while (screen_.text().find(text) == std::string::npos) {
      if (SteadyClock::now() > end || !read_more()) {
        return testing::AssertionFailure() << "\"" << text << "\" is not shown:\n" << screen_.text();
      }
    }
    return testing::AssertionSuccess();
  }
  std::string text() const { return screen_.text(); }
  /// The exit code, or 128 and the signal that has ended it.
  int end() {
    while (read_more()) {  // It waits for whom its last lines are.
    }
    int status = 0;
    ::waitpid(process_, &status, 0);
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return *status_;
  }

 private:
  static constexpr unsigned short rows = 12;
  static constexpr unsigned short columns = 110;

  void spawn(std::vector<std::string>& words, std::vector<std::string>& entries) {
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> all;
      for (std::string& text : texts)
        all.push_back(text.data());
      all.push_back(nullptr);
      return all;
    };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);  // So the terminal that it opens is its own.
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, ::ptsname(master_.get()), O_RDWR, 0);
    ::posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDERR_FILENO);
    const int failed = ::posix_spawn(&process_, words.front().c_str(), &files, &attributes, pointers(words).data(),
                                     pointers(entries).data());
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
    if (failed != 0) throw std::runtime_error("zkr does not start");
  }
  /// False: there will be no more.
  bool read_more() {
    pollfd polled{.fd = master_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&polled, 1, 1000) == 0) return true;
    char buffer[4096];
    const ssize_t size = ::read(master_.get(), buffer, sizeof buffer);
    for (ssize_t i = 0; i < size; ++i)
      screen_.take(buffer[i]);
    return size > 0;
  }

  Descriptor master_;
  termios modes_before_{};
  Vt100 screen_{rows, columns};
  pid_t process_ = -1;
  std::optional<int> status_;
};

class ZkrTopScreen : public testkit::RecipeTest {
 protected:
  ZkrTopScreen() : RecipeTest("/locks") {}

  std::vector<std::string> top(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--server", hosts(), "--prefix", prefix().str(), "top", "/locks", "--every", "100ms"});
    return more;
  }
};

TEST_F(ZkrTopScreen, ShowsWhoHoldsAndHeedsItsKeys) {
  client().create("/locks", "");
  for (const char* lasting : {"/locks/deploy", "/locks/free"})
    client().create(lasting, "");
  zkrecipes::Mutex first(client(), "/locks/deploy", {.id = "ci"});
  zkrecipes::Mutex second(client(), "/locks/deploy");
  zkrecipes::Lease lease = first.acquire();
  auto waiting = in_thread([&] { return second.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2, "/locks/deploy"));
  OnScreen screen(top());
  ASSERT_TRUE(screen.shows("/locks/deploy  mutex  "));
  EXPECT_TRUE(screen.shows("2 paths by path    q quit, s sort, enter who, R revoke (asks)\n"));
  EXPECT_TRUE(screen.shows("PATH           KIND   HOLDER"));
  EXPECT_TRUE(screen.shows("/locks/free    -      -"));
  screen.type("s");
  EXPECT_TRUE(screen.shows("2 paths by waiters"));
  screen.type("R");
  EXPECT_TRUE(screen.shows("/locks/deploy: ask ")) << "the first line is selected";
  screen.type("n");
  screen.type("\r");
  EXPECT_TRUE(screen.shows("/locks/deploy  mutex, Curator layout, 1 holds, 1 waits"));
  EXPECT_TRUE(screen.shows("\n1  holds  ci"));
  EXPECT_FALSE(lease.revoke_requested().stop_requested()) << "nobody has said yes";
  screen.type(" R");
  EXPECT_TRUE(screen.shows("to give it back? y/N"));
  screen.type("y");
  EXPECT_TRUE(screen.shows("/locks/deploy: requested"));
  EXPECT_TRUE(stopped(lease.revoke_requested()));
  lease.release();
  (void)result_of(waiting).release();
  EXPECT_TRUE(screen.shows("/locks/deploy  -     -"));
  screen.type("q");
  EXPECT_EQ(screen.end(), 0);
}

TEST_F(ZkrTopScreen, SignalEndsIt) {
  client().create("/locks", "");
  OnScreen screen(top());
  ASSERT_TRUE(screen.shows("/locks  -"));
  screen.signal(SIGTERM);
  EXPECT_EQ(screen.end(), 128 + SIGTERM);
}

TEST_F(ZkrTopScreen, TerminalIsAsItWasBefore) {
  client().create("/locks", "");
  for (const bool by_key : {true, false}) {
    OnScreen screen(top());
    ASSERT_TRUE(screen.shows("/locks  -"));
    EXPECT_EQ(screen.modes().c_lflag & (ICANON | ECHO), 0U);
    if (by_key) {
      screen.type("q");
    } else {
      screen.signal(SIGINT);
    }
    EXPECT_EQ(screen.end(), by_key ? 0 : 128 + SIGINT);
    const termios before = screen.modes_before();
    const termios after = screen.modes();
    EXPECT_EQ(after.c_lflag, before.c_lflag);
    EXPECT_EQ(after.c_iflag, before.c_iflag);
    EXPECT_EQ(after.c_oflag, before.c_oflag);
    EXPECT_EQ(after.c_cflag, before.c_cflag);
  }
}

TEST_F(ZkrTopScreen, AnotherSizeIsNoAnswer) {
  const auto lease = zkrecipes::Mutex(client(), "/locks", {.id = "ci"}).acquire();
  OnScreen screen(top());
  ASSERT_TRUE(screen.shows("/locks  mutex"));
  screen.type("R");
  ASSERT_TRUE(screen.shows("to give it back? y/N"));
  screen.resize(100);
  screen.type("y");
  EXPECT_TRUE(screen.shows("/locks: requested"));
  screen.type("q");
  EXPECT_EQ(screen.end(), 0);
}

TEST_F(ZkrTopScreen, NumberOfLooksNeedsNoScreen) {
  OnScreen screen(top({"--looks", "1"}));
  EXPECT_TRUE(screen.shows("/locks  no node"));
  EXPECT_EQ(screen.end(), 0);
}

TEST_F(ZkrTopScreen, FolderThatCannotBeReadKeepsItsRows) {
  client().create("/locks", "", {.acl = zkclient::read_only_acl()});
  EXPECT_EQ(call_zkr(top({"--looks", "1", "--every", "0"})).code, 64);
  client().create("/other/a", "", {.parents = true});
  const auto lease = zkrecipes::Mutex(client(), "/other/a").acquire();
  zkclient::AclList nobody(1);
  nobody[0].permissions = zkclient::Acl::admin;
  testkit::Program program(zkr_program(), {"--server", hosts(), "--prefix", prefix().str(), "--json", "top", "/other",
                                           "/other/a", "--batch", "--every", "10ms"});
  EXPECT_NE(program.next_line().find("\"path\":\"/other/a\""), std::string::npos);
  client().set_acl("/other", nobody);
  std::string line;
  while (line.find("\"path\":\"/other\",\"kind\":null") == std::string::npos)
    line = program.next_line();
  EXPECT_NE(line.find("\"holders\":null"), std::string::npos) << line;
  line = program.next_line();
  EXPECT_NE(line.find("\"path\":\"/other/a\",\"kind\":\"mutex\""), std::string::npos) << line;
  client().set_acl("/other", zkclient::open_acl());
}

TEST_F(ZkrTopScreen, FolderSaysThatItHasMoreChildren) {
  client().create("/locks", "");
  zkclient::Transaction children;
  for (int i = 0; i <= 1000; ++i)
    children.create("/locks/" + std::to_string(i), "");
  client().commit(children);
  const Called called = call_zkr(top({"--looks", "1"}));
  EXPECT_EQ(std::count(called.output.begin(), called.output.end(), '\n'), 1002);
  EXPECT_NE(called.output.find("  only the first 1000 children are shown\n"), std::string::npos);
}

TEST_F(ZkrTopScreen, BatchNeedsNoScreen) {
  OnScreen screen(top({"--batch", "--looks", "1"}));
  EXPECT_TRUE(screen.shows("/locks  no node"));
  EXPECT_EQ(screen.end(), 0);
}

TEST_F(ZkrTopScreen, Z78WithoutATerminalItWritesLines) {
  client().create("/locks", "");
  const auto lease = zkrecipes::Mutex(client(), "/locks/deploy").acquire();
  const Called called = call_zkr(top({"--looks", "2"}));
  EXPECT_EQ(called.code, 0) << called.errors;
  const std::size_t second = called.output.find("\n\nPATH ");
  EXPECT_TRUE(called.output.starts_with("PATH ")) << called.output;
  EXPECT_NE(second, std::string::npos) << called.output;
  EXPECT_NE(called.output.find("/locks/deploy  mutex  ", second), std::string::npos) << called.output;
}

class ZkrRemoval : public testkit::RecipeTest {
 protected:
  ZkrRemoval() : RecipeTest("/node") {}

  void SetUp() override {
    RecipeTest::SetUp();
    make_tree();
  }
  /// Of nodes that stay when they are empty.
  void make_tree() {
    for (const char* path : {"/node", "/node/a", "/node/a/b"})
      client().create(path, "");
  }
  std::vector<std::string> words(std::vector<std::string> own) const {
    own.insert(own.begin(), {"--server", hosts(), "--prefix", prefix().str()});
    return own;
  }
  bool is_there(const std::string& path) { return client().exists(path).has_value(); }

  static constexpr const char* question_ = "zkr: remove /node and 2 nodes below it? [y/N]";
};

TEST_F(ZkrRemoval, Z62OneThatIsRefusedOnATerminalRemovesNothing) {
  for (const char* answer : {"n\n", "\n", "yours\n", "\x04"}) {
    OnScreen screen(words({"rm", "-r", "/node"}));
    ASSERT_TRUE(screen.shows(question_));
    EXPECT_TRUE(is_there("/node/a/b"));
    screen.type(answer);
    EXPECT_TRUE(screen.shows("zkr: nothing was removed"));
    EXPECT_EQ(screen.end(), 75);
    EXPECT_TRUE(is_there("/node/a/b"));
  }
}

TEST_F(ZkrRemoval, Z62OneThatIsConfirmedOnATerminalRemovesAll) {
  for (const char* answer : {"y\n", "yes\n"}) {
    OnScreen screen(words({"rm", "-r", "/node"}));
    ASSERT_TRUE(screen.shows(question_));
    screen.type(answer);
    EXPECT_EQ(screen.end(), 0);
    EXPECT_FALSE(is_there("/node"));
    make_tree();
  }
}

// No answer is typed: whoever is asked all the same waits for one.
TEST_F(ZkrRemoval, Z62ScriptOnATerminalIsNotAsked) {
  for (const char* option : {"--yes", "-y"}) {
    OnScreen screen(words({"rm", "-r", option, "/node"}));
    EXPECT_EQ(screen.end(), 0);
    EXPECT_FALSE(is_there("/node"));
    make_tree();
  }
  OnScreen single(words({"rm", "/node/a/b"}));
  EXPECT_EQ(single.end(), 0);
  OnScreen leaf(words({"rm", "-r", "/node/a"}));
  EXPECT_EQ(leaf.end(), 0);
  EXPECT_FALSE(is_there("/node/a"));
}

}  // namespace
}  // namespace zkr
