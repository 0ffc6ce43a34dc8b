#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/export.hpp>
#include <zktesting/error.hpp>

namespace zktesting {

namespace detail {
class ServerProcess;
}

/// How a server is set up. The defaults suit tests: quick sessions, no fsync.
struct ServerOptions {
  /// The server's heart beat. Sessions expire at multiples of it.
  std::chrono::milliseconds tick{500};
  /// The session timeout that the server grants for a requested one: clamped to [min, max].
  std::chrono::milliseconds min_session_timeout{1000};
  std::chrono::milliseconds max_session_timeout{60'000};  ///< The upper bound.
  /// How often the server looks for empty containers and TTL nodes that are due.
  std::chrono::milliseconds container_check_interval{500};
  /// True: every write is on the disk before it is acknowledged, as in production.
  bool fsync = false;
  /// Further lines of zoo.cfg, e.g. {"maxClientCnxns", "60"}. They win over the defaults, but may
  /// not set what the server needs for itself (clientPort, secureClientPort, dataDir, ...).
  std::map<std::string, std::string> config;
  /// Further flags of the Java machine, after our own, e.g. "-Djute.maxbuffer=4096".
  std::vector<std::string> jvm_flags;
  /// A second port, with TLS (and Netty in place of the server's own connections). `config` says with which keys
  /// ("ssl.keyStore.location", ...).
  bool secure_port = false;
  /// How long a start may take before it counts as failed. About 0.5 s is usual; a busy machine may need
  /// very much longer.
  std::chrono::milliseconds start_timeout{120'000};
};

/// A real ZooKeeper server of its own: one Java process, one folder, one loopback address.
///
/// - The address is a random 127.a.b.c, the port is chosen by the kernel; both stay the same for
///   the life of the object. Two servers never share an address, since ZooKeeper's C client
///   compares servers by address only.
/// - The folder is under $TMPDIR if that is set, else under /dev/shm if that is a tmpfs with 512 MB
///   free, else under /tmp, and is called zktesting-XXXXXX.
/// - Neither the process nor the folder outlives this object, or this process: a small shell in a
///   session of its own kills and removes them as soon as our end of a socket is closed, whether
///   by the destructor, by _exit or by a SIGKILL. (A child that this process forks without exec
///   keeps that socket open for as long as it lives.)
///
/// Java is `$ZKRECIPES_JAVA` or else `java` in the PATH; its jars are in `$ZKRECIPES_JARS` or else
/// in /usr/share/java. Whatever is missing is named in the error, with the Debian package that has
/// it. `$ZKRECIPES_CLASS_ARCHIVE` may name a file with the server's classes, as java writes it when a server that was
/// started with the flag `-XX:ArchiveClassesAtExit=<file>` is stopped: a start takes half the time with it. A file that is
/// not there, or that does not fit java or the jars, makes no difference.
///
/// Thread safety: every member may be called from any thread; calls that change the state of the
/// process wait for each other. Every failure is an `Error`.
class ZKRECIPES_API Server {
 public:
  /// Starts the server and returns when it serves. Blocks for about 0.5 s. Throws `Error`, with the
  /// end of the server's log in it, if it does not serve; nothing is left behind then.
  explicit Server(ServerOptions options = {});
  /// Kills the server and removes its folder. When an exception ends its life (a test that threw), the end of the log
  /// of a server that was still wanted is written to the standard error.
  ~Server();
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;

  /// "127.a.b.c:port", to be passed to a client.
  [[nodiscard]] std::string connect_string() const;
  /// The same for the port with TLS. Throws `Error` if there is none.
  [[nodiscard]] std::string secure_connect_string() const;
  [[nodiscard]] std::string address() const;
  [[nodiscard]] std::uint16_t port() const;
  /// The server's folder: zoo.cfg, data/, log.
  [[nodiscard]] std::filesystem::path directory() const;
  /// Everything that the server has logged so far, over all its starts. Empty lines of context are
  /// all there is if slf4j-simple.jar is not installed.
  [[nodiscard]] std::string log() const;

  /// Starts a stopped server on the same port with the same data, and waits until it serves. (A
  /// member of an ensemble: until it answers; it may have to wait for others before it serves.)
  /// Nothing happens if it runs. Sessions of before live on, their timeouts start anew.
  void start();
  /// Ends the server with SIGTERM and waits until it is gone; after 10 s with SIGKILL. Works on a
  /// paused server as well. Nothing happens if it does not run.
  void stop();
  /// Ends the server with SIGKILL and waits until it is gone (some 10 ms).
  void kill();
  /// Stops the process with SIGSTOP and waits until each of its threads has stopped: connections
  /// stay open, no server answers. Throws `Error` if it does not run.
  void pause();
  /// Lets a paused process go on (SIGCONT).
  void resume();
  /// `kill()` and `start()`: same port, same data.
  void restart();
  /// Kills the server, removes its data and starts it: same port, no nodes, no sessions. A client
  /// that has seen a higher zxid is refused by such a server.
  void restart_wiped();

  /// Whether the process exists, paused or not. Does not block.
  [[nodiscard]] bool running() const;
  /// The Java process, 0 if it does not run.
  [[nodiscard]] int pid() const;

  /// Sends one of the server's four-letter words ("srvr", "cons", "dump", "wchs", ...; all are
  /// allowed) and returns the answer. Throws `Error` if no answer came within 30 s.
  [[nodiscard]] std::string four_letter_word(std::string_view word) const;
  /// The answer to "mntr", e.g. {"zk_watch_count", "3"}. Numbers may be a moment old when a write
  /// has just been acknowledged by another server of an ensemble.
  [[nodiscard]] std::map<std::string, std::string> stats() const;
  [[nodiscard]] std::size_t watch_count() const;
  [[nodiscard]] std::size_t ephemeral_count() const;
  /// Includes the nodes that the server itself has: / and /zookeeper with what is below it.
  [[nodiscard]] std::size_t znode_count() const;
  /// Connections with a client, ours for this question not counted. The server forgets a closed
  /// connection a moment after the client closed it: wait for the number that you expect.
  [[nodiscard]] std::size_t connection_count() const;

 private:
  friend class Ensemble;
  explicit Server(std::unique_ptr<detail::ServerProcess> process);

  std::unique_ptr<detail::ServerProcess> process_;
};

}  // namespace zktesting
