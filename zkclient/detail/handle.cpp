#include "zkclient/detail/handle.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include <array>
#include <cassert>
#include <cstring>

#include <boost/asio/post.hpp>

namespace zkclient::detail {

// What the C client fills in when a transaction completes; its addresses must not change until then.
struct Op::MultiBuffers {
  std::vector<zoo_op_t> ops;
  std::vector<zoo_op_result_t> results;
  std::vector<std::string> paths;
  std::vector<::Stat> stats;
};

Op::Op() = default;
Op::~Op() = default;

namespace {

constexpr auto descriptor_pause = std::chrono::milliseconds(50);   // Before the next attempt to get one.
constexpr auto shortest_attempt = std::chrono::milliseconds(200);  // To connect.
constexpr int not_connected_state = 999;  // The C client closed its socket after a failed send, without an event.

zkclient::Stat convert(const ::Stat& from) {
  zkclient::Stat to;
  to.czxid = from.czxid;
  to.mzxid = from.mzxid;
  to.pzxid = from.pzxid;
  to.ctime_ms = from.ctime;
  to.mtime_ms = from.mtime;
  to.version = from.version;
  to.children_version = from.cversion;
  to.acl_version = from.aversion;
  to.data_length = from.dataLength;
  to.children_count = from.numChildren;
  to.ephemeral_owner = from.ephemeralOwner;
  return to;
}

// An access control list in the C client's form; the C client only reads it during the call.
class NativeAcl {
 public:
  explicit NativeAcl(const AclList& list) {
    for (const zkclient::Acl& entry : list) {
      entries_.push_back(
          ::ACL{entry.permissions, ::Id{const_cast<char*>(entry.scheme.c_str()), const_cast<char*>(entry.id.c_str())}});
    }
    native_ = {static_cast<std::int32_t>(entries_.size()), entries_.data()};
  }
  const ACL_vector* get() const { return &native_; }

 private:
  std::vector<::ACL> entries_;
  ACL_vector native_{};
};

int native_mode(CreateMode mode) {
  switch (mode) {
    case CreateMode::persistent: return ZOO_PERSISTENT;
    case CreateMode::persistent_sequential: return ZOO_PERSISTENT_SEQUENTIAL;
    case CreateMode::ephemeral: return ZOO_EPHEMERAL;
    case CreateMode::ephemeral_sequential: return ZOO_EPHEMERAL_SEQUENTIAL;
    case CreateMode::container: return ZOO_CONTAINER;
    case CreateMode::persistent_ttl: return ZOO_PERSISTENT_WITH_TTL;
    case CreateMode::persistent_sequential_ttl: return ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL;
  }
  return ZOO_PERSISTENT;
}

const char* data_of(const std::optional<std::string>& data) { return data ? data->data() : nullptr; }
int length_of(const std::optional<std::string>& data) { return data ? static_cast<int>(data->size()) : -1; }

void discard_log_line(const char*) {}

}  // namespace

// The C client's completions: each moves the answer into its op and queues it.
struct Callbacks {
  static void finish(int code, const void* data, Op& op) {
    (void)data;
    op.code = code;
    Handle& handle = *op.handle;
    --handle.in_flight_;
    handle.ready_.push_back({std::move(op.in_library)});
  }
  static Op& from(const void* data) { return *static_cast<Op*>(const_cast<void*>(data)); }

