#include "recipes/configuration/configuration_core.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "recipes/configuration/configuration_file.hpp"
#include "recipes/kernel/acl_check.hpp"

namespace zkrecipes::detail {

using zk::Awaitable;
using zk::Call;
using zk::Reply;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Path;
using zkclient::Result;

namespace {

constexpr const char* recipe = "configuration";
constexpr const char* following = "configuration follow";
constexpr const char* waiting = "configuration wait";
constexpr auto connect_pause = std::chrono::seconds(1);

// The record and the keys. Of the history and the writers' slots a follower reads nothing.
TreeCacheOptions keys_only() {
  TreeCacheOptions options;
  options.include = [](const std::string& node) { return node[node.rfind('/') + 1] != '-'; };
  return options;
}

std::optional<Errc> unreadable(const CachedNode& node) {
  if (node.unreadable) {
    const bool ours = node.unreadable.category() == zkclient::error_category();
    return ours ? static_cast<Errc>(node.unreadable.value()) : Errc::system_error;
  }
  return node.has_data ? std::nullopt : std::optional(Errc::too_large);
}

}  // namespace

void ConfigurationBacklog::call(const ConfigurationPtr& newest) {
  const std::vector<ConfigurationChange> changes = changes_between(seen_.get(), *newest);
  const bool first = seen_ == nullptr;
  const bool renewed = !first && seen_->revision != newest->revision;
  seen_ = newest;
  if (first || renewed || !changes.empty()) call_(changes, newest);
}

namespace {

// Only to know when the client is closed: what waits has to end then.
Awaitable<void> follow_client(std::shared_ptr<ConfigurationWaits> waits) {
  const zk::CancelScope::Guard ended(waits->ended, [raw = waits.get()] { raw->session_over.set(); });
  Call call;
  call.cancel = waits->ended;
  while (!waits->over()) {
    const Reply connected = co_await waits->client->connected(call);
    if (!connected.ok()) {
      if (waits->over()) break;
      co_await waits->session_over.wait(std::chrono::steady_clock::now() + connect_pause);
      continue;
    }
    if (connected.session->over()) continue;
    waits->session_over.clear();
    const zk::SessionEnd end(connected.session, waits->session_over);
    if (!waits->over()) co_await waits->session_over.wait(std::nullopt);
  }
  waits->finished = true;
  waits->calls.wake_all();
}

}  // namespace

std::shared_ptr<ConfigurationCore> ConfigurationCore::start(const zkclient::Client& client, const Path& path,
                                                            ConfigurationOptions options, Parser parser) {
  require_acl(recipe, path, options.acl);
  if (path.is_root()) throw Error(Errc::invalid_argument, recipe, path.str(), "the root is no configuration");
  if (options.history == 0) throw Error(Errc::invalid_argument, recipe, path.str(), "the history has no place");
  auto core = std::make_shared<ConfigurationCore>(client, path, std::move(options), std::move(parser));
  core->begin();
  return core;
}

ConfigurationCore::ConfigurationCore(const zkclient::Client& client, const Path& path, ConfigurationOptions options,
                                     Parser parser)
    : client_(client.impl()),
      path_(path),
      options_(std::move(options)),
      parser_(std::move(parser)),
      writer_(std::make_shared<ConfigurationWriter>(
          client_, path_, ConfigurationWriter::Options{options_.acl, options_.id, options_.history})),
      queue_(std::make_shared<zk::SerialQueue>(client_->callbacks())),
      waits_(std::make_shared<ConfigurationWaits>(client_)),
      cache_(client, path, keys_only()) {}

void ConfigurationCore::begin() {
  read_file();
  const std::weak_ptr<ConfigurationCore> weak = weak_from_this();
  const bool accepted = client_->loop()->post([waits = waits_] { zk::spawn(follow_client(waits)); });
  if (!accepted) throw Error(client_->loop()->refusal(), recipe, path_.str());
  changes_ = cache_.on_change([weak](const std::vector<Change>&, const Snapshot&) {
    if (const auto self = weak.lock()) self->consider_soon();
  });
  states_ = cache_.on_state([weak](CacheState) {
    if (const auto self = weak.lock()) self->wake();
  });
}

// --- Asked by any thread ---------------------------------------------------------------------------------------------

Error ConfigurationCore::error(Errc code, const char* operation, std::string_view detail) const {
  return Error(code, operation, path_.str(), detail);
}

ConfigurationPtr ConfigurationCore::current() const {
  if (process_.forked()) return nullptr;
  const std::lock_guard lock(mutex_);
  return current_;
}

ConfigurationOrigin ConfigurationCore::origin() const {
  if (process_.forked()) return ConfigurationOrigin::none;
  const bool caught_up = cache_.state() == CacheState::current;
  const Snapshot newest = cache_.snapshot();
  const std::lock_guard lock(mutex_);
  if (current_ == nullptr) return ConfigurationOrigin::none;
  if (from_file_) return ConfigurationOrigin::file;
  // A snapshot that differs in nothing makes no call, and is not considered.
  const bool considered = considered_.revision() >= newest.revision() || difference(considered_, newest).empty();
  return live_ && caught_up && considered ? ConfigurationOrigin::live : ConfigurationOrigin::last_known;
}

std::optional<zkclient::BootClock::time_point> ConfigurationCore::as_of() const {
  if (process_.forked()) return std::nullopt;
  const auto newest =
      cache_.as_of();  // First: what it says is about the snapshot that origin() looks at, or an older one.
  const bool live = origin() == ConfigurationOrigin::live;
  const std::lock_guard lock(mutex_);
  if (live && newest) as_of_ = std::max(as_of_.value_or(*newest), *newest);
  return as_of_;
}

std::optional<Error> ConfigurationCore::problem() const {
  if (process_.forked()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return problem_ ? problem_ : file_problem_;
}

zkclient::Subscription ConfigurationCore::on_change(Configuration::Listener listener) {
  if (!listener) throw error(Errc::invalid_argument, "on_change", "no listener");
  if (process_.forked()) throw error(Errc::forked, "on_change");
  return listeners_->add(client_->callbacks(), ConfigurationBacklog(std::move(listener)));
}

zkclient::Subscription ConfigurationCore::on_rejected(Configuration::RejectionListener listener) {
  if (!listener) throw error(Errc::invalid_argument, "on_rejected", "no listener");
  if (process_.forked()) throw error(Errc::forked, "on_rejected");
  return rejection_listeners_->add(client_->callbacks(), RejectionBacklog(std::move(listener)));
}

void ConfigurationCore::close() {
  if (process_.forked()) return;
  closed_ = true;
  client_->loop()->post([ended = waits_->ended] { ended->request(); });
  listeners_->stop();
  rejection_listeners_->stop();
  cache_.close();
  // Listeners that close it do not wait for each other, nor for the validator.
  if (listeners_->runs_here() || rejection_listeners_->runs_here()) return;
  queue_->close();
  listeners_->wait();
  rejection_listeners_->wait();
}

// --- Waiting ---------------------------------------------------------------------------------------------------------

ConfigurationPtr ConfigurationCore::wanted(Wanted wanted, std::int64_t revision) const {
  const ConfigurationOrigin from = origin();
  ConfigurationPtr now = current();
  const bool ensembles = from == ConfigurationOrigin::live || from == ConfigurationOrigin::last_known;
  switch (wanted) {
    case Wanted::any: return now;
    case Wanted::live: return from == ConfigurationOrigin::live ? now : nullptr;
    case Wanted::revision: return ensembles && now->revision >= revision ? now : nullptr;
  }
  return nullptr;
}

zk::Work<ConfigurationPtr> ConfigurationCore::wait_work(Wanted wanted, std::int64_t revision) {
  return [weak = weak_from_this(), waits = waits_, wanted, revision](Call call) {
    return wait(weak, waits, wanted, revision, std::move(call));
  };
}

Awaitable<Result<ConfigurationPtr>> ConfigurationCore::wait(std::weak_ptr<ConfigurationCore> weak, WaitsPtr waits,
                                                            Wanted what, std::int64_t revision, Call call) {
  const WaitingCalls::Waiting waiter(waits->calls, waits->client->events(), call);
  for (;;) {
    waiter->clear();
    {
      const auto self = weak.lock();
      ConfigurationPtr now = self == nullptr ? nullptr : self->wanted(what, revision);
      if (now != nullptr) co_return now;
      const auto failure = waiter->failure(self == nullptr || waits->over());
      if (failure) co_return Error(*failure, waiting, self == nullptr ? std::string() : self->path_.str());
    }
    co_await waiter->wait();
  }
}

// A call that began to wait, and looked, before there were any news is told of them.
void ConfigurationCore::wake() {
  client_->loop()->post([waits = waits_] { waits->calls.wake_all(); });
}

// --- What the cache brings -------------------------------------------------------------------------------------------

ConfigurationTree ConfigurationCore::seen_of(const Snapshot& nodes) const {
  ConfigurationTree seen;
  seen.exact = nodes.exact();
  const std::size_t skipped = path_.str().size() + 1;
  nodes.for_each([&](const std::string& path, const CachedNode& node) {
    if (path.size() < skipped) {
      seen.exists = true;
      seen.record = node.data;
      seen.version = node.stat.version;
      seen.mzxid = node.stat.mzxid;
      seen.unreadable = unreadable(node);
      return;
    }
    const std::string relative = path.substr(skipped);
    if (is_outside(relative)) return;
    seen.nodes.push_back({relative, node.data, node.stat.version, node.stat.mzxid, unreadable(node)});
  });
  return seen;
}

void ConfigurationCore::consider_soon() {
  queue_->post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->consider();
  });
}

