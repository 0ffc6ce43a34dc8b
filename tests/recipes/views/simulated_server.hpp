#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recipes/views/mirror_model.hpp"

/// A model of an ensemble, and of the client between it and a MirrorModel, for tests of the latter. What counts is
/// kept: replies and events come in the server's order, watches are one-shot, a server applies a transaction alone and
/// queues its events before any later reply; a client arms its watches again when it reconnects, and is told what
/// changed since the newest reply that it had. Servers may lag behind.
namespace simulation {

using zkrecipes::detail::MirrorModel;
using zkrecipes::detail::MirrorRead;
using zkrecipes::detail::MirrorReply;
using zkrecipes::detail::MirrorSide;
using zkrecipes::detail::NodeId;
using zkrecipes::detail::ReadId;

struct ServerNode {
  std::string data;
  zkclient::Stat stat;
};
using State = std::map<std::string, ServerNode>;

inline std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// What the servers have agreed on: a state for each zxid.
class History {
 public:
  enum class Effect { created, deleted, changed };
  using Effects = std::vector<std::pair<std::string, Effect>>;

  History() { begin(); }
  /// The ensemble loses its data.
  void begin() {
    ++epoch_;
    states_.assign(1, {{"/", {}}});
    effects_.assign(1, {});
  }
  int epoch() const { return epoch_; }
  std::int64_t newest() const { return static_cast<std::int64_t>(states_.size()) - 1; }
  const State& at(std::int64_t zxid) const { return states_[static_cast<std::size_t>(zxid)]; }
  const Effects& effects(std::int64_t zxid) const { return effects_[static_cast<std::size_t>(zxid)]; }

  /// One transaction.
  class Multi {
   public:
    explicit Multi(History& history) : history_(history), state_(history.states_.back()), zxid_(history.newest() + 1) {}
    bool create(const std::string& path, std::string data, std::int64_t owner = 0) {
      const auto parent = state_.find(parent_of(path));
      if (parent == state_.end() || state_.contains(path) || parent->second.stat.ephemeral_owner != 0) return false;
      ServerNode node{std::move(data), {}};
      node.stat.czxid = node.stat.mzxid = node.stat.pzxid = zxid_;
      node.stat.ctime_ms = node.stat.mtime_ms = ++history_.clock_;
      node.stat.data_length = static_cast<std::int32_t>(node.data.size());
      node.stat.ephemeral_owner = owner;
      touch(parent->second, 1);
      state_.emplace(path, std::move(node));
      effects_.emplace_back(path, Effect::created);
      return true;
    }
    bool remove(const std::string& path) {
      const auto node = state_.find(path);
      if (path == "/" || node == state_.end() || node->second.stat.children_count != 0) return false;
      state_.erase(node);
      touch(state_.at(parent_of(path)), -1);
      effects_.emplace_back(path, Effect::deleted);
      return true;
    }
    bool set(const std::string& path, std::string data) {
      const auto node = state_.find(path);
      if (path == "/" || node == state_.end()) return false;
      node->second.data = std::move(data);
      node->second.stat.mzxid = zxid_;
      node->second.stat.mtime_ms = ++history_.clock_;
      node->second.stat.data_length = static_cast<std::int32_t>(node->second.data.size());
      ++node->second.stat.version;
      effects_.emplace_back(path, Effect::changed);
      return true;
    }
    void commit() {
      history_.states_.push_back(std::move(state_));
      history_.effects_.push_back(std::move(effects_));
    }

   private:
    void touch(ServerNode& parent, int children) {
      parent.stat.pzxid = zxid_;
      ++parent.stat.children_version;
      parent.stat.children_count += children;
    }
    History& history_;
    State state_;
    const std::int64_t zxid_;
    Effects effects_;
  };

 private:
  int epoch_ = 0;
  std::int64_t clock_ = 0;
  std::vector<State> states_;
  std::vector<Effects> effects_;
};

/// The client's session with one of the servers, up to the model.
class Link {
 public:
  enum class Event { created, deleted, changed, children };
  using Key = std::pair<std::string, MirrorSide>;

  Link(History& history, MirrorModel& model, std::mt19937_64& random)
      : history_(history), model_(model), random_(random) {}

