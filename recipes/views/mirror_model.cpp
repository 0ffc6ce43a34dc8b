// What happened, and what it makes of that. Each further question about the nodes has a source of its own: mirror_*.cpp.

#include "recipes/views/mirror_model.hpp"

#include <algorithm>
#include <utility>

namespace zkrecipes::detail {

using Kind = MirrorRead::Kind;

namespace {

// Longer ones overflow the clock.
MirrorScope bounded(MirrorScope scope) {
  constexpr std::chrono::milliseconds for_ever = std::chrono::hours(24 * 365);
  scope.options.max_delay = std::min(scope.options.max_delay, for_ever);
  scope.options.quiet = std::min(scope.options.quiet, for_ever);
  return scope;
}

std::string last_component(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

MirrorModel::MirrorModel(MirrorScope scope) : scope_(bounded(std::move(scope))) {
  auto root = std::make_unique<Node>();
  root_ = root.get();
  root_->id = ++last_node_;
  root_->name = last_component(scope_.path);
  nodes_.emplace(root_->id, std::move(root));
  begin_anew(*root_);
}

void MirrorModel::session_opened() {
  const bool lacked_something = incomplete_ != 0 || !troubled_.empty();
  reads_.clear();
  in_flight_ = 0;
  queue_.clear();
  late_lists_.clear();
  troubled_.clear();
  retry_at_.reset();
  synced_ = false;
  session_zxid_ = 0;
  reconnected();
  // Parents first.
  std::deque<Node*> nodes{root_};
  while (!nodes.empty()) {
    Node& node = *nodes.front();
    nodes.pop_front();
    begin_anew(node);
    for (const auto& [name, child] : node.children)
      nodes.push_back(child);
  }
  if (lacked_something) mended_up_to_ = last_number_;
}

// No watch is armed, nothing is known for certain: all of it is to be read.
void MirrorModel::begin_anew(Node& node) {
  node.held = false;
  node.look_first = node.shown != nullptr && node.shown->has_data && node.shown->data.size() > small_data;
  node.list_not_before = {};
  node.data_error.clear();
  node.list_error.clear();
  for (const MirrorSide which : {MirrorSide::data, MirrorSide::list}) {
    Side& side = side_of(node, which);
    side.watch = nullptr;
    side.queued = false;
    refund(side);
    if (side.progress != Progress::clean) side.progress = Progress::due;
    // What has never been read is listed once it is known not to be ephemeral.
    const bool may_list = node.parent == nullptr || node.shown != nullptr;
    const bool wanted = which == MirrorSide::data ? wants_data(node) : wants_list(node) && may_list;
    if (!wanted) settle(side);
    if (wanted) unsettle(node, which);
    if (wanted) enqueue(node, which);
  }
}

void MirrorModel::disconnected() {
  connected_ = false;
  current_ = false;
  barrier_answered_ = false;
  barrier_sent_ = false;
  told_ = {as_of_, 0};
  ++connection_;
}

void MirrorModel::reconnected() {
  disconnected();
  connected_ = true;
}

void MirrorModel::closed() {
  disconnected();
  closed_ = true;
  reads_.clear();  // What is answered late arms nothing.
  for (const auto& [id, node] : nodes_)
    node->data.watch = node->list.watch = nullptr;
}

void MirrorModel::event(NodeId id, MirrorSide which, bool deleted) {
  Node* node = find(id);
  if (node == nullptr) return;
  side_of(*node, which).watch = nullptr;
  if (deleted && node != root_) {
    // It says nothing about the present: its name may have been made again. Reading it is of use only if it was.
    node->held = true;
    if (wants_data(*node)) unsettle(*node, MirrorSide::data);
    if (!wants_data(*node) && wants_list(*node)) unsettle(*node, MirrorSide::list);
    expect_new_list(*node->parent);
    return;
  }
  if (which == MirrorSide::list && !deleted) {
    if (wants_list(*node)) unsettle(*node, MirrorSide::list);
    return;
  }
  if (wants_data(*node)) {
    node->look_first = false;
    unsettle(*node, MirrorSide::data);
  } else if (node->data.progress != Progress::clean) {  // A root that is only listed, and is looked for.
    unsettle(*node, MirrorSide::data);
  } else if (deleted || !node->listed) {
    unsettle(*node, MirrorSide::list);
  }
}

void MirrorModel::reply(ReadId id, MirrorReply reply, TimePoint now) {
  now_ = now;
  const auto known = reads_.extract(id);
  if (known.empty()) return;  // Of a former session.
  const Sent& sent = known.mapped();
  if (sent.kind == Kind::sync) {
    answer_sync(sent, reply);
    return;
  }
  --in_flight_;
  Node* node = find(sent.node);
  if (node == nullptr || side_of(*node, sent.side).read != id) return;
  Side& side = side_of(*node, sent.side);
  if (reply.lost) {
    answered(*node, sent.side, false);
    return;
  }
  const bool absent = reply.error == Errc::no_node;
  const bool armed = !reply.error || (absent && sent.kind == Kind::exists);
  side.watch = armed ? std::move(reply.watch) : nullptr;
  if (!armed) refund(side);
  if (absent) {
    not_there(*node, sent.side, sent.kind);
  } else if (reply.error) {
    refused(*node, sent.side, *reply.error, sent.kind == Kind::get);
  } else if (sent.kind == Kind::get) {
    answer_get(*node, std::move(reply));
  } else if (sent.kind == Kind::exists) {
    answer_exists(*node, std::move(reply));
  } else {
    answer_list(*node, std::move(reply), sent);
  }
}

void MirrorModel::judged(const std::vector<bool>& included, TimePoint now) {
  now_ = now;
  for (auto& [about, belongs] : filter_.answer(included)) {
    if (belongs) make_child(*find(about.directory), std::move(about.name), about.number);
    end_number(unjudged_, about.number);
  }
}

CacheState MirrorModel::state() const {
  if (closed_) return CacheState::closed;
  if (revision_ == 0) return CacheState::loading;
  return current_ ? CacheState::current : CacheState::stale;
}

}  // namespace zkrecipes::detail
