#include "tools/zkr/hold/contest.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <type_traits>
#include <utility>

#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>

namespace zkr {
namespace {

constexpr auto never_over = std::chrono::hours(24 * 365 * 50);  // After the machine's start.

zkrecipes::Layout layout_of(const Stake& stake) {
  return stake.kazoo ? zkrecipes::Layout::kazoo() : zkrecipes::Layout::curator();
}

zkclient::Error no_writer() { return {zkclient::Errc::invalid_argument, "downgrade", "", "this is no lease to write"}; }

/// The lease may be read by others meanwhile: it is not changed here, other than by SharedMutex::downgrade().
zkrecipes::Lease downgraded(zkrecipes::SharedMutex& mutex, const zkrecipes::Lease& lease,
                            const zkclient::CallOptions& call) {
  const auto answer = std::make_shared<std::promise<zkclient::Result<zkrecipes::Lease>>>();
  mutex.async_downgrade(
      lease, [answer](zkclient::Result<zkrecipes::Lease> result) { answer->set_value(std::move(result)); }, call);
  return answer->get_future().get().value();
}

class LockContest : public Contest {
 public:
  LockContest(const zkclient::Client& client, const Stake& stake) {
    for (const std::string& path : stake.paths)
      add(client, zkclient::Path(path), stake);
  }

  Prize win(const zkclient::CallOptions& call) override { return Prize(all_.acquire(call)); }
  std::optional<Prize> try_to_win(const zkclient::CallOptions& call) override {
    auto leases = all_.try_acquire(call);
    if (!leases) return std::nullopt;
    return Prize(std::move(*leases));
  }
  std::vector<zkrecipes::Contender> contenders(std::size_t path, const zkclient::CallOptions& call) const override {
    return locks_.at(path)->contenders(call);
  }
  zkrecipes::Lease downgrade(const Prize& prize, std::size_t path, const zkclient::CallOptions& call) const override {
    return locks_.at(path)->downgrade(prize.lease(path), call);
  }

 private:
  void add(const zkclient::Client& client, const zkclient::Path& path, const Stake& stake) {
    switch (stake.mode) {
      case Mode::shared: {
        auto lock = std::make_unique<zkrecipes::SharedMutex>(
            client, path, zkrecipes::SharedMutexOptions{.layout = layout_of(stake), .id = stake.id});
        all_.add_shared(*lock);
        return keep(std::move(lock));
      }
      case Mode::writer:
        return keep_and_add(std::make_unique<zkrecipes::SharedMutex>(
            client, path, zkrecipes::SharedMutexOptions{.layout = layout_of(stake), .id = stake.id}));
      case Mode::slot: return keep_and_add(semaphore(client, path, stake));
      default:
        return keep_and_add(std::make_unique<zkrecipes::Mutex>(
            client, path, zkrecipes::MutexOptions{.layout = layout_of(stake), .id = stake.id}));
    }
  }
  static std::unique_ptr<zkrecipes::Semaphore> semaphore(const zkclient::Client& client, const zkclient::Path& path,
                                                         const Stake& stake) {
    zkrecipes::SemaphoreOptions options{.id = stake.id};
    if (stake.slots_node.empty())
      return std::make_unique<zkrecipes::Semaphore>(client, path, stake.slots, std::move(options));
    if (stake.slots > 0) options.initial_limit = stake.slots;
    return std::make_unique<zkrecipes::Semaphore>(client, path, zkclient::Path(stake.slots_node), std::move(options));
  }
  template <typename Lock>
  void keep_and_add(std::unique_ptr<Lock> lock) {
    all_.add(*lock);
    keep(std::move(lock));
  }

  /// Any lock, to be listed: Acquirable has no destructor for others to call.
  struct Listed {
    virtual ~Listed() = default;
    virtual std::vector<zkrecipes::Contender> contenders(const zkclient::CallOptions& call) const = 0;
    virtual zkrecipes::Lease downgrade(const zkrecipes::Lease& lease, const zkclient::CallOptions& call) const = 0;
  };
  template <typename Lock>
  struct Kept : Listed {
    explicit Kept(std::unique_ptr<Lock> kept) : lock(std::move(kept)) {}
    std::vector<zkrecipes::Contender> contenders(const zkclient::CallOptions& call) const override {
      return lock->contenders(call);
    }
    zkrecipes::Lease downgrade(const zkrecipes::Lease& lease, const zkclient::CallOptions& call) const override {
      if constexpr (std::is_same_v<Lock, zkrecipes::SharedMutex>) {
        return downgraded(*lock, lease, call);
      } else {
        throw no_writer();
      }
    }
    std::unique_ptr<Lock> lock;
  };
  template <typename Lock>
  void keep(std::unique_ptr<Lock> lock) {
    locks_.push_back(std::make_unique<Kept<Lock>>(std::move(lock)));
  }

  zkrecipes::MultiLock all_;
  std::vector<std::unique_ptr<Listed>> locks_;  // In the order of the paths.
};

class ElectionContest : public Contest {
 public:
  ElectionContest(const zkclient::Client& client, const Stake& stake)
      : election_(client, zkclient::Path(stake.paths.at(0)), {.layout = layout_of(stake), .id = stake.id}) {}

