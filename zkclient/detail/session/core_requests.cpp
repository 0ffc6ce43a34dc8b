// Requests, from the call to the result: waiting, sending, repeating, deadlines.

#include "zkclient/detail/requests/calls.hpp"
#include "zkclient/detail/session/core.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace zkclient::detail {
namespace {

// Requests handed to the C client at a time; the others wait here, where they can still be taken back.
constexpr int max_in_flight = 2048;
// Documented at Client.
constexpr std::size_t max_waiting = 200'000;
constexpr std::size_t max_waiting_bytes = 256 * 1024 * 1024;
constexpr auto no_room_to_watch = "the paths of all watches together would be too long to renew after a reconnection";
// The server's default jute.maxbuffer, which a request must not reach; it would drop the connection.
constexpr std::size_t max_request_bytes = 1'048'575 - 512;

// A failed transaction, in words: the first operation that has a reason of its own.
std::string describe_failure(const ClientCore& core, const Request& request, const std::vector<int>& codes) {
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
                       core.stripped(path), make_error_code(rc::to_errc(codes[i])).message());
  }
  return {};
}

}  // namespace

Request make_request(OpType type, std::string path) {
  Request request;
  request.type = type;
  request.path = std::move(path);
  return request;
}

Error with_trouble(const ClientCore& core, Error error) {
  if (error.errc() != Errc::deadline_exceeded && error.errc() != Errc::in_doubt) return error;
  const std::string trouble = core.trouble();
  if (trouble.empty() || error.detail().find(trouble) != std::string::npos) return error;
  const std::string detail = error.detail().empty() ? trouble : error.detail() + "; " + trouble;
  return Error(error.errc(), error.operation(), error.path(), detail);
}

Admission::Admission(std::shared_ptr<ClientCore> core, std::size_t bytes) : core_(std::move(core)), bytes_(bytes) {
  core_->count_call(bytes_);
}

Admission::~Admission() {
  if (core_ != nullptr) core_->uncount_call(bytes_);
}

void ClientCore::count_call(std::size_t bytes) noexcept {
  calls_.fetch_add(1);
  call_bytes_.fetch_add(bytes);
}

void ClientCore::uncount_call(std::size_t bytes) noexcept {
  calls_.fetch_sub(1);
  call_bytes_.fetch_sub(bytes);
}

bool ClientCore::overloaded() const noexcept {
  return calls_.load() > max_waiting || call_bytes_.load() > max_waiting_bytes;
}

void ClientCore::submit(const std::shared_ptr<Op>& op, const AnyStop& stop) {
  op->admitted_bytes = op->request.wire_size();
  count_call(op->admitted_bytes);
  if (overloaded()) {
    uncount_call(op->admitted_bytes);
    Reply refused;
    refused.error = Errc::overloaded;
    refused.detail = "too many requests are waiting";
    Op::Done done = std::move(op->done);
    done(std::move(refused));
    return;
  }
  op->caller = stop;
  const bool accepted = loop_->post([self = shared_from_this(), op] {
    if (op->caller.stop_requested()) {
      self->give_up(op, Errc::cancelled);
      return;
    }
    if (op->caller.stop_possible()) {
      // A request that comes later runs on the requester's thread: back to the loop.
      op->stop.emplace(op->caller, [self, weak = std::weak_ptr<Op>(op)] {
        const auto alive = weak.lock();
        if (alive == nullptr) return;
        self->loop_->post([self, alive] { self->give_up(alive, Errc::cancelled); });
      });
    }
    self->start_op(op);
  });
  if (!accepted) fail(op, loop_->refusal());
}

void ClientCore::start_op(const std::shared_ptr<Op>& op) {
  if (op->state != Op::State::idle) return;  // Cancelled before it began.
  if (closing_ || connection_ == nullptr) {
    fail(op, Errc::closed);
  } else if (op->bound != nullptr && (op->bound != connection_->session || op->bound->over())) {
    fail(op, Errc::session_lost);
  } else if (op->deadline && *op->deadline <= std::chrono::steady_clock::now()) {
    give_up(op, Errc::deadline_exceeded);
  } else if (op->request.wire_size() > max_request_bytes) {
    fail(op, Errc::too_large,
         fmt::format("it takes {} bytes of at most {}", op->request.wire_size(), max_request_bytes));
  } else if (is_too_large(*op)) {
    refuse_size(op);
  } else if (!op->urgent && !room_to_wait()) {
    fail(op, Errc::overloaded, "too many requests are waiting");
  } else if (op->request.watch && !connection_->watches.has_room(op->request.path, watch_kind(op->request.type))) {
    fail(op, Errc::overloaded, no_room_to_watch);
  } else {
    op->state = Op::State::waiting;
    op->urgent ? waiting_.push_front(op) : waiting_.push_back(op);
    pump();
    if (op->state != Op::State::done) add_deadline(op);
  }
}

