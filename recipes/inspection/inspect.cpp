#include <zkrecipes/inspect.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "recipes/barriers/round_decider.hpp"
#include "recipes/inspection/recognition.hpp"
#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/sequence.hpp"
#include "recipes/kernel/single_node.hpp"
#include "recipes/kernel/single_node_decider.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/locks/permits.hpp"
#include "recipes/queues/item_format.hpp"

namespace zkrecipes {

using namespace words;
using detail::Recognition;

const char* to_string(RecipeKind kind) noexcept {
  switch (kind) {
    case RecipeKind::nothing: return "nothing";
    case RecipeKind::unknown: return "unknown";
    case RecipeKind::mutex: return "mutex";
    case RecipeKind::shared_mutex: return "shared mutex";
    case RecipeKind::unfair_mutex: return "unfair mutex";
    case RecipeKind::semaphore: return "semaphore";
    case RecipeKind::election: return "election";
    case RecipeKind::unfair_election: return "unfair election";
    case RecipeKind::barrier: return "barrier";
    case RecipeKind::double_barrier: return "double barrier";
    case RecipeKind::queue: return "queue";
    case RecipeKind::priority_queue: return "priority queue";
    case RecipeKind::delay_queue: return "delay queue";
    case RecipeKind::id_queue: return "id queue";
  }
  return "unknown";
}

const char* to_string(NodeNaming naming) noexcept {
  switch (naming) {
    case NodeNaming::none: return "none";
    case NodeNaming::own: return "own";
    case NodeNaming::curator: return "curator";
    case NodeNaming::kazoo: return "kazoo";
    case NodeNaming::zookeeper: return "zookeeper";
    case NodeNaming::mixed: return "mixed";
  }
  return "none";
}

namespace {

constexpr const char* inspecting = "inspect";
using Contenders = std::vector<Contender>;
using Found = Result<Inspection>;
using Names = std::vector<std::string>;
using Style = QueueLayout::Style;

/// The node that is looked at, and the limits of the call.
struct Look {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;  ///< As the user wrote it.
  std::string full;
  Call call;

