#include "director.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace tour {
namespace {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr auto reading_time = 1500ms;  // Before an act, for people to read what it is about.
constexpr auto step_limit = 20s;       // Plus some session timeouts: a server may grant long ones.
constexpr auto total_limit = 120s;
constexpr auto slowness = 10s;  // Of a busy machine, on top of what the sessions' timeout makes all wait.

std::vector<std::string> crew_names() { return {"ann", "bob", "cat", "dan", "eve"}; }

std::string seconds(milliseconds time) { return fmt::format("{:.1f} s", static_cast<double>(time.count()) / 1000); }

milliseconds since(Clock::time_point start, Clock::time_point end = Clock::now()) {
  return duration_cast<milliseconds>(end - start);
}

Tone tone_of(EventKind kind) {
  switch (kind) {
    case EventKind::leads: return Tone::leader;
    case EventKind::releases:
    case EventKind::resigned:
    case EventKind::left: return Tone::quiet;
    case EventKind::refused:
    case EventKind::lost:
    case EventKind::deposed:
    case EventKind::retries: return Tone::bad;
    default: return Tone::plain;
  }
}

}  // namespace

Director::Director(const SignalWatch& signals, Stage& stage, Look look)
    : signals_(signals),
      stage_(stage),
      names_(crew_names()),
      timeline_(names_, look),
      minutes_(names_),
      may_end_(names_.size()),
      ended_(names_.size()),
      crew_(signals) {}

bool Director::play() {
  introduce();
  act_one();
  act_two();
  act_three();
  act_four();
  return summarise();
}

// ---- The acts ------------------------------------------------------------------------------------

void Director::introduce() {
  timeline_.line("zkrecipes: five processes, one leader, one lock, one shared file", Tone::strong);
  timeline_.line("");
  timeline_.line(
      fmt::format("  server  {} ({})", stage_.connect_string(),
                  stage_.own_server() ? "a ZooKeeper of our own, ends with the tour" : "from ZKRECIPES_SERVER"));
  timeline_.line(fmt::format("  nodes   {}", stage_.prefix().str()));
  timeline_.line(fmt::format("  file    {}", stage_.store().file().string()));
  timeline_.line("          (a store that refuses a lower token than it has seen)");
  timeline_.legend();
}

void Director::act_one() {
  for (const auto& name : names_) {
    crew_.hire({"worker", name, stage_.connect_string(), stage_.prefix().str(), stage_.store().file().string(),
                std::to_string(::getpid())});
  }
  begin_act("Act 1: elect a leader, take turns",
            {"Five processes start. One is elected leader; the others stand in line to follow it.",
             "They take turns under a fair lock; the holder adds an entry to the shared file.",
             "Each turn has a fencing token: a number higher than that of any turn before."});
  tell_all(Command::work);
  await("a leader, and a turn of each worker", [this] {
    const auto turns = counts(EventKind::releases);
    return leader() && std::find(turns.begin(), turns.end(), 0U) == turns.end();
  });
  end_act();
}

void Director::act_two() {
  begin_act("Act 2: the leader is killed",
            {"SIGKILL: no farewell. The server cannot tell a dead process from a silent one, so it waits",
             fmt::format("for the session timeout ({}) before the leadership is free for the next in line.",
                         seconds(session_timeout_)),
             "The lock goes round meanwhile: the one that dies has just released it."});
  const auto before = counts(EventKind::released);
  tell_all(Command::work);
  await("a turn of the leader", [&] {
    const auto who = leader();
    return who && minutes_.count(*who, EventKind::released) > before[*who];
  });

  const auto victim = *leader();
  may_end_[victim] = true;
  crew_.process(victim).kill();
  const auto at = Clock::now();
  killed_ = victim;
  minutes_.note_killed(victim, at);
  timeline_.lane(victim) = {.name = names_[victim], .health = Lane::Health::dead};
  timeline_.row(at, fmt::format(">>> kill -9 {}, the leader", names_[victim]), Tone::director);

  await("a new leader", [this] { return leader().has_value(); });
  const auto next = minutes_.leaders().back();
  takeover_after_kill_ = since(at, next.from);
  timeline_.row(Clock::now(),
                fmt::format(">>> {} took over {} after the kill", names_[next.worker], seconds(takeover_after_kill_)),
                Tone::director);
  end_act();
}

