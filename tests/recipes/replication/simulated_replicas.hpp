#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "recipes/replication/replica_decider.hpp"
#include "recipes/replication/replica_format.hpp"

/// Members of a replica group with logs, driven by the real decisions, beside a server that is a few variables: views
/// are old, replies are lost, entries arrive late, disks are emptied, members crash.
namespace zkrecipes::detail::simulated {

using std::chrono::milliseconds;

constexpr std::size_t replicas = 3;

using Log = std::vector<std::int64_t>;  // The epoch of each entry.

/// The nodes.
struct Server {
  std::optional<std::string> state;
  std::int32_t version = 0;
  std::optional<std::size_t> owner;
  std::int64_t token = 0;  // Of the owner's node.
  std::vector<std::optional<std::string>> members{replicas};
};

/// A transaction on its way.
struct Sent {
  bool take = false;
  std::string data;
  std::int32_t version = 0;
  std::int64_t token = 0;  // Of a primary's change: what it checks.
};

struct Term {
  std::int64_t epoch = 0;
  std::int64_t token = 0;
  std::int32_t version = 0;  // Of the state.
  ReplicaTerm term;
  bool ready = false;
  std::set<std::string> equal;  // Storages that have all that is acknowledged, and all before it.
  std::optional<std::size_t> open;
  std::set<std::string> copies;
};

struct Entry {
  std::int64_t epoch;
  std::size_t index;
  std::size_t from;
  std::size_t to;
};

struct Replica {
  std::string id;
  std::string storage;
  bool up = true;
  Log log;
  std::int64_t accepted = 0;
  Server view;
  bool founded = false;
  std::optional<Sent> sent;
  std::optional<Term> term;
};

class World {
 public:
  explicit World(std::uint64_t seed)
      : random_(seed), lag_(1 + dice(3) * dice(3) * 4), calm_(2 + dice(6)), slow_(1 + dice(3) * 4) {
    for (std::size_t i = 0; i < replicas; ++i) {
      Replica one;
      one.id = std::string(1, static_cast<char>('a' + i));
      one.storage = "disk-" + std::to_string(++disks_);
      all_.push_back(std::move(one));
    }
  }

  void step() {
    const std::size_t i = dice(replicas);
    const std::size_t drawn = dice(24);
    if (drawn < 1) {
      if (i == 0 || dice(lag_) == 0) look(i);
    } else if (drawn < 3) {
      act(i);
    } else if (drawn < 6) {
      apply(i);
    } else if (drawn < 9) {
      copy_log(i, dice(replicas));
    } else if (drawn < 11) {
      make_ready(i);
    } else if (drawn < 13) {
      append(i);
    } else if (drawn < 16) {
      if (dice(slow_) == 0) arrive();
    } else if (drawn < 18) {
      acknowledge(i);
    } else if (drawn < 20) {
      change(i);
    } else if (drawn < 22) {
      if (dice(calm_) == 0) lose_lease(i);
    } else if (drawn < 23) {
      if (server_.owner == i && !all_[i].term) end_session(i);
    } else if (dice(calm_) == 0) {
      trouble(i);
    }
    check();
  }
  std::size_t acknowledged() const { return most_acked_; }
  std::int64_t epochs() const { return state() ? state()->epoch : 0; }
  std::string story() const { return story_.str(); }

 private:
  std::size_t dice(std::size_t sides) { return random_() % sides; }
  std::optional<ReplicaState> state() const {
    return server_.state ? decode_replica_state(*server_.state) : std::nullopt;
  }
  ReplicaMember member(std::size_t i) const {
    return {all_[i].id, all_[i].storage, milliseconds(1000), all_[i].log.size(), ""};
  }
  template <typename... Words>
  void tell(const Words&... words) {
    ((story_ << words << ' '), ...) << '\n';
  }

  // --- What members do ---

  void look(std::size_t i) {
    if (!all_[i].up) return;
    all_[i].view = server_;
    if (!server_.members[i]) server_.members[i] = encode(member(i));
  }

  void act(std::size_t i) {
    Replica& self = all_[i];
    if (!self.up || self.sent) return;
    ReplicaFacts facts;
    facts.present = server_.members[i].has_value();
    facts.founded = self.founded;
    if (self.view.state) facts.state = decode_replica_state(*self.view.state);
    self.founded = self.founded || facts.state;
    for (std::size_t m = 0; m < replicas; ++m) {
      if (const auto& text = self.view.members[m]) facts.members.push_back(*decode_replica_member(all_[m].id, *text));
    }
    facts.owned = self.view.owner.has_value();
    if (self.term) facts.term = self.term->epoch;
    switch (decide_replica(member(i), facts).step) {
      case ReplicaStep::found:
        if (!server_.state) server_.state = encode(first_state(member(i), 1));
        break;
      case ReplicaStep::step_down: lose_lease(i); break;
      case ReplicaStep::take_over:
      case ReplicaStep::stand_by:
        self.sent = Sent{true, encode(taken_over(*facts.state, self.id)), self.view.version};
        break;
      case ReplicaStep::give_up: ADD_FAILURE() << "the state is never removed"; break;
      default: break;
    }
  }

