// Workers that share a queue of jobs. No job is lost when a worker dies; a job that cannot be done goes aside.
//   worker_pool WORKERS    Servers: $ZKRECIPES_SERVER
// A job is a number: so many milliseconds of work. SIGTERM ends it: each worker finishes the job that it has.

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>
#include <zkclient/client.hpp>
#include <zkrecipes/queue.hpp>

using namespace std::chrono_literals;

namespace {

// False if it was stopped before.
bool pass(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

void do_job(const zkclient::Client& client, zkrecipes::Claim& job) {
  std::chrono::milliseconds time{};
  try {
    time = std::chrono::milliseconds(std::stoi(job.data()));
  } catch (const std::logic_error&) {
    // No worker can do this one. It goes to the dead letters, with the reason, so that nobody tries it again.
    std::printf("rejected %s: %s\n", job.node().c_str(), job.data().c_str());
    return job.reject("not a number");
  }
  std::printf("started %s, delivery %d\n", job.node().c_str(), job.deliveries());
  if (!pass(time, job.lost())) {
    std::printf("lost %s\n", job.node().c_str());  // Its session is over: another worker may have it.
    return;
  }
  // The result comes before the commit: a worker that dies in between leaves a job that is done a second time. So the
  // result has the name of the job, and to write it twice is to write it once.
  client.ensure(zkclient::Path("/cookbook/results") / job.node(), zkclient::CreateMode::persistent);
  job.commit();
  std::printf("done %s\n", job.node().c_str());
}

void work(const zkclient::Client& client, zkrecipes::Queue& jobs, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      zkrecipes::Claim job = jobs.claim({.stop = stop});  // Waits for a job, also for servers that are away.
      do_job(client, job);                                // Not told to stop: it finishes what it has begun.
    } catch (const zkclient::Error& error) {
      if (error.errc() == zkclient::Errc::cancelled) return;
      // A claim that was not committed is given back. One whose commit is in doubt was done, or comes again.
      std::printf("trouble: %s\n", error.what());
      pass(1s, stop);  // What is refused now may be refused again.
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: worker_pool WORKERS\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // A log shows each line at once.
  // All threads inherit this, so that the signal waits for sigwait() below.
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  const char* server = std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  // A job that kills its worker each time is set aside after the third.
  zkrecipes::Queue jobs(client, "/cookbook/jobs", {.id = "worker-pool", .max_deliveries = 3});
  std::stop_source stop;
  std::vector<std::jthread> workers;
  for (int number = std::stoi(argv[1]); number > 0; --number)
    workers.emplace_back([&] { work(client, jobs, stop.get_token()); });
  std::puts("working");

  int signal = 0;
  ::sigwait(&ends, &signal);
  std::puts("stopping");
  stop.request_stop();
  workers.clear();  // Waits for the workers. A supervisor that kills this process before costs a delivery, not a job.
  std::puts("stopped");
} catch (const std::exception& error) {
  std::fprintf(stderr, "worker_pool: %s\n", error.what());
  return EXIT_FAILURE;
}
