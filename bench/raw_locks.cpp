// Locks on libzookeeper_st without a library: each contender is a session, all of them in one poll loop. A contender
// creates its node and lists in one flight, watches the one before it, and lists again when that is gone; its deletes
// are not awaited. Nothing is recovered: what a library adds is what this leaves out.
//
// In a drain with the queue record its delete also writes who left into the path's node, and who was woken reads that
// instead of the list: the least that a hand-over in a long queue can cost.

#include <poll.h>
#include <sys/time.h>
#include <zookeeper/zookeeper.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "lock_peer.hpp"
#include "raw_program.hpp"

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int max_wait_ms = 1'000;
constexpr std::size_t drain_sessions = 8;

/// One session.
class Link {
 public:
  explicit Link(const std::string& server) {
    handle_ = zookeeper_init(server.c_str(), &Link::on_event, static_cast<int>(bench::session_timeout.count()), nullptr,
                             this, 0);
    if (handle_ == nullptr) throw std::runtime_error("zookeeper_init failed");
    zoo_set_servers_resolution_delay(handle_, -1);
  }
  ~Link() { zookeeper_close(handle_); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  zhandle_t* handle() const { return handle_; }
  bool connected() const { return zoo_state(handle_) == ZOO_CONNECTED_STATE; }

  pollfd interest(int& wait_ms) {
    pollfd wanted{.fd = -1, .events = 0, .revents = 0};
    int wishes = 0;
    timeval wait{};
    zookeeper_interest(handle_, &wanted.fd, &wishes, &wait);
    if ((wishes & ZOOKEEPER_READ) != 0) wanted.events |= POLLIN;
    if ((wishes & ZOOKEEPER_WRITE) != 0) wanted.events |= POLLOUT;
    wait_ms = std::min(wait_ms, static_cast<int>(wait.tv_sec * 1000 + wait.tv_usec / 1000 + 1));
    return wanted;
  }
  void process(short revents) {
    int events = 0;
    if ((revents & (POLLIN | POLLHUP | POLLERR)) != 0) events |= ZOOKEEPER_READ;
    if ((revents & POLLOUT) != 0) events |= ZOOKEEPER_WRITE;
    if (zookeeper_process(handle_, events) == ZOK && (events & ZOOKEEPER_READ) != 0) {
      while (zookeeper_process(handle_, ZOOKEEPER_READ) == ZOK) {
      }
    }
  }

 private:
  static void on_event(zhandle_t*, int, int, const char*, void*) {}
  zhandle_t* handle_ = nullptr;
};

using Links = std::vector<std::unique_ptr<Link>>;

void turn(Links& links) {
  std::vector<pollfd> wanted;
  int wait_ms = max_wait_ms;
  for (const auto& link : links)
    wanted.push_back(link->interest(wait_ms));
  ::poll(wanted.data(), wanted.size(), wait_ms);
  for (std::size_t i = 0; i < links.size(); ++i)
    links[i]->process(wanted[i].revents);
}

Links connect(const std::string& server, std::size_t count) {
  Links links;
  for (std::size_t i = 0; i < count; ++i)
    links.push_back(std::make_unique<Link>(server));
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!std::all_of(links.begin(), links.end(), [](const auto& link) { return link->connected(); })) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("no connection to " + server);
    turn(links);
  }
  return links;
}

/// What a drain's contenders do when they leave and are woken; all others only list.
enum class Handover { list, record };

/// One contender: calls `granted` when it has the lock, once for each acquire().
class Contender {
 public:
  Contender(zhandle_t* handle, std::string parent, bool shares, Handover handover,
            std::function<void(Contender&)> granted)
      : handle_(handle),
        parent_(std::move(parent)),
        prefix_(
            parent_ + "/" +
            (shares ? std::string("_c_00000000-0000-4000-8000-000000000000-read-") : std::string(bench::node_name))),
        shares_(shares),
        handover_(handover),
        granted_(std::move(granted)) {}

