#include "simulation/kernel/descriptors.hpp"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <vector>

#include "simulation/kernel/kernel.hpp"

namespace zktesting::simulated {
namespace {

ssize_t fails(int error) {
  errno = error;
  return -1;
}

}  // namespace

/// Descriptors that are watched together.
class Epoll : public File {
 public:
  using File::File;
  ~Epoll() override {
    while (!items_.empty())
      forget(items_.begin()->first);
  }

  int control(int what, int descriptor, File& file, const epoll_event* event) {
    const auto found = items_.find(descriptor);
    if (what == EPOLL_CTL_ADD ? found != items_.end() : found == items_.end())
      return static_cast<int>(fails(what == EPOLL_CTL_ADD ? EEXIST : ENOENT));
    if (what == EPOLL_CTL_DEL) {
      forget(descriptor);
      return 0;
    }
    if (what == EPOLL_CTL_ADD) file.watchers_.emplace_back(this, descriptor);
    items_[descriptor] = {*event, &file, true};
    changed();
    return 0;
  }
  /// The files that are ready, at most `size`.
  int collect(epoll_event* events, int size) {
    int count = 0;
    for (auto it = items_.begin(); it != items_.end() && count < size; ++it) {
      Item& item = it->second;
      const std::uint32_t now = now_ready(item);
      if (now == 0) continue;
      events[count].events = now;
      events[count].data = item.event.data;
      ++count;
      item.changed = false;
      if ((item.event.events & EPOLLONESHOT) != 0) item.event.events = 0;
    }
    return count;
  }
  void forget(int descriptor) {
    const auto found = items_.find(descriptor);
    if (found == items_.end()) return;
    std::erase(found->second.file->watchers_, std::pair{this, descriptor});
    items_.erase(found);
  }
  /// Something has happened to one of its files, perhaps.
  void note(int descriptor) {
    const auto found = items_.find(descriptor);
    if (found == items_.end()) return;
    found->second.changed = true;
    changed();
  }

  [[nodiscard]] std::uint32_t ready() const override {
    return std::any_of(items_.begin(), items_.end(), [](const auto& item) { return now_ready(item.second) != 0; })
               ? std::uint32_t{EPOLLIN}
               : 0u;
  }

 private:
  struct Item {
    epoll_event event{};
    File* file = nullptr;
    bool changed = true;  ///< Since it was collected: what an edge-triggered one waits for.
  };

  static std::uint32_t now_ready(const Item& item) {
    if (item.event.events == 0) return 0;
    const bool edges = (item.event.events & EPOLLET) != 0;
    if (edges && !item.changed) return 0;
    return item.file->ready() & (item.event.events | EPOLLERR | EPOLLHUP);
  }

  std::map<int, Item> items_;
};

namespace {

class EventCounter : public File {
 public:
  EventCounter(Descriptors& table, ClientProcess* owner, std::uint64_t count, bool semaphore)
      : File(table, owner), count_(count), semaphore_(semaphore) {}

  [[nodiscard]] std::uint32_t ready() const override { return EPOLLOUT | (count_ != 0 ? std::uint32_t{EPOLLIN} : 0u); }
  ssize_t read(void* to, std::size_t size) override {
    if (size < sizeof count_) return fails(EINVAL);
    if (count_ == 0) return fails(EAGAIN);
    const std::uint64_t taken = semaphore_ ? 1 : count_;
    count_ -= taken;
    std::memcpy(to, &taken, sizeof taken);
    return sizeof taken;
  }
  ssize_t write(const void* from, std::size_t size) override {
    std::uint64_t more = 0;
    if (size < sizeof more) return fails(EINVAL);
    std::memcpy(&more, from, sizeof more);
    count_ += more;
    changed();
    return sizeof more;
  }

 private:
  std::uint64_t count_;
  const bool semaphore_;
};

class TimerFile : public File {
 public:
  TimerFile(Descriptors& table, ClientProcess* owner, int clock) : File(table, owner), clock_(clock) {}
  ~TimerFile() override { disarm(); }

