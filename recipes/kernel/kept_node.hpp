#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/lease.hpp>
#include <zkrecipes/presence.hpp>

#include "zkclient/detail/recipe_node_use.hpp"

#include "recipes/kernel/owned_node.hpp"
#include "recipes/kernel/presence_decider.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The constants of a kept node. Paths are full ones unless it says otherwise.
///
///   <node>               ephemeral: what others see; its data belongs to the user
///   <witnesses>/<uuid>   ephemeral, made and deleted in the same transactions: tells our node from any other of that name
///
/// A sequential one gets its number from the server once, and keeps that name; `node` is what stands before the number.
/// A lasting one has no witness: it is known by its czxid, and, when the reply to its create was lost, by the data that
/// was to be in it, where there was no node before.
struct KeptNodeSpec : OwnedNodeSpec {
  std::string witnesses;  ///< A directory that no other program lists. Unused by a lasting node.
  /// ephemeral, ephemeral_sequential; or a lasting one: persistent, container, persistent_ttl.
  zkclient::CreateMode mode = zkclient::CreateMode::ephemeral;
  std::int64_t ttl_ms = -1;  ///< Of persistent_ttl.
  std::string child = {};    ///< Of a lasting node: is removed with it. "": there is none.
  zkclient::CreateMode parent_mode = zkclient::CreateMode::container;
  bool lease = false;  ///< Heartbeats, so that the owner knows before anybody else when its node counts as gone.

  bool sequential() const noexcept { return mode == zkclient::CreateMode::ephemeral_sequential; }
  /// It lives without a session.
  bool lasting() const noexcept { return mode != zkclient::CreateMode::ephemeral && !sequential(); }
};

/// A node that exists, with the data that its owner wants, for as long as its owner wants: across broken connections and
/// lost sessions. Lives on the loop thread, but for the members that say otherwise; kept alive by its coroutine until it
/// has left, or the client is closed. What shall outlive its owner is a StandingNode: that is written by calls, and looked
/// at for them alone; this one is watched, and made again, all the time.
class KeptNode : public OwnedNode, public std::enable_shared_from_this<KeptNode> {
 public:
  /// Any thread. Errors: as the loop refuses work (closed, forked).
  static std::shared_ptr<KeptNode> start(KeptNodeSpec spec, std::string data);
  KeptNode(KeptNodeSpec spec, std::string data);

  // --- Any thread ---

  const KeptNodeSpec& spec() const noexcept { return spec_; }
  /// Of the node that is there, or was there last; zero before the first one.
  FencingToken token() const { return shown_.token(); }
  bool valid() const { return shown_.valid(); }
  /// Of the node that is there, or was there last.
  std::stop_token lost() const { return shown_.lost(); }
  /// The full path of the node that is there, or was there last; "": there was none yet.
  std::string node() const { return shown_.node(); }
  /// Leaves, without waiting for it. A lasting node whose removal the server refuses stays.
  void drop() noexcept;
  /// Ends, and leaves a lasting node where it is. A removal that has begun goes on, unless the server refuses it.
  void abandon() noexcept;

  // --- Loop thread ---

  /// Begins to keep it with other data; the wish replaces the one before it. Says which one it is.
  std::uint64_t want(std::string data);

  // --- Calls ---

  static zk::Awaitable<zkclient::Result<void>> wait_present(std::shared_ptr<KeptNode> self, zk::Call call);
  static zk::Awaitable<zkclient::Result<void>> update(std::shared_ptr<KeptNode> self, std::string data, zk::Call call,
                                                      const char* operation = "update");
  /// Fails at once where a lasting node cannot be removed; to leave goes on. Fails when the client is closed before.
  static zk::Awaitable<zkclient::Result<void>> leave(std::shared_ptr<KeptNode> self, zk::Call call,
                                                     const char* operation = "leave");
  /// Returns when it has ended in any way, or with the call.
  static zk::Awaitable<void> wait_ended(std::shared_ptr<KeptNode> self, zk::Call call);

