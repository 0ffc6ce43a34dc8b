#include <zkrecipes/configuration.hpp>

#include <utility>

#include <fmt/format.h>

#include "recipes/configuration/configuration_core.hpp"

namespace zkrecipes {

using namespace words;
using detail::ConfigurationCore;

const char* to_string(ConfigurationOrigin origin) noexcept {
  switch (origin) {
    case ConfigurationOrigin::none: return "none";
    case ConfigurationOrigin::file: return "file";
    case ConfigurationOrigin::last_known: return "last_known";
    case ConfigurationOrigin::live: return "live";
  }
  return "unknown";
}

const std::string* ConfigurationValues::find(std::string_view key) const noexcept {
  const auto found = values.find(key);
  return found == values.end() ? nullptr : &found->second.text;
}

const std::string& ConfigurationValues::at(std::string_view key) const {
  const std::string* text = find(key);
  if (text == nullptr) throw Error(Errc::no_node, "configuration", key, fmt::format("there is no key {}", key));
  return *text;
}

namespace {

using CorePtr = std::shared_ptr<ConfigurationCore>;

constexpr const char* waiting = "configuration wait";
constexpr const char* waiting_applied = "configuration wait_applied";

/// What a call of wait_applied() asks for.
struct RollOutQuestion {
  CorePtr core;
  std::int64_t revision;
  std::vector<std::string> ids;
  std::int64_t epoch = 0;  // Of the path, when the question was asked.

