// `zkr` with a lease that a test holds: rig SOCKET [OPTION VALUE]... -- COMMAND...
// The keeper connects to SOCKET, gets each `Lease` from there, and says there that it releases.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/zkr/wire.hpp"
#include "tools/zkr/commands/report.hpp"
#include "tools/zkr/run/descriptor.hpp"
#include "tools/zkr/run/run.hpp"

namespace {

zkr::Descriptor connected_to(const std::string& path) {
  zkr::Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("the test does not listen");
  ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  return socket;
}

/// What the test says of the lease.
class HandHeld : public zkr::Holder {
 public:
  HandHeld(const std::string& path, bool threads) : socket_(connected_to(path)), threads_(threads) {}

  int news() const override { return socket_.get(); }
  zkr::Lease look() override {
    zkr::Lease newest;
    while (::recv(socket_.get(), &newest, sizeof newest, 0) == static_cast<ssize_t>(sizeof newest)) {
      lease_ = newest;
      if (threads_) std::thread([] {}).join();
    }
    return lease_;
  }
  std::vector<std::string> environment() const override { return {"ZKR_TOKEN=" + std::to_string(lease_.token)}; }
  void release(const std::optional<zkr::Ending>&) override {
    ::send(socket_.get(), zkr::release_word, 1, MSG_NOSIGNAL);
  }

 private:
  zkr::Descriptor socket_;
  bool threads_;
  zkr::Lease lease_;
};

/// Opening waits until the test has opened the other end, reading until it has closed it.
void wait_for_test(const std::string& fifo) {
  const int end = ::open(fifo.c_str(), O_RDONLY | O_CLOEXEC);
  char byte = 0;
  while (::read(end, &byte, 1) > 0) {
  }
  ::close(end);
}

std::chrono::milliseconds milliseconds(const std::string& text) { return std::chrono::milliseconds(std::stol(text)); }

zkr::Descendants descendants(const std::string& text) {
  if (text == "wait") return zkr::Descendants::wait;
  return text == "leave" ? zkr::Descendants::leave : zkr::Descendants::kill;
}

void apply(zkr::RunRequest& request, const std::string& option, const std::string& value) {
  if (option == "--grace") request.options.grace = milliseconds(value);
  if (option == "--kill-margin") request.options.kill_margin = milliseconds(value);
  if (option == "--max-hold") request.options.max_hold = milliseconds(value);
  if (option == "--on-doubt" && value == "freeze") request.options.on_doubt = zkr::OnDoubt::freeze;
  if (option == "--descendants") request.options.descendants = descendants(value);
  if (option == "--drain") request.options.drain = milliseconds(value);
  if (option == "--on-revoke") request.options.on_revoke = std::stoi(value);
  if (option == "--cgroup") request.use_cgroup = value == "yes";
  if (option == "--again" && value == "yes") {
    request.run_again = [](const zkr::Ending&, zkr::Cause, zkr::Duration) { return zkr::Duration::zero(); };
  }
  if (option == "--endings") {  // As --again, and each ending is written down there.
    request.run_again = [value](const zkr::Ending& ending, zkr::Cause, zkr::Duration) {
      std::ofstream(value, std::ios::app) << ending.code << " " << ending.signal << "\n";
      return zkr::Duration::zero();
    };
  }
  if (option == "--mark") request.mark = "ZKR_ID=" + value;
  if (option == "--lost-fd") request.command.lost_descriptor = std::stoi(value);
  if (option == "--waited") {
    request.report = [value](const zkr::Outcome& outcome, int) {
      std::ofstream(value) << outcome.waited.value_or(zkr::Duration(-1)).count();
      return "";
    };
  }
  if (option == "--report" && value == "yes") {
    request.report = [](const zkr::Outcome& outcome, int) {
      zkr::write_report(STDERR_FILENO, zkr::report_text(outcome, {}, false));
      return "";
    };
  }
  if (option == "--after-fork") request.command.after_fork = [value] { wait_for_test(value); };
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  zkr::RunRequest request;
  bool threads = false;
  std::size_t i = 1;
  for (; words.at(i) != "--"; i += 2) {
    apply(request, words[i], words.at(i + 1));
    threads = threads || words[i] == "--threads";
  }
  request.command.words.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
  request.make_holder = [path = words[0], threads](const zkr::HolderStart&) {
    return std::make_unique<HandHeld>(path, threads);
  };
  zkr::run_under_lease(request);
}