  static void created(int code, const char* path, const ::Stat* stat, const void* data) {
    Op& op = from(data);
    if (code == ZOK && path != nullptr) op.reply.path = path;
    if (code == ZOK && stat != nullptr) op.reply.stat = convert(*stat);
    finish(code, data, op);
  }
  static void got(int code, const char* value, int length, const ::Stat* stat, const void* data) {
    Op& op = from(data);
    if (code == ZOK) {
      op.reply.is_null = value == nullptr || length < 0;
      if (!op.reply.is_null) op.reply.data.assign(value, static_cast<std::size_t>(length));
      if (stat != nullptr) op.reply.stat = convert(*stat);
    }
    finish(code, data, op);
  }
  static void stat_known(int code, const ::Stat* stat, const void* data) {
    Op& op = from(data);
    if (code == ZOK && stat != nullptr) op.reply.stat = convert(*stat);
    finish(code, data, op);
  }
  static void listed(int code, const String_vector* names, const ::Stat* stat, const void* data) {
    Op& op = from(data);
    if (code == ZOK && names != nullptr) {
      op.reply.names.assign(names->data, names->data + names->count);
      if (stat != nullptr) op.reply.stat = convert(*stat);
    }
    finish(code, data, op);
  }
  static void synced(int code, const char*, const void* data) { finish(code, data, from(data)); }
  static void done(int code, const void* data) { finish(code, data, from(data)); }
  static void committed(int code, const void* data) {
    Op& op = from(data);
    Op::MultiBuffers& multi = *op.multi;
    for (std::size_t i = 0; i < multi.ops.size(); ++i) {
      op.reply.codes.push_back(multi.results[i].err);
      if (code != ZOK) continue;
      OperationResult result;
      if (multi.ops[i].type == ZOO_CREATE_OP) result.path.assign(multi.paths[i], 0, multi.paths[i].find('\0'));
      if (multi.ops[i].type == ZOO_SETDATA_OP) result.stat = convert(multi.stats[i]);
      op.reply.results.push_back(std::move(result));
    }
    op.multi.reset();
    finish(code, data, op);
  }
};

namespace {

// Fills one slot of a transaction; strings stay owned by the op's request and buffers.
void fill(const Transaction::Operation& from, zoo_op_t& to, std::string& path_buffer, ::Stat& stat,
          const std::vector<NativeAcl>& acls, std::size_t& next_acl) {
  if (const auto* create = std::get_if<Transaction::Create>(&from)) {
    path_buffer.assign(create->path.str().size() + 16, '\0');  // Room for a sequence number.
    zoo_create_op_init(&to, create->path.str().c_str(), data_of(create->data), length_of(create->data),
                       acls[next_acl++].get(), native_mode(create->mode), path_buffer.data(),
                       static_cast<int>(path_buffer.size()));
  } else if (const auto* set = std::get_if<Transaction::Set>(&from)) {
    zoo_set_op_init(&to, set->path.str().c_str(), data_of(set->data), length_of(set->data), set->version, &stat);
  } else if (const auto* remove = std::get_if<Transaction::Remove>(&from)) {
    zoo_delete_op_init(&to, remove->path.str().c_str(), remove->version);
  } else if (const auto* check = std::get_if<Check>(&from)) {
    zoo_check_op_init(&to, check->path.str().c_str(), check->version);
  }
}

int send_multi(zhandle_t* zh, Op& op) {
  const auto& operations = op.request.operations;
  op.multi = std::make_unique<Op::MultiBuffers>();
  Op::MultiBuffers& multi = *op.multi;
  multi.ops.resize(operations.size());
  multi.results.resize(operations.size());
  multi.paths.resize(operations.size());
  multi.stats.resize(operations.size());
  std::vector<NativeAcl> acls;
  acls.reserve(operations.size());
  for (const auto& operation : operations) {
    if (const auto* create = std::get_if<Transaction::Create>(&operation)) acls.emplace_back(create->acl);
  }
  std::size_t next_acl = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    fill(operations[i], multi.ops[i], multi.paths[i], multi.stats[i], acls, next_acl);
  }
  return zoo_amulti(zh, static_cast<int>(operations.size()), multi.ops.data(), multi.results.data(),
                    &Callbacks::committed, &op);
}

}  // namespace

void Handle::initialize_library() { zoo_set_debug_level(static_cast<ZooLogLevel>(0)); }

Handle::Handle(asio::io_context& context, HandleOwner& owner)
    : context_(context), owner_(&owner), descriptor_(context), timer_(context), close_timer_(context) {}

Handle::~Handle() {
  assert(phase_ == Phase::closed || zh_ == nullptr);  // Its owner closes or abandons it.
}