  // The transaction of a member arrives, and its reply does or does not.
  void apply(std::size_t i) {
    Replica& self = all_[i];
    if (!self.sent) return;
    const Sent sent = *self.sent;
    self.sent.reset();
    const bool done = sent.take ? apply_take(i, sent) : apply_change(i, sent);
    const bool lost = dice(8) == 0;
    if (sent.take) {
      if (done && !lost) begin_term(i, sent);
    } else if (self.term) {
      // After a lost reply the shell looks: so it knows as well.
      const bool ours = done || (lost && server_.state == sent.data);
      Term& term = *self.term;
      if (ours) {
        term.term.committed(*decode_replica_state(sent.data));
        term.version = server_.version;
        tell(self.id, "is told of", sent.data);
      }
      term.term.settle();
    }
  }

  bool apply_take(std::size_t i, const Sent& sent) {
    if (server_.owner || server_.version != sent.version || !server_.members[i]) return false;
    server_.owner = i;
    server_.token = ++tokens_;
    set_state(sent.data);
    return true;
  }

  bool apply_change(std::size_t i, const Sent& sent) {
    const bool holds = server_.owner == i && server_.token == sent.token;
    if (!holds || server_.version != sent.version) return false;
    set_state(sent.data);
    return true;
  }

  void set_state(const std::string& data) {
    server_.state = data;
    ++server_.version;
    tell("state is", data);
  }

  void begin_term(std::size_t i, const Sent& sent) {
    Replica& self = all_[i];
    Term term;
    term.term = ReplicaTerm(*decode_replica_state(sent.data));
    term.epoch = term.term.state().epoch;
    term.token = server_.token;
    term.version = server_.version;
    term.equal.insert(self.storage);
    self.accepted = term.epoch;
    self.term = std::move(term);
  }

  // --- What the primary does ---

  void copy_log(std::size_t from, std::size_t to) {
    Replica& primary = all_[from];
    Replica& other = all_[to];
    if (from == to || !primary.term || primary.term->open || !other.up || other.accepted > primary.term->epoch) return;
    other.log = primary.log;
    other.accepted = primary.term->epoch;
    primary.term->equal.insert(other.storage);
    tell(primary.id, "copies", primary.log.size(), "to", other.id, other.storage);
  }

  void make_ready(std::size_t i) {
    Replica& self = all_[i];
    if (!self.term || self.term->ready || !have(self.term->equal, self.term->term.counted())) return;
    self.term->ready = true;
    acked_ = self.log;  // It may be read from now on.
    tell(self.id, "is ready with", self.log.size());
  }

  static bool have(const std::set<std::string>& storages, const std::vector<InSyncReplica>& counted) {
    return std::all_of(counted.begin(), counted.end(), [&](const auto& one) { return storages.contains(one.storage); });
  }

  void append(std::size_t i) {
    Replica& self = all_[i];
    if (!self.term || !self.term->ready || self.term->open) return;
    self.term->open = self.log.size();
    self.log.push_back(self.term->epoch);
    self.term->copies = {self.storage};
    for (std::size_t to = 0; to < replicas; ++to) {
      if (to != i && self.term->equal.contains(all_[to].storage)) {
        on_the_way_.push_back({self.term->epoch, *self.term->open, i, to});
      }
    }
  }

  // In any order; sometimes when the term is long over.
  void arrive() {
    if (on_the_way_.empty()) return;
    // Mostly one of the newest: some are overtaken for long.
    const std::size_t among = dice(4) == 0 ? on_the_way_.size() : std::min<std::size_t>(3, on_the_way_.size());
    const std::size_t chosen = on_the_way_.size() - 1 - dice(among);
    const Entry entry = on_the_way_[chosen];
    on_the_way_.erase(on_the_way_.begin() + static_cast<std::ptrdiff_t>(chosen));
    Replica& to = all_[entry.to];
    if (!to.up || to.accepted > entry.epoch || to.log.size() < entry.index) return;
    const bool there = to.log.size() > entry.index && to.log[entry.index] == entry.epoch;  // With what came after it.
    if (!there) {
      to.log.resize(entry.index);
      to.log.push_back(entry.epoch);
    }
    to.accepted = entry.epoch;
    tell("entry", entry.index, "of", entry.epoch, "reaches", to.id);
    const auto& term = all_[entry.from].term;
    const bool awaited =
        term && term->epoch == entry.epoch && term->open == entry.index && term->equal.contains(to.storage);
    if (awaited) all_[entry.from].term->copies.insert(to.storage);
  }

