#include "tools/zkr/commands/spawned_command.hpp"

#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
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

/// The file that posix_spawnp() finds.
std::string file_of(const std::string& word) {
  if (word.find('/') != std::string::npos) return word;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + word;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return word;
}

/// As shells do it, a script that does not say what runs it is run by /bin/sh.
int spawn(pid_t& number, std::vector<std::string> words, char* const* environment,
          const posix_spawn_file_actions_t& files, const posix_spawnattr_t& attributes) {
  const int error =
      ::posix_spawnp(&number, words.front().c_str(), &files, &attributes, pointers_to(words).data(), environment);
  if (error != ENOEXEC) return error;
  words.front() = file_of(words.front());
  words.insert(words.begin(), "/bin/sh");
  return ::posix_spawn(&number, "/bin/sh", &files, &attributes, pointers_to(words).data(), environment);
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
  const int error = spawn(number_, request.words, pointers_to(entries).data(), files, attributes);
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
  while (::waitpid(number_, &status, 0) < 0) {
    if (errno != EINTR) return exit_system;  // Nobody knows how it has ended: that is no yes.
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace zkr
