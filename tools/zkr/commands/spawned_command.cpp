#include "tools/zkr/commands/spawned_command.hpp"

#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "tools/zkr/cli/failure.hpp"

extern char** environ;

namespace zkr {
namespace {

Descriptor input_with(const std::string& bytes) {
  try {
    return file_with(bytes);
  } catch (const std::system_error& error) {
    throw Failure(exit_system, error.what());
  }
}

std::vector<std::string> changed_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> entries;
  const auto name = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  const auto is_changed = [&](std::string_view entry) {
    for (const std::string& one : changes) {
      if (name(one) == name(entry)) return true;
    }
    return false;
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_changed(*entry)) entries.emplace_back(*entry);
  }
  for (const std::string& one : changes) {
    if (one.find('=') != std::string::npos) entries.push_back(one);
  }
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

SpawnedCommand::SpawnedCommand(SpawnRequest request) {
  const Descriptor input = input_with(request.input);
  std::vector<std::string> entries = changed_environment(request.environment);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&files, input.get(), STDIN_FILENO);
  // To itself: it is not closed when the command is executed.
  if (request.inherited >= 0) ::posix_spawn_file_actions_adddup2(&files, request.inherited, request.inherited);
  ::posix_spawnattr_setsigmask(&attributes, &request.mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error = ::posix_spawnp(&number_, request.words.front().c_str(), &files, &attributes,
                                   pointers_to(request.words).data(), pointers_to(entries).data());
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    throw Failure(error == ENOENT ? exit_no_command : exit_not_runnable,
                  fmt::format("{}: {}", request.words.front(), std::strerror(error)));
  }
  process_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, number_, 0)));
}

void SpawnedCommand::signal(int number) const { ::syscall(SYS_pidfd_send_signal, process_.get(), number, nullptr, 0); }

int SpawnedCommand::wait() const {
  int status = 0;
  while (::waitpid(number_, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace zkr
