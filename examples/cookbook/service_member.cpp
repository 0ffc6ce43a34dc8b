// A member of a service: the others see it come and go, and it follows a configuration. It uses both: the members share
// out a rate of requests, which operators may change at any time.
//   service_member NAME FILE    FILE keeps the last good configuration. Servers: $ZKRECIPES_SERVER
// SIGTERM leaves and ends it.

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <zkclient/client.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/group.hpp>

using namespace std::chrono_literals;

namespace {

struct Settings {
  int requests_per_second = 0;
};

// What it throws keeps a bad value out of force: the last good one stays.
Settings parse(const zkrecipes::ConfigurationValues& values) {
  const int rate = std::stoi(values.at("requests-per-second"));
  if (rate <= 0) throw std::invalid_argument("requests-per-second has to be positive");
  return {rate};
}

// What the service makes of both. The two kinds of listeners may run at the same time, on different threads.
class Limiter {
 public:
  void set_rate(int requests_per_second) {
    const std::lock_guard lock(mutex_);
    rate_ = requests_per_second;
    share_out();
  }
  void set_members(std::size_t members) {
    const std::lock_guard lock(mutex_);
    members_ = members;
    share_out();
  }

 private:
  void share_out() const {
    if (rate_ == 0 || members_ == 0) return;  // Not known yet.
    std::printf("limit %d: %d for %zu members\n", rate_ / static_cast<int>(members_), rate_, members_);
  }

  std::mutex mutex_;
  int rate_ = 0;
  std::size_t members_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: service_member NAME FILE\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // A log shows each line at once.
  // All threads inherit this, so that the signal waits for sigwait() below.
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  const std::string name = argv[1];
  const char* server = std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  Limiter limiter;

  // With `report`, the publisher can wait until each member has a revision in force. With the file, a member starts
  // with the last good configuration when there is no server.
  zkrecipes::ConfigurationOptions options;
  options.id = name;
  options.report = true;
  options.fallback_file = argv[2];
  using Configuration = zkrecipes::TypedConfiguration<Settings>;
  Configuration configuration(client, "/cookbook/member/configuration", parse, options);
  const auto settings = configuration.on_change([&](const auto&, const zkrecipes::ConfigurationPtr& now) {
    limiter.set_rate(Configuration::of(now)->requests_per_second);
  });
  const auto refusals = configuration.on_rejected([](const zkrecipes::ConfigurationRejection& rejection) {
    std::printf("refused: revision %lld, %s\n", static_cast<long long>(rejection.revision), rejection.why.c_str());
  });

  // Listed for as long as its session lives; after a lost session it joins again by itself. While there is no
  // connection it goes on with the members that it saw last.
  zkrecipes::Group members(client, "/cookbook/member/members");
  zkrecipes::Membership membership = members.begin_join(name);  // Does not wait for a server.
  const auto changes = members.on_change([&](const auto&, const zkrecipes::GroupSnapshot& now) {
    if (now.complete) limiter.set_members(now.members.size());  // Else one that could not be read may be missing.
  });

  int signal = 0;
  ::sigwait(&ends, &signal);
  membership.leave({.deadline = 5s});  // The others see that at once, not after the session timeout.
  std::puts("left");
} catch (const std::exception& error) {
  std::fprintf(stderr, "service_member: %s\n", error.what());
  return EXIT_FAILURE;
}