bool ClientCore::room_to_wait() {
  if (waiting_.size() < max_waiting) return true;
  forget_abandoned();
  return waiting_.size() < max_waiting;
}

void ClientCore::forget_abandoned() {
  std::erase_if(waiting_, [](const auto& op) { return op->state != Op::State::waiting; });
  abandoned_ = 0;
}

void ClientCore::pump() {
  if (connection_->draining) {
    if (connection_->handle->in_flight() == 0) on_drained();
    return;
  }
  while (
      !waiting_.empty() && alone_ == nullptr && connection_->session->raw_state() == ConnectionState::connected &&
      (waiting_.front()->urgent || (!connection_->taking_over && connection_->handle->in_flight() < max_in_flight))) {
    const std::shared_ptr<Op> op = std::move(waiting_.front());
    waiting_.pop_front();
    if (op->state != Op::State::waiting) continue;
    if (op->request.type == OpType::connect) {
      op->reply.session = connection_->session;
      finish(op);
      continue;
    }
    if (is_too_large(*op)) {
      refuse_size(op);
      continue;
    }
    op->sent_bytes = op->request.wire_size();
    const bool alone = !op->urgent && !suspects_.empty() && suspects_.is_suspect(op->sent_bytes, BootClock::now());
    if (!connection_->handle->has_room() || (alone && connection_->handle->in_flight() != 0)) {
      waiting_.push_front(op);
      return;
    }
    const WatchRegistry::Kind kind = watch_kind(op->request.type);
    if (op->request.watch && !connection_->watches.reserve(op->request.path, kind)) {
      fail(op, Errc::overloaded, no_room_to_watch);
      continue;
    }
    op->state = Op::State::in_flight;
    ++op->attempts;
    if (alone) alone_ = op;
    if (connection_->handle->submit(op)) continue;
    alone_.reset();
    if (op->request.watch) connection_->watches.settle(op->request.path, kind, false);
    op->state = Op::State::waiting;
    --op->attempts;
    waiting_.push_front(op);
    return;
  }
}

// Heartbeats are never held up, nor refused.
bool ClientCore::is_too_large(const Op& op) {
  return !op.urgent && !suspects_.empty() && suspects_.is_refused(op.request.wire_size(), BootClock::now());
}

void ClientCore::refuse_size(const std::shared_ptr<Op>& op) {
  fail(op, Errc::too_large,
       fmt::format(
           "{} bytes: as many, or fewer, have cost the connection twice; the server's jute.maxbuffer is smaller, it "
           "seems",
           op->request.wire_size()));
}

// Learns from the fate of a request what the server takes. `left`: the connection was left, it did
// not break.
void ClientCore::judge_size(const std::shared_ptr<Op>& op, bool left, std::chrono::nanoseconds round_trip) {
  const bool alone = alone_ == op;
  if (alone) alone_.reset();
  if (op->answered) {
    suspects_.answered(op->sent_bytes);
  } else if (rc::is_loss(op->code) && !closing_ && !left && !op->urgent) {
    suspects_.lost(op->sent_bytes, alone, op->reply.sent, BootClock::now(), round_trip);
  }
}

void ClientCore::on_reply(const std::shared_ptr<Op>& op) {
  if (!closing_) pump();  // There is room for another one.
  if (op->state != Op::State::in_flight) return;
  Reply& reply = op->reply;
  if (op->code == rc::ok) {
    finish(op);
  } else if (!rc::is_loss(op->code)) {
    const bool transaction = op->request.type == OpType::multi && !reply.codes.empty() && !rc::is_of_request(op->code);
    reply.detail = transaction ? describe_failure(*this, op->request, reply.codes) : std::string();
    reply.error = transaction ? Errc::transaction_failed : rc::to_errc(op->code);
    finish(op);
  } else if (op->request.is_write()) {
    fail(op, Errc::in_doubt);
  } else if (closing_) {
    fail(op, Errc::closed);
  } else if (op->bound != nullptr && op->bound->over()) {
    fail(op, Errc::session_lost);
  } else {
    retry(op);
  }
}

