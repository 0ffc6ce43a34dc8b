#include <zkrecipes/double_barrier.hpp>

#include <functional>
#include <mutex>
#include <utility>

#include "recipes/barriers/round_place.hpp"
#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/timed.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;
using detail::Patience;

namespace {

constexpr const char* entering = "double barrier enter";
constexpr const char* leaving = "double barrier leave";
constexpr int most_members = 1000;

detail::RoundSpecPtr make_spec(const zkclient::Client& client, const zkclient::Path& path, int members,
                               DoubleBarrierOptions options) {
  const auto refuse = [&](Errc code, const char* why) { throw Error(code, "double barrier", path.str(), why); };
  detail::require_acl("double barrier", path, options.acl);
  if (path.is_root()) refuse(Errc::invalid_argument, "it cannot be at the root");
  if (members < 1 || members > most_members) refuse(Errc::invalid_argument, "the number of members must be 1 to 1000");
  detail::RoundSpec spec;
  spec.client = client.impl();
  spec.path = path.str();
  spec.directory = client.impl()->full(path);
  spec.count = static_cast<std::size_t>(members);
  spec.acl = std::move(options.acl);
  spec.id = std::move(options.id);
  spec.refuse_extra = options.refuse_extra;
  return std::make_shared<const detail::RoundSpec>(std::move(spec));
}

}  // namespace

struct DoubleBarrier::State {
  /// The object is entering, until the outcome is known. It is outside again if nobody hears of that, because an executor
  /// drops its tasks.
  class Entering {
   public:
    explicit Entering(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
    Entering(Entering&&) noexcept = default;
    Entering& operator=(Entering&&) = delete;
    ~Entering() {
      if (state_ != nullptr) end({});
    }
    /// False: the object is gone, and the member with it.
    bool end(detail::RoundPlace place) { return std::exchange(state_, nullptr)->end_entering(std::move(place)); }

   private:
    std::shared_ptr<State> state_;
  };

  State(zkclient::Client client, zkclient::Path where, int members, DoubleBarrierOptions options)
      : owner(std::move(client)), path(std::move(where)), spec(make_spec(owner, path, members, std::move(options))) {}

  /// In a forked child a thread that is not there may hold the lock.
  bool forked() const noexcept { return spec->client->loop()->forked(); }
  void require_own_process(const char* operation) const {
    if (forked()) throw Error(Errc::forked, operation, path.str());
  }
  /// Throws unless it is outside, or what it was in is over. The limits of the call, which the object's end cancels,
  /// too.
  CallOptions begin_entering(CallOptions call) {
    require_own_process(entering);
    const std::lock_guard lock(mutex);
    if (busy || (is_inside() && inside.lease.state() != LeaseState::lost)) {
      throw Error(Errc::would_deadlock, entering, path.str(), "it is inside already, or on its way");
    }
    busy = true;
    leave_behind();
    withdrawal = std::stop_source();
    call.stop = zkclient::AnyStop(call.stop, withdrawal.get_token());
    return call;
  }
  /// False: the object is gone, and the member with it.
  bool end_entering(detail::RoundPlace membership) {
    const std::lock_guard lock(mutex);
    busy = false;
    if (gone) membership = {};
    inside = std::move(membership);
    return !gone;
  }
  void end() {
    {
      const std::lock_guard lock(mutex);
      gone = true;
      leave_behind();
    }
    withdrawal.request_stop();
  }
  bool is_inside() const noexcept { return inside.lease.impl() != nullptr; }
  // Ends it where it lives, on the loop, also if only the clock says that it is over.
  void leave_behind() { inside = {}; }
  detail::RoundPlace begin_leaving() {
    require_own_process(leaving);
    const std::lock_guard lock(mutex);
    if (!is_inside()) throw Error(Errc::not_held, leaving, path.str(), "it is not inside");
    return std::exchange(inside, {});
  }

