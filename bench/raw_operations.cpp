// Single operations on the raw C client, built once for each of its flavours: `program <host:port> <parent> <operation>
// <window>` keeps `window` requests outstanding. With libzookeeper_mt a window of 1 means the synchronous calls.

#include <poll.h>
#include <sys/time.h>
#include <zookeeper/zookeeper.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory.hpp"
#include "raw_program.hpp"

namespace {

using namespace std::chrono_literals;

class RawOperations final : public bench::Contender {
 public:
  RawOperations(std::string server, const std::string& parent, std::string operation, int window)
      : server_(std::move(server)),
        node_(parent + "/node"),
        temporary_(parent + "/temporary"),
        slot_(parent + "/slot"),
        operation_(std::move(operation)),
        window_(window),
        results_(static_cast<std::size_t>(window)) {
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    handles_.push_back(open());
    await_connections();
  }
  ~RawOperations() override {
    for (zhandle_t* handle : handles_)
      zookeeper_close(handle);
  }

  void keep_alive() override {
#ifndef THREADED
    for (zhandle_t* handle : handles_)
      turn(handle, 0);
#endif
  }

  bench::Sample run(std::chrono::milliseconds duration) override {
    if (operation_ == "sessions" || operation_ == "watches") return memory();
    const bench::Stopwatch stopwatch(duration);
    stopwatch_ = &stopwatch;
    cycles_ = 0;
#ifdef THREADED
    if (window_ == 1) {
      for (; stopwatch.running(); ++cycles_)
        synchronous();
      return stopwatch.stop(cycles_);
    }
#endif
    {
      const std::lock_guard lock(mutex_);
      for (int i = 0; i < window_; ++i)
        submit();
    }
    drain();
    return stopwatch.stop(cycles_);
  }

 private:
  static void on_event(zhandle_t*, int, int, const char*, void*) {}

  zhandle_t* open() {
    zhandle_t* handle = zookeeper_init(server_.c_str(), &RawOperations::on_event,
                                       static_cast<int>(bench::session_timeout.count()), nullptr, nullptr, 0);
    if (handle == nullptr) throw std::runtime_error("zookeeper_init failed");
    zoo_set_servers_resolution_delay(handle, -1);
    return handle;
  }

  void await_connections() {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    for (zhandle_t* handle : handles_) {
      while (zoo_state(handle) != ZOO_CONNECTED_STATE) {
        if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("no connection to " + server_);
#ifdef THREADED
        ::poll(nullptr, 0, 1);
#else
        turn(handle, 10);
#endif
      }
    }
  }

#ifdef THREADED
  void drain() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 30s, [this] { return pending_ == 0 || !failure_.empty(); }) || !failure_.empty()) {
      throw std::runtime_error(failure_.empty() ? "no replies" : failure_);
    }
  }

  void synchronous() {
    zhandle_t* handle = handles_.front();
    std::array<char, 256> buffer{};
    auto length = static_cast<int>(buffer.size());
    Stat stat{};
    if (operation_ == "get") {
      bench::require_ok(zoo_get(handle, node_.c_str(), 0, buffer.data(), &length, &stat), "zoo_get");
    } else if (operation_ == "exists") {
      bench::require_ok(zoo_exists(handle, node_.c_str(), 0, &stat), "zoo_exists");
    } else if (operation_ == "children") {
      String_vector names{};
      bench::require_ok(zoo_get_children2(handle, node_.c_str(), 0, &names, &stat), "zoo_get_children2");
      deallocate_String_vector(&names);
    } else if (operation_ == "set") {
      bench::require_ok(zoo_set2(handle, node_.c_str(), data(), data_size(), -1, &stat), "zoo_set2");
    } else if (operation_ == "create_remove") {
      bench::require_ok(zoo_create2(handle, temporary_.c_str(), data(), data_size(), &ZOO_OPEN_ACL_UNSAFE, 0,
                                    buffer.data(), length, &stat),
                        "zoo_create2");
      bench::require_ok(zoo_delete(handle, temporary_.c_str(), -1), "zoo_delete");
    } else if (is_transaction()) {
      Results results;
      const Operations both = operations(results);
      bench::require_ok(zoo_multi(handle, static_cast<int>(both.size()), both.data(), results.each.data()),
                        "zoo_multi");
    } else if (operation_ == "sync") {  // It alone has no synchronous call: what a program does in its place.
      {
        const std::lock_guard lock(mutex_);
        bench::require_ok(zoo_async(handle, node_.c_str(), &RawOperations::on_awaited, this), "zoo_async");
        ++pending_;
      }
      drain();
    } else if (operation_ == "get_acl") {
      ACL_vector list{};
      bench::require_ok(zoo_get_acl(handle, node_.c_str(), &list, &stat), "zoo_get_acl");
      deallocate_ACL_vector(&list);
    } else if (operation_ == "set_acl") {
      bench::require_ok(zoo_set_acl(handle, node_.c_str(), -1, &ZOO_OPEN_ACL_UNSAFE), "zoo_set_acl");
    } else {
      throw std::runtime_error("unknown operation " + operation_);
    }
  }

  static void on_awaited(int code, const char*, const void* context) {
    auto& self = *static_cast<RawOperations*>(const_cast<void*>(context));
    const std::lock_guard lock(self.mutex_);
    if (code != ZOK) self.failure_ = "a request failed with code " + std::to_string(code);
    --self.pending_;
    self.changed_.notify_all();
  }