  void acquire() {
    bench::require_ok(
        zoo_acreate2(handle_, prefix_.c_str(), bench::node_data.data(), static_cast<int>(bench::node_data.size()),
                     &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, &Contender::on_created, this),
        "zoo_acreate2");
    list();
  }
  void release() {
    ++deleting_;
    if (handover_ == Handover::list) {
      bench::require_ok(zoo_adelete(handle_, node_.c_str(), -1, &Contender::on_deleted, this), "zoo_adelete");
      return;
    }
    const std::string_view own = std::string_view(node_).substr(parent_.size() + 1);
    zoo_delete_op_init(&leaving_[0], node_.c_str(), -1);
    zoo_set_op_init(&leaving_[1], parent_.c_str(), own.data(), static_cast<int>(own.size()), -1, nullptr);
    bench::require_ok(zoo_amulti(handle_, 2, leaving_, left_, &Contender::on_deleted, this), "zoo_amulti");
  }
  bool idle() const { return deleting_ == 0; }
  bool queued() const { return queued_; }
  std::int64_t cycles = 0;
  static inline std::string failure;  // Exceptions must not cross the C client.

 private:
  static Contender& self_of(const void* context) { return *static_cast<Contender*>(const_cast<void*>(context)); }
  static bool ok(int code, const char* call) {
    if (code != ZOK) failure = std::string(call) + " failed with code " + std::to_string(code);
    return code == ZOK;
  }

  void list() {
    if (ok(zoo_aget_children(handle_, parent_.c_str(), 0, &Contender::on_children, this), "getChildren")) return;
  }
  static void on_created(int code, const char* path, const Stat*, const void* context) {
    if (ok(code, "create")) self_of(context).node_ = path;
  }
  static void on_children(int code, const String_vector* names, const void* context) {
    if (ok(code, "getChildren")) self_of(context).decide(*names);
  }
  void decide(const String_vector& names) {
    if (shares_) return granted_(*this);  // There are no writers here.
    // All names have one prefix, so they compare as their numbers do.
    const char* own = node_.c_str() + parent_.size() + 1;
    const char* before = nullptr;
    for (int i = 0; i < names.count; ++i) {
      const char* name = names.data[i];
      if (std::strcmp(name, own) < 0 && (before == nullptr || std::strcmp(before, name) < 0)) before = name;
    }
    if (before == nullptr) return granted_(*this);
    before_ = before;
    const std::string path = parent_ + "/" + before_;
    ok(zoo_awget(handle_, path.c_str(), &Contender::on_gone, this, &Contender::on_watched, this), "get");
  }
  static void on_watched(int code, const char*, int, const Stat*, const void* context) {
    Contender& self = self_of(context);
    self.queued_ = true;
    if (code == ZNONODE) return self.list();
    ok(code, "get");
  }
  static void on_gone(zhandle_t*, int type, int, const char*, void* context) {
    if (type != ZOO_DELETED_EVENT) return;
    Contender& self = self_of(context);
    if (self.handover_ == Handover::list) return self.list();
    ok(zoo_aget(self.handle_, self.parent_.c_str(), 0, &Contender::on_record, context), "get");
  }
  static void on_record(int code, const char* value, int length, const Stat*, const void* context) {
    if (!ok(code, "get")) return;
    Contender& self = self_of(context);
    const bool next = length > 0 && std::string_view(value, static_cast<std::size_t>(length)) == self.before_;
    return next ? self.granted_(self) : self.list();
  }
  static void on_deleted(int code, const void* context) {
    if (ok(code, "delete")) --self_of(context).deleting_;
  }

  zhandle_t* handle_;
  const std::string parent_;
  const std::string prefix_;
  const bool shares_;
  const Handover handover_;
  const std::function<void(Contender&)> granted_;
  std::string node_;
  std::string before_;     // The name of the one that is watched.
  zoo_op_t leaving_[2]{};  // Until the reply is there.
  zoo_op_result_t left_[2]{};
  int deleting_ = 0;
  bool queued_ = false;
};

class RawPeer final : public bench::LockPeer {
 public:
  RawPeer(const std::string& server, const std::string& folder, Handover handover)
      : server_(server), folder_(folder), handover_(handover) {
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    links_ = connect(server_, 1);
    int created = 0;
    const auto count = [](int, const char*, const void* context) { ++*static_cast<int*>(const_cast<void*>(context)); };
    for (const char* name : {"/cycle", "/contend", "/readers", "/drain"})
      zoo_acreate(links_[0]->handle(), (folder_ + name).c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, count, &created);
    turn_until([&] { return created == 4; });
  }

