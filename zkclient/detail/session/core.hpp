#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include "zkclient/detail/connection/handle.hpp"
#include "zkclient/detail/connection/trouble.hpp"
#include "zkclient/detail/lease/lease_keeper.hpp"
#include "zkclient/detail/requests/size_suspects.hpp"
#include "zkclient/detail/requests/wait.hpp"
#include "zkclient/detail/servers/hosts.hpp"
#include "zkclient/detail/session/loop.hpp"
#include "zkclient/detail/watches/armed_watches.hpp"
#include "zkclient/detail/watches/watch_registry.hpp"

namespace zkclient::detail {

class ClientCore;

/// What a call takes of the client's limits, until this goes. Any thread.
class ZKRECIPES_INTERNAL_API Admission {
 public:
  Admission() noexcept = default;
  Admission(std::shared_ptr<ClientCore> core, std::size_t bytes);
  Admission(Admission&&) noexcept = default;
  Admission& operator=(Admission&&) = delete;
  ~Admission();

 private:
  std::shared_ptr<ClientCore> core_;
  std::size_t bytes_ = 0;
};

/// Limits of one call, on the loop thread.
struct Call {
  std::optional<Op::TimePoint> deadline = {};
  std::shared_ptr<CancelScope> cancel = {};
  std::shared_ptr<SessionState> bound = {};  ///< Run on this session or fail with session_lost.
};

/// A one-shot watch for code on the loop; dropping it removes it.
class ZKRECIPES_INTERNAL_API LoopWatch {
 public:
  LoopWatch(std::shared_ptr<ClientCore> core, WatchRegistry::Kind kind, WatchRegistry::Callback callback)
      : core_(std::move(core)), kind_(kind), callback_(std::move(callback)) {}
  ~LoopWatch();
  LoopWatch(const LoopWatch&) = delete;
  LoopWatch& operator=(const LoopWatch&) = delete;

  void arm(const std::string& path);

 private:
  const std::shared_ptr<ClientCore> core_;
  const WatchRegistry::Kind kind_;
  WatchRegistry::Callback callback_;
  std::shared_ptr<SessionState> session_;
  WatchRegistry::Id id_ = 0;
};

/// A Client's engine. One session at a time; when it is lost, the next one. Everything but the members that say
/// otherwise belongs to the loop thread, so nothing here is locked.
class ZKRECIPES_INTERNAL_API ClientCore : public std::enable_shared_from_this<ClientCore> {
 public:
  static std::shared_ptr<ClientCore> start(std::shared_ptr<Loop> loop, std::string_view hosts, ClientOptions options);
  ~ClientCore();

  // --- From any thread ---

  const ClientOptions& options() const noexcept { return options_; }
  const std::shared_ptr<Loop>& loop() const noexcept { return loop_; }
  const std::shared_ptr<CallbackGroup>& callbacks() const noexcept { return callbacks_; }
  std::shared_ptr<SessionState> session() const;
  /// The server of the current session, while it is connected.
  std::optional<std::string> server() const;
  /// Why there is none, as far as that is known; else "".
  std::string trouble() const;
  Op::TimePoint default_deadline() const { return std::chrono::steady_clock::now() + options_.operation_timeout; }

  /// What of the user's is not done yet. What a busy loop has not even looked at counts, too, and replies that no handler
  /// has taken.
  void count_call(std::size_t bytes) noexcept;
  void uncount_call(std::size_t bytes) noexcept;
  bool overloaded() const noexcept;

  /// Starts `op`; its `done` is called once, on the loop thread (or in here, if the loop has stopped).
  /// A stop request ends it with Errc::cancelled, or in_doubt.
  void submit(const std::shared_ptr<Op>& op, const AnyStop& stop = {});
  std::shared_ptr<SubscriptionState> subscribe(StateListener listener);
  void begin_close();
  /// Waits for what begin_close() began.
  void finish_close();

  std::string full(const Path& path) const;             ///< With the prefix. Throws Error (invalid_path: too long).
  std::string stripped(const std::string& path) const;  ///< Without it.

  // --- On the loop thread ---

  bool closing() const noexcept { return closing_; }
  /// The current session.
  const std::shared_ptr<SessionState>& current() const noexcept { return connection_->session; }
  WatchRegistry& watches() noexcept { return connection_->watches; }
  LeaseKeeper& leases() noexcept { return *connection_->leases; }
  const std::shared_ptr<LeaseKeeper>& keeper() const noexcept { return connection_->leases; }
  EventLoop& events() noexcept { return loop_->events(); }

