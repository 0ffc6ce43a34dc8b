// What does the answer to a read say of a node?

#include "recipes/views/mirror_model.hpp"

#include <algorithm>
#include <utility>

#include "recipes/kernel/single_node_decider.hpp"

namespace zkrecipes::detail {

using zkclient::Stat;
using Kind = MirrorRead::Kind;

namespace {

// After the ensemble has lost its data, zxids can be those of before by chance.
bool same_data(const Stat& one, const Stat& other) {
  return one.czxid == other.czxid && one.mzxid == other.mzxid && one.ctime_ms == other.ctime_ms &&
         one.mtime_ms == other.mtime_ms && one.version == other.version && one.data_length == other.data_length;
}

}  // namespace

void MirrorModel::answer_sync(const Sent& sent, const MirrorReply& reply) {
  if (sent.connection != connection_) return;  // A new one is due.
  barrier_sent_ = false;
  if (reply.lost || reply.error) return;
  barrier_answered_ = true;
  synced_ = true;
  target_ = last_number_;
}

void MirrorModel::answer_get(Node& node, MirrorReply reply) {
  const bool is_other = node.czxid != reply.stat.czxid;
  adopt(node, reply.stat);
  // The list takes the same right. What was wrong with it stays so until it is answered.
  const bool was_wrong = static_cast<bool>(std::exchange(node.data_error, {}));
  const bool may_list = (was_wrong || is_other) && node.list_error && wants_list(node);
  if (may_list) unsettle(node, MirrorSide::list, node.data.number);
  CachedNode seen{.name = node.name, .stat = reply.stat};
  const std::size_t others = data_bytes_ - node.bytes;
  seen.has_data = others + reply.data.size() <= scope_.options.max_bytes;
  if (seen.has_data) seen.data = std::move(reply.data);
  data_bytes_ = others + seen.data.size();
  node.bytes = seen.data.size();
  show(node, std::move(seen));
  note_trouble(node);
  list_if_new(node);
  answered(node, MirrorSide::data, true);
}

void MirrorModel::answer_exists(Node& node, MirrorReply reply) {
  if (!wants_data(node)) {  // A root that is only listed, and could not be.
    if (node.list_error) {
      show_stat(node, reply.stat);
    } else {
      unsettle(node, MirrorSide::list, node.data.number);
    }
    answered(node, MirrorSide::data, true);
    return;
  }
  const bool only_stat = !scope_.options.data;
  const bool same = node.shown != nullptr && node.shown->has_data && same_data(node.shown->stat, reply.stat);
  node.look_first = false;
  if (only_stat) node.data_error.clear();
  if (!only_stat && !same && !node.data_error) {  // There is data to be read.
    answered(node, MirrorSide::data, false);
    return;
  }
  adopt(node, reply.stat);
  show_stat(node, reply.stat);
  note_trouble(node);
  list_if_new(node);
  answered(node, MirrorSide::data, true);
}

void MirrorModel::answer_list(Node& node, MirrorReply reply, const Sent& sent) {
  adopt(node, reply.stat);
  node.list_error.clear();
  if (reply.names.size() > Directory::max_block) node.list_not_before = now_ + 2 * (now_ - sent.at);
  // Of nodes with data, it is newer than what came with the data.
  const bool same = node.shown != nullptr && same_data(node.shown->stat, reply.stat);
  if (!wants_data(node) || same) show_stat(node, reply.stat);
  node.listed = true;
  adopt_names(node, std::move(reply.names));
  note_trouble(node);
  answered(node, MirrorSide::list, true);
}

// What was told to be deleted, and is named, is read.
void MirrorModel::adopt_names(Node& node, std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  end_numbers(filter_.keep(node.id, names));
  auto known = node.children.begin();
  for (std::string& name : names) {
    while (known != node.children.end() && known->first < name)
      forget(*(known++)->second);
    if (known == node.children.end() || known->first != name) {
      discover(node, std::move(name), node.list.number);
      continue;
    }
    Node& child = *(known++)->second;
    if (!child.held) continue;
    child.held = false;
    enqueue(child, MirrorSide::data);
    enqueue(child, MirrorSide::list);
  }
  while (known != node.children.end())
    forget(*(known++)->second);
}

void MirrorModel::adopt(Node& node, const Stat& stat) {
  session_zxid_ = std::max({session_zxid_, stat.czxid, stat.mzxid, stat.pzxid});
  const bool other = stat.czxid != node.czxid || stat.ctime_ms != node.ctime;
  // No node is older than what was seen of the one that it replaces, unless the ensemble has lost its data.
  if (other && stat.czxid <= node.newest) zxid_ = 0;
  zxid_ = std::max(zxid_, session_zxid_);
  node.newest = std::max({stat.czxid, stat.mzxid, stat.pzxid, other ? 0 : node.newest});
  if (other) {
    forget_children(node);
    node.listed = false;
    node.czxid = stat.czxid;
    node.ctime = stat.ctime_ms;
  }
  // It cannot have children. (Of a node that is only listed, the list is what tells that it was replaced.)
  node.ephemeral = is_ephemeral(stat) && wants_data(node);
  if (node.ephemeral) {
    node.list_error.clear();
    settle(node.list);
    node.list.watch = nullptr;
    refund(node.list);
  }
}

void MirrorModel::list_if_new(Node& node) {
  // A list that is on its way will be answered after this.
  const bool comes = node.listed || node.list_error || node.list.progress != Progress::clean;
  if (wants_list(node) && !comes) unsettle(node, MirrorSide::list, node.data.number);
}

// A child of it has gone. If its list is watched, its own event says so as well, or will.
void MirrorModel::expect_new_list(Node& node) {
  if (node.list.progress == Progress::clean && node.list.watch == nullptr) unsettle(node, MirrorSide::list);
}

void MirrorModel::not_there(Node& node, MirrorSide which, Kind read) {
  if (&node != root_) {
    Node& parent = *node.parent;
    forget(node);
    expect_new_list(parent);
    return;
  }
  root_vanished();
  node.look_first = true;  // That arms the watch for its return, which the other reads do not.
  if (which == MirrorSide::data) {
    answered(node, MirrorSide::data, read == Kind::exists);
  } else {
    if (node.data.progress == Progress::clean) unsettle(node, MirrorSide::data, node.list.number);
    answered(node, MirrorSide::list, true);
  }
}

void MirrorModel::root_vanished() {
  forget_children(*root_);
  root_->listed = false;
  root_->ephemeral = false;
  root_->data_error.clear();
  root_->list_error.clear();
  troubled_.erase(root_->id);
  if (root_->list.progress == Progress::due) settle(root_->list);
  hide(*root_);
}

}  // namespace zkrecipes::detail