  zkclient::Client owner;  // Stays open for as long as it is used here.
  zkclient::Path path;
  detail::RoundSpecPtr spec;
  mutable std::mutex mutex;
  bool busy = false;  // enter() is running.
  bool gone = false;  // The object is.
  std::stop_source withdrawal;
  detail::RoundPlace inside;
};

DoubleBarrier::DoubleBarrier(zkclient::Client client, zkclient::Path path, int members, DoubleBarrierOptions options)
    : state_(std::make_shared<State>(std::move(client), std::move(path), members, std::move(options))) {}

DoubleBarrier::~DoubleBarrier() {
  if (state_ == nullptr) return;
  if (state_->forked()) {
    zk::keep_for_ever(std::move(state_));  // The place is the parent's.
  } else {
    state_->end();
  }
}
DoubleBarrier::DoubleBarrier(DoubleBarrier&&) noexcept = default;
DoubleBarrier& DoubleBarrier::operator=(DoubleBarrier&& other) noexcept {
  if (this != &other) {
    const DoubleBarrier former(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

const zkclient::Path& DoubleBarrier::path() const noexcept { return state_->path; }

bool DoubleBarrier::inside() const noexcept {
  if (state_->forked()) return false;
  const std::lock_guard lock(state_->mutex);
  return state_->inside.lease.valid();
}

std::stop_token DoubleBarrier::lost() const {
  if (state_->forked()) return {};
  const std::lock_guard lock(state_->mutex);
  return state_->inside.lease.lost();
}

// --- Enter --------------------------------------------------------------------------------------------------------

namespace {

zk::CallForm form_of(const detail::RoundSpecPtr& spec, const char* operation) {
  return zk::CallForm(spec->client, operation, spec->path);
}

zk::Work<detail::RoundPlace> enter_work(const detail::RoundSpecPtr& spec, Patience patience) {
  return [spec, patience](zk::Call limits) { return detail::enter_round(spec, patience, std::move(limits)); };
}

zk::Work<void> leave_work(const detail::RoundSpecPtr& spec, detail::RoundPlace place, Patience patience) {
  // Now, on the caller's thread: from here on it is out.
  const bool was_inside = place.lease.state() != LeaseState::lost && place.lease.impl()->begin_release();
  return [spec, place = std::move(place), was_inside, patience](zk::Call limits) mutable {
    return detail::leave_round(spec, std::move(place), was_inside, patience, std::move(limits));
  };
}

}  // namespace

Round DoubleBarrier::enter(const CallOptions& call) { return enter(false, call); }

Round DoubleBarrier::enter(bool once, const CallOptions& call) {
  const Patience patience = once ? Patience::try_once : Patience::wait;
  const CallOptions limits = state_->begin_entering(call);
  State::Entering entry(state_);
  detail::RoundPlace place =
      form_of(state_->spec, entering).endless(!once).wait(limits, enter_work(state_->spec, patience));
  Round round = place.round;
  entry.end(std::move(place));
  return round;
}

std::optional<Round> DoubleBarrier::try_enter_for(Timeout timeout, WaitOptions options) {
  const detail::TimedCall timed = detail::timed_call(detail::from_now(timeout.get()), options);
  return detail::unless_late([this] { return detail::is_connected(state_->spec->client); }, options,
                             [&] { return enter(timed.once, timed.limits); });
}

void DoubleBarrier::async_enter(zkclient::Handler<Round> handler, const CallOptions& call) {
  zk::require_handler(handler, entering, state_->spec->path);
  const CallOptions limits = state_->begin_entering(call);
  // The state is kept: it learns the outcome also if the object is gone by then, and leaves.
  auto wrapped = [entry = State::Entering(state_), shown = state_->path.str(),
                  handler = std::move(handler)](Result<detail::RoundPlace> result) mutable {
    if (!result) {
      entry.end({});
      handler(result.error());
      return;
    }
    Round round = result->round;
    if (entry.end(std::move(*result))) {
      handler(std::move(round));
    } else {
      handler(Error(Errc::cancelled, entering, shown, "the object is gone"));
    }
  };
  form_of(state_->spec, entering).endless().start(limits, enter_work(state_->spec, Patience::wait), std::move(wrapped));
}

// --- Leave --------------------------------------------------------------------------------------------------------

void DoubleBarrier::leave(const CallOptions& call) { leave(false, call); }

void DoubleBarrier::leave(bool once, const CallOptions& call) {
  const Patience patience = once ? Patience::try_once : Patience::wait;
  detail::RoundPlace place = state_->begin_leaving();
  form_of(state_->spec, leaving).endless(!once).wait(call, leave_work(state_->spec, std::move(place), patience));
}

bool DoubleBarrier::try_leave_for(Timeout timeout, WaitOptions options) {
  const detail::TimedCall timed = detail::timed_call(detail::from_now(timeout.get()), options);
  const auto left = detail::unless_late([this] { return detail::is_connected(state_->spec->client); }, options,
                                        [&] {
                                          leave(timed.once, timed.limits);
                                          return true;
                                        });
  return left.has_value();
}

void DoubleBarrier::async_leave(zkclient::Handler<void> handler, const CallOptions& call) {
  zk::require_handler(handler, leaving, state_->spec->path);
  detail::RoundPlace membership = state_->begin_leaving();
  auto work = leave_work(state_->spec, std::move(membership), Patience::wait);
  form_of(state_->spec, leaving).endless().start(call, std::move(work), std::move(handler));
}

}  // namespace zkrecipes
