// What the library does to the program that it lives in: signals, forks, and a system that refuses resources. Each case
// runs in a process of its own, because it is about the process.

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <zkclient/client.hpp>
#include <zkclient/log.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/discovery.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/guardian.hpp>
#include <zkrecipes/id_blocks.hpp>
#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/latch.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/migrations.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/node_cache.hpp>
#include <zkrecipes/optimistic.hpp>
#include <zkrecipes/participant_log.hpp>
#include <zkrecipes/partition_map.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zkrecipes/periodic_job.hpp>
#include <zkrecipes/persistent_node.hpp>
#include <zkrecipes/placement.hpp>
#include <zkrecipes/placement_map.hpp>
#include <zkrecipes/primary.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/recursive_mutex.hpp>
#include <zkrecipes/two_phase_commit.hpp>
#include <zkrecipes/worker_id.hpp>
#include <zktesting/proxy.hpp>
#include <zktesting/server.hpp>

#include "tests/support/memory.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/testkit.hpp"
#include "zkclient/detail/log.hpp"

extern "C" int __lsan_is_turned_off();

namespace {

using namespace std::chrono_literals;
using zkclient::Client;
using zkclient::Errc;
using zkclient::Error;

constexpr int well = 0;
bool forked = false;

// Under g++ 12's AddressSanitizer a child waits for ever for a lock of the allocator that another thread had.
constexpr bool allocations_survive_a_fork =
#if defined(__SANITIZE_ADDRESS__)
    false;
#else
    true;
#endif

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// A thread that sleeps is not in the allocator. Those of a test itself have the program's name; they do not allocate.
bool threads_of_the_library_sleep() {
  const std::string own_name = text_of("/proc/thread-self/comm");
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string stat = text_of(task.path() / "stat");
    const bool awake = !stat.empty() && stat.find(") S ") == std::string::npos;
    if (awake && text_of(task.path() / "comm") != own_name) return false;
  }
  return true;
}

void let_the_library_fall_asleep() {
  constexpr int enough_in_a_row = 5;  // One look may fall between two steps of a thread that works.
  for (int looks = 0; looks < enough_in_a_row; looks = threads_of_the_library_sleep() ? looks + 1 : 0)
    std::this_thread::yield();
}

// Runs `body` in a forked child, which ends with what it returns; by exit(), with all that does, if `by_exit`. A child
// that hangs is killed: -1.
int in_child(const std::function<int()>& body, bool by_exit = false) {
  if (!allocations_survive_a_fork) let_the_library_fall_asleep();
  const pid_t child = ::fork();
  if (child == 0) {
    forked = true;
    const int status = body();
    if (by_exit) std::exit(status);
    ::_exit(status);
  }
  int status = 0;
  const auto deadline = testkit::SteadyClock::now() + testkit::patience;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (testkit::SteadyClock::now() > deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(1ms);  // waitpid() has no deadline.
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// The line of a child's first unmet condition.
#define REQUIRE_IN_CHILD(condition)              \
  do {                                           \
    if (!(condition)) return __LINE__ % 200 + 1; \
  } while (false)

Errc refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.errc();
  }
  return Errc();
}

// --- Signals ------------------------------------------------------------------------------------------------------

// What every thread of this process but the calling one blocks.
std::vector<std::uint64_t> blocked_by_others() {
  std::vector<std::uint64_t> masks;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigBlk:")) masks.push_back(std::stoull(line.substr(7), nullptr, 16));
    }
  }
  return masks;
}

bool only_what_comes_from_outside(std::uint64_t blocked) {
  const auto has = [blocked](int signal) { return (blocked >> static_cast<unsigned>(signal - 1) & 1U) != 0; };
  const auto outside = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGPIPE, SIGQUIT, SIGRTMIN + 3};
  // What an error of the thread itself raises has to reach the program's handler.
  const auto errors = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  return std::ranges::all_of(outside, has) && std::ranges::none_of(errors, has);
}

class Citizen : public ::testing::Test {
 protected:
  std::string hosts() { return server.connect_string(); }
  zktesting::Server server;
};

TEST_F(Citizen, ThreadsBlockAllSignals) {
  Client client(hosts());
  zkrecipes::LeaderSelector selector(client, "/select", [](std::stop_token, zkrecipes::SelectedLeadership&) {});
  selector.start();
  client.create("/x");
  // A thread that has only just begun blocks everything, until the C library gives it the mask it is to have.
  EXPECT_TRUE(testkit::eventually([] {
    return std::ranges::count_if(blocked_by_others(), only_what_comes_from_outside) >= 3;
  })) << "a sanitizer may have threads of its own, we have three";
  sigset_t mine;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGTERM), 0) << "the caller's own mask is what it was";
}

