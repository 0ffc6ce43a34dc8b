#include <zkrecipes/queue.hpp>

#include <algorithm>
#include <utility>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/timed.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/queues/claim_state.hpp"
#include "recipes/queues/item_removal.hpp"
#include "recipes/queues/push_words.hpp"
#include "recipes/queues/queue_core.hpp"

namespace zkrecipes {

using namespace words;
using detail::Patience;
using detail::QueueCore;
using detail::QueueKind;
using detail::QueueSpec;
using detail::TakeKind;
using detail::Taken;

namespace {

using CorePtr = std::shared_ptr<QueueCore>;
constexpr const char* making = "queue";
using detail::pushing;
using detail::single;
using detail::when_pushed;
constexpr const char* removing = "queue remove";
constexpr int most_prefetch = 1000;

Path beside(const Path& path, const char* suffix) { return Path(path.str() + suffix); }

void check_options(const Path& path, const QueueOptions& options, const detail::ItemFormat& format, QueueKind kind) {
  const auto refuse = [&](Errc code, const char* why) { throw Error(code, making, path.str(), why); };
  detail::require_acl(making, path, options.acl);
  if (path.is_root()) refuse(Errc::invalid_argument, "a queue cannot be at the root");
  if (options.max_deliveries < 0) refuse(Errc::invalid_argument, "max_deliveries is negative");
  if (options.prefetch < 0 || options.prefetch > most_prefetch) {
    refuse(Errc::invalid_argument, "prefetch must be from 0 to 1000");
  }
  if (const char* why = format.defect()) refuse(Errc::invalid_argument, why);
  if (kind != QueueKind::prioritized) return;
  if (options.prefetch > 0) refuse(Errc::invalid_argument, "what is claimed ahead may not be what comes first");
}

CorePtr make_core(const zkclient::Client& client, const Path& path, QueueOptions options, QueueKind kind) {
  using Style = QueueLayout::Style;
  const QueueLayout layout =
      options.layout.value_or(kind == QueueKind::plain ? QueueLayout::standard() : QueueLayout::curator());
  const detail::ItemFormat format(layout.style(), kind);
  check_options(path, options, format, kind);
  const auto full = [&](const Path& one) { return client.impl()->full(one); };
  const bool below = layout.style() == Style::standard;
  QueueSpec spec;
  spec.client = client.impl();
  spec.path = path.str();
  spec.format = format;
  spec.prioritized = kind == QueueKind::prioritized;
  spec.items = full(below ? path / "items" : path);
  spec.claims = full(below ? path / "claims" : layout.lock_path().value_or(beside(path, "-claims")));
  spec.slots = full(below ? path / "slots" : beside(path, "-slots"));
  Path dead = options.dead_letters.value_or(below ? path / "dead" : beside(path, "-dead"));
  if (layout.style() == Style::kazoo_locking) {
    spec.items = full(path / "entries");
    spec.claims = full(path / "taken");
    dead = dead / "entries";
  }
  spec.dead_letters = full(below ? dead / "items" : dead);
  spec.foreign_claims = layout.lock_path().has_value() || layout.style() == Style::kazoo_locking;
  spec.acl = std::move(options.acl);
  spec.id = std::move(options.id);
  spec.capacity = options.capacity;
  spec.max_deliveries = options.max_deliveries;
  spec.prefetch = options.prefetch;
  return QueueCore::make(std::move(spec));
}

zk::CallForm form_of(const CorePtr& core, const char* operation) {
  return zk::CallForm(core->spec().client, operation, core->spec().path);
}

zk::Work<std::optional<Taken>> take_work(const CorePtr& core, TakeKind kind, Patience patience) {
  return [core, kind, patience](zk::Call limits) { return core->take(kind, patience, std::move(limits)); };
}

std::optional<Taken> take(const CorePtr& core, TakeKind kind, Patience patience, const CallOptions& call) {
  return form_of(core, detail::name_of(kind))
      .endless(patience == Patience::wait)
      .wait(call, take_work(core, kind, patience));
}

std::optional<Taken> take_until(const CorePtr& core, TakeKind kind, std::chrono::steady_clock::time_point deadline,
                                const WaitOptions& options) {
  const detail::TimedCall timed = detail::timed_call(deadline, options);
  const Patience patience = timed.once ? Patience::try_once : Patience::wait;
  return detail::unless_late_or_busy([&] { return detail::is_connected(core->spec().client); }, options,
                                     [&] { return take(core, kind, patience, timed.limits); });
}

/// Asynchronously; `convert` makes the caller's result of what was taken.
template <typename T, typename Convert>
void start_take(const CorePtr& core, TakeKind kind, Patience patience, const CallOptions& call,
                zkclient::Handler<T> handler, Convert convert) {
  zk::require_handler(handler, detail::name_of(kind), core->spec().path);
  auto wrapped = [handler = std::move(handler), convert](Result<std::optional<Taken>> result) mutable {
    if (result) {
      handler(convert(std::move(*result)));
    } else {
      handler(result.error());
    }
  };
  zk::CallForm form = form_of(core, detail::name_of(kind));
  form.endless(patience == Patience::wait).start(call, take_work(core, kind, patience), std::move(wrapped));
}

std::string to_item(Taken taken) { return std::move(taken.items.front()); }

std::optional<std::string> to_item_if_any(std::optional<Taken> taken) {
  if (!taken) return std::nullopt;
  return to_item(std::move(*taken));
}

Claim to_claim(CorePtr core, Taken taken) {
  return Claim(std::make_unique<detail::ClaimState>(std::move(core), std::move(taken)));
}

std::optional<Claim> to_claim_if_any(CorePtr core, std::optional<Taken> taken) {
  if (!taken) return std::nullopt;
  return to_claim(std::move(core), std::move(*taken));
}

/// A claim whose handler never runs, because an executor drops its tasks, is given back: so it travels as a Claim.
Awaitable<Result<std::optional<Claim>>> own_claim(CorePtr core, Patience patience, zk::Call call) {
  Result<std::optional<Taken>> taken = co_await core->take(TakeKind::claim, patience, std::move(call));
  if (!taken) co_return taken.error();
  co_return to_claim_if_any(std::move(core), std::move(*taken));
}

/// Asynchronously.
void start_claim(const CorePtr& core, Patience patience, const CallOptions& call,
                 zkclient::Handler<std::optional<Claim>> handler) {
  auto work = [core, patience](zk::Call limits) { return own_claim(core, patience, std::move(limits)); };
  zk::CallForm form = form_of(core, detail::name_of(TakeKind::claim));
  form.endless(patience == Patience::wait).start(call, std::move(work), std::move(handler));
}

}  // namespace

struct QueueBase::State {
  State(zkclient::Client client, Path where, QueueOptions options, QueueKind kind)
      : owner(std::move(client)), path(std::move(where)), core(make_core(owner, path, std::move(options), kind)) {}
  ~State() {
    if (core == nullptr) return;
    owner.impl()->loop()->post([retired = std::move(core)] { retired->retire(); });
  }

