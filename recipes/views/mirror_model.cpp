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

// Longer ones overflow the clock.
MirrorScope bounded(MirrorScope scope) {
  constexpr std::chrono::milliseconds for_ever = std::chrono::hours(24 * 365);
  scope.options.max_delay = std::min(scope.options.max_delay, for_ever);
  scope.options.quiet = std::min(scope.options.quiet, for_ever);
  return scope;
}

std::string path_below(std::string directory, const std::string& name) {
  if (directory == "/") directory.clear();
  return std::move(directory.append(1, '/').append(name));
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

// --- Numbers ---------------------------------------------------------------------------------------------------------

std::uint64_t MirrorModel::settled_up_to() const { return std::min(before(unsettled_), before(unjudged_)); }

// The first snapshot waits for all names that were there; later ones do not wait for a filter that takes long.
bool MirrorModel::caught_up() const {
  const std::uint64_t up_to = revision_ == 0 ? settled_up_to() : before(unsettled_);
  return connected_ && barrier_answered_ && up_to >= target_;
}

bool MirrorModel::covers(std::uint64_t number) const {
  if (revision_ == 0) return false;
  return (changed_ ? published_up_to_ : settled_up_to()) >= number;
}

// What had been committed before `time`, and is watched, has had its event: it is dirty with a number up to the
// present one, or was read after it. What was not watched yet has such a number as well. An answer that came before
// such an event ends no number of it: the side has a number for the read that is sent again. And no read that is sent
// from now on is answered by a server that lags behind `time`: this session has seen a later transaction. So once all
// up to the present number is in what was published, exact or not, so is all that had been committed before `time`,
// whatever has been told since. That takes the session: the next one begins at another server, and nothing is left to
// wait for.
//
// One pair at a time: when it is contained, the newest time is the next.
void MirrorModel::told_up_to(zkclient::BootClock::time_point time) {
  if (!current_) return;
  take_told();
  if (told_.time == as_of_ && time > as_of_) told_ = {time, last_number_};
  take_told();
}

void MirrorModel::take_told() {
  if (covers(told_.mark)) as_of_ = told_.time;
}

void MirrorModel::unsettle(Node& node, MirrorSide which, std::uint64_t number) {
  Side& side = side_of(node, which);
  switch (side.progress) {
    case Progress::clean:
      side.progress = Progress::due;
      side.number = number;
      ++unsettled_[number];
      enqueue(node, which);
      break;
    case Progress::sent:
      side.progress = Progress::sent_again;
      side.again = number;
      break;
    case Progress::due:
    case Progress::sent_again: break;
  }
  if (number < side.number) {  // Passed on by the other side, whose number ends now: this one has waited for less long.
    end_number(unsettled_, side.number);
    side.number = number;
    ++unsettled_[number];
  }
}

void MirrorModel::end_number(Numbers& numbers, std::uint64_t number) {
  const auto found = numbers.find(number);
  if (--found->second == 0) numbers.erase(found);
}

void MirrorModel::end_numbers(const NameFilter::Numbers& numbers) {
  for (const std::uint64_t number : numbers)
    end_number(unjudged_, number);
}

void MirrorModel::settle(Side& side) {
  if (side.progress == Progress::clean) return;
  end_number(unsettled_, side.number);
  side.progress = Progress::clean;
  side.read = 0;
}

void MirrorModel::answered(Node& node, MirrorSide which, bool done) {
  Side& side = side_of(node, which);
  const bool again = side.progress == Progress::sent_again;
  side.read = 0;
  if (done && !again) {
    settle(side);
    return;
  }
  side.progress = Progress::due;
  if (done) {
    end_number(unsettled_, side.number);
    side.number = side.again;
    ++unsettled_[side.number];
  }
  enqueue(node, which);
}

// --- What happened ---------------------------------------------------------------------------------------------------

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

// --- Replies ---------------------------------------------------------------------------------------------------------

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

// `again_by_exists`: that needs no right to read, tells its Stat, and watches.
void MirrorModel::refused(Node& node, MirrorSide which, Errc error, bool again_by_exists) {
  const std::error_code code = make_error_code(error);
  if (which == MirrorSide::data) {
    node.data_error = code;
    node.look_first = true;
    data_bytes_ -= std::exchange(node.bytes, 0);
  } else {
    node.list_error = code;
    node.listed = false;
    forget_children(node);
  }
  note_trouble(node);
  const bool looks = error != Errc::overloaded;
  if (which == MirrorSide::data && again_by_exists && looks) {
    if (node.shown != nullptr) show_stat(node, node.shown->stat);
    answered(node, which, false);
    return;
  }
  // Without a watch, the last Stat says nothing of the present.
  const bool known = node.shown != nullptr && looks;
  // A root that has come again is shown by its data: of which node it is, the refusal does not say.
  const bool is_shown_later = node.shown == nullptr && which == MirrorSide::list && wants_data(node);
  if (!is_shown_later) show_stat(node, known ? node.shown->stat : Stat());
  if (which == MirrorSide::list && !wants_data(node) && looks && &node == root_) {
    node.look_first = true;
    unsettle(node, MirrorSide::data, node.list.number);
  }
  answered(node, which, true);
}

// Nodes that lack something are tried again after a while.
void MirrorModel::note_trouble(Node& node) {
  const bool has_all = !node.data_error && !node.list_error && !node.incomplete;
  if (has_all) {
    // What is below it had no number while it could not be read.
    if (troubled_.erase(node.id) != 0) mended_up_to_ = last_number_;
    if (troubled_.empty()) retry_at_.reset();
    return;
  }
  troubled_.insert(node.id);
  if (!retry_at_) retry_at_ = now_ + retry_pause;
}

// What is wrong stays so until the answer comes: meanwhile the node is shown again for other reasons.
void MirrorModel::retry(Node& node) {
  if (node.data_error && wants_data(node)) {
    node.look_first = false;
    unsettle(node, MirrorSide::data);
  } else if (node.incomplete && wants_data(node) && !node.list_error) {
    const auto length = static_cast<std::size_t>(node.shown->stat.data_length);
    if (data_bytes_ + length <= scope_.options.max_bytes) unsettle(node, MirrorSide::data);
  }
  if (node.list_error && wants_list(node)) unsettle(node, MirrorSide::list);
}

// --- Requests --------------------------------------------------------------------------------------------------------

bool MirrorModel::wants_data(const Node& node) const {
  return node.parent == nullptr ? scope_.root_data : scope_.options.data;
}

bool MirrorModel::wants_list(const Node& node) const { return node.depth < scope_.depth && !node.ephemeral; }

Kind MirrorModel::kind_of_read(const Node& node, MirrorSide side) const {
  if (side == MirrorSide::list) return Kind::children;
  return node.look_first || !wants_data(node) || !scope_.options.data ? Kind::exists : Kind::get;
}

void MirrorModel::enqueue(Node& node, MirrorSide which) {
  Side& side = side_of(node, which);
  if (side.queued || node.held || side.progress != Progress::due) return;
  side.queued = true;
  queue_.emplace_back(node.id, which);
}

bool MirrorModel::pay(Side& side, std::size_t bytes) {
  if (side.paid != 0) return true;
  if (watched_bytes_ + bytes > max_watched_bytes) return false;
  watched_bytes_ += bytes;
  side.paid = bytes;
  return true;
}

void MirrorModel::refund(Side& side) { watched_bytes_ -= std::exchange(side.paid, 0); }

// What had to wait, and need not any longer.
void MirrorModel::take_late(TimePoint now) {
  while (!late_lists_.empty() && late_lists_.begin()->first <= now) {
    queue_.emplace_back(late_lists_.begin()->second, MirrorSide::list);
    late_lists_.erase(late_lists_.begin());
  }
  if (!retry_at_ || *retry_at_ > now) return;
  retry_at_ = now + retry_pause;
  for (const NodeId id : troubled_)
    retry(*find(id));
}

std::vector<MirrorRead> MirrorModel::take_reads(TimePoint now) {
  now_ = now;
  std::vector<MirrorRead> reads;
  if (!connected_ || closed_) return reads;
  if (!barrier_answered_ && !barrier_sent_) {
    barrier_sent_ = true;
    reads.push_back({.id = ++last_read_, .kind = Kind::sync, .path = scope_.full_path});
    reads_.emplace(last_read_, Sent{Kind::sync, 0, MirrorSide::data, now, connection_});
  }
  if (!synced_) return reads;  // This server may lag behind the one of the last session.
  take_late(now);
  while (in_flight_ < max_in_flight && !queue_.empty()) {
    const auto [id, which] = queue_.front();
    queue_.pop_front();
    Node* node = find(id);
    if (node == nullptr) continue;
    MirrorRead read;
    if (send(*node, which, now, read)) reads.push_back(std::move(read));
  }
  return reads;
}

std::vector<std::string> MirrorModel::take_names() {
  std::vector<std::string> paths;
  for (const NameFilter::Name& name : filter_.take())
    paths.push_back(path_below(path_of(*find(name.directory), scope_.path), name.name));
  return paths;
}

bool MirrorModel::send(Node& node, MirrorSide which, TimePoint now, MirrorRead& read) {
  Side& side = side_of(node, which);
  side.queued = false;
  if (side.progress != Progress::due || node.held) return false;
  if (which == MirrorSide::list && node.list_not_before > now) {
    side.queued = true;
    late_lists_.emplace(node.list_not_before, node.id);
    return false;
  }
  std::string path = path_of(node, scope_.full_path);
  if (!pay(side, path.size() + 4)) {
    refused(node, which, Errc::overloaded, false);
    return false;
  }
  side.progress = Progress::sent;
  side.read = ++last_read_;
  read = {.id = side.read, .kind = kind_of_read(node, which), .path = std::move(path), .node = node.id, .side = which};
  reads_.emplace(side.read, Sent{read.kind, node.id, which, now, connection_});
  ++in_flight_;
  return true;
}

std::string MirrorModel::path_of(const Node& node, const std::string& root) const {
  if (node.parent == nullptr) return root;
  return path_below(path_of(*node.parent, root), node.name);
}

// --- Nodes -----------------------------------------------------------------------------------------------------------

MirrorModel::Node* MirrorModel::find(NodeId id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : found->second.get();
}

void MirrorModel::discover(Node& parent, std::string name, std::uint64_t number) {
  if (!scope_.filtered) {
    make_child(parent, std::move(name), number);
  } else if (filter_.add(parent.id, name, number)) {
    ++unjudged_[number];
  }
}

void MirrorModel::make_child(Node& parent, std::string name, std::uint64_t number) {
  auto made = std::make_unique<Node>();
  Node& node = *made;
  node.id = ++last_node_;
  node.name = std::move(name);
  node.parent = &parent;
  node.depth = parent.depth + 1;
  parent.children.emplace(node.name, &node);
  nodes_.emplace(node.id, std::move(made));
  if (wants_data(node)) {
    unsettle(node, MirrorSide::data, number);
  } else {
    if (wants_list(node)) unsettle(node, MirrorSide::list, number);
    show(node, {.name = node.name});
  }
}

void MirrorModel::forget(Node& node) {
  forget_children(node);
  hide(node);
  node.parent->children.erase(node.name);
  drop(node);
}

void MirrorModel::forget_children(Node& node) {
  end_numbers(filter_.forget(node.id));
  if (node.children.empty()) return;
  for (const auto& [name, child] : std::exchange(node.children, {})) {
    forget_children(*child);
    if (child->shown != nullptr) --size_;
    set_incomplete(*child, false);
    drop(*child);
  }
  if (node.directory == nullptr) return;
  node.directory = nullptr;
  if (node.parent != nullptr && node.shown != nullptr) {
    writable(*node.parent).put_children(edition_, node.name, nullptr);
  }
  touch();
}

void MirrorModel::drop(Node& node) {
  for (Side* side : {&node.data, &node.list}) {
    settle(*side);
    refund(*side);
  }
  data_bytes_ -= node.bytes;
  troubled_.erase(node.id);
  nodes_.erase(node.id);
}

// --- What is shown ---------------------------------------------------------------------------------------------------

void MirrorModel::touch() {
  if (!changed_) changed_ = now_;
  last_change_ = now_;
}

// When what has changed has rested for long enough to be published, or has waited for long enough.
MirrorModel::TimePoint MirrorModel::quiet_at() const {
  const CacheOptions& options = scope_.options;
  if (hurried_up_to_ > published_up_to_) return *changed_;
  return std::min(last_change_ + options.quiet, *changed_ + std::max(options.quiet, options.max_delay));
}

void MirrorModel::hurry(std::uint64_t number) { hurried_up_to_ = std::max(hurried_up_to_, number); }

bool MirrorModel::is_quiet(TimePoint now) const { return !changed_ || revision_ == 0 || now >= quiet_at(); }

Directory& MirrorModel::writable(Node& node) {
  if (node.directory != nullptr && node.directory->edition == edition_) return *node.directory;
  node.directory =
      node.directory == nullptr ? std::make_shared<Directory>() : std::make_shared<Directory>(*node.directory);
  node.directory->edition = edition_;
  if (node.parent != nullptr) writable(*node.parent).put_children(edition_, node.name, node.directory);
  return *node.directory;
}

void MirrorModel::show(Node& node, CachedNode seen) {
  seen.unreadable = node.data_error ? node.data_error : node.list_error;
  set_incomplete(node, seen.unreadable || (scope_.options.data && wants_data(node) && !seen.has_data));
  if (node.shown != nullptr && *node.shown == seen) return;
  const bool is_new = node.shown == nullptr;
  node.shown = std::make_shared<const CachedNode>(std::move(seen));
  if (node.parent != nullptr) {
    if (is_new) ++size_;
    writable(*node.parent).put(edition_, node.shown);
  }
  touch();
}

// The same data, another Stat.
void MirrorModel::show_stat(Node& node, const Stat& stat) {
  CachedNode seen{.name = node.name};
  if (node.shown != nullptr && !node.data_error) seen = *node.shown;
  seen.stat = stat;
  show(node, std::move(seen));
}

void MirrorModel::hide(Node& node) {
  data_bytes_ -= std::exchange(node.bytes, 0);
  set_incomplete(node, false);
  if (node.shown == nullptr) return;
  node.shown = nullptr;
  if (node.parent != nullptr) {
    --size_;
    writable(*node.parent).erase(edition_, node.name);
  }
  touch();
}

void MirrorModel::set_incomplete(Node& node, bool incomplete) {
  if (node.incomplete == incomplete) return;
  node.incomplete = incomplete;
  incomplete ? ++incomplete_ : --incomplete_;
}

SnapshotPtr MirrorModel::publish(TimePoint now) {
  now_ = now;
  const bool exact = settled();
  const bool news = changed_ || revision_ == 0 || (exact && !published_exact_);
  const bool overdue = caught_up() && changed_ && now >= *changed_ + scope_.options.max_delay;
  SnapshotPtr published;
  if (news && (exact || overdue) && is_quiet(now)) {
    const bool exists = root_->shown != nullptr;
    SnapshotData data;
    data.path = scope_.path;
    data.root = root_->shown;
    if (exists) data.children = root_->directory;  // Else they are those of a root that is not read yet.
    data.size = exists ? size_ : 0;
    data.names_only = !scope_.options.data && scope_.depth > 0;
    data.root_watched = scope_.root_data;
    data.exact = exact;
    // Of those in trouble some may not be shown yet.
    data.complete = incomplete_ == 0 && troubled_.empty() && settled_up_to() >= mended_up_to_;
    data.zxid = zxid_;
    data.revision = ++revision_;
    published = std::make_shared<const SnapshotData>(std::move(data));
    ++edition_;
    changed_.reset();
    published_exact_ = exact;
  }
  if (!changed_ && revision_ != 0) published_up_to_ = settled_up_to();  // Also when it was read again, and is the same.
  if (connected_ && barrier_answered_ && covers(target_)) current_ = true;
  return published;
}

std::optional<MirrorModel::TimePoint> MirrorModel::due() const {
  std::optional<TimePoint> first;
  const auto consider = [&first](TimePoint when) { first = first ? std::min(*first, when) : when; };
  if (closed_) return first;
  if (changed_ && settled()) consider(quiet_at());  // Also without a connection.
  if (!connected_) return first;
  if (!late_lists_.empty()) consider(late_lists_.begin()->first);
  if (retry_at_) consider(*retry_at_);
  if (changed_ && !settled() && caught_up()) {
    const TimePoint overdue = *changed_ + scope_.options.max_delay;
    consider(revision_ == 0 ? overdue : std::max(overdue, quiet_at()));
  }
  return first;
}

CacheState MirrorModel::state() const {
  if (closed_) return CacheState::closed;
  if (revision_ == 0) return CacheState::loading;
  return current_ ? CacheState::current : CacheState::stale;
}

std::optional<MirrorProblem> MirrorModel::problem() const {
  std::optional<MirrorProblem> found;
  for (const NodeId id : troubled_) {
    const Node& node = *find(id);
    const std::error_code code = node.data_error ? node.data_error : node.list_error;
    const Errc why = code ? static_cast<Errc>(code.value()) : Errc::too_large;
    if (!found || (why == Errc::overloaded && found->code != why)) found = {why, path_of(node, scope_.path)};
    if (found->code == Errc::overloaded) break;
  }
  return found;
}

}  // namespace zkrecipes::detail
