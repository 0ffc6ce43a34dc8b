#include "tests/zkr/zkr_process.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <vector>

#include "tools/zkr/run/process_tree.hpp"

namespace zkr {
namespace {

/// As a service: without a terminal. It is killed with the test.
pid_t start_zkr(const Words& words, const std::function<void()>& before_exec, int input, int output, int errors) {
  Words all{ZKR};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t process = ::fork();
  if (process < 0) throw std::runtime_error("zkr does not start");
  if (process > 0) return process;
  // Other threads were left behind, with whatever locks they had.
  forget_signal_state();
  ::setsid();
  before_exec();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

std::string short_name_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

ZkrProcess::ZkrProcess(const Words& words, const std::function<void()>& before_exec) {
  PipeEnds input;
  PipeEnds output;
  PipeEnds errors;
  process_ = start_zkr(words, before_exec, input.out.get(), output.in.get(), errors.in.get());
  input_ = std::move(input.in);
  lines_ = Lines(std::move(output.out));
  errors_ = Lines(std::move(errors.out));
}

ZkrProcess::~ZkrProcess() {
  if (status_) return;
  signal(SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

pid_t ZkrProcess::child(const std::string& name) const {
  std::optional<pid_t> found;
  await([&] { return (found = child_now(name)).has_value(); });
  return *found;
}

std::optional<pid_t> ZkrProcess::child_now(const std::string& name) const {
  for (const pid_t child : PinnedProcess(process_).children()) {
    if (short_name_of(child) == name) return child;
  }
  return std::nullopt;
}

void ZkrProcess::type(const std::string& text) const {
  EXPECT_EQ(::write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void ZkrProcess::signal(int signal) const { ::kill(process_, signal); }

std::string ZkrProcess::end() {
  if (!status_) {
    int status = 0;
    ::waitpid(process_, &status, 0);
    status_ = status;
  }
  return told(*status_);
}

bool ZkrProcess::ended_now() {
  int status = 0;
  if (!status_ && ::waitpid(process_, &status, WNOHANG) == process_) status_ = status;
  return status_.has_value();
}

}  // namespace zkr
