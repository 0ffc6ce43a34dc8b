// MirrorModel against a simulated ensemble: random histories, and single rules one by one.
//
// ZKRECIPES_RUNS=number: so many random histories. ZKRECIPES_SEED=number: the seed of the first one; each has the next.
// A sanitizer takes a hundred times as long for each, and looks for mistakes of another kind.

#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "recipes/views/mirror.hpp"
#include "recipes/views/mirror_model.hpp"
#include "recipes/views/snapshot.hpp"
#include "tests/recipes/views/simulated_server.hpp"

namespace zkrecipes::detail {
namespace {

using namespace std::chrono_literals;
using simulation::History;
using simulation::Link;
using simulation::State;
using Kind = MirrorRead::Kind;
using TimePoint = MirrorModel::TimePoint;

/// What of a node has to be exact.
struct Facts {
  std::string data;
  std::int64_t czxid = 0;
  std::int64_t mzxid = 0;
  std::int32_t version = 0;
  bool operator==(const Facts&) const = default;
};
using View = std::map<std::string, Facts>;

std::ostream& operator<<(std::ostream& out, const Facts& facts) {
  return out << '"' << facts.data << "\" " << facts.czxid << ' ' << facts.mzxid << ' ' << facts.version;
}

int depth_below(const std::string& root, const std::string& path) {
  return static_cast<int>(std::count(path.begin() + static_cast<std::ptrdiff_t>(root.size()), path.end(), '/'));
}

Facts facts_of(const MirrorScope& scope, const std::string& path, const std::string& data, const zkclient::Stat& stat) {
  const bool is_root = path == scope.path;
  const bool watched = is_root ? scope.root_data : scope.options.data;
  if (!watched) return {};
  return {scope.options.data ? data : "", stat.czxid, stat.mzxid, stat.version};
}

View view_of(const MirrorScope& scope, const Snapshot& snapshot) {
  View view;
  snapshot.for_each([&](const std::string& path, const CachedNode& node) {
    view[path] = facts_of(scope, path, node.data, node.stat);
  });
  return view;
}

/// What the user's filter says in these tests.
bool include(const std::string& path) { return !path.ends_with("/b") && !path.ends_with("/a/c"); }

bool belongs(const MirrorScope& scope, const std::string& path) {
  if (path == scope.path) return true;
  if (!path.starts_with(scope.path + "/") || depth_below(scope.path, path) > scope.depth) return false;
  return !scope.filtered || (include(path) && belongs(scope, simulation::parent_of(path)));
}

View view_of(const MirrorScope& scope, const State& state) {
  View view;
  for (const auto& [path, node] : state) {
    if (!belongs(scope, path)) continue;
    view[path] = facts_of(scope, path, node.data, node.stat);
  }
  return view;
}

MirrorScope node_scope(bool data = true) {
  MirrorScope scope{.path = "/r", .full_path = "/r"};
  scope.options.data = data;
  return scope;
}
MirrorScope children_scope(bool data = true) {
  MirrorScope scope{.path = "/r", .full_path = "/r", .root_data = false, .depth = 1};
  scope.options.data = data;
  return scope;
}
MirrorScope tree_scope(int depth = 100, bool data = true) {
  MirrorScope scope{.path = "/r", .full_path = "/r", .root_data = data, .depth = depth};
  scope.options.data = data;
  return scope;
}

MirrorScope filtered(MirrorScope scope) {
  scope.filtered = true;
  return scope;
}

/// What a listener knows, from differences alone.
class Replay {
 public:
  void apply(const MirrorScope& scope, const Snapshot& next) {
    for (const Change& change : difference(last_, next)) {
      const auto known = view_.find(change.path);
      const bool was_known = known != view_.end();
      EXPECT_EQ(was_known, change.kind != Change::Kind::added) << change.path;
      EXPECT_EQ(change.before != nullptr, change.kind != Change::Kind::added);
      EXPECT_EQ(change.after != nullptr, change.kind != Change::Kind::removed);
      if (was_known && change.before != nullptr) {
        EXPECT_EQ(known->second, facts_of(scope, change.path, change.before->data, change.before->stat));
      }
      if (change.kind == Change::Kind::removed) {
        view_.erase(change.path);
      } else {
        view_[change.path] = facts_of(scope, change.path, change.after->data, change.after->stat);
      }
      // Of what is only listed, the first is the name alone. What cannot be read has no Stat, so nothing tells whether
      // it is another node.
      const bool both_there = was_known && change.after != nullptr;
      const bool may_lack_stat = both_there && (!scope.options.data || change.after->unreadable);
      const bool known_node =
          both_there && change.before->stat.czxid != 0 && (!may_lack_stat || change.after->stat.czxid != 0);
      if (known_node) {
        EXPECT_EQ(change.kind == Change::Kind::replaced,
                  change.before->stat.czxid != change.after->stat.czxid ||
                      change.before->stat.ctime_ms != change.after->stat.ctime_ms);
      }
    }
    last_ = next;
    EXPECT_EQ(view_, view_of(scope, next)) << "what the differences say is not what the snapshot holds";
  }

 private:
  Snapshot last_;
  View view_;
};

std::vector<std::string> numbered(const std::string& prefix, int count) {
  std::vector<std::string> paths;
  for (int i = 0; i < count; ++i)
    paths.push_back(prefix + std::to_string(i));
  return paths;
}

/// A model, a client and an ensemble.
class World {
 public:
  World(MirrorScope scope, std::uint64_t seed) : random(seed), scope_(std::move(scope)) {}

  bool chance(int percent) { return static_cast<int>(random() % 100) < percent; }

  void commit(const std::function<void(History::Multi&)>& operations) {
    History::Multi multi(history);
    operations(multi);
    multi.commit();
  }
  void create(const std::string& path, const std::string& data = "", std::int64_t owner = 0) {
    commit([&](History::Multi& multi) { EXPECT_TRUE(multi.create(path, data, owner)) << path; });
  }
  void create_all(const std::vector<std::string>& paths, const std::string& data = "", std::int64_t owner = 0) {
    commit([&](History::Multi& multi) {
      for (const std::string& path : paths)
        EXPECT_TRUE(multi.create(path, data, owner)) << path;
    });
  }
  void set(const std::string& path, const std::string& data) {
    commit([&](History::Multi& multi) { EXPECT_TRUE(multi.set(path, data)) << path; });
  }
  void remove(const std::string& path) {
    commit([&](History::Multi& multi) { EXPECT_TRUE(multi.remove(path)) << path; });
  }

