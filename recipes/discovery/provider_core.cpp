#include "recipes/discovery/provider_core.hpp"

#include <algorithm>
#include <utility>

#include "recipes/discovery/instance_format.hpp"
#include "zkclient/detail/recipe_random.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* reading_instance = "read instance";

Errc code_of_unreadable(const std::error_code& code) {
  return code.category() == zkclient::error_category() ? static_cast<Errc>(code.value()) : Errc::system_error;
}

/// What turns one list into another; both are ordered by node.
std::vector<InstanceChange> changes_between(const std::vector<ListedInstancePtr>& before,
                                            const std::vector<ListedInstancePtr>& after) {
  std::vector<InstanceChange> changes;
  auto old = before.begin();
  auto now = after.begin();
  while (old != before.end() || now != after.end()) {
    if (now == after.end() || (old != before.end() && (*old)->node < (*now)->node)) {
      changes.push_back({Change::Kind::removed, *old++, nullptr});
    } else if (old == before.end() || (*now)->node < (*old)->node) {
      changes.push_back({Change::Kind::added, nullptr, *now++});
    } else {
      const bool same_one = (*old)->incarnation == (*now)->incarnation;
      const Change::Kind kind = same_one ? Change::Kind::changed : Change::Kind::replaced;
      if (*old != *now && **old != **now) changes.push_back({kind, *old, *now});
      ++old;
      ++now;
    }
  }
  return changes;
}

}  // namespace

ReadNode read_node(const std::string& path, const std::string& name, std::string_view data,
                   const zkclient::Stat& stat) {
  ReadNode read;
  ReadInstance found = read_instance(data);
  if (!found.instance) {
    read.defect.emplace(Errc::foreign_node, reading_instance, path, found.defect);
    return read;
  }
  ListedInstance listed;
  listed.instance = std::move(*found.instance);
  listed.node = name;
  listed.incarnation = FencingToken{stat.czxid};
  listed.session_id = stat.ephemeral_owner;
  read.instance = std::make_shared<const ListedInstance>(std::move(listed));
  return read;
}

std::shared_ptr<ProviderCore> ProviderCore::start(const zkclient::Client& client, const Path& path,
                                                  ProviderOptions options) {
  auto core = std::make_shared<ProviderCore>(client, path, std::move(options));
  core->subscription_ = core->cache_.on_change(
      [weak = std::weak_ptr<ProviderCore>(core)](const std::vector<Change>&, const Snapshot& nodes) {
        if (const auto self = weak.lock()) (void)self->listing(nodes);
      });
  return core;
}

ProviderCore::ProviderCore(const zkclient::Client& client, const Path& path, ProviderOptions options)
    : name_(path.name()),
      client_(client.impl()),
      decider_(std::move(options), zkclient::detail::random_seed()),
      cache_(client, path) {
  listing_.exchange(std::make_shared<const ServiceListing>());
}

ProviderCore::Known ProviderCore::read(const CachedNodePtr& node) const {
  Known known{node, {}};
  const std::string path = (cache_.path() / node->name).str();
  if (node->has_data) {
    known.read = read_node(path, node->name, node->data, node->stat);
  } else {
    const Errc code = node->unreadable ? code_of_unreadable(node->unreadable) : Errc::too_large;
    known.read.defect.emplace(code, reading_instance, path);
  }
  return known;
}

CacheState ProviderCore::state() const {
  const CacheState state = cache_.state();
  if (state != CacheState::current || revision_ >= cache_.snapshot().revision()) return state;
  return revision_ == 0 ? CacheState::loading : CacheState::stale;
}

std::shared_ptr<const ServiceListing> ProviderCore::listing() const { return listing_.load(); }

std::shared_ptr<const ServiceListing> ProviderCore::listing(const Snapshot& nodes) {
  const std::lock_guard lock(mutex_);
  if (nodes.revision() <= revision_) return listing_.load();
  std::vector<Known> next;
  auto listing = std::make_shared<ServiceListing>();
  auto last = known_.begin();
  for (const CachedNodePtr& node : nodes.children()) {
    while (last != known_.end() && last->node->name < node->name)
      ++last;
    const bool same = last != known_.end() && last->node == node;
    next.push_back(same ? *last : read(node));
    const ReadNode& found = next.back().read;
    if (found.instance != nullptr) listing->instances.push_back(found.instance);
    if (found.defect) listing->skipped.push_back(*found.defect);
  }
  known_ = std::move(next);
  decider_.update(listing->instances, std::chrono::steady_clock::now());
  listing_.exchange(listing);
  revision_ = nodes.revision();
  return listing;
}

zkclient::Subscription ProviderCore::on_change(ServiceProvider::Listener listener) {
  return cache_.on_change(
      [weak = weak_from_this(), listener = std::move(listener), first = true,
       told = std::make_shared<const ServiceListing>()](const std::vector<Change>&, const Snapshot& nodes) mutable {
        const auto self = weak.lock();
        if (self == nullptr) return;
        const auto now = self->listing(nodes);
        const std::vector<InstanceChange> changes = changes_between(told->instances, now->instances);
        told = now;
        if (std::exchange(first, false) || !changes.empty()) listener(changes, *now);
      });
}

zkclient::Subscription ProviderCore::on_state(ServiceProvider::StateListener listener) {
  return cache_.on_state([weak = weak_from_this(), listener = std::move(listener)](CacheState state) mutable {
    const auto self = weak.lock();
    if (self == nullptr) return;
    (void)self->listing(self->cache_.snapshot());  // What the state is about.
    listener(state);
  });
}

}  // namespace zkrecipes::detail
