#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <unordered_map>
#include <vector>

#include <zkclient/clock.hpp>
#include <zkclient/error.hpp>
#include <zkclient/types.hpp>
#include <zkrecipes/cache.hpp>

#include "recipes/views/name_filter.hpp"
#include "recipes/views/snapshot.hpp"

namespace zkrecipes::detail {

using NodeId = std::uint64_t;
using ReadId = std::uint64_t;

/// What is mirrored.
struct MirrorScope {
  std::string path;       ///< The root's, as the user writes it.
  std::string full_path;  ///< The same with the client's prefix.
  bool root_data = true;  ///< Read the root's data, or its Stat if there is no data in `options`.
  int depth = 0;          ///< Nodes at less than this depth below the root are listed.
  CacheOptions options = {};
  bool filtered = false;  ///< Names that are discovered are asked for: take_names().
};

/// One side of a node: its data, with the watch for it, or its list of children, with that watch.
enum class MirrorSide { data, list };

/// A request to be sent. Every one but `sync` arms the watch of its side.
struct MirrorRead {
  enum class Kind { sync, get, exists, children };
  ReadId id = 0;
  Kind kind = Kind::sync;
  std::string path = {};  ///< Full.
  NodeId node = 0;
  MirrorSide side = MirrorSide::data;
};

struct MirrorReply {
  bool lost = false;  ///< It never came, and may never come: send the request again.
  std::optional<zkclient::Errc> error = {};
  zkclient::Stat stat = {};
  std::string data = {};
  std::vector<std::string> names = {};
  std::shared_ptr<void> watch = {};  ///< Keeps the watch that was armed; dropped when it is not wanted any more.
};

struct MirrorProblem {
  zkclient::Errc code;
  std::string path;  ///< The user's.
};

/// A model of a node, a directory or a subtree, kept up by one-shot watches. Events and replies go in, in the order in
/// which they came; requests and snapshots come out. Pure: it knows neither client nor clock.
///
/// A side is dirty from its event (or its discovery, or the loss of the session) until a read sent afterwards has been
/// answered. The server queues the events of a transaction before any later reply, so when nothing is dirty, every
/// value still is what it was when it was read, up to the newest reply: the model is the subtree at one zxid. That is
/// an exact snapshot. What is not settled has a number that grows with time; a child that is discovered gets the number
/// of the list that named it, so "all up to number n is settled" means that all is known that was there when n was
/// given.
///
/// A list is adopted when it comes, also if the user's filter has to judge its names: a name without a verdict is not
/// settled, as if it were a child whose read is late. So is it read or left out later, and both are sound: whatever
/// happens to the name meanwhile, the watch of the list tells.
class MirrorModel {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::size_t max_in_flight = 128;
  /// Of all watched paths: more than the client can renew after a reconnection.
  static constexpr std::size_t max_watched_bytes = 900'000;
  static constexpr auto retry_pause = std::chrono::seconds(30);
  /// Data above this is not read again with a new session if its Stat is the same.
  static constexpr std::size_t small_data = 1024;

  explicit MirrorModel(MirrorScope scope);
  MirrorModel(const MirrorModel&) = delete;
  MirrorModel& operator=(const MirrorModel&) = delete;

  // --- What happened ---

  /// A session is connected that is not the one of before: its watches are gone, its requests never answered.
  void session_opened();
  void disconnected();
  /// The same session is back. The client reports what changed, before the answer to any request sent from now on.
  void reconnected();
  void closed();
  void event(NodeId node, MirrorSide side, bool deleted);
  void reply(ReadId read, MirrorReply reply, TimePoint now);
  /// Of the names that were taken, in that order: those that are true belong to the view.
  void judged(const std::vector<bool>& included, TimePoint now);
  /// All that had been committed before `time` has been told by now, by events of this session's watches.
  void told_up_to(zkclient::BootClock::time_point time);
  /// A caller waits until all up to `number` is published, so what can be published does not rest.
  void hurry(std::uint64_t number);

