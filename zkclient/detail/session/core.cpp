#include "zkclient/detail/session/core.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "zkclient/detail/connection/security.hpp"
#include "zkclient/detail/connection/trouble_report.hpp"
#include "zkclient/detail/requests/credentials.hpp"
#include "zkclient/detail/requests/paths.hpp"
#include "zkclient/detail/requests/usable_names.hpp"
#include "zkclient/detail/session/all_names.hpp"
#include "zkclient/detail/session/connection.hpp"
#include "zkclient/detail/session/loop_watch.hpp"
#include "zkclient/detail/session/request_queue.hpp"
#include "zkclient/detail/session/sessions.hpp"

namespace zkclient::detail {
namespace {

void check_options(const ClientOptions& options) {
  const auto refuse = [](const char* what) { throw Error(Errc::invalid_argument, "client", "", what); };
  // The C client gives a server two thirds of it to answer, and never connects if that is next to nothing.
  constexpr std::chrono::milliseconds day = std::chrono::hours(24);
  if (options.session_timeout.count() < 100 || options.session_timeout > day) {
    refuse("session_timeout must be at least 100 ms and at most a day");
  }
  if (options.server_tick && (options.server_tick->count() <= 0 || *options.server_tick > day)) {
    refuse("server_tick must be positive and at most a day");
  }
  if (options.operation_timeout.count() <= 0) refuse("operation_timeout must be positive");
  if (options.retry.initial.count() < 0 || options.retry.max.count() < 0) refuse("retry pauses must not be negative");
  if (std::isnan(options.retry.multiplier) || std::isnan(options.retry.jitter)) {
    refuse("retry.multiplier and retry.jitter must be numbers");
  }
  if (options.retry.max_attempts < 1) refuse("retry.max_attempts must be at least 1");
  if (options.resume && (options.resume->id == 0 || options.resume->password.size() != 16)) {
    refuse("resume needs a session id and its password of 16 bytes");
  }
}

// "For ever", which is beyond what the clock can count when it is added to the time it is.
constexpr std::chrono::milliseconds longest_operation_timeout = std::chrono::hours(24 * 365 * 100);

// Of a request of a recipe's. A user's list, which is submitted, has all names.
Op::Done without_unusable(const Request& request, Op::Done done) {
  if (request.type != OpType::children) return done;
  return [directory = request.path, next = std::move(done)](Reply reply) mutable {
    keep_usable(directory, reply.names);
    next(std::move(reply));
  };
}

// Never an unencrypted connection in place of an encrypted one, or an anonymous one in place of one with a login.
void check_security(ClientOptions& options) {
  if (options.tls) options.tls = checked(std::move(*options.tls));
  if (options.sasl) check(*options.sasl);
  if (options.tls && options.sasl) {
    throw Error(Errc::unsupported, "client", "", "ClientOptions::tls and ::sasl together: the C client takes only one");
  }
}

}  // namespace

Admission::Admission(std::shared_ptr<ClientCore> core, std::size_t bytes) : core_(std::move(core)), bytes_(bytes) {
  core_->budget().take(bytes_);
}

Admission::~Admission() {
  if (core_ != nullptr) core_->budget().give_back(bytes_);
}

// Each one knows only those above it.
struct ClientCore::Parts {
  Parts(ClientCore& core, std::vector<Host> hosts)
      : trouble(core.events()),
        requests(core.events(), core.options_, trouble, core.budget_, core.meter(), core.weak_from_this()),
        sessions({.loop = core.loop_,
                  .options = core.options_,
                  .callbacks = core.callbacks_,
                  .trouble = trouble,
                  .credentials = credentials,
                  .listeners = listeners,
                  .requests = requests,
                  .meter = core.meter_,
                  .spans = core.spans_,
                  .client = core.weak_from_this()},
                 std::move(hosts)) {}

