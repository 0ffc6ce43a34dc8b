// Twenty members of a partitioner, an ensemble of three servers, and everything that can happen to both, in episodes: a
// few faults at once, their repair, and then calm until each partition has its owner again. What the members believed
// meanwhile is judged by one clock, episode by episode. The members are this same program, started with "--worker". For
// longer than half a minute: ZKRECIPES_SOAK=seconds; to repeat a run: ZKRECIPES_SEED.

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/hashing.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zktesting/ensemble.hpp>

#include "tests/support/cabled_process.hpp"
#include "tests/support/ensembles.hpp"
#include "tests/support/lease_judges.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using std::chrono::milliseconds;
using testkit::boot_ns;
using Nanoseconds = std::int64_t;

constexpr std::size_t crew_size = 20;
constexpr std::size_t slot_count = 60;
constexpr milliseconds settle = 500ms;
constexpr milliseconds grace = 600ms;
/// Who got the processor so late, or an answer, may have lost its leases by that alone.
constexpr milliseconds late = 400ms;

Nanoseconds ns(std::chrono::nanoseconds time) { return time.count(); }

/// A holding, as its holder saw it. In a file that all the processes map, so that it survives their kill -9.
struct Term {
  std::atomic<std::int64_t> slot;
  std::atomic<std::int64_t> member;
  std::atomic<std::int64_t> pid;
  std::atomic<std::int64_t> token;
  std::atomic<Nanoseconds> began;       ///< After the first look that found it valid; 0: none did.
  std::atomic<Nanoseconds> last_valid;  ///< Before the last look that did.
  std::atomic<Nanoseconds> promised;    ///< What valid_until() said then.
  std::atomic<Nanoseconds> ended;       ///< When it was given back, or found to be lost; 0: it was not.
  std::atomic<bool> asked;              ///< To be given back.
};
struct Log {
  static constexpr std::size_t capacity = 2'000'000;
  std::atomic<std::size_t> used;
  std::array<std::atomic<Nanoseconds>, crew_size> starved;  ///< When its process got the processor late the last time.
  std::array<std::atomic<Nanoseconds>, crew_size> waited;   ///< When it had no answer to a read for so long.
  std::array<Term, capacity> terms;
};

