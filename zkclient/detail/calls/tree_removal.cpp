#include "zkclient/detail/calls/tree_removal.hpp"

#include <deque>
#include <vector>

#include <fmt/format.h>

#include "zkclient/detail/requests/paths.hpp"
#include "zkclient/detail/session/all_names.hpp"

namespace zkclient::detail {
namespace {

constexpr std::size_t deletes_in_flight = 128;

// Deletes from the leaves up. In memory are, for each level of the branch that it is in, the children that have
// children themselves; the longest list is one reply of the server. What is created or deleted meanwhile by others is
// met again: a node that turns out to have children is listed anew.
class TreeRemoval {
 public:
  TreeRemoval(ClientCore& core, Call call) : core_(core), call_(std::move(call)) {}

  Awaitable<Reply> run(std::string root) {
    branch_.push_back({std::move(root), {}, false});
    while (!branch_.empty()) {
      Reply reply = co_await step();
      if (!reply.ok()) co_return explain(std::move(reply));
    }
    co_return Reply{};
  }

 private:
  struct Level {
    std::string path;
    std::vector<std::string> full;  // Names of the children that have children.
    bool has_children;
  };
  struct Delete {
    std::string name;
    PendingReply reply;
  };

  Awaitable<Reply> step() {
    Level& level = branch_.back();
    if (!level.full.empty()) {
      std::string path = child_path(level.path, level.full.back());
      level.full.pop_back();
      branch_.push_back({std::move(path), {}, true});
      co_return Reply{};
    }
    if (level.has_children) {
      Reply cleared = co_await clear();
      co_return cleared;
    }
    Reply reply = co_await core_.perform(make_request(OpType::remove, level.path), call_);
    const bool gone = count(reply);
    if (gone) {
      branch_.pop_back();
    } else if (reply.failed(Errc::not_empty)) {
      branch_.back().has_children = true;
    } else if (!sent_again(reply)) {
      where_ = branch_.back().path;
      co_return reply;
    }
    co_return Reply{};
  }

  // Deletes the children of the last level that have no children, and notes the others.
  Awaitable<Reply> clear() {
    Reply listed = co_await launch_full_list(core_, branch_.back().path, call_);
    if (listed.failed(Errc::no_node)) {
      branch_.pop_back();
      co_return Reply{};
    }
    if (!listed.ok()) {
      where_ = branch_.back().path;
      co_return listed;
    }
    Level& level = branch_.back();  // Nothing else touches the branch until the end.
    level.has_children = false;
    std::vector<std::string> names = std::move(listed.names);
    std::deque<Delete> flight;
    Reply failure;
    while (!flight.empty() || (failure.ok() && !names.empty())) {
      while (failure.ok() && !names.empty() && flight.size() < deletes_in_flight) {
        Request request = make_request(OpType::remove, child_path(level.path, names.back()));
        flight.push_back({std::move(names.back()), core_.launch(std::move(request), call_)});
        names.pop_back();
      }
      Delete next = std::move(flight.front());
      flight.pop_front();
      Reply reply = co_await next.reply.get();
      if (count(reply) || !failure.ok()) continue;
      if (reply.failed(Errc::not_empty)) {
        level.full.push_back(std::move(next.name));
      } else if (sent_again(reply)) {
        names.push_back(std::move(next.name));
      } else {
        where_ = child_path(level.path, next.name);
        failure = std::move(reply);
      }
    }
    co_return failure;
  }

  // Whether the node is gone.
  bool count(const Reply& reply) {
    if (reply.ok()) ++removed_;
    return reply.ok() || reply.failed(Errc::no_node);
  }
  // A delete whose reply was lost: the node is to go in any case, whichever client has made it.
  bool sent_again(const Reply& reply) {
    if (reply.failed(Errc::in_doubt)) doubted_ = true;
    return reply.failed(Errc::in_doubt) && !reply.given_up;
  }

  // "Nothing was changed" would not be true of a call that ended in the middle.
  Reply explain(Reply reply) {
    const bool changed = removed_ > 0 || doubted_;
    const ErrorKind kind = kind_of(make_error_code(*reply.error));
    std::string detail = fmt::format("at {}, after {} nodes were removed", core_.stripped(where_), removed_);
    if (changed && kind != ErrorKind::precondition && kind != ErrorKind::in_doubt) {
      detail += ": " + make_error_code(*reply.error).message();
      reply.error = Errc::in_doubt;
    }
    reply.detail = std::move(detail);
    return reply;
  }

  ClientCore& core_;
  const Call call_;
  std::vector<Level> branch_;
  std::string where_;  // Of the failure.
  std::size_t removed_ = 0;
  bool doubted_ = false;
};

}  // namespace

Awaitable<Reply> remove_tree(std::shared_ptr<ClientCore> client, std::string path, Call call) {
  TreeRemoval removal(*client, std::move(call));
  Reply reply = co_await removal.run(std::move(path));
  co_return reply;
}

}  // namespace zkclient::detail
