#include "tools/zkr/hold/queue_worker.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <zkclient/log.hpp>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/hold/lease_session.hpp"
#include "tools/zkr/run/command.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using zkclient::Errc;
using zkrecipes::Claim;

constexpr Duration first_back_off = 1s;
constexpr Duration longest_back_off = 60s;
constexpr Duration second_look = 2s;       // For the kind of a queue in which there is nothing yet.
constexpr Duration shortest_wait = 100ms;  // Of one that tells of the next.

std::string text_of(const Ending& ending) {
  return ending.signal != 0 ? fmt::format("signal {}", ending.signal) : fmt::format("exit code {}", ending.code);
}

/// Errors: Failure, as the command would end that cannot be run.
void require_program(const std::string& program) {
  const int error = why_not_runnable(program, std::getenv("PATH"));
  if (error == 0) return;
  throw Failure(error == ENOENT ? exit_no_command : exit_not_runnable, program + ": " + std::strerror(error));
}

/// The item is not ours any more, or may not be: nothing can be done about that.
bool is_over(const zkclient::Error& error) { return error.errc() == Errc::not_held || error.errc() == Errc::in_doubt; }

}  // namespace

// ---- The worker --------------------------------------------------------------------------------------------------

QueueWorker::QueueWorker(WorkRequest request, WorkBoard& board)
    : request_(std::move(request)), board_(board), pause_(first_back_off) {}

QueueWorker::~QueueWorker() { close(); }

std::unique_ptr<Holder> QueueWorker::next_claim(const HolderStart& start) {
  succeeded_ = false;
  if (!news_) news_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::exception_ptr refused;
  try {
    open(start.guardian);
  } catch (const std::exception&) {
    refused = std::current_exception();
  }
  return std::make_unique<ClaimHolder>(*this, refused, start.pause,
                                       fmt::format("{}-{}", request_.control_sockets, ++claims_));
}

void QueueWorker::open(const GuardianProcess* guardian) {
  if (client_) return;
  zkclient::set_log_record_handler([this](const zkclient::LogRecord& record) {
    const bool of_a_lease = record.source == "zkrecipes" && record.level <= zkclient::LogLevel::warning;
    if (of_a_lease || request_.verbose) say(std::string(record.message), of_a_lease);
  });
  zkclient::set_log_level(request_.verbose ? zkclient::LogLevel::info : zkclient::LogLevel::warning);
  client_.emplace(request_.connection.hosts, request_.connection.options);
  if (guardian != nullptr) states_ = guard_sessions(*client_, request_.connection, *guardian);
}

void QueueWorker::close() {
  queue_.reset();
  if (client_) client_->close();
  zkclient::set_log_record_handler({});
}

/// A command that fails may fail because of what it needs, not because of its item: the next one waits.
std::optional<Duration> QueueWorker::run_again(const Ending& ending, Cause cause) {
  if (cause == Cause::not_acquired) return std::nullopt;
  const bool ended = cause == Cause::command_ended && ending.signal == 0;
  if (ended && (ending.code == exit_no_command || ending.code == exit_not_runnable)) return std::nullopt;
  if (succeeded_) {
    pause_ = first_back_off;
    return Duration::zero();
  }
  return std::exchange(pause_, std::min(longest_back_off, pause_ * 2));
}

void QueueWorker::say(const std::string& text, bool error) {
  if (request_.quiet && !error) return;
  {
    const std::lock_guard lock(mutex_);
    messages_.push_back(text);
  }
  notify();
}

std::vector<std::string> QueueWorker::take_messages() {
  const std::lock_guard lock(mutex_);
  return std::exchange(messages_, {});
}

void QueueWorker::notify() const {
  const std::uint64_t one = 1;
  if (::write(news_.get(), &one, sizeof one) < 0) {
    // There is news already.
  }
}

// ---- For the keeper ----------------------------------------------------------------------------------------------

ClaimHolder::ClaimHolder(QueueWorker& worker, std::exception_ptr refused, Duration pause, std::string control_socket)
    : worker_(worker), refused_(std::move(refused)), pause_(pause), control_socket_(std::move(control_socket)) {
  control_ = ControlServer::open(control_socket_,
                                 [this](const std::string& asked, const ControlReply& reply) { answer(asked, reply); });
  thread_ = std::thread([this] { work(); });
}

ClaimHolder::~ClaimHolder() {
  release({});
  const LeaseState state = look().state;
  const bool waits = state != LeaseState::gone && state != LeaseState::failed;
  if (waits && worker_.client_) worker_.client_->close();  // Ends what is waited for.
  control_.reset();
  thread_.join();
}

Lease ClaimHolder::look() {
  drain(worker_.news_.get());
  const std::lock_guard lock(mutex_);
  return lease_now();
}

const Lease& ClaimHolder::lease_now() {
  if (lease_.state != LeaseState::held || is_leaving()) return lease_;
  const Instant until = instant_of(claim_.valid_until());
  lease_.proven_at = instant_of(claim_.session()->proven_at());
  if (!claim_.valid()) lease_.state = LeaseState::lost;
  if (lease_.state == LeaseState::held) lease_.valid_until = until;
  return lease_;
}

