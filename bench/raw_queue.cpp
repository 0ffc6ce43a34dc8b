// Items through a queue on libzookeeper_st, one poll loop, no library: the producer keeps 64 creates on their way; the
// consumer lists, then gets and deletes 32 items at a time. At most once, and nothing is done about lost replies.

#include <poll.h>
#include <sys/time.h>
#include <zookeeper/zookeeper.h>

#include <algorithm>
#include <deque>
#include <set>
#include <stdexcept>

#include "raw_program.hpp"

namespace {

using namespace std::chrono_literals;

class StQueue final : public bench::Contender {
 public:
  StQueue(const std::string& server, std::string parent) : parent_(std::move(parent)), prefix_(parent_ + "/qn-") {
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    handle_ = zookeeper_init(
        server.c_str(), [](zhandle_t*, int, int, const char*, void*) {},
        static_cast<int>(bench::session_timeout.count()), nullptr, this, 0);
    if (handle_ == nullptr) throw std::runtime_error("zookeeper_init failed");
    zoo_set_servers_resolution_delay(handle_, -1);
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (zoo_state(handle_) != ZOO_CONNECTED_STATE) {
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("no connection to " + server);
      turn(max_wait_ms);
    }
  }
  ~StQueue() override { zookeeper_close(handle_); }

  void keep_alive() override { turn(0); }

  bench::Sample run(std::chrono::milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    taken_ = 0;
    do {
      while (creating_ < 64 && stopwatch.running())
        push();
      consume();
      turn(max_wait_ms);
      if (!failure_.empty()) throw std::runtime_error(failure_);
    } while (stopwatch.running());
    const bench::Sample sample = stopwatch.stop(taken_);
    while (pending_ > 0)
      turn(max_wait_ms);
    return sample;
  }

 private:
  static constexpr int max_wait_ms = 10'000;
  static constexpr int window = 32;

  void turn(int longest_wait_ms) {
    pollfd wanted{.fd = -1, .events = 0, .revents = 0};
    int interest = 0;
    timeval wait{};
    zookeeper_interest(handle_, &wanted.fd, &interest, &wait);
    if ((interest & ZOOKEEPER_READ) != 0) wanted.events |= POLLIN;
    if ((interest & ZOOKEEPER_WRITE) != 0) wanted.events |= POLLOUT;
    const auto wait_ms = static_cast<int>(wait.tv_sec * 1000 + wait.tv_usec / 1000 + 1);
    ::poll(&wanted, 1, std::min(wait_ms, longest_wait_ms));
    int events = 0;
    if ((wanted.revents & (POLLIN | POLLHUP | POLLERR)) != 0) events |= ZOOKEEPER_READ;
    if ((wanted.revents & POLLOUT) != 0) events |= ZOOKEEPER_WRITE;
    while (zookeeper_process(handle_, events) == ZOK && (events & ZOOKEEPER_READ) != 0 && pending_ > 0) {
    }
  }

  void sent(int code, const char* call) {
    bench::require_ok(code, call);
    ++pending_;
  }

  void push() {
    static const std::string item(64, 'x');
    sent(zoo_acreate(handle_, prefix_.c_str(), item.data(), static_cast<int>(item.size()), &ZOO_OPEN_ACL_UNSAFE,
                     ZOO_PERSISTENT_SEQUENTIAL, &StQueue::on_created, this),
         "zoo_acreate");
    ++creating_;
  }

  void consume() {
    while (taking_ < window && !known_.empty()) {
      const std::string path = parent_ + "/" + known_.front();
      known_.pop_front();
      sent(zoo_aget(handle_, path.c_str(), 0, &StQueue::on_read, this), "zoo_aget");
      sent(zoo_adelete(handle_, path.c_str(), -1, &StQueue::on_deleted, this), "zoo_adelete");
      ++taking_;
    }
    if (!known_.empty() || listing_ || taking_ > 0) return;
    sent(zoo_aget_children(handle_, parent_.c_str(), 0, &StQueue::on_listed, this), "zoo_aget_children");
    listing_ = true;
  }

  template <typename Step>
  static void complete(const void* context, int code, const char* call, Step step) {
    auto& self = *static_cast<StQueue*>(const_cast<void*>(context));
    --self.pending_;
    try {
      bench::require_ok(code, call);
      step(self);
    } catch (const std::exception& error) {
      self.failure_ = error.what();
    }
  }
  static void on_created(int code, const char*, const void* context) {
    complete(context, code, "create", [](StQueue& self) { --self.creating_; });
  }
  static void on_read(int code, const char*, int, const Stat*, const void* context) {
    complete(context, code, "get", [](StQueue&) {});
  }
  static void on_deleted(int code, const void* context) {
    complete(context, code, "delete", [](StQueue& self) {
      --self.taking_;
      ++self.taken_;
    });
  }
  static void on_listed(int code, const String_vector* names, const void* context) {
    complete(context, code, "getChildren", [&](StQueue& self) {
      self.listing_ = false;
      self.known_.assign(names->data, names->data + names->count);
      std::sort(self.known_.begin(), self.known_.end());
    });
  }

  const std::string parent_;
  const std::string prefix_;
  zhandle_t* handle_ = nullptr;
  std::deque<std::string> known_;
  std::string failure_;
  int pending_ = 0;
  int creating_ = 0;
  int taking_ = 0;
  bool listing_ = false;
  std::int64_t taken_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::raw_main(argc, argv, [](const std::string& server, const std::string& parent) {
    return std::make_unique<StQueue>(server, parent);
  });
}
