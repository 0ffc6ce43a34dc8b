// A report that one machine of the fleet makes at each firing of its schedule, and who made it.
//   periodic_job [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <semaphore>
#include <stdexcept>
#include <stop_token>
#include <zkclient/client.hpp>
#include <zkrecipes/periodic_job.hpp>

using namespace std::chrono_literals;

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");

  std::counting_semaphore reports(0);
  const auto make_report = [&](const std::stop_token& stop, const zkrecipes::JobFiring& firing) {
    // What the report is written to should refuse a token that is lower than one it has seen.
    std::printf("run %d of its firing, token %lld\n", firing.attempt(),
                static_cast<long long>(firing.lease().token().value));
    if (stop.stop_requested()) throw std::runtime_error("told to stop: somebody else shall make it");
    reports.release();
  };

  // In earnest: zkrecipes::daily_at("02:30", "Europe/Berlin").
  zkrecipes::PeriodicJob job(client, "/examples/report", zkrecipes::every(200ms), make_report);
  job.start();
  for (int i = 0; i < 2; ++i)
    reports.acquire();
  job.close({.deadline = 10s});

  for (const zkrecipes::JobRun& run : job.history()) {
    std::printf("%s: %s, %lld ms\n", run.runner.c_str(), zkrecipes::to_string(run.outcome),
                static_cast<long long>(run.duration.value_or(0ms).count()));
    if (run.outcome != zkrecipes::JobOutcome::succeeded) return EXIT_FAILURE;
  }
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
