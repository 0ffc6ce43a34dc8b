#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/clock.hpp>
#include <zkclient/export.hpp>

/// What all caches have in common: their snapshots, their states, their options. The caches themselves: node_cache.hpp
/// (one node), children_cache.hpp (the children of a node), tree_cache.hpp (a subtree).
namespace zkrecipes {

namespace detail {
class Mirror;
struct MirrorScope;
struct SnapshotData;
}  // namespace detail

/// A node as a cache saw it last. Identity of the node = `stat.czxid`, of its data = `stat.mzxid`; `stat.version`
/// restarts when a node is made again and identifies nothing. Of a node whose children the cache does not list,
/// `pzxid`, `children_version` and `children_count` are those of the last read of its data; `acl_version` always is.
struct CachedNode {
  std::string name;          ///< The last component of its path.
  std::string data = {};     ///< Empty if `has_data` is false.
  zkclient::Stat stat = {};  ///< The server's record of it.
  bool has_data = false;     ///< False: data was not asked for, does not fit, or cannot be read.
  std::error_code unreadable =
      {};  ///< Why data or children cannot be read: no_auth, overloaded (too many watches), ...

  friend bool operator==(const CachedNode&, const CachedNode&) = default;
};
/// Shared by all snapshots that contain the node as it is.
using CachedNodePtr = std::shared_ptr<const CachedNode>;

/// How near a cache is to what the servers have.
enum class CacheState {
  loading,  ///< Not every node has been read yet; there is no snapshot.
  current,  ///< Connected, and all that was reported is in the snapshot.
  stale,    ///< Disconnected, or catching up after that; the last snapshot stays.
  closed,   ///< The cache or its client was closed. Final; the last snapshot stays.
};

ZKRECIPES_API const char* to_string(CacheState state) noexcept;

/// The difference that one node makes between two snapshots. Differences are net: a node that came and went in between
/// makes none, and one that was created empty and then filled is one `added` with the last data.
struct Change {
  /// What became of the node.
  enum class Kind {
    added,     ///< It was not there before.
    changed,   ///< Other data (or no data any more, or data at last), same node.
    replaced,  ///< Removed, and made again: another node of that name. Its former children are removed.
    removed,   ///< It is not there any more.
  };
  Kind kind = Kind::added;    ///< See above.
  std::string path;           ///< Absolute, without the client's prefix.
  CachedNodePtr before = {};  ///< Null: added.
  CachedNodePtr after = {};   ///< Null: removed.
};

ZKRECIPES_API const char* to_string(Change::Kind kind) noexcept;

struct CacheOptions {
  /// False: no data is kept. Children and trees: names only, with one watch per list and none per node, so that a child
  /// that was removed and made again between two lists is not seen as `replaced`. A single node: its Stat only.
  bool data = true;
  /// Of data, not counting names and bookkeeping. What does not fit has `has_data` false; tried again every 30 s.
  std::size_t max_bytes = std::size_t{64} << 20U;
  /// After a change for so long without an exact snapshot, one that is not exact is published.
  std::chrono::milliseconds max_delay{100};
  /// A change is published when nothing has changed for so long, so that a burst of changes makes one difference; after
  /// the longer one of this and max_delay in any case. Until then the state is stale after a reconnection. What a
  /// refresh() waits for does not rest. 0: at once.
  std::chrono::milliseconds quiet{0};
  /// Cache::as_of() is kept younger than this, as long as servers answer quickly, changes can be read and do not
  /// rest, by a transaction that checks "/" (which takes the right to read it) after each half of it in which this
  /// client has written nothing. Under changes that come faster than they are read, it lags behind by up to twice the
  /// time that a read or max_delay takes. Each cache sends its own, not more often than every 10 ms. 0: no
  /// transactions.
  std::chrono::milliseconds max_age{0};
  /// Which children belong to the view; empty: all. It is called with the path (absolute, without the client's prefix)
  /// of each name that a directory lists, before that is read. What it excludes is neither read nor watched, nor is what
  /// is below it. Once per name for as long as the name is listed, also across sessions, so what it says should depend
  /// on the path alone; a node that was removed and made again between two lists may be the same name to it. A node
  /// cache has no names to ask for.
  ///
  /// It runs on the callback executor, one call at a time, and may block, but not wait for its own cache. A name that it
  /// has not judged yet is not in the snapshot; meanwhile wait_ready() and refresh() wait, as_of() stands still, a
  /// snapshot that max_delay brings is not exact(), and after a reconnection the state is stale. If it throws, the name
  /// belongs to the view, and the log says so.
  std::function<bool(const std::string& path)> include = {};
};

/// What a snapshot has to contain, for a refresh.
enum class ReadBarrier {
  none,    ///< All that this client has written itself. No request, unless the reply of such a write was lost.
  sync,    ///< What the leader had applied, as Client::sync(): the last few commits may be missing.
  quorum,  ///< All that was committed, proven by a transaction that changes nothing: also if the leader was deposed.
};

/// The state of a node, a directory or a subtree, as one immutable value. A cheap handle; copies, and later snapshots,
/// share what is the same. An empty one (default, or of a cache that is still loading) holds no node.
///
/// Paths: absolute ones as the cache's user writes them ("/services/a"), or relative to the cache's path ("a", "" for
/// the path itself).
///
/// Thread safety: a value type; const members may be called from any number of threads. None blocks.
class ZKRECIPES_API Snapshot {
 public:
  Snapshot() noexcept = default;
  explicit Snapshot(std::shared_ptr<const detail::SnapshotData> data) noexcept : data_(std::move(data)) {}