  ConfigurationRollOut answer(const Snapshot& reports) const {
    return detail::judge_roll_out(detail::reports_of(reports), revision, ids, epoch);
  }
  Error error(Errc code, const std::string& why) const { return Error(code, waiting_applied, core->path().str(), why); }
  void require_ids() const {
    for (const std::string& id : ids) {
      if (const char* defect = detail::report_id_defect(id)) throw error(Errc::invalid_argument, defect);
    }
  }
  bool is_decided(const Snapshot& reports) const {
    const CachedNode* directory = reports.root();
    if (directory != nullptr && directory->unreadable) {
      throw error(detail::errc_of(directory->unreadable), "the reports cannot be read");
    }
    return detail::is_decided(answer(reports));
  }
};
using RollOutQuestionPtr = std::shared_ptr<RollOutQuestion>;

RollOutQuestionPtr make_question(const CorePtr& core, std::int64_t revision, std::vector<std::string> ids) {
  auto question = std::make_shared<RollOutQuestion>(RollOutQuestion{core, revision, std::move(ids), 0});
  question->require_ids();
  return question;
}

Cache::Predicate decided(const RollOutQuestionPtr& question) {
  return [question](const Snapshot& reports) { return question->is_decided(reports); };
}

}  // namespace

Configuration::Configuration(zkclient::Client client, Path path, ConfigurationOptions options)
    : Configuration(std::move(client), std::move(path), std::move(options), Parser()) {}
Configuration::Configuration(zkclient::Client client, Path path, ConfigurationOptions options, Parser parser)
    : core_(ConfigurationCore::start(client, path, std::move(options), std::move(parser))) {}

Configuration::~Configuration() {
  if (core_ != nullptr) core_->close();
}

Configuration::Configuration(Configuration&&) noexcept = default;

Configuration& Configuration::operator=(Configuration&& other) noexcept {
  if (this == &other) return *this;
  if (core_ != nullptr) core_->close();
  core_ = std::move(other.core_);
  return *this;
}

const Path& Configuration::path() const noexcept { return core_->path(); }
ConfigurationPtr Configuration::current() const noexcept { return core_->current(); }
ConfigurationOrigin Configuration::origin() const { return core_->origin(); }
std::optional<zkclient::BootClock::time_point> Configuration::as_of() const { return core_->as_of(); }
std::optional<Error> Configuration::problem() const { return core_->problem(); }
void Configuration::close() {
  const auto core = core_;  // A listener that is released may own this object.
  core->close();
}

ConfigurationPtr Configuration::wait_ready(const CallOptions& call) const {
  return core_->form(waiting).endless().wait(call, core_->wait_work(ConfigurationCore::Wanted::any, 0));
}
void Configuration::async_wait_ready(zkclient::Handler<ConfigurationPtr> handler, const CallOptions& call) const {
  auto work = core_->wait_work(ConfigurationCore::Wanted::any, 0);
  core_->form(waiting).endless().start(call, std::move(work), std::move(handler));
}

ConfigurationPtr Configuration::wait_live(const CallOptions& call) const {
  return core_->form(waiting).endless().wait(call, core_->wait_work(ConfigurationCore::Wanted::live, 0));
}
void Configuration::async_wait_live(zkclient::Handler<ConfigurationPtr> handler, const CallOptions& call) const {
  auto work = core_->wait_work(ConfigurationCore::Wanted::live, 0);
  core_->form(waiting).endless().start(call, std::move(work), std::move(handler));
}

ConfigurationPtr Configuration::wait_for_revision(std::int64_t revision, const CallOptions& call) const {
  return core_->form(waiting).endless().wait(call, core_->wait_work(ConfigurationCore::Wanted::revision, revision));
}
void Configuration::async_wait_for_revision(std::int64_t revision, zkclient::Handler<ConfigurationPtr> handler,
                                            const CallOptions& call) const {
  auto work = core_->wait_work(ConfigurationCore::Wanted::revision, revision);
  core_->form(waiting).endless().start(call, std::move(work), std::move(handler));
}

ConfigurationRollOut Configuration::wait_applied(std::int64_t revision, std::vector<std::string> ids,
                                                 const CallOptions& call) const {
  const RollOutQuestionPtr question = make_question(core_, revision, std::move(ids));
  const auto reports = core_->reports();
  try {
    question->epoch = detail::epoch_of(core_->cache().refresh(ReadBarrier::none, call));
  } catch (const Error& error) {
    if (error.errc() != Errc::deadline_exceeded) throw question->error(error.errc(), error.detail());
    question->epoch = detail::epoch_of(core_->cache().snapshot());
  }
  try {
    return question->answer(reports->wait_until(decided(question), call));
  } catch (const Error& error) {
    if (error.errc() == Errc::deadline_exceeded) return question->answer(reports->snapshot());
    throw question->error(error.errc(), error.detail());
  }
}
void Configuration::async_wait_applied(std::int64_t revision, std::vector<std::string> ids,
                                       zkclient::Handler<ConfigurationRollOut> handler, const CallOptions& call) const {
  zk::require_handler(handler, waiting_applied, path().str());
  const RollOutQuestionPtr question = make_question(core_, revision, std::move(ids));
  const auto reports = core_->reports();
  auto told = [question, reports, handler = std::move(handler)](Result<Snapshot> seen) mutable {
    const bool late = !seen && seen.error().errc() == Errc::deadline_exceeded;
    if (!seen && !late) return handler(question->error(seen.error().errc(), seen.error().detail()));
    handler(question->answer(late ? reports->snapshot() : *seen));
  };
  auto begin = [question, reports, call, told = std::move(told)](Result<Snapshot> nodes) mutable {
    const bool late = !nodes && nodes.error().errc() == Errc::deadline_exceeded;
    if (!nodes && !late) return told(std::move(nodes));
    question->epoch = detail::epoch_of(late ? question->core->cache().snapshot() : *nodes);
    reports->async_wait_until(decided(question), std::move(told), call);
  };
  core_->cache().async_refresh(ReadBarrier::none, std::move(begin), call);
}

zkclient::Subscription Configuration::on_change(Listener listener) const {
  return core_->on_change(std::move(listener));
}
zkclient::Subscription Configuration::on_rejected(RejectionListener listener) const {
  return core_->on_rejected(std::move(listener));
}

}  // namespace zkrecipes
