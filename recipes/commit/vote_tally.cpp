#include "recipes/commit/vote_tally.hpp"

#include <algorithm>
#include <random>

#include "zkclient/detail/recipe_random.hpp"

namespace zkrecipes::detail {

namespace {

std::minstd_rand& dice() {
  thread_local std::minstd_rand random{static_cast<std::uint32_t>(zkclient::detail::random_seed())};
  return random;
}

}  // namespace

VoteTally::VoteTally(TreePtr tree, const NodeEvents& events, std::string id, std::string_view prefix,
                     const std::vector<std::string>& names)
    : tree_(std::move(tree)), events_(events), id_(std::move(id)), prefix_(prefix), missing_(names) {
  std::shuffle(missing_.begin(), missing_.end(), dice());
}

void VoteTally::mark(const std::string& name) {
  if (std::erase(missing_, name) > 0) seen_.insert(name);
}

void VoteTally::note(const Ballot& ballot) {
  for (const std::string& name : prefix_ == vote_prefix ? ballot.voted : ballot.acknowledged)
    mark(name);
}

Awaitable<Reply> VoteTally::list(Call call) {
  Request request = zk::make_request(OpType::children, tree_->transaction(id_));
  Reply listed = co_await tree_->client->perform(std::move(request), call);
  if (listed.ok()) note(sort_out(listed.names));
  co_return listed;
}

Awaitable<Reply> VoteTally::advance(Call call) {
  constexpr std::size_t few = 2;  // So few that asking for each costs no more than listing all.
  const std::string watched = missing_.empty() ? std::string() : missing_.back();
  if (watch_ != nullptr && watch_->event) {
    if (watch_->event == WatchEventType::created) {
      mark(watched);
      list_ = list_ || missing_.size() > few;
    } else {
      list_ = true;  // The session is a new one: is the transaction still there?
    }
    watch_ = nullptr;
  }
  while (!missing_.empty()) {
    if (list_) {
      const std::string before = missing_.back();
      Reply listed = co_await list(call);
      if (!listed.ok()) co_return listed;
      list_ = false;
      if (watch_ != nullptr && (missing_.empty() || missing_.back() != before)) watch_ = nullptr;
      continue;
    }
    if (watch_ != nullptr) break;
    auto armed = events_.watch();
    const std::string name = missing_.back();
    Request request = zk::make_request(OpType::exists, tree_->child(id_, prefix_, name));
    Reply seen = co_await tree_->client->perform_watching(std::move(request), call, armed->watch);
    if (seen.ok()) {
      mark(name);
    } else if (seen.failed(Errc::no_node)) {
      watch_ = std::move(armed);
    } else {
      co_return seen;
    }
  }
  co_return Reply{};
}

}  // namespace zkrecipes::detail
