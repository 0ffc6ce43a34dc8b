// A process that contends with this library's locks, as CuratorPeer.java and kazoo_peer.py do with theirs:
//   zkrecipes_peer HOSTS ROUNDS KIND:PATH:FOLDER...
// Each job runs in a thread, with a session of its own. Kinds: mutex, rw, kazoo-mutex, kazoo-rw, semaphore-N. Prints
// "overlaps N". See interop_test.cpp for what is done in FOLDER.

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>

namespace {

using namespace std::chrono_literals;
using zkclient::CallOptions;
using zkclient::Client;
using zkrecipes::Layout;
using zkrecipes::Lease;
namespace fs = std::filesystem;

std::atomic<int> overlaps{0};

std::string unique_name(const char* prefix) {
  static std::atomic<int> made{0};
  return prefix + std::to_string(::getpid()) + "-" + std::to_string(++made);
}

int count(const std::string& folder, const char* prefix) {
  int found = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    found += entry.path().filename().string().starts_with(prefix) ? 1 : 0;
  return found;
}

void exclusive(const std::string& folder) {
  const std::string writer = folder + "/writer";
  std::FILE* file = std::fopen(writer.c_str(), "wx");
  if (file == nullptr) {
    ++overlaps;
  } else {
    std::fclose(file);
  }
  if (count(folder, "reader-") > 0) ++overlaps;
  int value = -1;
  std::ifstream(folder + "/counter") >> value;
  std::ofstream(folder + "/counter") << value + 1;
  fs::remove(writer);
}

void shared(const std::string& folder) {
  const std::string reader = folder + "/" + unique_name("reader-");
  std::ofstream(reader) << "";
  if (fs::exists(folder + "/writer")) ++overlaps;
  fs::remove(reader);
}

void one_of(const std::string& folder, int most) {
  const std::string holder = folder + "/" + unique_name("holder-");
  std::ofstream(holder) << "";
  if (count(folder, "holder-") > most) ++overlaps;
  fs::remove(holder);
}

CallOptions patient() { return {.deadline = std::chrono::steady_clock::now() + 60s}; }

class Job {
 public:
  Job(const std::string& hosts, int rounds, const std::string& text, unsigned seed)
      : client_(hosts, {.session_timeout = 20s}), rounds_(rounds), random_(seed) {
    const auto first = text.find(':');
    const auto second = text.find(':', first + 1);
    kind_ = text.substr(0, first);
    path_ = text.substr(first + 1, second - first - 1);
    folder_ = text.substr(second + 1);
  }
  void run() {
    if (kind_ == "mutex") {
      run_mutex(Layout::curator());
    } else if (kind_ == "kazoo-mutex") {
      run_mutex(Layout::kazoo());
    } else if (kind_ == "rw") {
      run_shared_mutex(Layout::curator());
    } else if (kind_ == "kazoo-rw") {
      run_shared_mutex(Layout::kazoo());
    } else {
      run_semaphore(std::stoi(kind_.substr(std::string("semaphore-").size())));
    }
  }

 private:
  /// A moment between two critical sections, so that who meets whom differs from run to run.
  void pause() { std::this_thread::sleep_for(std::chrono::microseconds(random_() % 2000)); }

  void run_mutex(Layout layout) {
    zkrecipes::Mutex mutex(client_, path_, {.layout = layout});
    for (int i = 0; i < rounds_; ++i) {
      Lease lease = mutex.acquire(patient());
      exclusive(folder_);
      if (i % 2 == 0) lease.release();
      pause();
    }
  }
  void run_shared_mutex(Layout layout) {
    zkrecipes::SharedMutex mutex(client_, path_, {.layout = layout});
    for (int i = 0; i < rounds_; ++i) {
      pause();
      if (i % 2 == 0) {
        const Lease lease = mutex.acquire(patient());
        exclusive(folder_);
      } else {
        const Lease lease = mutex.acquire_shared(patient());
        shared(folder_);
      }
    }
  }
  void run_semaphore(int size) {
    zkrecipes::Semaphore semaphore(client_, path_, size);
    for (int i = 0; i < rounds_; ++i) {
      pause();
      const Lease lease = semaphore.acquire(patient());
      one_of(folder_, size);
    }
  }

  const Client client_;
  const int rounds_;
  std::mt19937 random_;
  std::string kind_;
  std::string path_;
  std::string folder_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 3) return EXIT_FAILURE;
  const char* chosen = std::getenv("ZKRECIPES_SEED");
  unsigned seed = (chosen != nullptr ? static_cast<unsigned>(std::atoi(chosen)) : std::random_device()());
  std::cout << "seed " << seed << " (ZKRECIPES_SEED)\n";
  std::atomic<bool> failed{false};
  std::vector<std::thread> crew;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    crew.emplace_back([&, i, mine = seed++] {
      try {
        Job(arguments[0], std::stoi(arguments[1]), arguments[i], mine).run();
      } catch (const std::exception& error) {
        std::cerr << arguments[i] + ": " + error.what() + "\n";
        failed = true;
      }
    });
  }
  for (std::thread& thread : crew)
    thread.join();
  std::cout << "overlaps " << overlaps << std::endl;
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
