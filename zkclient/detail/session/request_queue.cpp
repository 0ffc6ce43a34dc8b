#include "zkclient/detail/session/request_queue.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zkclient/detail/metrics/call_record.hpp"
#include "zkclient/detail/probes.hpp"
#include "zkclient/detail/requests/paths.hpp"
#include "zkclient/detail/requests/sequential.hpp"
#include "zkclient/detail/session/connection.hpp"
#include "zkclient/detail/session/quota_report.hpp"

namespace zkclient::detail {
namespace {

// Requests handed to the C client at a time; the others wait here, where they can still be taken back.
constexpr int max_in_flight = 2048;
constexpr auto no_room_to_watch = "the paths of all watches together would be too long to renew after a reconnection";
// The server's default jute.maxbuffer, which a request must not reach; it would drop the connection.
constexpr std::size_t max_request_bytes = 1'048'575 - 512;

// A failed transaction, in words: the first operation that has a reason of its own.
std::string describe_failure(const Path& prefix, const Request& request, const std::vector<int>& codes) {
  for (std::size_t i = 0; i < codes.size() && i < request.operations.size(); ++i) {
    if (codes[i] == rc::ok || codes[i] == rc::runtime_inconsistency) continue;
    struct Name {
      const char* operator()(const Transaction::Create&) const { return "create"; }
      const char* operator()(const Transaction::Set&) const { return "set"; }
      const char* operator()(const Transaction::Remove&) const { return "remove"; }
      const char* operator()(const Check&) const { return "check"; }
    };
    const auto& operation = request.operations[i];
    const std::string& path = std::visit([](const auto& op) -> const std::string& { return op.path.str(); }, operation);
    return fmt::format("operation {} of {}, {} {}: {}", i + 1, codes.size(), std::visit(Name{}, operation),
                       without_prefix(prefix, path), make_error_code(rc::to_errc(codes[i])).message());
  }
  return {};
}

// The server would make a node that no path can name.
bool outgrows_a_path(const std::string& path, CreateMode mode) {
  constexpr std::size_t digits = 10;
  return is_sequential(mode) && path.size() + digits > Path::max_size;
}
bool outgrows_a_path(const Request& request) {
  if (request.type == OpType::create) return outgrows_a_path(request.path, request.mode);
  return std::any_of(request.operations.begin(), request.operations.end(), [](const auto& operation) {
    const auto* create = std::get_if<Transaction::Create>(&operation);
    return create != nullptr && outgrows_a_path(create->path.str(), create->mode);
  });
}

// The others are not sent, or have no answer.
bool is_counted(const Op& op) { return op.request.type != OpType::connect && op.request.type != OpType::authenticate; }

}  // namespace

RequestQueue::RequestQueue(EventLoop& events, const ClientOptions& options, const TroubleReport& trouble,
                           CallBudget& budget, Meter* meter, Lifeline whole)
    : events_(events),
      options_(options),
      trouble_(trouble),
      budget_(budget),
      meter_(meter),
      whole_(std::move(whole)),
      deadlines_(events, whole_, [this](const std::shared_ptr<Op>& op) { give_up(op, Errc::deadline_exceeded); }) {}

void RequestQueue::close() noexcept {
  closing_ = true;
  deadlines_.stop();
}

void RequestQueue::start(Request request, const Call& call, Op::Done done) {
  const auto op = std::make_shared<Op>();
  op->request = std::move(request);
  op->done = std::move(done);
  op->deadline = call.deadline;
  op->bound = call.bound;
  op->only_on = call.only_on;
  if (call.cancel != nullptr) {
    op->cancel_guard = CancelScope::Guard(call.cancel, [this, weak = std::weak_ptr<Op>(op)] {
      if (const auto alive = weak.lock()) give_up(alive, Errc::cancelled);
    });
    if (call.cancel->requested()) {
      give_up(op, Errc::cancelled);
      return;
    }
  }
  start(op);
}

void RequestQueue::start(const std::shared_ptr<Op>& op) {
  if (op->state != Op::State::idle) return;  // Cancelled before it began.
  if (meter_ != nullptr) meter_begin(*op);
  if (closing_ || connection_ == nullptr) {
    fail(op, Errc::closed);
  } else if (op->bound != nullptr && (op->bound != connection_->session() || op->bound->over())) {
    fail(op, Errc::session_lost, op->bound->end_reason());
  } else if (op->deadline && *op->deadline <= std::chrono::steady_clock::now()) {
    give_up(op, Errc::deadline_exceeded);
  } else if (outgrows_a_path(op->request)) {
    fail(op, Errc::invalid_path, "it is longer than 64 KiB with the number that the server puts behind it");
  } else if (op->request.wire_size() > max_request_bytes) {
    fail(op, Errc::too_large,
         fmt::format("it takes {} bytes of at most {}", op->request.wire_size(), max_request_bytes));
  } else if (is_too_large(*op)) {
    refuse_size(op);
  } else if (!op->urgent && !room_to_wait()) {
    fail(op, Errc::overloaded, "too many requests are waiting");
  } else if (op->request.watch && !connection_->watches().has_room(op->request.path, watch_kind(op->request.type))) {
    fail(op, Errc::overloaded, no_room_to_watch);
  } else {
    op->state = Op::State::waiting;
    op->urgent ? waiting_.push_front(op) : waiting_.push_back(op);
    pump();
    if (op->state != Op::State::done) deadlines_.add(op);
  }
}

bool RequestQueue::room_to_wait() {
  if (waiting_.size() < CallBudget::max_calls) return true;
  forget_abandoned();
  return waiting_.size() < CallBudget::max_calls;
}

void RequestQueue::forget_abandoned() {
  std::erase_if(waiting_, [](const auto& op) { return op->state != Op::State::waiting; });
  abandoned_ = 0;
}

void RequestQueue::flush() {
  if (connection_ != nullptr && connection_->handle() != nullptr) connection_->handle()->send_gathered();
}

bool RequestQueue::sends_at_once() {
  if (closing_ || connection_ == nullptr || !connection_->connected()) return false;
  if (connection_->draining() || connection_->taking_over() || alone_ != nullptr || !waiting_.empty()) return false;
  return connection_->handle()->in_flight() < max_in_flight && connection_->handle()->has_room();
}

// A session must not end because a large request takes long: heartbeats go beside it.
bool RequestQueue::may_send(const Op& op) const {
  if (op.urgent) return true;
  return alone_ == nullptr && !connection_->taking_over() && connection_->handle()->in_flight() < max_in_flight;
}

void RequestQueue::pump() {
  if (connection_->draining()) {
    connection_->check_drained();
    return;
  }
  while (!waiting_.empty() && connection_->connected() && may_send(*waiting_.front())) {
    const std::shared_ptr<Op> op = std::move(waiting_.front());
    waiting_.pop_front();
    if (op->state != Op::State::waiting) continue;
    if (op->request.type == OpType::connect) {
      op->reply.session = connection_->session();
      finish(op);
      continue;
    }
    if (op->deadline && *op->deadline <= std::chrono::steady_clock::now()) {
      give_up(op, Errc::deadline_exceeded);  // The process was stopped, say: its timer has not run yet.
      continue;
    }
    if (comes_too_late(*op)) {
      fail(op, Errc::connection_loss, "what it rests on may have changed: it had to wait");
      continue;
    }
    if (is_too_large(*op)) {
      refuse_size(op);
      continue;
    }
    op->sent_bytes = op->request.wire_size();
    const bool alone = !op->urgent && !suspects_.empty() && suspects_.is_suspect(op->sent_bytes, BootClock::now());
    if (!connection_->handle()->has_room() || (alone && connection_->handle()->in_flight() != 0)) {
      waiting_.push_front(op);
      return;
    }
    const WatchRegistry::Kind kind = watch_kind(op->request.type);
    if (op->request.watch && !connection_->watches().reserve(op->request.path, kind)) {
      fail(op, Errc::overloaded, no_room_to_watch);
      continue;
    }
    op->state = Op::State::in_flight;
    if (++op->attempts > 1 && meter_ != nullptr) meter_->count(Metrics::Counter::retries);
    if (alone) {
      alone_ = op;
      alone_is_largest_ = true;
    } else if (alone_ != nullptr && op->sent_bytes >= alone_->sent_bytes) {
      alone_is_largest_ = false;
    }
    if (connection_->handle()->submit(op)) {
      probe::request_sent(op.get(), to_string(op->request.type), op->request.path, op->attempts);
      continue;
    }
    if (alone) alone_.reset();
    if (op->request.watch) connection_->watches().settle(op->request.path, kind, false);
    op->state = Op::State::waiting;
    --op->attempts;
    waiting_.push_front(op);
    return;
  }
}

bool RequestQueue::comes_too_late(const Op& op) {
  return op.only_on && op.bound != nullptr && op.bound->connections() != *op.only_on;
}

// Heartbeats are never held up, nor refused.
bool RequestQueue::is_too_large(const Op& op) {
  return !op.urgent && !suspects_.empty() && suspects_.is_refused(op.request.wire_size(), BootClock::now());
}

void RequestQueue::refuse_size(const std::shared_ptr<Op>& op) {
  fail(op, Errc::too_large,
       fmt::format(
           "{} bytes: as many, or fewer, have cost the connection twice; the server's jute.maxbuffer is smaller, it "
           "seems",
           op->request.wire_size()));
}

// Learns from the fate of a request what the server takes.
void RequestQueue::judge_size(const std::shared_ptr<Op>& op, bool left, std::chrono::nanoseconds round_trip) {
  const bool alone = alone_ == op;
  if (alone) alone_.reset();
  if (op->answered) {
    suspects_.answered(op->sent_bytes);
  } else if (rc::is_loss(op->code) && !closing_ && !left && !op->urgent) {
    suspects_.lost(op->sent_bytes, alone && alone_is_largest_, op->reply.sent, BootClock::now(), round_trip);
  }
}

void RequestQueue::on_reply(const std::shared_ptr<Op>& op, bool left, std::chrono::nanoseconds round_trip) {
  judge_size(op, left, round_trip);
  if (!closing_) pump();  // There is room for another one.
  if (op->state != Op::State::in_flight) return;
  Reply& reply = op->reply;
  if (op->code == rc::ok) {
    finish(op);
  } else if (!rc::is_loss(op->code)) {
    const bool transaction = op->request.type == OpType::multi && !reply.codes.empty() && !rc::is_of_request(op->code);
    reply.detail = transaction ? describe_failure(options_.prefix, op->request, reply.codes) : std::string();
    reply.error = transaction ? Errc::transaction_failed : rc::to_errc(op->code);
    const std::string full = refused_by_quota(*op);
    if (!full.empty()) op->done = with_quota_report(*this, options_.prefix, full, op->deadline, std::move(op->done));
    finish(op);
  } else if (op->request.is_write()) {
    fail(op, Errc::in_doubt, why_lost(*op));
  } else if (closing_) {
    fail(op, Errc::closed);
  } else if (op->bound != nullptr && op->bound->over()) {
    fail(op, Errc::session_lost, op->bound->end_reason());
  } else {
    retry(op);
  }
}

std::string RequestQueue::why_lost(const Op& op) const {
  return op.reply.session != nullptr && op.reply.session->over() ? op.reply.session->end_reason() : trouble_.text();
}

void RequestQueue::retry(const std::shared_ptr<Op>& op) {
  const auto now = std::chrono::steady_clock::now();
  const auto remaining = op->deadline ? std::chrono::duration_cast<std::chrono::milliseconds>(*op->deadline - now)
                                      : std::chrono::milliseconds::max();
  const double random = std::uniform_real_distribution<double>(0.0, 1.0)(random_);
  const auto pause = options_.retry.pause(op->attempts, remaining, random);
  if (!pause && op->attempts < options_.retry.max_attempts) {  // No time for a pause: the deadline decides.
    op->state = Op::State::idle;
    start(op);
    return;
  }
  if (!pause) {
    const std::string why = trouble_.text();
    fail(op, Errc::connection_loss,
         fmt::format("given up after {} attempts{}{}", op->attempts, why.empty() ? "" : ": ", why));
    return;
  }
  op->state = Op::State::pausing;
  auto timer = std::make_unique<Timer>(events_);
  timer->set_after(*pause, [this, whole = whole_.lock(), op] { end_pause(op); });
  pausing_.emplace(op, std::move(timer));
}

void RequestQueue::end_pause(const std::shared_ptr<Op>& op) {
  pausing_.erase(op);
  if (op->state != Op::State::pausing) return;
  op->state = Op::State::idle;
  start(op);
}

void RequestQueue::end_session() {
  alone_.reset();  // The next session need not wait for what this one has lost.
  for (const auto& [op, timer] : std::exchange(pausing_, {}))
    events_.defer([this, whole = whole_.lock(), waiting = op] { end_pause(waiting); });
}

void RequestQueue::fail(const std::shared_ptr<Op>& op, Errc code, std::string detail) {
  op->reply.error = code;
  op->reply.detail = std::move(detail);
  finish(op);
}

void RequestQueue::give_up(const std::shared_ptr<Op>& op, Errc code) {
  if (op->state == Op::State::done) return;
  const bool sent = op->state == Op::State::in_flight && op->request.is_write();
  op->reply.given_up = code;
  if (sent) {
    const std::string why = trouble_.text();
    fail(op, Errc::in_doubt,
         fmt::format("{}{}{}", code == Errc::cancelled ? "cancelled after it was sent" : "no reply before the deadline",
                     why.empty() ? "" : "; ", why));
  } else {
    fail(op, code, code == Errc::deadline_exceeded ? trouble_.reason() : std::string());
  }
}

// An op is started again for each attempt.
void RequestQueue::meter_begin(Op& op) {
  if (op.metered || !is_counted(op)) return;
  op.metered = std::chrono::steady_clock::now();
  meter_->change(Metrics::Gauge::requests_pending, 1);
}

void RequestQueue::meter_end(const Op& op) {
  using Counter = Metrics::Counter;
  if (!is_counted(op)) return;
  const bool writes = op.request.is_write();
  if (op.metered) meter_->change(Metrics::Gauge::requests_pending, -1);
  meter_->count(op.attempts == 0 ? Counter::requests_unsent : writes ? Counter::writes : Counter::reads);
  if (op.reply.unanswered() && !op.urgent) meter_->count(Counter::requests_in_doubt);
  if (!op.answered || !op.metered) return;
  meter_->time(writes ? Metrics::Timing::write : Metrics::Timing::read, std::chrono::steady_clock::now() - *op.metered);
}

void RequestQueue::finish(const std::shared_ptr<Op>& op) {
  if (op->state == Op::State::done) return;
  const bool waited = op->state == Op::State::waiting;
  const bool paused = op->state == Op::State::pausing;
  op->state = Op::State::done;
  if (meter_ != nullptr) meter_end(*op);
  probe::request_done(op.get(), to_string(op->request.type), op->request.path,
                      static_cast<int>(op->reply.error.value_or(Errc{})), op->attempts);
  if (const auto record = std::move(op->record)) {
    record->end(op->reply.error ? make_error_code(*op->reply.error) : std::error_code(), op->reply.detail,
                op->reply.session != nullptr ? op->reply.session->id() : 0);
  }
  op->cancel_guard.reset();
  op->stop.reset();
  op->caller = {};
  if (paused) pausing_.erase(op);  // Else it may be the caller's thread, when the loop has refused the request.
  if (op->admitted_bytes != 0) budget_.give_back(std::exchange(op->admitted_bytes, 0));
  // The op itself may be known for longer, to the C client or to the queue; what it carried need not.
  op->request.data = {};
  op->request.operations.clear();
  if (waited && ++abandoned_ > 1024 + waiting_.size() / 2) forget_abandoned();
  Op::Done done = std::move(op->done);
  // The C client may still know the op; its reply then goes into an object that is not read.
  Reply reply = op->in_library != nullptr ? op->reply : std::move(op->reply);
  if (done) done(std::move(reply));
}

void RequestQueue::fail_waiting(Errc code, const std::string& detail, const SessionState* bound_to) {
  std::deque<std::shared_ptr<Op>> waiting;
  waiting.swap(waiting_);
  for (const auto& op : waiting) {
    if (op->state != Op::State::waiting) continue;
    if (bound_to == nullptr || op->bound.get() == bound_to) {
      fail(op, code, detail);
    } else {
      waiting_.push_back(op);
    }
  }
}

}  // namespace zkclient::detail