  [[nodiscard]] std::uint32_t ready() const override { return expired_ != 0 ? std::uint32_t{EPOLLIN} : 0u; }
  ssize_t read(void* to, std::size_t size) override {
    if (size < sizeof expired_) return fails(EINVAL);
    if (expired_ == 0) return fails(EAGAIN);
    std::memcpy(to, &expired_, sizeof expired_);
    expired_ = 0;
    return sizeof expired_;
  }
  void delay(Nanos time) override {
    if (clock_ != CLOCK_MONOTONIC || !timer_) return;
    const Nanos due = timer_->at + time;
    disarm();
    arm(due);
  }
  void set(bool absolute, Nanos first, Nanos interval) {
    disarm();
    expired_ = 0;
    interval_ = interval;
    if (first == Nanos{}) return;
    Kernel& kernel = table_.kernel();
    const Host host = owner()->host;
    const Nanos shown = clock_ == CLOCK_BOOTTIME   ? kernel.boottime(host)
                        : clock_ == CLOCK_REALTIME ? kernel.realtime(host)
                                                   : kernel.monotonic(host);
    arm(kernel.world_time_of(host, absolute ? first - shown : first));
  }

 private:
  void arm(Nanos at) {
    timer_ = table_.kernel().events().at(at, [this, at] {
      timer_.reset();
      ++expired_;
      if (interval_ != Nanos{}) arm(at + interval_);
      changed();
    });
  }
  void disarm() {
    if (timer_) table_.kernel().events().cancel(*timer_);
    timer_.reset();
  }

  const int clock_;
  std::uint64_t expired_ = 0;
  Nanos interval_{};
  std::optional<EventQueue::Key> timer_;
};

/// What one end of a pipe has written and the other one has not read yet.
struct Stream {
  static constexpr std::size_t room = 65536;

  std::string bytes;
  bool writer_closed = false;
  bool reader_closed = false;
};

/// An end of a pipe, or of a pair of sockets, within one process.
class StreamEnd : public File {
 public:
  StreamEnd(Descriptors& table, ClientProcess* owner, std::shared_ptr<Stream> in, std::shared_ptr<Stream> out)
      : File(table, owner), in_(std::move(in)), out_(std::move(out)) {}
  ~StreamEnd() override {
    if (in_) in_->reader_closed = true;
    if (out_) out_->writer_closed = true;
    if (peer_ == nullptr) return;
    peer_->peer_ = nullptr;
    peer_->changed();
  }
  static void join(StreamEnd& one, StreamEnd& other) {
    one.peer_ = &other;
    other.peer_ = &one;
  }

  [[nodiscard]] std::uint32_t ready() const override {
    std::uint32_t now = 0;
    if (in_ && !in_->bytes.empty()) now |= EPOLLIN;
    if (in_ && in_->writer_closed) now |= out_ ? EPOLLIN | EPOLLRDHUP | EPOLLHUP : std::uint32_t{EPOLLHUP};
    if (out_ && out_->reader_closed) now |= EPOLLOUT | EPOLLERR;
    if (out_ && out_->bytes.size() < Stream::room) now |= EPOLLOUT;
    return now;
  }
  ssize_t read(void* to, std::size_t size) override {
    if (!in_) return fails(EBADF);
    if (in_->bytes.empty()) return in_->writer_closed ? 0 : fails(EAGAIN);
    const std::size_t taken = std::min(size, in_->bytes.size());
    std::memcpy(to, in_->bytes.data(), taken);
    in_->bytes.erase(0, taken);
    if (peer_ != nullptr) peer_->changed();
    return static_cast<ssize_t>(taken);
  }
  ssize_t write(const void* from, std::size_t size) override {
    if (!out_) return fails(EBADF);
    if (out_->reader_closed) return fails(EPIPE);  // Without SIGPIPE.
    const std::size_t taken = std::min(size, Stream::room - out_->bytes.size());
    if (taken == 0 && size > 0) return fails(EAGAIN);
    out_->bytes.append(static_cast<const char*>(from), taken);
    if (peer_ != nullptr) peer_->changed();
    return static_cast<ssize_t>(taken);
  }