  void acknowledge(std::size_t i) {
    Replica& self = all_[i];
    if (!self.term || !self.term->open || !have(self.term->copies, self.term->term.counted())) return;
    EXPECT_EQ(server_.owner, i) << "an acknowledgement of one that is no primary";
    acked_ = self.log;
    most_acked_ = std::max(most_acked_, acked_.size());
    tell(self.id, "acknowledges", *self.term->open);
    std::erase_if(self.term->equal, [&](const auto& storage) { return !self.term->copies.contains(storage); });
    self.term->open.reset();
  }

  void change(std::size_t i) {
    Replica& self = all_[i];
    if (!self.term || self.sent) return;
    const std::size_t other = dice(replicas);
    if (other == i) return;
    const ReplicaState& now = self.term->term.state();
    ReplicaState next = now;
    if (now.find(all_[other].id) != nullptr) {
      if (all_[other].up && dice(8) != 0) return;  // Else most would be alone.
      const std::vector<std::string> ids = {all_[other].id};
      next = shrunk(now, ids);
    } else if (self.term->ready && self.term->equal.contains(all_[other].storage)) {
      next = expanded(now, {all_[other].id, all_[other].storage, milliseconds(1000)});
    }
    if (next == now) return;
    self.term->term.sending(next);
    self.sent = Sent{false, encode(next), self.term->version, self.term->token};
  }

  // --- Trouble ---

  // The lease ends; its node is there for a while still, and so is what is on its way.
  void lose_lease(std::size_t i) { all_[i].term.reset(); }

  void trouble(std::size_t i) {
    Replica& self = all_[i];
    switch (dice(6)) {
      case 0:
      case 1:
      case 2: end_session(i); break;
      case 3:
        self.up = !self.up || dice(2) == 0;
        if (self.up) break;
        lose_lease(i);
        self.view = Server();
        self.founded = false;
        break;
      case 4: wipe(i); break;
      default: force(i); break;
    }
  }

  void end_session(std::size_t i) {
    if (all_[i].term) return;
    if (all_[i].sent && dice(2) == 0) apply(i);  // Just in time; it is told or not.
    if (all_[i].term) return;
    all_[i].sent.reset();
    if (server_.owner == i) server_.owner.reset();
    server_.members[i].reset();
  }

  // A disk is emptied while the member is down.
  void wipe(std::size_t i) {
    if (all_[i].up || dice(4) != 0) return;
    all_[i].storage = "disk-" + std::to_string(++disks_);
    all_[i].log.clear();
    all_[i].accepted = 0;
    server_.members[i].reset();
    if (server_.owner == i) server_.owner.reset();
    all_[i].sent.reset();
    tell(all_[i].id, "has an empty disk");
  }

  // The operator, when no storage that was in sync is left.
  void force(std::size_t i) {
    const auto now = state();
    if (!now || server_.owner || !server_.members[i]) return;
    for (const Replica& one : all_) {
      const InSyncReplica* entry = now->find(one.id);
      if (entry != nullptr && entry->storage == one.storage) return;
    }
    set_state(encode(forced(*now, member(i))));
    acked_.clear();
  }

  // --- What must hold ---

  void check() {
    int writers = 0;
    for (const Replica& one : all_) {
      if (one.term && one.term->ready) ++writers;
    }
    EXPECT_LE(writers, 1);
    const auto now = state();
    if (!now) return;
    for (const Replica& one : all_) {
      const InSyncReplica* entry = now->find(one.id);
      if (entry == nullptr || entry->storage != one.storage) continue;
      const bool whole = one.log.size() >= acked_.size() && std::equal(acked_.begin(), acked_.end(), one.log.begin());
      EXPECT_TRUE(whole) << one.id << " lacks what was acknowledged";
    }
  }

  std::mt19937_64 random_;
  const std::size_t lag_;   // How seldom most members look.
  const std::size_t calm_;  // How seldom something breaks.
  const std::size_t slow_;  // How seldom an entry arrives.
  Server server_;
  std::vector<Replica> all_;
  std::vector<Entry> on_the_way_;
  Log acked_;
  std::size_t most_acked_ = 0;
  std::int64_t tokens_ = 0;
  int disks_ = 0;
  std::ostringstream story_;
};

}  // namespace zkrecipes::detail::simulated
