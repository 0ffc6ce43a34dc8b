// A job that runs on one host of a fleet at a time. When that host dies, another one goes on where it stopped.
//   singleton_job RUN STEPS    RUN names what is to be done once: a date, say. Servers: $ZKRECIPES_SERVER
// Start it on every host, by a timer. It ends when the run is done, whichever host has done it.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <string>
#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>

using namespace std::chrono_literals;

namespace {

// One step of the work; false if it was stopped. A host can die between a step and its record, so the next host may do
// the step again: what it does must bear that.
bool do_step(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  return !never.wait_for(lock, stop, 50ms, [] { return false; }) && !stop.stop_requested();
}

class Job {
 public:
  Job(zkclient::Client client, const std::string& run, int steps)
      : client_(std::move(client)), record_(zkclient::Path("/cookbook/job/runs") / run), steps_(steps) {}

  // Throws zkclient::Error if the lock is lost meanwhile.
  void work(const zkrecipes::Lease& lease) const {
    // What the former holder wrote is seen here: its writes came before the end of its lock.
    client_.ensure(record_, zkclient::CreateMode::persistent);
    const std::string done = client_.get(record_).data;
    int step = done.empty() ? 0 : std::stoi(done);
    std::printf("holding, token %lld, %d of %d steps are done\n", static_cast<long long>(lease.token().value), step,
                steps_);
    while (step < steps_ && do_step(lease.lost())) {
      // The record is written only if the lock is still ours when the server gets it. A process that was paused, and
      // does not know yet that another host has the lock, cannot put the record back. A store of your own gets
      // lease.token() instead, and refuses tokens lower than the highest that it has seen.
      zkclient::Transaction record = lease.transaction();
      record.set(record_, std::to_string(step + 1));
      client_.commit(record);
      std::printf("step %d\n", ++step);
    }
    if (step < steps_) throw zkclient::Error(zkclient::Errc::not_held, "do a step", record_);
  }

 private:
  const zkclient::Client client_;
  const zkclient::Path record_;
  const int steps_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: singleton_job RUN STEPS\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // A log shows each line at once.
  const char* server = std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  const Job job(client, argv[1], std::stoi(argv[2]));
  zkrecipes::Mutex mutex(client, "/cookbook/job/lock");
  for (;;) {
    try {
      zkrecipes::Lease lease = mutex.acquire();  // Waits its turn, also for servers that are not up yet.
      job.work(lease);
      std::puts("done");
      return EXIT_SUCCESS;  // The lease's destructor gives the lock back.
    } catch (const zkclient::Error& error) {
      // The lock is lost, or a record is in doubt. Queue again: the record tells the next holder how far the job is.
      // A refusal (no_auth, say) would only come again.
      if (error.kind() == zkclient::ErrorKind::precondition && error.errc() != zkclient::Errc::transaction_failed)
        throw;
      std::printf("stopped: %s\n", error.what());
    }
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "singleton_job: %s\n", error.what());
  return EXIT_FAILURE;
}
