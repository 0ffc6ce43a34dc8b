#include "recipes/configuration/configuration_core.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/ended_wait.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* recipe = "configuration";
constexpr const char* waiting = "configuration wait";
constexpr const char* waiting_applied = "configuration wait_applied";
constexpr auto connect_pause = std::chrono::seconds(1);

// The record and the keys. Of the history and the writers' slots a follower reads nothing.
TreeCacheOptions keys_only() {
  TreeCacheOptions options;
  options.include = [](const std::string& node) { return node[node.rfind('/') + 1] != '-'; };
  return options;
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
    : owner_(client),
      client_(client.impl()),
      path_(path),
      options_(std::move(options)),
      parser_(std::move(parser)),
      writer_(std::make_shared<ConfigurationWriter>(
          client_, path_, ConfigurationWriter::Options{options_.acl, options_.id, options_.history})),
      queue_(std::make_shared<zk::SerialQueue>(client_->callbacks())),
      waits_(std::make_shared<ConfigurationWaits>(client_)),
      cache_(client, path, keys_only()) {}

void ConfigurationCore::begin() {
  if (options_.report) {
    reported_ = encode(ConfigurationReport());
    report_ = KeptNode::start(report_spec(client_, path_, options_), reported_);
  }
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
  {
    const std::lock_guard lock(mutex_);
    if (problem_) return problem_;
    if (file_problem_) return file_problem_;
  }
  return report_ == nullptr ? std::nullopt : report_->problem();
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

std::shared_ptr<const ChildrenCache> ConfigurationCore::reports() {
  if (process_.forked()) throw error(Errc::forked, waiting_applied);
  const std::lock_guard lock(mutex_);
  if (closed_) throw error(Errc::closed, waiting_applied);
  if (reports_ == nullptr) reports_ = std::make_shared<ChildrenCache>(owner_, reports_path(path_));
  return reports_;
}

void ConfigurationCore::close() {
  if (process_.forked()) return;
  std::shared_ptr<ChildrenCache> reports;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    reports = reports_;
  }
  if (report_ != nullptr) report_->drop();
  if (reports != nullptr) reports->close();
  client_->loop()->post([ended = waits_->ended] { ended->request(); });
  listeners_->stop();
  rejection_listeners_->stop();
  cache_.close();
  // Listeners that close it do not wait for each other, nor for the validator.
  if (listeners_->runs_here() || rejection_listeners_->runs_here()) return;
  queue_->close();
  { const std::lock_guard validator(considering_); }  // Of one who publishes.
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

std::string ConfigurationCore::wait_story(Wanted wanted, std::int64_t revision) const {
  const auto awaited = [&] {
    switch (wanted) {
      case Wanted::any: return std::string("a configuration");
      case Wanted::live: return std::string("the configuration that the ensemble has");
      case Wanted::revision: break;
    }
    return fmt::format("revision {} or a later one", revision);
  };
  const ConfigurationPtr now = current();
  std::string seen = fmt::format("nothing is published, {}", describe_view(cache_));
  if (cache_.snapshot().revision() == 0) seen = describe_view(cache_);
  if (now != nullptr) seen = fmt::format("revision {}, {}", now->revision, to_string(origin()));
  if (const auto why = problem()) seen += fmt::format("; {}", why->what());
  return detail::wait_story(awaited(), seen);
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
      if (failure && self == nullptr) co_return Error(*failure, waiting, "");
      if (failure) co_return self->error(*failure, waiting, self->wait_story(what, revision));
    }
    co_await waiter->wait();
  }
}

// A call that began to wait, and looked, before there were any news is told of them.
void ConfigurationCore::wake() {
  client_->loop()->post([waits = waits_] { waits->calls.wake_all(); });
}

// --- Publishing ------------------------------------------------------------------------------------------------------

std::int64_t ConfigurationCore::revision_of(const Snapshot& nodes, const char* operation) const {
  const CachedNode* root = nodes.root();
  const auto record = decode_record(root == nullptr ? std::string_view() : std::string_view(root->data));
  if (!record) throw error(Errc::foreign_node, operation, "the record is malformed");
  return record->revision;
}

ConfigurationPtr ConfigurationCore::known() const {
  const std::lock_guard lock(mutex_);
  return from_file_ ? nullptr : current_;
}

std::shared_ptr<const PublicationPlan> ConfigurationCore::plan(const Snapshot& nodes, const ConfigurationUpdate& update,
                                                               std::int64_t expected_revision, const char* operation,
                                                               OlderEdits older) const {
  PublicationDecision decision = plan_publication(seen_of(nodes), known().get(), update, expected_revision, older);
  if (!decision.plan) throw error(decision.refusal.code, operation, decision.refusal.detail);
  if (auto why = defect_of(decision.plan->result)) throw error(Errc::invalid_argument, operation, *why);
  return std::make_shared<const PublicationPlan>(std::move(*decision.plan));
}

}  // namespace zkrecipes::detail