  /// A zxid stands for the time just after its commit.
  static zkclient::BootClock::time_point time_of(std::int64_t zxid) {
    return zkclient::BootClock::time_point(std::chrono::nanoseconds(zxid));
  }
  std::int64_t as_of() const { return model.as_of().time_since_epoch().count(); }
  /// The model hears what the session knows.
  void tell() {
    if (history.epoch() > 1) return;
    const std::int64_t before = as_of();
    model.told_up_to(time_of(link.told()));
    EXPECT_GE(as_of(), before);
    if (as_of() != before) check_age();
  }
  /// Each node is as it was committed last before as_of(), or later.
  void check_age() {
    if (history.epoch() > 1 || !snapshot.complete()) return;
    const View seen = view_of(scope_, snapshot);
    std::map<std::string, bool> fits;
    for (const auto& [path, facts] : seen)
      fits[path] = false;
    for (const auto& [path, facts] : view_of(scope_, history.at(as_of())))
      fits[path] = false;
    std::set<std::string> exempt;
    for (std::int64_t zxid = as_of(); zxid <= history.newest(); ++zxid) {
      const State& state = history.at(zxid);
      const View then = view_of(scope_, state);
      for (auto& [path, fit] : fits) {
        const auto shown = seen.find(path);
        const auto known = then.find(path);
        const bool same =
            shown == seen.end() ? known == then.end() : known != then.end() && known->second == shown->second;
        fit = fit || same;
        // Of a directory that was made again, a snapshot that is not exact shows the children once they have been read.
        const auto directory = state.find(simulation::parent_of(path));
        const bool is_new = directory != state.end() && directory->second.stat.czxid > as_of();
        if (is_new && !snapshot.exact()) exempt.insert(path);
      }
    }
    for (const auto& [path, fit] : fits)
      EXPECT_TRUE(fit || exempt.contains(path)) << path << " is older than as_of(), " << as_of();
  }
  void publish() {
    const SnapshotPtr published = model.publish(now);
    if (published == nullptr) return;
    const Snapshot next(published);
    EXPECT_GT(next.revision(), snapshot.revision());
    if (next.zxid() < snapshot.zxid()) {
      ++times_back_;
      EXPECT_LT(times_back_, history.epoch()) << "back in time: " << next.zxid() << " after " << snapshot.zxid();
    }
    if (next.exact()) check_exact(next);
    if (next.complete()) check_complete(next);
    replay_.apply(scope_, next);
    snapshot = next;
    if (as_of() != 0) check_age();
    ++published_;
    if (next.exact()) ++exact_;
  }
  void check_exact(const Snapshot& next) {
    expect_same(next, history.at(link.newest_reply()), "the newest reply");
    const auto instant = std::make_pair(history.epoch(), link.newest_reply());
    EXPECT_GE(instant, last_instant_) << "a server that lags behind was believed";
    last_instant_ = instant;
    // That of before the loss of all data stays for a while if nothing shows the loss.
    if (next.root() == nullptr || !next.complete() || history.epoch() > 1) return;
    ASSERT_LE(next.zxid(), history.newest());
    expect_same(next, history.at(next.zxid()), "its own zxid");
  }
  /// Nothing that it shows was refused when it was read last. (Of a name alone it is not known of which node it is.)
  void check_complete(const Snapshot& next) {
    for (const auto& [read, refusal] : link.refusals()) {
      const CachedNode* node = next.find(read.first);
      const bool shown = node != nullptr && node->stat.czxid == refusal.czxid;
      if (shown && read.second == MirrorSide::list && node->stat.ephemeral_owner != 0) continue;  // It needs no list.
      EXPECT_FALSE(shown) << "complete, but the " << (read.second == MirrorSide::data ? "data" : "list") << " of "
                          << read.first << " was refused";
    }
    EXPECT_FALSE(model.problem()) << "complete, with a problem";
    next.for_each([](const std::string& path, const CachedNode& node) { EXPECT_FALSE(node.unreadable) << path; });
  }
  void expect_same(const Snapshot& shown, const State& state, const char* when) {
    View seen = view_of(scope_, shown);
    View wanted = view_of(scope_, state);
    // Of what could not be read, only the name is known.
    shown.for_each([&](const std::string& path, const CachedNode& node) {
      const bool is_read = path == scope_.path ? scope_.root_data : scope_.options.data;
      const bool lacks_data = is_read && scope_.options.data && !node.has_data;
      if (node.unreadable || lacks_data) seen[path] = wanted[path] = {};
      if (!node.unreadable) return;
      std::erase_if(wanted, [&](const auto& other) {
        return other.first.starts_with(path + "/") && !seen.contains(other.first);
      });
    });
    EXPECT_EQ(seen, wanted) << "compared with the server at " << when;
  }
  /// The filter's task begins, unless it runs, or ends.
  void ask_filter() {
    if (!names_.empty()) return;
    names_ = model.take_names();
    for (const std::string& path : names_)
      ++asked_[path];
  }
  void answer_filter() {
    std::vector<bool> included;
    for (const std::string& path : std::exchange(names_, {}))
      included.push_back(include(path));
    model.judged(included, now);
  }
  /// How often the filter was called for a name.
  int asked(const std::string& path) const {
    const auto found = asked_.find(path);
    return found == asked_.end() ? 0 : found->second;
  }

  /// Lets everything happen that is under way; the filter's answer comes when there is nothing else.
  void settle(bool filter_answers = true) {
    for (int i = 0; i < 1'000'000; ++i) {
      link.send(now);
      ask_filter();
      publish();
      if (link.can_hand_over()) {
        link.hand_over(now);
      } else if (link.can_receive()) {
        link.receive();
      } else if (link.has_lost()) {
        link.tell_loss(now);
      } else if (link.can_answer()) {
        link.answer();
      } else if (link.lags()) {
        link.apply();
      } else if (filter_answers && !names_.empty()) {
        answer_filter();
      } else if (const auto due = model.due(); due && *due < now + 10s) {
        now = std::max(now, *due);
      } else {
        return;
      }
    }
    ADD_FAILURE() << "it never comes to rest";
  }
  void expect_truth() {
    EXPECT_EQ(model.state(), CacheState::current);
    EXPECT_TRUE(snapshot.exact());
    expect_same(snapshot, history.at(history.newest()), "rest");
    for (const std::string& path : link.asked_paths())
      EXPECT_TRUE(belongs(scope_, path)) << path << " was read";
  }

  std::mt19937_64 random;

 private:
  const MirrorScope scope_;

 public:
  History history;
  MirrorModel model{scope_};
  Link link{history, model, random};
  TimePoint now = TimePoint(1000s);
  Snapshot snapshot;
  std::size_t published_ = 0;
  std::size_t exact_ = 0;

 private:
  std::pair<int, std::int64_t> last_instant_;
  std::vector<std::string> names_;  // That the filter is judging.
  std::map<std::string, int> asked_;
  int times_back_ = 0;  // Each time the ensemble had lost its data.
  Replay replay_;
};

// --- Random histories ------------------------------------------------------------------------------------------------

class RandomHistory {
 public:
  RandomHistory(MirrorScope scope, std::uint64_t seed) : world_(std::move(scope), seed) {
    constexpr int some_chaos[] = {0, 2, 6, 40};
    chaos_ = some_chaos[world_.random() % 4];
    writes_ = 2 + static_cast<int>(world_.random() % 25);
    has_secrets_ = world_.chance(30);
  }

