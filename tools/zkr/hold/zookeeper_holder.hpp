#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/client.hpp>

#include "tools/zkr/cli/connection_options.hpp"
#include "tools/zkr/hold/contest.hpp"
#include "tools/zkr/hold/control.hpp"
#include "tools/zkr/hold/notifications.hpp"
#include "tools/zkr/run/descriptor.hpp"
#include "tools/zkr/run/holder.hpp"
#include "tools/zkr/run/run.hpp"

namespace zkr {

/// When a leader is shown to others as ready, besides when its command calls `zkr ready`.
enum class Ready { none, start, notify };

struct HoldRequest {
  Connection connection;
  Stake stake;
  bool try_once = false;                    // Hold now, or not at all.
  std::optional<Duration> timeout{};        // For how long to wait for others.
  int not_acquired_code = 75;               // What `failed` says if others hold it.
  std::vector<std::string> environment{};   // Further changes of the command's environment.
  std::vector<std::string> held_already{};  // By whom this was called: lines of ZKR_HELD.
  RunOptions run{};                         // To be told of.
  std::string control_socket{};             // Where the command asks about its lease. Empty: nowhere.
  Ready ready = Ready::none;
  HolderStart start{};
  bool patient = false;  // Waits for a server for ever.
  bool quiet = false;    // Nothing is said but errors.
  bool verbose = false;
};

/// A lease in ZooKeeper. One thread of its own contends, holds and gives back, by blocking calls; what it has come to is
/// read by the keeper's.
class ZooKeeperHolder : public Holder {
 public:
  /// Begins to contend. What is wrong becomes `failed`.
  explicit ZooKeeperHolder(HoldRequest request);
  /// Closes the session. Whoever asks for the lease then is not answered.
  ~ZooKeeperHolder() override;

  int news() const override { return news_.get(); }
  Lease look() override;
  std::vector<std::string> take_messages() override;
  std::string holder_in_the_way() const override;
  std::vector<std::string> environment() const override;
  void command_started() override;
  void release(const std::optional<Ending>& ending) override;

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  void stop();
  void work() noexcept;
  void contend_and_hold();
  void await_server();
  [[noreturn]] void fail_without_server() const;
  Prize win();
  Prize win_beside_no_other_kind();
  bool refuse_other_kinds(const Prize& prize);
  std::optional<std::vector<std::string>> list_nodes(const std::string& path, const Prize& prize);
  void hold(Prize prize);
  void work_until_leaving();
  void leave();
  void tell_waiting();
  struct InTheWay {
    std::string text;  // For people. "": nobody is in the way, or it cannot be seen.
    std::string json;
  };
  InTheWay find_holder(const zkclient::CallOptions& call);
  std::string explained(const zkclient::Error& error) const;

  /// With mutex_.
  const Lease& lease_now();
  void tell_deadlines();
  zkclient::Subscription tell_presence(const zkrecipes::Membership& membership);
  void answer(const std::string& request, const ControlReply& reply);
  ControlAnswer answer_held();
  ControlAnswer answer_alive();
  ControlAnswer answer_mode();
  void ask_for_downgrade(const ControlReply& reply);
  /// What is answered at once. Nothing: the worker has it to do.
  std::optional<ControlAnswer> begin_to_downgrade(const ControlReply& reply);
  ControlAnswer downgrade();
  void publish(const std::string& request, const std::function<void(const ControlAnswer& answer)>& reply);
  /// What is answered at once. Nothing: `done` is called when a server has answered.
  std::optional<ControlAnswer> begin_to_publish(const std::string& request, zkclient::Handler<void> done);
  void open_notifications();
  void hear(const std::string& notification);
  void tell_ready();
  void finish(LeaseState state);
  void fail(int code, const std::string& text);
  void say(const std::string& text, bool error = false);
  void notify() const;
  zkclient::CallOptions call(std::optional<SteadyTime> deadline) const;
  bool is_leaving() const { return stop_.stop_requested(); }

  const HoldRequest request_;
  const SteadyTime begun_ = std::chrono::steady_clock::now();
  Descriptor news_;
  std::stop_source stop_;
  std::optional<zkclient::Client> client_;
  std::optional<zkclient::Subscription> states_;
  std::unique_ptr<Contest> contest_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool waiting_ = true;  // Others hold it, as far as is known.
  Lease lease_;
  std::optional<zkclient::Session> session_;  // Of the prize.
  // Changed by the worker. Read by the keeper's thread while the state is `held`; then the worker's alone.
  Prize prize_;
  Mode mode_;                             // As what it is held. A downgrade changes it when it begins.
  std::vector<ControlReply> downgrades_;  // Who has asked the worker for one.
  std::vector<std::string> messages_;
  std::string holder_in_the_way_;  // When it was not acquired.

  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<Notifications> notifications_;
  std::thread worker_;
  std::thread teller_;
};

}  // namespace zkr
