#include <zkrecipes/guardian.hpp>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "recipes/kernel/words.hpp"

extern char** environ;

namespace zkrecipes {

using namespace words;

// The messages on the socket, a line each (tools/guardian/guardian.cpp reads it):
//
//   server <port> <host>                one for each
//   tls <ca> <certificate> <key> <passphrase>
//                                       files and a passphrase, as hexadecimal digits: connections are encrypted
//   session <id> <timeout> <password>   decimal, milliseconds, 32 hexadecimal digits: this is the one now
//   none                                there is none now
//   farewell                            the end, and nothing to do

struct Guardian::State {
  const zkclient::detail::ProcessGeneration process = {};
  int socket = -1;
  pid_t helper = 0;
  bool deaf = false;
  std::optional<zkclient::Subscription> states;

  void tell(const std::string& line);
  void on_change(const zkclient::StateChange& change);
  void end_helper() const;
};

// Never waits. A helper that was told half a line, since it does not listen, might do the wrong thing later: it ends,
// and the session is as safe as without it.
void Guardian::State::tell(const std::string& line) {
  if (deaf) return;
  const ssize_t sent = ::send(socket, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(line.size())) return;
  deaf = true;
  end_helper();
}

// Whatever state it is in. Not without having made sure that the number is still our child's: a program that ignores
// SIGCHLD, or waits for all of its children, may have had it reaped.
void Guardian::State::end_helper() const {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(helper), &info, WEXITED | WNOHANG | WNOWAIT) == 0) ::kill(helper, SIGKILL);
}

namespace {

[[noreturn]] void refuse(const std::string& helper, int error) {
  throw Error(Errc::system_error, "guardian", helper, std::strerror(error));
}

std::string find_helper(std::string given) {
  if (!given.empty()) return given;
  const char* configured = ::secure_getenv("ZKRECIPES_GUARDIAN");
  return configured != nullptr && *configured != '\0' ? configured : "zkrecipes-guardian";
}

/// With the socket as its standard input, and no output. All signals are blocked from the start, so that nothing but KILL
/// ends it: what runs this process, `zkr` or a supervisor, may send TERM to all that this process leaves behind.
pid_t spawn(const std::string& helper, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t all;
  ::sigfillset(&all);
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawnattr_setsigmask(&attributes, &all);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string name = "zkrecipes-guardian";
  std::array<char*, 2> argv{name.data(), nullptr};
  pid_t process = 0;
  const int error = ::posix_spawnp(&process, helper.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) refuse(helper, error);
  return process;
}

std::string hexadecimal(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

void Guardian::State::on_change(const zkclient::StateChange& change) {
  switch (change.state) {
    case ConnectionState::connected: {
      const zkclient::SessionCredentials session = change.session.credentials();
      tell(fmt::format("session {} {} {}\n", session.id, change.session.timeout().count(),
                       hexadecimal(session.password)));
      break;
    }
    case ConnectionState::lost: tell("none\n"); break;
    case ConnectionState::closed: tell("farewell\n"); break;
    case ConnectionState::connecting:
    case ConnectionState::suspended: break;
  }
}

Guardian::Guardian(const zkclient::Client& client, std::string_view servers, GuardianOptions options)
    : state_(std::make_shared<State>()) {
  const std::vector<zkclient::detail::Host> hosts = zkclient::detail::parse_hosts(servers);
  const std::string helper = find_helper(std::move(options.helper));
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) refuse(helper, errno);
  try {
    state_->helper = spawn(helper, ends[1]);
  } catch (...) {
    ::close(ends[0]);
    ::close(ends[1]);
    throw;
  }
  ::close(ends[1]);
  state_->socket = ends[0];
  std::string lines;
  for (const zkclient::detail::Host& host : hosts)
    lines += fmt::format("server {} {}\n", host.port, host.name);
  if (const auto& tls = client.impl()->options().tls) {
    lines += fmt::format("tls {} {} {} {}\n", hexadecimal(tls->ca_file), hexadecimal(tls->certificate_file),
                         hexadecimal(tls->key_file), hexadecimal(tls->key_passphrase));
  }
  state_->tell(lines);
  state_->states =
      client.on_state_change([state = state_.get()](const zkclient::StateChange& change) { state->on_change(change); });
}

Guardian::~Guardian() {
  if (state_->process.forked()) {  // The helper is the parent's.
    ::close(state_->socket);
    return;
  }
  state_->states.reset();  // Nothing is told afterwards.
  // In this order: while the socket is open, the helper has no reason to touch the session. Not its farewell alone: a
  // helper that was stopped would keep us waiting.
  state_->tell("farewell\n");
  state_->end_helper();
  while (::waitpid(state_->helper, nullptr, 0) < 0 && errno == EINTR) {
  }
  ::close(state_->socket);
}

int Guardian::process_id() const noexcept { return state_->helper; }

}  // namespace zkrecipes
