#include "tools/zkr/hold/zookeeper_holder.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <zkclient/log.hpp>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/hold/held_paths.hpp"
#include "tools/zkr/hold/lease_session.hpp"
#include "tools/zkr/hold/waiting_text.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using zkclient::Errc;

constexpr auto first_report_after = 1s;
constexpr auto report_pause = 10s;
constexpr std::chrono::nanoseconds for_ever = std::chrono::years(1);
constexpr auto look_patience = 1s;  // For what is only told.

const char* not_won(Mode mode) {
  if (mode == Mode::joined) return ": another member has the name";
  return mode == Mode::member ? ": the others have not come" : " is not free";
}

/// What the command finds in NOTIFY_SOCKET, without the "@".
std::string notify_socket(const HoldRequest& request) { return request.control_socket + "-notify"; }

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : "\n") + line;
  return text;
}

}  // namespace

ZooKeeperHolder::ZooKeeperHolder(HoldRequest request)
    : request_(std::move(request)), news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), mode_(request_.stake.mode) {
  zkclient::set_log_record_handler([this](const zkclient::LogRecord& record) {
    const bool of_a_lease = record.source == "zkrecipes" && record.level <= zkclient::LogLevel::warning;
    if (of_a_lease || request_.verbose) say(std::string(record.message), of_a_lease);
  });
  zkclient::set_log_level(request_.verbose ? zkclient::LogLevel::info : zkclient::LogLevel::warning);
  try {
    client_.emplace(request_.connection.hosts, request_.connection.options);
    if (request_.start.guardian != nullptr)
      states_ = guard_sessions(*client_, request_.connection, *request_.start.guardian);
    contest_ = make_contest(*client_, request_.stake);
  } catch (const zkclient::Error& error) {
    fail(exit_code_of(error.errc()), explained(error));
    return;
  }
  if (!request_.control_socket.empty()) {
    control_ = ControlServer::open(
        request_.control_socket, [this](const std::string& asked, const ControlReply& reply) { answer(asked, reply); });
  }
  open_notifications();
  worker_ = std::thread([this] { work(); });
}

ZooKeeperHolder::~ZooKeeperHolder() {
  stop();
  notifications_.reset();
  if (client_) client_->close();
  control_.reset();
  if (worker_.joinable()) worker_.join();
  if (teller_.joinable()) teller_.join();
  zkclient::set_log_record_handler({});
}

// ---- For the keeper ----------------------------------------------------------------------------------------------

Lease ZooKeeperHolder::look() {
  drain(news_.get());
  const std::lock_guard lock(mutex_);
  return lease_now();
}

const Lease& ZooKeeperHolder::lease_now() {
  if (lease_.state != LeaseState::held) return lease_;
  // A membership outlives sessions, and nothing has to be proven for it.
  lease_.proven_at = prize_.membership() != nullptr ? BootClock::now() : instant_of(session_->proven_at());
  if (is_leaving()) return lease_;
  const Instant until = instant_of(prize_.valid_until());
  lease_.revoke_asked = lease_.revoke_asked || prize_.revoke_requested();
  // A lease that is uncertain is held until its end.
  if (!prize_.valid()) lease_.state = LeaseState::lost;
  if (lease_.state == LeaseState::held) lease_.valid_until = until;
  return lease_;
}

std::vector<std::string> ZooKeeperHolder::take_messages() {
  const std::lock_guard lock(mutex_);
  return std::exchange(messages_, {});
}

std::string ZooKeeperHolder::holder_in_the_way() const {
  const std::lock_guard lock(mutex_);
  return holder_in_the_way_;
}

std::vector<std::string> ZooKeeperHolder::environment() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> changes = request_.environment;
  const std::int64_t session = prize_.session().id();
  std::vector<std::string> held = request_.held_already;
  for (const HeldPath& one : held_paths(request_.connection, request_.stake, request_.control_socket))
    held.push_back(one.line());
  changes.push_back("ZKR_PATH=" + joined(request_.stake.paths));
  changes.push_back(std::string("ZKR_MODE=") + to_string(request_.stake.mode));
  changes.push_back("ZKR_NODE=" + joined(prize_.nodes()));
  changes.push_back(fmt::format("ZKR_SESSION=0x{:x}", static_cast<std::uint64_t>(session)));
  changes.push_back("ZKR_HELD=" + joined(held));
  changes.push_back("ZKR_SOCKET=" + request_.control_socket);
  if (notifications_) changes.push_back("NOTIFY_SOCKET=@" + notify_socket(request_));
  if (request_.run.watchdog) {
    changes.push_back(fmt::format("WATCHDOG_USEC={}", *request_.run.watchdog / 1us));
    changes.emplace_back("WATCHDOG_PID");  // Of a service manager that watches this process.
  }
  changes.push_back(has_tokens(request_.stake.mode) ? fmt::format("ZKR_TOKEN={}", lease_.token) : "ZKR_TOKEN");
  return changes;
}

