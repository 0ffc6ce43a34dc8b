#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/kernel/attempt.hpp"
#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/next_look.hpp"

namespace zkrecipes::detail {

/// One attempt to become the first contender, with one node in one session: ZooKeeper's recipe page, with its failures.
///   contend.cpp         create, list, decide, wait, again
///   contend_looks.cpp   which reads can be spared: hand-over record, age of the list, look-ahead
class ContendAttempt : public Attempt {
 public:
  using Value = LeasePtr;

  ContendAttempt(ContendSpecPtr spec, std::string data, Patience patience, zk::Call call);
  ~ContendAttempt();

  zk::Awaitable<Outcome> run();
  LeasePtr take() const { return lease(); }

 private:
  std::string_view name() const { return zk::name_of(node_.path); }

  // Sets node_, and children_ to the list.
  zk::Awaitable<zk::Reply> enter();
  zk::Awaitable<zk::Reply> create_and_list();
  zk::Awaitable<zk::Reply> recover(zk::Request create);
  LeaseCore::Grant make_grant() const;

  // The known contenders.
  zk::Awaitable<zk::Reply> list();
  zk::Awaitable<zk::Reply> list_again();
  void learn(zk::Reply& listed);
  bool lists_contenders(std::size_t least) const;

  // Waits until `step.node` is gone. Afterwards look_again() learns who is before us.
  zk::Awaitable<zk::Reply> wait_for(WaitStep step);
  zk::Awaitable<zk::Reply> look_again(WaitStep former);
  LookFacts facts_after(const WaitStep& former) const;
  zk::Awaitable<zk::Reply> read_record(WaitStep former);
  zk::Awaitable<zk::Reply> look_ahead(WaitStep step);
  zk::PendingReply watch(const std::string& node, const std::shared_ptr<Waiter::NodeWatch>& watch);

  const ContendSpecPtr spec_;
  const std::string data_;
  const Patience patience_;
  std::string marker_;
  zk::Reply node_;                             // Path and Stat of our own node.
  std::vector<std::string> children_;          // As far as it is known; empty while waiting.
  zkclient::BootClock::time_point listed_at_;  // When the last list was asked for.
  const std::chrono::steady_clock::time_point entered_ = std::chrono::steady_clock::now();
  bool long_list_ = false;                      // The last list named many contenders.
  bool crowded_ = false;                        // There is a successor that will read a record.
  std::optional<std::int32_t> record_version_;  // Of the directory's node, if we may write there.
  std::string near_node_;                       // Look-ahead: what near_ watches.
  std::shared_ptr<Waiter::NodeWatch> near_;
  bool list_is_new_ = false;  // Look-ahead has read it while the predecessor still held.
};

}  // namespace zkrecipes::detail
