// watch: each change of a node, or of its list of children.

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "tools/zkr/cli/metrics_file.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/changes.hpp"
#include "tools/zkr/commands/commands.hpp"

namespace zkr {
namespace {

using zkclient::Client;
using zkclient::Errc;
using zkclient::Path;

struct WatchOptions {
  std::string path;
  FollowOptions follow;
  bool children = false;
};

/// What was seen of the node last.
struct SeenNode {
  bool exists = false;
  zkclient::NodeData node = {};
  std::vector<std::string> children = {};  // Sorted; if they are followed.
};

/// Looks at the node again and again, each time when its watch says that it has changed. In the client's threads.
class NodeWatcher : public std::enable_shared_from_this<NodeWatcher> {
 public:
  NodeWatcher(Client client, Path path, bool children, ChangeFeed& feed)
      : client_(std::move(client)), path_(std::move(path)), children_(children), feed_(feed) {}

  void look() {
    const auto self = shared_from_this();
    if (children_) {
      client_.async_children_and_watch(
          path_, [self](const zkclient::WatchEvent& event) { self->again(event); },
          [self](auto listed) { self->on_children(std::move(listed)); }, forever());
    } else {
      client_.async_get_and_watch(
          path_, [self](const zkclient::WatchEvent& event) { self->again(event); },
          [self](auto node) { self->on_node(std::move(node)); }, forever());
    }
  }

 private:
  /// Servers may be away for as long as they like.
  static zkclient::CallOptions forever() { return {.deadline = std::chrono::steady_clock::time_point::max()}; }

  void again(const zkclient::WatchEvent& event) {
    if (event.type != zkclient::WatchEventType::closed) look();
  }

  template <typename Watched>
  bool missing(const zkclient::Result<Watched>& read) {
    if (read) return false;
    if (read.error().errc() == Errc::no_node) {
      see({});
      wait_for_creation();
      return true;
    }
    passes(read.error());
    return true;
  }

  void on_node(zkclient::Result<zkclient::Watched<zkclient::NodeData>> read) {
    if (missing(read)) return;
    watch_ = std::move(read->watch());
    see({.exists = true, .node = std::move(read->value())});
  }

  void on_children(zkclient::Result<zkclient::Watched<zkclient::Children>> read) {
    if (missing(read)) return;
    watch_ = std::move(read->watch());
    SeenNode now{.exists = true, .children = std::move(read->value().names)};
    now.node.stat = read->value().stat;
    std::sort(now.children.begin(), now.children.end());
    see(std::move(now));
  }

  void wait_for_creation() {
    client_.async_exists_and_watch(
        path_, [self = shared_from_this()](const zkclient::WatchEvent& event) { self->again(event); },
        [self = shared_from_this()](auto read) {
          if (!read) return self->passes(read.error());
          self->watch_ = std::move(read->watch());
          if (read->value()) self->look();  // It came meanwhile.
        },
        forever());
  }

  /// What may be different with the next session is tried again; the rest ends the program.
  void passes(const zkclient::Error& error) {
    if (error.kind() == zkclient::ErrorKind::retryable || error.kind() == zkclient::ErrorKind::session_lost) {
      look();
    } else if (error.errc() != Errc::closed) {
      feed_.fail(error);
    }
  }

  void see(SeenNode now);
  Change change_of(const char* event, const SeenNode& now) const;

  const Client client_;
  const Path path_;
  const bool children_;
  ChangeFeed& feed_;
  zkclient::Watch watch_;
  std::optional<SeenNode> seen_;
};

// --- What is told -------------------------------------------------------------------------------------------------

std::vector<std::string> missing_in(const std::vector<std::string>& names, const std::vector<std::string>& of) {
  std::vector<std::string> missing;
  std::set_difference(of.begin(), of.end(), names.begin(), names.end(), std::back_inserter(missing));
  return missing;
}

const char* event_of(const std::optional<SeenNode>& before, const SeenNode& now, bool children) {
  if (!before) return now.exists ? "present" : "absent";
  if (before->exists != now.exists) return now.exists ? "created" : "deleted";
  if (!now.exists) return nullptr;
  const auto identity = [&](const SeenNode& one) {
    return children ? std::pair(one.node.stat.czxid, one.node.stat.pzxid)
                    : std::pair(one.node.stat.czxid, one.node.stat.mzxid);
  };
  if (before->node.stat.czxid != now.node.stat.czxid) return "created";  // Deleted meanwhile.
  return identity(*before) == identity(now) ? nullptr : "changed";
}

void NodeWatcher::see(SeenNode now) {
  const char* event = event_of(seen_, now, children_);
  if (event == nullptr) return;
  Change change = change_of(event, now);
  seen_ = std::move(now);
  feed_.put(std::move(change));
}

Change NodeWatcher::change_of(const char* event, const SeenNode& now) const {
  Change change;
  change.line = event;
  change.object = {{"path", path_.str()}, {"event", event}};
  change.environment = {"ZKR_PATH=" + path_.str(), std::string("ZKR_EVENT=") + event, "ZKR_VERSION"};
  if (!now.exists) return change;
  if (children_) {
    const std::vector<std::string> before = seen_ ? seen_->children : std::vector<std::string>();
    for (const std::string& name : missing_in(before, now.children))
      change.line += " +" + name;
    for (const std::string& name : missing_in(now.children, before))
      change.line += " -" + name;
    change.object["children"] = json::array(now.children.begin(), now.children.end());
  } else {
    change.line += fmt::format(" version={} size={}", now.node.stat.version, now.node.data.size());
    add_data(change.object, now.node.is_null ? zkclient::DataView() : zkclient::DataView(now.node.data));
  }
  change.object["stat"] = json_of(now.node.stat);
  change.environment.back() = fmt::format("ZKR_VERSION={}", now.node.stat.version);
  return change;
}

int run_watch(const Context& context, const WatchOptions& options) {
  const Path path(options.path);
  const FollowedSignals signals;
  ChangeFeed feed;
  const auto counted = count_into(context, options.follow.metrics_file);
  Client client = connect_to_look(context);
  std::make_shared<NodeWatcher>(client, path, options.children, feed)->look();
  try {
    const int code = follow(context, options.follow, feed, signals);
    client.close();  // Before the feed goes.
    return code;
  } catch (...) {
    feed.close();
    client.close();
    throw;
  }
}

}  // namespace

void add_watch(CLI::App& app, Context& context) {
  const auto command = add_subcommand(
      app, context, "watch", "Each change of a node's data as a line, or what follows -- for each", run_watch, true);
  WatchOptions& options = *command.options;
  command->add_option("PATH", options.path, "The node, which may come later")->required();
  command->add_flag("--children", options.children, "The list of its children instead of its data");
  command->add_flag("--once", options.follow.once, "End after the first, with the exit code of its command");
  add_metrics_option(*command.app, options.follow.metrics_file);
}

}  // namespace zkr