  // --- What to do ---

  std::vector<MirrorRead> take_reads(TimePoint now);
  /// The paths of names to be judged, as the user writes them; none until those that were taken before are judged.
  std::vector<std::string> take_names();
  /// The new snapshot, if it is time for one.
  SnapshotPtr publish(TimePoint now);
  /// When take_reads() or publish() will have something though nothing happens.
  std::optional<TimePoint> due() const;

  CacheState state() const;
  std::optional<MirrorProblem> problem() const;
  /// The newest number, and whether all up to a number is in what was published last.
  std::uint64_t mark() const noexcept { return last_number_; }
  bool covers(std::uint64_t number) const;
  /// What was published last contains all that had been committed before; the epoch: not known.
  zkclient::BootClock::time_point as_of() const noexcept { return as_of_; }
  std::size_t watched_bytes() const noexcept { return watched_bytes_; }
  std::size_t nodes() const noexcept { return nodes_.size(); }

 private:
  enum class Progress { clean, due, sent, sent_again };
  struct Side {
    Progress progress = Progress::clean;
    std::uint64_t number = 0;  // Since when it is not clean.
    std::uint64_t again = 0;   // The same for an event that came while its read was on its way.
    ReadId read = 0;
    bool queued = false;
    std::size_t paid = 0;  // Of the watched bytes.
    std::shared_ptr<void> watch;
  };
  struct Node {
    NodeId id = 0;
    std::string name;
    Node* parent = nullptr;
    int depth = 0;
    std::map<std::string, Node*, std::less<>> children;
    Side data;
    Side list;
    std::int64_t czxid = 0;  // 0: not known.
    std::int64_t ctime = 0;
    std::int64_t newest = 0;  // Zxid that its Stat has shown.
    bool ephemeral = false;
    bool listed = false;
    bool held = false;        // Told to be deleted: what its parent's next list says counts.
    bool look_first = false;  // By exists: is it there, or still the same?
    bool incomplete = false;  // As shown.
    std::size_t bytes = 0;    // Of its data.
    std::error_code data_error;
    std::error_code list_error;
    TimePoint list_not_before = {};
    CachedNodePtr shown;
    DirectoryPtr directory;
  };
  struct Sent {
    MirrorRead::Kind kind;
    NodeId node;
    MirrorSide side;
    TimePoint at;
    std::uint64_t connection;
  };
  struct Told {
    zkclient::BootClock::time_point time;
    std::uint64_t mark;  // The newest number at that moment.
  };

  static Side& side_of(Node& node, MirrorSide side) { return side == MirrorSide::data ? node.data : node.list; }
  void begin_anew(Node& node);

  // mirror_settled.cpp: up to which number is all settled?
  std::uint64_t next_number() { return ++last_number_; }
  using Numbers = std::map<std::uint64_t, std::size_t>;  // How many there are of each.
  std::uint64_t before(const Numbers& numbers) const {
    return numbers.empty() ? last_number_ : numbers.begin()->first - 1;
  }
  bool settled() const { return unsettled_.empty() && unjudged_.empty(); }
  std::uint64_t settled_up_to() const;
  bool caught_up() const;
  void unsettle(Node& node, MirrorSide side, std::uint64_t number);
  void unsettle(Node& node, MirrorSide side) { unsettle(node, side, next_number()); }
  void settle(Side& side);
  static void end_number(Numbers& numbers, std::uint64_t number);
  void end_numbers(const NameFilter::Numbers& numbers);
  /// The read of this side was answered; `done`: nothing more is to be read because of what it was read for.
  void answered(Node& node, MirrorSide side, bool done);
  void take_told();

  // mirror_requests.cpp: which reads go out next?
  bool wants_data(const Node& node) const;
  bool wants_list(const Node& node) const;
  MirrorRead::Kind kind_of_read(const Node& node, MirrorSide side) const;
  void enqueue(Node& node, MirrorSide side);
  bool pay(Side& side, std::size_t bytes);
  void refund(Side& side);
  void take_late(TimePoint now);
  bool send(Node& node, MirrorSide side, TimePoint now, MirrorRead& read);
  std::string path_of(const Node& node, const std::string& root) const;