  /// Sends a request whose paths are full ones; never throws.
  PendingReply launch(Request request, const Call& call);
  PendingReply perform(Request request, const Call& call) { return launch(std::move(request), call); }
  /// The same for a read that arms a watch. `watch` is registered before anything else happens on the loop.
  PendingReply launch_watching(Request request, const Call& call, std::shared_ptr<LoopWatch> watch);
  PendingReply perform_watching(Request request, const Call& call, std::shared_ptr<LoopWatch> watch) {
    return launch_watching(std::move(request), call, std::move(watch));
  }
  /// Waits for a connected session; the reply's `session`.
  Awaitable<Reply> connected(Call call);
  /// Creates `path` (a full one) and what is missing above it, down from below the prefix.
  Awaitable<Reply> ensure(std::string path, CreateMode mode, AclList acl, Call call);
  /// Deletes `path` (a full one) and everything below it; a node that is missing is no error.
  Awaitable<Reply> remove_tree(std::string path, Call call);
  /// A `set` whose data nobody else writes, on the node that had the Stat `expected`: a lost reply is resolved by
  /// looking.
  Awaitable<Reply> set_resolving(Request request, Stat expected, Call call);
  /// Proves an identity to the server, on this session and on all that follow.
  Awaitable<Reply> add_auth(Credential credential, Call call);
  /// Looks for the child of `parent` whose name starts with `marker`: its path and Stat, or no_node. Sees every
  /// create of this session whose reply was lost, whichever server it went to.
  Awaitable<Reply> find_marked(std::string parent, std::string marker, Call call);
  /// Creates a node whose name starts with the unique `marker`, below `parent`, which exists. A lost reply is
  /// resolved by looking for the marker.
  Awaitable<Reply> create_marked(Request request, std::string parent, std::string marker, Call call);
  /// Guaranteed delete: tries until the node is gone, `session` (any session, if null) is dead, or the client closed.
  Awaitable<void> remove_until_gone(std::string path, std::shared_ptr<SessionState> session);
  /// The same for a name that others may use again: a node that somebody makes in its place stays.
  Awaitable<void> remove_this_one(std::string path, std::shared_ptr<SessionState> session);
  /// Guaranteed deletes, in the background, on `session` only (any session, if null).
  void delete_in_background(std::string path, std::shared_ptr<SessionState> session);
  /// The same for the child of `parent` whose name starts with `marker`, if there is one.
  void delete_marked_in_background(std::string parent, std::string marker, std::shared_ptr<SessionState> session);
  /// Gives the current session up: it is lost from now on, and a new one is opened. `why` is for the log.
  void lose_session(const char* why);
  /// Replaces the list of servers; the session moves to the new ones. Waits until it is connected to one of them.
  Awaitable<Reply> update_servers(std::vector<Host> hosts, Call call);

 private:
  /// All that belongs to one session.
  struct Connection final : HandleOwner, std::enable_shared_from_this<Connection> {
    Connection(ClientCore& owner, std::shared_ptr<SessionState> state);
    void on_handle_event(HandleEvent event) override;
    void on_ping_answered(BootClock::time_point sent) override { leases->heard(sent); }
    void on_trouble(ServerTrouble trouble) override;
    void on_node_event(int type, const std::string& path) override;
    void on_reply(const std::shared_ptr<Op>& op) override;
    void take_over();
    void arm_again();
    void on_rearmed(const ArmedWatches::Pending& watch, const Op& op);
    void submit_own(Request request, UniqueFunction<void(const Op&)> done);
    void note(const Op& op);
    void schedule_removals();
    void remove_idle_watches();

    ClientCore* const core;  // Outlives its connections.
    const std::shared_ptr<SessionState> session;
    std::shared_ptr<Handle> handle;
    std::shared_ptr<LeaseKeeper> leases;
    WatchRegistry watches;
    Timer silence;
    bool retired = false;
    SessionCredentials resume;  // The session to be resumed, until it is connected.
    std::string addresses;      // Those of the handle.
    ArmedWatches armed;
    std::unordered_map<const Op*, UniqueFunction<void(const Op&)>> own;  // Requests of the connection itself.
    bool barrier_due = false;                                            // See take_over().
    bool taking_over = false;                                            // Only what is urgent may go first.
    bool draining = false;  // Nothing is sent until the handle is replaced by one for next_addresses.
    bool leaves = false;    // The handle is being dropped.
    std::string next_addresses;
    Timer drain;
    Timer idle_watches;  // Until watches that nobody waits for are removed at the server.
    bool removals_wait = false;
  };

  ClientCore(std::shared_ptr<Loop> loop, std::vector<Host> hosts, ClientOptions options);

  void open_session();
  void open_handle(const std::string& addresses);
  void look_up_servers();
  void use_addresses(const Resolution& resolution);
  void tell_trouble();
  void forget_trouble();
  void begin_outage();
  void plan_look_up();
  void stop_looking_up();
  void move_to(const std::string& addresses);
  void on_drained();
  void finish_move(const std::shared_ptr<Connection>& connection);
  void servers_applied();
  void on_connected();
  void on_suspended();
  void end_session(ConnectionState state, std::string reason = {});
  void retire(const std::shared_ptr<Connection>& connection);
  void change_state(ConnectionState state, std::string reason = {});
  void refuse_login();

