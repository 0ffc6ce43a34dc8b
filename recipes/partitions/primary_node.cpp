#include <limits>
#include <mutex>
#include <utility>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/primary.hpp>

#include "recipes/kernel/known_names.hpp"
#include "recipes/partitions/slot_member.hpp"

namespace zkrecipes {

using namespace words;
using detail::SlotMember;
using detail::SlotWish;

namespace {

constexpr const char* primary_node = "primary node";
constexpr const char* updating_status = "primary node update_status";
constexpr const char* leaving_roles = "primary node leave";
constexpr const char* stopping_roles = "primary node stop";

}  // namespace

/// News of the members and of the roles become what the slots shall be. Any thread.
class detail::PrimaryNodeCore : public std::enable_shared_from_this<PrimaryNodeCore> {
 public:
  PrimaryNodeCore(std::shared_ptr<SlotMember> of, std::string status)
      : member_(std::move(of)), roles_path_(member_->path() / "roles"), status_(std::move(status)) {}

  const std::shared_ptr<SlotMember>& member() const noexcept { return member_; }

  void start() {
    const auto weak = weak_from_this();
    const auto news = [weak] {
      if (const auto self = weak.lock()) self->decide();
    };
    if (!member_->start(status_, news)) return;
    const std::lock_guard lock(mutex_);
    roles_.emplace(member_->client(), roles_path_);
    subscription_ = roles_->on_change([weak](const auto&, const Snapshot& now) {
      if (const auto self = weak.lock()) self->note_roles(now);
    });
  }

  std::optional<Error> problem() const {
    if (member_->forked() || !member_->serves()) return std::nullopt;
    if (auto trouble = member_->problem()) return trouble;
    const std::lock_guard lock(mutex_);
    return roles_ ? roles_->problem() : std::nullopt;
  }

  Membership& membership() {
    if (member_->forked()) throw Error(Errc::forked, updating_status, member_->path().str());
    if (!member_->serves()) throw Error(Errc::not_held, updating_status, member_->path().str(), "it is no member");
    return member_->membership();
  }

 private:
  struct Named {
    std::string role;
    std::int32_t version;
  };

  // What is known of a role stays while its node cannot be read, or not be listed.
  void note_roles(const Snapshot& nodes) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<Named> now;
      for (const CachedNodePtr& node : nodes.children()) {
        if (node->has_data && node->data == member_->id() && member_->can_have(node->name))
          now.push_back({node->name, node->stat.version});
      }
      const bool is_gone = detail::names_are_known(nodes);  // A role that is not listed.
      for (Named& known : std::exchange(named_, std::nullopt).value_or(std::vector<Named>())) {
        const CachedNode* const node = nodes.find(known.role);
        if (node == nullptr ? !is_gone : !node->has_data) now.push_back(std::move(known));
      }
      named_ = std::move(now);
    }
    decide();
  }

  // By several threads at once, each with what it has seen: the last one to look counts.
  void decide() {
    std::vector<Named> named;
    std::uint64_t number = 0;
    bool listed = false;
    const auto trouble = member_->membership().problem();
    const bool name_taken = trouble && trouble->errc() == Errc::node_exists;
    {
      const std::lock_guard lock(mutex_);
      const auto members = member_->members();
      if (!members || !named_) return;
      const FencingToken own = member_->membership().token();
      for (const Member& member : *members)
        listed = listed || (member.id == member_->id() && member.incarnation == own);
      if (!listed && !name_taken) return;
      if (listed) named = *named_;
      number = ++decided_;
    }
    SlotWish wish;
    for (const Named& one : named) {
      const std::string node = member_->client().impl()->full(roles_path_ / one.role);
      wish[one.role] = {member_->own_node(), zkclient::Check{Path(node), one.version}};
    }
    member_->want(number, std::move(wish));
  }

  const std::shared_ptr<SlotMember> member_;
  const Path roles_path_;
  const std::string status_;

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::optional<std::vector<Named>> named_;
  std::uint64_t decided_ = 0;
  std::optional<ChildrenCache> roles_;  // Made by start(), for good.
  zkclient::Subscription subscription_;
};

PrimaryNode::PrimaryNode(zkclient::Client client, Path path, OnPrimary on_primary, PrimaryNodeOptions options) {
  if (!on_primary) throw Error(Errc::invalid_argument, primary_node, path.str(), "no function");
  detail::SlotMemberSpec spec;
  spec.recipe = primary_node;
  spec.operation = "primary take";
  spec.acl = std::move(options.acl);
  spec.id = std::move(options.id);
  spec.data = std::move(options.data);
  spec.grace = options.grace;
  spec.max_moving = std::numeric_limits<std::size_t>::max();
  auto member = SlotMember::make(std::move(client), std::move(path), std::move(spec),
                                 [on_primary = std::move(on_primary)](const std::string& role, Lease lease) mutable {
                                   on_primary(Primary(role, std::move(lease)));
                                 });
  core_ = std::make_shared<detail::PrimaryNodeCore>(std::move(member), std::move(options.status));
}

PrimaryNode::~PrimaryNode() {
  if (core_->member()->forked()) {
    zk::keep_for_ever(std::move(core_));
  } else {
    core_->member()->retire();
  }
}

void PrimaryNode::start() { core_->start(); }

void PrimaryNode::update_status(std::string status, const CallOptions& call) {
  core_->membership().update(std::move(status), call);
}
void PrimaryNode::async_update_status(std::string status, zkclient::Handler<void> handler, const CallOptions& call) {
  zk::require_handler(handler, updating_status, path().str());
  core_->membership().async_update(std::move(status), std::move(handler), call);
}

void PrimaryNode::leave(const CallOptions& call) { core_->member()->leave(leaving_roles, false, call); }
void PrimaryNode::async_leave(zkclient::Handler<void> handler, const CallOptions& call) {
  core_->member()->async_leave(leaving_roles, false, std::move(handler), call);
}

void PrimaryNode::stop(const CallOptions& call) { core_->member()->leave(stopping_roles, true, call); }
void PrimaryNode::async_stop(zkclient::Handler<void> handler, const CallOptions& call) {
  core_->member()->async_leave(stopping_roles, true, std::move(handler), call);
}

std::vector<std::string> PrimaryNode::held() const { return core_->member()->held(); }
std::optional<Error> PrimaryNode::problem() const { return core_->problem(); }
const std::string& PrimaryNode::id() const noexcept { return core_->member()->id(); }
const Path& PrimaryNode::path() const noexcept { return core_->member()->path(); }

}  // namespace zkrecipes
