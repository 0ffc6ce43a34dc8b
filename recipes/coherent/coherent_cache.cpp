#include <zkrecipes/coherent_cache.hpp>

#include <optional>
#include <utility>

#include "recipes/coherent/coherent_reader.hpp"
#include "recipes/coherent/coherent_writer.hpp"
#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/update_call.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;
using detail::CoherentLayout;
using detail::CoherentReader;
using detail::CoherentTable;
using detail::CoherentWriter;
using detail::ItemWrite;
using detail::PreparedCall;

namespace {

constexpr const char* recipe = "coherent cache";
constexpr const char* getting = "coherent cache get";
constexpr const char* putting = "coherent cache put";
constexpr const char* creating = "coherent cache create";
constexpr const char* comparing = "coherent cache compare_put";
constexpr const char* removing = "coherent cache remove";
constexpr const char* comparing_to_remove = "coherent cache compare_remove";
constexpr const char* updating = "coherent cache update";

/// What every call needs until its end.
struct Shared {
  zkclient::Client client;  // Stays open for as long as it is used here.
  zkclient::Path path;      // As the user wrote it.
  std::shared_ptr<CoherentTable> table;
  std::shared_ptr<CoherentReader> reader;
  std::shared_ptr<CoherentWriter> writer;

  std::string shown(std::string_view name) const { return path.str() + "/items/" + std::string(name); }
  void require_name(const char* operation, std::string_view name) const {
    const auto refuse = [&](std::string_view why) { throw Error(Errc::invalid_argument, operation, path.str(), why); };
    if (name.empty()) refuse("the name is empty");
    if (name.find('/') != std::string_view::npos) refuse("the name has a slash: it is one component of a path");
    try {
      (void)client.impl()->full(zkclient::Path(shown(name)));  // As it is sent: with the client's prefix.
    } catch (const Error& error) {
      refuse("the name cannot be that of a node: the path " + error.detail());
    }
  }
  void close() const {
    table->close();
    client.impl()->loop()->post([reader = reader, writer = writer] {
      writer->close();
      reader->close();
    });
  }
};
using SharedPtr = std::shared_ptr<const Shared>;

// --- On the loop ----------------------------------------------------------------------------------------------------

/// What a call's errors name.
struct Origin {
  const char* operation;
  std::string path;
};

Awaitable<Result<CoherentItemPtr>> get_on_loop(std::shared_ptr<CoherentReader> reader, std::string name, Origin origin,
                                               Call call) {
  CoherentReader::Outcome outcome = co_await CoherentReader::read(reader, std::move(name), std::move(call));
  if (outcome.item == nullptr) co_return zk::to_error(outcome.reply, origin.operation, origin.path);
  co_return std::move(outcome.item);
}

Awaitable<Result<void>> write_on_loop(std::shared_ptr<CoherentWriter> writer, ItemWrite write, Origin origin,
                                      Call call) {
  const Reply reply = co_await CoherentWriter::write(writer, std::move(write), std::move(call));
  if (!reply.ok()) co_return zk::to_error(reply, origin.operation, origin.path);
  co_return Result<void>();
}

Awaitable<Result<bool>> compare_on_loop(std::shared_ptr<CoherentWriter> writer, ItemWrite write, Origin origin,
                                        Call call) {
  const Reply reply = co_await CoherentWriter::write(writer, std::move(write), std::move(call));
  if (reply.failed(Errc::bad_version)) co_return false;
  if (!reply.ok()) co_return zk::to_error(reply, origin.operation, origin.path);
  co_return true;
}

// --- From a call to its coroutine -----------------------------------------------------------------------------------

PreparedCall<CoherentItemPtr> prepare_get(const SharedPtr& shared, const char* operation, std::string_view name) {
  shared->require_name(operation, name);
  const Origin origin{operation, shared->shown(name)};
  auto work = [reader = shared->reader, name = std::string(name), origin](Call limits) {
    return get_on_loop(reader, name, origin, std::move(limits));
  };
  return {zk::CallForm(shared->client.impl(), operation, origin.path), std::move(work)};
}

template <typename T, typename Coroutine>
PreparedCall<T> prepare_write(const SharedPtr& shared, const char* operation, ItemWrite write, Coroutine coroutine) {
  shared->require_name(operation, write.name);
  const Origin origin{operation, shared->shown(write.name)};
  zk::CallForm form(shared->client.impl(), operation, origin.path);
  form.payload(write.data.size());
  auto work = [writer = shared->writer, write = std::move(write), origin, coroutine](Call limits) {
    return coroutine(writer, write, origin, std::move(limits));
  };
  return {std::move(form), std::move(work)};
}

PreparedCall<void> prepare_put(const SharedPtr& shared, std::string_view name, std::string_view data) {
  return prepare_write<void>(shared, putting, ItemWrite{ItemWrite::put, std::string(name), std::string(data)},
                             write_on_loop);
}
PreparedCall<void> prepare_create(const SharedPtr& shared, std::string_view name, std::string_view data) {
  return prepare_write<void>(shared, creating, ItemWrite{ItemWrite::create, std::string(name), std::string(data)},
                             write_on_loop);
}
PreparedCall<void> prepare_remove(const SharedPtr& shared, std::string_view name) {
  return prepare_write<void>(shared, removing, ItemWrite{ItemWrite::remove, std::string(name)}, write_on_loop);
}
PreparedCall<bool> prepare_compare_put(const SharedPtr& shared, std::string_view name, std::int64_t expected,
                                       std::string_view data) {
  ItemWrite write{ItemWrite::compare_put, std::string(name), std::string(data), expected};
  return prepare_write<bool>(shared, comparing, std::move(write), compare_on_loop);
}
PreparedCall<bool> prepare_compare_remove(const SharedPtr& shared, std::string_view name, std::int64_t expected) {
  ItemWrite write{ItemWrite::compare_remove, std::string(name), {}, expected};
  if (expected == 0) {
    throw Error(Errc::invalid_argument, comparing_to_remove, shared->shown(name), "an item with revision 0 is none");
  }
  return prepare_write<bool>(shared, comparing_to_remove, std::move(write), compare_on_loop);
}

// --- An update ------------------------------------------------------------------------------------------------------

using SwappedItem = detail::Swapped<CoherentItemPtr, std::optional<std::string>>;

Awaitable<Result<SwappedItem>> swap_on_loop(std::shared_ptr<CoherentTable> table, CoherentItemPtr seen,
                                            std::shared_ptr<CoherentWriter> writer, ItemWrite write, Origin origin,
                                            Call call) {
  const std::string name = write.name;
  std::string wanted = write.data;
  const Result<bool> done =
      co_await compare_on_loop(std::move(writer), std::move(write), std::move(origin), std::move(call));
  if (!done) co_return done.error();
  SwappedItem swapped;
  if (*done) {
    swapped.value = std::move(wanted);
  } else {
    table->outdate(name, seen);  // A change by hand leaves the lease as it is.
  }
  co_return swapped;
}

struct CoherentUpdate {
  using Function = CoherentCache::Function;
  using Seen = CoherentItemPtr;
  using Value = std::optional<std::string>;

