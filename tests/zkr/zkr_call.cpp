#include "tests/zkr/zkr_call.hpp"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "tools/zkr/run/descriptor.hpp"

extern char** environ;

namespace zkr {
namespace {

Descriptor memory_file(const std::string& content) {
  Descriptor file(::memfd_create("zkr-call", MFD_CLOEXEC));
  if (!file || ::write(file.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    throw std::runtime_error("no file in memory");
  }
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string content_of(const Descriptor& file) {
  std::string content(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)), '\0');
  if (::pread(file.get(), content.data(), content.size(), 0) < 0) throw std::runtime_error("unreadable");
  return content;
}

}  // namespace

Called call_zkr(std::vector<std::string> words, const std::string& input, const std::vector<std::string>& environment) {
  words.insert(words.begin(), ZKR);
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> entries = environment;
  entries.emplace_back("XDG_CONFIG_HOME=/nowhere");
  std::vector<char*> envp;
  for (std::string& entry : entries)
    envp.push_back(entry.data());  // The first of a name counts.
  for (char** entry = environ; *entry != nullptr; ++entry)
    envp.push_back(*entry);
  envp.push_back(nullptr);
  const Descriptor in = memory_file(input);
  const Descriptor out = memory_file("");
  const Descriptor errors = memory_file("");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, errors.get(), STDERR_FILENO);
  pid_t process = -1;
  const int failed = ::posix_spawn(&process, ZKR, &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("zkr does not start");
  int status = 0;
  ::waitpid(process, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {content_of(out), content_of(errors), code};
}

std::string zkr_program() { return ZKR; }

}  // namespace zkr
