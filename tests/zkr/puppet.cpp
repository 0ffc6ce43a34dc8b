// A command that misbehaves as it is told: puppet WORD...
// What it does it says on its standard output, one line at a time. A script in brackets is for a child.

#include <dirent.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace {

using Script = std::vector<std::string>;

std::string taken_ending;

/// In one write, so that lines of several processes do not mix.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) ::_exit(1);
}

void say_signal(int signal) {
  char line[] = "signal 00\n";
  line[7] = static_cast<char>('0' + signal / 10);
  line[8] = static_cast<char>('0' + signal % 10);
  if (::write(STDOUT_FILENO, line, sizeof line - 1) < 0) ::_exit(1);
}

void handle_all_signals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    action.sa_handler = say_signal;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
  }
}

[[noreturn]] void pause_for_ever() {
  while (true)
    ::pause();
}

void rest(long nanoseconds) {
  const timespec time{.tv_sec = 0, .tv_nsec = nanoseconds};
  ::nanosleep(&time, nullptr);
}

std::int64_t boot_nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

/// The instrument that deadlines are measured with.
[[noreturn]] void tick() {
  while (true) {
    say("t " + std::to_string(boot_nanoseconds()));
    rest(1'000'000);
  }
}

/// Appends "NAME PID TOKEN INSTANT" to a file that others write as well, once in a millisecond, for so many of them.
void keep_log(const std::string& file, const std::string& name, long milliseconds) {
  const int log = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  const char* token = std::getenv("ZKR_TOKEN");
  const std::string head = name + " " + std::to_string(::getpid()) + " " + (token != nullptr ? token : "0") + " ";
  const std::int64_t end = boot_nanoseconds() + milliseconds * 1'000'000;
  for (std::int64_t now = 0; now < end; rest(1'000'000)) {
    now = boot_nanoseconds();
    const std::string line = head + std::to_string(now) + "\n";
    if (::write(log, line.data(), line.size()) < 0) ::_exit(1);
  }
  ::close(log);
}

std::string line_of_input() {
  std::string line;
  for (char byte = 0; ::read(STDIN_FILENO, &byte, 1) > 0 && byte != '\n';)
    line += byte;
  return line;
}

/// A line of the input says how it will end: "CODE SIGNAL".
void take_ending() { taken_ending = line_of_input(); }

[[noreturn]] void end_as_taken() {
  int code = 0;
  int signal = 0;
  std::istringstream(taken_ending) >> code >> signal;
  if (signal != 0) ::raise(signal);
  ::_exit(code);
}

/// To the service manager, as sd_notify(). Lines of the text have a comma between them.
void notify_manager(std::string text) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr) return say("nobody to be notified");
  std::replace(text.begin(), text.end(), ',', '\n');
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = name;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (::sendto(socket, text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&address), size) < 0)
    say("nobody hears of it");
  ::close(socket);
}

/// Each lives until it has forked the next one, so whoever was seen is gone soon.
[[noreturn]] void flee() {
  while (true) {
    if (::fork() > 0) ::_exit(0);
    rest(1'000'000);
  }
}

/// A thousand forks a second, in some chains.
[[noreturn]] void storm() {
  for (int i = 0; i < 4; ++i) {
    if (::fork() == 0) flee();
  }
  say("storm");
  while (true) {
    if (::fork() == 0) pause_for_ever();
    rest(5'000'000);
  }
}

void leave_orphans(int number) {
  for (int i = 0; i < number; ++i) {
    const pid_t parent = ::fork();
    if (parent == 0) {
      if (::fork() == 0) ::_exit(3);
      ::_exit(4);
    }
    ::waitpid(parent, nullptr, 0);
  }
}

void make_terminal_raw() {
  termios state{};
  ::tcgetattr(STDIN_FILENO, &state);
  ::cfmakeraw(&state);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &state);
}

void echo_line() {
  std::string line;
  char byte = 0;
  ssize_t size = 0;
  while ((size = ::read(STDIN_FILENO, &byte, 1)) > 0 && byte != '\n')
    line += byte;
  say(size > 0 ? "line " + line : "end of input");
}

void say_descriptors() {
  std::string line = "descriptors";
  for (int number = 0; number < 256; ++number) {
    if (::fcntl(number, F_GETFD) >= 0) line += " " + std::to_string(number);
  }
  say(line);
}

void say_signal_state() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk") || line.starts_with("SigIgn")) say(line.substr(0, 6) + " " + line.substr(8));
  }
}

