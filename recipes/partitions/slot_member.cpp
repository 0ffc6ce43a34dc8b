#include "recipes/partitions/slot_member.hpp"

#include <utility>

#include "zkclient/detail/recipe_names.hpp"

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/contend.hpp"
#include "recipes/partitions/partition_format.hpp"

namespace zkrecipes::detail {

using zkclient::Client;

namespace {

GroupOptions group_options(const SlotMemberSpec& spec) {
  GroupOptions group;
  group.acl = spec.acl;
  group.lease = true;
  return group;
}

}  // namespace

std::shared_ptr<SlotMember> SlotMember::make(Client client, Path path, SlotMemberSpec spec, Given given) {
  require_acl(spec.recipe, path, spec.acl);
  const auto refuse = [&](Errc code, const char* why) { throw Error(code, spec.recipe, path.str(), why); };
  if (spec.id.empty()) spec.id = process_name();
  if (spec.id.find('/') != std::string::npos) refuse(Errc::invalid_path, "an id has no slash");
  if (spec.settle.count() < 0 || spec.grace.count() < 0) refuse(Errc::invalid_argument, "a negative time");
  if (spec.max_moving == 0) refuse(Errc::invalid_argument, "max_moving must be 1 at least");
  auto member = std::make_shared<SlotMember>(std::move(client), std::move(path), std::move(spec), std::move(given));
  member->make_slots();
  return member;
}

SlotMember::SlotMember(Client client, Path path, SlotMemberSpec spec, Given given)
    : client_(std::move(client)),
      path_(std::move(path)),
      spec_(std::move(spec)),
      given_(std::move(given)),
      node_(client_.impl()->full(path_ / "members" / spec_.id)),
      calls_(std::make_shared<zk::SerialQueue>(client_.impl()->callbacks())),
      group_(client_, path_ / "members", group_options(spec_)) {}

bool SlotMember::can_have(const std::string& slot) const {
  constexpr std::size_t below = 64;  // Of a slot there are nodes whose names are shorter.
  return zk::is_usable_name(client_.impl()->full(path_ / "owners"), slot, below);
}

void SlotMember::make_slots() {
  SlotsSpec slots;
  slots.client = client_.impl();
  slots.path = path_.str();
  slots.directory = slots.client->full(path_ / "owners");
  slots.data = owner_text(spec_.id, spec_.data);
  slots.acl = spec_.acl;
  slots.operation = spec_.operation;
  slots.settle = spec_.settle;
  slots.grace = spec_.grace;
  slots.max_moving = spec_.max_moving;
  slots_ = std::make_shared<Slots>(std::move(slots), [weak = weak_from_this()](const auto& slot, const auto& lease) {
    const auto self = weak.lock();
    self != nullptr ? self->give(slot, lease) : lease->drop();
  });
}

// What is not called any more gives its lease back: so that travels as one.
void SlotMember::give(const std::string& slot, const LeasePtr& lease) {
  calls_->post([weak = weak_from_this(), slot, lease = Lease(lease)]() mutable {
    if (const auto self = weak.lock()) self->given_(slot, std::move(lease));
  });
}

bool SlotMember::start(std::string payload, News news) {
  const auto refuse = [this](Errc code) { throw Error(code, spec_.recipe, path_.str(), "it cannot be started"); };
  if (forked()) refuse(Errc::forked);
  {
    const std::lock_guard lock(mutex_);
    if (finished_) refuse(Errc::closed);
    if (member_) return false;
    member_ = group_.begin_join(spec_.id, std::move(payload));
  }
  std::vector<zkclient::Subscription> subscriptions;
  subscriptions.push_back(member_->on_state([news](PresenceState) { news(); }));
  subscriptions.push_back(group_.on_change([weak = weak_from_this(), news](const auto&, const GroupSnapshot& now) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    {
      const std::lock_guard lock(self->mutex_);
      // What is known stays: one that is not listed may be there. But who has never known all goes by those that it
      // sees: the leases see to it that it takes nothing that another has.
      if (!now.complete && self->knows_all_) return;
      self->knows_all_ = now.complete;
      self->members_ = now.members;
    }
    news();
  }));
  const std::lock_guard lock(mutex_);
  subscriptions_ = std::move(subscriptions);
  return true;
}

void SlotMember::want(std::uint64_t number, SlotWish wish) {
  client_.impl()->loop()->post([slots = slots_, number, wish = std::move(wish)] { slots->want(number, wish); });
}

void SlotMember::begin_to_leave(bool at_once) {
  if (forked()) return;  // A thread of the parent may have had the lock. The call says so.
  const auto& loop = client_.impl()->loop();
  bool first = false;
  bool started = false;
  {
    const std::lock_guard lock(mutex_);
    first = !std::exchange(finished_, true);
    started = member_.has_value();
  }
  if (at_once) loop->post([slots = slots_] { slots->end("its member was stopped"); });
  if (!first) return;
  const auto hand_over = [loop, slots = slots_] { loop->post([slots] { slots->hand_over_all(); }); };
  if (!started) return hand_over();
  // First it is no member any more, so that others want what is handed over.
  constexpr auto long_enough = std::chrono::hours(24);
  zkclient::CallOptions patient;
  patient.deadline = std::chrono::steady_clock::now() + long_enough;
  member_->async_leave([hand_over](const zkclient::Result<void>&) { hand_over(); }, patient);
}

CallForm SlotMember::leaving_form(const char* operation) const {
  return CallForm(client_.impl(), operation, path_.str()).endless();
}

zk::Work<void> SlotMember::until_left() const {
  return [slots = slots_](Call call) { return Slots::until_empty(slots, std::move(call)); };
}

void SlotMember::leave(const char* operation, bool at_once, const zkclient::CallOptions& call) {
  begin_to_leave(at_once);
  leaving_form(operation).wait(call, until_left());
}

void SlotMember::async_leave(const char* operation, bool at_once, zkclient::Handler<void> handler,
                             const zkclient::CallOptions& call) {
  zk::require_handler(handler, operation, path_.str());
  begin_to_leave(at_once);
  leaving_form(operation).start(call, until_left(), std::move(handler));
}

void SlotMember::retire() noexcept {
  try {
    begin_to_leave(true);
  } catch (const Error&) {
    // The client is closed: nothing is held any more.
  }
  calls_->close();
  std::vector<zkclient::Subscription> ended;
  const std::lock_guard lock(mutex_);
  ended.swap(subscriptions_);
}

std::optional<std::vector<Member>> SlotMember::members() const {
  const std::lock_guard lock(mutex_);
  return finished_ ? std::nullopt : members_;
}

bool SlotMember::serves() const {
  const std::lock_guard lock(mutex_);
  return member_ && !finished_;
}

std::optional<Error> SlotMember::problem() const {
  if (forked() || !serves()) return std::nullopt;
  if (auto trouble = member_->problem()) return trouble;
  if (auto trouble = group_.problem()) return trouble;
  return slots_->problem();
}

}  // namespace zkrecipes::detail
