#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "simulation/servers/process.hpp"
#include "simulation/servers/wire.hpp"

namespace zktesting::simulated {

/// Who should lead, and what makes it fit for it.
struct Vote {
  Host leader = 0;
  std::int64_t epoch = 0;
  Zxid zxid = 0;
  friend bool operator==(const Vote&, const Vote&) = default;
};

enum class Standing : std::int8_t { looking, following, leading };

/// What servers tell each other about an election.
struct Notification {
  Host from = 0;
  Standing standing{};
  std::uint64_t round = 0;
  Vote vote;
};

/// ZooKeeper's fast leader election, one server's part of it: each tells all others for whom it votes, takes over a better
/// vote, and is content when a quorum has its vote and no better one has come for a while.
class Election {
 public:
  struct Hooks {
    std::function<void(Host to, const Notification&)> send;
    std::function<void(const Vote&)> elected;
  };

  Election(Process& process, Host self, int servers, Hooks hooks);

  void look(const Vote& own);
  void hear(const Notification& heard);
  /// The epoch that the elected leader has begun: late comers compare it.
  void begin_epoch(std::int64_t epoch) { vote_.epoch = epoch; }
  /// Whether `vote` beats `other`.
  static bool better(const Vote& vote, const Vote& other);

 private:
  [[nodiscard]] Notification mine() const;
  void tell_all();
  void ask_again();
  void hear_looking(const Notification& heard);
  void hear_settled(const Notification& heard);
  [[nodiscard]] bool quorum_for(const Vote& vote) const;
  [[nodiscard]] bool settled_quorum_for(const Notification& heard, const std::map<Host, Notification>& votes) const;
  [[nodiscard]] bool leads(const Notification& heard, const std::map<Host, Notification>& votes) const;
  void settle(const Vote& vote);

  const Host self_;
  const int servers_;
  Hooks hooks_;
  Timer finalize_;
  Timer resend_;
  Nanos patience_{};
  Standing standing_ = Standing::looking;
  bool finalizing_ = false;
  std::uint64_t round_ = 0;
  Vote own_;
  Vote vote_;
  std::map<Host, Notification> votes_;      // Of this round.
  std::map<Host, Notification> outsiders_;  // Of servers that have a leader.
};

}  // namespace zktesting::simulated
