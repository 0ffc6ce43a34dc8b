// Items per second through a queue: ours beside Curator, kazoo and a raw loop on the C client. See README.md.

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/queue.hpp>

#include "compare_peers.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr const char* usage =
    R"(queues: items per second through a queue, ours beside Curator, kazoo and a raw loop on the C client

  --pairs N       producers, and consumers (1)
  --backlog N     items that wait all the time (10)
)";

constexpr std::size_t item_size = 64;
constexpr int outstanding = 32;  // Calls of each consumer at a time, and pushes under way for each producer.

enum class Way { blocking_pop, pop, claim, delayed };

/// Our producers and consumers, each with a session of its own. For each item taken one is pushed, so the backlog
/// stays.
class Ours final : public bench::Contender {
 public:
  Ours(const std::string& server, const std::string& path, Way way, const bench::RunOptions& options) : way_(way) {
    const int waiting = options.backlog + outstanding * options.pairs;
    for (int i = 0; i < options.pairs; ++i) {
      const int items = i == 0 ? waiting : 0;
      way == Way::delayed ? add_delayed(server, path, items) : add_plain(server, path, items);
    }
  }

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    stopwatch_ = &stopwatch;
    taken_ = 0;
    failure_.reset();
    const int chains = way_ == Way::blocking_pop ? 1 : outstanding;
    running_ = 1;
    for (std::size_t i = 0; i < consumers_.size(); ++i) {
      for (int k = 0; k < chains; ++k) {
        begin();
        next(i);
      }
    }
    end();
    await_end();
    return stopwatch.stop(taken_);
  }

 private:
  using Handler = zkclient::Handler<void>;
  static std::string item() { return std::string(item_size, 'x'); }

  void add_plain(const std::string& server, const std::string& path, int items) {
    const auto producer = std::make_shared<zkrecipes::Queue>(zkclient::Client(server), path);
    push_.emplace_back([producer](Handler done) { producer->async_push(item(), std::move(done)); });
    fill(items, [&](std::vector<std::string> batch) { producer->push_all(std::move(batch)); });
    const zkrecipes::QueueOptions consumer{.prefetch = way_ == Way::claim ? outstanding : 0};
    consumers_.push_back(std::make_shared<zkrecipes::Queue>(zkclient::Client(server), path, consumer));
  }
  void add_delayed(const std::string& server, const std::string& path, int items) {
    using Clock = std::chrono::system_clock;
    const auto producer = std::make_shared<zkrecipes::DelayQueue>(zkclient::Client(server), path);
    push_.emplace_back([producer](Handler done) { producer->async_push(item(), Clock::now(), std::move(done)); });
    fill(items, [&](std::vector<std::string> batch) { producer->push_all(std::move(batch), Clock::now()); });
    consumers_.push_back(std::make_shared<zkrecipes::DelayQueue>(zkclient::Client(server), path));
  }
  template <typename PushAll>
  static void fill(int items, PushAll push_all) {
    constexpr int batch = 100;
    for (int pushed = 0; pushed < items; pushed += batch)
      push_all(std::vector<std::string>(static_cast<std::size_t>(std::min(batch, items - pushed)), item()));
  }

  // A chain: take, push one in its stead, take again.
  void next(std::size_t i) {
    if (!stopwatch_->running()) return end();
    if (way_ != Way::claim) {
      consumers_[i]->async_pop([this, i](zkclient::Result<std::string> item) { passed(i, item.code(), item); });
      return;
    }
    consumers_[i]->async_claim([this, i](zkclient::Result<zkrecipes::Claim> claim) {
      if (!claim) return fail(claim.error());
      const auto kept = std::make_shared<zkrecipes::Claim>(std::move(*claim));
      kept->async_commit([this, i, kept](zkclient::Result<void> done) { passed(i, done.code(), done); });
    });
  }
  template <typename T>
  void passed(std::size_t i, std::error_code code, const zkclient::Result<T>& result) {
    if (code) return fail(result.error());
    ++taken_;
    begin();
    push(i);
    next(i);
  }
  void push(std::size_t i) {
    push_[i]([this](zkclient::Result<void> done) {
      if (!done) return fail(done.error());
      end();
    });
  }

  void begin() {
    const std::lock_guard lock(guard_);
    ++running_;
  }
  void end() {
    const std::lock_guard lock(guard_);
    if (--running_ == 0) idle_.notify_all();
  }
  void await_end() {
    std::unique_lock lock(guard_);
    idle_.wait(lock, [this] { return running_ == 0; });
    if (failure_) throw zkclient::Error(*failure_);
  }
  void fail(const zkclient::Error& error) {
    {
      const std::lock_guard lock(guard_);
      failure_ = error;
    }
    end();
  }

  const Way way_;
  std::vector<std::function<void(Handler)>> push_;  // Of each producer.
  std::vector<std::shared_ptr<zkrecipes::QueueBase>> consumers_;
  const bench::Stopwatch* stopwatch_ = nullptr;
  std::atomic<std::int64_t> taken_{0};
  std::mutex guard_;
  std::condition_variable idle_;
  int running_ = 0;
  std::optional<zkclient::Error> failure_;
};

