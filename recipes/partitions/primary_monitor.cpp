#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/primary.hpp>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/growing_pause.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/partitions/primary_decider.hpp"

namespace zkrecipes {

using namespace words;
using detail::RoleNode;

namespace {

constexpr const char* primary_monitor = "primary monitor";
constexpr auto look_again = std::chrono::seconds(30);
// After a failure: the word of another writer may have come in between, or a right may be granted some day.
constexpr auto first_monitor_pause = std::chrono::milliseconds(20);
constexpr auto longest_monitor_pause = std::chrono::milliseconds(500);

}  // namespace

/// What a monitor does while it leads, on its selector's thread.
class detail::PrimaryMonitorCore {
 public:
  PrimaryMonitorCore(zkclient::Client client, Path path, std::vector<std::string> roles, PrimaryMonitorOptions options)
      : client_(std::move(client)),
        path_(std::move(path)),
        roles_(std::move(roles)),
        options_(std::move(options)),
        group_(client_, path_ / "members", group_options(options_)),
        selector_(
            client_, path_ / "monitor",
            [this](const std::stop_token& stop, SelectedLeadership& leadership) { lead(stop, leadership); },
            selector_options()) {}

  void start() { selector_.start(); }
  bool leads() const noexcept { return selector_.is_leader(); }
  const Path& path() const noexcept { return path_; }
  const zkclient::Client& client() const noexcept { return client_; }
  Path node(const std::string& role) const { return path_ / "roles" / role; }
  std::optional<Error> problem() const {
    if (client_.impl()->loop()->forked()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return problem_;
  }

 private:
  static GroupOptions group_options(const PrimaryMonitorOptions& options) {
    GroupOptions group;
    group.acl = options.acl;
    return group;
  }
  LeaderSelectorOptions selector_options() {
    LeaderSelectorOptions selector;
    selector.acl = options_.acl;
    selector.id = options_.id;
    selector.on_error = [this](const std::exception_ptr& error) { note_failure(error); };
    return selector;
  }

  void lead(const std::stop_token& stop, SelectedLeadership& leadership) {
    const CallOptions until_stopped{.stop = stop};
    ChildrenCache roles(client_, path_ / "roles");
    const auto news = [this](const auto&, const auto&) { tell(); };
    const auto of_members = group_.on_change(news);
    const auto of_roles = roles.on_change(news);
    GrowingPause pauses(first_monitor_pause, longest_monitor_pause);
    tell();
    while (wait(stop, look_again)) {
      try {
        std::optional<Error> hidden = decide(leadership, roles, until_stopped);
        pauses.reset();
        const std::lock_guard lock(mutex_);
        problem_ = std::move(hidden);
      } catch (...) {
        if (stop.stop_requested() || !leadership.valid()) return;
        note_failure(std::current_exception());
        wait(stop, pauses.next());  // News may take away what it failed for.
        tell();
      }
    }
  }

  // Behind a sync: a server that lags behind would have this decide what was decided before. What cannot be read may be a
  // member, or name one: then nothing is decided before there is news, and the reason is returned.
  std::optional<Error> decide(SelectedLeadership& leadership, const ChildrenCache& roles, const CallOptions& call) {
    const Snapshot named = roles.refresh(ReadBarrier::sync, call);
    if (!named.complete()) return roles.problem();
    if (named.root() == nullptr) make_directory(call);
    const GroupSnapshot group = group_.members(call);
    if (!group.complete) return group_.problem();
    const std::vector<Member>& members = group.members;
    std::vector<RoleNode> nodes;
    for (const std::string& role : roles_) {
      const CachedNode* found = named.find(role);
      RoleNode node{role};
      if (found != nullptr) {
        node.named = found->data;
        node.version = found->stat.version;
      }
      nodes.push_back(std::move(node));
    }
    const auto writes = decide_roles(nodes, members, options_.choose);
    if (writes.empty()) return std::nullopt;
    Transaction transaction = leadership.transaction();
    for (const RoleNode& write : writes) {
      if (write.version) {
        transaction.set(node(write.role), write.named, *write.version);
      } else {
        transaction.create(node(write.role), write.named, {.acl = options_.acl});
      }
    }
    client_.commit(transaction, call);
    return std::nullopt;
  }

  void make_directory(const CallOptions& call) {
    const Path directory = path_ / "roles";
    std::error_code error;
    client_.create(directory, "", {.acl = options_.acl, .parents = true}, call, error);
    if (error && error != Errc::node_exists) {
      throw Error(static_cast<Errc>(error.value()), primary_monitor, directory.str());
    }
  }

  void tell() {
    const std::lock_guard lock(mutex_);
    news_ = true;
    changed_.notify_all();
  }
  bool wait(const std::stop_token& stop, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, limit, [this] { return news_; });
    news_ = false;
    return !stop.stop_requested();
  }
  void note_failure(const std::exception_ptr& failure) {
    std::optional<Error> problem;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      problem.emplace(error);
    } catch (const std::exception& error) {
      problem.emplace(Errc::in_doubt, primary_monitor, path_.str(), error.what());
    } catch (...) {
      problem.emplace(Errc::in_doubt, primary_monitor, path_.str(), "choose() threw something");
    }
    const std::lock_guard lock(mutex_);
    problem_ = std::move(problem);
  }

  const zkclient::Client client_;  // Stays open for as long as it is used here.
  const Path path_;
  const std::vector<std::string> roles_;
  const PrimaryMonitorOptions options_;
  const Group group_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  bool news_ = false;
  std::optional<Error> problem_;
  LeaderSelector selector_;  // The first to go: its thread uses the others.
};

PrimaryMonitor::PrimaryMonitor(zkclient::Client client, Path path, std::vector<std::string> roles,
                               PrimaryMonitorOptions options) {
  detail::require_acl(primary_monitor, path, options.acl);
  const auto refuse = [&path](const char* why) {
    throw Error(Errc::invalid_argument, primary_monitor, path.str(), why);
  };
  if (!options.choose) refuse("no choose");
  std::sort(roles.begin(), roles.end());
  if (std::adjacent_find(roles.begin(), roles.end()) != roles.end()) refuse("a role is there twice");
  for (const std::string& role : roles) {
    if (role.find('/') != std::string::npos) refuse("a role has no slash");
    (void)(path / role);
  }
  core_ = std::make_shared<detail::PrimaryMonitorCore>(std::move(client), std::move(path), std::move(roles),
                                                       std::move(options));
}

PrimaryMonitor::~PrimaryMonitor() {
  if (core_->client().impl()->loop()->forked()) zkclient::detail::keep_for_ever(std::move(core_));
}

void PrimaryMonitor::start() { core_->start(); }
bool PrimaryMonitor::leads() const noexcept { return core_->leads(); }

void PrimaryMonitor::move(const std::string& role, const std::string& member, const CallOptions& call) {
  core_->client().set(core_->node(role), member, zkclient::any_version, call);
}
void PrimaryMonitor::async_move(const std::string& role, const std::string& member, zkclient::Handler<void> handler,
                                const CallOptions& call) {
  zkclient::detail::require_handler(handler, "primary monitor move", path().str());
  auto told = [handler = std::move(handler)](const zkclient::Result<zkclient::Stat>& written) mutable {
    written ? handler(zkclient::Result<void>()) : handler(written.error());
  };
  core_->client().async_set(core_->node(role), member, zkclient::any_version, std::move(told), call);
}

std::optional<Error> PrimaryMonitor::problem() const { return core_->problem(); }
const Path& PrimaryMonitor::path() const noexcept { return core_->path(); }

}  // namespace zkrecipes
