#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/placement.hpp>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/growing_pause.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/replication/group_views.hpp"
#include "recipes/replication/placement_decider.hpp"
#include "recipes/replication/placement_format.hpp"

namespace zkrecipes {

using namespace words;

namespace {

constexpr const char* placer_name = "placer";
constexpr auto longest_rest = std::chrono::seconds(30);
// After a failure: what it rests on may have changed, or a right may be granted some day.
constexpr auto first_placer_pause = std::chrono::milliseconds(20);
constexpr auto longest_placer_pause = std::chrono::milliseconds(500);

std::vector<ReplicaHost> hosts_in(const GroupSnapshot& group) {
  std::vector<ReplicaHost> hosts;
  for (const Member& member : group.members) {
    if (auto host = detail::decode_host(member.id, member.payload)) hosts.push_back(std::move(*host));
  }
  return hosts;
}

}  // namespace

/// What a placer does while it leads, on its selector's thread.
class detail::PlacerCore {
 public:
  PlacerCore(zkclient::Client client, Path path, std::vector<std::string> partitions, PlacerOptions options)
      : client_(std::move(client)),
        path_(std::move(path)),
        partitions_(std::move(partitions)),
        options_(std::move(options)),
        hosts_(client_, path_ / "hosts", group_options(options_)),
        selector_(
            client_, path_ / "placer",
            [this](const std::stop_token& stop, SelectedLeadership& leadership) { lead(stop, leadership); },
            selector_options()) {}

  void start() { selector_.start(); }
  bool leads() const noexcept { return selector_.is_leader(); }
  const Path& path() const noexcept { return path_; }
  bool forked() const { return client_.impl()->loop()->forked(); }
  std::optional<Error> problem() const {
    if (forked()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return problem_;
  }

 private:
  /// What one term knows.
  struct Term {
    explicit Term(const PlacerCore& core)
        : placements(core.client_, core.placement_path()),
          groups(core.client_, core.groups_path(), viewing_groups(core.groups_path(), GroupViewer::placer)),
          book(core.options_.settle) {}

    const ChildrenCache placements;
    const TreeCache groups;
    HostBook book;
    PlacementGoal goal;
  };
  /// What a decision rests on.
  struct Facts {
    std::vector<PartitionFacts> partitions;
    std::map<std::string, std::int32_t> versions;  // Of their nodes.
    std::map<std::string, GroupView> groups;
    std::vector<std::string> assigned;  // All hosts that have replicas, ordered.
    std::string foreign;                // A partition whose node another program has written.
  };

  static GroupOptions group_options(const PlacerOptions& options) {
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
  Path placement_path() const { return path_ / "placement"; }
  Path groups_path() const { return path_ / "groups"; }

  void lead(const std::stop_token& stop, SelectedLeadership& leadership) {
    Term term(*this);
    const auto news = [this](const auto&, const auto&) { tell(); };
    const auto of_hosts = hosts_.on_change(news);
    const auto of_placements = term.placements.on_change(news);
    const auto of_groups = term.groups.on_change(news);
    GrowingPause pauses(first_placer_pause, longest_placer_pause);
    HostBook::Time rest{0};
    while (wait(stop, rest)) {
      try {
        const bool written = decide(term, leadership, {.stop = stop});
        rest = std::min<HostBook::Time>(longest_rest, term.book.until_settled(now()).value_or(longest_rest));
        if (written) {
          pauses.reset();
        } else {
          rest = pauses.next();
        }
      } catch (...) {
        if (stop.stop_requested() || !leadership.valid()) return;
        note_failure(std::current_exception());
        rest = pauses.next();
      }
    }
  }

  /// False: a step was refused, because what it rested on has changed.
  bool decide(Term& term, SelectedLeadership& leadership, const CallOptions& call) {
    const Facts facts = look(term, call);
    note(facts);
    term.book.see(hosts_in(hosts_.members(call)), now());
    const auto counting = term.book.counting(facts.assigned, now());
    if (!counting) return true;
    const Placement& goal = term.goal.reach(*counting, facts.partitions, options_.replicas);
    bool written = true;
    for (const PlacementStep& step :
         decide_placement(facts.partitions, goal, {options_.replicas, options_.minimum, options_.max_moving}))
      written = write(step, facts, leadership, call) && written;
    return written;
  }

  /// Behind a sync: a server that lags behind would have this decide what was decided before.
  Facts look(const Term& term, const CallOptions& call) {
    const Snapshot placements = term.placements.refresh(ReadBarrier::sync, call);
    if (placements.root() == nullptr) make_directory(call);
    const Snapshot groups = term.groups.refresh(ReadBarrier::sync, call);
    Facts facts;
    std::set<std::string> assigned;
    for (const std::string& name : partitions_) {
      PartitionFacts partition{name};
      if (const CachedNode* node = placements.find(name)) {
        partition.node = node->has_data ? decode_placement(node->data) : std::nullopt;
        if (!partition.node) {
          facts.foreign = name;
          continue;
        }
        facts.versions[name] = node->stat.version;
        assigned.insert(partition.node->assigned.begin(), partition.node->assigned.end());
      }
      const GroupView& group = facts.groups[name] = group_view(groups, name);
      if (group.state) partition.in_sync = in_sync_of(*group.state);
      for (const std::string& id : partition.in_sync.value_or(HostIds())) {
        if (group.ready(id) != nullptr) partition.ready.push_back(id);
      }
      for (const GroupMemberNode& node : group.members)
        partition.members.push_back(node.member.id);
      facts.partitions.push_back(std::move(partition));
    }
    facts.assigned.assign(assigned.begin(), assigned.end());
    return facts;
  }
  static HostIds in_sync_of(const ReplicaState& state) {
    HostIds ids;
    for (const InSyncReplica& replica : state.in_sync)
      ids.push_back(replica.id);
    return ids;
  }

  bool write(const PlacementStep& step, const Facts& facts, SelectedLeadership& leadership, const CallOptions& call) {
    const Path node = placement_path() / step.partition;
    const Path path = groups_path() / step.partition;
    const GroupView& group = facts.groups.at(step.partition);
    Transaction transaction = leadership.transaction();
    if (step.rests_on_state) transaction.check(path / "state", group.version);
    for (const std::string& id : step.rests_on_ready)
      transaction.check(path / "members" / id, group.ready(id)->version);
    if (const auto version = facts.versions.find(step.partition); version != facts.versions.end()) {
      transaction.set(node, encode(step.next), version->second);
    } else {
      transaction.create(node, encode(step.next), {.acl = options_.acl});
    }
    std::error_code error;
    client_.commit(transaction, call, error);
    if (!error) return true;
    const bool refused = error == Errc::bad_version || error == Errc::no_node || error == Errc::node_exists ||
                         error == Errc::transaction_failed || error == Errc::in_doubt;
    if (!refused) throw Error(static_cast<Errc>(error.value()), placer_name, node.str());
    return false;
  }

  void make_directory(const CallOptions& call) {
    std::error_code error;
    client_.create(placement_path(), "", {.acl = options_.acl, .parents = true}, call, error);
    if (error && error != Errc::node_exists)
      throw Error(static_cast<Errc>(error.value()), placer_name, placement_path().str());
  }

  static HostBook::Time now() { return BootClock::now().time_since_epoch(); }
  void tell() {
    const std::lock_guard lock(mutex_);
    news_ = true;
    changed_.notify_all();
  }
  bool wait(const std::stop_token& stop, HostBook::Time limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, limit, [this] { return news_; });
    news_ = false;
    return !stop.stop_requested();
  }
  void note(const Facts& facts) {
    const std::lock_guard lock(mutex_);
    problem_.reset();
    if (facts.foreign.empty()) return;
    problem_.emplace(Errc::foreign_node, placer_name, (placement_path() / facts.foreign).str(),
                     "it is no placement, or cannot be read");
  }
  void note_failure(const std::exception_ptr& failure) {
    std::optional<Error> problem;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      problem.emplace(error);
    } catch (const std::exception& error) {
      problem.emplace(Errc::in_doubt, placer_name, path_.str(), error.what());
    }
    const std::lock_guard lock(mutex_);
    problem_ = std::move(problem);
  }