void Handle::open(const std::string& addresses, std::chrono::milliseconds timeout, const SessionCredentials& resume) {
  clientid_t identity{};
  identity.client_id = resume.id;
  std::memcpy(identity.passwd, resume.password.data(), std::min(resume.password.size(), sizeof identity.passwd));
  zh_ = zookeeper_init2(addresses.c_str(), &Handle::watcher, static_cast<int>(timeout.count()),
                        resume.id != 0 ? &identity : nullptr, this, ZOO_NO_LOG_CLIENTENV, &discard_log_line);
  if (zh_ == nullptr) throw Error(Errc::system_error, "connect", "", std::strerror(errno));
  zoo_set_servers_resolution_delay(zh_, -1);  // The addresses are numeric; never look them up again.
  phase_ = Phase::open;
  schedule_drive();
}

SessionCredentials Handle::credentials() const {
  const clientid_t* identity = zoo_client_id(zh_);
  return {identity->client_id, std::string(identity->passwd, sizeof identity->passwd)};
}

std::chrono::milliseconds Handle::timeout() const { return std::chrono::milliseconds(zoo_recv_timeout(zh_)); }

void Handle::watcher(_zhandle*, int type, int state, const char* path, void* context) {
  Handle& self = *static_cast<Handle*>(context);
  if (type == ZOO_SESSION_EVENT) {
    self.session_event(state);
  } else if (type == ZOO_CREATED_EVENT || type == ZOO_DELETED_EVENT || type == ZOO_CHANGED_EVENT ||
             type == ZOO_CHILD_EVENT) {
    self.ready_.push_back({nullptr, HandleEvent::connected, type, path});
  }
}

void Handle::session_event(int state) {
  const auto tell = [this](HandleEvent event) { ready_.push_back({nullptr, event}); };
  if (state == ZOO_CONNECTED_STATE) {
    // Delivered twice now and then; only a change counts.
    if (!connected_) tell(HandleEvent::connected);
    connected_ = true;
    attempt_patience_ = {};
  } else if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
    connected_ = false;
    dead_ = true;
    tell(state == ZOO_AUTH_FAILED_STATE ? HandleEvent::auth_failed : HandleEvent::expired);
  } else {
    if (connected_) tell(HandleEvent::disconnected);
    connected_ = false;
  }
}

bool Handle::submit(const std::shared_ptr<Op>& op) {
  if (!connected_ || phase_ != Phase::open) return false;
  op->handle = this;
  op->reply = Reply{};
  op->reply.sent = BootClock::now();
  op->in_library = op;
  ++in_flight_;
  const int code = send(*op);
  if (code != ZOK) {  // Refused before it was queued: nothing was sent.
    --in_flight_;
    const std::shared_ptr<Op> refused = std::move(op->in_library);
    if (code != ZINVALIDSTATE) {
      op->code = code;
      ready_.push_back({refused});
    }
  }
  check_connection();
  schedule_drive();
  return code != ZINVALIDSTATE;
}

int Handle::send(Op& op) {
  const Request& request = op.request;
  const char* path = request.path.c_str();
  watcher_fn watch = request.watch ? &Handle::watcher : nullptr;
  switch (request.type) {
    case OpType::create: {
      const NativeAcl acl(request.acl);
      return zoo_acreate2_ttl(zh_, path, data_of(request.data), length_of(request.data), acl.get(),
                              native_mode(request.mode), request.ttl_ms, &Callbacks::created, &op);
    }
    case OpType::get: return zoo_awget(zh_, path, watch, this, &Callbacks::got, &op);
    case OpType::set:
      return zoo_aset(zh_, path, data_of(request.data), length_of(request.data), request.version,
                      &Callbacks::stat_known, &op);
    case OpType::exists: return zoo_awexists(zh_, path, watch, this, &Callbacks::stat_known, &op);
    case OpType::children: return zoo_awget_children2(zh_, path, watch, this, &Callbacks::listed, &op);
    case OpType::remove: return zoo_adelete(zh_, path, request.version, &Callbacks::done, &op);
    case OpType::multi: return send_multi(zh_, op);
    case OpType::sync: return zoo_async(zh_, path, &Callbacks::synced, &op);
    case OpType::connect: break;
  }
  return ZBADARGUMENTS;
}