std::vector<std::string> ClaimHolder::environment() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> changes = worker_.request_.environment;
  changes.push_back("ZKR_PATH=" + worker_.request_.queue.path);
  changes.emplace_back("ZKR_MODE=claim");
  changes.push_back("ZKR_ITEM=" + claim_.node());
  changes.push_back(fmt::format("ZKR_DELIVERIES={}", claim_.deliveries()));
  changes.push_back(worker_.queue_->has_priorities() ? fmt::format("ZKR_PRIORITY={}", claim_.priority())
                                                     : "ZKR_PRIORITY");
  changes.push_back(fmt::format("ZKR_SESSION=0x{:x}", static_cast<std::uint64_t>(claim_.session()->id())));
  changes.push_back("ZKR_SOCKET=" + control_socket_);
  changes.emplace_back("ZKR_TOKEN");  // What there may be is of a caller's lease.
  changes.emplace_back("ZKR_NODE");
  return changes;
}

std::optional<std::string> ClaimHolder::input() const {
  const std::lock_guard lock(mutex_);
  return claim_.data();
}

void ClaimHolder::release(const std::optional<Ending>& ending) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_leaving()) ending_ = ending;
  }
  stop_.request_stop();                    // Calls what waits for it, so without the mutex.
  { const std::lock_guard lock(mutex_); }  // Whoever has just looked waits by now.
  changed_.notify_all();
}

void ClaimHolder::answer(const std::string& request, const ControlReply& reply) {
  if (request != "held") return reply({.code = exit_usage, .text = "this is a claim, and no leadership"});
  const std::lock_guard lock(mutex_);
  reply(held_answer(is_leaving() ? std::nullopt : std::optional(lease_now())));
}

// ---- The thread --------------------------------------------------------------------------------------------------

void ClaimHolder::work() noexcept {
  const auto fail = [this](int code, const std::string& text) {
    if (is_leaving()) return finish(LeaseState::gone);
    worker_.say(text, true);
    finish(LeaseState::failed, code);
  };
  try {
    claim_and_hold();
  } catch (const Failure& failure) {
    fail(failure.code(), failure.what());
  } catch (const zkclient::Error& error) {
    fail(exit_code_of(error.errc()), explain(error, shown(worker_.request_.connection.identities)));
  } catch (const std::exception& error) {
    fail(exit_bug, error.what());
  }
}

void ClaimHolder::claim_and_hold() {
  if (refused_) std::rethrow_exception(refused_);
  require_program(worker_.request_.program);  // Each claim counts, also of an item that is given back at once.
  if (!worker_.board_.take_ticket()) return finish(LeaseState::failed);
  std::optional<Claim> claim;
  try {
    rest(pause_);
    connect();
    require_margin(worker_.request_.run, worker_.client_->session().timeout());
    claim = await_item();
  } catch (...) {
    worker_.board_.return_ticket();
    throw;
  }
  if (claim) return hold(std::move(*claim));
  worker_.board_.return_ticket();
  finish(LeaseState::failed);
}

/// The first time, who calls may have named servers that are none. Later it waits for them, for as long as it takes.
void ClaimHolder::connect() {
  const zkclient::Client& client = *worker_.client_;
  const auto patience = worker_.request_.connection.options.operation_timeout;
  const auto deadline = worker_.proven_ ? begun_ + std::chrono::years(1) : begun_ + pause_ + patience;
  try {
    client.connect(call(deadline));
    if (!worker_.proven_) prove(client, worker_.request_.connection.identities, call(deadline));
    worker_.proven_ = true;
  } catch (const zkclient::Error& error) {
    if (error.errc() != Errc::deadline_exceeded) throw;
    const std::string trouble = client.trouble();
    throw Failure(exit_no_server,
                  "no server answers: " + (trouble.empty() ? worker_.request_.connection.hosts : trouble));
  }
}

void ClaimHolder::find_queue() {
  if (worker_.queue_ && worker_.queue_->is_certain()) return;
  worker_.queue_.emplace(*worker_.client_, worker_.request_.queue, call());
  if (worker_.queue_->knows_claims()) return;
  throw Failure(exit_usage, worker_.request_.queue.path + ": consumers of the layout " + worker_.queue_->layout() +
                                " take what others have claimed: use zkr queue pop");
}

std::optional<Claim> ClaimHolder::await_item() {
  if (worker_.request_.verbose) worker_.say("waiting for an item");
  while (true) {
    try {
      find_queue();
      std::optional<SteadyTime> deadline = idle_at();
      const SteadyTime look_again = std::chrono::steady_clock::now() + second_look;
      if (!worker_.queue_->is_certain()) deadline = deadline ? std::min(*deadline, look_again) : look_again;
      if (auto claim = await_item_until(deadline)) return claim;
      if (is_idle()) return (*worker_.queue_)->try_claim(call());  // It throws if no server says that there is none.
    } catch (const zkclient::Error& error) {
      const bool no_answer = error.errc() == Errc::deadline_exceeded || lost_the_place(error);
      if (is_leaving() || !no_answer) throw;
      rest(shortest_wait);
    }
  }
}