  void run() {
    const int steps = 100 + static_cast<int>(world_.random() % 400);
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i)
      step();
    come_to_rest();
    world_.expect_truth();
    // Its watches are all there: what happens next is seen as well.
    for (int i = 0; i < 4; ++i)
      write();
    world_.settle();
    world_.expect_truth();
  }
  const World& world() const { return world_; }

 private:
  Link& link() { return world_.link; }

  void step() {
    world_.now += std::chrono::milliseconds(world_.random() % 8);
    if (!link().connected()) {
      come_back();
      return;
    }
    if (static_cast<int>(world_.random() % 1000) < chaos_) {
      break_something();
      return;
    }
    if (world_.chance(writes_)) write();
    if (world_.chance(10)) world_.ask_filter();
    if (world_.chance(10)) world_.answer_filter();
    if (world_.chance(3)) link().acknowledge();
    if (has_secrets_) change_rights();
    switch (world_.random() % 10) {
      case 0:
      case 1: link().apply(); break;
      case 2:
      case 3: link().answer(); break;
      case 4:
      case 5:
        world_.tell();
        link().receive();
        break;
      case 6:
      case 7: link().hand_over(world_.now); break;
      case 8: link().send(world_.now); break;
      default: link().tell_loss(world_.now); break;
    }
    EXPECT_LE(link().in_flight(), MirrorModel::max_in_flight + 1);
    if (world_.chance(70)) world_.publish();
    if (world_.chance(20)) world_.tell();
  }

  void come_back() {
    if (world_.chance(50)) {
      write();
    } else if (link().has_session() && world_.chance(90)) {
      link().reconnect(static_cast<std::int64_t>(world_.random() % 4));
    } else {
      if (link().has_session()) link().lose_session();
      link().open(static_cast<std::int64_t>(world_.random() % 4));
    }
  }
  void break_something() {
    const auto what = world_.random() % 16;
    if (what < 10) {
      link().cut();
    } else {
      link().lose_session();
      if (what == 15) world_.history.begin();
    }
  }

  std::string name() { return std::string(1, static_cast<char>('a' + world_.random() % 3)); }
  std::string path() {
    std::string path = "/r";
    for (auto depth = world_.random() % 4; depth > 0; --depth)
      path += "/" + name();
    return path;
  }
  std::string data() {
    std::string data = std::to_string(++values_);
    if (world_.chance(3)) data.append(MirrorModel::small_data, '.');
    return data;
  }
  void write_one(History::Multi& multi) {
    const std::string where = world_.chance(5) ? "/elsewhere" : path();
    switch (world_.random() % 5) {
      case 0: multi.set(where, data()); break;
      case 1: multi.remove(where); break;
      case 2:
        if (multi.remove(where)) multi.create(where, data());
        break;
      default: multi.create(where, data(), world_.chance(20) ? 77 : 0);
    }
  }
  void write() {
    world_.commit([this](History::Multi& multi) {
      for (auto operations = 1 + world_.random() % 4; operations > 0; --operations)
        write_one(multi);
    });
  }
  // What cannot be read is tried again after a while.
  void change_rights() {
    if (world_.chance(5)) link().forbidden().insert(path());
    if (world_.chance(5)) link().forbidden().erase(path());
    if (world_.chance(1)) link().forbidden().clear();
    if (world_.chance(2)) world_.now += MirrorModel::retry_pause;
  }
  void come_to_rest() {
    link().forbidden().clear();
    if (!link().has_session()) {
      link().open(0);
    } else if (!link().connected()) {
      link().reconnect(0);
    }
    world_.settle();
    if (!has_secrets_) return;
    world_.now += MirrorModel::retry_pause;
    world_.settle();
    EXPECT_TRUE(world_.snapshot.complete());
    EXPECT_FALSE(world_.model.problem());
  }

  World world_;
  int chaos_ = 0;   // In a thousand steps.
  int writes_ = 0;  // In a hundred.
  int values_ = 0;
  bool has_secrets_ = false;  // Some nodes may not be read, for a while.
};

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t histories = 1'000;
#else
constexpr std::uint64_t histories = 10'000;
#endif

struct Counts {
  std::size_t published = 0;
  std::size_t exact = 0;
};

Counts run_history(std::uint64_t seed) {
  const std::vector<MirrorScope> scopes = {node_scope(),  children_scope(),      tree_scope(),
                                           tree_scope(2), node_scope(false),     children_scope(false),
                                           tree_scope(),  tree_scope(100, false)};
  MirrorScope scope = scopes[seed % scopes.size()];
  scope.filtered = seed / scopes.size() % 2 == 0;
  if (seed % 3 == 0) scope.options.max_delay = 20ms;
  if (seed % 5 == 0) scope.options.quiet = std::chrono::milliseconds(seed % 7 * 10);
  RandomHistory history(scope, seed);
  history.run();
  return {history.world().published_, history.world().exact_};
}

// At rest the model is the server; each exact snapshot is the server at one zxid; the differences, one after another,
// make the snapshot.
TEST(MirrorModel, RandomHistories) {
  const std::uint64_t runs = number_from("ZKRECIPES_RUNS", histories);
  const std::uint64_t first = number_from("ZKRECIPES_SEED", std::random_device{}());
  std::size_t exact = 0;
  std::size_t published = 0;
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    const Counts counts = run_history(seed);
    exact += counts.exact;
    published += counts.published;
    if (::testing::Test::HasFailure()) FAIL() << "ZKRECIPES_SEED=" << seed << " ZKRECIPES_RUNS=1";
  }
  GTEST_LOG_(INFO) << "ZKRECIPES_SEED=" << first << ": " << published << " snapshots, " << exact << " of them exact";
}

// The root was listed and looked for at the same time, and as_of() went ahead of what was shown.
TEST(MirrorModel, HistoriesThatFailedOnce) {
  for (const std::uint64_t seed : {std::uint64_t{2'444'234'049}, std::uint64_t{250'285}})
    run_history(seed);
}

// --- Single rules ----------------------------------------------------------------------------------------------------

struct Opened : World {
  explicit Opened(MirrorScope scope) : World(std::move(scope), 1) {}
  void open() {
    link.open(0);
    settle();
  }
};

// 200 ephemeral children: one list, and one read each. No list for what cannot have children.
TEST(MirrorModel, EphemeralNodesAreNotListed) {
  Opened world(tree_scope());
  world.create("/r");
  world.create_all(numbered("/r/", 200), "x", 7);
  world.open();
  world.expect_truth();
  EXPECT_EQ(world.link.requests(Kind::children), 1U);
  EXPECT_EQ(world.link.requests(Kind::get), 201U);
  EXPECT_EQ(world.snapshot.size(), 200U);
}