 private:
  const std::shared_ptr<Stream> in_;
  const std::shared_ptr<Stream> out_;
  StreamEnd* peer_ = nullptr;
};

}  // namespace

// --- File ----------------------------------------------------------------------------------------

File::~File() {
  while (!watchers_.empty())
    watchers_.back().first->forget(watchers_.back().second);
}

void File::leave_epolls(int descriptor) {
  const auto watchers = watchers_;
  for (const auto& [epoll, as] : watchers) {
    if (as == descriptor) epoll->forget(descriptor);
  }
}

ssize_t File::read(void* /*to*/, std::size_t /*size*/) { return fails(EINVAL); }
ssize_t File::write(const void* /*from*/, std::size_t /*size*/) { return fails(EINVAL); }

void File::changed() {
  Kernel& kernel = table_.kernel();
  kernel.wake(this);
  kernel.wake(&table_);  // Those in poll(), who wait for several.
  for (const auto& [epoll, descriptor] : watchers_)
    epoll->note(descriptor);
}

// --- Socket --------------------------------------------------------------------------------------

/// Lives while one of the ends, or a message, needs it.
struct Socket::Connection {
  Connection(Network& network, Host from, Host to) : up(network, from, to), down(network, to, from) {}

  Pipe up;
  Pipe down;
  RemoteEnd server;
  Socket* socket = nullptr;
  bool over = false;
};

Socket::~Socket() {
  if (!connection_) return;
  connection_->socket = nullptr;
  if (state_ == State::connecting || state_ == State::connected) tell_closed();
}

void Socket::tell_closed() {
  connection_->up.send([connection = connection_, reset = resets_when_closed] {
    if (std::exchange(connection->over, true)) return;
    const RemoteEnd& server = connection->server;
    const auto& told = reset && server.broken ? server.broken : server.closed;
    if (told) told();
  });
}

void Socket::transmit(std::string bytes) {
  connection_->up.send([connection = connection_, bytes = std::move(bytes)] {
    if (!connection->over && connection->server.receive) connection->server.receive(bytes);
  });
}

void Socket::shutdown() {
  if (state_ != State::connecting && state_ != State::connected) return;
  tell_closed();
  state_ = State::broken;
  changed();
}

void Socket::fail(int error) {
  state_ = State::broken;
  error_ = error;
  changed();
}

int Socket::connect(const sockaddr_in& to) {
  if (state_ != State::fresh) return static_cast<int>(fails(EISCONN));
  peer_ = to;
  state_ = State::connecting;
  Kernel& kernel = table_.kernel();
  const Listener* listener = table_.listener(to.sin_addr.s_addr, to.sin_port);
  if (listener == nullptr) {
    error_ = ECONNREFUSED;
    state_ = State::broken;
    return static_cast<int>(fails(ECONNREFUSED));
  }
  connection_ = std::make_shared<Connection>(kernel.network(), owner()->host, listener->host);
  connection_->socket = this;
  connection_->up.send([connection = connection_, &table = table_, to] {
    if (connection->over) return;
    const Listener* const still_there = table.listener(to.sin_addr.s_addr, to.sin_port);
    const std::weak_ptr<Connection> weak = connection;
    AnswerTo answer;
    answer.from = connection->up.from();
    answer.bytes = [weak](std::string bytes) {
      const auto self = weak.lock();
      if (!self || self->over) return;
      self->down.send([self, bytes = std::move(bytes)] {
        if (self->socket == nullptr || self->over) return;
        self->socket->table_.kernel().trace(std::hash<std::string>()(bytes));
        self->socket->received_ += bytes;
        self->socket->changed();
      });
    };
    const auto end = [weak](bool reset) {
      const auto self = weak.lock();
      if (!self || self->over) return;
      self->down.send([self, reset] {
        if (std::exchange(self->over, true) || self->socket == nullptr) return;
        if (reset) return self->socket->fail(ECONNRESET);
        self->socket->ended_ = true;
        self->socket->changed();
      });
    };
    answer.close = [end] { end(false); };
    answer.reset = [end] { end(true); };
    if (still_there != nullptr) connection->server = still_there->accept(std::move(answer));
    const bool refused = !connection->server.receive;
    connection->down.send([connection, refused] {
      if (connection->socket == nullptr || connection->over) return;
      if (refused) {
        connection->over = true;
        connection->socket->fail(ECONNREFUSED);
        return;
      }
      connection->socket->state_ = State::connected;
      connection->socket->changed();
    });
  });
  return static_cast<int>(fails(EINPROGRESS));
}

std::uint32_t Socket::ready() const {
  switch (state_) {
    case State::fresh: return EPOLLOUT | EPOLLHUP;
    case State::connecting: return 0;
    case State::broken: return EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP;
    case State::connected:
      return EPOLLOUT | (!received_.empty() || ended_ ? std::uint32_t{EPOLLIN} : 0u) |
             (ended_ ? std::uint32_t{EPOLLRDHUP} : 0u);
  }
  return 0;
}

ssize_t Socket::read(void* to, std::size_t size) {
  if (!received_.empty()) {
    const std::size_t taken = std::min(size, received_.size());
    std::memcpy(to, received_.data(), taken);
    received_.erase(0, taken);
    return static_cast<ssize_t>(taken);
  }
  if (state_ == State::broken) return error_ != 0 ? fails(take_error()) : 0;
  if (ended_) return 0;
  return fails(state_ == State::connected || state_ == State::connecting ? EAGAIN : ENOTCONN);
}

ssize_t Socket::peek(void* to, std::size_t size) const {
  if (received_.empty()) return state_ == State::broken || ended_ ? 0 : fails(EAGAIN);
  const std::size_t seen = std::min(size, received_.size());
  std::memcpy(to, received_.data(), seen);
  return static_cast<ssize_t>(seen);
}

ssize_t Socket::write(const void* from, std::size_t size) {
  if (state_ == State::broken) return fails(error_ != 0 ? take_error() : EPIPE);
  if (state_ != State::connected) return fails(state_ == State::connecting ? EAGAIN : ENOTCONN);
  if (ended_) return fails(EPIPE);
  table_.kernel().trace(std::hash<std::string_view>()({static_cast<const char*>(from), size}));
  transmit(std::string(static_cast<const char*>(from), size));
  return static_cast<ssize_t>(size);
}

bool Socket::leads_to(Host from, Host to) const {
  return connection_ && connection_->up.from() == from && connection_->up.to() == to;
}

void Socket::reset() {
  if (!connection_ || (state_ != State::connecting && state_ != State::connected)) return;
  const auto connection = std::exchange(connection_, nullptr);
  connection->socket = nullptr;
  const bool was_open = !std::exchange(connection->over, true);
  received_.clear();
  fail(ECONNRESET);
  if (was_open && connection->server.closed) connection->server.closed();
}

// --- What processes listen to --------------------------------------------------------------------

namespace {

/// The accepting end of a connection between two processes.
class AcceptedSocket : public Socket {
 public:
  AcceptedSocket(Descriptors& table, ClientProcess* owner, AnswerTo answer)
      : Socket(table, owner), answer_(std::move(answer)) {
    state_ = State::connected;
  }
  ~AcceptedSocket() override {
    if (state_ == State::connected) AcceptedSocket::tell_closed();
    state_ = State::broken;
  }

