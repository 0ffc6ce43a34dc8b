#include "recipes/values/write_marker.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "recipes/kernel/stand_in.hpp"

namespace zkrecipes::detail {

namespace {

// Then another node: beyond 2^31 a version is negative, and -1 would be no condition.
constexpr std::int32_t last_marker_version = 1 << 30;
// A writer adds one and looks at more, so they do not pile up, and a start stays cheap.
constexpr std::size_t most_looks = 64;
constexpr std::string_view marker_kind = "marker";

}  // namespace

WriteMarker::WriteMarker(std::shared_ptr<zk::ClientCore> client, std::string directory, zkclient::AclList acl,
                         std::chrono::milliseconds max_age)
    : client_(std::move(client)), directory_(std::move(directory)), acl_(std::move(acl)), max_age_(max_age) {}

WriteMarker::~WriteMarker() { abandon(); }

void WriteMarker::abandon() {
  if (!node_.empty()) zk::delete_in_background(client_, std::exchange(node_, {}), nullptr);
}

Transaction::Operation WriteMarker::operation() const { return Transaction::Set{Path(node_), std::string(), version_}; }

// Not with the first transaction: a node that is missing could not tell that from one that was removed.
Awaitable<Reply> WriteMarker::prepare(Call call) {
  if (version_ >= last_marker_version) abandon();
  if (!node_.empty()) co_return Reply();
  std::string node = zk::child_path(directory_, zk::make_uuid());
  std::string directory = directory_;
  std::string family;  // How the names of the markers in it begin.
  bool doubted = false;
  for (;;) {
    Request create = zk::make_request(OpType::create, node);
    create.data = std::string();
    create.mode = CreateMode::persistent;
    create.acl = acl_;
    Reply made = co_await client_->perform(std::move(create), call);
    if (made.ok() || (doubted && made.failed(Errc::node_exists))) break;
    doubted = doubted || made.failed(Errc::in_doubt);
    if (made.unanswered()) continue;
    if (made.failed(Errc::no_node)) made = co_await zk::ensure(client_, directory_, CreateMode::container, acl_, call);
    if (made.ok()) continue;
    if (made.failed(Errc::quota_exceeded) && !doubted) {  // There is room beside the quota.
      made = co_await create_outside_quota(client_, node, std::string(marker_kind), CreateMode::persistent, acl_, call);
      if (made.ok()) {
        node = made.path;
        directory = zk::parent_of(node);
        family = zk::name_of(node);
        family.erase(family.rfind(marker_kind) + marker_kind.size() + 1);  // With the hyphen: behind it is a uuid.
        break;
      }
    }
    if (doubted) zk::delete_in_background(client_, node, nullptr);
    co_return made;
  }
  node_ = node;
  version_ = 0;
  zk::spawn(sweep(client_, std::move(directory), std::move(family), node_, max_age_));
  co_return Reply();
}

// The times are the servers': that of our own node, which is new, is the present one. A node that is written meanwhile
// has another version, and stays; the writer of one that goes makes another one.
Awaitable<void> WriteMarker::sweep(std::shared_ptr<zk::ClientCore> client, std::string directory, std::string family,
                                   std::string own, std::chrono::milliseconds max_age) {
  const Call call;
  Reply listed = co_await client->perform(zk::make_request(OpType::children, directory), call);
  const Reply mine = co_await client->perform(zk::make_request(OpType::exists, own), call);
  if (!listed.ok() || !mine.ok()) co_return;
  // Beside a quota there are nodes of others, too.
  const std::size_t size = zk::name_of(own).size();
  std::erase_if(listed.names, [&family, size](const std::string& name) {
    const bool is_marker = name.size() == size && name.starts_with(family);
    return !is_marker || name.find_first_not_of("0123456789abcdef-", family.size()) != std::string::npos;
  });
  for (std::string& name : listed.names)
    name = zk::child_path(directory, name);
  std::erase(listed.names, own);
  // Names are random. All writers together look at all of them.
  std::sort(listed.names.begin(), listed.names.end());
  const auto next = std::lower_bound(listed.names.begin(), listed.names.end(), own);
  std::rotate(listed.names.begin(), next, listed.names.end());
  listed.names.resize(std::min(listed.names.size(), most_looks));
  std::vector<PendingReply> looks;
  for (const std::string& node : listed.names)
    looks.push_back(client->launch(zk::make_request(OpType::exists, node), call));
  for (std::size_t i = 0; i < looks.size(); ++i) {
    const Reply seen = co_await looks[i].get();
    if (!seen.ok() || mine.stat.mtime_ms - seen.stat.mtime_ms <= max_age.count()) continue;
    Request remove = zk::make_request(OpType::remove, listed.names[i]);
    remove.version = seen.stat.version;
    (void)co_await client->perform(std::move(remove), call);
  }
}

Awaitable<WriteMarker::Fate> WriteMarker::find_fate(std::string slot, Call call) {
  if (slot.empty()) co_return Fate::unknown;
  // Without its slot no request that is still under way from that session can be applied; its end need not be waited for.
  for (;;) {
    const Reply removed = co_await client_->perform(zk::make_request(OpType::remove, slot), call);
    if (removed.ok() || removed.failed(Errc::no_node)) break;
    const bool again = removed.unanswered() || (removed.failed(Errc::session_lost) && !removed.given_up);
    if (!again) co_return Fate::unknown;
  }
  for (;;) {
    Request look = zk::make_request(OpType::exists, node_);
    const Reply seen = co_await zk::fresh(client_, std::move(look), call);
    if (seen.failed(Errc::session_lost) && !seen.given_up) continue;
    if (!seen.ok()) co_return Fate::unknown;
    if (seen.stat.version == version_) co_return Fate::not_applied;
    co_return seen.stat.version == version_ + 1 ? Fate::applied : Fate::unknown;
  }
}

}  // namespace zkrecipes::detail
