// Rounds per second of a double barrier with 8 members: ours beside Curator and kazoo. See README.md.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zkrecipes/double_barrier.hpp>

#include "compare_peers.hpp"

namespace {

using std::chrono::milliseconds;

constexpr const char* usage =
    R"(barriers: rounds per second of a double barrier with 8 members, ours beside Curator and kazoo

)";
constexpr int members = 8;

/// Eight members with a session each, which go round in threads of their own.
class Ours final : public bench::Contender {
 public:
  Ours(const std::string& server, const std::string& path) {
    for (int i = 0; i < members; ++i) {
      barriers_.push_back(std::make_unique<zkrecipes::DoubleBarrier>(zkclient::Client(server), path, members));
    }
  }

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::int64_t rounds = 0;
    std::atomic<std::int64_t> last{-1};  // The round after which all stop; the first member says so.
    std::vector<std::jthread> crew;
    std::atomic<bool> failed{false};
    for (int i = 0; i < members; ++i) {
      crew.emplace_back([&, i] {
        try {
          for (std::int64_t round = 0; last < 0 || round <= last; ++round) {
            (void)barriers_[static_cast<std::size_t>(i)]->enter();
            // While it is inside nobody can be further than this round.
            if (i == 0 && !stopwatch.running()) last = round;
            barriers_[static_cast<std::size_t>(i)]->leave();
            if (i == 0) ++rounds;
          }
        } catch (const zkclient::Error&) {
          failed = true;
        }
      });
    }
    crew.clear();
    if (failed) throw std::runtime_error("a member failed");
    return stopwatch.stop(rounds);
  }

 private:
  std::vector<std::unique_ptr<zkrecipes::DoubleBarrier>> barriers_;
};

constexpr const char* our_row = "DoubleBarrier";
constexpr const char* curator_row = "Curator DistributedDoubleBarrier";
constexpr const char* kazoo_row = "kazoo DoubleBarrier";

bench::Report run(const bench::RunOptions& options) {
  bench::Comparison comparison(options);
  const std::string& server = comparison.server();
  const std::string count = std::to_string(members);
  comparison.add(our_row, std::make_unique<Ours>(server, comparison.add_parent("ours")));
  comparison.add(curator_row,
                 comparison.peers().curator({server, comparison.add_parent("curator"), "barrier", count, "0"}));
  comparison.add(kazoo_row, comparison.peers().kazoo({server, comparison.add_parent("kazoo"), "barrier", count, "0"}));
  comparison.measure();
  comparison.compare(our_row, curator_row, 2.0);
  comparison.compare(our_row, kazoo_row, {});
  bench::Report report = comparison.report("barriers", fmt::format("{} members", members));
  report.notes.emplace_back("The others' rounds hang at times: a slice in which that happens counts what came before.");
  return report;
}

}  // namespace

int main(int argc, char** argv) { return bench::compare_main("barriers", usage, {argv + 1, argv + argc}, run); }