void ZooKeeperHolder::command_started() {
  if (request_.ready == Ready::start) tell_ready();
}

void ZooKeeperHolder::release(const std::optional<Ending>&) { stop(); }

void ZooKeeperHolder::stop() {
  stop_.request_stop();                    // Calls what waits for it, so without the mutex.
  { const std::lock_guard lock(mutex_); }  // Whoever has just looked waits by now.
  changed_.notify_all();
}

// ---- The worker --------------------------------------------------------------------------------------------------

void ZooKeeperHolder::work() noexcept {
  try {
    contend_and_hold();
  } catch (const Failure& failure) {
    is_leaving() ? leave() : fail(failure.code(), failure.what());
  } catch (const zkclient::Error& error) {
    is_leaving() ? leave() : fail(exit_code_of(error.errc()), explained(error));
  } catch (const std::exception& error) {
    fail(exit_bug, error.what());
  }
}

void ZooKeeperHolder::contend_and_hold() {
  await_server();
  require_margin(request_.run, client_->session().timeout());
  if (!request_.quiet) teller_ = std::thread([this] { tell_waiting(); });
  Prize prize = win_beside_no_other_kind();
  {
    const std::lock_guard lock(mutex_);
    waiting_ = false;
  }
  changed_.notify_all();
  hold(std::move(prize));
}

zkclient::CallOptions ZooKeeperHolder::call(std::optional<SteadyTime> deadline) const {
  zkclient::CallOptions options;
  options.deadline = deadline;
  options.stop = stop_.get_token();
  return options;
}

void ZooKeeperHolder::await_server() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, request_.start.pause, [this] { return is_leaving(); });
  lock.unlock();
  auto patience = std::chrono::nanoseconds(request_.connection.options.operation_timeout);
  if (request_.timeout && *request_.timeout > 0s) patience = std::min(patience, *request_.timeout);
  if (request_.patient) patience = for_ever;
  try {
    const auto deadline = begun_ + request_.start.pause + patience;
    client_->connect(call(deadline));
    prove(*client_, request_.connection.identities, call(deadline));
  } catch (const zkclient::Error& error) {
    if (error.errc() != Errc::deadline_exceeded) throw;
    fail_without_server();
  }
}

void ZooKeeperHolder::fail_without_server() const {
  const std::string trouble = client_->trouble();
  throw Failure(exit_no_server, "no server answers: " + (trouble.empty() ? request_.connection.hosts : trouble));
}

/// Others may hold it for as long as they like, unless there is a --timeout.
Prize ZooKeeperHolder::win() {
  const auto one_try = std::chrono::steady_clock::now() + request_.connection.options.operation_timeout;
  std::optional<SteadyTime> deadline;
  if (request_.timeout) deadline = begun_ + request_.start.pause + *request_.timeout;
  while (true) {
    try {
      if (!request_.try_once) return contest_->win(call(deadline));
      if (auto prize = contest_->try_to_win(call(one_try))) return std::move(*prize);
      throw zkclient::Error(Errc::deadline_exceeded, "lock", request_.stake.paths[0]);
    } catch (const zkclient::Error& error) {
      if (lost_the_place(error) && !is_leaving()) {
        say("lost the place in the queue (" + std::string(error.what()) + "): waiting again, at the end");
        continue;
      }
      if (error.errc() != Errc::deadline_exceeded) throw;
      const std::string trouble = client_->trouble();
      if (!trouble.empty()) throw Failure(exit_no_server, "no server answers: " + trouble);
      const InTheWay holder = find_holder(call(std::chrono::steady_clock::now() + look_patience));
      {
        const std::lock_guard lock(mutex_);
        holder_in_the_way_ = holder.json;
      }
      throw Failure(static_cast<ExitCode>(request_.not_acquired_code),
                    holder.text.empty() ? request_.stake.paths[0] + not_won(request_.stake.mode) : holder.text);
    }
  }
}