void Director::act_three() {
  begin_act("Act 3: a lock holder is paused for longer than its lease lasts",
            {"It has looked at its lease, all is well, it is about to write: then it is stopped (SIGSTOP),",
             "as by swapping, a debugger, or the lid of a laptop. Its session times out, others go on.",
             "Woken up, it writes, late. No lock can prevent that; the store refuses its old token."});
  const auto crew = present();
  const auto victim =
      *std::find_if(crew.begin(), crew.end(), [this](std::size_t worker) { return worker != leader(); });
  const auto said = [&](EventKind kind) { return minutes_.count(victim, kind); };
  crew_.tell(victim, Command::dwell);
  tell_all(Command::work);
  await("a holder that is about to write", [&] { return said(EventKind::dwells) > 0; });
  const auto paused_at = Clock::now();
  freeze(victim);

  const auto total = minutes_.holders().size();
  await("another holder", [&] { return minutes_.holders().size() > total; });
  timeline_.row(
      Clock::now(),
      fmt::format(">>> the lock went on {} after the pause", seconds(since(paused_at, minutes_.holders().back().from))),
      Tone::director);
  await("turns of others", [&] { return minutes_.holders().size() >= total + 3; });

  const auto turns = said(EventKind::holds);
  const auto losses = said(EventKind::lost);
  thaw(victim);
  await("the late write, and the holder to notice that its lease is lost",
        [&] { return said(EventKind::refused) > 0 && said(EventKind::lost) > losses; });
  await("a new turn of the one that was paused", [&] { return said(EventKind::holds) > turns; });
  end_act();
}

void Director::act_four() {
  begin_act("Act 4: an orderly end", {"The leader resigns: handing over takes milliseconds, not a session timeout.",
                                      "Then everybody leaves: the sessions are closed, not left to time out.",
                                      "Nothing of theirs stays on the server."});
  await("a leader", [this] { return leader().has_value(); });
  const auto first = leader();
  crew_.tell(*first, Command::leave);
  await("the resignation", [&] { return leader() != first; });
  await("the next leader", [&] { return leader().has_value(); });
  const auto& leaders = minutes_.leaders();
  const auto resigned =
      std::find_if(leaders.rbegin(), leaders.rend(), [&](const Tenure& tenure) { return tenure.worker == *first; });
  takeover_after_resignation_ = since(*resigned->until, leaders.back().from);
  await("the end of the one that resigned", [&] { return ended_[*first]; });

  auto followers = present();
  std::erase(followers, leaders.back().worker);
  dismiss(followers);
  dismiss(present());
}

bool Director::summarise() {
  const auto ephemerals = stage_.ephemeral_nodes();
  const auto contenders = stage_.contenders();
  const auto late = minutes_.late_writes_refused();
  const std::vector<Check> checks{
      minutes_.check_leaders(),
      {.passed = takeover_after_kill_ > 0ms && takeover_after_kill_ < 3 * session_timeout_ + slowness,
       .text = fmt::format("takeover: {} after the kill, {} ms after the resignation", seconds(takeover_after_kill_),
                           takeover_after_resignation_.count())},
      minutes_.check_holders(),
      minutes_.check_turns(),
      {.passed = late > 0, .text = fmt::format("late writes: {} refused, none let in", late)},
      minutes_.check_ledger(stage_.store().entries()),
      {.passed = ephemerals == 0 && contenders == 0,
       .text = fmt::format("left behind: {} ephemeral nodes, {} contenders in the queues", ephemerals, contenders)},
  };
  timeline_.act("Summary", {});
  bool passed = true;
  for (const auto& check : checks) {
    timeline_.check(check.passed, check.text);
    passed = passed && check.passed;
  }
  timeline_.line("");
  timeline_.line(
      fmt::format("{} ({})", passed ? "All is as it should be." : "SOMETHING IS NOT AS IT SHOULD BE: see [FAIL] above.",
                  seconds(since(timeline_.start()))),
      passed ? Tone::good : Tone::bad);
  return passed;
}

// ---- Directions ----------------------------------------------------------------------------------

void Director::begin_act(std::string_view title, const std::vector<std::string>& explanation) {
  timeline_.act(title, explanation);
  timeline_.heads();
  signals_.pause(reading_time);
}

void Director::end_act() {
  const auto before = counts(EventKind::rests);
  tell_all(Command::rest);
  await("everybody to finish the turn", [&] {
    const auto workers = present();
    return std::all_of(workers.begin(), workers.end(),
                       [&](std::size_t worker) { return minutes_.count(worker, EventKind::rests) > before[worker]; });
  });
}

void Director::freeze(std::size_t worker) {
  crew_.process(worker).pause();
  timeline_.lane(worker).health = Lane::Health::paused;
  timeline_.row(Clock::now(), fmt::format(">>> kill -STOP {}", names_[worker]), Tone::director);
  // It finds this when it wakes up, and goes on where it was stopped.
  crew_.tell(worker, Command::write);
}

void Director::thaw(std::size_t worker) {
  timeline_.lane(worker).health = Lane::Health::fine;
  timeline_.row(Clock::now(), fmt::format(">>> kill -CONT {}", names_[worker]), Tone::director);
  crew_.process(worker).resume();
}

