// The bank: transactions move amounts between 50 nodes in three directories, and now and then a node from one directory
// to another, while connections are cut, servers are killed and the reader's session expires. Every exact snapshot is
// compared, value for value, with the writer's record at its zxid.
//
// ZKRECIPES_SOAK=seconds makes it long. ZKRECIPES_SEED=number repeats the choices of a run, as far as threads and
// processes can be repeated.

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <zkclient/client.hpp>
#include <zkrecipes/tree_cache.hpp>
#include <zktesting/ensemble.hpp>
#include <zktesting/expire.hpp>
#include <zktesting/proxy.hpp>

#include "tests/support/ensembles.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

constexpr int accounts = 50;
constexpr int amount = 1000;
constexpr auto long_patience = 90s;

struct Account {
  std::string value;
  std::int64_t czxid = 0;
  std::int64_t mzxid = 0;
  std::int32_t version = 0;
  bool operator==(const Account&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Account& account) {
  return out << account.value << " created " << account.czxid << " changed " << account.mzxid << " version "
             << account.version;
}
using Accounts = std::map<std::string, Account>;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

/// The only one who writes; knows what the bank looked like at each zxid.
class Writer {
 public:
  Writer(Client client, std::uint64_t seed) : client_(std::move(client)), random_(seed) {
    for (const char* directory : {"/bank", "/bank/a", "/bank/b", "/bank/c"})
      client_.ensure(directory, zkclient::CreateMode::persistent, {.deadline = SteadyClock::now() + long_patience});
    for (std::uint64_t i = 0; i < accounts; ++i) {
      const std::string path = directory(i % 3) + std::to_string(i);
      const zkclient::Stat created = make(path);
      now_[path] = {std::to_string(amount), created.czxid, created.mzxid, 0};
      record_.emplace(created.czxid, now_);
    }
  }

  void run(const std::atomic<bool>& stop) {
    while (!stop)
      move();
  }
  const std::map<std::int64_t, Accounts>& record() const { return record_; }

 private:
  // If the test stands still, so do the links between the servers: they elect again, and the reply may be lost.
  zkclient::Stat make(const std::string& path) {
    const zkclient::CallOptions call{.deadline = SteadyClock::now() + long_patience};
    for (;;) {
      std::error_code error;
      client_.create(path, std::to_string(amount), {}, call, error);
      const bool may_be_there = !error || error == Errc::in_doubt || error == Errc::node_exists;
      if (!may_be_there) throw std::system_error(error, path);
      if (const auto stat = client_.exists(path, call)) return *stat;
    }
  }

  static std::string directory(std::uint64_t number) {
    static const std::string directories[] = {"/bank/a/", "/bank/b/", "/bank/c/"};
    return directories[number % 3];
  }
  std::string any(const std::string& but = {}) {
    for (;;) {
      auto account = now_.begin();
      std::advance(account, random_() % now_.size());
      if (account->first != but) return account->first;
    }
  }

  void move() {
    const std::string from = any();
    const std::string to = any(from);
    const int moved = static_cast<int>(random_() % 20);
    Accounts next = now_;
    const auto add = [&](const std::string& path, int difference) {
      Account& account = next[path];
      account.value = std::to_string(std::stoi(account.value) + difference);
      ++account.version;
    };
    zkclient::Transaction transaction;
    std::vector<std::string> changed = {from};
    add(from, -moved);
    transaction.set(from, next[from].value, now_[from].version);
    if (random_() % 8 == 0) {  // The other one moves to another directory.
      const std::string name = to.substr(to.rfind('/') + 1);
      std::string moved_to = directory(random_() % 3);
      if (to.starts_with(moved_to)) return;
      moved_to += name;
      add(to, moved);
      next[moved_to] = {next[to].value, 0, 0, 0};
      next.erase(to);
      transaction.remove(to);
      transaction.create(moved_to, next[moved_to].value);
      changed.push_back(moved_to);
    } else {
      add(to, moved);
      transaction.set(to, next[to].value, now_[to].version);
      changed.push_back(to);
    }
    const auto zxid = commit(transaction, from, now_[from].version + 1);
    if (!zxid) return;
    for (const std::string& path : changed) {
      next[path].mzxid = *zxid;
      if (next[path].czxid == 0) next[path].czxid = *zxid;
    }
    now_ = std::move(next);
    record_.emplace(*zxid, now_);
  }

  // nullopt: it was not applied. If the reply was lost, the version of the node that it sets tells.
  std::optional<std::int64_t> commit(const zkclient::Transaction& transaction, const Path& path, int version) {
    try {
      return client_.commit(transaction, {.deadline = SteadyClock::now() + long_patience}).front().stat->mzxid;
    } catch (const zkclient::Error& error) {
      if (error.kind() != zkclient::ErrorKind::in_doubt) throw;
    }
    client_.sync(path, {.deadline = SteadyClock::now() + long_patience});
    const auto node = client_.get(path, {.deadline = SteadyClock::now() + long_patience});
    if (node.stat.version != version) return std::nullopt;
    return node.stat.mzxid;
  }

