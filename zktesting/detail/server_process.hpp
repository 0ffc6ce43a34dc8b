#pragma once

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "zktesting/detail/endpoint.hpp"
#include "zktesting/detail/guard.hpp"
#include "zktesting/server.hpp"

namespace zktesting::detail {

/// The options of a server.
struct ServerPlan {
  ServerOptions options;
  Endpoint endpoint;                           ///< For clients.
  std::uint16_t secure_port = 0;               ///< With TLS; 0: none.
  std::map<std::string, std::string> members;  ///< Lines of the ensemble; they win.
  int id = 0;                                  ///< Of a member of an ensemble.
};

/// Throws `Error` if options contradict themselves or contain what they must not.
void validate(const ServerOptions& options);

/// A server's answer to a four-letter word; nothing if none came until the deadline.
std::optional<std::string> ask_server(const Endpoint& endpoint, std::string_view word, Deadline deadline);
/// The same, with the reason why there is none as an `Error`.
std::string ask_server_or_throw(const Endpoint& endpoint, std::string_view word, Deadline deadline);
/// How long one probe waits for its answer if probes have gone on for `spent`. Not for long at first: a server that has
/// just begun to listen can leave a connection unanswered for ever. Then longer and longer: that of a busy machine
/// answers late each time.
constexpr Clock::duration probe_timeout(Clock::duration spent) {
  return std::max<Clock::duration>(std::chrono::milliseconds(150), spent / 4);
}

/// Folder, configuration and process of one server. Thread-safe; changes of state are serialised.
class ServerProcess {
 public:
  /// Makes the folder; starts nothing.
  explicit ServerProcess(ServerPlan plan);
  /// Ends the process and removes the folder. If an exception is the reason, and the server had not been ended, or if it
  /// had ended by itself, the end of its log goes to the standard error: it cannot be read later.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  /// Starts the process if it is not running.
  void launch();
  /// Waits until it serves (standalone) or answers (member of an ensemble).
  void await_ready();
  void stop();
  void kill();
  void pause();
  void resume();
  /// Removes the data of a server; kills it first.
  void wipe();

  [[nodiscard]] bool running() const;
  /// Whether it runs and pause() was called last.
  [[nodiscard]] bool paused() const;
  [[nodiscard]] int pid() const;
  [[nodiscard]] std::string log() const;
  /// True if it ended by itself: neither stopped nor killed by us.
  [[nodiscard]] bool died() const;
  [[nodiscard]] std::string end_of_log() const;
  [[nodiscard]] const Endpoint& endpoint() const { return plan_.endpoint; }
  [[nodiscard]] std::uint16_t secure_port() const { return plan_.secure_port; }
  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }

 private:
  void write_files();
  [[nodiscard]] std::map<std::string, std::string> configuration() const;
  [[noreturn]] void fail(const std::string& what) const;

  [[nodiscard]] std::string ending() const;
  void show_log_if_it_failed(bool failing) const noexcept;

  const ServerPlan plan_;
  const int exceptions_ = std::uncaught_exceptions();
  std::filesystem::path directory_;
  mutable std::mutex mutex_;
  std::unique_ptr<Guard> guard_;
  bool paused_ = false;
  bool wanted_ = false;  ///< It was launched, and not ended by us since.
};

}  // namespace zktesting::detail
