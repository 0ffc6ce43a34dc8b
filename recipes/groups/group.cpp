#include <zkrecipes/group.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <zkrecipes/children_cache.hpp>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/ended_wait.hpp"
#include "recipes/kernel/kept_node.hpp"
#include "recipes/kernel/known_names.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;
using detail::KeptNode;

namespace {

constexpr const char* joining = "group join";
constexpr const char* looking = "group members";
constexpr const char* updating = "member update";
constexpr const char* leaving = "group leave";

constexpr std::string_view party_suffix = "__party__";
constexpr std::size_t hex_uuid_size = 32;  // As Python writes it.

}  // namespace

// --- The layouts -----------------------------------------------------------------------------------------------------

std::string GroupLayout::name(std::string_view uuid, std::string_view id) const {
  if (style_ == Style::curator) return std::string(id);
  std::string name(uuid);
  std::erase(name, '-');  // Readers take what follows the first one for the id.
  return style_ == Style::kazoo_party ? name.append(party_suffix) : name.append("-").append(id);
}

std::string GroupLayout::data(std::string_view id, std::string payload) const {
  switch (style_) {
    case Style::kazoo_party: return std::string(id);
    case Style::kazoo_shallow: return "";
    case Style::curator: break;
  }
  return payload;
}

std::optional<std::string> GroupLayout::id(std::string_view name, std::string_view data) const {
  switch (style_) {
    case Style::kazoo_party:
      if (name.size() <= party_suffix.size() || !name.ends_with(party_suffix)) return std::nullopt;
      return std::string(data);
    case Style::kazoo_shallow:
      if (name.size() <= hex_uuid_size || name.find('-') != hex_uuid_size) return std::nullopt;
      return std::string(name.substr(hex_uuid_size + 1));
    case Style::curator: break;
  }
  return std::string(name);
}

// --- Looking ---------------------------------------------------------------------------------------------------------

/// What a group is, and the view of it that its first reader began.
struct detail::GroupSpec {
  GroupSpec(zkclient::Client owner, Path where, GroupOptions chosen)
      : client(std::move(owner)), path(std::move(where)), options(std::move(chosen)) {}

  const ChildrenCache& view() const {
    std::call_once(viewed, [this] {
      cache = std::make_unique<ChildrenCache>(client, path);
      begun.store(cache.get(), std::memory_order_release);
    });
    return *cache;
  }
  std::optional<Error> problem() const {
    const ChildrenCache* const view = begun.load(std::memory_order_acquire);
    return view == nullptr ? std::nullopt : view->problem();
  }
  std::optional<Member> member(const CachedNode& node) const;
  static bool is_no_member(const CachedNode& node);
  static bool is_complete(const Snapshot& nodes);
  GroupSnapshot snapshot(const Snapshot& nodes) const;

  zkclient::Client client;  // Stays open for as long as it is used here.
  Path path;
  GroupOptions options;
  mutable std::once_flag viewed;
  mutable std::unique_ptr<ChildrenCache> cache;
  mutable std::atomic<const ChildrenCache*> begun{nullptr};  // That one, for those who do not begin it.
};

// What is not ephemeral is no member, and of what cannot be read that is not known: the snapshot is not complete.
std::optional<Member> detail::GroupSpec::member(const CachedNode& node) const {
  if (node.stat.ephemeral_owner == 0) return std::nullopt;
  std::optional<std::string> id = options.layout.id(node.name, node.data);
  const bool is_told_by_data = id && id->empty();
  if (!id || (is_told_by_data && !node.has_data)) return std::nullopt;
  Member member{std::move(*id)};
  if (options.layout.has_payload()) member.payload = node.data;
  member.incarnation = FencingToken{node.stat.czxid};
  member.session_id = node.stat.ephemeral_owner;
  member.since = std::chrono::system_clock::time_point(std::chrono::milliseconds(node.stat.ctime_ms));
  return member;
}

// To see that takes no right to read its data: the Stat says it, unless that is not known either.
bool detail::GroupSpec::is_no_member(const CachedNode& node) {
  return node.stat.czxid != 0 && node.stat.ephemeral_owner == 0;
}

bool detail::GroupSpec::is_complete(const Snapshot& nodes) {
  if (nodes.complete()) return true;
  if (!names_are_known(nodes)) return false;
  const std::vector<CachedNodePtr> children = nodes.children();
  return std::all_of(children.begin(), children.end(),
                     [](const CachedNodePtr& node) { return node->has_data || is_no_member(*node); });
}