  SharedPtr shared;
  std::string name;

  const std::shared_ptr<zk::ClientCore>& client() const { return shared->client.impl(); }
  const char* operation() const { return updating; }
  std::string path() const { return shared->shown(name); }

  std::optional<Seen> known() const {
    Seen hit = shared->table->find(name);
    return hit == nullptr ? std::optional<Seen>() : std::optional(std::move(hit));
  }
  PreparedCall<Seen> look(bool) const { return prepare_get(shared, updating, name); }
  detail::UpdateStep<Seen, Value> step(const Function& function, const Seen& item) const {
    Value wanted = function(*item);
    if (!wanted) return wanted;
    ItemWrite write{ItemWrite::compare_put, name, std::move(*wanted), item->revision};
    auto swap = [table = shared->table, item](auto writer, ItemWrite what, const Origin& origin, Call call) {
      return swap_on_loop(table, item, std::move(writer), std::move(what), origin, std::move(call));
    };
    return prepare_write<SwappedItem>(shared, updating, std::move(write), std::move(swap));
  }
};

SharedPtr make_shared_cache(zkclient::Client client, zkclient::Path path, CoherentCacheOptions options) {
  detail::require_acl(recipe, path, options.acl);
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, recipe, path.str(), why); };
  if (path.is_root()) refuse("the root is no directory of a cache");
  if (options.shards == 0 || options.shards > 65536) refuse("shards must be 1 to 65536");
  if (options.lease_term < std::chrono::milliseconds(0)) refuse("lease_term is negative");
  if (options.max_bytes == 0) refuse("max_bytes is 0");
  const std::shared_ptr<zk::ClientCore>& core = client.impl();
  // Any thread may drop them; they go on the loop.
  const auto retire = [loop = core->loop()](auto* one) {
    loop->post([owned = std::unique_ptr<std::remove_pointer_t<decltype(one)>>(one)]() mutable { owned.reset(); });
  };
  const auto layout =
      std::make_shared<const CoherentLayout>(core, core->full(path), options.shards, std::move(options.acl));
  const auto table = std::make_shared<CoherentTable>(options.max_bytes);
  const std::shared_ptr<CoherentReader> reader(new CoherentReader(core, layout, table, options.lease_term), retire);
  const std::shared_ptr<CoherentWriter> writer(new CoherentWriter(core, layout, table, reader), retire);
  return std::make_shared<const Shared>(Shared{std::move(client), std::move(path), table, reader, writer});
}

}  // namespace

