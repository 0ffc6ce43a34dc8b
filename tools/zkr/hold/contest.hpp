#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/contender.hpp>
#include <zkrecipes/election.hpp>
#include <zkrecipes/lease.hpp>
#include <zkrecipes/multi_lock.hpp>

namespace zkr {

/// As what a path is held.
enum class Mode { exclusive, shared, writer, slot, leader };

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
  std::string id{};          // Shown to others.
  bool kazoo = false;        // Named as kazoo does it, not Curator.
};

/// What was won: at least one lease.
class Prize {
 public:
  Prize() = default;
  explicit Prize(zkrecipes::MultiLease leases) : held_(std::move(leases)) {}
  explicit Prize(zkrecipes::Leadership leadership) : held_(std::move(leadership)) {}

  std::vector<const zkrecipes::Lease*> leases() const;
  /// Nothing, unless it is a leadership.
  zkrecipes::Leadership* leadership() { return std::get_if<zkrecipes::Leadership>(&held_); }
  /// Waits until nothing of it is left at the servers. Errors: zkclient::Error.
  void release();

 private:
  std::variant<std::monostate, zkrecipes::MultiLease, zkrecipes::Leadership> held_;
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
};

/// Errors: zkclient::Error (invalid_path, invalid_argument).
std::unique_ptr<Contest> make_contest(const zkclient::Client& client, const Stake& stake);

/// Locks of different kinds do not see each other, so none is held beside another kind's nodes; nor is one of Curator's
/// names beside one of kazoo's. The name of a node that is in the way; nothing if there is none.
std::optional<std::string> node_of_another_kind(const std::vector<std::string>& children, const Stake& stake);

}  // namespace zkr