  zkclient::Client owner;  // Stays open for as long as it is used here.
  Path path;
  CorePtr core;
};

QueueBase::QueueBase(zkclient::Client client, Path path, QueueOptions options, QueueKind kind)
    : state_(std::make_unique<State>(std::move(client), std::move(path), std::move(options), kind)) {}
QueueBase::~QueueBase() = default;
QueueBase::QueueBase(QueueBase&&) noexcept = default;
QueueBase& QueueBase::operator=(QueueBase&&) noexcept = default;

const Path& QueueBase::path() const noexcept { return state_->path; }
const QueueSpec& QueueBase::spec() const noexcept { return state_->core->spec(); }

// --- Pop ----------------------------------------------------------------------------------------------------------

std::string QueueBase::pop(const CallOptions& call) {
  return to_item(std::move(*take(state_->core, TakeKind::pop, Patience::wait, call)));
}
std::optional<std::string> QueueBase::try_pop(const CallOptions& call) {
  return to_item_if_any(take(state_->core, TakeKind::pop, Patience::try_once, call));
}
std::optional<std::string> QueueBase::try_pop_for(Timeout timeout, WaitOptions options) {
  return try_pop_until(detail::from_now(timeout.get()), std::move(options));
}
std::optional<std::string> QueueBase::try_pop_until(std::chrono::steady_clock::time_point deadline,
                                                    WaitOptions options) {
  return to_item_if_any(take_until(state_->core, TakeKind::pop, deadline, options));
}
void QueueBase::async_pop(zkclient::Handler<std::string> handler, const CallOptions& call) {
  start_take<std::string>(state_->core, TakeKind::pop, Patience::wait, call, std::move(handler),
                          [](std::optional<Taken> taken) { return to_item(std::move(*taken)); });
}
void QueueBase::async_try_pop(zkclient::Handler<std::optional<std::string>> handler, const CallOptions& call) {
  start_take<std::optional<std::string>>(state_->core, TakeKind::pop, Patience::try_once, call, std::move(handler),
                                         to_item_if_any);
}

// --- Claim --------------------------------------------------------------------------------------------------------

Claim QueueBase::claim(const CallOptions& call) {
  return to_claim(state_->core, std::move(*take(state_->core, TakeKind::claim, Patience::wait, call)));
}
std::optional<Claim> QueueBase::try_claim(const CallOptions& call) {
  return to_claim_if_any(state_->core, take(state_->core, TakeKind::claim, Patience::try_once, call));
}
std::optional<Claim> QueueBase::try_claim_for(Timeout timeout, WaitOptions options) {
  return try_claim_until(detail::from_now(timeout.get()), std::move(options));
}
std::optional<Claim> QueueBase::try_claim_until(std::chrono::steady_clock::time_point deadline, WaitOptions options) {
  return to_claim_if_any(state_->core, take_until(state_->core, TakeKind::claim, deadline, options));
}
void QueueBase::async_claim(zkclient::Handler<Claim> handler, const CallOptions& call) {
  zk::require_handler(handler, detail::name_of(TakeKind::claim), state_->core->spec().path);
  auto wrapped = [handler = std::move(handler)](Result<std::optional<Claim>> result) mutable {
    if (result) {
      handler(std::move(**result));
    } else {
      handler(result.error());
    }
  };
  start_claim(state_->core, Patience::wait, call, std::move(wrapped));
}
void QueueBase::async_try_claim(zkclient::Handler<std::optional<Claim>> handler, const CallOptions& call) {
  start_claim(state_->core, Patience::try_once, call, std::move(handler));
}

// --- Looking ------------------------------------------------------------------------------------------------------

namespace {

zk::Work<std::optional<std::string>> peek_work(const CorePtr& core) {
  return [spec = core->shared_spec()](zk::Call limits) { return detail::peek_queue(spec, std::move(limits)); };
}
zk::Work<std::size_t> size_work(const CorePtr& core) {
  return [spec = core->shared_spec()](zk::Call limits) { return detail::queue_size(spec, std::move(limits)); };
}
zk::Work<std::vector<QueueItem>> list_work(const CorePtr& core) {
  return [spec = core->shared_spec()](zk::Call limits) { return detail::list_queue(spec, std::move(limits)); };
}

}  // namespace

std::optional<std::string> QueueBase::peek(const CallOptions& call) const {
  return form_of(state_->core, "queue peek").wait(call, peek_work(state_->core));
}
void QueueBase::async_peek(zkclient::Handler<std::optional<std::string>> handler, const CallOptions& call) const {
  form_of(state_->core, "queue peek").start(call, peek_work(state_->core), std::move(handler));
}

std::size_t QueueBase::size(const CallOptions& call) const {
  return form_of(state_->core, "queue size").wait(call, size_work(state_->core));
}
void QueueBase::async_size(zkclient::Handler<std::size_t> handler, const CallOptions& call) const {
  form_of(state_->core, "queue size").start(call, size_work(state_->core), std::move(handler));
}

std::vector<QueueItem> QueueBase::list(const CallOptions& call) const {
  return form_of(state_->core, "queue list").wait(call, list_work(state_->core));
}
void QueueBase::async_list(zkclient::Handler<std::vector<QueueItem>> handler, const CallOptions& call) const {
  form_of(state_->core, "queue list").start(call, list_work(state_->core), std::move(handler));
}

// --- Push ---------------------------------------------------------------------------------------------------------

namespace {

zk::Work<bool> push_work(const CorePtr& core, std::vector<std::string> items, std::string name, bool wait) {
  const QueueSpec& spec = core->spec();
  if (spec.capacity > 0 && items.size() > spec.capacity) {
    throw Error(Errc::invalid_argument, pushing, spec.path, "more items than the queue may ever hold");
  }
  const auto when_full = wait ? detail::WhenFull::wait : detail::WhenFull::refuse;
  return [core, items = std::move(items), name = std::move(name), when_full](zk::Call limits) mutable {
    return core->gate().push(std::move(items), std::move(name), when_full, std::move(limits));
  };
}

// Only where there is a limit, others are waited for.
zk::CallForm push_form(const CorePtr& core, bool wait) {
  return form_of(core, pushing).endless(wait && core->spec().capacity > 0);
}

}  // namespace

bool QueueBase::push_items(std::vector<std::string> items, std::string name, bool wait, const CallOptions& call) {
  if (items.empty()) return true;
  const CorePtr& core = state_->core;
  return push_form(core, wait).wait(call, push_work(core, std::move(items), std::move(name), wait));
}

void QueueBase::async_push_items(std::vector<std::string> items, std::string name, bool wait,
                                 zkclient::Handler<bool> handler, const CallOptions& call) {
  const CorePtr& core = state_->core;
  zk::require_handler(handler, pushing, core->spec().path);
  zk::Work<bool> work = items.empty() ? zk::Work<bool>([](zk::Call) -> zk::Awaitable<Result<bool>> { co_return true; })
                                      : push_work(core, std::move(items), std::move(name), wait);
  push_form(core, wait).start(call, std::move(work), std::move(handler));
}

// --- Remove -------------------------------------------------------------------------------------------------------

namespace {

zk::Work<std::size_t> remove_work(const CorePtr& core, std::string_view id) {
  if (const char* why = detail::id_defect(id)) throw Error(Errc::invalid_argument, removing, core->spec().path, why);
  return [core, wanted = std::string(id)](zk::Call limits) {
    return detail::remove_by_id(core->shared_spec(), core->claims()->writer(), wanted, std::move(limits));
  };
}

}  // namespace

std::size_t QueueBase::remove_items(std::string_view id, const CallOptions& call) {
  return form_of(state_->core, removing).wait(call, remove_work(state_->core, id));
}
void QueueBase::async_remove_items(std::string_view id, zkclient::Handler<std::size_t> handler,
                                   const CallOptions& call) {
  form_of(state_->core, removing).start(call, remove_work(state_->core, id), std::move(handler));
}

// --- A plain queue ------------------------------------------------------------------------------------------------

namespace {

std::string plain_name(const QueueSpec& spec) { return spec.format.name(spec.format.usual_priority()); }

}  // namespace

Queue::Queue(zkclient::Client client, Path path, QueueOptions options)
    : QueueBase(std::move(client), std::move(path), std::move(options), QueueKind::plain) {}

void Queue::push(std::string_view item, const CallOptions& call) {
  push_items(single(item), plain_name(spec()), true, call);
}
bool Queue::try_push(std::string_view item, const CallOptions& call) {
  return push_items(single(item), plain_name(spec()), false, call);
}
void Queue::async_try_push(std::string_view item, zkclient::Handler<bool> handler, const CallOptions& call) {
  async_push_items(single(item), plain_name(spec()), false, std::move(handler), call);
}
void Queue::push_all(std::vector<std::string> items, const CallOptions& call) {
  push_items(std::move(items), plain_name(spec()), true, call);
}
void Queue::async_push(std::string_view item, zkclient::Handler<void> handler, const CallOptions& call) {
  async_push_items(single(item), plain_name(spec()), true, when_pushed(std::move(handler)), call);
}
void Queue::async_push_all(std::vector<std::string> items, zkclient::Handler<void> handler, const CallOptions& call) {
  async_push_items(std::move(items), plain_name(spec()), true, when_pushed(std::move(handler)), call);
}

}  // namespace zkrecipes