// After a failed send the C client has closed its socket but kept the requests, whose replies will never come, and
// told nobody. Left alone it would mistake the first reply of its next connection for theirs.
void Handle::check_connection() {
  if (!connected_ || zoo_state(zh_) != not_connected_state) return;  // A new handle is in that state, too.
  drop_descriptor();
  flush_broken_connection();
  ready_.push_back({nullptr, HandleEvent::disconnected});
  connected_ = false;
}

// Makes the C client fail those requests: a connection attempt that is cut at once leads it through its clean-up.
void Handle::flush_broken_connection() {
  for (int turn = 0; turn < 2; ++turn) {  // The first turn may only note that it is time for another attempt.
    int fd = -1;
    int interest = 0;
    timeval wait{};
    if (zookeeper_interest(zh_, &fd, &interest, &wait) != ZOK) return;
    if (fd == -1) continue;
    ::shutdown(fd, SHUT_RDWR);
    zookeeper_process(zh_, ZOOKEEPER_WRITE | ZOOKEEPER_READ);
    return;
  }
}

// Mostly the C client has closed it. After a ping that could not be sent it has not: what arrived is read to its end.
void Handle::finish_broken_connection() {
  if (dead_ || !descriptor_.is_open() || zoo_state(zh_) != ZOO_CONNECTED_STATE) return;
  ::shutdown(descriptor_.native_handle(), SHUT_RDWR);
  while (zookeeper_process(zh_, ZOOKEEPER_READ) == ZOK && !dead_)
    continue;
}

void Handle::schedule_drive() {
  if (drive_scheduled_) return;
  drive_scheduled_ = true;
  asio::post(context_, [self = shared_from_this()] {
    self->drive_scheduled_ = false;
    self->drive();
  });
}

// Asks the C client what it waits for, and arms that. Also where it connects, pings and finds out about time-outs.
void Handle::drive() {
  if (phase_ != Phase::open && phase_ != Phase::draining) return;
  if (dead_) {
    drop_descriptor();
    run_ready();
    return;
  }
  check_connection();
  forget_closed_socket();
  int fd = -1;
  int interest = 0;
  timeval wait{};
  const int code = zookeeper_interest(zh_, &fd, &interest, &wait);
  if (code != ZOK) {
    finish_broken_connection();
    drop_descriptor();
    if (!dead_) arm_timer(std::chrono::milliseconds(1));
  } else {
    if (fd == -1) drop_descriptor();
    // Asio goes on listening for writability once it was asked to, which would wake the loop after each reply.
    if (fd != -1 && listens_for_write_ && (interest & ZOOKEEPER_WRITE) == 0) stop_listening();
    const bool ready = fd != -1 && (descriptor_.is_open() || take_descriptor(fd));
    if (ready && (interest & ZOOKEEPER_READ) != 0) arm_read();
    if (ready && (interest & ZOOKEEPER_WRITE) != 0) arm_write();
    arm_timer(std::chrono::seconds(wait.tv_sec) + std::chrono::microseconds(wait.tv_usec));
    if (ready && !connected_) arm_timer(give_up_on_silence(fd));
    if (fd != -1 && !ready) arm_timer(descriptor_pause);
  }
  run_ready();
}

// The C client closes its socket whenever it likes, and another thread may get the number at once: the event loop
// therefore works on a duplicate of its own. False when there is none.
bool Handle::take_descriptor(int fd) {
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // Programs that this process starts must not keep the session's socket open.
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  boost::system::error_code error;
  if (own != -1) descriptor_.assign(own, error);
  if (own != -1 && error) ::close(own);
  ++generation_;
  attempt_begun_ = std::chrono::steady_clock::now();
  return descriptor_.is_open();
}