struct CoherentCache::State {
  explicit State(SharedPtr with) : shared(std::move(with)) {}
  ~State() { shared->close(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const SharedPtr shared;
};

CoherentCache::CoherentCache(zkclient::Client client, zkclient::Path path, CoherentCacheOptions options)
    : state_(std::make_unique<State>(make_shared_cache(std::move(client), std::move(path), std::move(options)))) {}
CoherentCache::~CoherentCache() = default;
CoherentCache::CoherentCache(CoherentCache&&) noexcept = default;
CoherentCache& CoherentCache::operator=(CoherentCache&&) noexcept = default;

const zkclient::Path& CoherentCache::path() const noexcept { return state_->shared->path; }

CoherentItemPtr CoherentCache::get(std::string_view name, const CallOptions& call) {
  if (CoherentItemPtr hit = state_->shared->table->find(name)) return hit;
  return prepare_get(state_->shared, getting, name).wait(call);
}
void CoherentCache::async_get(std::string_view name, zkclient::Handler<CoherentItemPtr> handler,
                              const CallOptions& call) {
  prepare_get(state_->shared, getting, name).start(std::move(handler), call);
}

CoherentItemPtr CoherentCache::peek(std::string_view name) const { return state_->shared->table->peek(name); }

void CoherentCache::put(std::string_view name, std::string_view data, const CallOptions& call) {
  prepare_put(state_->shared, name, data).wait(call);
}
void CoherentCache::async_put(std::string_view name, std::string_view data, zkclient::Handler<void> handler,
                              const CallOptions& call) {
  prepare_put(state_->shared, name, data).start(std::move(handler), call);
}

void CoherentCache::create(std::string_view name, std::string_view data, const CallOptions& call) {
  prepare_create(state_->shared, name, data).wait(call);
}
void CoherentCache::async_create(std::string_view name, std::string_view data, zkclient::Handler<void> handler,
                                 const CallOptions& call) {
  prepare_create(state_->shared, name, data).start(std::move(handler), call);
}

bool CoherentCache::compare_put(std::string_view name, std::int64_t expected, std::string_view data,
                                const CallOptions& call) {
  return prepare_compare_put(state_->shared, name, expected, data).wait(call);
}
void CoherentCache::async_compare_put(std::string_view name, std::int64_t expected, std::string_view data,
                                      zkclient::Handler<bool> handler, const CallOptions& call) {
  prepare_compare_put(state_->shared, name, expected, data).start(std::move(handler), call);
}

void CoherentCache::remove(std::string_view name, const CallOptions& call) {
  prepare_remove(state_->shared, name).wait(call);
}
void CoherentCache::async_remove(std::string_view name, zkclient::Handler<void> handler, const CallOptions& call) {
  prepare_remove(state_->shared, name).start(std::move(handler), call);
}

bool CoherentCache::compare_remove(std::string_view name, std::int64_t expected, const CallOptions& call) {
  return prepare_compare_remove(state_->shared, name, expected).wait(call);
}
void CoherentCache::async_compare_remove(std::string_view name, std::int64_t expected, zkclient::Handler<bool> handler,
                                         const CallOptions& call) {
  prepare_compare_remove(state_->shared, name, expected).start(std::move(handler), call);
}

std::optional<std::string> CoherentCache::update(std::string_view name, const Function& function,
                                                 const CallOptions& call) {
  return detail::wait_for_update(CoherentUpdate{state_->shared, std::string(name)}, function, call);
}
void CoherentCache::async_update(std::string_view name, Function function,
                                 zkclient::Handler<std::optional<std::string>> handler, const CallOptions& call) {
  detail::start_update(CoherentUpdate{state_->shared, std::string(name)}, std::move(function), std::move(handler),
                       call);
}

void CoherentCache::close() { state_->shared->close(); }

CoherentCacheStatistics CoherentCache::statistics() const { return state_->shared->table->statistics(); }

}  // namespace zkrecipes