void ConfigurationCore::consider() {
  if (closed_) return;
  const Snapshot nodes = cache_.snapshot();
  ConfigurationVerdict verdict = decide(seen_of(nodes), current().get());
  switch (verdict.kind) {
    case ConfigurationVerdict::Kind::candidate: {
      const bool known = rejected_ != nullptr && rejected_->values->values == verdict.values->values &&
                         rejected_->revision == verdict.values->revision;
      if (known) return conclude(nodes, false, error(Errc::invalid_argument, following, rejected_->why));
      if (auto why = defect_of(*verdict.values)) return reject(verdict.values, std::move(*why), nodes);
      return accept(std::move(verdict.values), nodes);
    }
    case ConfigurationVerdict::Kind::same: return conclude(nodes, true, std::nullopt);
    case ConfigurationVerdict::Kind::wait: return wait_for_exact();
    case ConfigurationVerdict::Kind::missing: return conclude(nodes, false, error(Errc::no_node, following));
    case ConfigurationVerdict::Kind::malformed:
      return conclude(nodes, false, error(Errc::foreign_node, following, "the record is malformed"));
    case ConfigurationVerdict::Kind::unreadable:
      return conclude(nodes, false, error(verdict.code, following, verdict.where));
  }
}

// No call of the cache's listener may come: the exact snapshot need not differ.
void ConfigurationCore::wait_for_exact() {
  if (std::exchange(awaiting_exact_, true)) return;
  cache_.async_wait_until([](const Snapshot& nodes) { return nodes.exact(); },
                          [weak = weak_from_this()](Result<Snapshot>) {
                            const auto self = weak.lock();
                            if (self == nullptr) return;
                            self->queue_->post([weak] {
                              const auto again = weak.lock();
                              if (again == nullptr) return;
                              again->awaiting_exact_ = false;
                              if (again->cache_.state() != CacheState::closed) again->consider();
                            });
                          });
}