Log* map_log(int descriptor) {
  void* memory = ::mmap(nullptr, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for the log");
  return static_cast<Log*>(memory);
}

std::string id_of(std::size_t member) { return "m" + std::to_string(member); }

// --- The worker ---------------------------------------------------------------------------------------------------

/// A member that looks at its leases all the time. Asked for one it gives it back: at once, after some work, or never.
class Owner {
 public:
  Owner(const Client& client, std::size_t member, Log& log, unsigned seed)
      : client_(client),
        member_(member),
        log_(log),
        random_(seed),
        partitioner_(
            std::in_place, client, "/parts", PartitionSource::numbered(slot_count),
            [this](Partition got) { keep(std::move(got)); }, options(member)) {
    partitioner_->start();
  }
  ~Owner() { partitioner_.reset(); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  /// Whether it has been asked for any, and has not given it back.
  bool look() {
    const Nanoseconds now = boot_ns();
    if (looked_ != 0 && now - looked_ > ns(late)) log_.starved[member_] = now;
    looked_ = now;
    ask(now);
    const std::lock_guard lock(mutex_);
    std::erase_if(holdings_, [this](Holding& holding) { return !look_at(holding); });
    return std::any_of(holdings_.begin(), holdings_.end(),
                       [](const Holding& holding) { return holding.term->asked.load(); });
  }
  void leave(zkclient::Handler<void> handler) {
    zkclient::CallOptions call;
    call.deadline = testkit::soon();
    partitioner_->async_leave(std::move(handler), call);
  }

 private:
  struct Holding {
    Partition partition;
    std::stop_token asked;
    Term* term;
    Nanoseconds gives_back = 0;  ///< When.
  };

  static PartitionerOptions options(std::size_t member) {
    PartitionerOptions options;
    options.id = id_of(member);
    options.settle = settle;
    options.grace = grace;
    return options;
  }

  void keep(Partition got) {
    const std::size_t number = log_.used++;
    if (number >= Log::capacity) return;  // The director finds out.
    Term& term = log_.terms[number];
    term.slot = std::stoll(got.name());
    term.member = static_cast<std::int64_t>(member_);
    term.pid = ::getpid();
    term.token = got.token().value;
    std::stop_token asked = got.revoke_requested();
    const std::lock_guard lock(mutex_);
    Holding holding{std::move(got), std::move(asked), &term};
    if (look_at(holding)) holdings_.push_back(std::move(holding));
  }

  /// A read now and then tells how long this member waits for anything.
  void ask(Nanoseconds now) {
    if (*waits_ && now - asked_ > ns(late)) log_.waited[member_] = now;
    if (*waits_ || now - asked_ < ns(100ms)) return;
    asked_ = now;
    *waits_ = true;
    client_.async_exists("/", [waits = waits_](const auto&) { *waits = false; });
  }

  /// Whether it goes on.
  bool look_at(Holding& holding) {
    Term& term = *holding.term;
    const Nanoseconds now = boot_ns();
    const Nanoseconds promised = holding.partition.valid_until().time_since_epoch().count();
    if (!holding.partition.valid()) {
      term.ended = boot_ns();
      return false;
    }
    if (term.began == 0) term.began = boot_ns();
    term.last_valid = now;
    term.promised = promised;
    if (!term.asked && holding.asked.stop_requested()) {
      term.asked = true;
      const auto kind = random_() % 8;
      holding.gives_back = now + (kind == 0 ? ns(1h) : kind < 4 ? ns(milliseconds(random_() % 150)) : 0);
    }
    if (!term.asked || holding.gives_back > now) return true;
    const Nanoseconds last = boot_ns();
    if (holding.partition.valid()) term.last_valid = last;
    term.ended = boot_ns();  // Before it is: this process may be killed at any time.
    holding.partition.async_release([](const zkclient::Result<void>&) {});
    return false;
  }

  const Client client_;
  const std::size_t member_;
  Log& log_;
  std::minstd_rand random_;
  Nanoseconds looked_ = 0;
  Nanoseconds asked_ = 0;
  const std::shared_ptr<std::atomic<bool>> waits_ = std::make_shared<std::atomic<bool>>(false);
  std::mutex mutex_;
  std::vector<Holding> holdings_;
  std::optional<Partitioner> partitioner_;
};

int run_worker(const std::string& hosts, std::size_t member, milliseconds session_timeout, unsigned seed) {
  Log& log = *map_log(STDOUT_FILENO);
  std::atomic<bool> shall_leave{false};
  std::atomic<bool> left{false};
  const std::jthread watcher([&] {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    shall_leave = true;
  });
  const Client client(hosts, {.session_timeout = session_timeout, .server_tick = testkit::server_tick});
  bool failed = false;
  Owner owner(client, member, log, seed);
  for (bool leaving = false; !left;) {
    const bool hands_over = owner.look();
    if (shall_leave && !leaving) {
      leaving = true;
      owner.leave([&](const zkclient::Result<void>& result) {
        failed = !result.has_value();
        left = true;
      });
    }
    // The pace of the looks: a part of the experiment. A holding that is about to end is looked at more closely.
    std::this_thread::sleep_for(hands_over ? 200us : 2000us);
  }
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

// --- The director -------------------------------------------------------------------------------------------------

/// Tells when the ensemble served: a write at one server at least was answered quickly. A quorum existed then.
class QuorumWatch {
 public:
  explicit QuorumWatch(const zktesting::Ensemble& ensemble) {
    for (std::size_t i = 0; i < ensemble.size(); ++i) {
      threads_.emplace_back([this, i, hosts = ensemble.connect_string(i)](const std::stop_token& stop) {
        watch(stop, hosts, "/served-" + std::to_string(i));
      });
    }
  }

  /// The times from `from` to `to` in which none did.
  std::vector<std::pair<Nanoseconds, Nanoseconds>> outages(Nanoseconds from, Nanoseconds to) const {
    std::vector<std::pair<Nanoseconds, Nanoseconds>> served;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& one : served_) {
        if (one.second > from && one.first < to) served.push_back(one);
      }
    }
    std::sort(served.begin(), served.end());
    std::vector<std::pair<Nanoseconds, Nanoseconds>> outages;
    Nanoseconds until = from;
    for (const auto& [begin, end] : served) {
      if (begin > until) outages.emplace_back(until, begin);
      until = std::max(until, end);
    }
    if (until < to) outages.emplace_back(until, to);
    return outages;
  }
  void forget(Nanoseconds before) {
    const std::lock_guard lock(mutex_);
    std::erase_if(served_, [before](const auto& one) { return one.second < before; });
  }

 private:
  static constexpr milliseconds quick = 250ms;
  static constexpr milliseconds pace = 30ms;

  void watch(const std::stop_token& stop, const std::string& hosts, const zkclient::Path& node) {
    const Client client(hosts, {.session_timeout = 20s});
    bool made = false;
    while (!stop.stop_requested()) {
      const Nanoseconds begin = boot_ns();
      std::error_code error;
      if (made) {
        client.set(node, "", zkclient::any_version, {.deadline = SteadyClock::now() + quick}, error);
      } else {
        client.create(node, "", {}, {.deadline = SteadyClock::now() + quick}, error);
        made = !error || error == zkclient::Errc::node_exists;
      }
      const Nanoseconds end = boot_ns();
      if (!error && end - begin <= ns(quick)) {
        const std::lock_guard lock(mutex_);
        served_.emplace_back(begin, end + 3 * ns(pace));  // Until the next answer may be expected.
      }
      std::this_thread::sleep_for(pace);  // A part of the experiment.
    }
  }

  mutable std::mutex mutex_;
  std::vector<std::pair<Nanoseconds, Nanoseconds>> served_;
  std::vector<std::jthread> threads_;
};

enum class FaultKind { killed, killed_and_back, paused, paused_for_a_moment, silent, deaf, mute, unplugged, leaves };

enum class ServerFault { killed, isolated };

/// What happened to a member.
struct Hit {
  std::vector<Nanoseconds> when = {};
  bool may_be_absent = true;  ///< From the group, for a while. False: the fault is shorter than any lease.
  bool deaf = false;
  bool slow = false;  ///< It waited for an answer for longer than leases stand, though nothing was done to it.
};

struct Episode {
  Nanoseconds begin = 0;
  std::set<std::size_t> members;  ///< That were there, or joined.
  std::map<std::size_t, Hit> hits;
  std::vector<Nanoseconds> servers = {};  ///< When something happened to them.
};

class Member : public testkit::CabledProcess {
 public:
  Member(const zktesting::Ensemble& ensemble, int log, std::size_t number)
      : CabledProcess(ensemble, log), number_(number) {}
  void start(milliseconds session_timeout, unsigned seed) {
    CabledProcess::start(
        {"--worker", hosts(), std::to_string(number_), std::to_string(session_timeout.count()), std::to_string(seed)});
  }

 private:
  const std::size_t number_;
};

class PartitionChurn : public testing::Test {
 protected:
  static void SetUpTestSuite() { ensemble_ = new zktesting::Ensemble; }
  static void TearDownTestSuite() {
    delete ensemble_;
    ensemble_ = nullptr;
  }

  PartitionChurn() : descriptor_(::memfd_create("partitions", MFD_CLOEXEC)) {
    if (::ftruncate(descriptor_, sizeof(Log)) != 0) throw std::runtime_error("no log");
    log_ = map_log(descriptor_);
    for (std::size_t i = 0; i < slot_count; ++i)
      slots_.push_back(std::to_string(i));
    for (std::size_t i = 0; i < crew_size; ++i)
      crew_.push_back(std::make_unique<Member>(*ensemble_, descriptor_, i));
    Client client(ensemble_->connect_string());
    client.remove_tree("/parts", {.deadline = testkit::soon()});
    std::cout << "seed " << seed_ << " (ZKRECIPES_SEED)\n";
  }

 public:
  ~PartitionChurn() override {
    crew_.clear();
    ::munmap(log_, sizeof(Log));
    ::close(descriptor_);
  }

 protected:
  using Subset = std::set<std::size_t>;
  using Owners = std::vector<std::size_t>;  ///< By slot.

  void start_all(milliseconds session_timeout) {
    session_timeout_ = session_timeout;
    for (std::size_t i = 0; i < crew_size; ++i)
      start(i);
    ASSERT_TRUE(calm(boot_ns()));
    judged_ = log_->used;
    newest_ = owning_;
  }
  void start(std::size_t member) { crew_[member]->start(session_timeout_, static_cast<unsigned>(random_())); }
  bool there(std::size_t member) const { return crew_[member]->pid() != 0 && !leaving_.contains(member); }
  Subset all_there() const {
    Subset there;
    for (std::size_t i = 0; i < crew_size; ++i) {
      if (this->there(i)) there.insert(i);
    }
    return there;
  }

  Owners owners_among(const Subset& members) const;
  bool settled(Nanoseconds since);
  bool calm(Nanoseconds since);

  void later(milliseconds delay, std::function<void()> action) {
    plan_.emplace(boot_ns() + ns(delay), std::move(action));
  }
  void play();
  void hit(std::size_t member, FaultKind kind);
  void note(std::size_t member) { episode_.hits[member].when.push_back(boot_ns()); }
  FaultKind next_fault();
  void join();
  void break_server(std::size_t server, ServerFault fault);
  void break_a_server();
  void wait_for_quorum();
  void begin_episode();
  void end_episode();
  std::vector<Subset> possible_groups() const;
  void judge(Nanoseconds end);
  void judge_slot(std::size_t slot, const std::vector<std::size_t>& terms, const Subset& candidates,
                  const std::vector<std::pair<Nanoseconds, Nanoseconds>>& outages);
  void finish();

  static inline zktesting::Ensemble* ensemble_ = nullptr;
  const unsigned seed_ = testkit::seed();
  std::minstd_rand random_{seed_};
  milliseconds session_timeout_{};
  int descriptor_;
  Log* log_ = nullptr;
  std::vector<std::string> slots_;
  std::vector<std::unique_ptr<Member>> crew_;
  Subset leaving_;
  std::multimap<Nanoseconds, std::function<void()>> plan_;
  std::vector<FaultKind> deck_;
  std::optional<std::size_t> killed_;  // The server that is to stay so for now.
  Episode episode_;
  std::size_t scanned_ = 0;          // Of the log.
  std::vector<std::size_t> open_;    // Terms that may go on.
  std::vector<std::size_t> owning_;  // By slot: the terms that settled() has seen.
  std::vector<std::size_t> newest_;  // By slot: the terms at the begin of the episode.
  std::size_t judged_ = 0;           // Of the log.
  std::map<std::string, int> kinds_;
  std::size_t untouched_ = 0;  // Holdings that were to stay, and were looked at.
  std::size_t terms_ = 0;
  Nanoseconds longest_gap_ = 0;
  Nanoseconds longest_outage_ = 0;
  testkit::Stalls stalls_;
  QuorumWatch quorum_{*ensemble_};
};

// --- Who shall have what, and has it ---

PartitionChurn::Owners PartitionChurn::owners_among(const Subset& members) const {
  std::vector<WeightedMember> weighted;
  std::vector<std::size_t> numbers(members.begin(), members.end());
  for (const std::size_t member : numbers)
    weighted.push_back({id_of(member)});
  Owners owners;
  for (const auto& owner : assign(slots_, weighted))
    owners.push_back(numbers.at(owner.value()));
  return owners;
}

/// Each partition has one owner, the one that shall have it, who has believed so after `since`. Nobody is asked for any.
bool PartitionChurn::settled(Nanoseconds since) {
  const std::size_t used = std::min(log_->used.load(), Log::capacity);
  for (; scanned_ < used; ++scanned_)
    open_.push_back(scanned_);
  std::erase_if(open_, [this](std::size_t number) {
    const Term& term = log_->terms[number];
    if (term.ended != 0) return true;
    return term.pid != 0 && crew_[static_cast<std::size_t>(term.member)]->pid() != term.pid;
  });
  if (!leaving_.empty()) return false;
  const Owners wanted = owners_among(all_there());
  std::vector<std::size_t> owning(slot_count, Log::capacity);
  for (const std::size_t number : open_) {
    const Term& term = log_->terms[number];
    if (term.began == 0) continue;  // Its process may have been killed right then.
    if (term.last_valid <= since || term.asked) return false;
    const auto slot = static_cast<std::size_t>(term.slot);
    if (owning[slot] != Log::capacity || wanted[slot] != static_cast<std::size_t>(term.member)) return false;
    owning[slot] = number;
  }
  if (std::count(owning.begin(), owning.end(), Log::capacity) != 0) return false;
  owning_ = std::move(owning);
  return true;
}

/// Waits until that is so, and stays so for a moment: whoever was about to ask has asked.
bool PartitionChurn::calm(Nanoseconds since) {
  std::vector<std::size_t> before;
  return eventually(
      [&] {
        testkit::restart_who_has_died(*ensemble_, killed_);
        if (!settled(since)) {
          before.clear();
          return false;
        }
        if (before == owning_) return true;
        before = owning_;
        testkit::let_age(100ms);
        return false;
      },
      3 * testkit::patience);  // Leases as short as these come late to a machine that is busy.
}

// --- The faults ---

// Each kind once, in random order, before any comes again.
FaultKind PartitionChurn::next_fault() {
  using enum FaultKind;
  if (deck_.empty()) {
    deck_ = {killed, killed_and_back, paused, paused_for_a_moment, silent, deaf, mute, unplugged, leaves};
    std::shuffle(deck_.begin(), deck_.end(), random_);
  }
  const FaultKind kind = deck_.back();
  deck_.pop_back();
  return kind;
}

void PartitionChurn::hit(std::size_t member, FaultKind kind) {
  const auto past_lease =
      session_timeout_ * 6 / 10 + milliseconds(random_() % static_cast<unsigned>(session_timeout_.count()));
  Member& victim = *crew_[member];
  Hit& hit = episode_.hits[member];
  const auto cut = [&](const char* name, Direction direction) {
    ++kinds_[name];
    victim.stall(direction);
  };
  const auto mend = [this, member] {
    crew_[member]->mend();
    note(member);
  };
  note(member);
  switch (kind) {
    case FaultKind::killed:
      ++kinds_["killed"];
      victim.kill();
      break;
    case FaultKind::killed_and_back:
      ++kinds_["killed, and started again"];
      victim.kill();
      start(member);
      break;
    case FaultKind::paused:
    case FaultKind::paused_for_a_moment: {
      const bool moment = kind == FaultKind::paused_for_a_moment;
      ++kinds_[moment ? "paused for a moment" : "paused past its leases"];
      hit.may_be_absent = !moment;
      victim.pause();
      later(moment ? milliseconds(100 + random_() % 200) : past_lease, [this, member] {
        crew_[member]->resume();
        note(member);
      });
      break;
    }
    case FaultKind::silent:
      cut("cables silent", Direction::both);
      later(past_lease, mend);
      break;
    case FaultKind::deaf:
      cut("does not hear", Direction::to_client);
      hit.deaf = true;
      later(past_lease, mend);
      break;
    case FaultKind::mute:
      cut("is not heard", Direction::to_server);
      later(past_lease, mend);
      break;
    case FaultKind::unplugged:
      ++kinds_["unplugged"];
      victim.unplug();
      later(past_lease, mend);
      break;
    case FaultKind::leaves:
      ++kinds_["leaves"];
      leaving_.insert(member);
      victim.end_input();
      break;
  }
}

// One that is not there.
void PartitionChurn::join() {
  for (std::size_t i = 0; i < crew_size; ++i) {
    if (crew_[i]->pid() != 0 || episode_.hits.contains(i)) continue;
    ++kinds_["joins"];
    episode_.members.insert(i);
    note(i);
    return start(i);
  }
}

void PartitionChurn::break_server(std::size_t server, ServerFault fault) {
  episode_.servers.push_back(boot_ns());
  if (fault == ServerFault::killed) {
    ++kinds_["server killed"];
    ensemble_->kill(server);
    killed_ = server;
    later(milliseconds(500 + random_() % 1500), [this] {
      killed_.reset();
      wait_for_quorum();  // Starts it again, which takes long on a machine that is busy.
      episode_.servers.push_back(boot_ns());
    });
  } else {
    ++kinds_["server isolated"];
    constexpr std::array modes{zktesting::Isolation::freeze, zktesting::Isolation::deaf, zktesting::Isolation::mute};
    ensemble_->isolate(server, modes[random_() % modes.size()]);
    later(milliseconds(1000 + random_() % 2500), [this, server] {
      ensemble_->heal(server);
      episode_.servers.push_back(boot_ns());
    });
  }
}

// The leader, mostly.
void PartitionChurn::break_a_server() {
  const std::size_t any = random_() % ensemble_->size();
  const std::size_t server = random_() % 3 != 0 ? ensemble_->leader().value_or(any) : any;
  break_server(server, random_() % 2 == 0 ? ServerFault::killed : ServerFault::isolated);
}

void PartitionChurn::wait_for_quorum() {
  const auto end = SteadyClock::now() + testkit::patience;
  for (;;) {
    try {
      testkit::restart_who_has_died(*ensemble_, killed_);
      return ensemble_->wait_for_quorum(10s);
    } catch (const zktesting::Error&) {
      if (SteadyClock::now() > end) throw;
    }
  }
}

/// Does what is planned, until nothing is.
void PartitionChurn::play() {
  while (!plan_.empty()) {
    const auto first = plan_.begin();
    const Nanoseconds wait = first->first - boot_ns();
    if (wait > 0) testkit::let_age(std::chrono::duration_cast<milliseconds>(std::chrono::nanoseconds(wait)) + 1ms);
    const auto action = std::move(first->second);
    plan_.erase(first);
    action();
  }
}

void PartitionChurn::begin_episode() {
  episode_ = Episode{};
  episode_.begin = boot_ns();
  episode_.members = all_there();
  newest_ = owning_;
}

void PartitionChurn::end_episode() {
  play();
  if (!episode_.servers.empty()) wait_for_quorum();
  const Subset leavers = leaving_;
  for (const std::size_t member : leavers) {
    EXPECT_EQ(crew_[member]->finish(), EXIT_SUCCESS);
    leaving_.erase(member);
    note(member);
  }
  const Nanoseconds healed = boot_ns();
  const bool is_calm = calm(healed);
  EXPECT_TRUE(is_calm) << "not everything is where it shall be";
  judge(boot_ns());
}

// --- The judge ---

/// All groups that members may have seen in this episode; nothing if they are too many.
std::vector<PartitionChurn::Subset> PartitionChurn::possible_groups() const {
  const auto maybe = std::count_if(episode_.hits.begin(), episode_.hits.end(),
                                   [](const auto& hit) { return hit.second.may_be_absent; });
  if (maybe > 10) return {};
  std::vector<Subset> groups{episode_.members};
  for (std::size_t i = 0; i < crew_size; ++i) {
    const auto found = episode_.hits.find(i);
    if (found == episode_.hits.end() || !found->second.may_be_absent) continue;
    for (std::size_t known = groups.size(), j = 0; j < known; ++j) {
      groups.push_back(groups[j]);
      groups.back().erase(i);
    }
  }
  return groups;
}

void PartitionChurn::judge(Nanoseconds end) {
  // The machine hits, too.
  for (const std::size_t member : episode_.members) {
    const bool starved = log_->starved[member] > episode_.begin;
    if (!starved && log_->waited[member] <= episode_.begin) continue;
    const auto [found, unhurt] = episode_.hits.try_emplace(member);
    Hit& hit = found->second;
    hit.may_be_absent = true;
    hit.slow = unhurt;
    if (starved) hit.when.push_back(log_->starved[member]);
  }
  const auto outages = quorum_.outages(episode_.begin, end);
  // A lease may still be lost by a stall that ended just before the episode.
  bool slow = stalls_.worst(episode_.begin - ns(session_timeout_), end) > ns(late);
  for (const auto& [from, to] : outages) {
    longest_outage_ = std::max(longest_outage_, to - from);
    slow = slow || (episode_.servers.empty() && to - from > ns(late));
  }
  const std::vector<Subset> groups = possible_groups();
  std::vector<Subset> candidates(slot_count, groups.empty() ? episode_.members : Subset());
  for (const Subset& group : groups) {
    const Owners owners = owners_among(group);
    for (std::size_t slot = 0; slot < slot_count; ++slot)
      candidates[slot].insert(owners[slot]);
  }
  std::vector<std::vector<std::size_t>> terms(slot_count);
  for (std::size_t slot = 0; slot < slot_count; ++slot)
    terms[slot].push_back(newest_[slot]);
  const std::size_t used = log_->used;
  ASSERT_LE(used, Log::capacity) << "the log is full";
  for (; judged_ < used; ++judged_) {
    const Term& term = log_->terms[judged_];
    if (term.began == 0) continue;
    terms[static_cast<std::size_t>(term.slot)].push_back(judged_);
    ++terms_;
  }
  for (std::size_t slot = 0; slot < slot_count; ++slot) {
    judge_slot(slot, terms[slot], candidates[slot], outages);
    const auto owner = static_cast<std::size_t>(log_->terms[newest_[slot]].member);
    const auto found = episode_.hits.find(owner);
    const bool hit = found != episode_.hits.end() && found->second.may_be_absent;
    if (hit || candidates[slot].size() != 1 || slow || (!episode_.servers.empty() && session_timeout_ < 10s)) continue;
    ++untouched_;
    EXPECT_EQ(terms[slot].size(), 1U) << "partition " << slot << " was taken from " << id_of(owner)
                                      << ", whom nothing concerned";
  }
  quorum_.forget(episode_.begin);
}

// Never two owners, growing tokens, and no long time without an owner.
void PartitionChurn::judge_slot(std::size_t slot, const std::vector<std::size_t>& numbers, const Subset& candidates,
                                const std::vector<std::pair<Nanoseconds, Nanoseconds>>& outages) {
  std::vector<const Term*> terms;
  for (const std::size_t number : numbers)
    terms.push_back(&log_->terms[number]);
  std::sort(terms.begin(), terms.end(), [](const Term* a, const Term* b) { return a->began < b->began; });
  Nanoseconds valid = 0;     // Somebody believed so until then,
  Nanoseconds promised = 0;  // or would have, if it had not been killed.
  for (std::size_t i = 0; i + 1 < terms.size(); ++i) {
    const Term& next = *terms[i + 1];
    const Term& term = *terms[i];
    const bool killed = term.ended == 0 && !term.asked;
    valid = std::max<Nanoseconds>(valid, term.last_valid);
    promised = std::max<Nanoseconds>(promised, killed ? term.promised : term.last_valid);
    EXPECT_LT(term.token, next.token) << "the token of partition " << slot << " does not grow";
    EXPECT_LE(std::max(valid, promised), next.began)
        << id_of(static_cast<std::size_t>(next.member)) << " had partition " << slot
        << " while another one had it, for " << (std::max(valid, promised) - next.began) / 1000 << " us more";
    Nanoseconds from = valid;
    bool deaf = false;
    bool slow = false;
    for (const auto& [member, hit] : episode_.hits) {
      if (!candidates.contains(member)) continue;
      deaf = deaf || hit.deaf;
      slow = slow || hit.slow;
      for (const Nanoseconds when : hit.when) {
        if (when < next.began) from = std::max(from, when);
      }
    }
    for (const Nanoseconds when : episode_.servers) {
      if (when < next.began) from = std::max(from, when);
    }
    for (const auto& [begin, end] : outages) {
      if (begin < next.began) from = std::max(from, std::min<Nanoseconds>(end, next.began));
    }
    const Nanoseconds gap = next.began - from;
    longest_gap_ = std::max(longest_gap_, gap);
    // The leader hears of a session's life twice a tick, and rounds its end up to a tick. A member that does not hear the
    // servers, but is heard by them, gives its session up a session timeout later. A member whose connection is too slow
    // for leases tries again every second. A delay shorter than `late` was not noted, so it is allowed for.
    const auto limit = session_timeout_ * (deaf ? 2 : 1) + settle + testkit::server_tick * 3 / 2 + late +
                       (slow ? milliseconds(5s) : 0ms);
    EXPECT_LE(gap, ns(limit) + stalls_.during(from, next.began))
        << "nobody had partition " << slot << " for " << gap / 1'000'000 << " ms";
  }
}

void PartitionChurn::finish() {
  for (const auto& member : crew_)
    member->end_input();
  for (const auto& member : crew_) {
    if (member->pid() == 0) continue;
    EXPECT_EQ(member->finish(), EXIT_SUCCESS);
  }
  std::cout << terms_ << " holdings began, " << untouched_ << " were not concerned; longest time without an owner "
            << longest_gap_ / 1'000'000 << " ms, without a quorum " << longest_outage_ / 1'000'000 << " ms\n";
  for (const auto& [kind, count] : kinds_)
    std::cout << "  " << count << " x " << kind << "\n";
}

// --- The tests ---

TEST_F(PartitionChurn, WhateverHappens) {
  const char* soak = std::getenv("ZKRECIPES_SOAK");
  const auto time = soak != nullptr ? std::chrono::seconds(std::stol(soak)) : 8s;
  start_all(3000ms);
  const auto end = SteadyClock::now() + time;
  for (int number = 0; (number < 3 || SteadyClock::now() < end) && !HasFailure(); ++number) {
    begin_episode();
    const bool storm = number % 2 == 1;
    const std::size_t hits = storm ? 3 + random_() % 3 : 1;
    std::vector<std::size_t> victims(episode_.members.begin(), episode_.members.end());
    std::shuffle(victims.begin(), victims.end(), random_);
    for (std::size_t i = 0; i < hits; ++i)
      later(milliseconds(random_() % 1000), [this, member = victims[i]] { hit(member, next_fault()); });
    if (number % 4 == 3) later(milliseconds(random_() % 1000), [this] { break_a_server(); });
    for (std::size_t absent = episode_.members.size(); absent < crew_size; absent += 2)
      later(milliseconds(random_() % 1000), [this] { join(); });
    end_episode();
  }
  finish();
}

// V101: a process is killed, and says no farewell. The judge looks how long its partitions have no owner, and that all
// others stay.
TEST_F(PartitionChurn, OwnersProcessDies) {
  start_all(3000ms);
  begin_episode();
  hit(random_() % crew_size, FaultKind::killed);
  end_episode();
  EXPECT_GE(terms_, slot_count / crew_size) << "what it had";
  EXPECT_GT(longest_gap_, 0);
  finish();
}

// With sessions that outlive all this.
TEST_F(PartitionChurn, ServersFailAndNothingMoves) {
  start_all(30s);
  for (const ServerFault fault : {ServerFault::killed, ServerFault::isolated}) {
    begin_episode();
    break_server(ensemble_->leader().value_or(0), fault);
    end_episode();
  }
  EXPECT_EQ(terms_, 0U);
  finish();
}

}  // namespace
}  // namespace zkrecipes

int main(int argc, char** argv) {
  if (argc > 5 && std::string_view(argv[1]) == "--worker") {
    return zkrecipes::run_worker(argv[2], std::stoul(argv[3]), std::chrono::milliseconds(std::stol(argv[4])),
                                 static_cast<unsigned>(std::stoul(argv[5])));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