  void receive(std::string_view bytes) {
    if (state_ != State::connected) return;
    received_ += bytes;
    changed();
  }
  void hear_end() {
    ended_ = true;
    changed();
  }
  void hear_reset() { fail(ECONNRESET); }

 private:
  void transmit(std::string bytes) override { answer_.bytes(std::move(bytes)); }
  void tell_closed() override { resets_when_closed ? answer_.reset() : answer_.close(); }

  const AnswerTo answer_;
};

/// Takes its socket's place when that begins to listen.
class ListeningSocket : public Socket {
 public:
  using Socket::Socket;
  ~ListeningSocket() override { table_.stop_listening(own.sin_addr.s_addr, own.sin_port); }

  [[nodiscard]] std::uint32_t ready() const override { return waiting_.empty() ? 0u : std::uint32_t{EPOLLIN}; }
  std::shared_ptr<Socket> take() {
    if (waiting_.empty()) return nullptr;
    std::shared_ptr<Socket> first = std::move(waiting_.front());
    waiting_.pop_front();
    return first;
  }
  RemoteEnd accept(AnswerTo answer) {
    const auto accepted = std::make_shared<AcceptedSocket>(table_, owner(), std::move(answer));
    accepted->own = own;
    waiting_.push_back(accepted);
    changed();
    const std::weak_ptr<AcceptedSocket> weak = accepted;
    const auto tell = [weak](auto what) {
      if (const auto socket = weak.lock()) what(*socket);
    };
    return {.receive = [tell](std::string_view bytes) { tell([&](auto& socket) { socket.receive(bytes); }); },
            .closed = [tell] { tell([](auto& socket) { socket.hear_end(); }); },
            .broken = [tell] { tell([](auto& socket) { socket.hear_reset(); }); }};
  }

