#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/contender.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/election.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/lease.hpp>
#include <zkrecipes/multi_lock.hpp>

namespace zkr {

/// As what a path is held. A group is joined, and held by nobody.
enum class Mode { exclusive, shared, writer, slot, leader, member, joined };

/// The word for it in ZKR_MODE.
const char* to_string(Mode mode);
/// Whether tokens of this mode order its holders.
bool has_tokens(Mode mode);

/// What is contended for.
struct Stake {
  std::vector<std::string> paths{};
  Mode mode = Mode::exclusive;
  int slots = 0;             // Of Mode::slot, unless there is a
  std::string slots_node{};  // node that says how many.
  int members = 0;           // Of Mode::member: how many begin and end together.
  std::string id{};          // Shown to others.
  bool kazoo = false;        // Named as kazoo does it, not Curator.
  // Of Mode::joined: how its members are written, and what this one shows.
  zkrecipes::GroupLayout group_layout = zkrecipes::GroupLayout::curator();
  std::string payload{};
};

/// A place in a round of a double barrier.
struct Place {
  std::shared_ptr<zkrecipes::DoubleBarrier> barrier;
  zkclient::Session session;
};

/// That this process is a member of a group.
struct Joined {
  std::shared_ptr<zkrecipes::Membership> membership;
  zkclient::Session session;  // In which it has joined.
};

/// What was won: at least one lease, a place, or a membership. That one is never lost: it goes on with the next session.
class Prize {
 public:
  Prize() = default;
  explicit Prize(Place place) : held_(std::move(place)) {}
  explicit Prize(Joined joined) : held_(std::move(joined)) {}
  explicit Prize(zkrecipes::MultiLease leases) : held_(std::move(leases)) {}
  explicit Prize(zkrecipes::Leadership leadership) : held_(std::move(leadership)) {}

  /// Nothing of it is lost.
  bool valid() const;
  /// Of what ends first.
  zkclient::BootClock::time_point valid_until() const;
  bool revoke_requested() const;
  /// Each is stopped when something of it is lost, or another client asks for it.
  std::vector<std::stop_token> ends() const;
  zkclient::Session session() const;
  /// 0 for a place, and for a membership.
  std::uint64_t token() const;
  /// None for a place, and for a membership.
  std::vector<std::string> nodes() const;
  /// The lease of the path: of the stake's paths in their order.
  const zkrecipes::Lease& lease(std::size_t path) const { return *leases().at(path); }
  /// `reader` goes on where a downgrade has ended the lease of the path.
  void replace(std::size_t path, zkrecipes::Lease reader) { readers_.insert_or_assign(path, std::move(reader)); }
  bool is_replaced(std::size_t path) const { return readers_.contains(path); }
  bool is_any_replaced() const { return !readers_.empty(); }
  /// Nothing, unless it is a leadership.
  zkrecipes::Leadership* leadership() { return std::get_if<zkrecipes::Leadership>(&held_); }
  /// Null, unless it is one.
  const zkrecipes::Membership* membership() const;
  /// Waits until nothing of it is left at the servers; for a place, also until the others have left. Errors:
  /// zkclient::Error.
  void release();

 private:
  std::vector<const zkrecipes::Lease*> leases() const;

  std::variant<std::monostate, zkrecipes::MultiLease, zkrecipes::Leadership, Place, Joined> held_;
  std::map<std::size_t, zkrecipes::Lease> readers_;  // By path.
};

/// One or more paths, to be held together. Blocking calls; `call` ends them. Thread safety: all members.
class Contest {
 public:
  Contest() = default;
  Contest(const Contest&) = delete;
  Contest& operator=(const Contest&) = delete;
  virtual ~Contest() = default;

  virtual Prize win(const zkclient::CallOptions& call) = 0;
  /// Nothing: others hold it now.
  virtual std::optional<Prize> try_to_win(const zkclient::CallOptions& call) = 0;
  /// Of one of the paths.
  virtual std::vector<zkrecipes::Contender> contenders(std::size_t path, const zkclient::CallOptions& call) const = 0;
  /// Of Mode::writer: turns the lease of the path into one to read, without a gap. The one that goes on; the prize counts
  /// as held until it is put there. Errors: zkclient::Error, as of SharedMutex::downgrade().
  virtual zkrecipes::Lease downgrade(const Prize& prize, std::size_t path, const zkclient::CallOptions& call) const = 0;
};

/// Errors: zkclient::Error (invalid_path, invalid_argument).
std::unique_ptr<Contest> make_contest(const zkclient::Client& client, const Stake& stake);

/// Locks of different kinds do not see each other, so none is held beside another kind's nodes; nor is one of Curator's
/// names beside one of kazoo's. The name of a node that is in the way; nothing if there is none.
std::optional<std::string> node_of_another_kind(const std::vector<std::string>& children, const Stake& stake);

}  // namespace zkr