 private:
  using SessionPtr = std::shared_ptr<zk::SessionState>;
  using ReplyPtr = std::unique_ptr<zk::Reply>;
  /// For how long a watch that tells nothing is believed, from the last write on that shows that it would have told.
  static constexpr std::chrono::milliseconds longest_silence{500};
  /// What a look found.
  struct Seen {
    ReplyPtr failure = {};  // Null, unless there is nothing to decide about.
    PresenceFacts facts;
    std::int32_t version = 0;
    std::string former_witness = {};  // Its path.
    bool child = false;               // The one that goes with the node is there.
    /// The watch has told it, nothing was read: what rests on it is not sent later.
    std::optional<zk::Signal::TimePoint> believed_until = {};
  };
  using SeenPtr = std::unique_ptr<Seen>;
  /// What a look reads.
  enum class Found { sync, node, witness, child, former_witness };
  /// A look on its way.
  struct Look {
    struct Read {
      Found what;
      zk::PendingReply reply;
    };

    explicit Look(zk::Call limits) : call(std::move(limits)) {}
    bool take(Found what, const zk::Reply& reply);

    const zk::Call call;  // Bound to the session.
    SeenPtr seen = std::make_unique<Seen>();
    std::vector<Read> reads = {};
    bool syncs = false;
    bool reads_witness = false;
    ReplyPtr synced = {};
  };
  /// There is nothing to do before there is news, or for so long.
  struct Rest {
    std::optional<std::chrono::milliseconds> limit = {};
  };
  /// What tells a node of a session that is over. The session is not closed at the servers before that node was replaced,
  /// so that nobody sees the node missing.
  struct FormerWitness {
    std::string path;
    zk::NodeUse use;
  };
  /// A create of a lasting node, whose reply was lost, or does not tell its czxid.
  struct Doubt {
    std::int64_t session;
    std::chrono::milliseconds timeout;  // That session's.
    std::string data;
    std::int64_t replaced;  // The czxid of the node that it was to replace; 0: there was none.
    std::optional<zk::Signal::TimePoint> passes = {};  // Its session is over by then, and what that had sent.
  };

  static zk::Awaitable<void> run(std::shared_ptr<KeptNode> self);
  static zk::Awaitable<zkclient::Result<void>> until_kept(std::shared_ptr<KeptNode> self, const char* operation,
                                                          std::uint64_t generation, zk::Call call);
  zk::Awaitable<SessionPtr> connect();
  zk::Awaitable<void> serve(SessionPtr session);
  zk::Awaitable<std::optional<Rest>> take_turn(SessionPtr session);
  zk::Awaitable<bool> is_made(SessionPtr session, zk::PendingReply creating, std::uint64_t generation);
  std::optional<Rest> rest_before_gone(const zk::SessionState& session);
  std::optional<zk::PendingReply> begin_to_create(const SessionPtr& session);
  zk::Awaitable<void> endure(ReplyPtr failure);
  zk::Awaitable<SeenPtr> look(SessionPtr session);
  void begin_to_look(Look& look);
  void begin_to_read(Look& look, Found what, zk::OpType type, std::string path);
  void take_in(Look& look, Found what, const zk::Reply& reply);
  void take_in_node(Look& look, const zk::Reply& reply);
  SeenPtr as_told(const zk::SessionState& session);
  PresenceFacts first_facts(const zk::SessionState& session) const;
  std::shared_ptr<zk::LoopWatch> make_watch();
  zk::Awaitable<ReplyPtr> settle_doubts(zk::Call call);
  void recognize(const zk::Reply& found, bool synced, Seen& seen);
  zk::Awaitable<std::optional<Rest>> act(SessionPtr session, PresenceStep step, SeenPtr seen);
  zk::Awaitable<void> replace_lasting(SessionPtr session, SeenPtr seen);
  zk::Awaitable<bool> may_write(SessionPtr session);
  zk::Awaitable<void> conclude(SessionPtr session, const zk::Request& request, std::uint64_t generation,
                               zk::Reply reply);
  zk::Awaitable<void> find_name(SessionPtr session);
  zk::Awaitable<zk::Reply> find_created(SessionPtr session);
  zk::Awaitable<zk::Reply> find_witnessed(SessionPtr session, std::string witness);
  void learn(const SessionPtr& session, const zk::Request& request, const Seen& seen, const zk::Reply& reply);
  static bool is_transient(const zk::Reply& reply);
  static bool lacks_parent(const zk::Request& request, const zk::Reply& reply);
  zk::Awaitable<bool> make_parents(SessionPtr session);
  bool take_back(std::uint64_t generation);
  zk::Awaitable<void> keep(SessionPtr session, PresenceFacts facts);
  zk::Awaitable<bool> prove(SessionPtr session, bool witnessed);
  zk::Awaitable<void> rest(std::optional<std::chrono::milliseconds> limit);
  zk::Request creation(const Seen& seen, bool remove_node, bool remove_witness);
  zk::Request lasting_creation() const;
  zk::Request lasting_replacement(const Seen& seen) const;
  static zk::Request removals_of(const zk::Request& request);
  static bool removes_only(const zk::Request& request);
  static bool creates(const zk::Request& request);
  void add_removal(const Seen& seen, zk::Request& request) const;
  zk::Request request_of(PresenceStep step, const Seen& seen);
  zk::Call call_on(const SessionPtr& session) const;
  zk::Call call_on_word_of(const SessionPtr& session, const Seen& seen) const;
  bool over(const SessionPtr& session) const { return session->over() || spec_.client->closing() || finished_; }
  void begin_incarnation(const SessionPtr& session, std::int64_t czxid);
  void end_incarnation();
  void begin_to_leave();
  bool gives_up_removal() const;
  void finish_gone();
  void finish();
  bool may_be_there() const;
  std::string witness() const { return zk::child_path(spec_.witnesses, witness_); }