// A server that accepts and then says nothing (one that is just starting, or hangs) must not cost a lease: the C client
// would wait for two thirds of the session's time. Each attempt gets twice as long as the one before, so that a slow
// server is reached all the same. Returns when to look again.
std::chrono::microseconds Handle::give_up_on_silence(int fd) {
  if (attempt_patience_ == std::chrono::milliseconds::zero()) {
    attempt_patience_ = std::max(timeout() / 6, shortest_attempt);
  }
  const auto left = attempt_begun_ + attempt_patience_ - std::chrono::steady_clock::now();
  if (left > std::chrono::steady_clock::duration::zero()) {
    return std::chrono::duration_cast<std::chrono::microseconds>(left);
  }
  attempt_patience_ = std::min(attempt_patience_ * 2, timeout());
  ::shutdown(fd, SHUT_RDWR);
  zookeeper_process(zh_, ZOOKEEPER_WRITE | ZOOKEEPER_READ);
  forget_closed_socket();
  schedule_drive();
  return std::chrono::seconds(1);
}

void Handle::drop_descriptor() {
  boost::system::error_code ignored;
  if (descriptor_.is_open()) descriptor_.close(ignored);
  ++generation_;
  read_armed_ = write_armed_ = listens_for_write_ = false;
}

// Forgets all waits, and what the event loop listens for.
void Handle::stop_listening() {
  const int own = descriptor_.release();
  boost::system::error_code error;
  descriptor_.assign(own, error);
  if (error) ::close(own);
  ++generation_;
  read_armed_ = write_armed_ = listens_for_write_ = false;
}

void Handle::arm_read() {
  if (read_armed_) return;
  read_armed_ = true;
  descriptor_.async_wait(asio::posix::descriptor_base::wait_read,
                         [self = shared_from_this(), generation = generation_](const boost::system::error_code&) {
                           if (generation != self->generation_) return;
                           self->read_armed_ = false;
                           self->on_readable();
                         });
}

void Handle::arm_write() {
  if (write_armed_) return;
  write_armed_ = listens_for_write_ = true;
  descriptor_.async_wait(asio::posix::descriptor_base::wait_write,
                         [self = shared_from_this(), generation = generation_](const boost::system::error_code&) {
                           if (generation != self->generation_) return;
                           self->write_armed_ = false;
                           self->on_writable();
                         });
}

// A timer that is due earlier stays: it finds nothing to do and arms the next one. That saves a system call per reply.
void Handle::arm_timer(std::chrono::microseconds delay) {
  const auto due = std::chrono::steady_clock::now() + std::max(delay, std::chrono::microseconds(1000));
  if (due >= timer_due_) return;
  timer_due_ = due;
  timer_.expires_at(due);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error) return;
    self->timer_due_ = std::chrono::steady_clock::time_point::max();
    self->drive();
  });
}

// At once: the connection ends only when the duplicate is closed, too.
void Handle::forget_closed_socket() {
  const int state = zoo_state(zh_);
  if (dead_ || state == 0 || state == not_connected_state) drop_descriptor();
}

void Handle::on_readable() {
  if (phase_ == Phase::saying_goodbye) {
    read_goodbye();
    return;
  }
  process(ZOOKEEPER_READ);
}

void Handle::on_writable() { process(ZOOKEEPER_WRITE); }

void Handle::process(int events) {
  if (phase_ != Phase::open && phase_ != Phase::draining) return;
  // One call takes one reply. The bound keeps one busy session from starving the others.
  for (int turn = 0; turn < 64; ++turn) {
    const int code = zookeeper_process(zh_, events);
    if (code != ZOK) break;
    if (dead_ || (events & ZOOKEEPER_READ) == 0) break;
  }
  forget_closed_socket();
  run_ready();
  drive();
}

