#include "zkclient/detail/servers/resolver.hpp"

#include <algorithm>
#include <mutex>
#include <system_error>

#include "zkclient/detail/process.hpp"

namespace zkclient::detail {

// The state that a look-up's thread and the resolver share. The thread touches the resolver only under this lock, and
// only if it was not abandoned before.
struct Resolver::Shared {
  std::mutex mutex;
  Resolver* resolver = nullptr;  // Null once abandoned.
  bool done = false;
};

Resolver::Resolver(Post post) : post_(std::move(post)), function_(resolve) {}

Resolver::~Resolver() { abandon(); }

Resolver::Ticket Resolver::look_up(const std::vector<Host>& hosts, Done done) {
  auto waiter = std::make_shared<Done>(std::move(done));
  auto job = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& other) { return other.hosts == hosts; });
  if (job == jobs_.end()) job = jobs_.insert(jobs_.end(), Job{hosts});
  job->waiters.emplace_back(waiter);
  start_jobs();
  return waiter;
}

void Resolver::start_jobs() {
  const auto unwanted = [](const Job& job) {
    const auto gone = [](const auto& waiter) { return waiter.expired(); };
    return job.shared == nullptr && std::all_of(job.waiters.begin(), job.waiters.end(), gone);
  };
  std::erase_if(jobs_, unwanted);
  // They start in the order in which they came, so those that run are the first ones.
  std::size_t running = 0;
  for (Job& job : jobs_) {
    if (running == max_threads) return;
    if (job.shared == nullptr && !start(job)) return;
    ++running;
  }
}

bool Resolver::start(Job& job) {
  const auto shared = std::make_shared<Shared>();
  shared->resolver = this;
  auto look_up = [shared, hosts = job.hosts, function = function_] {
    Resolution resolution = function(hosts);
    const std::lock_guard lock(shared->mutex);
    if (shared->resolver == nullptr) return;
    shared->done = true;
    shared->resolver->post_([shared, resolution = std::move(resolution)] {
      if (shared->resolver != nullptr) shared->resolver->finish(shared.get(), resolution);
    });
  };
  job.shared = shared;
  try {
    job.thread = start_thread("zk-resolver", std::move(look_up));
    return true;
  } catch (const std::system_error& error) {  // No thread is to be had: that may change, so it is tried again.
    Resolution none;
    for (const Host& host : job.hosts)
      none.unknown.emplace(to_string(host), "has a name that was not looked up: " + error.code().message());
    post_([shared, none = std::move(none)] {
      if (shared->resolver != nullptr) shared->resolver->finish(shared.get(), none);
    });
    return false;
  }
}

void Resolver::finish(const Shared* which, const Resolution& resolution) {
  const auto found =
      std::find_if(jobs_.begin(), jobs_.end(), [which](const Job& job) { return job.shared.get() == which; });
  std::list<Job> finished;
  finished.splice(finished.end(), jobs_, found);
  Job& job = finished.front();
  if (job.thread.joinable()) job.thread.join();  // Short: it has nothing left to do but return.
  for (const auto& weak : job.waiters) {
    if (const auto waiter = weak.lock()) (*waiter)(resolution);
  }
  start_jobs();
}

void Resolver::abandon() {
  for (Job& job : jobs_) {
    if (job.shared == nullptr) continue;
    bool done = false;
    {
      const std::lock_guard lock(job.shared->mutex);
      job.shared->resolver = nullptr;
      done = job.shared->done;
    }
    if (!job.thread.joinable()) continue;
    if (done) {
      job.thread.join();
    } else {
      job.thread.detach();
    }
  }
  jobs_.clear();
}

}  // namespace zkclient::detail
