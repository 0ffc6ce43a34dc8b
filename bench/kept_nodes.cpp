// Persistent nodes beside Curator's: how fast one is made and removed, and what many of them take. See README.md.

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <zkclient/client.hpp>
#include <zkrecipes/persistent_node.hpp>
#include <zktesting/proxy.hpp>

#include "compare_peers.hpp"
#include "memory.hpp"

namespace {

using std::chrono::milliseconds;
using zkclient::Client;
using zkclient::Path;
using zkrecipes::PersistentNode;

constexpr const char* usage = R"(kept_nodes: persistent nodes, ours beside those of Curator

  --nodes N       nodes that are kept at once (200)
)";

constexpr std::size_t node_bytes = 100;

/// Makes a node, waits until it is there, and removes it, over and over.
class MadeAndRemoved final : public bench::Contender {
 public:
  MadeAndRemoved(const std::string& server, const std::string& path) : client_(server), path_(Path(path) / "node") {
    client_.connect();
  }

  bench::Sample run(milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::int64_t cycles = 0;
    for (; stopwatch.running(); ++cycles) {
      PersistentNode node(client_, path_, std::string(node_bytes, 'x'));
      node.wait_created();
      node.remove();
    }
    return stopwatch.stop(cycles);
  }

 private:
  Client client_;
  const Path path_;
};

double requests_per_cycle(zktesting::Proxy& proxy, bench::Contender& contender, milliseconds duration) {
  const std::size_t before = proxy.request_count(zktesting::RequestType::any);
  const bench::Sample sample = contender.run(duration);
  const std::size_t sent = proxy.request_count(zktesting::RequestType::any) - before;
  return static_cast<double>(sent) / static_cast<double>(sample.cycles);
}

/// What `count` nodes of one client take, and how long it takes until all are there.
void measure_many(bench::Comparison& comparison, int count, std::vector<bench::Figure>& figures) {
  const Client client(comparison.server());
  client.connect();
  const Path folder(comparison.add_parent("many"));
  std::vector<std::unique_ptr<PersistentNode>> nodes;
  nodes.reserve(static_cast<std::size_t>(count));
  const std::int64_t before = bench::resident_bytes();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    const std::string name = fmt::format("node-{:06}", i);
    nodes.push_back(std::make_unique<PersistentNode>(client, folder / name, std::string(node_bytes, 'x')));
  }
  for (const auto& node : nodes)
    node->wait_created();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  figures.push_back({fmt::format("ms until {} nodes are there", count), took.count()});
  figures.push_back({"bytes for each of them, its watch and the C client's share included",
                     static_cast<double>(bench::resident_bytes() - before) / count});
}

bench::Report run(const bench::RunOptions& options) {
  constexpr const char* our_row = "PersistentNode, made and removed";
  constexpr const char* their_row = "Curator PersistentNode, made and removed";
  bench::Comparison comparison(options);
  // Ours first: what memory the other figures have left behind would be used again.
  std::vector<bench::Figure> figures;
  measure_many(comparison, options.nodes, figures);
  const auto theirs = [&](const std::string& server, const std::string& path) {
    return comparison.peers().curator({server, path, "persistent", "0", "0"});
  };
  comparison.add(our_row, std::make_unique<MadeAndRemoved>(comparison.server(), comparison.add_parent("ours")));
  comparison.add(their_row, theirs(comparison.server(), comparison.add_parent("theirs")));
  comparison.measure();
  comparison.compare(our_row, their_row, {});
  zktesting::Proxy proxy(comparison.server());
  MadeAndRemoved counted(proxy.connect_string(), comparison.add_parent("counted"));
  figures.push_back({fmt::format("requests: {}", our_row), requests_per_cycle(proxy, counted, options.slice)});
  zktesting::Proxy their_proxy(comparison.server());
  if (const auto peer = theirs(their_proxy.connect_string(), comparison.add_parent("counted-theirs")))
    figures.push_back({fmt::format("requests: {}", their_row), requests_per_cycle(their_proxy, *peer, options.slice)});
  bench::Report report = comparison.report("kept_nodes", fmt::format("nodes of {} bytes", node_bytes));
  report.figures = std::move(figures);
  return report;
}

}  // namespace

int main(int argc, char** argv) { return bench::compare_main("kept_nodes", usage, {argv + 1, argv + argc}, run); }
