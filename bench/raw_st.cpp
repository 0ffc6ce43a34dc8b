// The lock cycle on libzookeeper_st, pipelined as far as it goes: create and getChildren in one
// flight, the delete not awaited, the next cycle sent right behind it. One thread, one poll loop.

#include <poll.h>
#include <sys/time.h>
#include <zookeeper/zookeeper.h>

#include <algorithm>
#include <stdexcept>

#include "raw_program.hpp"

namespace {

using namespace std::chrono_literals;

class StPipeline final : public bench::Contender {
 public:
  StPipeline(const std::string& server, std::string parent) : parent_(std::move(parent)) {
    prefix_ = parent_ + "/" + std::string(bench::node_name);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    handle_ = zookeeper_init(server.c_str(), &StPipeline::on_event, static_cast<int>(bench::session_timeout.count()),
                             nullptr, this, 0);
    if (handle_ == nullptr) {
      throw std::runtime_error("zookeeper_init failed");
    }
    zoo_set_servers_resolution_delay(handle_, -1);
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (zoo_state(handle_) != ZOO_CONNECTED_STATE) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw std::runtime_error("no connection to " + server);
      }
      turn(max_wait_ms);
    }
  }
  ~StPipeline() override { zookeeper_close(handle_); }

  void keep_alive() override { turn(0); }

  bench::Sample run(std::chrono::milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    stopwatch_ = &stopwatch;
    cycles_ = 0;
    acquire();
    while (pending_ > 0) {
      turn(max_wait_ms);
      if (!failure_.empty()) {
        throw std::runtime_error(failure_);
      }
    }
    stopwatch_ = nullptr;
    return stopwatch.stop(cycles_);
  }

 private:
  static constexpr int max_wait_ms = 10'000;

  static void on_event(zhandle_t*, int, int, const char*, void*) {}

  // Waits for the descriptor, not longer than the C client asks for, and takes all the replies that
  // have come.
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

  void acquire() {
    sent(zoo_acreate2(handle_, prefix_.c_str(), bench::node_data.data(), static_cast<int>(bench::node_data.size()),
                      &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, &StPipeline::on_created, this),
         "zoo_acreate2");
    sent(zoo_aget_children(handle_, parent_.c_str(), 0, &StPipeline::on_children, this), "zoo_aget_children");
  }

  // Exceptions must not cross the C client, so what a completion throws is kept for the loop.
  template <typename Step>
  static void complete(const void* context, int code, const char* call, Step step) {
    auto& self = *static_cast<StPipeline*>(const_cast<void*>(context));
    --self.pending_;
    try {
      bench::require_ok(code, call);
      step(self);
    } catch (const std::exception& error) {
      self.failure_ = error.what();
    }
  }

  static void on_created(int code, const char* path, const Stat*, const void* context) {
    complete(context, code, "create", [&](StPipeline& self) { self.node_ = path; });
  }

  static void on_children(int code, const String_vector* names, const void* context) {
    complete(context, code, "getChildren", [&](StPipeline& self) {
      bench::require_alone(names->data, names->count, self.node_);
      self.sent(zoo_adelete(self.handle_, self.node_.c_str(), -1, &StPipeline::on_deleted, &self), "zoo_adelete");
      ++self.cycles_;
      if (self.stopwatch_->running()) {
        self.acquire();
      }
    });
  }

  static void on_deleted(int code, const void* context) {
    complete(context, code, "delete", [](StPipeline&) {});
  }

  std::string parent_;
  std::string prefix_;
  zhandle_t* handle_ = nullptr;
  const bench::Stopwatch* stopwatch_ = nullptr;
  std::string node_;
  std::string failure_;
  int pending_ = 0;
  std::int64_t cycles_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::raw_main(argc, argv, [](const std::string& server, const std::string& parent) {
    return std::make_unique<StPipeline>(server, parent);
  });
}