Prize ZooKeeperHolder::win_beside_no_other_kind() {
  while (true) {
    refuse_other_kinds({});  // None is waited for.
    Prize prize = win();
    if (refuse_other_kinds(prize)) return prize;
    say("lost the lease before the command was started: waiting again, at the end");
  }
}

/// Another kind of lock that began at the same time finds our node in the same way. False: the lease is lost, or the
/// session.
bool ZooKeeperHolder::refuse_other_kinds(const Prize& prize) {
  for (const std::string& path : request_.stake.paths) {
    const auto names = list_nodes(path, prize);
    if (!names) return false;
    if (const auto other = node_of_another_kind(*names, request_.stake))
      throw Failure(exit_format, path + ": another kind of lock is in use here (" + *other +
                                     "), which does not see this one: use the same options for all who share a path");
  }
  return true;
}

/// Tries again while the lease lasts, unless the wait has a limit. Nothing: the lease is lost, or the session.
std::optional<std::vector<std::string>> ZooKeeperHolder::list_nodes(const std::string& path, const Prize& prize) {
  const bool limited = request_.try_once || request_.timeout;
  while (prize.valid()) {
    std::error_code error;
    auto names = client_->children(path, call(std::nullopt), error).names;
    if (!error || error == Errc::no_node) return names;
    const zkclient::Error trouble(static_cast<Errc>(error.value()), "children", path);
    if (lost_the_place(trouble) && !is_leaving()) return std::nullopt;
    if (trouble.errc() != Errc::deadline_exceeded) throw trouble;
    if (limited) fail_without_server();
    say("no server answers: waiting for one before the command is started (" + client_->trouble() + ")");
  }
  return std::nullopt;
}

void ZooKeeperHolder::hold(Prize prize) {
  std::vector<std::stop_token> ends;
  {
    const std::lock_guard lock(mutex_);
    prize_ = std::move(prize);
    session_ = prize_.session();
    lease_.state = LeaseState::held;
    lease_.timeout = session_->timeout();
    lease_.granted_at = BootClock::now();
    lease_.token = prize_.token();
    ends = prize_.ends();
  }
  {
    std::vector<std::unique_ptr<std::stop_callback<std::function<void()>>>> told;
    for (const std::stop_token& end : ends)
      told.push_back(std::make_unique<std::stop_callback<std::function<void()>>>(end, [this] { notify(); }));
    const bool joined = prize_.membership() != nullptr;
    std::optional<zkclient::Subscription> presence;
    if (joined) presence = tell_presence(*prize_.membership());
    if (request_.verbose && !joined) tell_deadlines();
    notify();
    work_until_leaving();
  }
  try {
    prize_.release();
    finish(LeaseState::gone);
  } catch (const zkclient::Error&) {
    leave();  // It was lost, and what is left of it goes with the session.
  }
}

/// Who has asked for what is not begun any more is not answered: the lease is over.
void ZooKeeperHolder::work_until_leaving() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_leaving() || !downgrades_.empty(); });
    const std::vector<ControlReply> asked = std::exchange(downgrades_, {});
    if (is_leaving()) return;
    lock.unlock();
    const ControlAnswer answer = downgrade();
    for (const ControlReply& reply : asked)
      reply(answer);
    lock.lock();
  }
}

/// Nothing of the session is left at the servers afterwards, if one of them answers while it can live.
void ZooKeeperHolder::leave() {
  try {
    if (client_->session().id() == 0) return finish(LeaseState::gone);
    client_->connect({.deadline = client_->session().timeout()});
    client_->close();
  } catch (const zkclient::Error&) {
    // It is over by now.
  }
  finish(LeaseState::gone);
}

// ---- What the command asks -----------------------------------------------------------------------------------------

void ZooKeeperHolder::answer(const std::string& request, const ControlReply& reply) {
  if (request == "held") return reply(answer_held());
  if (request == "mode") return reply(answer_mode());
  if (request == "alive") return reply(answer_alive());
  if (request == "downgrade") return ask_for_downgrade(reply);
  if (request == "ready" || request.starts_with("proclaim ")) return publish(request, reply);
  reply({.code = exit_usage, .text = "the lease knows no such question"});
}