TEST(MirrorModel, ContainersAndNodesWithATimeToLiveAreListed) {
  Opened world(tree_scope());
  world.create("/r", "", std::numeric_limits<std::int64_t>::min());
  world.create("/q", "", 0);
  world.open();
  EXPECT_EQ(world.link.requests(Kind::children), 1U);
}

TEST(MirrorModel, OneReadPerChange) {
  Opened world(tree_scope());
  world.create("/r");
  world.create_all(numbered("/r/", 10), "x", 7);
  world.open();
  const std::size_t before = world.link.requests();
  for (int i = 0; i < 100; ++i) {
    world.set("/r/3", std::to_string(i));
    world.settle();
  }
  world.expect_truth();
  EXPECT_EQ(world.link.requests() - before, 100U);
  // A removal is one list, not a read of what is gone as well.
  world.remove("/r/3");
  world.settle();
  world.expect_truth();
  EXPECT_EQ(world.link.requests() - before, 101U);
}

// V11: reads per change stay one, however many sessions there were.
TEST(MirrorModel, ManySessions) {
  Opened world(tree_scope());
  world.create("/r", "x");
  world.create("/r/a", "x", 7);
  world.open();
  for (int i = 0; i < 60; ++i) {
    world.link.lose_session();
    world.open();
  }
  const std::size_t before = world.link.requests();
  world.set("/r/a", "y");
  world.settle();
  world.expect_truth();
  EXPECT_EQ(world.link.requests() - before, 1U);
}

// V15: after a reconnection without changes one request is sent, whatever is watched.
TEST(MirrorModel, ReconnectionReadsNothingThatDidNotChange) {
  Opened world(tree_scope());
  world.create("/r");
  world.create_all(numbered("/r/", 500));
  world.open();
  const std::size_t before = world.link.requests();
  const std::uint64_t revision = world.snapshot.revision();
  world.link.cut();
  EXPECT_EQ(world.model.state(), CacheState::stale);
  world.link.reconnect(0);
  EXPECT_EQ(world.model.state(), CacheState::stale);
  world.settle();
  world.expect_truth();
  EXPECT_EQ(world.link.requests() - before, 1U);
  EXPECT_EQ(world.snapshot.revision(), revision);
}

// The barrier is answered before the read that follows an event: that alone makes nothing current.
TEST(MirrorModel, StaleUntilWhatChangedMeanwhileIsRead) {
  Opened world(tree_scope());
  world.create("/r");
  world.create("/r/a", "1");
  world.open();
  const std::size_t barriers = world.link.requests(Kind::sync);
  world.link.cut();
  world.set("/r/a", "2");
  world.link.reconnect(0);
  world.link.send(world.now);
  world.link.answer();
  while (world.link.can_receive())
    world.link.receive();
  while (world.link.can_hand_over())
    world.link.hand_over(world.now);
  world.publish();
  EXPECT_EQ(world.link.requests(Kind::sync), barriers + 1);
  EXPECT_EQ(world.model.state(), CacheState::stale);
  EXPECT_EQ(world.snapshot.find("a")->data, "1");
  world.settle();
  world.expect_truth();
}

// One transaction changes two nodes: the event of one of them arrives, that of the other one gets lost with the
// connection.
TEST(MirrorModel, ConnectionBreaksBetweenTheEventsOfOneTransaction) {
  for (const bool is_read : {false, true}) {
    Opened world(tree_scope());
    world.create("/r");
    world.create_all({"/r/a", "/r/b"}, "1");
    world.open();
    world.commit([](History::Multi& multi) {
      multi.set("/r/a", "2");
      multi.set("/r/b", "2");
    });
    world.link.apply();
    world.link.receive();
    if (is_read) world.link.send(world.now);
    world.link.cut();
    world.publish();
    EXPECT_EQ(world.snapshot.find("a")->data, "1");
    world.link.reconnect(0);
    world.settle();
    world.expect_truth();
  }
}

// A server's mistake, and no reply since that could hide it: the next connection shows the change.
TEST(MirrorModel, EventThatGotLostIsMadeUpForAtTheReconnection) {
  Opened world(tree_scope());
  world.create("/r");
  world.create_all({"/r/a", "/r/b"}, "1");
  world.open();
  world.set("/r/a", "2");
  world.link.apply();
  world.link.lose_message();
  world.settle();
  EXPECT_EQ(world.snapshot.find("a")->data, "1");
  world.link.cut();
  world.link.reconnect(0);
  world.settle();
  world.expect_truth();
  EXPECT_EQ(world.snapshot.find("a")->data, "2");
}

// It is waited for without a request, however long that takes.
TEST(MirrorModel, MissingRootCostsOneWatch) {
  for (const MirrorScope& scope : {node_scope(), node_scope(false), children_scope(), children_scope(false),
                                   tree_scope(), tree_scope(100, false)}) {
    Opened world(scope);
    world.open();
    world.expect_truth();
    EXPECT_EQ(world.link.server_watches(), 1U);
    EXPECT_FALSE(world.model.due()) << "nothing is to be done at any later time";
    const std::size_t before = world.link.requests();
    EXPECT_LE(before, 4U) << "the sync, and the look that arms the watch, after the reads that did not";
    for (int i = 0; i < 60; ++i) {
      world.now += 1s;
      world.settle();
    }
    EXPECT_EQ(world.link.requests(), before);
    EXPECT_EQ(world.model.nodes(), 1U);
    world.create("/r", "at last");
    world.settle();
    world.expect_truth();
    EXPECT_TRUE(world.snapshot.exists("/r"));
  }
}

TEST(MirrorModel, LargeDataIsComparedFirst) {
  Opened world(tree_scope());
  world.create("/r", std::string(2000, 'x'), 0);
  world.create("/r/a", std::string(2000, 'y'), 7);
  world.create("/r/b", "small", 7);
  world.open();
  const std::size_t gets = world.link.requests(Kind::get);
  world.link.lose_session();
  world.set("/r/a", std::string(2000, 'z'));
  world.open();
  world.expect_truth();
  EXPECT_EQ(world.link.requests(Kind::exists), 2U);
  EXPECT_EQ(world.link.requests(Kind::get) - gets, 2U) << "/r/a and /r/b";
}

// V30: zxids of before count for nothing.
TEST(MirrorModel, EnsembleLostItsData) {
  Opened world(tree_scope());
  for (int i = 0; i < 50; ++i)
    world.create("/q" + std::to_string(i));
  world.create("/r", "old");
  world.create("/r/a", "old");
  world.open();
  const std::uint64_t revision = world.snapshot.revision();
  world.link.lose_session();
  world.history.begin();
  world.create("/r", "new");
  world.create("/r/b", "new");
  world.open();
  world.expect_truth();
  EXPECT_GT(world.snapshot.revision(), revision);
  EXPECT_EQ(world.snapshot.zxid(), 2);
}