  bench::Outcome cycle(milliseconds duration) override { return run("/cycle", 1, duration, false); }
  bench::Outcome contend(int contenders, milliseconds duration) override {
    return run("/contend", static_cast<std::size_t>(contenders), duration, false);
  }
  bench::Outcome readers(int contenders, milliseconds duration) override {
    return run("/readers", static_cast<std::size_t>(contenders), duration, true);
  }

  void queue(int waiters) override {
    links_ = connect(server_, drain_sessions);
    queue_.clear();
    left_ = 0;
    held_ = false;
    auto granted = [this](Contender& self) {
      if (&self == queue_.front().get()) {
        held_ = true;
        return;
      }
      self.release();
      --left_;
    };
    for (int i = 0; i <= waiters; ++i) {
      const Link& link = *links_[static_cast<std::size_t>(i) % links_.size()];
      queue_.push_back(std::make_unique<Contender>(link.handle(), folder_ + "/drain", false, handover_, granted));
      queue_.back()->acquire();
      if (i == 0) turn_until([this] { return held_; });
    }
    turn_until([this] {
      return std::all_of(queue_.begin() + 1, queue_.end(), [](const auto& one) { return one->queued(); });
    });
    left_ = waiters;
    // Processors that have rested are slow, and the other contenders rest so long: until the last waiter has its watch.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  bench::Outcome drain() override {
    const bench::Stopwatch stopwatch(0ms);
    const std::int64_t waiters = left_;
    queue_.front()->release();
    turn_until([&] { return left_ == 0; });
    bench::Outcome outcome{stopwatch.stop(waiters), 1, 1, 0};
    turn_until([&] { return std::all_of(queue_.begin(), queue_.end(), [](const auto& one) { return one->idle(); }); });
    return outcome;
  }

 private:
  template <typename Condition>
  void turn_until(Condition condition) {
    while (!condition()) {
      turn(links_);
      if (!Contender::failure.empty()) throw std::runtime_error(Contender::failure);
    }
  }

  bench::Outcome run(const std::string& lock, std::size_t count, milliseconds duration, bool shares) {
    links_ = connect(server_, count);  // Anew: nothing keeps sessions alive between the commands.
    const bench::Stopwatch stopwatch(duration);
    std::size_t running = count;
    auto granted = [&](Contender& self) {
      ++self.cycles;
      self.release();
      if (stopwatch.running()) {
        self.acquire();
      } else {
        --running;
      }
    };
    std::vector<std::unique_ptr<Contender>> crew;
    for (const auto& link : links_)
      crew.push_back(std::make_unique<Contender>(link->handle(), folder_ + lock, shares, Handover::list, granted));
    for (const auto& one : crew)
      one->acquire();
    turn_until([&] {
      return running == 0 && std::all_of(crew.begin(), crew.end(), [](const auto& one) { return one->idle(); });
    });
    bench::Outcome outcome;
    outcome.least = crew.front()->cycles;
    std::int64_t sum = 0;
    for (const auto& one : crew) {
      outcome.least = std::min(outcome.least, one->cycles);
      outcome.most = std::max(outcome.most, one->cycles);
      sum += one->cycles;
    }
    outcome.sample = stopwatch.stop(sum);
    return outcome;
  }

  const std::string server_;
  const std::string folder_;
  const Handover handover_;
  Links links_;
  std::vector<std::unique_ptr<Contender>> queue_;
  bool held_ = false;
  std::int64_t left_ = 0;
};

}  // namespace

// An option before the arguments that all peers have: --record.
int main(int argc, char** argv) {
  const bool record = argc > 1 && std::string_view(argv[1]) == "--record";
  if (record) {
    --argc;
    ++argv;
  }
  return bench::lock_peer_main(argc, argv, [record](const std::string& server, const std::string& folder) {
    return std::make_unique<RawPeer>(server, folder, record ? Handover::record : Handover::list);
  });
}