  const KeptNodeSpec spec_;

  std::string node_;                 // Its full path; "": the server has not named it yet.
  zk::Payload data_;                 // As it is wanted.
  std::uint64_t wanted_ = 1;         // Counts the wishes,
  std::uint64_t kept_ = 0;           // says which one is fulfilled,
  std::uint64_t refused_after_ = 0;  // and which ones, after this one
  std::uint64_t refused_ = 0;        // and up to this one, ended as too large.
  zk::Payload settled_ = data_;      // As it was wanted last when the server had it.
  bool leaving_ = false;
  bool ownerless_ = false;         // Dropped or abandoned: nobody will ask for anything again.
  bool child_may_be_late_ = true;  // Its create may overtake our look; once.
  bool finished_ = false;
  bool gone_ = false;       // It has left; else the client was closed first, or its owner has gone.
  bool was_kept_ = false;   // Once at least.
  bool created_ = false;    // On this session a create was sent, so a node of ours may be there.
  bool stale_ = false;      // The server may lag behind what was refused.
  bool doubted_ = false;    // On this session a create was not answered, and our node has not been seen since.
  std::int64_t known_ = 0;  // The czxid of our node: of this session, unless it is lasting.
  std::int64_t lost_ = 0;   // The czxid of the node whose loss was told last: it is never shown again.
  std::string witness_;     // The name of this session's.
  std::map<std::int64_t, FormerWitness> former_witnesses_;  // By session.
  std::vector<Doubt> doubts_;
  zk::Signal::TimePoint next_rewrite_;  // Not before, unless there is other data to be written.
  std::shared_ptr<zk::LoopWatch> watch_;
  bool watch_fired_ = false;
  std::optional<std::int32_t> told_version_;  // Of our node, when the watch was armed,
  std::uint32_t looked_on_ = 0;               // on this connection of the session.
  bool witness_is_known_ = false;             // It was there with our node, which was not deleted since then.
  std::shared_ptr<zk::CancelScope> told_;     // Requested once the owner has been told of that loss.
  zk::Signal wake_;
  std::shared_ptr<zk::CancelScope> connecting_;  // Null: it does not wait for a session.
  std::shared_ptr<zk::CancelScope> proving_;     // Null: there was nothing to prove yet.
};

}  // namespace zkrecipes::detail