void ConfigurationCore::conclude(const Snapshot& nodes, bool live, std::optional<Error> problem) {
  Snapshot shown = nodes;
  {
    const std::lock_guard lock(mutex_);
    std::swap(considered_, shown);  // The former one is not destroyed under the lock.
    live_ = live;
    problem_ = std::move(problem);
  }
  if (live && std::exchange(rejected_, nullptr) != nullptr) rejection_listeners_->tell(nullptr);
  wake();
}

void ConfigurationCore::accept(std::shared_ptr<ConfigurationValues> values, const Snapshot& nodes) {
  ConfigurationPtr before;
  bool kept = false;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(current_, values);
    kept = !from_file_ && !file_problem_;
    from_file_ = false;
  }
  conclude(nodes, true, std::nullopt);
  const bool news = before == nullptr || before->revision != values->revision || !same_texts(*before, *values);
  if (news) listeners_->tell(values);
  if (news || !kept) keep_in_file(*values);
}

void ConfigurationCore::reject(const std::shared_ptr<ConfigurationValues>& values, std::string why,
                               const Snapshot& nodes) {
  rejected_ = std::make_shared<const ConfigurationRejection>(ConfigurationRejection{values->revision, why, values});
  conclude(nodes, false, error(Errc::invalid_argument, following, why));
  rejection_listeners_->tell(rejected_);
}