// Tells the owner what the C client reported. The owner may submit, close or abandon this handle meanwhile.
void Handle::run_ready() {
  if (running_ready_) return;
  running_ready_ = true;
  const auto self = shared_from_this();
  // A server that answers, slowly, is worth more patience.
  if (phase_ == Phase::draining && connected_ && !ready_.empty()) arm_close_timer();
  while (!ready_.empty()) {
    Ready item = std::move(ready_.front());
    ready_.pop_front();
    if (owner_ == nullptr) continue;
    if (item.op != nullptr) {
      owner_->on_reply(item.op);
    } else if (item.node_event != 0) {
      owner_->on_node_event(item.node_event, item.path);
    } else {
      owner_->on_handle_event(item.event);
    }
  }
  running_ready_ = false;
  if (phase_ == Phase::draining) continue_close();
}

void Handle::close(std::chrono::milliseconds patience, UniqueFunction<void()> done) {
  assert(phase_ == Phase::open || phase_ == Phase::idle);
  closed_ = std::move(done);
  phase_ = Phase::draining;
  close_patience_ = patience;
  arm_close_timer();
  asio::post(context_, [self = shared_from_this()] { self->continue_close(); });
}

void Handle::arm_close_timer() {
  close_timer_.expires_after(close_patience_);
  close_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->finish_close();
  });
}

void Handle::continue_close() {
  if (phase_ != Phase::draining || running_ready_) return;
  if (zh_ == nullptr || dead_ || !connected_) {
    finish_close();
  } else if (in_flight_ == 0) {
    say_goodbye();
  }
}

// zookeeper_close() blocks for up to 1.5 s waiting for the server, which would stop every other session of this
// loop. So the closing request is sent here, the server's answer (the end of the connection) is awaited by the loop,
// and zookeeper_close() then finds a connection that is already down.
void Handle::say_goodbye() {
  int fd = -1;
  int interest = 0;
  timeval wait{};
  const int code = zookeeper_interest(zh_, &fd, &interest, &wait);
  if (code != ZOK || fd == -1 || !connected_ || !descriptor_.is_open()) {
    finish_close();
    return;
  }
  if ((interest & ZOOKEEPER_WRITE) != 0) {  // A request is still partly unsent; on_writable() comes back here.
    arm_write();
    return;
  }
  const std::array<std::uint32_t, 3> frame = {htonl(8), htonl(0x7fffff00U), htonl(static_cast<std::uint32_t>(-11))};
  if (::send(fd, frame.data(), sizeof frame, MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(sizeof frame)) {
    finish_close();
    return;
  }
  phase_ = Phase::saying_goodbye;
  arm_close_timer();
  read_goodbye();
}

// Reads and discards until the server has closed the connection, which it does once the session is gone.
void Handle::read_goodbye() {
  std::array<char, 4096> buffer;
  const int fd = descriptor_.native_handle();
  for (;;) {
    const ssize_t count = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) continue;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      arm_read();
      return;
    }
    finish_close();
    return;
  }
}

void Handle::finish_close() {
  if (phase_ == Phase::closed) return;
  const auto self = shared_from_this();
  abandon();
  run_ready();  // Requests that never got a reply.
  owner_ = nullptr;
  if (closed_) {
    UniqueFunction<void()> done = std::move(closed_);
    done();
  }
}

void Handle::abandon() {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  timer_.cancel();
  close_timer_.cancel();
  connected_ = false;
  if (zh_ == nullptr) return;
  cut_connection();
  drop_descriptor();
  zookeeper_close(zh_);
  zh_ = nullptr;
  if (!running_ready_ && !ready_.empty()) asio::post(context_, [self = shared_from_this()] { self->run_ready(); });
}

// Takes the connection down before zookeeper_close(), which would otherwise wait for the server.
void Handle::cut_connection() {
  int fd = -1;
  if (descriptor_.is_open()) {
    fd = descriptor_.native_handle();
  } else if (zoo_state(zh_) == ZOO_CONNECTED_STATE) {
    int interest = 0;
    timeval wait{};
    zookeeper_interest(zh_, &fd, &interest, &wait);
  }
  if (fd != -1) ::shutdown(fd, SHUT_RDWR);
}

}  // namespace zkclient::detail