  /// The node at `path`; null if it is not there. The pointer is good for as long as a copy of this snapshot lives.
  const CachedNode* find(std::string_view path) const noexcept;
  bool exists(std::string_view path = {}) const noexcept { return find(path) != nullptr; }
  /// The node at the cache's path; null if it is not there. ChildrenCache does not read its data.
  const CachedNode* root() const noexcept;
  /// The children of the node at `path`, ordered by name; none if that is not there, or is not listed.
  std::vector<CachedNodePtr> children(std::string_view path = {}) const;
  /// Calls `visit` for the node at the cache's path and all below it, parents first, children by name.
  void for_each(const std::function<void(const std::string& path, const CachedNode& node)>& visit) const;
  /// Nodes below the cache's path.
  std::size_t size() const noexcept;

  /// All of it was there at one instant: names, data, czxid, mzxid and version are those of one zxid, so what a
  /// transaction changed shows together. False only when changes come faster than they can be read, or
  /// CacheOptions::include has not judged a name, for longer than CacheOptions::max_delay.
  bool exact() const noexcept;
  /// Nothing is missing: every node could be read, its data fit, and of what could not be read before, all that is
  /// below it has been read as well. What CacheOptions::include excludes is not missed.
  bool complete() const noexcept;
  /// The highest czxid, mzxid and pzxid seen up to this snapshot; starts anew when a node shows that the ensemble lost
  /// its data. An exact snapshot of a node that exists is the state at this zxid.
  std::int64_t zxid() const noexcept;
  /// Counts the cache's snapshots, from 1; always grows. 0: none yet.
  std::uint64_t revision() const noexcept;

  const std::shared_ptr<const detail::SnapshotData>& impl() const noexcept { return data_; }