#else
  void drain() {
    while (pending_ > 0) {
      turn(handles_.front(), 10'000);
      if (!failure_.empty()) throw std::runtime_error(failure_);
    }
  }

  static void turn(zhandle_t* handle, int longest_wait_ms) {
    pollfd wanted{.fd = -1, .events = 0, .revents = 0};
    int interest = 0;
    timeval wait{};
    zookeeper_interest(handle, &wanted.fd, &interest, &wait);
    if ((interest & ZOOKEEPER_READ) != 0) wanted.events |= POLLIN;
    if ((interest & ZOOKEEPER_WRITE) != 0) wanted.events |= POLLOUT;
    const auto wait_ms = static_cast<int>(wait.tv_sec * 1000 + wait.tv_usec / 1000 + 1);
    ::poll(&wanted, 1, std::min(wait_ms, longest_wait_ms));
    int events = 0;
    if ((wanted.revents & (POLLIN | POLLHUP | POLLERR)) != 0) events |= ZOOKEEPER_READ;
    if ((wanted.revents & POLLOUT) != 0) events |= ZOOKEEPER_WRITE;
    for (int i = 0; i < 64; ++i) {
      if (zookeeper_process(handle, events) != ZOK || (events & ZOOKEEPER_READ) == 0) break;
    }
  }
#endif

  // set_both is what a Counter writes for each add that shares its transaction with none.
  bool is_transaction() const { return operation_ == "commit" || operation_ == "set_both"; }
  // Of a transaction; the C client writes there when it is answered.
  struct Results {
    std::array<zoo_op_result_t, 2> each{};
    Stat stat{};
    Stat slot{};
  };
  using Operations = std::array<zoo_op_t, 2>;
  Operations operations(Results& results) const {
    Operations both{};
    if (operation_ == "commit") {
      zoo_check_op_init(both.data(), node_.c_str(), -1);
    } else {
      zoo_set_op_init(both.data(), slot_.c_str(), nullptr, 0, -1, &results.slot);
    }
    zoo_set_op_init(&both[1], node_.c_str(), data(), data_size(), -1, &results.stat);
    return both;
  }

  static const char* data() { return bench::node_data.data(); }
  static int data_size() { return static_cast<int>(bench::node_data.size()); }

  // Requires the mutex.
  void submit() {
    zhandle_t* handle = handles_.front();
    int code = 0;
    if (operation_ == "get") {
      code = zoo_aget(handle, node_.c_str(), 0, &RawOperations::on_data, this);
    } else if (operation_ == "exists") {
      code = zoo_aexists(handle, node_.c_str(), 0, &RawOperations::on_stat, this);
    } else if (operation_ == "children") {
      code = zoo_aget_children2(handle, node_.c_str(), 0, &RawOperations::on_names, this);
    } else if (operation_ == "set") {
      code = zoo_aset(handle, node_.c_str(), data(), data_size(), -1, &RawOperations::on_stat, this);
    } else if (operation_ == "create_remove") {
      const std::string path = temporary_ + std::to_string(++number_);
      code = zoo_acreate2(handle, path.c_str(), data(), data_size(), &ZOO_OPEN_ACL_UNSAFE, 0,
                          &RawOperations::on_created, this);
    } else if (is_transaction()) {
      // Answers come in the order of the requests: who used it last has been answered.
      Results& results = results_[static_cast<std::size_t>(++number_ % window_)];
      const Operations both = operations(results);
      code = zoo_amulti(handle, static_cast<int>(both.size()), both.data(), results.each.data(),
                        &RawOperations::on_done, this);
    } else if (operation_ == "sync") {
      code = zoo_async(handle, node_.c_str(), &RawOperations::on_path, this);
    } else if (operation_ == "get_acl") {
      code = zoo_aget_acl(handle, node_.c_str(), &RawOperations::on_acl, this);
    } else if (operation_ == "set_acl") {
      code = zoo_aset_acl(handle, node_.c_str(), -1, &ZOO_OPEN_ACL_UNSAFE, &RawOperations::on_done, this);
    } else {
      throw std::runtime_error("unknown operation " + operation_);
    }
    if (code != ZOK) {
      failure_ = "a request was refused with code " + std::to_string(code);
      return;
    }
    ++pending_;
  }

  static void complete(int code, const void* context) {
    auto& self = *static_cast<RawOperations*>(const_cast<void*>(context));
    const std::lock_guard lock(self.mutex_);
    --self.pending_;
    if (code != ZOK && self.failure_.empty()) self.failure_ = "a request failed with code " + std::to_string(code);
    ++self.cycles_;
    if (self.failure_.empty() && self.stopwatch_->running()) self.submit();
    if (self.pending_ == 0) self.changed_.notify_all();
  }
  static void on_data(int code, const char*, int, const Stat*, const void* context) { complete(code, context); }
  static void on_stat(int code, const Stat*, const void* context) { complete(code, context); }
  static void on_names(int code, const String_vector*, const Stat*, const void* context) { complete(code, context); }
  static void on_path(int code, const char*, const void* context) { complete(code, context); }
  static void on_acl(int code, ACL_vector*, Stat*, const void* context) { complete(code, context); }
  static void on_done(int code, const void* context) { complete(code, context); }
  static void on_created(int code, const char* path, const Stat*, const void* context) {
    auto& self = *static_cast<RawOperations*>(const_cast<void*>(context));
    if (code == ZOK) code = zoo_adelete(self.handles_.front(), path, -1, &RawOperations::on_done, context);
    if (code != ZOK) complete(code, context);
  }

  // Told as "cycles": bytes of memory per session, or per watch; `window` is how many.
  bench::Sample memory() {
    const std::int64_t before = bench::resident_bytes();
    if (operation_ == "sessions") {
      for (int i = 0; i < window_; ++i)
        handles_.push_back(open());
      await_connections();
    } else {
      stopwatch_ = nullptr;
      const bench::Stopwatch over(0ms);
      stopwatch_ = &over;
      for (int i = 0; i < window_; ++i) {
        const std::lock_guard lock(mutex_);
        const std::string path = temporary_ + std::to_string(i);
        bench::require_ok(zoo_awexists(handles_.front(), path.c_str(), &on_event, this, &on_watched, this), "awexists");
        ++pending_;
      }
      drain();
    }
    return {.cycles = (bench::resident_bytes() - before) / window_, .wall = 1s, .cpu = 0s};
  }
  static void on_watched(int code, const Stat*, const void* context) {
    complete(code == ZNONODE ? ZOK : code, context);
  }

  const std::string server_;
  const std::string node_;
  const std::string temporary_;
  const std::string slot_;
  const std::string operation_;
  const int window_;
  std::vector<Results> results_;
  std::vector<zhandle_t*> handles_;
  const bench::Stopwatch* stopwatch_ = nullptr;
  std::mutex mutex_;  // The other flavour completes on a thread of its own.
  std::condition_variable changed_;
  std::string failure_;
  int pending_ = 0;
  std::int64_t cycles_ = 0;
  std::int64_t number_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string operation = argv[3];
  const int window = std::stoi(argv[4]);
  return bench::raw_main(3, argv, [&](const std::string& server, const std::string& parent) {
    return std::make_unique<RawOperations>(server, parent, operation, window);
  });
}