  // mirror_replies.cpp: what does an answer say of a node?
  void answer_sync(const Sent& sent, const MirrorReply& reply);
  void answer_get(Node& node, MirrorReply reply);
  void answer_exists(Node& node, MirrorReply reply);
  void answer_list(Node& node, MirrorReply reply, const Sent& sent);
  void not_there(Node& node, MirrorSide side, MirrorRead::Kind read);
  void adopt(Node& node, const zkclient::Stat& stat);
  void adopt_names(Node& node, std::vector<std::string> names);
  void list_if_new(Node& node);
  void expect_new_list(Node& node);
  void root_vanished();

  // mirror_trouble.cpp: which nodes cannot be read, and when are they tried again?
  void refused(Node& node, MirrorSide side, zkclient::Errc error, bool again_by_exists);
  void note_trouble(Node& node);
  void retry(Node& node);

  // mirror_nodes.cpp: which nodes are known?
  Node* find(NodeId id) const;
  void discover(Node& parent, std::string name, std::uint64_t number);
  void make_child(Node& parent, std::string name, std::uint64_t number);
  void forget(Node& node);
  void forget_children(Node& node);
  void drop(Node& node);

  // mirror_shown.cpp: what is shown of them, and when is that a new snapshot?
  void show(Node& node, CachedNode seen);
  void show_stat(Node& node, const zkclient::Stat& stat);
  void hide(Node& node);
  void set_incomplete(Node& node, bool incomplete);
  Directory& writable(Node& node);
  void touch();
  bool is_quiet(TimePoint now) const;
  TimePoint quiet_at() const;

  const MirrorScope scope_;
  std::unordered_map<NodeId, std::unique_ptr<Node>> nodes_;
  Node* root_ = nullptr;
  NodeId last_node_ = 0;
  ReadId last_read_ = 0;
  std::uint64_t last_number_ = 0;
  Numbers unsettled_;  // To sides.
  Numbers unjudged_;   // To names without a verdict.

  bool connected_ = false;
  bool synced_ = false;        // In this session.
  bool barrier_sent_ = false;  // On this connection.
  bool barrier_answered_ = false;
  bool closed_ = false;
  std::uint64_t connection_ = 0;
  std::uint64_t target_ = 0;  // All up to this number was known to the server when the barrier was answered.
  bool current_ = false;      // It has been published.
  zkclient::BootClock::time_point as_of_{};
  Told told_{};  // Not contained yet, unless its time is as_of_.

  std::unordered_map<ReadId, Sent> reads_;
  std::size_t in_flight_ = 0;
  std::deque<std::pair<NodeId, MirrorSide>> queue_;
  std::multimap<TimePoint, NodeId> late_lists_;  // Those that have to wait.
  NameFilter filter_;
  std::set<NodeId> troubled_;
  std::uint64_t mended_up_to_ = 0;  // What was found when it could be read again has numbers up to this.
  std::optional<TimePoint> retry_at_;
  std::size_t watched_bytes_ = 0;
  std::size_t data_bytes_ = 0;

  TimePoint now_ = {};
  std::uint64_t edition_ = 1;
  std::size_t size_ = 0;
  std::size_t incomplete_ = 0;
  std::int64_t zxid_ = 0;
  std::int64_t session_zxid_ = 0;
  std::uint64_t revision_ = 0;
  std::uint64_t published_up_to_ = 0;
  bool published_exact_ = false;
  std::uint64_t hurried_up_to_ = 0;   // Callers wait for all up to this number.
  std::optional<TimePoint> changed_;  // Since when there is something to be published.
  TimePoint last_change_ = {};        // Of that.
};

}  // namespace zkrecipes::detail
