#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <random>
#include <string>
#include <vector>

#include "zkclient/detail/loop/event_loop.hpp"
#include "zkclient/detail/loop/lifeline.hpp"
#include "zkclient/detail/random.hpp"
#include "zkclient/detail/servers/hosts.hpp"
#include "zkclient/detail/servers/resolver.hpp"

namespace zkclient::detail {

/// The servers that a client may talk to: their list, which the user may replace, and their addresses. Lives on the
/// loop thread.
class ServerDirectory {
 public:
  /// Called with the addresses whenever they were looked up.
  using Found = std::function<void(const Resolution& resolution)>;

  ServerDirectory(EventLoop& events, Resolver& resolver, Lifeline whole, std::vector<Host> hosts, Found found);

  const std::vector<Host>& hosts() const noexcept { return hosts_; }
  bool numeric() const { return all_numeric(hosts_); }
  /// As a handle wants them: see odd_list().
  std::string shuffled(const std::string& addresses) { return odd_list(addresses, random_()); }

  /// Finds the addresses, at once or when they have been looked up.
  void look_up();
  /// The same after a pause, each longer than the one before.
  void look_up_later();
  /// Plans no further look-up; the next pause is a short one again.
  void stop_planning();
  /// A look-up that is under way finds nothing any more.
  void drop_look_up() noexcept { look_up_ = nullptr; }

  /// A list in place of the one before; its number.
  std::uint64_t replace(std::vector<Host> hosts);
  /// The client talks to the servers of the newest list, or tries to.
  void set_applied();
  bool newest_is_applied() const noexcept { return applied_ == newest_; }
  bool is_applied(std::uint64_t list) const noexcept { return applied_ >= list; }
  void wake_waiters() const;

  /// For as long as it lives, `wake` is called after set_applied(), and by wake_waiters().
  class Waiter {
   public:
    Waiter(ServerDirectory& directory, std::function<void()> wake)
        : directory_(directory), place_(directory.waiters_.insert(directory.waiters_.end(), std::move(wake))) {}
    ~Waiter() { directory_.waiters_.erase(place_); }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    ServerDirectory& directory_;
    const std::list<std::function<void()>>::iterator place_;
  };

 private:
  const Lifeline whole_;
  const Found found_;
  Resolver& resolver_;
  std::vector<Host> hosts_;
  std::uint64_t newest_ = 0;  // Counts the lists.
  std::uint64_t applied_ = 0;
  std::list<std::function<void()>> waiters_;
  Resolver::Ticket look_up_;
  Timer look_up_timer_;
  std::chrono::milliseconds look_up_pause_{200};
  std::minstd_rand random_{static_cast<std::uint32_t>(random_seed())};
};

}  // namespace zkclient::detail