TEST(MirrorModel, AtMost128ReadsAreUnderWay) {
  Opened world(tree_scope());
  world.create("/r");
  world.create_all(numbered("/r/", 1000), "", 7);
  world.link.open(0);
  std::size_t most = 0;
  for (int i = 0; i < 20'000 && world.snapshot.revision() == 0; ++i) {
    world.link.send(world.now);
    most = std::max(most, world.link.in_flight());
    world.link.answer();
    world.link.receive();
    world.link.hand_over(world.now);
    world.publish();
  }
  world.expect_truth();
  EXPECT_EQ(most, MirrorModel::max_in_flight);
}

// The next list of a directory waits for twice the time that the last one took; that of a small one does not.
TEST(MirrorModel, ListsOfLargeDirectoriesWait) {
  for (const int names : {10, 1000}) {
    Opened world(children_scope(false));
    world.create("/r");
    world.create_all(numbered("/r/", names));
    world.link.open(0);
    world.link.send(world.now);
    world.link.answer();
    world.link.receive();
    world.link.hand_over(world.now);  // The sync.
    world.link.send(world.now);
    world.now += 10ms;
    world.settle();
    const auto before = world.now;
    world.create("/r/more");
    world.settle();
    EXPECT_EQ(world.now - before, names == 10 ? 0ms : 20ms);
    world.expect_truth();
  }
}

// V32: what cannot be read is listed, and found when that changes; the others live.
TEST(MirrorModel, UnreadableNode) {
  Opened world(tree_scope());
  world.create("/r");
  world.create("/r/a", "secret");
  world.create("/r/a/x", "below");
  world.create("/r/b", "open");
  world.link.forbidden() = {"/r/a"};
  world.open();
  const CachedNode* node = world.snapshot.find("a");
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->unreadable, zkclient::Errc::no_auth);
  EXPECT_FALSE(node->has_data);
  EXPECT_NE(node->stat.czxid, 0) << "its Stat may be seen";
  EXPECT_FALSE(world.snapshot.complete());
  EXPECT_EQ(world.snapshot.find("b")->data, "open");
  EXPECT_EQ(world.model.problem()->code, zkclient::Errc::no_auth);
  EXPECT_EQ(world.model.problem()->path, "/r/a");
  world.set("/r/b", "changed");
  world.settle();
  EXPECT_EQ(world.snapshot.find("/r/b")->data, "changed");
  // Nothing tells of a right that was granted.
  world.link.forbidden().clear();
  world.now += MirrorModel::retry_pause;
  world.settle();
  EXPECT_TRUE(world.snapshot.complete());
  EXPECT_FALSE(world.model.problem());
  world.expect_truth();
}

TEST(MirrorModel, UnreadableNodeIsReadAtItsEvents) {
  Opened world(tree_scope());
  world.create("/r");
  world.create("/r/a", "secret");
  world.create("/r/a/x", "below");
  world.link.forbidden() = {"/r/a"};
  world.open();
  world.link.forbidden().clear();
  world.set("/r/a", "public");
  world.settle();
  world.expect_truth();
  EXPECT_TRUE(world.snapshot.complete());
  EXPECT_EQ(world.snapshot.find("a")->data, "public");
}

TEST(MirrorModel, UnreadableDirectory) {
  Opened world(children_scope());
  world.create("/r");
  world.create("/r/a", "x");
  world.link.forbidden() = {"/r"};
  world.open();
  EXPECT_EQ(world.snapshot.root()->unreadable, zkclient::Errc::no_auth);
  EXPECT_EQ(world.snapshot.size(), 0U);
  world.link.forbidden().clear();
  world.now += MirrorModel::retry_pause;
  world.settle();
  world.expect_truth();
  EXPECT_TRUE(world.snapshot.complete());
}

// It is tried again, or its data is read at last: what is wrong stays so until its list has been answered, also in a
// snapshot that does not wait for that.
TEST(MirrorModel, UnreadableUntilItIsRead) {
  for (const bool from_the_beginning : {false, true}) {
    Opened world(tree_scope());
    world.create("/r");
    world.create("/r/a", "1");
    world.create("/r/a/x", "below");
    if (from_the_beginning) world.link.forbidden() = {"/r/a"};
    world.open();
    world.link.forbidden() = {"/r/a"};
    world.create("/r/a/y", "below");
    world.settle();
    EXPECT_FALSE(world.snapshot.complete());
    EXPECT_EQ(world.snapshot.find("a")->unreadable, zkclient::Errc::no_auth);
    EXPECT_FALSE(world.snapshot.exists("a/x")) << "what is below is not known any more";
    world.link.forbidden().clear();
    world.set("/r/a", "2");
    world.link.apply();
    world.link.receive();
    world.link.send(world.now);  // Its data; with its list behind that, if that is tried again now.
    world.now += MirrorModel::retry_pause;
    world.link.send(world.now);
    world.link.answer();
    world.link.receive();
    world.link.hand_over(world.now);
    world.now += 100ms;
    world.publish();
    EXPECT_EQ(world.snapshot.find("a")->data, "2");
    EXPECT_FALSE(world.snapshot.exact()) << "its list is on its way";
    EXPECT_FALSE(world.snapshot.complete());
    EXPECT_EQ(world.snapshot.find("a")->unreadable, zkclient::Errc::no_auth);
    ASSERT_TRUE(world.model.problem());
    EXPECT_EQ(world.model.problem()->code, zkclient::Errc::no_auth);
    world.settle();
    EXPECT_TRUE(world.snapshot.complete());
    EXPECT_FALSE(world.model.problem());
    world.expect_truth();
  }
}

// More than 16 bits count. All of them are read, with a watch each; when they no longer fit, that is said.
TEST(MirrorModel, SeventyThousandChildren) {
  constexpr int children = 70'000;
  constexpr int more = 5'000;
  Opened world(children_scope());
  world.create("/r");
  world.create_all(numbered("/r/", children), "x", 7);
  world.open();
  world.expect_truth();
  EXPECT_EQ(world.snapshot.size(), std::size_t{children});
  EXPECT_TRUE(world.snapshot.complete());
  EXPECT_FALSE(world.model.problem());
  EXPECT_EQ(world.link.requests(Kind::get), std::size_t{children});
  world.set("/r/69999", "y");
  world.settle();
  EXPECT_EQ(world.snapshot.find("69999")->data, "y");
  world.create_all(numbered("/r/more", more), "x", 7);
  world.settle();
  EXPECT_EQ(world.snapshot.size(), std::size_t{children + more}) << "all names are there";
  EXPECT_FALSE(world.snapshot.complete());
  EXPECT_EQ(world.model.problem()->code, zkclient::Errc::overloaded);
}

