#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "simulation/base/random.hpp"
#include "simulation/servers/wire.hpp"

namespace zktesting::simulated {

/// Requests of every kind, many of them wrong, on a few paths, so that they meet.
class RandomRequests {
 public:
  /// Whoever has authenticated as this may do everything.
  static constexpr std::string_view super = "super:secret";

  RandomRequests(Random random, std::string root) : random_(random), root_(std::move(root)) {}

  /// With the xid that the caller gives it.
  Request next(Zxid last_zxid);
  /// A name that the server made, to be used in later requests.
  void note_created(const std::string& path);

  /// After such a request, a client waits for the reply: what a real server makes of the next one, if that is on its way
  /// already, depends on how far it has come.
  static bool waits(const Request& request);

  /// Closes the connection, after a reply or without one.
  Request fatal();
  Request auth();
  Random& random() { return random_; }

 private:
  Request read();
  Request write();
  Request create();
  Request part();
  Request multi();
  Request set_watches(Zxid last_zxid);
  std::string path();
  std::string strange_path();
  std::vector<std::string> paths();
  std::vector<Acl> acl();
  std::optional<std::string> data();
  std::int32_t version();
  bool chance(std::uint64_t percent) { return random_.below(100) < percent; }
  template <typename T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[random_.below(all.size())];
  }

  Random random_;
  std::string root_;
  std::vector<std::string> created_;
};

}  // namespace zktesting::simulated