void ClientCore::retry(const std::shared_ptr<Op>& op) {
  const auto now = std::chrono::steady_clock::now();
  const auto remaining = op->deadline ? std::chrono::duration_cast<std::chrono::milliseconds>(*op->deadline - now)
                                      : std::chrono::milliseconds::max();
  const double random = std::uniform_real_distribution<double>(0.0, 1.0)(random_);
  const auto pause = options_.retry.pause(op->attempts, remaining, random);
  if (!pause && op->attempts < options_.retry.max_attempts) {  // No time for a pause: the deadline decides.
    op->state = Op::State::idle;
    start_op(op);
    return;
  }
  if (!pause) {
    const std::string why = trouble();
    fail(op, Errc::connection_loss,
         fmt::format("given up after {} attempts{}{}", op->attempts, why.empty() ? "" : ": ", why));
    return;
  }
  op->state = Op::State::pausing;
  auto timer = std::make_unique<Timer>(events());
  timer->set_after(*pause, [self = shared_from_this(), op] { self->end_pause(op); });
  pausing_.emplace(op, std::move(timer));
}

void ClientCore::end_pause(const std::shared_ptr<Op>& op) {
  pausing_.erase(op);
  if (op->state != Op::State::pausing) return;
  op->state = Op::State::idle;
  start_op(op);
}

// Those who wait before they try again try now: they end, or go on waiting for the next session.
void ClientCore::end_pauses() {
  for (const auto& [op, timer] : std::exchange(pausing_, {}))
    events().defer([self = shared_from_this(), waiting = op] { self->end_pause(waiting); });
}

void ClientCore::fail(const std::shared_ptr<Op>& op, Errc code, std::string detail) {
  op->reply.error = code;
  op->reply.detail = std::move(detail);
  finish(op);
}

// Ends an op early. What was sent stays sent: a write is in doubt then.
void ClientCore::give_up(const std::shared_ptr<Op>& op, Errc code) {
  if (op->state == Op::State::done) return;
  const bool sent = op->state == Op::State::in_flight && op->request.is_write();
  op->reply.given_up = code;
  if (sent) {
    const std::string why = trouble();
    fail(op, Errc::in_doubt,
         code == Errc::cancelled ? "cancelled after it was sent"
                                 : fmt::format("no reply before the deadline{}{}", why.empty() ? "" : "; ", why));
  } else {
    fail(op, code, code == Errc::deadline_exceeded ? trouble() : std::string());
  }
}

void ClientCore::finish(const std::shared_ptr<Op>& op) {
  if (op->state == Op::State::done) return;
  const bool waited = op->state == Op::State::waiting;
  op->state = Op::State::done;
  op->cancel_guard.reset();
  op->stop.reset();
  op->caller = {};
  pausing_.erase(op);
  if (op->admitted_bytes != 0) uncount_call(std::exchange(op->admitted_bytes, 0));
  // The op itself may be known for longer, to the C client or to the queue; what it carried need not.
  op->request.data.reset();
  op->request.operations.clear();
  if (waited && ++abandoned_ > 1024 + waiting_.size() / 2) forget_abandoned();
  Op::Done done = std::move(op->done);
  // The C client may still know the op; its reply then goes into an object that nobody looks at.
  Reply reply = op->in_library != nullptr ? op->reply : std::move(op->reply);
  if (done) done(std::move(reply));
}

void ClientCore::add_deadline(const std::shared_ptr<Op>& op) {
  if (!op->deadline) return;
  deadlines_.emplace(*op->deadline, op);
  // Most ops are done long before: forget those from time to time.
  if (deadlines_.size() > 4096 && (deadlines_.size() & (deadlines_.size() - 1)) == 0) {
    std::erase_if(deadlines_, [](const auto& entry) {
      const auto alive = entry.second.lock();
      return alive == nullptr || alive->state == Op::State::done;
    });
  }
  if (*op->deadline < deadline_timer_.due()) await_deadline(*op->deadline);
}

void ClientCore::await_deadline(Op::TimePoint due) {
  deadline_timer_.set(due, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_deadlines();
  });
}

void ClientCore::on_deadlines() {
  const auto now = std::chrono::steady_clock::now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto op = deadlines_.begin()->second.lock();
    deadlines_.erase(deadlines_.begin());
    if (op != nullptr) give_up(op, Errc::deadline_exceeded);
  }
  while (!deadlines_.empty()) {
    const auto next = deadlines_.begin()->second.lock();
    if (next != nullptr && next->state != Op::State::done) {
      await_deadline(deadlines_.begin()->first);
      return;
    }
    deadlines_.erase(deadlines_.begin());
  }
}

}  // namespace zkclient::detail