ControlAnswer ZooKeeperHolder::answer_held() {
  const std::lock_guard lock(mutex_);
  if (const auto* membership = prize_.membership(); membership != nullptr && !is_leaving()) {
    const bool present = membership->state() == zkrecipes::PresenceState::present;
    return present ? ControlAnswer{} : ControlAnswer{.code = exit_lost, .text = "it is no member now"};
  }
  return held_answer(is_leaving() ? std::nullopt : std::optional(lease_now()));
}

ControlAnswer ZooKeeperHolder::answer_alive() {
  const ControlAnswer held = answer_held();
  if (held.code != exit_success) return held;
  {
    const std::lock_guard lock(mutex_);
    lease_.alive_at = BootClock::now();
  }
  notify();
  return {};
}

ControlAnswer ZooKeeperHolder::answer_mode() {
  const std::lock_guard lock(mutex_);
  ControlAnswer answer = held_answer(is_leaving() ? std::nullopt : std::optional(lease_now()));
  if (answer.code != exit_success) return answer;
  Stake now = request_.stake;
  now.mode = mode_;
  return {.code = exit_success, .text = mode_word(now)};
}

void ZooKeeperHolder::ask_for_downgrade(const ControlReply& reply) {
  if (const auto answer = begin_to_downgrade(reply)) return reply(*answer);
  changed_.notify_all();
}

/// From here on the lease counts as one to read: nobody is to begin to write who learns of it later.
std::optional<ControlAnswer> ZooKeeperHolder::begin_to_downgrade(const ControlReply& reply) {
  const std::lock_guard lock(mutex_);
  const ControlAnswer held = held_answer(is_leaving() ? std::nullopt : std::optional(lease_now()));
  if (held.code != exit_success) return held;
  if (request_.stake.mode == Mode::shared) return ControlAnswer{.text = joined(prize_.nodes())};
  if (request_.stake.mode != Mode::writer)
    return ControlAnswer{.code = exit_usage, .text = "this is held neither by --writer nor by --shared"};
  downgrades_.push_back(reply);
  mode_ = Mode::shared;
  return std::nullopt;
}

/// On the worker's thread. What is a reader's already is left as it is, so it may be asked for again.
ControlAnswer ZooKeeperHolder::downgrade() {
  try {
    for (std::size_t path = 0; path < request_.stake.paths.size(); ++path) {
      if (prize_.is_replaced(path)) continue;
      // For as long as the session lives: whoever gives it up has lost the lease.
      const auto patient = call(std::chrono::steady_clock::now() + 24h);
      zkrecipes::Lease reader = contest_->downgrade(prize_, path, patient);
      const std::lock_guard lock(mutex_);
      prize_.replace(path, std::move(reader));
    }
    return {.text = joined(prize_.nodes())};
  } catch (const zkclient::Error& error) {
    const std::lock_guard lock(mutex_);
    if (!prize_.valid()) return {.code = exit_lost, .text = error.what()};
    if (!prize_.is_any_replaced() && downgrades_.empty()) mode_ = request_.stake.mode;
    return {.code = exit_code_of(error.errc()), .text = error.what()};
  }
}

void ZooKeeperHolder::open_notifications() {
  if (request_.ready != Ready::notify && !request_.run.watchdog) return;
  notifications_ = Notifications::open(notify_socket(request_), [this](const std::string& line) { hear(line); });
}

void ZooKeeperHolder::hear(const std::string& notification) {
  if (notification == "WATCHDOG=1") answer_alive();
  if (notification == "READY=1" && request_.ready == Ready::notify) tell_ready();
}

/// Again and again if a server may not have heard it: the command says it once.
void ZooKeeperHolder::tell_ready() {
  publish("ready", [this](const ControlAnswer& answer) {
    if (answer.code == exit_success || answer.code == exit_lost) return;
    if (answer.code == exit_in_doubt || answer.code == exit_no_server) return tell_ready();
    say("others are not told that the command is ready: " + answer.text, true);
  });
}

/// Servers may take their time, while others ask something else.
void ZooKeeperHolder::publish(const std::string& request,
                              const std::function<void(const ControlAnswer& answer)>& reply) {
  const auto done = [this, reply](const zkclient::Result<void>& result) {
    if (result) return reply({});
    reply({.code = exit_code_of(result.error().errc()), .text = explained(result.error())});
  };
  if (const auto refusal = begin_to_publish(request, done)) reply(*refusal);  // It may need the mutex.
}

