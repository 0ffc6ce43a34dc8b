// Requests and their completions.

#include "zkclient/detail/connection/handle.hpp"

#include <zookeeper/zookeeper.h>

#include <algorithm>
#include <utility>

#include "zkclient/detail/connection/socket_order.hpp"
#include "zkclient/detail/metrics/call_record.hpp"

namespace zkclient::detail {
namespace {

constexpr std::size_t big_request = 16'384;  // May fill the socket's buffer.

}  // namespace

// The results that the C client fills in when a transaction completes; their addresses must not change until then.
struct Op::MultiBuffers {
  std::vector<zoo_op_t> ops;
  std::vector<zoo_op_result_t> results;
  std::vector<std::string> paths;
  std::vector<::Stat> stats;
};

Op::Op() = default;
Op::~Op() = default;

namespace {

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
  ACL_vector* get() { return &native_; }

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

// Of a Payload, or of an optional string in a transaction.
const char* data_of(const auto& data) { return data ? data->data() : nullptr; }
int length_of(const auto& data) { return data ? static_cast<int>(data->size()) : -1; }

}  // namespace

// The C client's completions: each moves the answer into its op and queues it.
struct Callbacks {
  static void finish(int code, const void* data, Op& op) {
    (void)data;
    op.code = code;
    op.answered = !rc::is_loss(code);
    Handle& handle = *op.handle;
    --handle.in_flight_;
    // No ping is sent while a request waits for its reply, so that answers all those before. (Credentials wait for none.)
    if (op.answered && op.request.type != OpType::authenticate) handle.pinged_.clear();
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
  static void acl_known(int code, ACL_vector* acl, ::Stat* stat, const void* data) {
    Op& op = from(data);
    if (code == ZOK && acl != nullptr) {
      for (std::int32_t i = 0; i < acl->count; ++i) {
        const ::ACL& entry = acl->data[i];
        op.reply.acl.push_back(zkclient::Acl{entry.perms, entry.id.scheme, entry.id.id});
      }
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
          std::vector<NativeAcl>& acls, std::size_t& next_acl) {
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

int send_reconfig(zhandle_t* zh, Op& op) {
  const Reconfig& change = *op.request.reconfig;
  const auto joined = [](const std::vector<std::string>& entries) {
    std::string text;
    for (const std::string& entry : entries)
      text += (text.empty() ? "" : ",") + entry;
    return text;
  };
  const std::string joining = joined(change.joining);
  const std::string leaving = joined(change.leaving);
  const std::string members = joined(change.members);
  const auto pointer = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
  return zoo_areconfig(zh, pointer(joining), pointer(leaving), pointer(members), change.version, &Callbacks::got, &op);
}

int send_multi(zhandle_t* zh, Op& op) {
  // On a handle that is dead the C client frees what is not its own.
  if (zoo_state(zh) != ZOO_CONNECTED_STATE) return ZINVALIDSTATE;
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

bool Handle::submit(const std::shared_ptr<Op>& op) {
  if (!connected_ || phase_ != Phase::open) return false;
  op->handle = this;
  op->reply = Reply{};
  // No two at the same instant, however coarse the clock is: which of two was sent first tells what a read has seen.
  last_sent_ = std::max(BootClock::now(), last_sent_ + std::chrono::nanoseconds(1));
  op->reply.sent = last_sent_;
  op->answered = false;
  op->in_library = op;
  ++in_flight_;
  next_date_.reset();
  if (op->request.wire_size() > big_request) unsent_ = true;  // Perhaps; drive() will know.
  note_socket_order();
  gather_packets();
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
      NativeAcl acl(request.acl);
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
    case OpType::get_acl: return zoo_aget_acl(zh_, path, &Callbacks::acl_known, &op);
    case OpType::set_acl: {
      NativeAcl acl(request.acl);
      return zoo_aset_acl(zh_, path, request.version, acl.get(), &Callbacks::done, &op);
    }
    case OpType::reconfig: return send_reconfig(zh_, op);
    case OpType::remove_watches:
      // Of all the forms only this one removes the watch at the server, too. Its declaration asks for a pointer to a
      // function pointer, and its definition for the function pointer.
      return zoo_aremove_all_watches(zh_, path, request.of_children ? ZWATCHTYPE_CHILD : ZWATCHTYPE_DATA, 0,
                                     reinterpret_cast<void_completion_t*>(&Callbacks::done), &op);
    case OpType::authenticate: {
      const int code = authenticate(request.credential);
      if (code == ZOK) Callbacks::done(ZOK, &op);
      op.answered = false;                                // No caller waits for the server's answer.
      if (code == ZOK) pinged_.push_back(op.reply.sent);  // It is answered like a ping.
      return code;
    }
    case OpType::connect: break;
  }
  return ZBADARGUMENTS;
}

void Handle::authenticate_first(const std::vector<std::shared_ptr<Credential>>& credentials) {
  if (!fresh_) return;
  for (const auto& credential : credentials) {
    if (std::find(authenticated_.begin(), authenticated_.end(), credential) != authenticated_.end()) continue;
    const int code = zoo_add_auth(zh_, credential->scheme.c_str(), credential->secret.data(),
                                  static_cast<int>(credential->secret.size()), nullptr, nullptr);
    if (code != ZOK) return;  // The connection is broken already: at the next one.
    authenticated_.push_back(credential);
    pinged_.push_back(BootClock::now());  // It is answered like a ping.
  }
  next_date_.reset();
  fresh_ = false;
  schedule_drive();
}

// The C client puts it before all that is unsent, and so, if a request is partly sent, into the middle of that. Hence
// only when nothing is unsent. It keeps what it got and repeats it after each reconnection.
int Handle::authenticate(const std::shared_ptr<Credential>& credential) {
  if (std::find(authenticated_.begin(), authenticated_.end(), credential) != authenticated_.end()) return ZOK;
  if (descriptor_.listens_for_write() || drive_wanted_) {
    flush_wanted_ = true;
    return ZINVALIDSTATE;
  }
  const int code = zoo_add_auth(zh_, credential->scheme.c_str(), credential->secret.data(),
                                static_cast<int>(credential->secret.size()), nullptr, nullptr);
  if (code == ZOK) authenticated_.push_back(credential);
  return code;
}

void Handle::tell_flushed() {
  if (!flush_wanted_ || !connected_ || descriptor_.listens_for_write() || drive_wanted_) return;
  flush_wanted_ = false;
  ready_.push_back({nullptr, HandleEvent::flushed});
}

}  // namespace zkclient::detail
