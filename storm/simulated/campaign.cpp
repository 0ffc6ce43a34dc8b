#include "storm/simulated/campaign.hpp"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr auto save_every = 5s;
constexpr auto show_every = 2s;

volatile std::sig_atomic_t asked_to_end = 0;

}  // namespace

/// One that is being played.
struct Campaign::World {
  const Workload* workload = nullptr;
  ScenarioOptions options;
  std::unique_ptr<Apart> apart;
  std::optional<WorldResult> first;  ///< With `twice`: what became of it when it was played first.
};

Campaign::Campaign(CampaignOptions options, Play play, State& state, Told told, Save save)
    : options_(std::move(options)),
      play_(std::move(play)),
      state_(state),
      told_(std::move(told)),
      save_(std::move(save)),
      running_(static_cast<std::size_t>(options_.jobs)) {
  exhausted_ = options_.seeds.empty() || options_.workloads.empty();
  if (!exhausted_) seed_ = options_.seeds.ranges().begin()->first;
}

Campaign::~Campaign() = default;

void Campaign::ask_to_end() { asked_to_end = 1; }

CampaignResult Campaign::run() {
  auto shown = std::chrono::steady_clock::now();
  for (;;) {
    begin_worlds();
    bool any = false;
    for (const auto& world : running_)
      any = any || world != nullptr;
    if (!any) break;
    listen();
    save_at_times();
    if (options_.progress && std::chrono::steady_clock::now() - shown >= show_every) {
      shown = std::chrono::steady_clock::now();
      show_progress();
    }
  }
  if (options_.progress) std::fputs("\r\033[K", stderr);
  save_(state_);
  result_.interrupted = asked_to_end != 0;
  return result_;
}

bool Campaign::enough() const {
  return asked_to_end != 0 || (options_.first_only && result_.failed > 0) ||
         (options_.time && std::chrono::steady_clock::now() - began_ >= *options_.time);
}

/// The next one that was not done before.
bool Campaign::next(const Workload*& workload, std::uint64_t& seed) {
  while (!exhausted_) {
    workload = options_.workloads[workload_];
    seed = seed_;
    if (++workload_ == options_.workloads.size()) {
      workload_ = 0;
      const auto& ranges = options_.seeds.ranges();
      const auto after = ranges.upper_bound(seed_);
      if (std::prev(after)->second > seed_)
        ++seed_;
      else if (after != ranges.end())
        seed_ = after->first;
      else
        exhausted_ = true;
    }
    const auto done = state_.workloads.find(workload->name);
    if (done == state_.workloads.end() || !done->second.seeds.contains(seed)) return true;
  }
  return false;
}

void Campaign::begin_worlds() {
  for (std::size_t place = 0; place < running_.size(); ++place) {
    if (running_[place] != nullptr || enough()) continue;
    auto world = std::make_unique<World>();
    world->options = options_.worlds;
    if (!next(world->workload, world->options.seed)) return;
    // Campaigns that run at the same time begin with different ones.
    const int processor = running_.size() == 1 ? -1 : ::getpid() + static_cast<int>(place);
    world->apart = std::make_unique<Apart>(play_, *world->workload, world->options, options_.bounds, processor);
    running_[place] = std::move(world);
  }
}

void Campaign::listen() {
  std::vector<pollfd> descriptors;
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < running_.size(); ++place) {
    if (running_[place] == nullptr) continue;
    descriptors.push_back({.fd = running_[place]->apart->descriptor(), .events = POLLIN, .revents = 0});
    places.push_back(place);
  }
  ::poll(descriptors.data(), descriptors.size(), 500);
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    std::unique_ptr<World>& world = running_[places[i]];
    world->apart->look_at_the_clock();
    if (descriptors[i].revents == 0 || world->apart->listen()) continue;
    end(*world);
    if (world->apart == nullptr) world = nullptr;
  }
}

void Campaign::end(World& world) {
  WorldResult result = world.apart->result();
  world.apart = nullptr;
  result_.processor_seconds += result.processor_seconds;
  if (options_.twice && !world.first) {
    world.first = std::move(result);
    world.apart = std::make_unique<Apart>(play_, *world.workload, world.options, options_.bounds);
    return;
  }
  if (world.first && !world.first->same_as(result)) {
    result.verdict = Verdict::judged;
    result.outcome.faults.emplace_back("the same seed gave another world");
  }
  finish(world, std::move(result));
}

void Campaign::finish(World& world, WorldResult result) {
  ++result_.worlds;
  if (result.failed()) ++result_.failed;
  if (options_.progress && result.failed()) std::fputs("\r\033[K", stderr);
  told_(*world.workload, world.options, result);
  state_.workloads[world.workload->name].add(world.options.seed, result);
  if (!result.failed()) return;
  save_(state_);
  saved_ = std::chrono::steady_clock::now();
}

void Campaign::save_at_times() {
  if (std::chrono::steady_clock::now() - saved_ < save_every) return;
  save_(state_);
  saved_ = std::chrono::steady_clock::now();
}

void Campaign::show_progress() const {
  const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_);
  std::fputs(fmt::format("\r\033[K{:.0f} s: {} worlds, {} failed, {:.1f} a second, seed {}{}", took.count(),
                         result_.worlds, result_.failed, static_cast<double>(result_.worlds) / took.count(), seed_,
                         asked_to_end != 0 ? ", ending" : "")
                 .c_str(),
             stderr);
}

}  // namespace storm