void Director::dismiss(const std::vector<std::size_t>& workers) {
  for (const auto worker : workers) {
    crew_.tell(worker, Command::leave);
  }
  await("the end of the workers", [&] {
    return std::all_of(workers.begin(), workers.end(), [this](std::size_t worker) { return ended_[worker]; });
  });
}

void Director::tell_all(Command command) const {
  for (const auto worker : present()) {
    crew_.tell(worker, command);
  }
}

// ---- What the workers report ---------------------------------------------------------------------

void Director::await(std::string_view what, const std::function<bool()>& done) {
  const auto limit = std::min(Clock::now() + step_limit + 3 * session_timeout_,
                              timeline_.start() + total_limit + 6 * session_timeout_);
  while (!done()) {
    const auto reports = crew_.listen(limit);
    if (reports.empty()) {
      throw Failure(fmt::format("waited too long for {}", what));
    }
    for (const auto& report : reports) {
      on_report(report);
    }
  }
}

void Director::on_report(const Report& report) {
  if (report.ended) {
    on_end(report.worker);
    return;
  }
  const auto& event = report.event;
  minutes_.note(report.worker, event);
  // What a dead process said may arrive after its death.
  if (report.worker != killed_) {
    update_lane(report.worker, event);
  }
  show(report.worker, event);
  if (event.kind == EventKind::joined) {
    session_timeout_ = milliseconds(event.number);
  } else if (event.kind == EventKind::left) {
    may_end_[report.worker] = true;
  } else if (event.kind == EventKind::fails) {
    throw Failure(fmt::format("{}: {}", names_[report.worker], event.text));
  }
}

void Director::on_end(std::size_t worker) {
  ended_[worker] = true;
  const int code = crew_.dismiss(worker);
  if (!may_end_[worker] || (code != 0 && worker != killed_)) {
    throw Failure(code < 0 ? fmt::format("{} was killed by signal {}", names_[worker], -code)
                           : fmt::format("{} ended with exit code {}", names_[worker], code));
  }
}

void Director::update_lane(std::size_t worker, const Event& event) {
  auto& lane = timeline_.lane(worker);
  switch (event.kind) {
    case EventKind::leads: lane.leads = true; break;
    case EventKind::deposed:
    case EventKind::resigned: lane.leads = false; break;
    case EventKind::queues: lane.lock = Lane::Lock::waits; break;
    case EventKind::holds: lane.lock = Lane::Lock::holds; break;
    case EventKind::releases:
    case EventKind::lost:
    case EventKind::rests:
    case EventKind::retries: lane.lock = Lane::Lock::none; break;
    case EventKind::left: lane = {.name = names_[worker], .health = Lane::Health::gone}; break;
    default: break;
  }
}

void Director::show(std::size_t worker, const Event& event) {
  std::string what;
  switch (event.kind) {
    case EventKind::leads: what = "leads"; break;
    case EventKind::resigned: what = "resigns"; break;
    case EventKind::deposed: what = "NOTICES: leads no more"; break;
    case EventKind::holds: what = "holds the lock"; break;
    case EventKind::releases: what = "has written, releases"; break;
    case EventKind::dwells: what = "checks its lease: valid"; break;
    case EventKind::refused: what = "writes late: REFUSED"; break;
    case EventKind::lost: what = "NOTICES: the lease is lost"; break;
    case EventKind::left: what = "has closed its session, ends"; break;
    case EventKind::retries:
    case EventKind::fails: what = event.text; break;
    default: return;
  }
  const bool term =
      event.kind == EventKind::leads || event.kind == EventKind::resigned || event.kind == EventKind::deposed;
  std::string text = fmt::format("{} {}", names_[worker], what);
  if (event.token != 0) {
    text = fmt::format("{:<30} {} {}", text, term ? "term" : "token", event.token);
  }
  if (event.kind == EventKind::refused) {
    text += fmt::format(" < {}", event.number);
  }
  timeline_.row(event.at, text, tone_of(event.kind));
}

std::vector<std::size_t> Director::present() const {
  std::vector<std::size_t> workers;
  for (std::size_t worker = 0; worker < names_.size(); ++worker) {
    if (!ended_[worker] && worker != killed_) {
      workers.push_back(worker);
    }
  }
  return workers;
}

std::vector<std::size_t> Director::counts(EventKind kind) const {
  std::vector<std::size_t> counts;
  for (std::size_t worker = 0; worker < names_.size(); ++worker) {
    counts.push_back(minutes_.count(worker, kind));
  }
  return counts;
}

std::optional<std::size_t> Director::leader() const {
  const auto& leaders = minutes_.leaders();
  if (leaders.empty() || leaders.back().until) {
    return std::nullopt;
  }
  return leaders.back().worker;
}

}  // namespace tour
