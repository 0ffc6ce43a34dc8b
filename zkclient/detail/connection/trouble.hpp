#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zkclient/detail/servers/hosts.hpp"

namespace zkclient::detail {

/// Why an attempt to talk to a server failed: "refused the connection".
struct ServerTrouble {
  std::string address;  ///< "ip:port"; "" for a trouble of this process, which concerns all servers.
  std::string reason;   ///< The server's action, or one on it; begins with a verb. Or a sentence of its own.
};

/// The fact about a server in a line of the C client's log, if there is one.
std::optional<ServerTrouble> trouble_in(std::string_view line);

/// The first bytes of an answer to a handshake: why no ZooKeeper server has sent them, or nullptr.
const char* handshake_defect(std::string_view bytes) noexcept;

/// Why there is no connection: the last reason of each server, under the name that the user gave it.
class ServerTroubles {
 public:
  void resolved(const Resolution& resolution);
  void note(ServerTrouble trouble);
  /// The servers are going to be asked.
  void begin() noexcept { waits_ = true; }
  void clear();
  /// "zk1:2181 refused the connection; zk2:2181 has a name that is not known"; "" when nothing is known.
  std::string text(const std::vector<Host>& hosts) const;
  /// "zk1:2181 has not answered yet; zk2:2181 has not answered yet", from begin() to clear().
  std::string silence(const std::vector<Host>& hosts) const;

 private:
  Resolution resolution_;
  bool waits_ = false;
  std::string own_;
  std::map<std::string, std::string, std::less<>> reasons_;  // By address.
};

}  // namespace zkclient::detail