  Prize win(const zkclient::CallOptions& call) override { return Prize(election_.campaign(call)); }
  std::optional<Prize> try_to_win(const zkclient::CallOptions& call) override {
    if (election_.leader(call)) return std::nullopt;
    return win(call);
  }
  std::vector<zkrecipes::Contender> contenders(std::size_t, const zkclient::CallOptions& call) const override {
    return election_.candidates(call);
  }
  zkrecipes::Lease downgrade(const Prize&, std::size_t, const zkclient::CallOptions&) const override {
    throw no_writer();
  }

 private:
  zkrecipes::LeaderElection election_;
};

class MeetingContest : public Contest {
 public:
  MeetingContest(zkclient::Client client, const Stake& stake)
      : client_(std::move(client)), path_(stake.paths.at(0)), members_(stake.members), id_(stake.id) {
    new_barrier();  // Refuses what cannot be met at.
  }

  Prize win(const zkclient::CallOptions& call) override {
    auto barrier = new_barrier();
    barrier->enter(call);
    return Prize(Place{std::move(barrier), client_.session()});
  }
  std::optional<Prize> try_to_win(const zkclient::CallOptions& call) override {
    auto barrier = new_barrier();
    const zkclient::AnyStop& stop = call.stop;
    if (!barrier->try_enter_for(std::chrono::nanoseconds::zero(), zkrecipes::WaitOptions(stop))) return std::nullopt;
    return Prize(Place{std::move(barrier), client_.session()});
  }
  /// Nobody is in the way: some are missing.
  std::vector<zkrecipes::Contender> contenders(std::size_t, const zkclient::CallOptions&) const override { return {}; }
  zkrecipes::Lease downgrade(const Prize&, std::size_t, const zkclient::CallOptions&) const override {
    throw no_writer();
  }

 private:
  std::shared_ptr<zkrecipes::DoubleBarrier> new_barrier() const {
    return std::make_shared<zkrecipes::DoubleBarrier>(client_, path_, members_,
                                                      zkrecipes::DoubleBarrierOptions{.id = id_});
  }

  zkclient::Client client_;
  zkclient::Path path_;
  int members_;
  std::string id_;
};

class GroupContest : public Contest {
 public:
  GroupContest(const zkclient::Client& client, const Stake& stake)
      : client_(client),
        group_(client, zkclient::Path(stake.paths.at(0)), {.layout = stake.group_layout}),
        several_may_have_one_id_(!stake.group_layout.has_payload()),
        id_(stake.id),
        payload_(stake.payload) {}

  /// Waits while another session has a member of that name.
  Prize win(const zkclient::CallOptions& call) override {
    auto membership = std::make_shared<zkrecipes::Membership>(group_.join(id_, payload_, call));
    return Prize(Joined{std::move(membership), client_.session()});
  }
  std::optional<Prize> try_to_win(const zkclient::CallOptions& call) override {
    if (!several_may_have_one_id_ && group_.members(call).find(id_) != nullptr) return std::nullopt;
    return win(call);
  }
  zkrecipes::Lease downgrade(const Prize&, std::size_t, const zkclient::CallOptions&) const override {
    throw no_writer();
  }
  std::vector<zkrecipes::Contender> contenders(std::size_t, const zkclient::CallOptions&) const override { return {}; }