 private:
  std::shared_ptr<const detail::SnapshotData> data_;
};

/// What turns `before` into `after`, both of one cache: parents before their children, except that what is removed
/// below a node comes before the node itself. Takes time for what differs, not for what both share.
ZKRECIPES_API std::vector<Change> difference(const Snapshot& before, const Snapshot& after);

/// Keeps a view of some nodes up to date by watches, and hands out snapshots of it. Made by the classes derived from
/// it, which say of which nodes.
///
/// It never creates a node. It reads each change once. A reconnection costs one request if nothing changed, which all
/// caches of a client share; a new session reads every node once, behind a sync, so that no server that lags behind is
/// believed.
///
/// Guaranteed: the last state of each node is seen, whatever happens to connections and sessions; an exact snapshot is
/// the state at one zxid; snapshots do not go back in time, unless the ensemble lost its data. Not guaranteed:
/// intermediate states (watches do not queue); that a snapshot is the newest state: it is as old as the last word of
/// the server (see state() and refresh()). Calls that wait never return one that is older than what this client has written.
///
/// All of that takes the right to read. A change of an access control list makes no event. A right that was granted is
/// found within 30 s. One that was withdrawn need not be found in this session: servers from 3.8.4 and 3.9.2 on (and
/// older ones with their fix of CVE-2024-23944) tell nothing of a node to those who may not read it, neither a change
/// nor its removal, nor that it was made, and forget the watch. Then what was read last stays, as if nothing had
/// changed, also for complete(), as_of() and refresh(), and also when the right is granted again; until a list of its
/// parent tells that it has gone, or a new session reads all of it.
///
/// What goes wrong                              What the caller sees
/// -------------------------------------------  ------------------------------------------------------------------
/// connection breaks                            state() is stale, the snapshot stays; then current, and the net
///                                                difference if there is one
/// session lost, or next server lags behind     the same; never back in time
/// root missing, removed, container reaped      a snapshot without it; it is seen when it comes (again)
/// the read after an event is lost              nothing: it is read again
/// node vanishes between list and read          nothing: it never was there, and holds nothing up
/// node unreadable                              listed with `unreadable`, complete() is false, the others go on; tried
///                                                again at its events and every 30 s
/// more watched paths than a session may have   names, but of the rest neither data, Stat nor children; complete() is
///                                                false, problem() is overloaded: split the view, or ask for names
///                                                only. (Of the root not even whether it exists.)
/// more data than max_bytes                     the rest without data, complete() is false, problem() is too_large
/// include blocks                               names that it has not judged are not there yet; all others are kept
///                                                up, in snapshots that are not exact()
/// include throws                               the name belongs to the view; a warning in the log
/// ensemble lost its data                       what is there now; revision() grows
/// client closed                                state() is closed, calls end with Errc::closed; the snapshot stays
///
/// Large views, of thousands of nodes, belong on a client of their own (of the same Runtime): all watched paths of a
/// client together may take 900 kB, and the reads after a lost session would stand in the way of others.
///
/// Thread safety: all members, from any thread, also from listeners. The object keeps its client open. A moved-from
/// object may only be destroyed or assigned to. In a forked child state() is closed, snapshot() is empty, and calls end
/// with Errc::forked.
class ZKRECIPES_API Cache {
 public:
  /// Gets the changes of one publication, and the view with them.
  using Listener = zkclient::UniqueFunction<void(const std::vector<Change>& changes, const Snapshot& now)>;
  /// Gets the new state.
  using StateListener = zkclient::UniqueFunction<void(CacheState state)>;
  /// What a wait is for.
  using Predicate = std::function<bool(const Snapshot& snapshot)>;

  /// The newest one; empty while loading. Does not block, so what this client has just written may still be missing:
  /// wait_ready() waits for that.
  Snapshot snapshot() const noexcept;
  /// Does not block.
  CacheState state() const noexcept;
  /// Why the snapshot is not complete(): overloaded (more watched paths than a session may have), no_auth and the like
  /// (the path names a node), too_large (more data than max_bytes). nullopt: nothing is missing. Does not block.
  std::optional<zkclient::Error> problem() const;
  /// How old snapshot() may be: unless it is not complete(), it contains all that any client had committed before this
  /// time (and that this client may read). Not a server's word alone, which may be cut off: it moves on with each write
  /// of this client that is acknowledged while the cache is current. Those are heartbeats of leases,
  /// refresh(ReadBarrier::quorum), the transactions of CacheOptions::max_age, and all others. nullopt: not known yet.
  /// Does not block.
  ///
  /// One exception: of a directory that was removed and made again since, children may be missing in a snapshot that is
  /// not exact(), until they have been read.
  ///
  /// Ask for it first, then for snapshot(): it says nothing of a Snapshot that was taken before. It stands still while
  /// what was told at its time is read, or rests (CacheOptions::quiet); newer changes do not hold it up.
  ///
  /// Not covered yet: a new session reads behind a sync, which proves less than a write. If the leader that answers
  /// it was deposed and does not know yet, or the servers keep local sessions (localSessionsEnabled), the next
  /// snapshot may lag behind as_of(), until this session's first write is acknowledged and what that brought has been
  /// read.
  std::optional<zkclient::BootClock::time_point> as_of() const;