  Credentials credentials;
  Listeners listeners;
  TroubleReport trouble;
  RequestQueue requests;
  Sessions sessions;
};

// --- Beginning and end -----------------------------------------------------------------------------------------------

std::shared_ptr<ClientCore> ClientCore::start(std::shared_ptr<Loop> loop, std::string_view hosts,
                                              ClientOptions options) {
  check_options(options);
  check_security(options);
  options.operation_timeout = std::min(options.operation_timeout, longest_operation_timeout);
  std::vector<Host> servers = parse_hosts(hosts);
  std::shared_ptr<ClientCore> core(new ClientCore(std::move(loop), std::move(options)));
  core->parts_ = std::make_unique<Parts>(*core, std::move(servers));
  core->loop_->add(core);
  core->loop_->post([core] { core->parts_->sessions.open(); });
  return core;
}

ClientCore::ClientCore(std::shared_ptr<Loop> loop, ClientOptions options)
    : loop_(std::move(loop)),
      options_(std::move(options)),
      meter_(options_.metrics != nullptr ? options_.metrics->impl() : nullptr),
      callbacks_(std::make_shared<CallbackGroup>(
          [weak = std::weak_ptr<Loop>(loop_)](Task task, bool urgent) {
            if (const auto self = weak.lock()) self->schedule(std::move(task), urgent);
          },
          loop_->has_user_executor(), meter_,
          [weak = std::weak_ptr<Loop>(loop_)](Task task) {
            if (const auto self = weak.lock()) self->delay(std::move(task));
          })),
      spans_(options_.observer != nullptr ? std::make_shared<SpanTeller>(options_.observer, callbacks_) : nullptr) {}

ClientCore::~ClientCore() { loop_->remove(this); }

void ClientCore::begin_close() {
  if (loop_->forked()) return;
  const bool accepted = loop_->post([self = shared_from_this()] {
    if (self->closing()) return;
    self->loop_->remove(self.get());
    self->parts_->sessions.close([raw = self.get()] { raw->on_closed(); });
  });
  if (accepted) return;
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void ClientCore::on_closed() {
  // Coroutines of recipes that the closing woke up get one more turn of the loop before the close is over.
  events().defer([self = shared_from_this()] {
    self->callbacks_->end_delays();
    const std::lock_guard lock(self->mutex_);
    self->closed_ = true;
    self->closed_changed_.notify_all();
  });
}

void ClientCore::finish_close() {
  if (loop_->forked()) return;
  {
    CallbackPool::about_to_wait();
    std::unique_lock lock(mutex_);
    closed_changed_.wait(lock, [this] { return closed_; });
  }
  callbacks_->wait();
  if (spans_ != nullptr) spans_->close();
}

// --- State -----------------------------------------------------------------------------------------------------------

std::shared_ptr<SessionState> ClientCore::session() const {
  if (loop_->forked()) {  // The thread that had the lock is not here any more.
    static const auto none = std::make_shared<SessionState>(std::chrono::milliseconds(0));
    none->set_state(ConnectionState::closed);
    return none;
  }
  return parts_->sessions.newest();
}

std::optional<std::string> ClientCore::server() const {
  return loop_->forked() ? std::nullopt : parts_->sessions.server();
}

std::string ClientCore::trouble() const { return loop_->forked() ? std::string() : parts_->trouble.text(); }

std::string ClientCore::full(const Path& path) const { return with_prefix(options_.prefix, path); }
std::string ClientCore::stripped(const std::string& path) const { return without_prefix(options_.prefix, path); }

bool ClientCore::closing() const noexcept { return parts_->sessions.closing(); }
const std::shared_ptr<SessionState>& ClientCore::current() const noexcept {
  return parts_->sessions.current().session();
}
WatchRegistry& ClientCore::watches() noexcept { return parts_->sessions.current().watches(); }
const std::shared_ptr<LeaseKeeper>& ClientCore::keeper() const noexcept { return parts_->sessions.current().leases(); }
OwnWrites& own_writes_of(ClientCore& client) { return client.sessions().own_writes(); }
std::weak_ptr<void>& shared_by_views_of(ClientCore& client) { return client.sessions().shared_by_views(); }
Sessions& ClientCore::sessions() noexcept { return parts_->sessions; }
Credentials& ClientCore::credentials() noexcept { return parts_->credentials; }

std::shared_ptr<SubscriptionState> ClientCore::subscribe(StateListener listener) {
  auto subscription = std::make_shared<SubscriptionState>(callbacks_);
  subscription->listener = std::move(listener);
  loop_->post([self = shared_from_this(), weak = std::weak_ptr<SubscriptionState>(subscription)] {
    const auto added = weak.lock();
    if (added == nullptr || !self->parts_->sessions.begun()) return;
    const auto& session = self->current();
    self->parts_->listeners.add(added, {session->raw_state(), Session(session), self->trouble()});
  });
  return subscription;
}

std::unique_ptr<CallRecord> ClientCore::record(const char* operation, const std::string& path, bool waits,
                                               Errc answer) const {
  if ((meter_ == nullptr && spans_ == nullptr) || loop_->forked()) return nullptr;
  return std::make_unique<CallRecord>(meter_, spans_, operation, path, waits, answer);
}

// --- Requests --------------------------------------------------------------------------------------------------------

void ClientCore::submit(const std::shared_ptr<Op>& op, const AnyStop& stop) {
  op->admitted_bytes = op->request.wire_size();
  budget_.take(op->admitted_bytes);
  if (overloaded()) {
    budget_.give_back(op->admitted_bytes);
    Reply refused;
    refused.error = Errc::overloaded;
    refused.detail = "too many requests are waiting";
    if (meter_ != nullptr) meter_->count(Metrics::Counter::requests_unsent);
    if (op->record != nullptr) op->record->end(Errc::overloaded, refused.detail, 0);
    Op::Done done = std::move(op->done);
    done(std::move(refused));
    return;
  }
  op->caller = stop;
  const bool accepted = loop_->post([self = shared_from_this(), op] { self->run(op); });
  if (!accepted) parts_->requests.fail(op, loop_->refusal());
}

void ClientCore::run(const std::shared_ptr<Op>& op) {
  if (op->caller.stop_requested()) {
    parts_->requests.give_up(op, Errc::cancelled);
    return;
  }
  if (op->caller.stop_possible()) {
    // A request that comes later runs on the requester's thread: back to the loop.
    op->stop.emplace(op->caller, [self = shared_from_this(), weak = std::weak_ptr<Op>(op)] {
      const auto alive = weak.lock();
      if (alive == nullptr) return;
      self->loop_->post([self, alive] { self->parts_->requests.give_up(alive, Errc::cancelled); });
    });
  }
  parts_->requests.start(op);
}

PendingReply ClientCore::launch(Request request, const Call& call) {
  const PendingReply pending;
  Op::Done done = without_unusable(request, pending.handler());
  parts_->requests.start(std::move(request), call, std::move(done));
  return pending;
}

PendingReply launch_full_list(ClientCore& client, std::string directory, const Call& call) {
  const PendingReply pending;
  client.sessions().requests().start(make_request(OpType::children, std::move(directory)), call, pending.handler());
  return pending;
}

void ClientCore::flush() { parts_->requests.flush(); }
bool ClientCore::sends_at_once() { return parts_->requests.sends_at_once(); }

PendingReply ClientCore::launch_watching(Request request, const Call& call, std::shared_ptr<LoopWatch> watch) {
  const PendingReply pending;
  request.watch = true;
  const bool absent_too = request.type == OpType::exists;
  auto done = [this, watch = std::move(watch), path = request.path, absent_too,
               next = pending.handler()](Reply reply) mutable {
    const bool arms = reply.ok() || (absent_too && reply.failed(Errc::no_node));
    if (arms && reply.session == current() && !reply.session->over()) {
      watch->arm(path);
    } else if (arms) {  // The answer came, but its session is over, and all its watches have been told.
      reply.error = closing() ? Errc::closed : Errc::session_lost;
    }
    next(std::move(reply));
  };
  Op::Done usable = without_unusable(request, std::move(done));
  parts_->requests.start(std::move(request), call, std::move(usable));
  return pending;
}

Awaitable<Reply> ClientCore::connected(Call call) {
  const bool cancelled = call.cancel != nullptr && call.cancel->requested();
  const bool may_be = call.bound == nullptr || call.bound == current();
  if (!closing() && !cancelled && may_be && parts_->requests.empty() &&
      current()->raw_state() == ConnectionState::connected) {
    Reply now;  // The usual case.
    now.session = current();
    co_return now;
  }
  Request request = make_request(OpType::connect, "/");
  Reply reply = co_await perform(std::move(request), call);
  co_return reply;
}

}  // namespace zkclient::detail