  std::string child(std::string_view name) const { return zk::child_path(full, name); }
  PendingReply launch(OpType type, std::string node) const {
    return client->launch(zk::make_request(type, std::move(node)), call);
  }
  Error error(const Reply& reply) const { return zk::to_error(reply, inspecting, path); }
};
using LookPtr = std::shared_ptr<const Look>;

Contender to_contender(std::string name, Reply node) {
  Contender contender;
  contender.node = std::move(name);
  contender.data = std::move(node.data);
  contender.session_id = node.stat.ephemeral_owner;
  contender.since = std::chrono::system_clock::time_point(std::chrono::milliseconds(node.stat.ctime_ms));
  contender.token = {node.stat.czxid};
  return contender;
}

// The nodes with these names below `folder`; those that are gone by now are left out.
Awaitable<Result<Contenders>> read_nodes(LookPtr look, std::string folder, Names names) {
  std::vector<PendingReply> pending;
  pending.reserve(names.size());
  for (const std::string& name : names)
    pending.push_back(look->launch(OpType::get, zk::child_path(folder, name)));
  Contenders contenders;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Reply node = co_await pending[i].get();
    if (node.failed(Errc::no_node)) continue;
    if (!node.ok()) co_return look->error(node);
    contenders.push_back(to_contender(std::move(names[i]), std::move(node)));
  }
  co_return contenders;
}

// The names of a folder's nodes; none if it is missing.
Awaitable<Result<Names>> list_folder(LookPtr look, std::string folder) {
  const PendingReply listing = look->launch(OpType::children, std::move(folder));
  Reply listed = co_await listing.get();
  if (listed.failed(Errc::no_node)) co_return Names();
  if (!listed.ok()) co_return look->error(listed);
  co_return std::move(listed.names);
}

// --- Each kind ----------------------------------------------------------------------------------------------------

// `folder`: "" for the node itself.
detail::ContendSpecPtr contenders_in(const Look& look, std::string_view folder, const detail::ContenderNames& names) {
  detail::ContendSpec spec;
  spec.client = look.client;
  spec.path = look.path;
  spec.directory = folder.empty() ? look.full : look.child(folder);
  spec.names = names;
  spec.lists_foreign = folder.empty();
  return std::make_shared<const detail::ContendSpec>(std::move(spec));
}

// Also of a node with foreign contenders alone.
Awaitable<Result<Contenders>> find_waiting_line(LookPtr look) {
  std::string operation = inspecting;
  auto listing =
      detail::list_contenders(contenders_in(*look, "", detail::contending_names()), std::move(operation), look->call);
  co_return co_await std::move(listing);
}

Awaitable<Result<Contenders>> find_permits(LookPtr look) {
  const detail::ContenderNames names = {{"lock-"}, {"lease-"}};
  std::string operation = inspecting;
  auto listing = detail::list_permits(contenders_in(*look, "leases", names), contenders_in(*look, "locks", names),
                                      std::move(operation), look->call);
  co_return co_await std::move(listing);
}

Awaitable<Result<Contenders>> find_single_holder(LookPtr look, std::string name) {
  detail::SingleNodeSpec spec;
  spec.client = look->client;
  spec.path = look->path;
  spec.directory = look->full;
  spec.name = std::move(name);
  std::string operation = inspecting;
  auto reading = detail::read_holder(std::make_shared<const detail::SingleNodeSpec>(std::move(spec)),
                                     std::move(operation), look->call);
  Result<std::optional<Contender>> holder = co_await std::move(reading);
  if (!holder) co_return holder.error();
  Contenders contenders;
  if (*holder) contenders.push_back(std::move(**holder));
  co_return contenders;
}

Awaitable<Result<Contenders>> find_members(LookPtr look, Names children) {
  const PendingReply reading = look->launch(OpType::get, look->full);
  Reply record = co_await reading.get();
  if (!record.ok()) co_return look->error(record);
  const Names roster = detail::decode_roster(record.data);
  std::string folder = look->full;
  Names names = detail::members_in_order(children);
  Result<Contenders> members = co_await read_nodes(look, std::move(folder), std::move(names));
  if (!members) co_return members;
  const std::set<std::string> inside(roster.begin(), roster.end());
  for (Contender& member : *members)
    member.holds = inside.contains(member.node);
  co_return members;
}

// Only what one of our own barriers' raisers has written: any node may be a barrier to those who know that it is one.
Awaitable<Result<Contenders>> find_raiser(LookPtr look) {
  const PendingReply reading = look->launch(OpType::get, look->full);
  Reply node = co_await reading.get();
  if (!node.ok()) co_return look->error(node);
  Contenders raiser;
  std::string name(zk::name_of(look->full));
  const Names own = {name};
  const bool contender = detail::recognise(own).kind != RecipeKind::unknown;
  if (contender || !detail::describes_raiser(node.data)) co_return raiser;
  raiser.push_back(to_contender(std::move(name), std::move(node)));
  raiser.front().holds = true;
  if (!detail::is_ephemeral({.ephemeral_owner = raiser.front().session_id})) raiser.front().session_id = 0;
  co_return raiser;
}

// --- Queues -------------------------------------------------------------------------------------------------------

struct QueueFolders {
  std::string items;
  std::string claims;
};

QueueFolders folders_of(const Look& look, Style style) {
  if (style == Style::standard) return {look.child("items"), look.child("claims")};
  if (style == Style::kazoo_locking) return {look.child("entries"), look.child("taken")};
  return {look.full, look.full + "-claims"};
}

Awaitable<Found> find_claims(LookPtr look, Recognition recognised, bool has_claims_folder) {
  const Style style = *recognised.queue;
  const QueueFolders folders = folders_of(*look, style);
  Result<Names> items = co_await list_folder(look, folders.items);
  if (!items) co_return items.error();
  Result<Names> claimed = co_await list_folder(look, folders.claims);
  if (!claimed) co_return claimed.error();
  if (style == Style::standard) recognised.kind = detail::kind_of_items(*items, style);
  const detail::ItemFormat format(style, detail::queue_kind_of(recognised.kind));
  Names claims;
  for (detail::ItemKey& key : detail::in_take_order(*claimed, format))
    claims.push_back(std::move(key.name));
  Result<Contenders> claimers = co_await read_nodes(look, folders.claims, std::move(claims));
  if (!claimers) co_return claimers.error();
  for (Contender& claimer : *claimers)
    claimer.holds = true;
  Inspection found;
  found.contenders = std::move(*claimers);
  found.items = detail::in_take_order(*items, format).size();
  const bool known = found.items > 0 || !found.contenders.empty() || has_claims_folder;
  found.kind = known ? recognised.kind : RecipeKind::unknown;
  found.naming = known ? recognised.naming : NodeNaming::none;
  co_return found;
}

// --- The look -----------------------------------------------------------------------------------------------------

Awaitable<Result<Contenders>> find_contenders_of(LookPtr look, RecipeKind kind, Names children) {
  switch (kind) {
    case RecipeKind::semaphore: return find_permits(std::move(look));
    case RecipeKind::unfair_mutex: return find_single_holder(std::move(look), "lock");
    case RecipeKind::unfair_election: return find_single_holder(std::move(look), "leader");
    case RecipeKind::double_barrier: return find_members(std::move(look), std::move(children));
    case RecipeKind::barrier: return find_raiser(std::move(look));
    default: return find_waiting_line(std::move(look));
  }
}

// The names alone do not tell these from anything else.
bool is_guess(const Recognition& recognised, const Names& children) {
  if (recognised.kind == RecipeKind::barrier) return true;
  const bool both = std::find(children.begin(), children.end(), "locks") != children.end();
  return recognised.kind == RecipeKind::semaphore && !both;
}

// Of these, and of nodes with foreign contenders alone, the list is read once more with the contenders, who are what counts.
bool stands_in_line(RecipeKind kind) {
  return kind == RecipeKind::mutex || kind == RecipeKind::shared_mutex || kind == RecipeKind::election ||
         kind == RecipeKind::unknown;
}

Names names_of(const Contenders& contenders) {
  Names names;
  for (const Contender& contender : contenders)
    names.push_back(contender.node);
  return names;
}

bool has_claims_folder(const Names& children) {
  return std::any_of(children.begin(), children.end(),
                     [](const std::string& name) { return name == "claims" || name == "slots" || name == "taken"; });
}

Awaitable<Found> look_at_recipe(LookPtr look) {
  Inspection found;
  std::string directory = look->full;
  Request list = zk::make_request(OpType::children, std::move(directory));
  Reply listed = co_await zk::fresh(look->client, std::move(list), look->call);
  if (listed.failed(Errc::no_node)) co_return found;
  if (!listed.ok()) co_return look->error(listed);
  Recognition recognised = detail::recognise(listed.names);
  if (listed.names.empty()) recognised.kind = RecipeKind::barrier;
  if (recognised.queue) co_return co_await find_claims(look, recognised, has_claims_folder(listed.names));
  const bool guess = is_guess(recognised, listed.names);
  auto finding = find_contenders_of(look, recognised.kind, std::move(listed.names));
  Result<Contenders> contenders = co_await std::move(finding);
  if (contenders.code() == Errc::no_node) co_return found;  // Gone since it was listed.
  if (!contenders) co_return contenders.error();
  if (guess && contenders->empty()) recognised = {};
  if (stands_in_line(recognised.kind) && !contenders->empty()) recognised = detail::recognise(names_of(*contenders));
  if (recognised.kind == RecipeKind::barrier) recognised.naming = NodeNaming::own;
  found.kind = recognised.kind;
  found.naming = recognised.naming;
  found.contenders = std::move(*contenders);
  co_return found;
}

zk::Work<Inspection> make_inspection(const zkclient::Client& client, const zkclient::Path& path) {
  return [core = client.impl(), path = path.str(), full = client.impl()->full(path)](Call limits) {
    const auto look = std::make_shared<Look>();
    look->client = core;
    look->path = path;
    look->full = full;
    look->call = std::move(limits);
    return look_at_recipe(look);
  };
}

}  // namespace

Inspection inspect(const zkclient::Client& client, const zkclient::Path& path, const CallOptions& call) {
  auto work = make_inspection(client, path);
  return zk::CallForm(client.impl(), inspecting, path.str()).wait(call, std::move(work));
}

void async_inspect(const zkclient::Client& client, const zkclient::Path& path, zkclient::Handler<Inspection> handler,
                   const CallOptions& call) {
  auto work = make_inspection(client, path);
  zk::CallForm(client.impl(), inspecting, path.str()).start(call, std::move(work), std::move(handler));
}

}  // namespace zkrecipes