constexpr const char* raw_row = "st pipelined";
constexpr const char* pop_row = "Queue, pop, asynchronous";
constexpr const char* one_row = "Queue, pop, one at a time";
constexpr const char* claim_row = "Queue, claim and commit";
constexpr const char* delayed_row = "DelayQueue, items that are due";
constexpr const char* simple_row = "Curator SimpleDistributedQueue";
constexpr const char* queue_row = "Curator DistributedQueue";
constexpr const char* locked_row = "Curator, lockPath (claims)";
constexpr const char* theirs_delayed_row = "Curator DistributedDelayQueue";
constexpr const char* kazoo_row = "kazoo Queue";
constexpr const char* locking_row = "kazoo LockingQueue (claims)";

bench::Report run(const bench::RunOptions& options) {
  bench::Comparison comparison(options);
  const std::string& server = comparison.server();
  const std::string pairs = std::to_string(options.pairs);
  const std::string backlog = std::to_string(options.backlog);
  const auto peer = [&](const std::string& name, const char* kind) {
    return std::vector<std::string>{server, comparison.add_parent(name), kind, pairs, backlog};
  };
  if (options.pairs == 1 && options.backlog <= 10) {
    comparison.add(raw_row, std::make_unique<bench::Child>(std::vector<std::string>{
                                bench::beside_this_program("raw_queue"), server, comparison.add_parent("raw")}));
  }
  comparison.add(pop_row, std::make_unique<Ours>(server, comparison.add_parent("pop"), Way::pop, options));
  comparison.add(one_row, std::make_unique<Ours>(server, comparison.add_parent("one"), Way::blocking_pop, options));
  comparison.add(claim_row, std::make_unique<Ours>(server, comparison.add_parent("claim"), Way::claim, options));
  comparison.add(delayed_row, std::make_unique<Ours>(server, comparison.add_parent("due"), Way::delayed, options));
  comparison.add(simple_row, comparison.peers().curator(peer("simple", "simple")));
  comparison.add(queue_row, comparison.peers().curator(peer("queue", "queue")));
  comparison.add(locked_row, comparison.peers().curator(peer("locked", "locked")));
  comparison.add(theirs_delayed_row, comparison.peers().curator(peer("delay", "delay")));
  comparison.add(kazoo_row, comparison.peers().kazoo(peer("kazoo", "queue")));
  comparison.add(locking_row, comparison.peers().kazoo(peer("locking", "locking")));
  comparison.measure();
  const bool alone = options.pairs == 1;
  comparison.compare(pop_row, queue_row, alone ? 5.0 : 10.0);
  comparison.compare(pop_row, simple_row, {});
  comparison.compare(pop_row, kazoo_row, alone ? 3.0 : 4.0);
  comparison.compare(pop_row, raw_row, {});
  comparison.compare(one_row, kazoo_row, {});
  comparison.compare(claim_row, locked_row, 5.0);
  comparison.compare(claim_row, locking_row, {});
  comparison.compare(delayed_row, theirs_delayed_row, {});
  return comparison.report("queues", fmt::format("{} + {}, {} items waiting", options.pairs, options.pairs, backlog));
}

}  // namespace

int main(int argc, char** argv) { return bench::compare_main("queues", usage, {argv + 1, argv + argc}, run); }