  bool connected() const { return connected_; }
  bool has_session() const { return session_; }
  /// Of the newest reply that the model has seen: what it knows is the server at this zxid.
  std::int64_t newest_reply() const { return model_zxid_; }
  /// Of the newest write of this session whose acknowledgement the client has: what was committed before has been told.
  std::int64_t told() const { return told_; }
  std::size_t requests(MirrorRead::Kind kind) const {
    const auto count = counts_.find(kind);
    return count == counts_.end() ? 0 : count->second;
  }
  std::size_t requests() const {
    std::size_t sum = 0;
    for (const auto& [kind, count] : counts_)
      sum += count;
    return sum;
  }
  std::size_t in_flight() const { return to_server_.size() + to_client_replies(); }
  std::size_t server_watches() const { return watched_.size(); }
  /// Paths that were asked for, in requests of any kind.
  const std::set<std::string>& asked_paths() const { return asked_paths_; }
  /// Paths that nobody may read.
  std::set<std::string>& forbidden() { return forbidden_; }
  /// A read that the server refused, of a node that the model knows, and that it has not answered since.
  struct Refusal {
    NodeId node = 0;
    std::int64_t czxid = 0;
  };
  const std::map<Key, Refusal>& refusals() const { return refusals_; }

  // --- Steps ---

  void open(std::int64_t lag) {
    session_ = connected_ = true;
    applied_ = std::max<std::int64_t>(history_.newest() - lag, 0);
    seen_ = model_zxid_ = told_ = 0;
    armed_.clear();
    absent_.clear();
    watched_.clear();
    refusals_.clear();
    ephemerals_.clear();
    model_.session_opened();
  }
  void lose_session() {
    break_connection();
    // Replies of that session may still come to the model.
    for (const MirrorRead& read : again_)
      stale_.push_back(read.id);
    stale_.insert(stale_.end(), lost_.begin(), lost_.end());
    for (const Message& message : received_)
      stale_.push_back(message.read.id);
    received_.clear();
    again_.clear();
    lost_.clear();
    armed_.clear();
    session_ = false;
    model_.disconnected();
  }
  void cut() {
    break_connection();
    model_.disconnected();
  }
  void reconnect(std::int64_t lag) {
    connected_ = true;
    applied_ = std::max(history_.newest() - lag, seen_);
    model_.reconnected();
    for (const auto& [key, handles] : armed_)
      arm_again(key, history_.at(applied_));
    // What was on its way is sent again by the client, or was given up.
    std::shuffle(again_.begin(), again_.end(), random_);
    for (MirrorRead& read : again_)
      to_server_.push_back(std::move(read));
    again_.clear();
  }
  void send(std::chrono::steady_clock::time_point now) {
    for (MirrorRead& read : model_.take_reads(now)) {
      ++counts_[read.kind];
      asked_paths_.insert(read.path);
      to_server_.push_back(std::move(read));
    }
  }
  bool lags() const { return connected_ && applied_ < history_.newest(); }
  void apply() {
    if (!lags()) return;
    ++applied_;
    for (const auto& [path, effect] : history_.effects(applied_))
      trigger(path, effect);
  }
  bool can_answer() const { return connected_ && !to_server_.empty(); }
  void answer() {
    if (!can_answer()) return;
    const MirrorRead read = std::move(to_server_.front());
    to_server_.pop_front();
    if (read.kind == MirrorRead::Kind::sync) {
      while (lags())
        apply();
    }
    to_client_.push_back(answer_to(read));
  }
  /// A write of this client, which changes nothing, is acknowledged.
  void acknowledge() {
    if (!connected_) return;
    while (lags())
      apply();
    to_client_.push_back({.zxid = applied_, .is_acknowledgement = true});
  }
  bool can_receive() const { return !to_client_.empty(); }
  /// A message reaches the client: events go on to the model at once, replies at the next hand_over().
  void receive() {
    if (to_client_.empty()) return;
    Message message = std::move(to_client_.front());
    to_client_.pop_front();
    if (message.is_acknowledgement) {
      seen_ = std::max(seen_, message.zxid);
      told_ = message.zxid;
      return;
    }
    if (!message.is_reply) {
      fire(message);
      return;
    }
    seen_ = std::max(seen_, message.zxid);
    if (message.handle != nullptr) {
      armed_[message.handle->key].push_back(message.handle);
      if (message.reply.error) absent_.insert(message.handle->key);
      if (!message.reply.error) absent_.erase(message.handle->key);
      message.reply.watch = message.handle;
    }
    received_.push_back(std::move(message));
  }
  /// The next message is never received.
  void lose_message() { to_client_.pop_front(); }
  bool can_hand_over() const { return !received_.empty(); }
  void hand_over(std::chrono::steady_clock::time_point now) {
    if (received_.empty()) return;
    Message message = std::move(received_.front());
    received_.pop_front();
    model_zxid_ = message.zxid;
    note_refusal(message);
    model_.reply(message.read.id, std::move(message.reply), now);
  }
  bool has_lost() const { return !lost_.empty() || !stale_.empty(); }
  /// The client tells that a reply will never come.
  void tell_loss(std::chrono::steady_clock::time_point now) {
    MirrorReply lost;
    lost.lost = true;
    if (!stale_.empty()) {
      // Of a former session: nonsense, to be dropped.
      MirrorReply wrong;
      wrong.data = "of a former session";
      wrong.names = {"ghost"};
      model_.reply(stale_.front(), std::move(wrong), now);
      stale_.pop_front();
    } else if (!lost_.empty()) {
      model_.reply(lost_.front(), std::move(lost), now);
      lost_.pop_front();
    }
  }
  /// Nothing is on its way.
  bool at_rest() const {
    return connected_ && to_server_.empty() && to_client_.empty() && received_.empty() && !has_lost() && !lags();
  }

