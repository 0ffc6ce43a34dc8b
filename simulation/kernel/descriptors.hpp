#pragma once

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulation/base/event_queue.hpp"
#include "simulation/network/network.hpp"

namespace zktesting::simulated {

class Kernel;
class Descriptors;
struct ClientProcess;

/// The other end of a client's connection, as the client's kernel sees it.
struct RemoteEnd {
  std::function<void(std::string_view)> receive;
  std::function<void()> closed;
  std::function<void()> broken = nullptr;  ///< By a reset; without it, `closed`.
};
/// How the other end answers; the network's latency is added to both.
struct AnswerTo {
  Host from = 0;  ///< The one that has connected.
  std::function<void(std::string)> bytes;
  std::function<void()> close;
  std::function<void()> reset;
};
/// What listens at an address. `accept` returns no `receive` while nobody does: the connection is refused.
struct Listener {
  Host host = 0;
  std::function<RemoteEnd(AnswerTo)> accept;
};

class Epoll;

/// What a descriptor stands for. The operations return -1 with errno, EAGAIN where a blocking one would wait.
class File {
 public:
  explicit File(Descriptors& table, ClientProcess* owner) : table_(table), owner_(owner) {}
  virtual ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// EPOLLIN and the like.
  [[nodiscard]] virtual std::uint32_t ready() const = 0;
  virtual ssize_t read(void* to, std::size_t size);
  virtual ssize_t write(const void* from, std::size_t size);
  /// The machine sleeps for so long: what counts by the monotonic clock comes later.
  virtual void delay(Nanos /*time*/) {}
  /// That descriptor of its was closed.
  void leave_epolls(int descriptor);

  [[nodiscard]] ClientProcess* owner() const { return owner_; }
  bool nonblocking = false;

 protected:
  /// Wakes whoever waits for this file.
  void changed();
  Descriptors& table_;

 private:
  friend class Epoll;

  ClientProcess* const owner_;
  std::vector<std::pair<Epoll*, int>> watchers_;  // As which descriptor.
};

class Socket;

/// The descriptors of all simulated processes. Their numbers are greater than any that libc has given out.
class Descriptors {
 public:
  explicit Descriptors(Kernel& kernel) : kernel_(kernel) {}
  ~Descriptors();

  static constexpr int first = 1 << 20;
  static bool is_ours(int descriptor) { return descriptor >= first; }

  // As the system calls of these names; of the calling thread's process.
  int socket(bool nonblocking);
  int connect(int descriptor, const sockaddr_in& to);
  /// All machines of the world see the address. Port 0: one that is free.
  int bind(int descriptor, sockaddr_in address);
  int listen(int descriptor);
  int accept(int descriptor, sockaddr_in* from, bool nonblocking);
  int epoll_create();
  int epoll_ctl(int epoll, int what, int descriptor, epoll_event* event);
  int epoll_wait(int epoll, epoll_event* events, int size, std::optional<Nanos> limit);
  int eventfd(std::uint64_t count, bool semaphore, bool nonblocking);
  int timerfd_create(int clock, bool nonblocking);
  int timerfd_settime(int descriptor, bool absolute, Nanos first_time, Nanos interval);
  void pipe(int ends[2], bool nonblocking);
  void socketpair(int ends[2], bool nonblocking);
  ssize_t read(int descriptor, void* to, std::size_t size);
  /// recv() with MSG_PEEK: never waits.
  ssize_t peek(int descriptor, void* to, std::size_t size);
  ssize_t write(int descriptor, const void* from, std::size_t size);
  int close(int descriptor);
  int duplicate(int descriptor);

  File* find(int descriptor);
  Socket* find_socket(int descriptor);

  /// A process dies: its kernel closes what it had open.
  void close_all(const ClientProcess& process);
  /// Its machine sleeps for so long.
  void delay_timers(const ClientProcess& process, Nanos time);
  /// Breaks the connections from one host to another, at both ends.
  void reset(Host from, Host to);
  /// There is a connection from one host to another.
  [[nodiscard]] bool is_connected(Host from, Host to) const;
  void listen(std::uint32_t address, std::uint16_t port, Listener listener) {
    listeners_[{address, port}] = std::move(listener);
  }
  const Listener* listener(std::uint32_t address, std::uint16_t port) const;
  /// What the world's name service knows. No addresses: nothing.
  void set_name(const std::string& name, std::vector<std::uint32_t> addresses, Nanos takes) {
    names_[name] = {std::move(addresses), takes};
  }
  /// Asks it for a name: the calling thread waits for the answer.
  std::vector<std::uint32_t> resolve(const std::string& name);
  void stop_listening(std::uint32_t address, std::uint16_t port) { listeners_.erase({address, port}); }

  Kernel& kernel() { return kernel_; }

 private:
  friend class File;
  friend class Epoll;

  int add(std::shared_ptr<File> file);
  template <typename Try>
  ssize_t until_done(int descriptor, Try attempt);

  Kernel& kernel_;
  static inline int next_ = first;              // A number of a former world is none of this one.
  std::map<int, std::shared_ptr<File>> files_;  // A duplicate stands for the same file.
  std::map<std::pair<std::uint32_t, std::uint16_t>, Listener> listeners_;
  std::map<std::string, std::pair<std::vector<std::uint32_t>, Nanos>> names_;  // And how long an answer takes.
  std::uint16_t next_port_ = 20'000;
};

/// The client's end of a TCP connection.
class Socket : public File {
 public:
  Socket(Descriptors& table, ClientProcess* owner) : File(table, owner) {}
  ~Socket() override;

  /// What bind() gave it.
  sockaddr_in own{};
  /// SO_LINGER with no time: the other end sees a reset when it is closed.
  bool resets_when_closed = false;

  int connect(const sockaddr_in& to);
  [[nodiscard]] std::uint32_t ready() const override;
  ssize_t read(void* to, std::size_t size) override;
  ssize_t write(const void* from, std::size_t size) override;
  /// What read() would give; it stays.
  ssize_t peek(void* to, std::size_t size) const;
  /// What getsockopt(SO_ERROR) says, once.
  int take_error() { return std::exchange(error_, 0); }
  [[nodiscard]] bool is_connecting() const { return state_ == State::connecting; }
  [[nodiscard]] bool is_connected() const { return state_ == State::connected; }
  [[nodiscard]] const sockaddr_in& peer() const { return peer_; }
  [[nodiscard]] bool leads_to(Host from, Host to) const;
  /// As the system call of that name, in both directions.
  void shutdown();
  /// Both ends see it broken, at once.
  void reset();

 protected:
  enum class State : std::uint8_t { fresh, connecting, connected, broken };

  /// Sends to the other end.
  virtual void transmit(std::string bytes);
  /// Tells the other end that this one is closed.
  virtual void tell_closed();
  void fail(int error);

  State state_ = State::fresh;
  int error_ = 0;
  bool ended_ = false;  ///< The other end has closed.
  std::string received_;

 private:
  struct Connection;

  sockaddr_in peer_{};
  std::shared_ptr<Connection> connection_;
};

}  // namespace zktesting::simulated