 private:
  zkclient::Client client_;
  zkrecipes::Group group_;
  const bool several_may_have_one_id_;  // kazoo's layouts: nobody is waited for.
  const std::string id_;
  const std::string payload_;
};

/// Whose nodes they are, by their names. kazoo's election is its lock, which its writers are as well.
enum class Kind { mutex, shared_mutex, semaphore, election, meeting, kazoo_lock, kazoo_reader, unknown };

/// The contenders of that stake see these nodes, and those see them.
bool belongs(Kind kind, const Stake& stake) {
  switch (stake.mode) {
    case Mode::exclusive: return kind == (stake.kazoo ? Kind::kazoo_lock : Kind::mutex);
    case Mode::leader: return kind == (stake.kazoo ? Kind::kazoo_lock : Kind::election);
    case Mode::slot: return kind == Kind::semaphore;
    case Mode::member: return kind == Kind::meeting;
    case Mode::joined: return true;  // Members may have any names.
    case Mode::shared:
    case Mode::writer: break;
  }
  return stake.kazoo ? kind == Kind::kazoo_lock || kind == Kind::kazoo_reader : kind == Kind::shared_mutex;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

Kind kind_of_name(const std::string& name) {
  if (has(name, "__lock__")) return Kind::kazoo_lock;
  if (has(name, "__rlock__")) return Kind::kazoo_reader;
  if (has(name, "__READ__") || has(name, "__WRIT__")) return Kind::shared_mutex;
  if (has(name, "latch-")) return Kind::election;
  if (has(name, "-member-")) return Kind::meeting;
  if (name == "locks" || name == "leases") return Kind::semaphore;
  if (has(name, "lock-")) return Kind::mutex;
  return Kind::unknown;
}

/// One that a downgrade has ended stands until its successor takes its place: both are lost at the same time.
bool stands(const zkrecipes::Lease& lease) {
  switch (lease.state()) {
    case zkrecipes::LeaseState::held:
    case zkrecipes::LeaseState::uncertain: return true;
    case zkrecipes::LeaseState::released:
      return !lease.lost().stop_requested() && zkclient::BootClock::now() < lease.session()->valid_until();
    case zkrecipes::LeaseState::lost:
    case zkrecipes::LeaseState::releasing: break;
  }
  return false;
}

}  // namespace

const char* to_string(Mode mode) {
  switch (mode) {
    case Mode::exclusive:
    case Mode::writer: return "exclusive";
    case Mode::shared: return "shared";
    case Mode::slot: return "slot";
    case Mode::leader: return "leader";
    case Mode::member: return "member";
    case Mode::joined: return "joined";
  }
  return "unknown";
}

bool has_tokens(Mode mode) { return mode == Mode::exclusive || mode == Mode::writer || mode == Mode::leader; }

std::vector<const zkrecipes::Lease*> Prize::leases() const {
  std::vector<const zkrecipes::Lease*> all;
  if (const auto* leadership = std::get_if<zkrecipes::Leadership>(&held_)) all.push_back(leadership);
  if (const auto* several = std::get_if<zkrecipes::MultiLease>(&held_)) {
    for (const zkrecipes::Lease& lease : several->leases())
      all.push_back(&lease);
  }
  for (const auto& [path, reader] : readers_)
    all.at(path) = &reader;
  return all;
}

bool Prize::valid() const {
  if (const auto* place = std::get_if<Place>(&held_)) return place->barrier->inside();
  const auto all = leases();
  return std::all_of(all.begin(), all.end(), [](const zkrecipes::Lease* lease) { return stands(*lease); });
}

zkclient::BootClock::time_point Prize::valid_until() const {
  if (const auto* place = std::get_if<Place>(&held_)) return place->session.valid_until();
  if (membership() != nullptr) return zkclient::BootClock::time_point(never_over);
  auto until = zkclient::BootClock::time_point::max();
  for (const zkrecipes::Lease* lease : leases())
    until = std::min(until, stands(*lease) ? lease->session()->valid_until() : zkclient::BootClock::time_point::min());
  return until;
}

bool Prize::revoke_requested() const {
  const auto all = leases();
  return std::any_of(all.begin(), all.end(),
                     [](const zkrecipes::Lease* lease) { return lease->revoke_requested().stop_requested(); });
}

std::vector<std::stop_token> Prize::ends() const {
  std::vector<std::stop_token> all;
  if (const auto* place = std::get_if<Place>(&held_)) all.push_back(place->barrier->lost());
  for (const zkrecipes::Lease* lease : leases()) {
    all.push_back(lease->lost());
    all.push_back(lease->revoke_requested());
  }
  return all;
}

zkclient::Session Prize::session() const {
  if (const auto* joined = std::get_if<Joined>(&held_)) return joined->session;
  const auto* place = std::get_if<Place>(&held_);
  return place != nullptr ? place->session : *leases().at(0)->session();
}

std::uint64_t Prize::token() const {
  const auto all = leases();
  return all.empty() ? 0 : static_cast<std::uint64_t>(all[0]->token().value);
}

std::vector<std::string> Prize::nodes() const {
  std::vector<std::string> all;
  for (const zkrecipes::Lease* lease : leases())
    all.push_back(lease->node());
  return all;
}

void Prize::release() {
  // For as long as it takes: by then the node is gone, or its session dead.
  const zkclient::CallOptions patient{.deadline = std::chrono::hours(24)};
  if (auto* leadership = std::get_if<zkrecipes::Leadership>(&held_)) leadership->release(patient);
  if (auto* several = std::get_if<zkrecipes::MultiLease>(&held_)) several->release(patient);
  for (auto& [path, reader] : readers_)
    reader.release(patient);
  if (const auto* place = std::get_if<Place>(&held_)) place->barrier->leave(patient);
  if (const auto* joined = std::get_if<Joined>(&held_)) joined->membership->leave(patient);
}

const zkrecipes::Membership* Prize::membership() const {
  const auto* joined = std::get_if<Joined>(&held_);
  return joined != nullptr ? joined->membership.get() : nullptr;
}

std::unique_ptr<Contest> make_contest(const zkclient::Client& client, const Stake& stake) {
  if (stake.mode == Mode::leader) return std::make_unique<ElectionContest>(client, stake);
  if (stake.mode == Mode::member) return std::make_unique<MeetingContest>(client, stake);
  if (stake.mode == Mode::joined) return std::make_unique<GroupContest>(client, stake);
  return std::make_unique<LockContest>(client, stake);
}

std::optional<std::string> node_of_another_kind(const std::vector<std::string>& children, const Stake& stake) {
  const auto found = std::find_if(children.begin(), children.end(), [&stake](const std::string& name) {
    const Kind kind = kind_of_name(name);
    return kind != Kind::unknown && !belongs(kind, stake);
  });
  if (found == children.end()) return std::nullopt;
  return *found;
}

}  // namespace zkr