  std::shared_ptr<Op> prepare(Request request, const Call& call, Op::Done done);
  void start_op(const std::shared_ptr<Op>& op);
  bool room_to_wait();
  void forget_abandoned();
  void pump();
  void on_reply(const std::shared_ptr<Op>& op);
  void judge_size(const std::shared_ptr<Op>& op, bool left, std::chrono::nanoseconds round_trip);
  bool is_too_large(const Op& op);
  void refuse_size(const std::shared_ptr<Op>& op);
  void retry(const std::shared_ptr<Op>& op);
  void end_pause(const std::shared_ptr<Op>& op);
  void end_pauses();
  void fail(const std::shared_ptr<Op>& op, Errc code, std::string detail = {});
  void give_up(const std::shared_ptr<Op>& op, Errc code);
  void finish(const std::shared_ptr<Op>& op);
  void add_deadline(const std::shared_ptr<Op>& op);
  void await_deadline(Op::TimePoint due);
  void on_deadlines();
  void do_close();
  void on_closed();

  void set_server(std::optional<std::string> address);
  void set_trouble(std::string text);
  void refuse_credentials();
  std::shared_ptr<Credential> remember(Credential credential);
  void forget(const std::shared_ptr<Credential>& credential);

  Awaitable<void> pause_before_delete(std::chrono::milliseconds& pause);
  Awaitable<bool> remains(const std::string& path, const Reply& reply, std::chrono::milliseconds& pause);
  Awaitable<void> remove_marked(std::string parent, std::string marker, std::shared_ptr<SessionState> session);

  const std::shared_ptr<Loop> loop_;
  const ClientOptions options_;
  const std::shared_ptr<CallbackGroup> callbacks_;

  mutable std::mutex mutex_;
  std::shared_ptr<SessionState> shared_session_;  // Guarded by mutex_.
  std::condition_variable closed_changed_;
  bool closed_ = false;                // Guarded by mutex_.
  std::optional<std::string> server_;  // Guarded by mutex_.
  std::string trouble_;                // Guarded by mutex_.

  std::shared_ptr<Connection> connection_;
  std::optional<SessionCredentials> resume_;
  std::vector<Host> hosts_;
  std::uint64_t newest_update_ = 0;  // Counts update_servers().
  std::uint64_t applied_update_ = 0;
  std::list<Signal*> update_waiters_;
  Resolver::Ticket look_up_;
  Timer look_up_timer_;
  ServerTroubles troubles_;
  Timer outage_;
  int failed_attempts_ = 0;
  std::chrono::steady_clock::time_point next_trouble_line_;
  std::chrono::milliseconds trouble_pause_{1000};
  std::chrono::milliseconds look_up_pause_{200};
  std::atomic<std::size_t> calls_{0};  // Of the user's, not yet done.
  std::atomic<std::size_t> call_bytes_{0};
  std::vector<std::shared_ptr<Credential>> credentials_;  // Applied to each new session, in this order.
  std::deque<std::shared_ptr<Op>> waiting_;               // Those that were given up stay in it for a while.
  std::size_t abandoned_ = 0;                             // Of those, about.
  SizeSuspects suspects_;
  std::shared_ptr<Op> alone_;  // The only one in flight, to see whether it is too large.
  std::map<std::shared_ptr<Op>, std::unique_ptr<Timer>> pausing_;  // Reads before their next attempt.
  std::multimap<Op::TimePoint, std::weak_ptr<Op>> deadlines_;
  Timer deadline_timer_;
  std::vector<std::weak_ptr<SubscriptionState>> listeners_;
  std::minstd_rand random_;
  Timer login_timer_;
  bool login_refused_ = false;
  int retiring_ = 0;
  bool closing_ = false;
};

/// A registered state listener.
class SubscriptionState {
 public:
  SubscriptionState(std::shared_ptr<CallbackGroup> group) : queue_(std::make_shared<SerialQueue>(std::move(group))) {}
  const std::shared_ptr<SerialQueue>& queue() const noexcept { return queue_; }
  StateListener listener;
  UniqueFunction<void()> on_end;  ///< Runs once when the subscription ends; any thread.

 private:
  std::shared_ptr<SerialQueue> queue_;
};

/// A request for `path` of the given type, with nothing else set.
ZKRECIPES_INTERNAL_API Request make_request(OpType type, std::string path);

ZKRECIPES_INTERNAL_API std::string parent_of(const std::string& path);
std::string child_of(const std::string& parent, const std::string& name);

/// The kind of watch that a read arms.
constexpr WatchRegistry::Kind watch_kind(OpType type) noexcept {
  return type == OpType::children ? WatchRegistry::Kind::children : WatchRegistry::Kind::data;
}

}  // namespace zkclient::detail
