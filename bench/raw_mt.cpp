// The lock cycle on libzookeeper_mt, as most C and C++ programs have it: create, getChildren and
// delete through the synchronous calls, one after the other.

#include <zookeeper/zookeeper.h>

#include <array>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "raw_program.hpp"

namespace {

using namespace std::chrono_literals;

class MtSequence final : public bench::Contender {
 public:
  MtSequence(const std::string& server, std::string parent) : parent_(std::move(parent)) {
    prefix_ = parent_ + "/" + std::string(bench::node_name);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    handle_ = zookeeper_init(server.c_str(), &MtSequence::on_event, static_cast<int>(bench::session_timeout.count()),
                             nullptr, this, 0);
    if (handle_ == nullptr) {
      throw std::runtime_error("zookeeper_init failed");
    }
    // Without this the library looks its servers up again before each request.
    zoo_set_servers_resolution_delay(handle_, -1);
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 10s, [this] { return connected_; })) {
      throw std::runtime_error("no connection to " + server);
    }
  }
  ~MtSequence() override { zookeeper_close(handle_); }

  bench::Sample run(std::chrono::milliseconds duration) override {
    const bench::Stopwatch stopwatch(duration);
    std::int64_t cycles = 0;
    while (stopwatch.running()) {
      cycle();
      ++cycles;
    }
    return stopwatch.stop(cycles);
  }

 private:
  static void on_event(zhandle_t*, int type, int state, const char*, void* context) {
    auto& self = *static_cast<MtSequence*>(context);
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE) {
      const std::lock_guard lock(self.mutex_);
      self.connected_ = true;
      self.changed_.notify_all();
    }
  }

  void cycle() {
    std::array<char, 512> node{};
    bench::require_ok(
        zoo_create(handle_, prefix_.c_str(), bench::node_data.data(), static_cast<int>(bench::node_data.size()),
                   &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, node.data(), static_cast<int>(node.size())),
        "zoo_create");
    String_vector children{};
    bench::require_ok(zoo_get_children(handle_, parent_.c_str(), 0, &children), "zoo_get_children");
    bench::require_alone(children.data, children.count, node.data());
    deallocate_String_vector(&children);
    bench::require_ok(zoo_delete(handle_, node.data(), -1), "zoo_delete");
  }

  std::string parent_;
  std::string prefix_;
  zhandle_t* handle_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool connected_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::raw_main(argc, argv, [](const std::string& server, const std::string& parent) {
    return std::make_unique<MtSequence>(server, parent);
  });
}