GroupSnapshot detail::GroupSpec::snapshot(const Snapshot& nodes) const {
  GroupSnapshot group;
  group.exact = nodes.exact();
  group.complete = is_complete(nodes);
  group.zxid = nodes.zxid();
  for (const CachedNodePtr& node : nodes.children()) {
    if (auto found = member(*node)) group.members.push_back(std::move(*found));
  }
  return group;
}

const Member* GroupSnapshot::find(std::string_view id) const noexcept {
  const auto found =
      std::find_if(members.begin(), members.end(), [id](const Member& member) { return member.id == id; });
  return found == members.end() ? nullptr : &*found;
}

namespace {

using SpecPtr = std::shared_ptr<const detail::GroupSpec>;

CallOptions limited(const SpecPtr& spec, CallOptions call) {
  if (!call.deadline) call.deadline = spec->client.impl()->default_deadline();
  return call;
}

// The first ones by name.
std::string describe(const GroupSnapshot& group) {
  constexpr std::size_t shown = 5;
  std::string text = detail::counted(group.members.size(), "member");
  for (std::size_t i = 0; i < std::min(shown, group.members.size()); ++i)
    text += fmt::format("{}{:?}", i == 0 ? ": " : ", ", group.members[i].id);
  return group.members.size() > shown ? text + ", ..." : text;
}

zkclient::Handler<Snapshot> as_members(SpecPtr spec, zkclient::Handler<GroupSnapshot> handler) {
  zk::require_handler(handler, looking, spec->path.str());
  return [spec = std::move(spec), handler = std::move(handler)](Result<Snapshot> nodes) mutable {
    nodes ? handler(spec->snapshot(*nodes)) : handler(nodes.error());
  };
}

/// The words of a wait for `count` members that has ended.
auto count_story(SpecPtr spec, std::size_t count) {
  const auto& core = spec->client.impl();
  const std::string path = spec->path.str();
  return detail::RetoldWait(core, "wait for members", path, [spec = std::move(spec), count] {
    const Snapshot nodes = spec->view().snapshot();
    std::string seen = detail::describe_view(spec->view());
    if (nodes.revision() != 0) {
      seen = describe(spec->snapshot(nodes));
      if (const auto problem = spec->problem()) seen += fmt::format("; {}", problem->what());
    }
    return detail::wait_story(detail::counted(count, "member"), seen);
  });
}

Cache::Predicate has_members(SpecPtr spec, std::size_t count) {
  return
      [spec = std::move(spec), count](const Snapshot& nodes) { return spec->snapshot(nodes).members.size() >= count; };
}

/// The differences as one listener is told them. Of members that cannot be read it is not known whether they are there:
/// for the listener they are, as they were read last.
class ToldMembers {
 public:
  std::vector<MemberChange> take(const detail::GroupSpec& spec, const std::vector<Change>& changes,
                                 const Snapshot& nodes) {
    std::vector<MemberChange> told;
    const bool is_listed = detail::names_are_known(nodes);
    for (const Change& change : changes) {
      const auto hidden = hidden_.find(change.path);
      const bool was_hidden = hidden != hidden_.end();
      const CachedNodePtr before = was_hidden ? hidden->second : change.before;
      MemberChange member{change.kind};
      if (before) member.before = spec.member(*before);
      if (change.after) member.after = spec.member(*change.after);
      const bool is_known =
          change.after ? change.after->has_data || detail::GroupSpec::is_no_member(*change.after) : is_listed;
      if (!is_known && member.before) {
        hidden_[change.path] = before;
        continue;
      }
      if (was_hidden) hidden_.erase(hidden);
      if (was_hidden && member.before == member.after) continue;
      add(told, std::move(member));
    }
    if (!is_listed) return told;
    std::erase_if(hidden_, [&](const auto& hidden) {
      const auto& [path, node] = hidden;
      if (nodes.exists(path)) return false;
      add(told, MemberChange{Change::Kind::removed, spec.member(*node)});
      return true;
    });
    return told;
  }

