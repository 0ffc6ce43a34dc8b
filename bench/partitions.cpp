// Partitions beside kazoo's SetPartitioner: how long it takes until a member that joins, leaves or dies has its share, or
// the others have it, and what that costs. See README.md.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zkrecipes/hashing.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zktesting/proxy.hpp>

#include "compare_peers.hpp"

namespace {

using std::chrono::milliseconds;
using zkclient::Client;
using zkclient::Path;
using zktesting::RequestType;

constexpr const char* usage =
    R"(partitions: a member joins others and leaves again, ours beside kazoo's SetPartitioner

  --nodes N       partitions (200)
)";

constexpr int members = 10;  // Besides the one that comes and goes.
// Of the member that is killed; kazoo_bench.py has it, too.
constexpr std::chrono::seconds victims_session{4};
constexpr std::chrono::minutes patience{5};

/// What each member owns. Waits until that is what it shall be.
class Owners {
 public:
  void add(const std::string& member, const std::string& partition) {
    change([&] { owned_[member].insert(partition); });
  }
  void remove(const std::string& member, const std::string& partition) {
    change([&] { owned_[member].erase(partition); });
  }
  /// It is dead.
  void forget(const std::string& member) {
    change([&] { owned_.erase(member); });
  }
  using All = std::map<std::string, std::set<std::string>>;
  void wait_for(const All& wanted) {
    std::unique_lock lock(guard_);
    changed_.wait(lock, [&] { return owned_ == wanted; });
  }
  /// Partitions that were taken.
  std::int64_t taken() {
    const std::lock_guard lock(guard_);
    return taken_;
  }

 private:
  void change(const std::function<void()>& how) {
    const std::lock_guard lock(guard_);
    how();
    ++taken_;
    std::erase_if(owned_, [](const auto& member) { return member.second.empty(); });
    changed_.notify_all();
  }

  std::mutex guard_;
  std::condition_variable changed_;
  All owned_;
  std::int64_t taken_ = 0;
};

/// Gives back what it is asked for, at once.
class Member {
 public:
  Member(const Client& client, const std::string& path, std::string id, std::size_t partitions, Owners& owners)
      : id_(std::move(id)),
        owners_(owners),
        partitioner_(client, path, zkrecipes::PartitionSource::numbered(partitions),
                     [this](zkrecipes::Partition partition) { hold(std::move(partition)); }, {.id = id_}) {
    partitioner_.start();
  }
  void leave() { partitioner_.leave(); }

 private:
  struct Held {
    zkrecipes::Partition partition;
    std::optional<std::stop_callback<std::function<void()>>> asked;
  };

  void hold(zkrecipes::Partition partition) {
    const std::string name = partition.name();
    owners_.add(id_, name);
    const std::stop_token asked = partition.revoke_requested();
    Held& held = held_[name];
    held.asked.reset();
    held.partition = std::move(partition);
    held.asked.emplace(asked, [this, name] { give_back(name); });
  }
  // On the same thread.
  void give_back(const std::string& name) {
    owners_.remove(id_, name);
    held_.at(name).partition.async_release([](const zkclient::Result<void>&) {});
  }

  const std::string id_;
  Owners& owners_;
  std::map<std::string, Held> held_;
  zkrecipes::Partitioner partitioner_;
};

/// Until all have what they shall have.
struct Changes {
  double join_ms = 0;
  double leave_ms = 0;
  double kill_ms = 0;
};

