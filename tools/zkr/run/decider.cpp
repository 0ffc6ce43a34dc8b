#include "tools/zkr/run/decider.hpp"

#include <algorithm>
#include <csignal>

namespace zkr {
namespace {

using namespace std::chrono_literals;

constexpr Duration leftovers_grace = 2s;  // Of what a command that has ended left behind.
constexpr Duration orphans_grace = 1s;    // Of a command whose front was killed.
constexpr Duration withdraw_patience = 1s;
constexpr Duration told_patience = 5s;

Duration margin(Duration timeout) { return std::max<Duration>(50ms, timeout / 40); }

/// A question with its answer half known: the facts, and what follows from them.
struct Situation {
  const Facts& facts;
  const Past& past;
  const RunOptions& options;
  Deadlines at;

  bool held() const { return facts.lease.state == LeaseState::held; }
  /// Nothing may run any more. (A command that runs without a lease does not count on what it is called.)
  bool over() const { return held() ? facts.now >= at.kill_at : past.started || facts.lease.state == LeaseState::lost; }
  bool in_doubt() const { return held() && facts.now >= at.term_at; }
  Instant held_too_long_at() const {
    return options.max_hold ? facts.lease.granted_at + *options.max_hold : Instant::max();
  }
  Instant drained_at() const { return facts.drained_at.value_or(Instant::max()); }
  /// What is frozen cannot say anything.
  Instant hung_at() const {
    if (!options.watchdog || facts.child != Child::running || past.frozen) return Instant::max();
    return std::max(past.runs_since, facts.lease.alive_at) + *options.watchdog;
  }
  bool asked_to_give_up() const { return facts.lease.revoke_asked && options.on_revoke != 0; }
  bool holds_on_for_descendants(Cause cause) const {
    return cause == Cause::command_ended && options.descendants == Descendants::wait && facts.stop_signal == 0;
  }
};

Cause cause_before_start(const Situation& at) {
  if (at.facts.lease.state == LeaseState::failed) return Cause::not_acquired;
  if (at.over()) return Cause::lost;
  if (at.facts.front_gone) return Cause::front_gone;
  if (at.facts.stop_signal != 0) return Cause::stopped;
  if (at.asked_to_give_up()) return Cause::revoked;
  return Cause::none;
}

Cause cause_while_running(const Situation& at) {
  const bool ended = at.facts.child == Child::ended;
  if (at.over()) return Cause::lost;
  if (ended && !at.holds_on_for_descendants(Cause::command_ended)) return Cause::command_ended;
  if (at.in_doubt() && at.options.on_doubt == OnDoubt::term) return Cause::lost;
  if (at.facts.front_gone) return Cause::front_gone;
  if (at.asked_to_give_up()) return Cause::revoked;
  if (at.facts.now >= at.held_too_long_at()) return Cause::held_too_long;
  if (at.facts.now >= at.drained_at()) return Cause::stopped;
  if (at.facts.now >= at.hung_at()) return Cause::hung;
  return ended ? Cause::command_ended : Cause::none;
}

/// The first cause stays. But whatever it was: what runs at the end of the lease, runs too long. And while the keeper
/// only holds on for descendants, there may be a better reason to end them.
Cause cause_now(const Situation& at) {
  if (at.past.cause == Cause::none) return at.past.started ? cause_while_running(at) : cause_before_start(at);
  if (!at.past.started || at.facts.tree_empty) return at.past.cause;
  if (at.over()) return Cause::lost;
  return at.past.term_sent || at.past.cause != Cause::command_ended ? at.past.cause : cause_while_running(at);
}

Ending ending_of(Cause cause, const Facts& facts, const RunOptions& options) {
  switch (cause) {
    case Cause::command_ended: return facts.child_ending;
    case Cause::lost: return {.code = options.lost_exit_code};
    case Cause::revoked: return {.code = 80};
    case Cause::held_too_long:
    case Cause::hung: return {.code = 81};
    case Cause::stopped: return {.signal = facts.stop_signal};
    case Cause::not_acquired: return {.code = facts.lease.failure};
    case Cause::front_gone:
    case Cause::none: break;
  }
  return {.code = 70};  // Nobody reads it.
}

Decision wait_until(Cause cause, Instant look_at) {
  Decision decision{.cause = cause};
  if (look_at != Instant::max()) decision.look_at = look_at;
  return decision;
}

/// How long the tree may take to end after TERM.
Duration time_to_end(const Situation& at, Cause cause) {
  if (cause == Cause::command_ended) return leftovers_grace;
  if (cause == Cause::front_gone) return orphans_grace;
  return grace(at.facts.lease.timeout, at.options);
}

/// A walk of the tree may miss what is forked meanwhile, so it is repeated: soon, and seldom if nothing dies of it.
Decision kill_again(const Situation& at, Cause cause) {
  const Duration pause = 5ms * (1 << std::min(at.past.kills, 6));
  return {.act = Act::kill, .cause = cause, .look_at = at.facts.now + pause};
}

int soft_signal(const Situation& at, Cause cause) { return cause == Cause::revoked ? at.options.on_revoke : SIGTERM; }

Decision end_tree(const Situation& at, Cause cause) {
  if (!at.past.term_sent) return {.act = Act::term, .cause = cause, .signal = soft_signal(at, cause)};
  const Instant due = std::min(*at.past.term_sent + time_to_end(at, cause), at.at.kill_at);
  return at.facts.now >= due ? kill_again(at, cause) : wait_until(cause, due);
}

Decision let_run(const Situation& at, Cause cause) {
  if (at.in_doubt()) return {.act = Act::freeze, .cause = cause};
  return wait_until(cause, std::min({at.at.term_at, at.held_too_long_at(), at.drained_at(), at.hung_at()}));
}

Decision while_running(const Situation& at, Cause cause) {
  if (at.facts.tree_empty && at.facts.child == Child::ended)
    return {.act = Act::release, .cause = cause, .ending = ending_of(cause, at.facts, at.options)};
  if (at.over() || at.past.kills > 0) return kill_again(at, cause);
  if (at.past.frozen && !at.in_doubt()) return {.act = Act::thaw, .cause = cause};
  if (at.past.frozen) return wait_until(cause, at.at.kill_at);
  if (!at.past.term_sent && (cause == Cause::none || at.holds_on_for_descendants(cause))) return let_run(at, cause);
  if (cause == Cause::command_ended && at.options.descendants == Descendants::leave)
    return {.act = Act::release, .cause = cause};
  return end_tree(at, cause);
}

Decision before_start(const Situation& at, Cause cause) {
  if (at.facts.lease.state == LeaseState::failed || at.facts.lease.state == LeaseState::gone)
    return {.act = Act::exit, .cause = cause, .ending = ending_of(cause, at.facts, at.options)};
  if (cause != Cause::none) return {.act = Act::release, .cause = cause};
  if (at.held() && !at.in_doubt()) return {.act = Act::run};
  return wait_until(cause, at.held() ? at.at.kill_at : Instant::max());
}

bool nothing_left_in_queue(const Facts& facts) {
  return facts.lease.state == LeaseState::gone || facts.lease.state == LeaseState::failed;
}

/// We are to end, or nobody waits for our end any more.
bool is_hurried(const Facts& facts) { return facts.stop_signal != 0 || facts.told_to_end || facts.front_gone; }

Duration patience_with_servers(const Situation& at) {
  const bool hurried = is_hurried(at.facts);
  const bool waits_for_others = at.options.ends_together && hurried;  // That is what a release takes so long for.
  if (at.past.cause == Cause::stopped || waits_for_others) return withdraw_patience;
  const Duration usual = at.options.release_patience;
  return hurried ? std::min(usual, told_patience) : usual;
}

/// When the front has waited long enough for the release. Others are waited for as long as servers answer.
Instant release_due(const Situation& at) {
  const Instant due = *at.past.released + patience_with_servers(at);
  const bool together = at.options.ends_together && at.past.cause == Cause::command_ended && !is_hurried(at.facts);
  if (!together) return due;
  const Instant overdue = at.facts.lease.proven_at + at.facts.lease.timeout / 4;
  return std::max(due, overdue + patience_with_servers(at));
}

/// The front waits for the release, if a server answers; then the keeper, until nothing of the session can be left.
Decision after_release(const Situation& at) {
  const Cause cause = at.past.cause;
  const bool gone = nothing_left_in_queue(at.facts);
  if (!at.past.front_told) {
    const Instant due = release_due(at);
    if (!gone && at.facts.now < due) return wait_until(cause, due);
    return {.act = Act::exit, .cause = cause, .ending = ending_of(cause, at.facts, at.options)};
  }
  const Instant expired = *at.past.front_told + at.facts.lease.timeout;
  return gone || at.facts.now >= expired ? Decision{.act = Act::quit, .cause = cause} : wait_until(cause, expired);
}

}  // namespace

Instant valid_until(Instant proven_at, Duration timeout, bool first_third_after_grant) {
  return proven_at + (first_third_after_grant ? timeout / 3 : timeout * 7 / 12) - margin(timeout);
}

Duration kill_margin(Duration timeout, const RunOptions& options) {
  return options.kill_margin.value_or(std::max<Duration>(250ms, timeout / 40));
}

Duration longest_kill_margin(Duration timeout) { return timeout / 4; }

Duration grace(Duration timeout, const RunOptions& options) {
  const Duration wanted = options.grace.value_or(options.on_doubt == OnDoubt::freeze ? 1s : timeout / 4);
  const Duration most = timeout / 3 - margin(timeout) - kill_margin(timeout, options);
  return std::max(Duration::zero(), std::min(wanted, most));
}

Deadlines deadlines(const Lease& lease, const RunOptions& options) {
  const Instant kill_at = lease.valid_until - kill_margin(lease.timeout, options);
  // A quarter of T after it was sent, a proof is overdue by a twelfth.
  const Instant overdue = lease.proven_at + lease.timeout / 4;
  return {.term_at = std::min(kill_at, std::max(kill_at - grace(lease.timeout, options), overdue)), .kill_at = kill_at};
}

Instant front_kills_at(Instant valid_until, Duration timeout, const RunOptions& options) {
  return valid_until - kill_margin(timeout, options) / 2;
}

Decision decide(const Facts& facts, const Past& past, const RunOptions& options) {
  const Situation at{facts, past, options, deadlines(facts.lease, options)};
  if (past.released || past.front_told) return after_release(at);
  const Cause cause = cause_now(at);
  return past.started ? while_running(at, cause) : before_start(at, cause);
}

Past after(const Past& past, const Facts& facts, const Decision& decision) {
  Past next = past;
  next.cause = decision.cause;
  switch (decision.act) {
    case Act::run:
      next.started = true;
      next.runs_since = facts.now;
      break;
    case Act::term: next.term_sent = facts.now; break;
    case Act::kill: ++next.kills; break;
    case Act::freeze: next.frozen = true; break;
    case Act::thaw:
      next.frozen = false;
      next.runs_since = facts.now;
      break;
    case Act::release: next.released = facts.now; break;
    case Act::exit: next.front_told = facts.now; break;
    case Act::wait:
    case Act::quit: break;
  }
  return next;
}

}  // namespace zkr
