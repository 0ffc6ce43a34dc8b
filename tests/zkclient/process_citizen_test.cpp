// What the library does to the program that it lives in: signals, forks, and a system that refuses resources. Each case
// runs in a process of its own, because it is about the process.

#include <fcntl.h>
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
#include <zkrecipes/guardian.hpp>
#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/participant_log.hpp>
#include <zkrecipes/queue.hpp>
#include <zktesting/server.hpp>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/testkit.hpp"

extern "C" int __lsan_is_turned_off();

namespace {

using namespace std::chrono_literals;
using zkclient::Client;
using zkclient::Errc;
using zkclient::Error;

constexpr int well = 0;
bool forked = false;

// Runs `body` in a forked child, which ends with what it returns; by exit(), with all that does, if `by_exit`. A child
// that hangs is killed: -1.
int in_child(const std::function<int()>& body, bool by_exit = false) {
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
  Client client(hosts(), {.session_timeout = 30s});
  zkrecipes::Mutex mutex(client, "/lock");
  zkrecipes::Queue queue(client, "/queue");
  const zkrecipes::Lease lease = mutex.acquire();
  client.create("/ephemeral", "", {.mode = zkclient::CreateMode::ephemeral});
  const auto session = client.session();
  // Busy while the process forks: the child finds the library in the middle of anything.
  std::atomic<bool> ended{false};
  std::thread busy([&] {
    while (!ended)
      client.set("/ephemeral", "x");
  });
  for (int round = 0; round < 20; ++round) {
    const int status = in_child([&] {
      const auto begin = testkit::SteadyClock::now();
      REQUIRE_IN_CHILD(refusal([&] { client.get("/ephemeral"); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { client.set("/ephemeral", "of the child"); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { client.connect(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)mutex.acquire(); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)mutex.try_acquire_for(10s); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { queue.push("item"); }) == Errc::forked);
      REQUIRE_IN_CHILD(refusal([&] { (void)mutex.contenders(); }) == Errc::forked);
      bool told = false;
      client.async_get("/ephemeral",
                       [&](zkclient::Result<zkclient::NodeData> result) { told = result.code() == Errc::forked; });
      REQUIRE_IN_CHILD(told);
      REQUIRE_IN_CHILD(!lease.valid());  // It is the parent's.
      REQUIRE_IN_CHILD(client.session().state() == zkclient::ConnectionState::closed);
      REQUIRE_IN_CHILD(session.state() == zkclient::ConnectionState::closed);
      client.close();
      REQUIRE_IN_CHILD(testkit::SteadyClock::now() - begin < 5s);
      return well;
    });
    ASSERT_EQ(status, well) << "round " << round;
  }
  ended = true;
  busy.join();
  EXPECT_TRUE(lease.valid());
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
    queue.reset();
    mutex.reset();
    client.reset();
    return well;
  });
  EXPECT_EQ(status, well);
  EXPECT_TRUE(lease->valid());
  EXPECT_TRUE(client->exists(zkclient::Path(lease->node())));
  EXPECT_TRUE(selector->is_leader());
  EXPECT_TRUE(watched->watch().armed());
  claim->commit();
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

// --- What the system refuses --------------------------------------------------------------------------------------

// In a child, so that the limit goes with it.
int with_limit(int resource, rlim_t limit, const std::function<int()>& body) {
  return in_child([&] {
    rlimit now{};
    ::getrlimit(static_cast<__rlimit_resource>(resource), &now);
    now.rlim_cur = limit;
    REQUIRE_IN_CHILD(::setrlimit(static_cast<__rlimit_resource>(resource), &now) == 0);
    return body();
  });
}

constexpr bool sanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

TEST_F(Citizen, WithoutDescriptorsItIsOurError) {
  const std::string where = hosts();
  for (rlim_t more = 0; more < 6; ++more) {
    const auto used = static_cast<rlim_t>(testkit::descriptor_count());
    const int status = with_limit(RLIMIT_NOFILE, used + more, [&] {
      try {
        const Client client(where);
        client.get("/", {.deadline = testkit::SteadyClock::now() + 300ms});
      } catch (const Error& error) {
        const std::string what = error.what();
        if (what.find("descriptor") != std::string::npos || what.find("open files") != std::string::npos) return well;
        std::cerr << what << "\n";
        return 1;
      } catch (const std::exception&) {
        return 2;
      }
      return well;
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

TEST_F(Citizen, WithoutMemoryItIsOurError) {
  if (sanitized) GTEST_SKIP() << "the sanitizer has the memory";
  const std::string where = hosts();
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  const rlim_t used = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  int refused = 0;
  for (rlim_t more = 0; more <= 64; more += 4) {
    const int status = with_limit(RLIMIT_AS, used + more * 1024 * 1024, [&] {
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
