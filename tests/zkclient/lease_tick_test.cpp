// How long a lease may be trusted depends on the servers' tick, of which half passes before the leader hears of a
// session. For each ratio of session timeout and tick: a follower is cut off from its leader in three ways, and no
// holder at it may take its lease for valid once the other servers have let it go.

#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/contention.hpp"
#include "tests/support/ensembles.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fault_server.hpp"
#include "tests/support/lease_judges.hpp"
#include "tests/support/memory.hpp"

namespace {

using namespace std::chrono_literals;
using testkit::eventually;
using testkit::FaultEnsemble;
using testkit::Holder;
using testkit::Metronome;
using testkit::Observer;
using testkit::since;
using testkit::told_in_time;
using zkclient::BootClock;
using zkclient::Client;
using zktesting::EnsembleOptions;
using zktesting::Isolation;

// One ratio on real servers; the others are simulated. And a failover, which has to take as long as a real one.
const testkit::OnRealServers lease_ticks_on_real_servers{
    "Each/LeaseAndTick.NobodyHoldsWhatIsGoneHoweverItsServerIsCutOff/FourTicks",
    "StockFailover.LeasesOfTheDefaultTimeoutOutliveTheLeader"};

struct Ratio {
  const char* name;
  std::chrono::milliseconds timeout;
  std::chrono::milliseconds tick;
  /// Whether the client is told. If not, it has to guess right.
  bool told;
};

class LeaseAndTick : public ::testing::TestWithParam<Ratio> {
 protected:
  static EnsembleOptions options(const Ratio& ratio) {
    EnsembleOptions options;
    options.server.tick = ratio.tick;
    options.server.min_session_timeout = 100ms;  // Below two ticks, which no server grants by itself.
    options.sync_limit = static_cast<int>(std::max<long>(5, 10s / ratio.tick));
    options.init_limit = options.sync_limit;
    return options;
  }
};

TEST_P(LeaseAndTick, NobodyHoldsWhatIsGoneHoweverItsServerIsCutOff) {
  constexpr std::size_t holders = 8;
  const Ratio& ratio = GetParam();
  const unsigned used = testkit::seed();
  std::cout << "ZKRECIPES_SEED=" << used << "\n";
  std::mt19937 random(used);
  const auto between = [&](int from, int to) {
    return std::chrono::milliseconds(std::uniform_int_distribution<int>(from, to)(random));
  };
  const auto made = testkit::make_ensemble(options(ratio));
  FaultEnsemble& ensemble = *made;
  { Client(ensemble.connect_string()).create("/locks"); }
  const char* soak = std::getenv("ZKRECIPES_SOAK");
  const auto end = testkit::SteadyClock::now() + std::chrono::seconds(soak != nullptr ? std::stol(soak) : 0);
  const Metronome metronome;
  const testkit::Stalls stalls;
  int judged = 0;
  int rounds = 0;
  // Simulated ones cost little. The cut has to come at a bad moment, and a round has three.
  const int least_rounds = ensemble.is_simulated() ? 2 : 1;
  do {
    for (const Isolation how : {Isolation::freeze, Isolation::deaf, Isolation::mute}) {
      const auto [leader, follower, other] = testkit::roles_of(ensemble);
      zkclient::Runtime runtime;
      std::vector<Client> clients;
      std::vector<std::unique_ptr<Holder>> held;
      std::vector<std::string> nodes;
      zkclient::ClientOptions options{.session_timeout = ratio.timeout};
      if (ratio.told) options.server_tick = ratio.tick;
      for (std::size_t i = 0; i < holders; ++i) {
        clients.emplace_back(runtime, ensemble.connect_string(follower), options);
        held.push_back(testkit::hold(clients[i], i));
        std::this_thread::sleep_for(between(0, 60));  // Part of the experiment, as the one below.
      }
      for (std::size_t i = 0; i < holders; ++i) {
        while (!held[i]->lease().valid())
          held[i] = testkit::hold(clients[i], i);
        nodes.push_back(held[i]->lease().node());
      }
      const Observer observer(ensemble.connect_string(other), nodes);
      std::this_thread::sleep_for(between(0, static_cast<int>(ratio.tick.count())));
      const auto struck = BootClock::now();
      ensemble.isolate(follower, how);
      const auto all_gone = [&] {
        testkit::restart_who_has_died(ensemble);
        return observer.all_gone();
      };
      EXPECT_TRUE(eventually(all_gone, testkit::patience));
      for (std::size_t i = 0; i < holders; ++i) {
        const auto gone = observer.gone(i);
        if (!gone) continue;
        ++judged;
        const bool in_time = told_in_time(*held[i], *gone, stalls);
        const auto told = held[i]->lost_at();
        EXPECT_TRUE(in_time) << "seed " << used << ", isolation " << static_cast<int>(how) << ", holder " << i
                             << ", in ms after the cut: told "
                             << (told ? std::to_string(since(struck, *told)) : "never") << ", node last seen "
                             << since(struck, observer.last_there(i)) << ", gone " << since(struck, *gone)
                             << ", worst delay of this process " << metronome.worst_ms();
      }
      ensemble.heal(follower);
    }
  } while (++rounds < least_rounds || testkit::SteadyClock::now() < end);
  std::cout << judged << " leases judged, worst delay " << metronome.worst_ms() << " ms\n";
  EXPECT_GE(judged, 3 * static_cast<int>(holders));
}

const Ratio ratios[] = {
    {"OneTick", 2000ms, 2000ms, true},          {"OneAndAHalfTicksGuessed", 3000ms, 2000ms, false},
    {"FourTicks", 2000ms, 500ms, true},         {"OneTickGuessed", 2000ms, 2000ms, false},
    {"OneAndAHalfTicks", 3000ms, 2000ms, true}, {"TwoTicks", 3000ms, 1500ms, true},
    {"TwentyTicks", 2000ms, 100ms, true},
};
// A sanitizer shows nothing new in the others.
constexpr std::ptrdiff_t ratios_to_try = testkit::sanitized ? 3 : std::ssize(ratios);

INSTANTIATE_TEST_SUITE_P(Each, LeaseAndTick, ::testing::ValuesIn(ratios, ratios + ratios_to_try),
                         [](const auto& param) { return std::string(param.param.name); });

// Where no safe window is left there is no lease, but an error that says what to change.
TEST(LeaseAndTickRefused, ATimeoutShorterThanATickIsRefusedAtOnce) {
  zktesting::ServerOptions server_options;
  server_options.tick = 2000ms;
  server_options.min_session_timeout = 1000ms;
  const zktesting::Server server(server_options);
  for (const bool told : {false, true}) {
    zkclient::ClientOptions options{.session_timeout = 1500ms};
    if (told) options.server_tick = 2000ms;
    const Client client(server.connect_string(), options);
    zkrecipes::Mutex mutex(client, "/lock");
    try {
      (void)mutex.acquire({.deadline = testkit::soon()});
      ADD_FAILURE() << "it was granted";
    } catch (const zkclient::Error& error) {
      EXPECT_EQ(error.errc(), zkclient::Errc::timeout_too_short) << error.what();
      EXPECT_NE(std::string(error.what()).find("ask for 2000 ms or more"), std::string::npos) << error.what();
    }
    EXPECT_EQ(client.exists("/lock"), std::nullopt) << "nothing was changed";
    EXPECT_EQ(testkit::error_of([&] { (void)mutex.try_acquire_for(10s); }), zkclient::Errc::timeout_too_short);
    EXPECT_TRUE(eventually([&] {  // Other things go on, in this session or, after a pause, in the next one.
      std::error_code error;
      client.create("/work-", "", {.mode = zkclient::CreateMode::ephemeral_sequential}, {}, error);
      return !error;
    }));
  }
  // A tick that is short makes the same timeout a good one.
  const Client client(server.connect_string(), {.session_timeout = 1500ms, .server_tick = 500ms});
  EXPECT_TRUE(eventually([&] {
    try {
      return zkrecipes::Mutex(client, "/lock").try_acquire().has_value();
    } catch (const zkclient::Error&) {
      return false;  // A session this short may end in a pause.
    }
  }));
}

// While it exists, nothing reaches the host at `address`, and nobody hears of that.
class Silence {
 public:
  explicit Silence(const std::string& address) : route_("blackhole " + address + "/32 table local") {
    works_ = ::geteuid() == 0 && run("add");
  }
  ~Silence() {
    if (works_) run("del");
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  bool works() const { return works_; }

 private:
  bool run(const std::string& verb) const { return std::system(("ip route " + verb + " " + route_).c_str()) == 0; }
  const std::string route_;
  bool works_ = false;
};

// A client that knows all servers and is connected to a certain one of them.
Client at(FaultEnsemble& ensemble, std::size_t server) {
  for (;;) {
    Client client(ensemble.connect_string());
    client.connect({.deadline = testkit::soon()});
    if (client.server() == ensemble.connect_string(server)) return client;
  }
}

// False: the failover, or this process, was slower than what the leases have to outlive.
bool outlive_the_leader() {
  EnsembleOptions options;
  options.server.tick = 2000ms;
  options.server.min_session_timeout = 4000ms;
  options.server.max_session_timeout = 40'000ms;
  options.sync_limit = 5;
  options.init_limit = 10;
  const auto made = testkit::make_ensemble(options);
  FaultEnsemble& ensemble = *made;
  const std::size_t leader = testkit::roles_of(ensemble).leader;
  { Client(ensemble.connect_string()).create("/locks"); }
  // At each server one that has held for a while, and one that waits and gets its lease right before the strike.
  struct Pair {
    Pair(FaultEnsemble& servers, std::size_t server)
        : old_client(at(servers, server)),
          young_client(at(servers, server)),
          path("/locks/young" + std::to_string(server)) {}
    Client old_client;
    Client young_client;
    zkclient::Path path;
  };
  Client blocker_client(ensemble.connect_string());
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<std::unique_ptr<Holder>> held;
  std::vector<zkrecipes::Lease> blockers;
  std::vector<std::future<zkrecipes::Lease>> waiting;
  for (std::size_t server = 0; server < ensemble.size(); ++server) {
    // A leader that is stopped still takes what is sent; it takes root to silence its host.
    if (server == leader && !ensemble.is_simulated() && !Silence("127.255.254.253").works()) continue;
    pairs.push_back(std::make_unique<Pair>(ensemble, server));
    Pair& pair = *pairs.back();
    EXPECT_EQ(pair.old_client.session().timeout(), 30s);
    held.push_back(testkit::hold(pair.old_client, server));
    blockers.push_back(zkrecipes::Mutex(blocker_client, pair.path).acquire());
    waiting.push_back(testkit::in_thread([&pair] {
      return zkrecipes::Mutex(pair.young_client, pair.path).acquire({.deadline = testkit::SteadyClock::now() + 60s});
    }));
  }
  // Part of the experiment: the sessions get on in years, then the waiters begin to hold.
  std::this_thread::sleep_for(12s);
  for (zkrecipes::Lease& blocker : blockers)
    blocker.release();
  for (auto& lease : waiting)
    held.push_back(std::make_unique<Holder>(lease.get()));
  if (ensemble.leader() != leader) return false;
  const testkit::Stalls stalls;
  const auto struck = BootClock::now();
  const std::string address = ensemble.connect_string(leader);
  std::optional<Silence> silence;
  if (ensemble.is_simulated()) {
    ensemble.silence(leader);
  } else {
    silence.emplace(address.substr(0, address.find(':')));
  }
  ensemble.pause(leader);
  ensemble.wait_for_quorum();
  const auto failed_over = BootClock::now();
  std::cout << "writes are possible again after " << since(struck, failed_over) << " ms\n";
  std::this_thread::sleep_for(10s);  // Whatever was to run out would have done so.
  const auto in_ns = [](BootClock::time_point at) { return at.time_since_epoch().count(); };
  const std::chrono::nanoseconds stalled(stalls.worst(in_ns(struck), in_ns(failed_over + 5s)));
  const bool slow = failed_over - struck > 10'800ms || stalled > 100ms;
  for (std::size_t i = 0; i < held.size(); ++i) {
    const bool valid = held[i]->lease().valid();
    if (!valid && slow) return false;
    const auto told = held[i]->lost_at();
    EXPECT_TRUE(valid) << "lease " << i << (i < pairs.size() ? ", old" : ", young") << ", lost after "
                       << (told ? since(struck, *told) : -1) << " ms";
  }
  return true;
}

// The stock settings of a server: a tick of 2 s, of which 5 may pass before followers give a silent leader up.
TEST(StockFailover, LeasesOfTheDefaultTimeoutOutliveTheLeader) {
  const auto end = testkit::SteadyClock::now() + 3min;
  bool judged = false;
  while (!judged && testkit::SteadyClock::now() < end)
    judged = outlive_the_leader();
  EXPECT_TRUE(judged) << "no failover was as quick as it has to be";
}

}  // namespace