// More than the client could arm again in one request: said, not hidden.
TEST(MirrorModel, MoreWatchesThanASessionMayHave) {
  Opened world(children_scope());
  world.create("/r");
  const std::string long_name(1000, 'n');
  world.create_all(numbered("/r/" + long_name, 1000), "x");
  world.open();
  EXPECT_LE(world.model.watched_bytes(), MirrorModel::max_watched_bytes);
  EXPECT_EQ(world.model.problem()->code, zkclient::Errc::overloaded);
  EXPECT_FALSE(world.snapshot.complete());
  EXPECT_EQ(world.snapshot.size(), 1000U) << "all names are there";
  std::size_t overloaded = 0;
  for (const CachedNodePtr& node : world.snapshot.children()) {
    EXPECT_NE(node->has_data, static_cast<bool>(node->unreadable));
    if (node->unreadable == zkclient::Errc::overloaded) ++overloaded;
  }
  EXPECT_GT(overloaded, 50U);
  // There is room again.
  world.commit([&](History::Multi& multi) {
    for (const std::string& path : numbered("/r/" + long_name, 200))
      multi.remove(path);
  });
  world.settle();
  world.now += MirrorModel::retry_pause;
  world.settle();
  EXPECT_TRUE(world.snapshot.complete());
  EXPECT_FALSE(world.model.problem());
  world.expect_truth();
}

TEST(MirrorModel, MoreDataThanMaxBytes) {
  MirrorScope scope = children_scope();
  scope.options.max_bytes = 250;
  Opened world(scope);
  world.create("/r");
  for (const char* name : {"a", "b", "c"})
    world.create(std::string("/r/") + name, std::string(100, 'x'));
  world.open();
  EXPECT_FALSE(world.snapshot.complete());
  EXPECT_TRUE(world.snapshot.find("a")->has_data);
  EXPECT_FALSE(world.snapshot.find("c")->has_data);
  EXPECT_EQ(world.snapshot.find("c")->stat.data_length, 100);
  EXPECT_EQ(world.model.problem()->code, zkclient::Errc::too_large);
  world.remove("/r/a");
  world.settle();
  world.now += MirrorModel::retry_pause;
  world.settle();
  EXPECT_TRUE(world.snapshot.complete());
  world.expect_truth();
}

// Changes that come faster than they can be read hold up no one for longer than max_delay.
TEST(MirrorModel, NotExactAfterMaxDelay) {
  Opened world(tree_scope());
  world.create("/r");
  world.create("/r/a", "0");
  world.create("/r/b", "0");
  world.open();
  const auto begin = world.now;
  const std::uint64_t revision = world.snapshot.revision();
  const auto hear = [&] {
    world.link.apply();
    world.link.receive();
    world.link.send(world.now);
  };
  world.set("/r/b", "1");
  hear();
  std::string changed = "/r/a";
  for (int i = 2; world.snapshot.revision() == revision && i < 1000; ++i) {
    world.now += 1ms;
    // The other one changes before the answer about the first one is there.
    world.set(changed, std::to_string(i));
    hear();
    world.link.answer();
    world.link.receive();
    world.link.hand_over(world.now);
    world.publish();
    changed = changed == "/r/a" ? "/r/b" : "/r/a";
  }
  EXPECT_FALSE(world.snapshot.exact());
  EXPECT_GE(world.now - begin, 100ms);
  EXPECT_LE(world.now - begin, 110ms);
  world.settle();
  world.expect_truth();
}

// Each change is followed by an acknowledged write, and another one comes before it has been read.
TEST(MirrorModel, AsOfMovesOnWhileChangesComeFasterThanTheyAreRead) {
  Opened world(tree_scope());
  world.create("/r");
  world.create_all({"/r/a", "/r/b"}, "0");
  world.open();
  world.set("/r/b", "1");
  const auto hear = [&] {
    world.link.apply();
    world.link.acknowledge();
    while (world.link.can_receive()) {
      world.tell();
      world.link.receive();
    }
    world.tell();
    world.link.send(world.now);
  };
  hear();
  std::set<std::int64_t> ages;
  std::string changed = "/r/a";
  for (int i = 2; i < 1000; ++i) {
    world.now += 1ms;
    world.set(changed, std::to_string(i));
    hear();
    world.link.answer();
    world.link.receive();
    world.link.hand_over(world.now);
    world.publish();
    EXPECT_FALSE(world.snapshot.exact() && world.snapshot.revision() > 1) << "it is never settled";
    world.tell();
    ages.insert(world.as_of());
    changed = changed == "/r/a" ? "/r/b" : "/r/a";
  }
  EXPECT_GE(ages.size(), 9U) << "with each snapshot";
  EXPECT_GE(world.as_of(), world.history.newest() - 210) << "twice max_delay";
  world.settle();
  world.expect_truth();
  world.tell();
  EXPECT_EQ(world.as_of(), world.link.told());
}

// What was told at the time of a pair has to be read; that something else was published is not enough.
TEST(MirrorModel, AsOfWaitsForWhatWasToldUpToIt) {
  Opened world(tree_scope());
  world.create("/r");
  world.create_all({"/r/a", "/r/b"}, "0");
  world.open();
  world.link.acknowledge();
  world.link.receive();
  world.tell();
  const std::int64_t before = world.as_of();
  EXPECT_EQ(before, world.history.newest());
  world.set("/r/a", "1");
  world.set("/r/b", "1");
  world.link.acknowledge();
  while (world.link.can_receive())
    world.link.receive();
  world.tell();
  EXPECT_EQ(world.as_of(), before);
  world.link.send(world.now);
  world.link.answer();  // Of one of them.
  world.link.receive();
  world.link.hand_over(world.now);
  world.now += 100ms;
  world.publish();
  world.tell();
  EXPECT_TRUE(world.snapshot.find("a")->data != world.snapshot.find("b")->data);
  EXPECT_EQ(world.as_of(), before);
  world.settle();
  world.tell();
  EXPECT_EQ(world.as_of(), world.history.newest());
}

// What belongs to a time that was told before the connection broke says nothing of what comes behind it.
TEST(MirrorModel, AsOfStandsStillWithoutAConnection) {
  MirrorScope scope = tree_scope();
  scope.options.quiet = 50ms;
  Opened world(scope);
  world.create("/r");
  world.open();
  world.set("/r", "1");
  world.link.acknowledge();
  while (world.link.can_receive())
    world.link.receive();
  world.tell();
  world.link.send(world.now);
  world.link.answer();
  world.link.receive();
  world.link.hand_over(world.now);
  world.tell();
  const std::int64_t before = world.as_of();
  world.link.cut();
  world.now += 50ms;
  world.publish();
  EXPECT_EQ(world.snapshot.root()->data, "1");
  world.tell();
  EXPECT_EQ(world.as_of(), before);
}