 private:
  struct Handle {
    Key key;
    NodeId node;
    MirrorSide side;
  };
  struct Message {
    bool is_reply = false;
    std::string path = {};
    Event event = Event::changed;
    MirrorRead read = {};
    std::int64_t zxid = 0;
    MirrorReply reply = {};
    std::shared_ptr<Handle> handle = {};
    bool is_acknowledgement = false;
    std::int64_t refused_czxid = 0;
  };

  std::size_t to_client_replies() const {
    return static_cast<std::size_t>(
        std::count_if(to_client_.begin(), to_client_.end(), [](const Message& message) { return message.is_reply; }));
  }

  void break_connection() {
    for (Message& message : to_client_) {
      if (message.is_reply) to_server_.push_back(std::move(message.read));
    }
    for (MirrorRead& read : to_server_) {
      if (random_() % 2 == 0) {
        again_.push_back(std::move(read));
      } else {
        lost_.push_back(read.id);
      }
    }
    to_client_.clear();
    to_server_.clear();
    watched_.clear();
    connected_ = false;
  }

  void arm_again(const Key& key, const State& state) {
    const auto node = state.find(key.first);
    if (node == state.end()) {
      // The client knows whether it waits for the node to appear; an event of deletion ends both kinds of watch.
      if (absent_.contains(key)) {
        watched_.insert(key);
      } else {
        push_event(key.first, Event::deleted);
      }
    } else if (absent_.contains(key)) {
      push_event(key.first, Event::created);
    } else if (key.second == MirrorSide::data && node->second.stat.mzxid > seen_) {
      push_event(key.first, Event::changed);
    } else if (key.second == MirrorSide::list && node->second.stat.pzxid > seen_) {
      push_event(key.first, Event::children);
    } else {
      watched_.insert(key);
    }
  }

  void push_event(const std::string& path, Event event) { to_client_.push_back({.path = path, .event = event}); }

  bool take_watch(const std::string& path, MirrorSide side) { return watched_.erase({path, side}) != 0; }

  void trigger(const std::string& path, History::Effect effect) {
    const bool data = take_watch(path, MirrorSide::data);
    if (effect == History::Effect::changed) {
      if (data) push_event(path, Event::changed);
      return;
    }
    const bool deleted = effect == History::Effect::deleted;
    const bool list = deleted && take_watch(path, MirrorSide::list);
    if (data || list) push_event(path, deleted ? Event::deleted : Event::created);
    if (take_watch(parent_of(path), MirrorSide::list)) push_event(parent_of(path), Event::children);
  }