std::optional<std::string> ConfigurationCore::defect_of(ConfigurationValues& values) const {
  try {
    if (options_.validate) options_.validate(values);
    if (parser_) values.parsed = parser_(values);
    return std::nullopt;
  } catch (const Error& error) {
    return error.detail().empty() ? std::string(error.what()) : error.detail();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

// --- The fallback file -----------------------------------------------------------------------------------------------

void ConfigurationCore::read_file() {
  if (options_.fallback_file.empty()) return;
  std::error_code failure;
  const std::optional<std::string> text = read_whole_file(options_.fallback_file, failure);
  if (failure) file_problem_ = error(Errc::system_error, "configuration fallback file", failure.message());
  if (!text) return;
  auto decoded = decode_file(client_->full(path_), *text);
  if (!decoded) {
    file_problem_ = error(Errc::foreign_node, "configuration fallback file", "it is torn, or another configuration's");
    return;
  }
  const auto values = std::make_shared<ConfigurationValues>(std::move(*decoded));
  if (auto why = defect_of(*values)) {
    file_problem_ = error(Errc::invalid_argument, "configuration fallback file", *why);
    rejected_ = std::make_shared<const ConfigurationRejection>(ConfigurationRejection{values->revision, *why, values});
    rejection_listeners_->tell(rejected_);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    current_ = values;
    from_file_ = true;
  }
  listeners_->tell(values);
}

void ConfigurationCore::keep_in_file(const ConfigurationValues& values) {
  if (options_.fallback_file.empty()) return;
  const std::error_code failure = replace_file(options_.fallback_file, encode_file(client_->full(path_), values));
  std::optional<Error> problem;
  if (failure) problem = error(Errc::system_error, "configuration fallback file", failure.message());
  const std::lock_guard lock(mutex_);
  file_problem_ = std::move(problem);
}

// --- Publishing ------------------------------------------------------------------------------------------------------

std::int64_t ConfigurationCore::revision_of(const Snapshot& nodes, const char* operation) const {
  const CachedNode* root = nodes.root();
  const auto record = decode_record(root == nullptr ? std::string_view() : std::string_view(root->data));
  if (!record) throw error(Errc::foreign_node, operation, "the record is malformed");
  return record->revision;
}

std::shared_ptr<const PublicationPlan> ConfigurationCore::plan(const Snapshot& nodes, const ConfigurationUpdate& update,
                                                               std::int64_t expected_revision,
                                                               const char* operation) const {
  PublicationDecision decision = plan_publication(seen_of(nodes), current().get(), update, expected_revision);
  if (!decision.plan) throw error(decision.refusal.code, operation, decision.refusal.detail);
  if (auto why = defect_of(decision.plan->result)) throw error(Errc::invalid_argument, operation, *why);
  return std::make_shared<const PublicationPlan>(std::move(*decision.plan));
}

}  // namespace zkrecipes::detail
