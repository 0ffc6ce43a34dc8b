#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <zkrecipes/configuration.hpp>

#include "recipes/configuration/configuration_core.hpp"

// Publications, their history, and the way back.
namespace zkrecipes {

using namespace words;
using detail::ConfigurationCore;
using detail::ConfigurationWriter;
using detail::KeyChanges;

namespace {

using CorePtr = std::shared_ptr<ConfigurationCore>;
using PlanPtr = ConfigurationWriter::PlanPtr;

constexpr const char* publishing = "configuration publish";
constexpr const char* rolling_back = "configuration roll_back";
constexpr const char* listing_history = "configuration history";

// All steps of a call have one deadline.
CallOptions limited(const ConfigurationCore& core, CallOptions call) {
  if (!call.deadline) call.deadline = core.client()->default_deadline();
  return call;
}

auto publish_work(const CorePtr& core, PlanPtr plan) {
  return [writer = core->writer(), plan = std::move(plan)](Call call) {
    return ConfigurationWriter::publish(writer, plan, std::move(call));
  };
}

auto way_back_work(const CorePtr& core, std::int64_t from, std::int64_t to) {
  return [writer = core->writer(), from, to](Call call) {
    return ConfigurationWriter::way_back(writer, from, to, std::move(call));
  };
}

auto history_work(const CorePtr& core) {
  return [writer = core->writer()](Call call) { return ConfigurationWriter::history(writer, std::move(call)); };
}

std::size_t size_of(const detail::PublicationPlan& plan) {
  std::size_t size = 0;
  for (const detail::PlannedWrite& write : plan.writes)
    size += write.data.size();
  return size;
}

CallForm publish_form(const ConfigurationCore& core, const detail::PublicationPlan& plan, const char* operation) {
  return core.form(operation).payload(size_of(plan));
}

void require_keys(const ConfigurationCore& core, const ConfigurationUpdate& update) {
  for (const auto& entry : update.values) {
    const std::string& key = entry.first;
    const auto refuse = [&](std::string_view why) {
      throw Error(Errc::invalid_argument, publishing, core.path().str(), fmt::format("{}: {}", key, why));
    };
    if (const char* defect = detail::key_defect(key)) refuse(defect);
    try {
      (void)(core.path() / key);
    } catch (const Error& error) {
      refuse(error.detail());
    }
  }
}

void require_revision(const ConfigurationCore& core, std::int64_t revision, std::int64_t newest) {
  if (revision >= 0 && revision < newest) return;
  throw Error(Errc::invalid_argument, rolling_back, core.path().str(),
              fmt::format("revision {} is not older than the newest one, {}", revision, newest));
}

// The least one from which there is a way back to it.
std::int64_t one_after(std::int64_t revision) { return std::min(revision, detail::last_revision) + 1; }

PlanPtr plan_back(const ConfigurationCore& core, const Snapshot& nodes, std::int64_t revision, std::int64_t now,
                  KeyChanges changes) {
  ConfigurationUpdate update;
  update.values = std::move(changes);
  update.note = fmt::format("roll back to revision {}", revision);
  return core.plan(nodes, update, now, rolling_back, detail::OlderEdits::replace);
}

Error renamed(const Error& error, const ConfigurationCore& core, const char* operation) {
  return Error(error.errc(), operation, core.path().str(), error.detail());
}

bool is_older(const Snapshot& nodes, std::int64_t than) {
  const CachedNode* root = nodes.root();
  const auto record = detail::decode_record(root == nullptr ? std::string_view() : std::string_view(root->data));
  return record && record->revision < than;
}

constexpr auto is_exact = [](const Snapshot& nodes) { return nodes.exact(); };

// What the ensemble has now. An inexact snapshot may show half of a publication. `least`: there should be this revision, as
// far as the caller knows. A leader answers a sync before it has applied what clients of other servers know already, so
// that there is none is believed behind a transaction only.
Snapshot newest(const CorePtr& core, const char* operation, std::int64_t least, const CallOptions& call) {
  try {
    Snapshot nodes = core->cache().refresh(ReadBarrier::sync, call);
    if (is_older(nodes, least)) nodes = core->cache().refresh(ReadBarrier::quorum, call);
    return nodes.exact() ? nodes : core->cache().wait_until(is_exact, call);
  } catch (const Error& error) {
    throw renamed(error, *core, operation);
  }
}

/// A step of an asynchronous call: hands what `work` throws to the handler.
template <typename T, typename Work>
void step(const std::shared_ptr<zkclient::Handler<T>>& handler, Work work) {
  try {
    work();
  } catch (const Error& error) {
    (*handler)(error);
  }
}

/// Calls `next` with what the ensemble has, on the callback executor.
template <typename T, typename Next>
void async_newest(const CorePtr& core, const char* operation, std::int64_t least, const CallOptions& call,
                  const std::shared_ptr<zkclient::Handler<T>>& handler, Next next) {
  auto go_on = [core, operation, handler, next = std::move(next)](Result<Snapshot> nodes) mutable {
    if (!nodes) return (*handler)(renamed(nodes.error(), *core, operation));
    step<T>(handler, [&] { next(*nodes); });
  };
  auto until_exact = [core, call, go_on = std::move(go_on)](Result<Snapshot> nodes) mutable {
    if (!nodes || nodes->exact()) return go_on(std::move(nodes));
    core->cache().async_wait_until(is_exact, std::move(go_on), call);
  };
  core->cache().async_refresh(
      ReadBarrier::sync,
      [core, call, least, until_exact = std::move(until_exact)](Result<Snapshot> nodes) mutable {
        if (!nodes || !is_older(*nodes, least)) return until_exact(std::move(nodes));
        core->cache().async_refresh(ReadBarrier::quorum, std::move(until_exact), call);
      },
      call);
}

// The end of a publication: it is done, and current() is to be what was published. If it is not in time, it follows.
std::int64_t published(const CorePtr& core, std::int64_t revision, const CallOptions& call) {
  try {
    (void)core->cache().wait_ready(call);
    core->consider_by(*call.deadline);
  } catch (const Error&) {
    // Closed, or not in time.
  }
  return revision;
}

using RevisionHandlerPtr = std::shared_ptr<zkclient::Handler<std::int64_t>>;

// The same for an asynchronous call.
zkclient::Handler<std::int64_t> pass_to(const CorePtr& core, const CallOptions& call, RevisionHandlerPtr handler) {
  return [weak = std::weak_ptr<ConfigurationCore>(core), call,
          handler = std::move(handler)](Result<std::int64_t> revision) mutable {
    const CorePtr alive = revision ? weak.lock() : nullptr;
    if (alive == nullptr) return (*handler)(std::move(revision));
    auto ready = [weak, call, handler = std::move(handler), revision = *revision](Result<Snapshot> nodes) {
      const CorePtr self = nodes ? weak.lock() : nullptr;
      if (self != nullptr) self->consider_by(*call.deadline);
      (*handler)(revision);
    };
    alive->cache().async_wait_ready(std::move(ready), call);
  };
}

// Starts the second step of a publication.
void begin_to_publish(const CorePtr& core, PlanPtr plan, const char* operation, RevisionHandlerPtr handler,
                      const CallOptions& call) {
  const CallForm write = publish_form(*core, *plan, operation);
  write.start(call, publish_work(core, std::move(plan)), pass_to(core, call, std::move(handler)));
}

}  // namespace

std::int64_t Configuration::publish(ConfigurationUpdate update, std::int64_t expected_revision,
                                    const CallOptions& call) {
  require_keys(*core_, update);
  const CallOptions limits = limited(*core_, call);
  const Snapshot nodes = newest(core_, publishing, expected_revision, limits);
  PlanPtr plan = core_->plan(nodes, update, expected_revision, publishing);
  const CallForm write = publish_form(*core_, *plan, publishing);
  return published(core_, write.wait(limits, publish_work(core_, std::move(plan))), limits);
}

void Configuration::async_publish(ConfigurationUpdate update, std::int64_t expected_revision,
                                  zkclient::Handler<std::int64_t> handler, const CallOptions& call) {
  zk::require_handler(handler, publishing, path().str());
  require_keys(*core_, update);
  const CallOptions limits = limited(*core_, call);
  const auto told = std::make_shared<zkclient::Handler<std::int64_t>>(std::move(handler));
  auto next = [core = core_, told, limits, update = std::move(update), expected_revision](const Snapshot& nodes) {
    begin_to_publish(core, core->plan(nodes, update, expected_revision, publishing), publishing, told, limits);
  };
  async_newest<std::int64_t>(core_, publishing, expected_revision, limits, told, std::move(next));
}

std::int64_t Configuration::roll_back(std::int64_t revision, const CallOptions& call) {
  const CallOptions limits = limited(*core_, call);
  const Snapshot nodes = newest(core_, rolling_back, one_after(revision), limits);
  const std::int64_t now = core_->revision_of(nodes, rolling_back);
  require_revision(*core_, revision, now);
  KeyChanges changes = core_->form(rolling_back).wait(limits, way_back_work(core_, now, revision));
  PlanPtr plan = plan_back(*core_, nodes, revision, now, std::move(changes));
  const CallForm write = publish_form(*core_, *plan, rolling_back);
  return published(core_, write.wait(limits, publish_work(core_, std::move(plan))), limits);
}

void Configuration::async_roll_back(std::int64_t revision, zkclient::Handler<std::int64_t> handler,
                                    const CallOptions& call) {
  zk::require_handler(handler, rolling_back, path().str());
  const CallOptions limits = limited(*core_, call);
  const auto told = std::make_shared<zkclient::Handler<std::int64_t>>(std::move(handler));
  auto next = [core = core_, told, limits, revision](const Snapshot& nodes) {
    const std::int64_t now = core->revision_of(nodes, rolling_back);
    require_revision(*core, revision, now);
    auto read = [core, told, limits, revision, now, nodes](Result<KeyChanges> changes) {
      if (!changes) return (*told)(changes.error());
      step<std::int64_t>(told, [&] {
        PlanPtr plan = plan_back(*core, nodes, revision, now, std::move(*changes));
        begin_to_publish(core, std::move(plan), rolling_back, told, limits);
      });
    };
    core->form(rolling_back).start(limits, way_back_work(core, now, revision), std::move(read));
  };
  async_newest<std::int64_t>(core_, rolling_back, one_after(revision), limits, told, std::move(next));
}

std::vector<ConfigurationRevision> Configuration::history(const CallOptions& call) const {
  return core_->form(listing_history).wait(call, history_work(core_));
}
void Configuration::async_history(zkclient::Handler<std::vector<ConfigurationRevision>> handler,
                                  const CallOptions& call) const {
  core_->form(listing_history).start(call, history_work(core_), std::move(handler));
}

}  // namespace zkrecipes
