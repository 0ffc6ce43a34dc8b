#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recipes/coherent/coherent_writer.hpp"

namespace zkrecipes::detail {

/// Others have changed what was known.
inline bool is_shard_conflict(zkclient::Errc code) {
  return code == zkclient::Errc::bad_version || code == zkclient::Errc::no_node ||
         code == zkclient::Errc::node_exists || code == zkclient::Errc::not_empty;
}

/// One call that writes.
struct CoherentWriter::Part {
  Part(zk::EventLoop& events, ItemWrite what) : write(std::move(what)), deadline(events) {}

  const ItemWrite write;
  zk::Timer deadline;
  bool ended = false;
  int prepared = 0;
  bool no_room = false;  ///< For the directory of the readers, in the transaction that removes it.
  zk::Pending<zk::Reply> outcome;

  void end(zk::Reply with) {
    if (std::exchange(ended, true)) return;
    deadline.cancel();
    outcome.arrive(std::move(with));
  }
  void end_with(zkclient::Errc error, const char* detail = "") {
    zk::Reply reply;
    reply.error = error;
    reply.detail = detail;
    end(std::move(reply));
  }
};

/// The writes of one shard, one after another, and what is known there.
struct CoherentWriter::Line {
  Line(std::uint32_t of, zk::EventLoop& events) : shard(of), wake(events) {}

  /// The gate as this writer has closed it.
  struct Closing {
    std::int32_t version = 0;
    std::string id;
    WriteFacts::TimePoint at{};
    std::shared_ptr<zk::SessionState> session;
  };

  /// A closing of which this writer does not know whether it was applied, or whether it stands.
  struct Doubt {
    std::string id;
    std::shared_ptr<zk::SessionState> session;
    std::string slot;  // Without it nothing can be applied any more.
  };

  /// An item as it was last seen.
  struct KnownItem {
    std::int64_t revision = 0;  // 0: there is none.
    std::int32_t version = 0;   // Of its node: by it a write that compares finds out a change by hand.

    static KnownItem of(const zk::Reply& read) {
      return read.ok() ? KnownItem{read.stat.mzxid, read.stat.version} : KnownItem{};
    }
  };

  const std::uint32_t shard;
  std::deque<PartPtr> waiting;
  PartPtr active;
  bool sent = false;  // The active one's transaction.
  bool running = false;
  std::shared_ptr<zk::CancelScope> wait;  // Of what is done for the active one before its transaction is sent.
  zk::Signal wake;

  std::optional<Gate> gate;                // As it was last seen.
  std::map<std::string, KnownItem> items;  // At that version of the gate.
  bool ask_leader = false;                 // What a server of ours says may be old.
  bool readers_there = false;
  bool directory_missing = false;  // One of them, though the gate may be there.
  bool closer_alive = true;
  std::optional<Closing> closing;
  std::optional<Doubt> doubt;
  std::optional<std::vector<Registration>> registered;  // Since the closing, as listed last.
  // Those of the last list, and when a closing of ours was acknowledged that they have seen: from then on they could not
  // renew their leases, whatever became of that closing.
  std::map<std::string, WriteFacts::TimePoint> barred;
  std::shared_ptr<zk::LoopWatch> list_watch;

  /// What was read. A closing of ours may stand: that is found out before anything else.
  void forget() {
    gate.reset();
    items.clear();
    readers_there = false;
    closer_alive = true;
    if (closing) doubt = Doubt{closing->id, closing->session, ""};
    forget_closing();
  }
  void forget_closing() {
    closing.reset();
    registered.reset();
    list_watch.reset();
  }
  void list(std::vector<Registration> all) {
    std::map<std::string, WriteFacts::TimePoint> former = std::exchange(barred, {});
    for (const Registration& one : all) {
      const auto place = former.find(one.name);
      barred[one.name] = place == former.end() ? closing->at : place->second;
    }
    registered = std::move(all);
  }
  void see_gate(Gate now) {
    gate = std::move(now);
    readers_there = false;
    closer_alive = true;
  }
  bool closed_by_us() const { return closing && gate && !gate->open && closing->version == gate->version; }
  WriteFacts facts() const {
    WriteFacts facts;
    facts.gate = *gate;
    facts.closer_alive = closer_alive;
    facts.readers_there = readers_there;
    facts.now = zkclient::BootClock::now();
    if (closing) {
      facts.closed_version = closing->version;
      facts.closed_at = closing->at;
    }
    if (registered) facts.registered = *registered;
    facts.barred = barred;
    return facts;
  }
};

}  // namespace zkrecipes::detail