// All is read again by the next session, but nothing has been told to that.
TEST(MirrorModel, AsOfTakesNothingOverFromALostSession) {
  Opened world(tree_scope());
  world.create("/r");
  world.open();
  world.link.acknowledge();
  world.link.receive();
  world.tell();
  const std::int64_t before = world.as_of();
  world.set("/r", "1");
  world.link.acknowledge();
  while (world.link.can_receive())
    world.link.receive();
  world.tell();
  world.link.lose_session();
  world.open();
  world.expect_truth();
  world.tell();
  EXPECT_EQ(world.as_of(), before);
  world.link.acknowledge();
  world.link.receive();
  world.tell();
  EXPECT_EQ(world.as_of(), world.history.newest());
}

// A refresh waits for no rest, neither of what is exact nor, under constant changes, of what is not.
TEST(MirrorModel, WhatARefreshWaitsForDoesNotRest) {
  MirrorScope scope = tree_scope();
  scope.options.quiet = std::chrono::hours(1);
  Opened world(scope);
  world.create("/r", "0");
  world.create_all({"/r/a", "/r/b"}, "0");
  world.open();
  const auto begin = world.now;
  const auto read_all = [&] {
    while (world.link.can_answer() || world.link.can_receive() || world.link.can_hand_over()) {
      if (world.link.can_answer()) world.link.answer();
      if (world.link.can_receive()) world.link.receive();
      if (world.link.can_hand_over()) world.link.hand_over(world.now);
      world.link.send(world.now);
      world.publish();
    }
  };
  const auto hear = [&](const std::string& path, const std::string& data) {
    world.set(path, data);
    world.link.apply();
    world.link.receive();
    world.link.send(world.now);
  };
  hear("/r/a", "1");
  const std::uint64_t mark = world.model.mark();
  world.model.hurry(mark);
  read_all();
  EXPECT_TRUE(world.model.covers(mark));
  EXPECT_EQ(world.snapshot.find("a")->data, "1");
  EXPECT_TRUE(world.snapshot.exact());
  // Nobody waits: it rests.
  hear("/r/a", "2");
  read_all();
  EXPECT_EQ(world.snapshot.find("a")->data, "1");
  EXPECT_EQ(world.model.due(), begin + std::chrono::hours(1));
  // Somebody asks while it rests.
  world.model.hurry(world.model.mark());
  EXPECT_LE(world.model.due(), world.now);
  world.publish();
  EXPECT_EQ(world.snapshot.find("a")->data, "2");
  EXPECT_FALSE(world.model.due());
  // All was read again, and is the same: nobody waits any more.
  world.link.lose_session();
  world.link.open(0);
  world.model.hurry(world.model.mark());
  world.settle();
  EXPECT_EQ(world.model.state(), CacheState::current);
  hear("/r/a", "3");
  read_all();
  EXPECT_EQ(world.snapshot.find("a")->data, "2");
}

// A burst of changes makes one snapshot, when it is over; after the longer one of quiet and max_delay in any case.
TEST(MirrorModel, Quiet) {
  MirrorScope scope = children_scope();
  scope.options.quiet = 50ms;
  Opened world(scope);
  world.create("/r");
  world.open();
  const auto change = [&](int i) {
    world.create("/r/" + std::to_string(i));
    while (world.link.lags() || world.link.can_answer() || world.link.can_receive() || world.link.can_hand_over()) {
      if (world.link.lags()) world.link.apply();
      if (world.link.can_answer()) world.link.answer();
      if (world.link.can_receive()) world.link.receive();
      if (world.link.can_hand_over()) world.link.hand_over(world.now);
      world.link.send(world.now);
      world.publish();
    }
  };
  const std::uint64_t revision = world.snapshot.revision();
  auto begin = world.now;
  for (int i = 0; i < 3; ++i) {
    change(i);
    world.now += 20ms;
  }
  EXPECT_EQ(world.snapshot.revision(), revision) << "it goes on";
  world.settle();
  EXPECT_EQ(world.snapshot.revision(), revision + 1);
  EXPECT_EQ(world.snapshot.size(), 3U);
  EXPECT_EQ(world.now - begin, 90ms) << "50 ms after the last one, which came at 40";
  begin = world.now;
  for (int i = 3; world.snapshot.revision() == revision + 1 && i < 20; ++i) {
    change(i);
    world.now += 30ms;
  }
  EXPECT_EQ(world.now - begin, 150ms) << "at 120, the first one at which it had waited for 100";
  // What was read before the connection broke does not wait for its return.
  const std::uint64_t last = world.snapshot.revision();
  change(20);
  world.model.disconnected();
  EXPECT_EQ(world.model.due(), world.now + 50ms);
  world.now += 50ms;
  world.publish();
  EXPECT_EQ(world.snapshot.revision(), last + 1);
}

TEST(MirrorModel, DirectoryOfManyBlocks) {
  Opened world(children_scope());
  world.create("/r");
  world.create_all(numbered("/r/", 1000), "x");
  world.open();
  world.expect_truth();
  const Snapshot before = world.snapshot;
  world.set("/r/500", "changed");
  world.settle();
  EXPECT_EQ(difference(before, world.snapshot).size(), 1U);
  EXPECT_EQ(before.find("500")->data == "changed", false) << "snapshots do not change";
  world.commit([&](History::Multi& multi) {
    for (int i = 0; i < 1000; i += 2)
      multi.remove("/r/" + std::to_string(i));
  });
  world.settle();
  world.expect_truth();
  EXPECT_EQ(difference(before, world.snapshot).size(), 500U);
  EXPECT_EQ(difference(world.snapshot, before).size(), 500U);
  EXPECT_EQ(world.snapshot.find("/r/501")->name, "501");
  EXPECT_EQ(world.snapshot.find("/r/500"), nullptr);
  EXPECT_EQ(world.snapshot.find("/rr"), nullptr);
}

// --- The user's filter -----------------------------------------------------------------------------------------------

TEST(MirrorModel, ExcludedNamesAreNeitherReadNorWatched) {
  for (const bool data : {true, false}) {
    Opened world(filtered(tree_scope(100, data)));
    world.create("/r");
    world.create_all({"/r/a", "/r/b", "/r/c"}, "x");
    world.create_all({"/r/a/a", "/r/a/c", "/r/b/a", "/r/c/c"}, "x");
    world.open();
    world.expect_truth();
    EXPECT_EQ(world.snapshot.size(), 4U) << "a, a/a, c, c/c";
    EXPECT_TRUE(world.snapshot.complete());
    EXPECT_EQ(world.link.server_watches(), data ? 10U : 5U);
    EXPECT_EQ(world.asked("/r/b"), 1);
    EXPECT_EQ(world.asked("/r/b/a"), 0) << "nobody asks for what is below";
    const std::size_t before = world.link.requests();
    world.commit([](History::Multi& multi) {
      multi.set("/r/b", "y");
      multi.create("/r/b/more", "");
    });
    world.settle();
    world.expect_truth();
    EXPECT_EQ(world.link.requests(), before);
  }
}

