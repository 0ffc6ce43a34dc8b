#include "recipes/discovery/provider_decider.hpp"

#include <algorithm>

namespace zkrecipes::detail {

namespace {

using Rep = ProviderDecider::TimePoint::rep;
constexpr Rep long_ago = std::numeric_limits<Rep>::min();

Rep ticks(ProviderDecider::TimePoint time) { return time.time_since_epoch().count(); }

// Much longer times would leave the range of the clock; no process lives to tell the difference.
ProviderOptions within_a_year(ProviderOptions options) {
  constexpr std::chrono::milliseconds year = std::chrono::hours(24 * 365);
  for (auto* time : {&options.health.window, &options.health.pause, &options.health.max_pause, &options.last_resort})
    *time = std::min(*time, year);
  return options;
}

/// The step of SplitMix64.
constexpr std::uint64_t golden_ratio = 0x9E3779B97F4A7C15U;

// FNV-1a: the same everywhere, because all pickers of a key shall agree.
std::uint64_t key_hash(std::string_view text) noexcept {
  std::uint64_t hash = 14695981039346656037U;
  for (const char byte : text)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  return hash;
}

// The finaliser of SplitMix64: each bit of the input changes half of the output's.
std::uint64_t mixed(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

bool same_incarnation(const ListedInstance& a, const ListedInstance& b) {
  return a.incarnation == b.incarnation && a.node == b.node;
}

}  // namespace

/// Of one incarnation of an instance; goes from list to list with it.
struct ProviderDecider::Health {
  explicit Health(std::uint64_t number) : serial(number) {}

  const std::uint64_t serial;            // From 1.
  std::atomic<Rep> out_until{long_ago};  // The end of its last pause.
  std::atomic<std::uint64_t> errors{0};  // Since its last success.
  // Guarded by health_mutex_.
  std::deque<TimePoint> recent;        // Errors that may still put it out.
  std::chrono::milliseconds pause{0};  // The last one; zero after a success.

  bool is_out(TimePoint now) const noexcept { return ticks(now) < out_until.load(std::memory_order_relaxed); }
};

struct ProviderDecider::Candidate {
  ListedInstancePtr instance;
  std::shared_ptr<Health> health;
  std::uint64_t hash = 0;                     // Of its node's name.
  TimePoint usable_until = TimePoint::max();  // Of one that has vanished.

  bool is_up(TimePoint now) const noexcept { return now < usable_until && !health->is_out(now); }
};

struct ProviderDecider::List {
  std::vector<Candidate> candidates;         // Those that may be picked; of an empty list, those that have vanished.
  std::vector<ListedInstancePtr> instances;  // Of the candidates.
  std::vector<std::pair<std::uint64_t, std::size_t>> by_serial;  // Indices of candidates.
  std::vector<Candidate> disabled;                               // Listed, never picked; they keep their health.
  std::vector<Candidate> vanished;                               // Not long ago.
  bool confirmed = true;