  const zkclient::Client client_;  // Stays open for as long as it is used here.
  const Path path_;
  const std::vector<std::string> partitions_;  // Ordered.
  const PlacerOptions options_;
  const Group hosts_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_.
  bool news_ = false;
  std::optional<Error> problem_;
  LeaderSelector selector_;  // The first to go: its thread uses the others.
};

Placer::Placer(zkclient::Client client, Path path, std::vector<std::string> partitions, PlacerOptions options) {
  detail::require_acl(placer_name, path, options.acl);
  const auto refuse = [&path](std::string_view why) {
    throw Error(Errc::invalid_argument, placer_name, path.str(), why);
  };
  if (options.replicas < 1 || options.replicas > max_replicas) refuse("the number of replicas must be from 1 to 64");
  if (options.minimum < 1 || options.minimum > options.replicas)
    refuse("the minimum must be from 1 to the number of replicas");
  if (options.max_moving == 0) refuse("max_moving must be 1 at least");
  if (options.settle.count() < 0 || options.settle > std::chrono::hours(24)) refuse("settle must be from 0 to a day");
  std::sort(partitions.begin(), partitions.end());
  const auto twice = std::adjacent_find(partitions.begin(), partitions.end());
  if (twice != partitions.end()) refuse(fmt::format("partition {:?} is there twice", *twice));
  for (const std::string& name : partitions) {
    if (name.find('/') != std::string::npos) refuse(fmt::format("partition {:?} has a slash", name));
    (void)(path / name);
  }
  core_ = std::make_shared<detail::PlacerCore>(std::move(client), std::move(path), std::move(partitions),
                                               std::move(options));
}

Placer::~Placer() {
  if (core_->forked()) zk::keep_for_ever(std::move(core_));
}

void Placer::start() { core_->start(); }
bool Placer::leads() const noexcept { return core_->leads(); }
std::optional<Error> Placer::problem() const { return core_->problem(); }
const Path& Placer::path() const noexcept { return core_->path(); }

}  // namespace zkrecipes
