#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/function.hpp>

#include "zkclient/detail/servers/hosts.hpp"

namespace zkclient::detail {

/// Looks names up for the clients of one event loop, without blocking it. A look-up has a thread of its own, which
/// exists only as long as it takes; clients that ask for the same list meanwhile share it. Lives on the loop thread.
///
/// A look-up cannot be interrupted (getaddrinfo offers no way). A caller that stops waiting for one drops the ticket;
/// when the loop stops, a thread whose look-up still hangs is left to itself: it owns all it touches and ends with the
/// look-up.
class Resolver {
 public:
  /// The function that looks the names up; blocks.
  using Function = std::function<Resolution(const std::vector<Host>& hosts)>;
  using Done = UniqueFunction<void(const Resolution& resolution)>;
  /// Drop it, and `done` is not called any more.
  using Ticket = std::shared_ptr<void>;

  /// At a time; further lists wait for their turn.
  static constexpr std::size_t max_threads = 16;

  /// Runs a task on the loop thread; any thread.
  using Post = std::function<void(UniqueFunction<void()> task)>;

  explicit Resolver(Post post);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// `done` is called once, on the loop thread, never inside this call.
  [[nodiscard]] Ticket look_up(const std::vector<Host>& hosts, Done done);
  /// For tests.
  void set_function(Function function) { function_ = std::move(function); }
  /// Nothing is called afterwards. Joins the threads that are done, lets go of those that hang.
  void abandon();

 private:
  struct Shared;
  struct Job {
    std::vector<Host> hosts;
    std::vector<std::weak_ptr<Done>> waiters = {};
    std::shared_ptr<Shared> shared = {};  // Once it runs.
    std::thread thread = {};
  };

  void start_jobs();
  bool start(Job& job);
  void finish(const Shared* which, const Resolution& resolution);

  const Post post_;
  Function function_;
  std::list<Job> jobs_;
};

}  // namespace zkclient::detail