  const Client client_;
  std::mt19937_64 random_;
  Accounts now_;
  std::map<std::int64_t, Accounts> record_;
};

Accounts accounts_of(const Snapshot& snapshot) {
  Accounts seen;
  snapshot.for_each([&](const std::string& path, const CachedNode& node) {
    if (path.size() <= std::string("/bank/a").size()) return;
    seen[path] = {node.data, node.stat.czxid, node.stat.mzxid, node.stat.version};
  });
  return seen;
}

class Bank : public testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < ensemble.size(); ++i)
      proxies.push_back(std::make_unique<zktesting::Proxy>(ensemble.connect_string(i)));
  }
  std::string through_proxies() const {
    std::string all;
    for (const auto& proxy : proxies)
      all += (all.empty() ? "" : ",") + proxy->connect_string();
    return all;
  }
  void cut_all() {
    for (const auto& proxy : proxies)
      proxy->cut();
  }
  void break_something(std::uint64_t what, const Client& reader) {
    if (what < 6) {
      cut_all();
    } else if (what < 8) {
      const auto session = reader.session();
      try {
        zktesting::expire(ensemble.connect_string(), session.id(), session.credentials().password);
      } catch (const std::exception&) {  // It is not connected at the moment.
      }
    } else {
      const std::size_t victim = what % ensemble.size();
      ensemble.kill(victim);
      testkit::let_age(300ms);
      ensemble.restart(victim);
      ensemble.wait_for_quorum(long_patience);
    }
  }
  bool no_watch_is_left() {
    return eventually([&] {
      std::size_t watches = 0;
      for (std::size_t i = 0; i < ensemble.size(); ++i)
        watches += ensemble.server(i).watch_count();
      return watches == 0;
    });
  }

  const std::unique_ptr<testkit::FaultEnsemble> made = testkit::make_ensemble();
  testkit::FaultEnsemble& ensemble = *made;
  std::vector<std::unique_ptr<zktesting::Proxy>> proxies;
};

// V27: the directories are always those of one instant.
TEST_F(Bank, EveryExactSnapshotIsTheBankAtOneInstant) {
  const auto seed = number_from("ZKRECIPES_SEED", std::random_device{}());
  const auto seconds = number_from("ZKRECIPES_SOAK", 6);
  GTEST_LOG_(INFO) << "ZKRECIPES_SEED=" << seed << " ZKRECIPES_SOAK=" << seconds;
  std::mt19937_64 random(seed);
  Writer writer(Client(ensemble.connect_string(), {.session_timeout = 30s}), seed);
  const Client reader(through_proxies(), {.session_timeout = 6s});

  std::mutex mutex;
  std::vector<Snapshot> seen;
  std::set<std::int64_t> exact;
  TreeCache cache(reader, "/bank");
  cache.wait_ready({.deadline = SteadyClock::now() + long_patience});
  auto subscription = cache.on_change([&](const std::vector<Change>&, const Snapshot& now) {
    const std::lock_guard lock(mutex);
    seen.push_back(now);
    if (now.exact()) exact.insert(now.zxid());
  });
  const std::size_t enough = seconds >= 60 ? 1000 : 50;
  const auto saw_enough = [&] {
    const std::lock_guard lock(mutex);
    return exact.size() >= enough;
  };
  std::atomic<bool> stop{false};
  std::thread writing([&] { writer.run(stop); });
  // A slow machine takes longer to show as much.
  const auto end = SteadyClock::now() + std::chrono::seconds(seconds);
  while (SteadyClock::now() < end || (!saw_enough() && SteadyClock::now() < end + long_patience)) {
    testkit::let_age(std::chrono::milliseconds(200 + random() % 800));
    break_something(random() % 10, reader);
  }
  stop = true;
  writing.join();
  testkit::restart_who_has_died(ensemble);
  ensemble.wait_for_all(long_patience);

  // At rest it is the bank.
  const Snapshot last = cache.refresh(ReadBarrier::quorum, {.deadline = SteadyClock::now() + long_patience});
  EXPECT_EQ(accounts_of(last), writer.record().rbegin()->second);
  EXPECT_TRUE(eventually([&] { return cache.state() == CacheState::current && cache.snapshot().exact(); }));
  subscription = {};
  cache.close();
  EXPECT_TRUE(no_watch_is_left());

  std::int64_t zxid = 0;
  for (const Snapshot& snapshot : seen) {
    EXPECT_GE(snapshot.zxid(), zxid) << "back in time";
    zxid = snapshot.zxid();
    if (!snapshot.exact()) continue;
    const Accounts found = accounts_of(snapshot);
    int sum = 0;
    for (const auto& [path, account] : found)
      sum += std::stoi(account.value);
    EXPECT_EQ(sum, accounts * amount) << "at " << zxid;
    const auto recorded = writer.record().find(zxid);
    ASSERT_NE(recorded, writer.record().end()) << "nothing was written at " << zxid;
    ASSERT_EQ(found, recorded->second) << "at " << zxid;
  }
  GTEST_LOG_(INFO) << writer.record().size() << " transactions, " << seen.size() << " snapshots seen, " << exact.size()
                   << " instants of which there was an exact one";
  EXPECT_TRUE(saw_enough());
}

}  // namespace
}  // namespace zkrecipes