std::optional<ControlAnswer> ZooKeeperHolder::begin_to_publish(const std::string& request,
                                                               zkclient::Handler<void> done) {
  try {
    const std::lock_guard lock(mutex_);
    zkrecipes::Leadership* leadership = prize_.leadership();
    if (is_leaving()) return ControlAnswer{.code = exit_lost, .text = "the leadership is over"};
    if (lease_.state == LeaseState::waiting) return ControlAnswer{.code = exit_lost, .text = "nothing is held yet"};
    if (leadership == nullptr) return ControlAnswer{.code = exit_usage, .text = "this is a lock, and no leadership"};
    constexpr std::string_view verb = "proclaim ";
    if (request == "ready") {
      leadership->async_ready(std::move(done));
    } else {
      leadership->async_proclaim(request.substr(verb.size()), std::move(done));
    }
    return std::nullopt;
  } catch (const zkclient::Error& error) {
    return ControlAnswer{.code = exit_code_of(error.errc()), .text = explained(error)};
  }
}

// ---- What is said ------------------------------------------------------------------------------------------------

void ZooKeeperHolder::tell_waiting() {
  std::string told;
  auto pause = std::chrono::seconds(first_report_after);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [this] { return !waiting_ || is_leaving(); })) {
    lock.unlock();
    const std::string text = find_holder(call(std::chrono::steady_clock::now() + look_patience)).text;
    lock.lock();
    if (!waiting_) return;
    if (!text.empty() && text != told) {
      messages_.push_back(text);
      notify();
    }
    told = text;
    pause = report_pause;
  }
}

/// Of the first path that this process waits for.
ZooKeeperHolder::InTheWay ZooKeeperHolder::find_holder(const zkclient::CallOptions& call) {
  try {
    const std::int64_t session = client_->session().id();
    for (std::size_t i = 0; i < request_.stake.paths.size(); ++i) {
      const std::vector<zkrecipes::Contender> contenders = contest_->contenders(i, call);
      const std::string text = waiting_text(contenders, session);
      if (!text.empty()) return {request_.stake.paths[i] + ": " + text, holder_json(contenders, session)};
    }
  } catch (const zkclient::Error&) {
    // It is not worth an error.
  }
  return {};
}

/// Each change after the first: that it has joined is told by the command's start.
zkclient::Subscription ZooKeeperHolder::tell_presence(const zkrecipes::Membership& membership) {
  return membership.on_state([this, was_present = true](zkrecipes::PresenceState state) mutable {
    const bool present = state == zkrecipes::PresenceState::present;
    if (std::exchange(was_present, present) == present || is_leaving()) return;
    say(request_.stake.paths[0] + (present ? ": a member again" : ": no member now: joining again"));
  });
}

void ZooKeeperHolder::tell_deadlines() {
  Lease lease;
  {
    const std::lock_guard lock(mutex_);
    lease = lease_now();
  }
  const Deadlines at = deadlines(lease, request_.run);
  const auto seconds = [&lease](Instant instant) {
    return std::chrono::duration<double>(instant - lease.proven_at).count();
  };
  say(fmt::format("held, token {}; without an answer of a server: TERM after {:.1f} s, KILL after {:.1f} s",
                  lease.token, seconds(at.term_at), seconds(at.kill_at)));
}

std::string ZooKeeperHolder::explained(const zkclient::Error& error) const {
  return explain(error, shown(request_.connection.identities));
}

void ZooKeeperHolder::say(const std::string& text, bool error) {
  if (request_.quiet && !error) return;
  {
    const std::lock_guard lock(mutex_);
    messages_.push_back(text);
  }
  notify();
}

void ZooKeeperHolder::finish(LeaseState state) {
  {
    const std::lock_guard lock(mutex_);
    lease_.state = state;
    waiting_ = false;
  }
  changed_.notify_all();
  notify();
}

void ZooKeeperHolder::fail(int code, const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (lease_.state == LeaseState::failed) return;
    lease_.failure = code;
    messages_.push_back(text);
  }
  finish(LeaseState::failed);
}

void ZooKeeperHolder::notify() const {
  const std::uint64_t one = 1;
  if (::write(news_.get(), &one, sizeof one) < 0) {
    // There is news already.
  }
}

}  // namespace zkr
