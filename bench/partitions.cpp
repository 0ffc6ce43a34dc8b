// Partitions beside kazoo's SetPartitioner: how long it takes until a member that joins, or leaves, has its share, and
// what that costs. See README.md.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
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

/// What each member owns. Waits until that is what it shall be.
class Owners {
 public:
  void add(const std::string& member, const std::string& partition) {
    change([&] { owned_[member].insert(partition); });
  }
  void remove(const std::string& member, const std::string& partition) {
    change([&] { owned_[member].erase(partition); });
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
  Member(const std::string& server, const std::string& path, std::string id, std::size_t partitions, Owners& owners)
      : id_(std::move(id)),
        owners_(owners),
        partitioner_(Client(server), path, zkrecipes::PartitionSource::numbered(partitions),
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

/// One cycle: a member joins, and has its share; it leaves, and the others have it.
class JoinsAndLeaves final : public bench::Contender {
 public:
  JoinsAndLeaves(std::string server, std::string path, std::size_t partitions)
      : server_(std::move(server)), path_(std::move(path)), partitions_(partitions) {
    for (int i = 0; i < members; ++i) {
      ids_.push_back(fmt::format("member-{}", i));
      members_.push_back(std::make_unique<Member>(server_, path_, ids_.back(), partitions_, owners_));
    }
    owners_.wait_for(wanted(ids_));
  }

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::int64_t cycles = 0;
    std::vector<std::string> more = ids_;
    more.push_back("newcomer");
    for (; stopwatch.running(); ++cycles) {
      const std::int64_t before = owners_.taken();
      Member newcomer(server_, path_, more.back(), partitions_, owners_);
      owners_.wait_for(wanted(more));
      newcomer.leave();
      owners_.wait_for(wanted(ids_));
      // Each that moves is given back and taken, twice.
      moved_ = static_cast<double>(owners_.taken() - before) / 4;
    }
    return stopwatch.stop(cycles);
  }
  double moved() const { return moved_; }

 private:
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
    count(our_row, [&](const std::string& server) {
      auto contender = ours(server, comparison_.add_parent("ours-counted"));
      counted_ = contender.get();
      return contender;
    });
    count(kazoo_row, [&](const std::string& server) { return kazoo(server, comparison_.add_parent("kazoo-counted")); });
    bench::Report report = comparison_.report(
        "partitions", fmt::format("{} members and one, {} partitions; a second without a change of members before "
                                  "anything moves, in both",
                                  members, options_.nodes));
    report.figures = std::move(figures_);
    return report;
  }

 private:
  void count(const char* name, const std::function<std::unique_ptr<bench::Contender>(const std::string&)>& make) {
    zktesting::Proxy proxy(comparison_.server());
    const auto contender = make(proxy.connect_string());
    if (contender == nullptr) return;
    const std::size_t before = proxy.request_count(RequestType::any);
    const bench::Sample sample = contender->run(options_.slice);
    const auto requests = static_cast<double>(proxy.request_count(RequestType::any) - before);
    figures_.push_back({fmt::format("ms: {}", name), 1e3 / sample.cycles_per_second()});
    figures_.push_back({fmt::format("requests: {}", name), requests / static_cast<double>(sample.cycles)});
    if (contender.get() == counted_)
      figures_.push_back({fmt::format("partitions that move: {}", name), counted_->moved()});
  }

  const bench::RunOptions options_;
  bench::Comparison comparison_;
  const JoinsAndLeaves* counted_ = nullptr;
  std::vector<bench::Figure> figures_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::compare_main("partitions", usage, {argv + 1, argv + argc},
                             [](const bench::RunOptions& options) { return Partitions(options).run(); });
}