  Message answer_to(const MirrorRead& read) {
    Message message{.is_reply = true, .read = read, .zxid = applied_};
    if (read.kind == MirrorRead::Kind::sync) return message;
    const State& state = history_.at(applied_);
    const auto node = state.find(read.path);
    const bool is_exists = read.kind == MirrorRead::Kind::exists;
    MirrorReply& reply = message.reply;
    if (node == state.end()) {
      reply.error = zkclient::Errc::no_node;
      if (!is_exists) return message;
    } else if (!is_exists && forbidden_.contains(read.path)) {
      reply.error = zkclient::Errc::no_auth;
      message.refused_czxid = node->second.stat.czxid;
      return message;
    } else {
      reply.stat = node->second.stat;
      if (read.kind == MirrorRead::Kind::get) reply.data = node->second.data;
      if (read.kind == MirrorRead::Kind::children) reply.names = children_of(state, read.path);
    }
    const Key key{read.path, read.side};
    watched_.insert(key);
    message.handle = std::make_shared<Handle>(Handle{key, read.node, read.side});
    return message;
  }

  void note_refusal(const Message& message) {
    const MirrorRead& read = message.read;
    if (read.kind == MirrorRead::Kind::sync) return;
    const bool gone = message.reply.error == zkclient::Errc::no_node;
    for (const MirrorSide side : {MirrorSide::data, MirrorSide::list}) {
      const auto known = refusals_.find({read.path, side});
      if (known != refusals_.end() && (gone || known->second.node != read.node)) refusals_.erase(known);
    }
    if (!message.reply.error) {
      if (read.kind != MirrorRead::Kind::exists) refusals_.erase({read.path, read.side});
      message.reply.stat.ephemeral_owner != 0 ? (void)ephemerals_.insert(read.path)
                                              : (void)ephemerals_.erase(read.path);
    } else if (!gone && read.side == MirrorSide::list && ephemerals_.contains(read.path)) {
      // The model knew by then that this node needs no list, and does not look at the reply. Another node of that name may
      // need one, which is asked for.
    } else if (!gone) {
      refusals_[{read.path, read.side}] = {read.node, message.refused_czxid};
      // Of a directory that cannot be listed, the children are forgotten.
      if (read.side == MirrorSide::list) {
        std::erase_if(refusals_, [&](const auto& one) { return one.first.first.starts_with(read.path + "/"); });
      }
    }
  }

  static std::vector<std::string> children_of(const State& state, const std::string& path) {
    const std::string prefix = path == "/" ? path : path + "/";
    std::vector<std::string> names;
    for (auto node = state.lower_bound(prefix); node != state.end() && node->first.starts_with(prefix); ++node) {
      const std::string rest = node->first.substr(prefix.size());
      if (!rest.empty() && rest.find('/') == std::string::npos) names.push_back(rest);
    }
    return names;
  }

  // As the client does: an event of deletion ends both kinds of watch.
  void fire(const Message& message) {
    if (message.event != Event::children) fire({message.path, MirrorSide::data}, message.event == Event::deleted);
    if (message.event == Event::children || message.event == Event::deleted) {
      fire({message.path, MirrorSide::list}, message.event == Event::deleted);
    }
  }
  void fire(const Key& key, bool deleted) {
    absent_.erase(key);
    const auto armed = armed_.extract(key);
    if (armed.empty()) return;
    for (const std::weak_ptr<Handle>& weak : armed.mapped()) {
      if (const auto handle = weak.lock()) model_.event(handle->node, handle->side, deleted);
    }
  }

  History& history_;
  MirrorModel& model_;
  std::mt19937_64& random_;
  bool session_ = false;
  bool connected_ = false;
  std::int64_t applied_ = 0;  // By this server.
  std::int64_t seen_ = 0;     // Newest zxid of a reply that has reached the client.
  std::int64_t told_ = 0;
  std::int64_t model_zxid_ = 0;                              // And the model.
  std::set<Key> watched_;                                    // At the server.
  std::set<Key> absent_;                                     // Of the client's, those for a node to appear.
  std::map<Key, std::vector<std::weak_ptr<Handle>>> armed_;  // In the client.
  std::deque<MirrorRead> to_server_;
  std::deque<Message> to_client_;
  std::deque<Message> received_;
  std::vector<MirrorRead> again_;
  std::deque<ReadId> lost_;
  std::deque<ReadId> stale_;
  std::map<MirrorRead::Kind, std::size_t> counts_;
  std::set<std::string> asked_paths_;
  std::set<std::string> forbidden_;
  std::map<Key, Refusal> refusals_;
  std::set<std::string> ephemerals_;  // By the newest reply that told.
};

}  // namespace simulation