 private:
  static void add(std::vector<MemberChange>& told, MemberChange member) {
    if (!member.before && !member.after) return;
    if (!member.before) member.kind = Change::Kind::added;
    if (!member.after) member.kind = Change::Kind::removed;
    if (member.before && member.after) {
      const bool same = member.before->incarnation == member.after->incarnation;
      member.kind = same ? Change::Kind::changed : Change::Kind::replaced;
    }
    told.push_back(std::move(member));
  }

  std::map<std::string, CachedNodePtr> hidden_;  // By path.
};

SpecPtr make_spec(zkclient::Client client, Path path, GroupOptions options) {
  detail::require_acl("group", path, options.acl);
  if (path.is_root()) throw Error(Errc::invalid_argument, "group", path.str(), "the root is no group");
  return std::make_shared<const detail::GroupSpec>(std::move(client), std::move(path), std::move(options));
}

// --- Being a member --------------------------------------------------------------------------------------------------

CallForm form(const std::shared_ptr<KeptNode>& node, const char* operation) {
  return CallForm(node->spec().client, operation, node->spec().path);
}

auto present_work(std::shared_ptr<KeptNode> node) {
  return [node = std::move(node)](Call call) { return KeptNode::wait_present(node, std::move(call)); };
}

auto update_work(std::shared_ptr<KeptNode> node, std::string payload) {
  return [node = std::move(node), payload = std::move(payload)](Call call) {
    return KeptNode::update(node, payload, std::move(call));
  };
}

auto leave_work(std::shared_ptr<KeptNode> node) {
  return [node = std::move(node)](Call call) { return KeptNode::leave(node, std::move(call)); };
}

void require_payload(bool has_payload, const std::string& path, const char* operation) {
  if (has_payload) return;
  throw Error(Errc::invalid_argument, operation, path, "members of this layout have no payload");
}

}  // namespace

Membership::Membership(zkclient::Client client, std::string id, std::shared_ptr<KeptNode> node,
                       bool has_payload) noexcept
    : client_(std::move(client)), id_(std::move(id)), node_(std::move(node)), has_payload_(has_payload) {}

Membership::Membership(Membership&&) noexcept = default;

Membership& Membership::operator=(Membership&& other) noexcept {
  if (this == &other) return *this;
  end();
  client_ = std::move(other.client_);
  id_ = std::move(other.id_);
  node_ = std::move(other.node_);
  has_payload_ = other.has_payload_;
  return *this;
}

Membership::~Membership() { end(); }

void Membership::end() noexcept {
  if (node_ == nullptr) return;
  node_->end_listeners();
  node_->drop();
  node_ = nullptr;
}

PresenceState Membership::state() const noexcept { return node_->state(); }
std::optional<Error> Membership::problem() const { return node_->problem(); }
FencingToken Membership::token() const noexcept { return node_->token(); }
bool Membership::valid() const noexcept { return node_->valid(); }
std::stop_token Membership::lost() const noexcept { return node_->lost(); }
zkclient::Subscription Membership::on_state(StateListener listener) const {
  return node_->on_state(std::move(listener));
}

void Membership::wait_present(const CallOptions& call) const {
  form(node_, joining).endless().wait(call, present_work(node_));
}
void Membership::async_wait_present(zkclient::Handler<void> handler, const CallOptions& call) const {
  form(node_, joining).endless().start(call, present_work(node_), std::move(handler));
}

void Membership::update(std::string payload, const CallOptions& call) {
  require_payload(has_payload_, node_->spec().path, updating);
  const CallForm update = form(node_, updating).payload(payload.size());
  update.wait(call, update_work(node_, std::move(payload)));
}
void Membership::async_update(std::string payload, zkclient::Handler<void> handler, const CallOptions& call) {
  require_payload(has_payload_, node_->spec().path, updating);
  const CallForm update = form(node_, updating).payload(payload.size());
  update.start(call, update_work(node_, std::move(payload)), std::move(handler));
}

void Membership::leave(const CallOptions& call) { form(node_, leaving).wait(call, leave_work(node_)); }
void Membership::async_leave(zkclient::Handler<void> handler, const CallOptions& call) {
  form(node_, leaving).start(call, leave_work(node_), std::move(handler));
}

// --- The group -------------------------------------------------------------------------------------------------------

Group::Group(zkclient::Client client, Path path, GroupOptions options)
    : spec_(make_spec(std::move(client), std::move(path), std::move(options))) {}

