#include <zkrecipes/inspect.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "recipes/barriers/round_decider.hpp"
#include "recipes/inspection/look.hpp"
#include "recipes/inspection/recognition.hpp"
#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/single_node.hpp"
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
    case RecipeKind::latch: return "latch";
    case RecipeKind::periodic_job: return "periodic job";
    case RecipeKind::migrations: return "migrations";
    case RecipeKind::placement: return "placement";
    case RecipeKind::persistent_node: return "persistent node";
    case RecipeKind::persistent_ttl_node: return "persistent TTL node";
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

using detail::Contenders;
using detail::inspecting;
using detail::Look;
using detail::LookPtr;
using Found = Result<Inspection>;
using Names = detail::NodeNames;
using Style = QueueLayout::Style;

// --- Each kind ----------------------------------------------------------------------------------------------------

// Also of a node with foreign contenders alone.
Awaitable<Result<Contenders>> find_waiting_line(LookPtr look) {
  std::string operation = inspecting;
  auto listing = detail::list_contenders(detail::contenders_in(*look, "", detail::contending_names()),
                                         std::move(operation), look->call);
  co_return co_await std::move(listing);
}

Awaitable<Result<Contenders>> find_permits(LookPtr look) {
  const detail::ContenderNames names = {{"lock-"}, {"lease-"}};
  std::string operation = inspecting;
  auto listing = detail::list_permits(detail::contenders_in(*look, "leases", names),
                                      detail::contenders_in(*look, "locks", names), std::move(operation), look->call);
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
  Result<Contenders> members = co_await detail::read_nodes(look, std::move(folder), std::move(names));
  if (!members) co_return members;
  const std::set<std::string> inside(roster.begin(), roster.end());
  for (Contender& member : *members)
    member.holds = inside.contains(member.node);
  co_return members;
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
  Result<Names> items = co_await detail::list_folder(look, folders.items);
  if (!items) co_return items.error();
  Result<Names> claimed = co_await detail::list_folder(look, folders.claims);
  if (!claimed) co_return claimed.error();
  if (style == Style::standard) recognised.kind = detail::kind_of_items(*items, style);
  const detail::ItemFormat format(style, detail::queue_kind_of(recognised.kind));
  Names claims;
  for (detail::ItemKey& key : detail::in_take_order(*claimed, format))
    claims.push_back(std::move(key.name));
  Result<Contenders> claimers = co_await detail::read_nodes(look, folders.claims, std::move(claims));
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
    default: return find_waiting_line(std::move(look));
  }
}

// Those of which it takes more than a list of contenders. Unknown: it is none of them.
Awaitable<Found> find_in_folders(LookPtr look, RecipeKind kind, Names children) {
  switch (kind) {
    case RecipeKind::periodic_job: return detail::find_job(std::move(look), std::move(children));
    case RecipeKind::placement: return detail::find_placement(std::move(look));
    case RecipeKind::migrations: return detail::find_migration_set(std::move(look));
    default: return detail::find_ttl_node(std::move(look));
  }
}

bool has_folders(RecipeKind kind) {
  return kind == RecipeKind::periodic_job || kind == RecipeKind::placement || kind == RecipeKind::migrations ||
         kind == RecipeKind::persistent_ttl_node;
}

// A folder without a second one does not tell it from anything else.
bool is_guess(const Recognition& recognised, const Names& children) {
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

// What has contenders, or may have them.
Awaitable<Found> find_line(LookPtr look, Recognition recognised, Names children) {
  Inspection found;
  const bool guess = is_guess(recognised, children);
  auto finding = find_contenders_of(look, recognised.kind, std::move(children));
  Result<Contenders> contenders = co_await std::move(finding);
  if (contenders.code() == Errc::no_node) co_return found;  // Gone since it was listed.
  if (!contenders) co_return contenders.error();
  if (guess && contenders->empty()) recognised = {};
  if (stands_in_line(recognised.kind) && !contenders->empty()) recognised = detail::recognise(names_of(*contenders));
  found.kind = recognised.kind;
  found.naming = recognised.naming;
  found.contenders = std::move(*contenders);
  co_return found;
}

Awaitable<Found> look_at_recipe(LookPtr look) {
  Inspection found;
  std::string directory = look->full;
  Request list = zk::make_request(OpType::children, std::move(directory));
  Reply listed = co_await zk::fresh(look->client, std::move(list), look->call);
  if (listed.failed(Errc::no_node)) co_return found;
  if (!listed.ok()) co_return look->error(listed);
  if (listed.names.empty()) co_return co_await detail::find_by_node(std::move(look));
  Recognition recognised = detail::recognise(listed.names);
  if (recognised.queue) co_return co_await find_claims(look, recognised, has_claims_folder(listed.names));
  if (has_folders(recognised.kind)) {
    auto finding = find_in_folders(look, recognised.kind, listed.names);
    Found in_folders = co_await std::move(finding);
    if (!in_folders || in_folders->kind != RecipeKind::unknown) co_return in_folders;
    recognised = {};
  }
  Found line = co_await find_line(look, recognised, listed.names);
  if (!line || line->kind != RecipeKind::unknown || !line->contenders.empty()) co_return line;
  Found sets = co_await detail::find_migrations(look, std::move(listed.names));
  if (!sets || sets->kind != RecipeKind::unknown) co_return sets;
  Found by_node = co_await detail::find_by_node(std::move(look));
  co_return by_node;
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