// The usual way of a service: block, make all threads, then wait for the signal in one place.
TEST_F(Citizen, ASignalThatTheProgramBlocksLaterKillsNobody) {
  const std::string where = hosts();
  const int status = in_child([where] {
    Client client(where);
    client.create("/service", "", {}, {.deadline = testkit::soon()});
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    REQUIRE_IN_CHILD(::pthread_sigmask(SIG_BLOCK, &stop, nullptr) == 0);
    REQUIRE_IN_CHILD(::kill(::getpid(), SIGTERM) == 0);  // For the process: any thread that does not block it gets it.
    int got = 0;
    REQUIRE_IN_CHILD(::sigwait(&stop, &got) == 0);
    REQUIRE_IN_CHILD(got == SIGTERM);
    client.set("/service", "stopping");
    client.close();
    return well;
  });
  EXPECT_EQ(status, well);
}

// --- Forks --------------------------------------------------------------------------------------------------------

TEST_F(Citizen, CallsOfAForkedChildFailAtOnceAndTheParentIsUnharmed) {
  // A call that waited in the child would not end before the child is killed.
  Client client(hosts(), {.session_timeout = 30s, .operation_timeout = 10min});
  zkrecipes::Mutex mutex(client, "/lock");
  zkrecipes::Queue queue(client, "/queue");
  zkrecipes::Group group(client, "/group");
  zkrecipes::Membership member = group.join("parent");
  zkrecipes::ServiceDirectory directory(client, "/services");
  zkrecipes::Registration registration = directory.register_instance({.name = "s", .id = "parent"});
  const zkrecipes::ServiceProvider provider = directory.provider("s");
  EXPECT_EQ(provider.wait_ready().instances.size(), 1U);
  const zkrecipes::Lease lease = mutex.acquire();
  client.create("/ephemeral", "", {.mode = zkclient::CreateMode::ephemeral});
  const auto session = client.session();
  client.set("/ephemeral", "x");
  // Busy while the process forks: the child finds the library in the middle of anything.
  std::jthread busy;
  if (allocations_survive_a_fork) {
    busy = std::jthread([&](const std::stop_token& stop) {
      while (!stop.stop_requested())
        client.set("/ephemeral", "x");
    });
  }
  for (int round = 0; round < 20; ++round) {
    const int status = in_child([&] {
      REQUIRE_IN_CHILD(refusal([&] { client.get("/ephemeral"); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { client.set("/ephemeral", "of the child"); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { client.connect(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)mutex.acquire(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)mutex.try_acquire_for(10min); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { queue.push("item"); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)mutex.contenders(); }) == Errc::forked);
      bool told = false;
      client.async_get("/ephemeral",
                       [&](zkclient::Result<zkclient::NodeData> result) { told = result.code() == Errc::forked; });
      REQUIRE_IN_CHILD(told);
      REQUIRE_IN_CHILD(refusal([&] { (void)group.members(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)group.join("child"); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { member.update("of the child"); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { member.leave(); }) == Errc::forked);
      REQUIRE_IN_CHILD(member.state() == zkrecipes::PresenceState::left && !member.valid());
      REQUIRE_IN_CHILD(refusal([&] { (void)directory.services(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { registration.unregister(); }) == Errc::forked);
      REQUIRE_IN_CHILD(registration.state() == zkrecipes::PresenceState::left);
      REQUIRE_IN_CHILD(provider.pick() == nullptr && provider.instances().instances.empty());
      REQUIRE_IN_CHILD(!lease.valid());  // It is the parent's.
      REQUIRE_IN_CHILD(client.session().state() == zkclient::ConnectionState::closed);
      REQUIRE_IN_CHILD(session.state() == zkclient::ConnectionState::closed);
      client.close();
      return well;
    });
    ASSERT_EQ(status, well) << "round " << round;
  }
  busy = {};
  EXPECT_TRUE(lease.valid());
  EXPECT_TRUE(member.valid());
  EXPECT_EQ(registration.state(), zkrecipes::PresenceState::present);
  EXPECT_NE(provider.pick(), nullptr);
  EXPECT_EQ(group.members().members.size(), 1U);
  EXPECT_EQ(client.session(), session);
  EXPECT_EQ(client.session().state(), zkclient::ConnectionState::connected);
  EXPECT_EQ(client.get("/ephemeral").data, "x");
}

TEST_F(Citizen, DestructorsInAForkedChildTouchNothing) {
  testkit::TemporaryFolder folder;
  auto client = std::make_unique<Client>(hosts(), zkclient::ClientOptions{.session_timeout = 30s});
  auto mutex = std::make_unique<zkrecipes::Mutex>(*client, "/lock");
  auto queue = std::make_unique<zkrecipes::Queue>(*client, "/queue");
  auto lease = std::make_unique<zkrecipes::Lease>(mutex->acquire());
  auto log = std::make_unique<zkrecipes::FileLog>(folder.path() / "log");
  auto group = std::make_unique<zkrecipes::Group>(*client, "/group");
  auto member = std::make_unique<zkrecipes::Membership>(group->join("parent"));
  EXPECT_EQ(group->members().members.size(), 1U);
  auto directory = std::make_unique<zkrecipes::ServiceDirectory>(*client, "/services");
  auto dynamic = std::make_unique<zkrecipes::Registration>(directory->register_instance({.name = "s", .id = "a"}));
  auto fixed = std::make_unique<zkrecipes::Registration>(
      directory->register_instance({.name = "s", .id = "b", .type = zkrecipes::ServiceType::fixed}));
  auto provider = std::make_unique<zkrecipes::ServiceProvider>(directory->provider("s"));
  EXPECT_EQ(provider->wait_ready().instances.size(), 2U);
  queue->push("item");
  auto claim = std::make_unique<zkrecipes::Claim>(queue->claim());
  auto watched = std::make_unique<zkclient::Watched<zkclient::NodeData>>(
      client->get_and_watch("/lock", [](const zkclient::WatchEvent&) {}));
  auto states = std::make_unique<zkclient::Subscription>(client->on_state_change([](const zkclient::StateChange&) {}));
  auto selector = std::make_unique<zkrecipes::LeaderSelector>(*client, "/select",
                                                              [](std::stop_token stop, zkrecipes::SelectedLeadership&) {
                                                                std::atomic<bool> stopped{false};
                                                                const std::stop_callback told(stop, [&] {
                                                                  stopped = true;
                                                                  stopped.notify_all();
                                                                });
                                                                stopped.wait(false);
                                                              });
  selector->start();
  ASSERT_TRUE(testkit::eventually([&] { return selector->is_leader(); }));
  const int status = in_child([&] {
    selector.reset();
    states.reset();
    watched.reset();
    claim.reset();
    log.reset();
    lease.reset();
    member.reset();
    group.reset();
    provider.reset();
    fixed.reset();
    dynamic.reset();
    directory.reset();
    queue.reset();
    mutex.reset();
    client.reset();
    return well;
  });
  EXPECT_EQ(status, well);
  EXPECT_TRUE(lease->valid());
  EXPECT_TRUE(client->exists(zkclient::Path(lease->node())));
  EXPECT_TRUE(member->valid());
  EXPECT_TRUE(client->exists("/group/parent"));
  EXPECT_EQ(directory->instances("s").instances.size(), 2U);
  EXPECT_EQ(dynamic->state(), zkrecipes::PresenceState::present);
  EXPECT_NE(provider->pick(), nullptr);
  EXPECT_TRUE(selector->is_leader());
  EXPECT_TRUE(watched->watch().armed());
  claim->commit();
}

TEST_F(Citizen, SelectorsOfAForkedChildFailAtOnce) {
  Client client(hosts(), {.session_timeout = 30s, .operation_timeout = 10min});
  const auto lead = [](const std::stop_token& stop, zkrecipes::SelectedLeadership&) {
    EXPECT_TRUE(testkit::stopped(stop, 10min));
  };
  auto never_started = std::make_unique<zkrecipes::LeaderSelector>(client, "/never", lead);
  auto started = std::make_unique<zkrecipes::LeaderSelector>(client, "/started", lead);
  started->start();
  ASSERT_TRUE(testkit::eventually([&] { return started->is_leader(); }));
  // The selector's lock is in use while the process forks.
  std::jthread asking([&](const std::stop_token& stop) {
    while (!stop.stop_requested())
      (void)started->is_leader();
  });
  for (int round = 0; round < 20; ++round) {
    const int status = in_child([&] {
      for (auto* const selector : {&never_started, &started}) {
        REQUIRE_IN_CHILD(refusal([&] { (*selector)->start(); }) == Errc::forked);
        REQUIRE_IN_CHILD(refusal([&] { (*selector)->close(); }) == Errc::forked);
        (*selector)->requeue();
        (*selector)->step_down();
        REQUIRE_IN_CHILD(!(*selector)->is_leader());
        selector->reset();
      }
      return well;
    });
    ASSERT_EQ(status, well) << "round " << round;
  }
  asking = {};
  EXPECT_TRUE(started->is_leader());
}

// A thread of the parent is inside one of these locks whenever the process forks.
TEST_F(Citizen, LocksThatTheParentsThreadsHoldStopNoForkedChild) {
  testkit::TemporaryFolder folder;
  Client client(hosts(), {.session_timeout = 30s, .operation_timeout = 10min});
  auto barrier = std::make_unique<zkrecipes::DoubleBarrier>(client, "/barrier", 1);
  auto participant = std::make_unique<zkrecipes::CommitParticipant>(
      client, "/commit", "ann", std::make_shared<zkrecipes::FileLog>(folder.path() / "log"));
  auto election = std::make_unique<zkrecipes::LeaderElection>(client, "/election");
  auto mutex = std::make_unique<zkrecipes::RecursiveMutex>(client, "/lock");
  client.create("/watched");
  auto watched = std::make_unique<zkclient::Watched<zkclient::NodeData>>(
      client.get_and_watch("/watched", [](const zkclient::WatchEvent&) {}));
  auto cache = std::make_unique<zkrecipes::NodeCache>(client, "/watched");
  (void)cache->wait_ready();
  barrier->enter();
  const auto handlers = [] {
    const auto nothing = [](const zkrecipes::CommitTransaction&) {};
    const auto vote = [](const zkrecipes::CommitTransaction&) { return zkrecipes::CommitVote::yes(); };
    return zkrecipes::CommitHandlers{vote, nothing, nothing};
  };
  const auto repeat = [](auto call) {
    return std::jthread([call](const std::stop_token& stop) {
      while (!stop.stop_requested())
        call();
    });
  };
  std::vector<std::jthread> busy;
  busy.push_back(repeat([&] { (void)barrier->inside(); }));
  busy.push_back(repeat([&] { (void)participant->in_doubt(); }));
  busy.push_back(repeat([&] { (void)watched->watch().armed(); }));
  busy.push_back(repeat([&] { (void)mutex->depth(); }));
  busy.push_back(repeat([&] { (void)cache->snapshot(); }));
  for (int round = 0; round < 20; ++round) {
    const int status = in_child([&] {
      REQUIRE_IN_CHILD(!barrier->inside());
      REQUIRE_IN_CHILD(!barrier->lost().stop_possible());
      REQUIRE_IN_CHILD(refusal([&] { barrier->enter(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { barrier->leave(); }) == Errc::forked);
      barrier.reset();
      REQUIRE_IN_CHILD(refusal([&] { (void)participant->in_doubt(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { participant->resolve("x", true); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { participant->serve(handlers()); }) == Errc::forked);
      participant.reset();
      REQUIRE_IN_CHILD(refusal([&] { (void)election->campaign(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { election->resign(); }) == Errc::forked);
      election.reset();
      REQUIRE_IN_CHILD(refusal([&] { mutex->lock(); }) == Errc::forked);
      mutex->unlock();
      REQUIRE_IN_CHILD(mutex->depth() == 0);
      mutex.reset();
      REQUIRE_IN_CHILD(!watched->watch().armed());
      watched.reset();
      REQUIRE_IN_CHILD(cache->snapshot().revision() == 0);
      REQUIRE_IN_CHILD(cache->state() == zkrecipes::CacheState::closed);
      REQUIRE_IN_CHILD(!cache->problem());
      REQUIRE_IN_CHILD(refusal([&] { (void)cache->on_state([](zkrecipes::CacheState) {}); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)cache->refresh(); }) == Errc::forked);
      cache.reset();
      return well;
    });
    ASSERT_EQ(status, well) << "round " << round;
  }
  busy.clear();
  EXPECT_TRUE(barrier->inside());
  EXPECT_TRUE(watched->watch().armed());
  EXPECT_TRUE(cache->snapshot().exists());
  barrier->leave();
}

// Or parent and child would give out the same ones. Threads of the parent are inside the locks when it forks.
TEST_F(Citizen, IdsAtHandAreTheParents) {
  Client client(hosts(), {.session_timeout = 30s, .operation_timeout = 10min});
  auto ids = std::make_unique<zkrecipes::IdBlocks>(client, "/ids", zkrecipes::IdBlocksOptions{.block = 1'000'000'000});
  auto workers = std::make_unique<zkrecipes::WorkerIds>(client, "/workers");
  auto worker = std::make_unique<zkrecipes::WorkerId>(workers->acquire());
  auto bank = std::make_unique<zkrecipes::Optimistic>(client, "/bank");
  const std::int64_t first = ids->next();
  std::vector<std::jthread> busy;
  if (allocations_survive_a_fork) {
    busy.emplace_back([&](const std::stop_token& stop) {
      while (!stop.stop_requested())
        (void)ids->next();
    });
    busy.emplace_back([&](const std::stop_token& stop) {
      while (!stop.stop_requested())
        (void)refusal([&] { (void)worker->next(); });
    });
  }
  for (int round = 0; round < 20; ++round) {
    const int status = in_child([&] {
      REQUIRE_IN_CHILD(refusal([&] { (void)ids->next(); }) == Errc::forked);
      ids.reset();
      REQUIRE_IN_CHILD(refusal([&] { (void)worker->next(); }) == Errc::not_held);
      worker.reset();
      REQUIRE_IN_CHILD(refusal([&] { (void)workers->acquire(); }) == Errc::forked);
      workers.reset();
      const auto read = [](zkrecipes::OptimisticView& view) { (void)view.find("/bank"); };
      REQUIRE_IN_CHILD(refusal([&] { bank->atomically(read); }) == Errc::forked);
      bank.reset();
      return well;
    });
    ASSERT_EQ(status, well) << "round " << round;
  }
  busy.clear();
  EXPECT_GT(ids->next(), first);
  EXPECT_GT(worker->next(), 0);
}

TEST_F(Citizen, PartitionsAreTheParents) {
  Client client(hosts(), {.session_timeout = 30s, .operation_timeout = 10min});
  testkit::Box<zkrecipes::Partition> got;
  auto partitioner =
      std::make_unique<zkrecipes::Partitioner>(client, "/partitions", zkrecipes::PartitionSource::numbered(1),
                                               [&](zkrecipes::Partition partition) { got.put(std::move(partition)); });
  partitioner->start();
  const zkrecipes::Partition partition = got.take();
  auto map = std::make_unique<zkrecipes::PartitionMap>(client, "/partitions");
  EXPECT_EQ(map->wait_owner("0").token, partition.token());
  for (int round = 0; round < 20; ++round) {
    const int status = in_child([&] {
      REQUIRE_IN_CHILD(!partition.valid());
      REQUIRE_IN_CHILD(partitioner->owned().empty());
      REQUIRE_IN_CHILD(!partitioner->problem());
      REQUIRE_IN_CHILD(refusal([&] { partitioner->start(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { partitioner->leave(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { partitioner->stop(); }) == Errc::forked);
      REQUIRE_IN_CHILD(!map->owner("0"));
      REQUIRE_IN_CHILD(map->owners().empty());
      REQUIRE_IN_CHILD(refusal([&] { (void)map->wait_owner("0"); }) == Errc::forked);
      map.reset();
      partitioner.reset();
      return well;
    });
    ASSERT_EQ(status, well) << "round " << round;
  }
  EXPECT_TRUE(partition.valid());
  EXPECT_EQ(partitioner->owned().size(), 1U);
}

TEST_F(Citizen, PrimariesAreTheParents) {
  Client client(hosts(), {.session_timeout = 30s, .operation_timeout = 10min});
  testkit::Box<zkrecipes::Primary> got;
  auto node = std::make_unique<zkrecipes::PrimaryNode>(
      client, "/primaries", [&](zkrecipes::Primary primary) { got.put(std::move(primary)); });
  node->start();
  auto monitor = std::make_unique<zkrecipes::PrimaryMonitor>(client, "/primaries", std::vector<std::string>{"only"});
  monitor->start();
  const zkrecipes::Primary primary = got.take();
  for (int round = 0; round < 20; ++round) {
    const int status = in_child([&] {
      REQUIRE_IN_CHILD(!primary.valid());
      REQUIRE_IN_CHILD(node->held().empty());
      REQUIRE_IN_CHILD(!node->problem());
      REQUIRE_IN_CHILD(refusal([&] { node->start(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { node->update_status("x"); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { node->leave(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { node->stop(); }) == Errc::forked);
      REQUIRE_IN_CHILD(!monitor->leads());
      REQUIRE_IN_CHILD(!monitor->problem());
      REQUIRE_IN_CHILD(refusal([&] { monitor->start(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { monitor->move("only", node->id()); }) == Errc::forked);
      monitor.reset();
      node.reset();
      return well;
    });
    ASSERT_EQ(status, well) << "round " << round;
  }
  EXPECT_TRUE(primary.valid());
  EXPECT_TRUE(monitor->leads());
  EXPECT_EQ(node->held().size(), 1U);
}

// The job's thread is the parent's, in the middle of a run.
TEST_F(Citizen, JobsAreTheParents) {
  Client client(hosts(), {.session_timeout = 30s, .operation_timeout = 10min});
  testkit::Box<int> begun;
  std::stop_source ended;
  const std::stop_token end = ended.get_token();
  auto job = std::make_unique<zkrecipes::PeriodicJob>(client, "/job", zkrecipes::every(1ms),
                                                      [&](const std::stop_token&, const zkrecipes::JobFiring&) {
                                                        begun.put(1);
                                                        EXPECT_TRUE(testkit::stopped(end));
                                                      });
  job->start();
  (void)begun.take();
  for (int round = 0; round < 20; ++round) {
    const int status = in_child([&] {
      REQUIRE_IN_CHILD(!job->is_running());
      REQUIRE_IN_CHILD(refusal([&] { job->start(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { job->close(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)job->status(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)job->history(); }) == Errc::forked);
      job.reset();
      return well;
    });
    ASSERT_EQ(status, well) << "round " << round;
  }
  EXPECT_TRUE(job->is_running());
  ended.request_stop();
  job->close({.deadline = testkit::soon()});
}

TEST_F(Citizen, KeptNodesAreTheParents) {
  using zkrecipes::PresenceState;
  Client client(hosts(), {.session_timeout = 30s, .operation_timeout = 10min});
  auto node = std::make_unique<zkrecipes::PersistentNode>(client, "/nodes/node");
  auto ttl_node = std::make_unique<zkrecipes::PersistentTtlNode>(client, "/nodes/ttl", 1h);
  node->wait_created();
  ttl_node->wait_created();
  for (int round = 0; round < 20; ++round) {
    const int status = in_child([&] {
      REQUIRE_IN_CHILD(node->state() == PresenceState::left);
      REQUIRE_IN_CHILD(ttl_node->state() == PresenceState::left);
      REQUIRE_IN_CHILD(!node->problem() && !ttl_node->problem());
      REQUIRE_IN_CHILD(refusal([&] { node->set_data("x"); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { node->remove(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { ttl_node->wait_created(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { ttl_node->remove(); }) == Errc::forked);
      node.reset();
      ttl_node.reset();
      return well;
    });
    ASSERT_EQ(status, well) << "round " << round;
  }
  EXPECT_EQ(node->state(), PresenceState::present);
  EXPECT_EQ(ttl_node->state(), PresenceState::present);
  ttl_node->remove();
}

TEST_F(Citizen, PlacementsAreTheParents) {
  Client client(hosts(), {.session_timeout = 30s, .operation_timeout = 10min});
  testkit::Box<int> opened;
  const zkrecipes::PlacerOptions options{.replicas = 1, .settle = 1ms};
  auto placer = std::make_unique<zkrecipes::Placer>(client, "/placed", std::vector<std::string>{"one"}, options);
  zkrecipes::HostedReplicasHandlers handlers;
  handlers.open = [&](const zkrecipes::HostedReplica&) { opened.put(1); };
  handlers.close = [](const zkrecipes::HostedReplica&) {};
  auto host =
      std::make_unique<zkrecipes::HostedReplicas>(client, "/placed", zkrecipes::ReplicaHost{"a"}, std::move(handlers));
  auto map = std::make_unique<zkrecipes::PlacementMap>(client, "/placed");
  placer->start();
  host->start();
  (void)opened.take();
  for (int round = 0; round < 20; ++round) {
    const int status = in_child([&] {
      REQUIRE_IN_CHILD(!placer->leads());
      REQUIRE_IN_CHILD(!placer->problem());
      REQUIRE_IN_CHILD(refusal([&] { placer->start(); }) == Errc::forked);
      REQUIRE_IN_CHILD(host->hosted().empty());
      REQUIRE_IN_CHILD(!host->problem());
      REQUIRE_IN_CHILD(refusal([&] { host->start(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { host->drain(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { host->leave(); }) == Errc::forked);
      REQUIRE_IN_CHILD(map->partitions().empty());
      REQUIRE_IN_CHILD(refusal([&] { (void)map->wait_primary("one"); }) == Errc::forked);
      map.reset();
      host.reset();
      placer.reset();
      return well;
    });
    ASSERT_EQ(status, well) << "round " << round;
  }
  EXPECT_TRUE(placer->leads());
  EXPECT_EQ(host->hosted(), std::vector<std::string>{"one"});
}

TEST_F(Citizen, CallsOfTheNewestRecipesFailInAForkedChild) {
  Client client(hosts(), {.session_timeout = 30s, .operation_timeout = 10min});
  auto latch = std::make_unique<zkrecipes::Latch>(client, "/latch", 3);
  auto migrations = std::make_unique<zkrecipes::Migrations>(client, "/locks", "/records");
  auto delays = std::make_unique<zkrecipes::DelayQueue>(client, "/delays");
  auto ids = std::make_unique<zkrecipes::IdQueue>(client, "/ids");
  const zkrecipes::MigrationSet set("set");
  latch->count_down();
  (void)migrations->migrate(set);
  ids->push("item", "id");
  for (int round = 0; round < 20; ++round) {
    const int status = in_child([&] {
      REQUIRE_IN_CHILD(refusal([&] { latch->count_down(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { latch->wait(); }) == Errc::forked);
      latch.reset();
      REQUIRE_IN_CHILD(refusal([&] { (void)migrations->migrate(set); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)migrations->pending(set); }) == Errc::forked);
      migrations.reset();
      REQUIRE_IN_CHILD(refusal([&] { delays->push("item", {}); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)delays->pop(); }) == Errc::forked);
      delays.reset();
      REQUIRE_IN_CHILD(refusal([&] { (void)ids->remove("id"); }) == Errc::forked);
      ids.reset();
      return well;
    });
    ASSERT_EQ(status, well) << "round " << round;
  }
  EXPECT_EQ(latch->left(), 2);
  EXPECT_EQ(ids->remove("id"), 1U);
}

// A child's own client has something to say, too.
TEST_F(Citizen, AForkedChildLogsAlthoughItsParentWasLogging) {
  using zkclient::LogLevel;
  using zkclient::detail::deliver_log;
  std::atomic<bool> inside{false};
  std::atomic<bool> ended{false};
  std::atomic<int> messages{0};
  zkclient::set_log_handler([&](LogLevel, std::string_view message) {
    ++messages;
    if (message != "stay") return;
    inside = true;
    ended.wait(false);
  });
  std::jthread staying([] { deliver_log({LogLevel::error, "stay"}); });
  std::jthread busy([&](const std::stop_token& stop) {
    while (!stop.stop_requested())
      deliver_log({LogLevel::error, "of the parent"});
  });
  EXPECT_TRUE(testkit::eventually([&] { return inside.load() && messages > 1; }));
  int status = well;
  for (int round = 0; round < 50 && status == well; ++round) {
    status = in_child([&] {
      const int before = messages;
      deliver_log({LogLevel::error, "of the child"});
      REQUIRE_IN_CHILD(messages == before + 1);
      // The parent's thread that is inside the former handler is not here.
      zkclient::set_log_handler([](LogLevel, std::string_view) {});
      return well;
    });
    EXPECT_EQ(status, well) << "round " << round;
  }
  ended = true;
  ended.notify_all();
  busy = {};
  staying = {};
  zkclient::set_log_handler({});
}

TEST_F(Citizen, AForkedChildWithAStaticClientExits) {
  static std::unique_ptr<Client> kept;  // Destroyed by exit().
  kept = std::make_unique<Client>(hosts());
  kept->create("/parents");
  EXPECT_EQ(in_child([] { return well; }, true), well);
  EXPECT_EQ(kept->get("/parents").data, "");
  kept.reset();
}

TEST_F(Citizen, AForkedChildMayHaveAClientOfItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer refuses threads of a forked child";
#endif
  static std::unique_ptr<Client> kept;
  kept = std::make_unique<Client>(hosts());
  kept->connect();
  const std::string where = hosts();
  EXPECT_EQ(in_child(
                [where] {
                  Client own(where);
                  own.create("/childs", "", {}, {.deadline = testkit::soon()});
                  return well;
                },
                true),
            well);
  EXPECT_TRUE(kept->exists("/childs"));
  kept.reset();
}

// Its last reply came in time; only the process was late.
TEST_F(Citizen, AProcessThatIsStoppedWhileItClosesLeavesNoSession) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer refuses threads of a forked child";
#endif
  zktesting::Proxy proxy(hosts());
  const std::string where = proxy.connect_string();
  const Client observer(hosts());
  observer.connect();
  pid_t child = 0;
  int status = 0;
  std::string node;
  bool stopped_in_time = false;
  // Again, if the child had given up before it was stopped: it waits for its reply for a second.
  for (int attempt = 0; attempt < 20 && !stopped_in_time; ++attempt) {
    node = "/childs-" + std::to_string(attempt);
    auto held = proxy.hold_next_reply(zktesting::RequestType::get_data);
    child = ::fork();
    if (child == 0) {
      forked = true;
      {
        const Client own(where, {.session_timeout = 30s});
        own.create(node, "", {.mode = zkclient::CreateMode::ephemeral}, {.deadline = testkit::soon()});
        own.async_get("/", [](const auto&) {});
      }
      ::_exit(well);
    }
    EXPECT_TRUE(held.wait(testkit::patience));
    testkit::let_age(200ms);  // So that it closes, and waits for its reply.
    ::kill(child, SIGSTOP);
    ::waitpid(child, &status, WUNTRACED);
    stopped_in_time = WIFSTOPPED(status) && observer.exists(node);
    held.release();
    if (stopped_in_time || !WIFSTOPPED(status)) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  ASSERT_TRUE(stopped_in_time);
  testkit::let_age(1500ms);  // Its second is over, and its reply is there.
  const auto resumed = testkit::SteadyClock::now();
  ::kill(child, SIGCONT);
  EXPECT_TRUE(testkit::eventually([&] { return !observer.exists(node); }));
  EXPECT_LT(testkit::SteadyClock::now() - resumed, 20s) << "only its time-out ended the session";
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, well);
}

// --- What the system refuses --------------------------------------------------------------------------------------

// In a child, so that the limit goes with it.
bool limit_to(__rlimit_resource resource, rlim_t limit) {
  rlimit now{};
  ::getrlimit(resource, &now);
  now.rlim_cur = limit;
  return ::setrlimit(resource, &now) == 0;
}

TEST_F(Citizen, WithoutDescriptorsItIsOurError) {
  const std::string where = hosts();
  for (rlim_t more = 0; more < 6; ++more) {
    const auto used = static_cast<rlim_t>(testkit::descriptor_count());
    const int status = in_child([&] {
      REQUIRE_IN_CHILD(limit_to(RLIMIT_NOFILE, used + more));
      const auto names_descriptors = [](const std::string& what) {
        return what.find("descriptor") != std::string::npos || what.find("open files") != std::string::npos;
      };
      try {
        const Client client(where);
        std::string what;
        // Until it succeeds, or says what is missing. How long that takes is the machine's affair.
        return testkit::eventually([&] {
          try {
            client.get("/", {.deadline = testkit::SteadyClock::now() + 100ms});
            return true;
          } catch (const Error& error) {
            return names_descriptors(what = error.what());
          }
        })
                   ? well
                   : (std::cerr << what << "\n", 1);
      } catch (const Error& error) {
        return names_descriptors(error.what()) ? well : 1;
      } catch (const std::exception&) {
        return 2;
      }
    });
    EXPECT_EQ(status, well) << more << " descriptors left";
  }
}

TEST_F(Citizen, WithoutThreadsItIsOurError) {
  const std::string where = hosts();
  const int status = in_child([&] {
    rlimit none{0, 0};
    REQUIRE_IN_CHILD(::getuid() != 0 || (::setgid(65534) == 0 && ::setuid(65534) == 0));
    REQUIRE_IN_CHILD(::setrlimit(RLIMIT_NPROC, &none) == 0);
    try {
      const Client client(where);
    } catch (const Error& error) {
      return error.errc() == Errc::system_error ? well : 1;
    } catch (const std::exception&) {
      return 2;
    }
    return 3;
  });
  EXPECT_EQ(status, well);
}

// The heap has room whatever the tests before have left of it: the stacks of threads are what there is no memory for.
void make_room_in_the_heap() {
  constexpr std::size_t block = std::size_t{1} << 20U;
  constexpr std::size_t blocks = 64;
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_MMAP_THRESHOLD, static_cast<int>(2 * block));
  ::mallopt(M_TRIM_THRESHOLD, static_cast<int>(2 * blocks * block));
  std::vector<std::unique_ptr<char[]>> room(blocks);
  for (auto& part : room)
    part = std::make_unique_for_overwrite<char[]>(block);
}

rlim_t used_address_space() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(Citizen, WithoutMemoryItIsOurError) {
  if (testkit::sanitized) GTEST_SKIP() << "the sanitizer has the memory";
  const std::string where = hosts();
  int refused = 0;
  for (rlim_t more = 0; more <= 64; more += 4) {
    const int status = in_child([&] {
      make_room_in_the_heap();
      REQUIRE_IN_CHILD(limit_to(RLIMIT_AS, used_address_space() + more * 1024 * 1024));
      try {
        std::vector<Client> clients;  // The stacks of the parent's threads are there to be used again.
        for (int i = 0; i < 40; ++i)
          clients.emplace_back(where);
      } catch (const Error& error) {
        return error.errc() == Errc::system_error ? 100 : 1;
      } catch (const std::exception&) {
        return 2;
      }
      return well;
    });
    EXPECT_TRUE(status == well || status == 100) << status << " with " << more << " MB left";
    refused += status == 100 ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace

// A child lacks the stacks of its parent's other threads, and would take for leaked what only those refer to.
extern "C" int __lsan_is_turned_off() { return forked ? 1 : 0; }