Group::~Group() {
  if (spec_ != nullptr && spec_->cache != nullptr) spec_->cache->close();
}

Group::Group(Group&&) noexcept = default;

Group& Group::operator=(Group&& other) noexcept {
  if (this == &other) return *this;
  if (spec_ != nullptr && spec_->cache != nullptr) spec_->cache->close();
  spec_ = std::move(other.spec_);
  return *this;
}

const Path& Group::path() const noexcept { return spec_->path; }

Membership Group::begin_join(std::string id, std::string payload) {
  const GroupLayout layout = spec_->options.layout;
  if (!payload.empty()) require_payload(layout.has_payload(), spec_->path.str(), joining);
  if (id.empty() || id.find('/') != std::string::npos) {
    throw Error(Errc::invalid_path, joining, spec_->path.str(),
                "a member's id has one character at least, and no slash");
  }
  const Path node = spec_->path / layout.name(zk::make_uuid(), id);
  const auto& core = spec_->client.impl();
  detail::KeptNodeSpec kept;
  kept.client = core;
  kept.path = node.str();
  kept.node = core->full(node);
  kept.witnesses = core->full(Path(spec_->path.str() + "-presence"));
  kept.parent_mode = layout.parent_mode();
  kept.acl = spec_->options.acl;
  kept.conflict = spec_->options.conflict;
  kept.lease = spec_->options.lease;
  kept.operation = joining;
  const bool has_payload = layout.has_payload();
  std::string data = layout.data(id, std::move(payload));
  return Membership(spec_->client, std::move(id), KeptNode::start(std::move(kept), std::move(data)), has_payload);
}

Membership Group::join(std::string id, std::string payload, const CallOptions& call) {
  Membership member = begin_join(std::move(id), std::move(payload));
  member.wait_present(call);
  return member;
}

void Group::async_join(std::string id, std::string payload, zkclient::Handler<Membership> handler,
                       const CallOptions& call) {
  zk::require_handler(handler, joining, spec_->path.str());
  auto member = std::make_shared<Membership>(begin_join(std::move(id), std::move(payload)));
  const Membership& waiting = *member;
  waiting.async_wait_present(
      [member = std::move(member), handler = std::move(handler)](Result<void> present) mutable {
        present ? handler(std::move(*member)) : handler(present.error());
      },
      call);
}

GroupSnapshot Group::members(const CallOptions& call) const {
  return spec_->snapshot(spec_->view().wait_ready(limited(spec_, call)));
}
void Group::async_members(zkclient::Handler<GroupSnapshot> handler, const CallOptions& call) const {
  auto told = as_members(spec_, std::move(handler));
  spec_->view().async_wait_ready(std::move(told), limited(spec_, call));
}

GroupSnapshot Group::wait_for_members(std::size_t count, const CallOptions& call) const {
  return count_story(spec_, count).around([&] {
    return spec_->snapshot(spec_->view().wait_until(has_members(spec_, count), call));
  });
}
void Group::async_wait_for_members(std::size_t count, zkclient::Handler<GroupSnapshot> handler,
                                   const CallOptions& call) const {
  auto told = [story = count_story(spec_, count),
               told = as_members(spec_, std::move(handler))](Result<Snapshot> nodes) mutable {
    told(nodes ? std::move(nodes) : Result<Snapshot>(story(nodes.error())));
  };
  spec_->view().async_wait_until(has_members(spec_, count), std::move(told), call);
}

zkclient::Subscription Group::on_change(Listener listener) const {
  if (!listener) throw Error(Errc::invalid_argument, "on_change", spec_->path.str(), "no listener");
  return spec_->view().on_change(
      [spec = std::weak_ptr<const detail::GroupSpec>(spec_), listener = std::move(listener), told = ToldMembers(),
       complete = std::optional<bool>()](const std::vector<Change>& changes, const Snapshot& nodes) mutable {
        const auto alive = spec.lock();
        if (alive == nullptr) return;
        const std::vector<MemberChange> members = told.take(*alive, changes, nodes);
        const bool is_complete = detail::GroupSpec::is_complete(nodes);
        const bool is_news = std::exchange(complete, is_complete) != is_complete;
        if (is_news || !members.empty()) listener(members, alive->snapshot(nodes));
      });
}

std::optional<Error> Group::problem() const { return spec_->problem(); }

}  // namespace zkrecipes
