#include "crew.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace tour {
namespace {

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, 60'000));
}

}  // namespace

SignalWatch::SignalWatch() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) {
      ::sigaddset(&signals, number);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  fd_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd_.get() < 0) {
    throw std::system_error(errno, std::generic_category(), "signalfd");
  }
}

void SignalWatch::check() const {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    throw Interrupted{static_cast<int>(info.ssi_signo)};
  }
}

void SignalWatch::pause(std::chrono::milliseconds time) const {
  const auto deadline = Clock::now() + time;
  while (Clock::now() < deadline) {
    pollfd poll{fd_.get(), POLLIN, 0};
    ::poll(&poll, 1, milliseconds_until(deadline));
    check();
  }
}

void Crew::hire(const std::vector<std::string>& arguments) { members_.push_back({.process = Process(arguments)}); }

void Crew::tell(std::size_t worker, Command command) const { process(worker).send(to_line(command)); }

std::vector<Report> Crew::listen(Clock::time_point deadline) {
  std::vector<Report> reports;
  while (reports.empty() && Clock::now() < deadline) {
    poll_once(milliseconds_until(deadline), reports);
  }
  // What caused a report was written before it, maybe to a pipe that we had looked at before.
  while (!reports.empty() && poll_once(0, reports)) {
  }
  std::stable_sort(reports.begin(), reports.end(),
                   [](const Report& left, const Report& right) { return left.event.at < right.event.at; });
  return reports;
}

bool Crew::poll_once(int timeout_ms, std::vector<Report>& reports) {
  std::vector<pollfd> polls{{signals_.fd(), POLLIN, 0}};
  for (const auto& member : members_) {
    // A negative descriptor is skipped.
    polls.push_back({member.ended ? -1 : member.process.output(), POLLIN, 0});
  }
  if (::poll(polls.data(), polls.size(), timeout_ms) <= 0) {
    return false;
  }
  signals_.check();
  for (std::size_t worker = 0; worker < members_.size(); ++worker) {
    if (polls[worker + 1].revents != 0) {
      read_from(members_[worker], worker, reports);
    }
  }
  return true;
}

void Crew::read_from(Member& member, std::size_t worker, std::vector<Report>& reports) {
  std::array<char, 4096> buffer{};
  const auto count = ::read(member.process.output(), buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) {
    return;
  }
  if (count <= 0) {
    member.ended = true;
    reports.push_back({.worker = worker, .ended = true});
    return;
  }
  member.lines.append({buffer.data(), static_cast<std::size_t>(count)});
  while (const auto line = member.lines.next()) {
    if (const auto event = parse_event(*line)) {
      reports.push_back({.worker = worker, .event = *event});
    }
  }
}

}  // namespace tour
