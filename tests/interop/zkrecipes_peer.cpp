// A process that contends with this library's locks, as CuratorPeer.java and kazoo_peer.py do with theirs:
//   zkrecipes_peer HOSTS ROUNDS KIND:PATH:FOLDER:CROWD...
// Each job runs in a thread, with a session of its own. Kinds: mutex, rw, kazoo-mutex, kazoo-rw, semaphore-N. Prints
// "overlaps N", "holders N", "readers N", "libraries N". See interop_test.cpp for them, and for what is done in FOLDER.

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
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
std::atomic<std::size_t> most_holders{0};
std::atomic<std::size_t> most_readers{0};
std::atomic<std::size_t> most_libraries{0};

void note(std::atomic<std::size_t>& most, std::size_t seen) {
  std::size_t known = most;
  while (known < seen && !most.compare_exchange_weak(known, seen)) {
  }
}

std::string unique_name(const char* prefix) {
  static std::atomic<int> made{0};
  return prefix + std::to_string(::getpid()) + "-" + std::to_string(++made);
}

std::vector<std::string> names(const std::string& folder, const char* prefix) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with(prefix)) found.push_back(std::move(name));
  }
  return found;
}

/// How many libraries there are in names "reader-<library>-<id>".
std::size_t libraries(const std::vector<std::string>& readers) {
  std::set<std::string> found;
  for (const std::string& reader : readers)
    found.insert(reader.substr(0, reader.find('-', std::string("reader-").size())));
  return found.size();
}

/// Waits until everybody has come: who starts quickly would be done before the others.
void meet(const std::string& folder, std::size_t crowd) {
  std::ofstream(folder + "/" + unique_name("here-")) << "";
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (names(folder, "here-").size() < crowd) {
    if (std::chrono::steady_clock::now() >= deadline) throw std::runtime_error("not everybody has come");
    std::this_thread::sleep_for(10ms);
  }
}

/// In its first round each process stays inside until somebody has seen what is to be seen: as many inside at once as
/// may be. On a busy machine that would otherwise be left to chance. `look` says whether this process sees it now.
template <typename Look>
void stay_until_seen(const std::string& folder, Look look) {
  const std::string seen = folder + "/seen";
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!fs::exists(seen) && std::chrono::steady_clock::now() < deadline) {
    if (look()) std::ofstream(seen) << "";
    std::this_thread::sleep_for(1ms);
  }
}

void exclusive(const std::string& folder) {
  const std::string writer = folder + "/writer";
  std::FILE* file = std::fopen(writer.c_str(), "wx");
  if (file == nullptr) {
    ++overlaps;
  } else {
    std::fclose(file);
  }
  if (!names(folder, "reader-").empty()) ++overlaps;
  int value = -1;
  std::ifstream(folder + "/counter") >> value;
  std::ofstream(folder + "/counter") << value + 1;
  fs::remove(writer);
}

void shared(const std::string& folder, std::chrono::microseconds stay) {
  const std::string reader = folder + "/" + unique_name("reader-ours-");
  std::ofstream(reader) << "";
  if (fs::exists(folder + "/writer")) ++overlaps;
  stay_until_seen(folder, [&] {
    const std::vector<std::string> readers = names(folder, "reader-");
    note(most_readers, readers.size());
    note(most_libraries, libraries(readers));
    return libraries(readers) == 2;
  });
  std::this_thread::sleep_for(stay);
  fs::remove(reader);
}

void one_of(const std::string& folder, std::size_t most, std::chrono::microseconds stay) {
  const std::string holder = folder + "/" + unique_name("holder-");
  std::ofstream(holder) << "";
  const auto look = [&] {
    const std::size_t holders = names(folder, "holder-").size();
    if (holders > most) ++overlaps;
    note(most_holders, holders);
    return holders >= most;
  };
  look();
  stay_until_seen(folder, look);
  std::this_thread::sleep_for(stay);
  fs::remove(holder);
}

CallOptions patient() { return {.deadline = std::chrono::steady_clock::now() + 60s}; }

class Job {
 public:
  Job(const std::string& hosts, int rounds, const std::string& text, unsigned seed)
      : client_(hosts, {.session_timeout = 20s}), rounds_(rounds), random_(seed) {
    const auto first = text.find(':');
    const auto second = text.find(':', first + 1);
    const auto third = text.find(':', second + 1);
    kind_ = text.substr(0, first);
    path_ = text.substr(first + 1, second - first - 1);
    folder_ = text.substr(second + 1, third - second - 1);
    crowd_ = std::stoul(text.substr(third + 1));
  }
  void run() {
    client_.connect(patient());
    meet(folder_, crowd_);
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
  /// Part of the experiment: long enough for others to come in.
  std::chrono::microseconds a_while() { return std::chrono::microseconds(2000 + random_() % 3000); }

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
        const Lease lease = mutex.acquire_shared(patient());
        shared(folder_, a_while());
      } else {
        const Lease lease = mutex.acquire(patient());
        exclusive(folder_);
      }
    }
  }
  void run_semaphore(int size) {
    zkrecipes::Semaphore semaphore(client_, path_, size);
    for (int i = 0; i < rounds_; ++i) {
      pause();
      const Lease lease = semaphore.acquire(patient());
      one_of(folder_, static_cast<std::size_t>(size), a_while());
    }
  }

  const Client client_;
  const int rounds_;
  std::mt19937 random_;
  std::string kind_;
  std::string path_;
  std::string folder_;
  std::size_t crowd_ = 0;
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
  std::cout << "overlaps " << overlaps << "\nholders " << most_holders << "\nreaders " << most_readers << "\nlibraries "
            << most_libraries << std::endl;
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