/// One cycle: a member joins, and has its share; it leaves, and the others have it.
class JoinsAndLeaves final : public bench::Contender {
 public:
  JoinsAndLeaves(std::string server, std::string path, std::size_t partitions)
      : server_(std::move(server)), path_(std::move(path)), partitions_(partitions) {
    for (int i = 0; i < members; ++i) {
      ids_.push_back(fmt::format("member-{}", i));
      members_.push_back(std::make_unique<Member>(Client(server_), path_, ids_.back(), partitions_, owners_));
    }
    owners_.wait_for(wanted(ids_));
    with_newcomer_ = ids_;
    with_newcomer_.push_back("newcomer");
  }

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::int64_t cycles = 0;
    for (; stopwatch.running(); ++cycles) {
      const std::int64_t before = owners_.taken();
      (void)join_and_leave();
      // Each that moves is given back and taken, twice.
      moved_ = static_cast<double>(owners_.taken() - before) / 4;
    }
    return stopwatch.stop(cycles);
  }
  double moved() const { return moved_; }

  /// A member joins and leaves; another one joins and is cut off for good, which is how the others see its death.
  Changes each_change() {
    const auto begin = Clock::now();
    const auto joined = join_and_leave();
    const auto left = Clock::now();
    zktesting::Proxy proxy(server_);
    const Client client(proxy.connect_string(), {.session_timeout = victims_session});
    const Member victim(client, path_, with_newcomer_.back(), partitions_, owners_);
    owners_.wait_for(wanted(with_newcomer_));
    const auto before = Clock::now();
    proxy.refuse(true);
    proxy.cut();
    owners_.forget(with_newcomer_.back());
    owners_.wait_for(wanted(ids_));
    return {ms(joined - begin), ms(left - joined), ms(Clock::now() - before)};
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double ms(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

  /// Returns when all had what they should have with it.
  Clock::time_point join_and_leave() {
    Member newcomer(Client(server_), path_, with_newcomer_.back(), partitions_, owners_);
    owners_.wait_for(wanted(with_newcomer_));
    const auto joined = Clock::now();
    newcomer.leave();
    owners_.wait_for(wanted(ids_));
    return joined;
  }

  Owners::All wanted(const std::vector<std::string>& ids) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < partitions_; ++i)
      names.push_back(std::to_string(i));
    std::vector<zkrecipes::WeightedMember> weighted;
    for (const std::string& id : ids)
      weighted.push_back({.id = id});
    const auto owners = zkrecipes::assign(names, weighted);
    Owners::All all;
    for (std::size_t i = 0; i < names.size(); ++i)
      all[ids[*owners[i]]].insert(names[i]);
    return all;
  }

  const std::string server_;
  const std::string path_;
  const std::size_t partitions_;
  Owners owners_;
  std::vector<std::string> ids_;
  std::vector<std::string> with_newcomer_;
  std::vector<std::unique_ptr<Member>> members_;
  double moved_ = 0;
};

constexpr const char* our_row = "Partitioner, a member joins and leaves";
constexpr const char* kazoo_row = "kazoo SetPartitioner, a member joins and leaves";

class Partitions {
 public:
  explicit Partitions(const bench::RunOptions& options) : options_(options), comparison_(options) {}

  bench::Report run() {
    const auto partitions = static_cast<std::size_t>(options_.nodes);
    const auto ours = [&](const std::string& server, const std::string& path) {
      return std::make_unique<JoinsAndLeaves>(server, path, partitions);
    };
    const auto kazoo = [&](const std::string& server, const std::string& path) {
      return comparison_.peers().kazoo(
          {server, path, "partition", std::to_string(members), std::to_string(options_.nodes)});
    };
    const std::string our_path = comparison_.add_parent("ours");
    const std::string kazoo_path = comparison_.add_parent("kazoo");
    comparison_.add(our_row, ours(comparison_.server(), our_path));
    comparison_.add(kazoo_row, kazoo(comparison_.server(), kazoo_path));
    comparison_.measure();
    comparison_.compare(our_row, kazoo_row, {});
    zktesting::Proxy proxy(comparison_.server());
    const auto counted = ours(proxy.connect_string(), comparison_.add_parent("ours-counted"));
    count(our_row, proxy, *counted);
    figures_.push_back({fmt::format("partitions that move: {}", our_row), counted->moved()});
    time("Partitioner", counted->each_change());
    const auto peer = kazoo(proxy.connect_string(), comparison_.add_parent("kazoo-counted"));
    if (peer != nullptr) {
      count(kazoo_row, proxy, *peer);
      std::istringstream answer(peer->ask("each", patience));
      Changes took;
      answer >> took.join_ms >> took.leave_ms >> took.kill_ms;
      time("kazoo SetPartitioner", took);
    }
    bench::Report report = comparison_.report(
        "partitions", fmt::format("{} members and one, {} partitions; a second without a change of members before "
                                  "anything moves, in both",
                                  members, options_.nodes));
    report.figures = std::move(figures_);
    return report;
  }

 private:
  void count(const char* name, const zktesting::Proxy& proxy, bench::Contender& contender) {
    const std::size_t before = proxy.request_count(RequestType::any);
    const bench::Sample sample = contender.run(options_.slice);
    const auto requests = static_cast<double>(proxy.request_count(RequestType::any) - before);
    figures_.push_back({fmt::format("requests: {}", name), requests / static_cast<double>(sample.cycles)});
  }
  void time(const char* name, const Changes& took) {
    figures_.push_back({fmt::format("ms after a join: {}", name), took.join_ms});
    figures_.push_back({fmt::format("ms after a leave: {}", name), took.leave_ms});
    figures_.push_back({fmt::format("ms after a kill: {}", name), took.kill_ms});
  }

  const bench::RunOptions options_;
  bench::Comparison comparison_;
  std::vector<bench::Figure> figures_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::compare_main("partitions", usage, {argv + 1, argv + argc},
                             [](const bench::RunOptions& options) { return Partitions(options).run(); });
}