 private:
  std::deque<std::shared_ptr<Socket>> waiting_;
};

}  // namespace

template <typename Try>
ssize_t Descriptors::until_done(int descriptor, Try attempt) {
  for (;;) {
    File* const file = find(descriptor);
    if (file == nullptr) return fails(EBADF);
    const ssize_t result = attempt(*file);
    if (result >= 0 || errno != EAGAIN || file->nonblocking) return result;
    kernel_.block(file, std::nullopt);
  }
}

int Descriptors::bind(int descriptor, sockaddr_in address) {
  Socket* const socket = find_socket(descriptor);
  if (socket == nullptr) return static_cast<int>(fails(ENOTSOCK));
  if (address.sin_port == 0) {
    while (listener(address.sin_addr.s_addr, htons(next_port_)) != nullptr)
      ++next_port_;
    address.sin_port = htons(next_port_++);
  }
  if (listener(address.sin_addr.s_addr, address.sin_port) != nullptr) return static_cast<int>(fails(EADDRINUSE));
  socket->own = address;
  return 0;
}

int Descriptors::listen(int descriptor) {
  Socket* const socket = find_socket(descriptor);
  if (socket == nullptr) return static_cast<int>(fails(ENOTSOCK));
  const sockaddr_in own = socket->own;
  if (own.sin_port == 0) return static_cast<int>(fails(EINVAL));
  if (listener(own.sin_addr.s_addr, own.sin_port) != nullptr) return static_cast<int>(fails(EADDRINUSE));
  const auto listening = std::make_shared<ListeningSocket>(*this, socket->owner());
  listening->own = own;
  listening->nonblocking = socket->nonblocking;
  const std::weak_ptr<ListeningSocket> weak = listening;
  const auto accept = [weak](AnswerTo answer) {
    const auto self = weak.lock();
    return self == nullptr ? RemoteEnd{} : self->accept(std::move(answer));
  };
  listen(own.sin_addr.s_addr, own.sin_port, {.host = socket->owner()->host, .accept = accept});
  files_[descriptor] = listening;
  return 0;
}

int Descriptors::accept(int descriptor, sockaddr_in* from, bool nonblocking) {
  std::shared_ptr<Socket> accepted;
  const ssize_t result = until_done(descriptor, [&](File& file) -> ssize_t {
    auto* const listening = dynamic_cast<ListeningSocket*>(&file);
    if (listening == nullptr) return fails(EINVAL);
    accepted = listening->take();
    return accepted == nullptr ? fails(EAGAIN) : 0;
  });
  if (result < 0) return -1;
  accepted->nonblocking = nonblocking;
  if (from != nullptr) *from = accepted->peer();
  return add(accepted);
}

// --- Descriptors ---------------------------------------------------------------------------------

Descriptors::~Descriptors() { files_.clear(); }  // What listens says so to the table.

int Descriptors::duplicate(int descriptor) {
  const auto found = files_.find(descriptor);
  return found == files_.end() ? static_cast<int>(fails(EBADF)) : add(found->second);
}

int Descriptors::add(std::shared_ptr<File> file) {
  files_.emplace(next_, std::move(file));
  return next_++;
}

File* Descriptors::find(int descriptor) {
  const auto found = files_.find(descriptor);
  return found == files_.end() ? nullptr : found->second.get();
}

Socket* Descriptors::find_socket(int descriptor) { return dynamic_cast<Socket*>(find(descriptor)); }

const Listener* Descriptors::listener(std::uint32_t address, std::uint16_t port) const {
  const auto found = listeners_.find({address, port});
  return found == listeners_.end() ? nullptr : &found->second;
}

std::vector<std::uint32_t> Descriptors::resolve(const std::string& name) {
  const auto known = names_.find(name);
  if (known == names_.end()) return {};
  if (known->second.second != Nanos{}) kernel_.block(nullptr, kernel_.events().now() + known->second.second);
  return names_[name].first;
}

int Descriptors::socket(bool nonblocking) {
  auto made = std::make_unique<Socket>(*this, Kernel::current()->process);
  made->nonblocking = nonblocking;
  return add(std::move(made));
}

int Descriptors::connect(int descriptor, const sockaddr_in& to) {
  Socket* socket = find_socket(descriptor);
  if (socket == nullptr) return static_cast<int>(fails(EBADF));
  const int result = socket->connect(to);
  if (result == 0 || errno != EINPROGRESS || socket->nonblocking) return result;
  while ((socket = find_socket(descriptor)) != nullptr && socket->is_connecting())
    kernel_.block(socket, std::nullopt);
  if (socket == nullptr) return static_cast<int>(fails(EBADF));
  const int error = socket->take_error();
  return error == 0 ? 0 : static_cast<int>(fails(error));
}

int Descriptors::epoll_create() { return add(std::make_unique<Epoll>(*this, Kernel::current()->process)); }

int Descriptors::epoll_ctl(int epoll, int what, int descriptor, epoll_event* event) {
  auto* const file = dynamic_cast<Epoll*>(find(epoll));
  if (file == nullptr) return static_cast<int>(fails(EBADF));
  File* const watched = find(descriptor);
  if (watched == nullptr) {
    std::fprintf(stderr, "simulation: epoll_ctl with descriptor %d, which is none of the simulated world\n",
                 descriptor);
    return static_cast<int>(fails(EBADF));
  }
  if (watched == file) return static_cast<int>(fails(EINVAL));
  return file->control(what, descriptor, *watched, event);
}

int Descriptors::epoll_wait(int epoll, epoll_event* events, int size, std::optional<Nanos> limit) {
  kernel_.step();
  std::optional<Deadline> deadline;
  if (limit) deadline = kernel_.world_time_of(Kernel::current()->process->host, *limit);
  for (bool in_time = true;;) {
    auto* const file = dynamic_cast<Epoll*>(find(epoll));
    if (file == nullptr) return static_cast<int>(fails(EBADF));
    const int count = file->collect(events, size);
    if (count > 0 || !in_time || (limit && *limit == Nanos{})) return count;
    in_time = kernel_.block(file, deadline);
  }
}

int Descriptors::eventfd(std::uint64_t count, bool semaphore, bool nonblocking) {
  auto made = std::make_unique<EventCounter>(*this, Kernel::current()->process, count, semaphore);
  made->nonblocking = nonblocking;
  return add(std::move(made));
}

int Descriptors::timerfd_create(int clock, bool nonblocking) {
  auto made = std::make_unique<TimerFile>(*this, Kernel::current()->process, clock);
  made->nonblocking = nonblocking;
  return add(std::move(made));
}

void Descriptors::pipe(int ends[2], bool nonblocking) {
  ClientProcess* const owner = Kernel::current()->process;
  const auto stream = std::make_shared<Stream>();
  auto reader = std::make_unique<StreamEnd>(*this, owner, stream, nullptr);
  auto writer = std::make_unique<StreamEnd>(*this, owner, nullptr, stream);
  StreamEnd::join(*reader, *writer);
  reader->nonblocking = writer->nonblocking = nonblocking;
  ends[0] = add(std::move(reader));
  ends[1] = add(std::move(writer));
}

void Descriptors::socketpair(int ends[2], bool nonblocking) {
  ClientProcess* const owner = Kernel::current()->process;
  const auto there = std::make_shared<Stream>();
  const auto back = std::make_shared<Stream>();
  auto one = std::make_unique<StreamEnd>(*this, owner, back, there);
  auto other = std::make_unique<StreamEnd>(*this, owner, there, back);
  StreamEnd::join(*one, *other);
  one->nonblocking = other->nonblocking = nonblocking;
  ends[0] = add(std::move(one));
  ends[1] = add(std::move(other));
}

int Descriptors::timerfd_settime(int descriptor, bool absolute, Nanos first_time, Nanos interval) {
  auto* const file = dynamic_cast<TimerFile*>(find(descriptor));
  if (file == nullptr) return static_cast<int>(fails(EINVAL));
  file->set(absolute, first_time, interval);
  return 0;
}

ssize_t Descriptors::read(int descriptor, void* to, std::size_t size) {
  return until_done(descriptor, [&](File& file) { return file.read(to, size); });
}

ssize_t Descriptors::peek(int descriptor, void* to, std::size_t size) {
  const Socket* const socket = find_socket(descriptor);
  return socket == nullptr ? fails(ENOTSOCK) : socket->peek(to, size);
}

ssize_t Descriptors::write(int descriptor, const void* from, std::size_t size) {
  const ssize_t result = until_done(descriptor, [&](File& file) { return file.write(from, size); });
  const int error = errno;
  kernel_.step();
  errno = error;
  return result;
}

int Descriptors::close(int descriptor) {
  const auto found = files_.find(descriptor);
  if (found == files_.end()) return static_cast<int>(fails(EBADF));
  const std::shared_ptr<File> file = found->second;
  files_.erase(found);
  file->leave_epolls(descriptor);
  return 0;
}

void Descriptors::close_all(const ClientProcess& process) {
  std::erase_if(files_, [&](const auto& entry) { return entry.second->owner() == &process; });
}

void Descriptors::delay_timers(const ClientProcess& process, Nanos time) {
  for (const auto& [descriptor, file] : files_) {
    if (file->owner() == &process) file->delay(time);
  }
}

void Descriptors::reset(Host from, Host to) {
  std::vector<Socket*> sockets;
  for (const auto& [descriptor, file] : files_) {
    auto* socket = dynamic_cast<Socket*>(file.get());
    if (socket != nullptr && socket->leads_to(from, to)) sockets.push_back(socket);
  }
  for (Socket* socket : sockets)
    socket->reset();
}

bool Descriptors::is_connected(Host from, Host to) const {
  return std::any_of(files_.begin(), files_.end(), [&](const auto& one) {
    const auto* socket = dynamic_cast<const Socket*>(one.second.get());
    return socket != nullptr && socket->is_connected() && socket->leads_to(from, to);
  });
}

}  // namespace zktesting::simulated