[[noreturn]] void run(const Script& script);

/// As a daemon does: the parent in between is gone, so a subreaper gets it.
void start_daemon(const Script& script) {
  const pid_t between = ::fork();
  if (between == 0) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    run(script);
  }
  ::waitpid(between, nullptr, 0);
}

void start_child(const Script& script) {
  if (::fork() == 0) run(script);
}

/// Its number stands in the next line of the input.
void start_child_as_read(const Script& script) {
  const pid_t number = std::atoi(line_of_input().c_str());
  clone_args how{};
  how.exit_signal = SIGCHLD;
  how.set_tid = reinterpret_cast<std::uint64_t>(&number);
  how.set_tid_size = 1;
  const long child = ::syscall(SYS_clone3, &how, sizeof how);
  if (child == 0) run(script);
  if (child < 0) say("no such number");
}

/// The process looks as if it were dead, but for its other thread.
[[noreturn]] void end_first_thread(const Script& script) {
  std::thread([script] { run(script); }).detach();
  ::pthread_exit(nullptr);
}

[[noreturn]] void forget_environment(const Script& script) {
  std::vector<char*> words{const_cast<char*>("puppet")};
  for (const std::string& word : script)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  char* nothing = nullptr;
  ::execve("/proc/self/exe", words.data(), &nothing);
  ::_exit(1);
}

/// The words between the bracket at `next` and its counterpart; `next` is behind that then.
Script bracketed(const Script& script, std::size_t& next) {
  Script inner;
  int depth = 1;
  for (++next; next < script.size(); ++next) {
    depth += script[next] == "[" ? 1 : script[next] == "]" ? -1 : 0;
    if (depth == 0) break;
    inner.push_back(script[next]);
  }
  ++next;
  return inner;
}

void obey_number(const std::string& verb, int number) {
  if (verb == "exit") ::_exit(number);
  if (verb == "ignore") ::signal(number, SIG_IGN);
  if (verb == "orphans") leave_orphans(number);
  if (verb == "close") ::close(number);
  if (verb == "die") {
    ::signal(number, SIG_DFL);
    ::raise(number);
  }
}

void obey(const std::string& verb) {
  if (verb == "signals") handle_all_signals();
  if (verb == "setsid") ::setsid();
  if (verb == "as-root" && ::setresuid(0, 0, 0) != 0) ::_exit(1);
  if (verb == "undumpable") ::prctl(PR_SET_DUMPABLE, 0);
  if (verb == "tick") tick();
  if (verb == "pause") pause_for_ever();
  if (verb == "storm") storm();
  if (verb == "raw") make_terminal_raw();
  if (verb == "read") echo_line();
  if (verb == "take-ending") take_ending();
  if (verb == "end-as-taken") end_as_taken();
  if (verb == "descriptors") say_descriptors();
  if (verb == "signal-state") say_signal_state();
  if (verb == "group") say("group " + std::to_string(::getpgrp()));
  if (verb == "pid") say("pid " + std::to_string(::getpid()));
}

bool takes_number(const std::string& verb) {
  return verb == "exit" || verb == "ignore" || verb == "orphans" || verb == "die" || verb == "close";
}

void run_from(const Script& script, std::size_t& next) {
  const std::string& verb = script[next++];
  if (verb == "fork") return start_child(bracketed(script, next));
  if (verb == "fork-as-read") return start_child_as_read(bracketed(script, next));
  if (verb == "daemon") return start_daemon(bracketed(script, next));
  if (verb == "without-environment") forget_environment(bracketed(script, next));
  if (verb == "without-first-thread") end_first_thread(bracketed(script, next));
  if (verb == "say") return say(script.at(next++));
  if (verb == "notify") return notify_manager(script.at(next++));
  if (verb == "log") {  // FILE NAME MILLISECONDS
    next += 3;
    return keep_log(script.at(next - 3), script.at(next - 2), std::stol(script.at(next - 1)));
  }
  if (verb == "env") {
    const char* value = std::getenv(script.at(next).c_str());
    return say(script.at(next++) + "=" + (value != nullptr ? value : "(none)"));
  }
  if (takes_number(verb)) return obey_number(verb, std::stoi(script.at(next++)));
  obey(verb);
}

void run(const Script& script) {
  for (std::size_t next = 0; next < script.size();)
    run_from(script, next);
  ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) { run(Script(argv + 1, argv + argc)); }