  /// Waits for the first snapshot, and for all that this client has written before; for ever unless `call` has a deadline
  /// or a stop token. Returns the newest one. As a rule it does not wait, and never sends a request, unless the reply of
  /// an own write was lost. Other clients' changes are not waited for. Errors: deadline_exceeded, cancelled, closed (the
  /// cache or the client); their text says how far the cache is, and what holds it up.
  Snapshot wait_ready(const zkclient::CallOptions& call = {}) const;
  /// The same; `handler` is called exactly once, on the callback executor.
  void async_wait_ready(zkclient::Handler<Snapshot> handler, const zkclient::CallOptions& call = {}) const;
  /// A snapshot that contains what `barrier` says. Blocks for the round trip of the barrier, if it takes one, and until
  /// what it brought has been read. By default not for longer than the client's operation_timeout. Errors: as wait_ready().
  Snapshot refresh(ReadBarrier barrier = ReadBarrier::sync, const zkclient::CallOptions& call = {}) const;
  void async_refresh(ReadBarrier barrier, zkclient::Handler<Snapshot> handler,
                     const zkclient::CallOptions& call = {}) const;
  /// Waits until `predicate` holds for a snapshot, and returns that one. The predicate is called on the callback
  /// executor, for the present snapshot if there is one, then for newer ones, not for each of them. Each of them contains
  /// what this client had written before the call. Otherwise as
  /// wait_ready(), but a predicate that is running is waited for. Errors, which say how many nodes the last snapshot
  /// had: also what the predicate throws; if it is no Error, in_doubt with its text.
  Snapshot wait_until(Predicate predicate, const zkclient::CallOptions& call = {}) const;
  void async_wait_until(Predicate predicate, zkclient::Handler<Snapshot> handler,
                        const zkclient::CallOptions& call = {}) const;

  /// Calls `listener` with all nodes as `added` as soon as there is a snapshot (also if that holds none), then with
  /// each net difference, on the callback executor, one call at a time. A slow one misses snapshots in between, never a
  /// difference: all its calls together lead to the last snapshot. No call without a difference but the first, and when
  /// Snapshot::complete() is another one, or exact() of one that is not complete(). Errors: invalid_argument (no
  /// listener).
  zkclient::Subscription on_change(Listener listener) const;
  /// Calls `listener` with the present state, then with each change of it. A slow one may miss a pair of changes that
  /// leads back to the state before. Otherwise as on_change().
  zkclient::Subscription on_state(StateListener listener) const;

  /// No listener is called afterwards, nor CacheOptions::include, and those that run have returned, unless this is
  /// called by one of them. All of them are destroyed: one that owns this cache keeps it alive until it is closed, by
  /// itself or by anybody else (or until its subscription ends). What waits ends with Errc::closed. The last snapshot
  /// stays. The watches are removed at the server within a few seconds. Idempotent. Otherwise does not block.
  void close();

  const zkclient::Path& path() const noexcept { return path_; }

 protected:
  Cache(zkclient::Client client, zkclient::Path path, const detail::MirrorScope& scope);
  /// As close().
  ~Cache();
  Cache(Cache&& other) noexcept;
  Cache& operator=(Cache&& other) noexcept;

 private:
  zkclient::Client client_;
  zkclient::Path path_;
  std::shared_ptr<detail::Mirror> mirror_;
};

}  // namespace zkrecipes
