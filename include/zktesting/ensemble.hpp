#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/export.hpp>
#include <zktesting/server.hpp>

namespace zktesting {

struct EnsembleOptions {
  /// Odd, 3 to 9.
  std::size_t size = 3;
  /// The options of each server.
  ServerOptions server;
  /// In ticks: how long a server may take to join a leader.
  int init_limit = 10;
  /// In ticks: how long a server and its leader may not hear of each other before they part. So
  /// long an isolated follower goes on answering reads.
  int sync_limit = 4;
  /// True: the servers talk to each other through proxies, so that `isolate` is possible; dynamic
  /// reconfiguration is switched off, since it would make each server know the others by one and
  /// the same address. False: they talk directly, reconfiguration is on, `isolate` is an error.
  bool isolable = true;
};

/// What happens to the bytes between an isolated server and the others. Nothing is lost: bytes that
/// are held arrive after `heal`, unless an end has given the connection up in the meantime.
enum class Isolation {
  freeze,  ///< Held in both directions; connections stay open, no client gets an error.
  deaf,    ///< What the others say is held; they still hear the server.
  mute,    ///< What the server says is held; it still hears the others.
  sever,   ///< All connections are reset, new ones refused.
};

/// Several real servers that form one ZooKeeper ensemble, each as a `Server` on an address of its
/// own.
///
/// Servers are numbered from 0; server i has the ZooKeeper id i + 1. Nothing outlives the object or
/// the process, see `Server`. Thread safety: as `Server`. Every failure is an `Error`; a number
/// that is not less than size() is one.
class ZKRECIPES_API Ensemble {
 public:
  /// Starts all the servers and returns when each of them serves reads and writes: about 1.5 s. An
  /// ensemble that does not get there in 10 s is thrown away and started again (20 s, then 30 s):
  /// rarely a new leader sits on its requests for half a minute.
  explicit Ensemble(EnsembleOptions options = {});
  ~Ensemble();
  Ensemble(Ensemble&&) noexcept;
  Ensemble& operator=(Ensemble&&) noexcept;

  /// How many servers it has.
  [[nodiscard]] std::size_t size() const;
  /// All servers: "127.a.b.c:port,127.d.e.f:port,...".
  [[nodiscard]] std::string connect_string() const;
  /// Server `index` alone.
  [[nodiscard]] std::string connect_string(std::size_t index) const;
  [[nodiscard]] Server& server(std::size_t index);

  /// The server that says of itself that it leads. Of two that say so (one is isolated and has not noticed),
  /// the one with the newer epoch. Asks the servers; those that are paused, or do not answer for
  /// three seconds, are skipped.
  [[nodiscard]] std::optional<std::size_t> leader() const;
  /// Those that say that they follow, in ascending order. An isolated one says so until it notices.
  [[nodiscard]] std::vector<std::size_t> followers() const;

  /// Waits until a majority serves: there is a leader, and through it a session was opened, a node
  /// created and deleted, and the session closed, all of which takes a majority. (So the ensemble's
  /// zxid grows.) Throws `Error` after `timeout`.
  void wait_for_quorum(std::chrono::milliseconds timeout = std::chrono::seconds(60));
  /// The same through every server that runs.
  void wait_for_all(std::chrono::milliseconds timeout = std::chrono::seconds(60));

  /// As the members of `Server`. `restart` does not wait for a quorum.
  void stop(std::size_t index);
  void kill(std::size_t index);
  void pause(std::size_t index);
  void resume(std::size_t index);
  void restart(std::size_t index);

  /// Cuts server `index` off from the other servers; its clients keep their connections. Returns
  /// when no further byte will pass. A server that is isolated already changes to the new mode. Use
  /// `heal` on one of two isolated servers, and the link between them stays cut for the other.
  void isolate(std::size_t index, Isolation mode = Isolation::freeze);
  /// Undoes `isolate`.
  void heal(std::size_t index);

  /// Bytes that have passed between the servers, both ways; 0 if not isolable.
  [[nodiscard]] std::size_t peer_bytes() const;
  /// Those between server `index` and the others.
  [[nodiscard]] std::size_t peer_bytes(std::size_t index) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zktesting