// Each name once, though the list is read again and again, in this session and in the next.
TEST(MirrorModel, ANameIsJudgedOnceForAsLongAsItIsListed) {
  Opened world(filtered(children_scope()));
  world.create("/r");
  world.create_all({"/r/a", "/r/b"});
  world.open();
  for (int i = 0; i < 3; ++i) {
    world.create("/r/" + std::to_string(i));
    world.settle();
    world.link.cut();
    world.link.reconnect(0);
    world.settle();
    world.link.lose_session();
    world.open();
  }
  EXPECT_EQ(world.asked("/r/a"), 1);
  EXPECT_EQ(world.asked("/r/b"), 1);
  EXPECT_EQ(world.asked("/r/0"), 1);
  world.remove("/r/b");
  world.remove("/r/a");
  world.settle();
  world.create_all({"/r/a", "/r/b"});
  world.settle();
  EXPECT_EQ(world.asked("/r/a"), 2);
  EXPECT_EQ(world.asked("/r/b"), 2);
  world.expect_truth();
}

// The first snapshot waits for all names that were there; later ones come without the names that are not judged, and
// say that they are not exact.
TEST(MirrorModel, SlowFilter) {
  Opened world(filtered(tree_scope()));
  world.create("/r");
  world.create_all({"/r/a", "/r/b"}, "1");
  world.link.open(0);
  world.settle(false);
  world.now += 1h;
  world.settle(false);
  EXPECT_EQ(world.model.state(), CacheState::loading);
  EXPECT_FALSE(world.link.asked_paths().contains("/r/a"));
  world.settle();
  world.expect_truth();
  world.create("/r/c");
  world.settle(false);
  const std::uint64_t mark = world.model.mark();
  EXPECT_FALSE(world.model.covers(mark));
  world.set("/r/a", "2");
  const auto begin = world.now;
  world.settle(false);
  EXPECT_EQ(world.now - begin, 100ms) << "max_delay";
  EXPECT_EQ(world.snapshot.find("a")->data, "2") << "what was judged before is kept up";
  EXPECT_FALSE(world.snapshot.exact());
  EXPECT_FALSE(world.snapshot.exists("c"));
  EXPECT_FALSE(world.model.due()) << "nothing is to be done until the answer comes";
  EXPECT_EQ(world.model.state(), CacheState::current);
  EXPECT_FALSE(world.model.covers(mark));
  // What it waited for is less than what is known, so a new connection makes it stale.
  world.link.cut();
  world.link.reconnect(0);
  world.settle(false);
  EXPECT_EQ(world.model.state(), CacheState::stale);
  // Which holds up no change of what was judged, in this session or the next.
  for (const char* data : {"3", "4"}) {
    world.set("/r/a", data);
    world.settle(false);
    EXPECT_EQ(world.snapshot.find("a")->data, data);
    EXPECT_FALSE(world.snapshot.exact());
    world.link.lose_session();
    world.link.open(0);
    world.settle(false);
  }
  world.settle();
  EXPECT_TRUE(world.model.covers(mark));
  world.expect_truth();
}

// An answer that excludes changes nothing that is shown; the snapshot is exact from then on.
TEST(MirrorModel, NameThatIsExcludedLate) {
  Opened world(filtered(children_scope()));
  world.create("/r");
  world.create("/r/a", "1");
  world.open();
  world.create("/r/b");
  world.settle(false);
  world.set("/r/a", "2");
  world.settle(false);
  EXPECT_FALSE(world.snapshot.exact());
  const std::uint64_t revision = world.snapshot.revision();
  world.settle();
  EXPECT_EQ(world.snapshot.revision(), revision + 1);
  world.expect_truth();
}

// What goes before it is judged is not missed, and its verdict comes too late.
TEST(MirrorModel, NameGoesBeforeItIsJudged) {
  for (const bool comes_again : {false, true}) {
    Opened world(filtered(children_scope()));
    world.create("/r");
    world.open();
    world.create("/r/a");
    world.settle(false);
    world.remove("/r/a");
    world.settle(false);
    EXPECT_TRUE(world.snapshot.exact());
    EXPECT_TRUE(world.model.covers(world.model.mark()));
    if (comes_again) world.create("/r/a", "another");
    world.settle();
    EXPECT_EQ(world.asked("/r/a"), comes_again ? 2 : 1);
    EXPECT_FALSE(world.link.asked_paths().contains("/r/a") && !comes_again);
    world.expect_truth();
  }
}

TEST(MirrorModel, DirectoryGoesBeforeItsNamesAreJudged) {
  for (const bool comes_again : {false, true}) {
    Opened world(filtered(tree_scope()));
    world.create("/r");
    world.create("/r/a");
    world.open();
    world.create("/r/a/a");
    world.settle(false);
    world.commit([&](History::Multi& multi) {
      multi.remove("/r/a/a");
      multi.remove("/r/a");
      if (comes_again) multi.create("/r/a", "another");
      if (comes_again) multi.create("/r/a/a", "another");
    });
    world.settle();
    world.expect_truth();
    EXPECT_TRUE(world.model.covers(world.model.mark()));
  }
}

// One batch after another; the reads of the first go on meanwhile.
TEST(MirrorModel, NamesAreJudgedInBatches) {
  constexpr int children = 2500;
  Opened world(filtered(children_scope()));
  world.create("/r");
  world.create_all(numbered("/r/", children), "x", 7);
  world.link.open(0);
  world.settle(false);
  EXPECT_TRUE(world.model.take_names().empty()) << "an answer is due";
  world.answer_filter();
  world.settle(false);
  EXPECT_EQ(world.link.requests(Kind::get), NameFilter::max_batch);
  EXPECT_EQ(world.snapshot.revision(), 0U);
  world.settle();
  EXPECT_EQ(world.snapshot.size(), std::size_t{children});
  world.expect_truth();
}

// Nothing else tells who waits for it.
TEST(ChangeBacklog, TellsThatASnapshotIsCompleteOrLacksNothingMoreThatIsLate) {
  std::vector<std::string> told;
  ChangeBacklog backlog([&told](const std::vector<Change>& changes, const Snapshot& now) {
    EXPECT_TRUE(changes.empty());
    told.push_back(std::string(now.complete() ? "complete" : "incomplete") + (now.exact() ? "" : ", late"));
  });
  const auto publish = [&backlog](bool complete, bool exact) {
    SnapshotData data;
    data.complete = complete;
    data.exact = exact;
    backlog.call(Snapshot(std::make_shared<const SnapshotData>(std::move(data))));
  };
  publish(true, true);
  publish(true, false);
  publish(false, false);
  publish(false, true);
  publish(true, true);
  publish(true, true);
  EXPECT_EQ(told, (std::vector<std::string>{"complete", "incomplete, late", "incomplete", "complete"}));
}

}  // namespace
}  // namespace zkrecipes::detail
