#include "tools/zkr/doctor/host_checks.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "tools/zkr/run/cgroup.hpp"
#include "tools/zkr/run/process_tree.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

double ms(nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }
double seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

LeaseTimes::LeaseTimes(nanoseconds timeout) {
  const nanoseconds margin = std::max<nanoseconds>(50ms, timeout / 40);
  proof_interval = timeout / 6;
  kill_margin = std::max<nanoseconds>(250ms, timeout / 40);
  const nanoseconds grace = std::min(timeout / 4, timeout / 3 - margin - kill_margin);
  term = std::max(timeout * 7 / 12 - margin - kill_margin - grace, timeout / 4);
}

std::vector<Finding> judge_round_trips(std::vector<nanoseconds> taken, nanoseconds timeout) {
  if (taken.empty()) return {};
  std::sort(taken.begin(), taken.end());
  const nanoseconds median = taken[taken.size() / 2];
  const nanoseconds late = taken[(taken.size() * 99 - 1) / 100];
  const nanoseconds limit = timeout / 24;
  const LeaseTimes lease(timeout);
  Gravity gravity = Gravity::good;
  if (late > limit) gravity = Gravity::warning;
  if (late > timeout / 6) gravity = Gravity::failure;
  std::string text = fmt::format("a write takes {:.1f} ms, the slowest of a hundred {:.1f} ms", ms(median), ms(late));
  text += gravity == Gravity::good ? fmt::format(", of {:.0f} ms that leases can bear", ms(limit))
                                   : fmt::format(
                                         ": more than the {:.0f} ms that leases can bear; a longer "
                                         "--session-timeout bears more",
                                         ms(limit));
  return {{gravity, "round trip", text},
          {Gravity::good, "leases",
           fmt::format("outages of up to {:.1f} to {:.1f} s cost a lock nothing",
                       seconds(lease.term - lease.proof_interval), seconds(lease.term))}};
}

Finding judge_lateness(nanoseconds worst, nanoseconds timeout) {
  const nanoseconds margin = LeaseTimes(timeout).kill_margin;
  Gravity gravity = Gravity::good;
  if (worst > margin / 2) gravity = Gravity::warning;
  if (worst > margin) gravity = Gravity::failure;
  std::string text = fmt::format("late by {:.1f} ms at worst", ms(worst));
  if (gravity != Gravity::good) {
    text += fmt::format("; with more than {:.0f} ms a command may outlive its lease: --kill-margin", ms(margin));
  }
  return {gravity, "timers", text};
}

Finding judge_clock(std::chrono::system_clock::time_point server, std::chrono::system_clock::time_point before,
                    std::chrono::system_clock::time_point after) {
  const auto in_ms = [](auto time) { return std::chrono::round<std::chrono::milliseconds>(time).count(); };
  if (server >= before - 1ms && server <= after) return {Gravity::good, "clock", "as the server's"};
  const bool ahead = server > after;
  return {Gravity::good, "clock",
          fmt::format("the server's is {} ms {}, by which no lease goes",
                      in_ms(ahead ? server - after : before - server), ahead ? "ahead" : "behind")};
}

nanoseconds measure_lateness(nanoseconds time) {
  using Clock = std::chrono::steady_clock;
  nanoseconds worst{0};
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {
    const auto due = Clock::now() + 2ms;
    std::this_thread::sleep_until(due);
    worst = std::max<nanoseconds>(worst, Clock::now() - due);
  }
  return worst;
}

Finding judge_processes(bool control_group, bool tree_is_seen) {
  if (control_group) return {Gravity::good, "processes", "commands get a control group, which ends as a whole"};
  if (tree_is_seen) {
    return {Gravity::good, "processes",
            "no control group may be made here: /proc tells which processes a command has started"};
  }
  return {Gravity::failure, "processes",
          "no control group may be made here, and /proc does not show who has started what: zkr lock and zkr lead "
          "start no command"};
}

std::vector<Finding> look_at_host() {
  std::vector<Finding> findings;
  const auto group = Cgroup::make("zkr-doctor-" + std::to_string(::getpid()));
  if (group) group->remove();
  findings.push_back(judge_processes(group.has_value(), ProcessTree::can_be_seen()));
  return findings;
}

}  // namespace zkr