  static const Candidate* find_in(const std::vector<Candidate>& ordered, const ListedInstance& instance) {
    const auto found = std::lower_bound(
        ordered.begin(), ordered.end(), instance.node,
        [](const Candidate& candidate, const std::string& node) { return candidate.instance->node < node; });
    const bool same = found != ordered.end() && same_incarnation(*found->instance, instance);
    return same ? &*found : nullptr;
  }
  const Candidate* find(const ListedInstance& instance) const {
    const Candidate* found = find_in(candidates, instance);
    return found != nullptr ? found : find_in(disabled, instance);
  }
};

ProviderDecider::ProviderDecider(ProviderOptions options, std::uint64_t seed)
    : options_(within_a_year(std::move(options))), turn_(seed), all_up_from_(long_ago) {
  list_.exchange(std::make_shared<const List>());
}

ProviderDecider::~ProviderDecider() = default;

// --- The list --------------------------------------------------------------------------------------------------------

// Those that are not listed any more, and were not long ago.
std::vector<ProviderDecider::Candidate> ProviderDecider::former(const List& last,
                                                                const std::vector<ListedInstancePtr>& listed,
                                                                TimePoint now) {
  std::vector<Candidate> gone;
  const auto is_listed = [&listed](const Candidate& candidate) {
    const auto found = std::lower_bound(
        listed.begin(), listed.end(), candidate.instance->node,
        [](const ListedInstancePtr& instance, const std::string& node) { return instance->node < node; });
    return found != listed.end() && (*found)->node == candidate.instance->node;
  };
  for (const Candidate& candidate : last.vanished) {
    if (now < candidate.usable_until && !is_listed(candidate)) gone.push_back(candidate);
  }
  if (!last.confirmed) return gone;
  for (const Candidate& candidate : last.candidates) {
    if (is_listed(candidate)) continue;
    ListedInstance unconfirmed = *candidate.instance;
    unconfirmed.confirmed = false;
    Candidate left = candidate;
    left.instance = std::make_shared<const ListedInstance>(std::move(unconfirmed));
    left.usable_until = now + options_.last_resort;
    gone.push_back(std::move(left));
  }
  return gone;
}

void ProviderDecider::update(const std::vector<ListedInstancePtr>& listed, TimePoint now) {
  const ListPtr last = list_.load();
  auto next = std::make_shared<List>();
  next->vanished = former(*last, listed, now);
  for (const ListedInstancePtr& instance : listed) {
    const Candidate* known = last->find(*instance);
    Candidate candidate{instance, known != nullptr ? known->health : nullptr, mixed(key_hash(instance->node))};
    if (candidate.health == nullptr) candidate.health = std::make_shared<Health>(++next_serial_);
    (instance->instance.enabled ? next->candidates : next->disabled).push_back(std::move(candidate));
  }
  if (listed.empty()) {
    next->candidates = next->vanished;
    next->confirmed = false;
    std::sort(next->candidates.begin(), next->candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.instance->node < b.instance->node; });
  }
  for (const Candidate& candidate : next->candidates) {
    next->by_serial.emplace_back(candidate.health->serial, next->by_serial.size());
    next->instances.push_back(candidate.instance);
  }
  std::sort(next->by_serial.begin(), next->by_serial.end());
  list_.exchange(std::move(next));
}

// --- Health ----------------------------------------------------------------------------------------------------------

void ProviderDecider::note_error(const ListedInstance& instance, TimePoint now) {
  const ListPtr list = list_.load();
  const Candidate* candidate = list->find(instance);
  if (candidate == nullptr) return;
  Health& health = *candidate->health;
  const std::lock_guard lock(health_mutex_);
  health.errors.fetch_add(1, std::memory_order_relaxed);
  // Calls that were on their way when it was put out tell nothing new.
  if (health.is_out(now)) return;
  const HealthOptions& limits = options_.health;
  while (!health.recent.empty() && now - health.recent.front() > limits.window)
    health.recent.pop_front();
  health.recent.push_back(now);
  if (health.recent.size() < static_cast<std::size_t>(limits.errors)) return;
  health.recent.clear();
  const TimePoint last_end{TimePoint::duration(health.out_until.load(std::memory_order_relaxed))};
  const bool again = health.pause.count() > 0 && now - last_end <= limits.max_pause;
  health.pause = again ? std::min(health.pause * 2, limits.max_pause) : std::min(limits.pause, limits.max_pause);
  const Rep end = ticks(now + health.pause);
  health.out_until.store(end, std::memory_order_relaxed);
  if (all_up_from_.load(std::memory_order_relaxed) < end) all_up_from_.store(end, std::memory_order_relaxed);
}

void ProviderDecider::note_success(const ListedInstance& instance) {
  const ListPtr list = list_.load();
  const Candidate* candidate = list->find(instance);
  // The usual case takes no lock.
  if (candidate == nullptr || candidate->health->errors.load(std::memory_order_relaxed) == 0) return;
  Health& health = *candidate->health;
  const std::lock_guard lock(health_mutex_);
  health.errors.store(0, std::memory_order_relaxed);
  health.out_until.store(long_ago, std::memory_order_relaxed);
  health.recent.clear();
  health.pause = std::chrono::milliseconds(0);
}

bool ProviderDecider::out(const ListedInstance& instance, TimePoint now) const {
  const ListPtr list = list_.load();
  const Candidate* candidate = list->find(instance);
  return candidate != nullptr && candidate->health->is_out(now);
}

// --- Picking ---------------------------------------------------------------------------------------------------------

bool ProviderDecider::all_up(const List& list, TimePoint now) const noexcept {
  return list.confirmed && ticks(now) >= all_up_from_.load(std::memory_order_relaxed);
}

// The one with the fewest errors since its last success; of several, the one that is back first.
const ProviderDecider::Candidate* ProviderDecider::least_bad(const List& list, TimePoint now) {
  const Candidate* best = nullptr;
  std::pair<std::uint64_t, Rep> least{};
  for (const Candidate& candidate : list.candidates) {
    if (now >= candidate.usable_until) continue;
    const std::pair<std::uint64_t, Rep> badness{candidate.health->errors.load(std::memory_order_relaxed),
                                                candidate.health->out_until.load(std::memory_order_relaxed)};
    if (best != nullptr && badness >= least) continue;
    best = &candidate;
    least = badness;
  }
  return best;
}

std::vector<const ProviderDecider::Candidate*> ProviderDecider::usable(const List& list, TimePoint now) {
  std::vector<const Candidate*> up;
  for (const Candidate& candidate : list.candidates) {
    if (candidate.is_up(now)) up.push_back(&candidate);
  }
  return up;
}

// Of those that are up, so that the share of one that is out is spread over all others.
const ProviderDecider::Candidate* ProviderDecider::turn(const List& list, std::uint64_t number, TimePoint now) const {
  if (all_up(list, now)) return &list.candidates[number % list.candidates.size()];
  const std::vector<const Candidate*> up = usable(list, now);
  return up.empty() ? least_bad(list, now) : up[number % up.size()];
}

const ProviderDecider::Candidate* ProviderDecider::stuck_to(const List& list, std::uint64_t serial, TimePoint now) {
  const auto found = std::lower_bound(list.by_serial.begin(), list.by_serial.end(), std::pair(serial, std::size_t{0}));
  if (found == list.by_serial.end() || found->first != serial) return nullptr;
  const Candidate& candidate = list.candidates[found->second];
  return candidate.is_up(now) ? &candidate : nullptr;
}

// Of several threads that find nothing to stick to, one decides for all.
const ProviderDecider::Candidate* ProviderDecider::sticky(const List& list, TimePoint now) {
  std::uint64_t serial = stuck_.load(std::memory_order_relaxed);
  if (const Candidate* stuck = stuck_to(list, serial, now)) return stuck;
  const Candidate* own = turn(list, turn_.fetch_add(1, std::memory_order_relaxed), now);
  if (own == nullptr || !own->is_up(now)) return own;
  if (stuck_.compare_exchange_strong(serial, own->health->serial, std::memory_order_relaxed)) return own;
  // The other thread may have had another list.
  const Candidate* winner = stuck_to(list, serial, now);
  return winner != nullptr ? winner : own;
}

ListedInstancePtr ProviderDecider::chosen(const List& list, TimePoint now) const {
  if (all_up(list, now)) return options_.choose(list.instances);
  std::vector<ListedInstancePtr> up;
  for (const Candidate* candidate : usable(list, now))
    up.push_back(candidate->instance);
  if (up.empty()) {
    const Candidate* best = least_bad(list, now);
    if (best == nullptr) return nullptr;
    up.push_back(best->instance);
  }
  return options_.choose(up);
}

ListedInstancePtr ProviderDecider::pick(TimePoint now) {
  const ListPtr list = list_.load();
  if (list->candidates.empty()) return nullptr;
  if (options_.choose) return chosen(*list, now);
  const auto next = [this] { return turn_.fetch_add(1, std::memory_order_relaxed); };
  const Candidate* found = nullptr;
  switch (options_.strategy) {
    case PickStrategy::round_robin: found = turn(*list, next(), now); break;
    case PickStrategy::random: found = turn(*list, mixed(next() * golden_ratio), now); break;
    case PickStrategy::sticky: found = sticky(*list, now); break;
  }
  return found == nullptr ? nullptr : found->instance;
}

ListedInstancePtr ProviderDecider::pick(std::string_view key, TimePoint now) const {
  const ListPtr list = list_.load();
  const std::uint64_t hash = key_hash(key);
  const bool all = all_up(*list, now);
  const Candidate* best = nullptr;
  std::uint64_t most = 0;
  for (const Candidate& candidate : list->candidates) {
    if (!all && !candidate.is_up(now)) continue;
    const std::uint64_t score = mixed(hash ^ candidate.hash);
    if (best != nullptr && score <= most) continue;
    best = &candidate;
    most = score;
  }
  if (best == nullptr) best = least_bad(*list, now);
  return best == nullptr ? nullptr : best->instance;
}

}  // namespace zkrecipes::detail