std::optional<Claim> ClaimHolder::await_item_until(std::optional<SteadyTime> deadline) {
  zkrecipes::QueueBase& queue = **worker_.queue_;
  if (!deadline) return queue.claim(call());
  std::error_code why;
  auto claim = queue.try_claim_until(*deadline, {why, stop_.get_token()});
  if (!claim && why != Errc::not_available) rest(shortest_wait);  // No server answers.
  return claim;
}

/// While an item is worked on beside us, nobody is idle.
std::optional<ClaimHolder::SteadyTime> ClaimHolder::idle_at() const {
  if (!worker_.request_.idle_exit) return std::nullopt;
  const auto patience = *worker_.request_.idle_exit;
  const SteadyTime now = std::chrono::steady_clock::now();
  const auto since = worker_.board_.idle_since();
  if (!since) return now + std::max(patience, shortest_wait);
  return std::max(*since + patience, now);
}

bool ClaimHolder::is_idle() const {
  if (!worker_.request_.idle_exit) return false;
  const auto since = worker_.board_.idle_since();
  return since && std::chrono::steady_clock::now() >= *since + *worker_.request_.idle_exit;
}

void ClaimHolder::hold(Claim claim) {
  worker_.board_.item_begins();
  {
    const std::lock_guard lock(mutex_);
    claim_ = std::move(claim);
    lease_.state = LeaseState::held;
    lease_.timeout = claim_.session()->timeout();
    lease_.granted_at = BootClock::now();
  }
  {
    const std::stop_callback told(claim_.lost(), [this] { worker_.notify(); });
    worker_.notify();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_leaving(); });
  }
  settle();
  worker_.board_.item_ends();
  finish(LeaseState::gone);
}

// ---- What becomes of the item ------------------------------------------------------------------------------------

void ClaimHolder::settle() {
  const std::string item = printable(claim_.node());
  try {
    const bool with_code = ending_ && ending_->signal == 0;
    if (with_code && ending_->code == exit_success) return commit();
    if (with_code && ending_->code == worker_.request_.reject_code) return reject();
    give_back(ending_ ? text_of(*ending_) : "ended by us");
  } catch (const zkclient::Error& error) {
    worker_.say(fmt::format("{}: {}", item, explain(error, shown(worker_.request_.connection.identities))), true);
  }
}

void ClaimHolder::commit() {
  try {
    claim_.commit({.deadline = std::chrono::hours(24)});
    worker_.succeeded_ = true;
  } catch (const zkclient::Error& error) {
    worker_.say(fmt::format("{}: done, and it may be delivered again: {}", printable(claim_.node()), error.what()),
                true);
    if (!is_over(error)) give_back("not committed");
  }
}

void ClaimHolder::reject() {
  try {
    claim_.reject(text_of(*ending_), {.deadline = std::chrono::hours(24)});
  } catch (const zkclient::Error& error) {
    if (!is_over(error)) throw;
    return worker_.say(fmt::format("{}: {}: it may be delivered again, and not be a dead letter: {}",
                                   printable(claim_.node()), text_of(*ending_), error.what()),
                       true);
  }
  worker_.say(fmt::format("{}: {}: it is a dead letter now", printable(claim_.node()), text_of(*ending_)));
  worker_.succeeded_ = true;
}

void ClaimHolder::give_back(const std::string& why) {
  const std::string item = printable(claim_.node());
  const int most = worker_.request_.queue.options.max_deliveries;
  const bool last = most > 0 && claim_.deliveries() >= most;
  const std::string delivery = most > 0 ? fmt::format("delivery {} of {}", claim_.deliveries(), most)
                                        : fmt::format("delivery {}", claim_.deliveries());
  try {
    claim_.give_back({.deadline = std::chrono::hours(24)});
  } catch (const zkclient::Error& error) {
    if (!is_over(error)) throw;
    return worker_.say(fmt::format("{}: {}, {}: the claim is lost", item, why, delivery));
  }
  worker_.say(fmt::format("{}: {}, {}: {}", item, why, delivery, last ? "it is a dead letter now" : "given back"));
}

void ClaimHolder::rest(Duration pause) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, pause, [this] { return is_leaving(); });
}

zkclient::CallOptions ClaimHolder::call(std::optional<SteadyTime> deadline) const {
  zkclient::CallOptions options;
  options.deadline = deadline;
  options.stop = stop_.get_token();
  return options;
}

void ClaimHolder::finish(LeaseState state, int failure) {
  {
    const std::lock_guard lock(mutex_);
    lease_.state = state;
    lease_.failure = failure;
  }
  changed_.notify_all();
  worker_.notify();
}

}  // namespace zkr
