// Random operations with requests and replies lost at random, beside a model of the tree. What a client reports must be
// what the model says; of a write that is in doubt the model keeps both outcomes until another client has read the
// tree, which must be one of them, and must stay that one.
//
// ZKRECIPES_SEED=number repeats a run, ZKRECIPES_SOAK=seconds makes it long.

#include <cstdlib>
#include <map>
#include <random>
#include <variant>

#include <fmt/format.h>

#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;

struct Node {
  std::string data;
  std::int32_t version = 0;
  std::int64_t owner = 0;  // Session id of an ephemeral node.
  friend bool operator==(const Node&, const Node&) = default;
};

/// By path. A sequential node, whose name only the server knows, stands under its parent and its data, which is unique.
using Tree = std::map<std::string, Node>;

struct Create {
  std::string path;
  std::string data;
  bool ephemeral;
  bool sequential;
};
struct Set {
  std::string path;
  std::string data;
  std::int32_t version;
};
struct Remove {
  std::string path;
  std::int32_t version;
};
struct Check {
  std::string path;
  std::int32_t version;
};
struct RemoveTree {
  std::string path;
};
using Step = std::variant<Create, Set, Remove, Check, RemoveTree>;

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool has_children(const Tree& tree, const std::string& path) {
  const auto below = tree.lower_bound(path + "/");
  return below != tree.end() && below->first.starts_with(path + "/");
}

// What the server does with one step, in the order in which it looks for reasons to refuse.
Errc apply(Tree& tree, const Create& create, std::int64_t session) {
  const std::string parent = parent_of(create.path);
  if (parent != "/" && tree.count(parent) == 0) return Errc::no_node;
  const std::string path = create.sequential ? (parent == "/" ? "" : parent) + "/#" + create.data : create.path;
  if (tree.count(path) != 0) return Errc::node_exists;
  if (parent != "/" && tree.at(parent).owner != 0) return Errc::no_children_for_ephemerals;
  tree[path] = {create.data, 0, create.ephemeral ? session : 0};
  return Errc{};
}

Errc expect_version(const Tree& tree, const std::string& path, std::int32_t version) {
  const auto node = tree.find(path);
  if (node == tree.end()) return Errc::no_node;
  return version == any_version || version == node->second.version ? Errc{} : Errc::bad_version;
}

Errc apply(Tree& tree, const Set& set, std::int64_t) {
  const Errc refused = expect_version(tree, set.path, set.version);
  if (refused != Errc{}) return refused;
  tree[set.path].data = set.data;
  ++tree[set.path].version;
  return Errc{};
}

Errc apply(Tree& tree, const Remove& remove, std::int64_t) {
  const Errc refused = expect_version(tree, remove.path, remove.version);
  if (refused != Errc{}) return refused;
  if (has_children(tree, remove.path)) return Errc::not_empty;
  tree.erase(remove.path);
  return Errc{};
}

Errc apply(Tree& tree, const Check& check, std::int64_t) { return expect_version(tree, check.path, check.version); }

Errc apply(Tree& tree, const RemoveTree& remove, std::int64_t) {
  std::erase_if(
      tree, [&](const auto& node) { return node.first == remove.path || node.first.starts_with(remove.path + "/"); });
  return Errc{};
}

/// One operation: a single step, or a transaction of several.
struct ModelOperation {
  std::vector<Step> steps;
  bool transaction = false;
  bool resolving = false;  // In its form that a lost reply leaves in no doubt.
};

/// The tree after `operation`, and what its caller is told.
std::pair<Tree, Errc> predict(const Tree& before, const ModelOperation& operation, std::int64_t session) {
  Tree after = before;
  for (const Step& step : operation.steps) {
    const Errc refused = std::visit([&](const auto& one) { return apply(after, one, session); }, step);
    if (refused != Errc{}) return {before, operation.transaction ? Errc::transaction_failed : refused};
  }
  return {after, Errc{}};
}

zkclient::CreateOptions options_of(const Create& create) {
  const CreateMode mode =
      create.sequential ? (create.ephemeral ? CreateMode::ephemeral_sequential : CreateMode::persistent_sequential)
                        : (create.ephemeral ? CreateMode::ephemeral : CreateMode::persistent);
  return {.mode = mode};
}

// Whatever is lost on the way: exactly what an operation without losses does.
void perform_resolving(const Client& client, const Client& observer, const Step& step) {
  if (const auto* create = std::get_if<Create>(&step)) {
    zkclient::CreateOptions options = options_of(*create);
    options.protection = true;
    client.create(create->path, create->data, options, patient());
  } else if (const auto* set = std::get_if<Set>(&step)) {
    const auto stat = observer.exists(set->path);
    if (!stat) throw Error(Errc::no_node, "set_resolving", set->path);
    zkclient::Stat expected = *stat;
    if (set->version != any_version) expected.version = set->version;
    client.set_resolving(set->path, set->data, expected, patient());
  } else {
    client.remove_tree(std::get<RemoveTree>(step).path, patient());
  }
}

void perform(const Client& client, const ModelOperation& operation) {
  if (operation.transaction) {
    Transaction transaction;
    for (const Step& step : operation.steps) {
      if (const auto* create = std::get_if<Create>(&step)) {
        transaction.create(create->path, create->data, options_of(*create));
      } else if (const auto* set = std::get_if<Set>(&step)) {
        transaction.set(set->path, set->data, set->version);
      } else if (const auto* remove = std::get_if<Remove>(&step)) {
        transaction.remove(remove->path, remove->version);
      } else {
        const auto& check = std::get<Check>(step);
        transaction.check(check.path, check.version);
      }
    }
    client.commit(transaction, patient());
  } else if (const auto* create = std::get_if<Create>(&operation.steps.front())) {
    client.create(create->path, create->data, options_of(*create), patient());
  } else if (const auto* set = std::get_if<Set>(&operation.steps.front())) {
    client.set(set->path, set->data, set->version, patient());
  } else {
    const auto& remove = std::get<Remove>(operation.steps.front());
    client.remove(remove.path, remove.version, patient());
  }
}

RequestType request_of(const ModelOperation& operation) {
  if (operation.transaction) return RequestType::multi;
  if (std::holds_alternative<Create>(operation.steps.front())) return RequestType::create2;
  return std::holds_alternative<Set>(operation.steps.front()) ? RequestType::set_data
                                                              : RequestType::remove;  // Or tree.
}

std::string describe(const ModelOperation& operation) {
  struct Words {
    std::string operator()(const Create& c) const {
      return fmt::format("create {} \"{}\"{}{}", c.path, c.data, c.ephemeral ? " ephemeral" : "",
                         c.sequential ? " sequential" : "");
    }
    std::string operator()(const Set& s) const { return fmt::format("set {} \"{}\" v{}", s.path, s.data, s.version); }
    std::string operator()(const Remove& r) const { return fmt::format("remove {} v{}", r.path, r.version); }
    std::string operator()(const Check& c) const { return fmt::format("check {} v{}", c.path, c.version); }
    std::string operator()(const RemoveTree& r) const { return fmt::format("remove_tree {}", r.path); }
  };
  std::string text = operation.transaction ? "commit:" : operation.resolving ? "resolving:" : "";
  for (const Step& step : operation.steps)
    text += " " + std::visit(Words{}, step) + ";";
  return text;
}

std::string describe(const Tree& tree) {
  std::string text;
  for (const auto& [path, node] : tree)
    text += fmt::format("  {} \"{}\" v{} owner {:#x}\n", path, node.data, node.version, node.owner);
  return text;
}

class ModelTest : public testkit::ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    observer.emplace(make_client());
    for (int i = 0; i < 2; ++i) {
      // Its sessions outlast every outage here: nothing but the operations changes the tree.
      clients.emplace_back(proxy.connect_string(), zkclient::ClientOptions{.session_timeout = 20s, .prefix = prefix()});
      clients.back().connect(patient());
    }
  }
  void TearDown() override {
    clients.clear();
    observer.reset();
    ServerTest::TearDown();
  }

  void read(const Path& path, Tree& tree) {
    for (const std::string& name : observer->children(path).names) {
      const Path child = path / name;
      const zkclient::NodeData node = observer->get(child);
      const bool sequential = name.find("seq-") != std::string::npos;
      const std::string key = sequential ? (path.is_root() ? "" : path.str()) + "/#" + node.data : child.str();
      EXPECT_TRUE(tree.emplace(key, Node{node.data, node.stat.version, node.stat.ephemeral_owner}).second)
          << key << " is there twice";
      read(child, tree);
    }
  }
  Tree read() {
    Tree tree;
    read({}, tree);
    return tree;
  }

  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random); }
  std::string any_path() {
    static const std::vector<std::string> paths{"/a", "/b", "/a/x", "/a/y", "/b/x", "/b/x/deep"};
    return paths[below(paths.size())];
  }
  // Mostly what is there, so that most operations succeed.
  std::int32_t any_version_of(const std::string& path) {
    const auto node = model.find(path);
    if (below(3) == 0) return any_version;
    if (below(4) == 0) return static_cast<std::int32_t>(below(4));
    return node == model.end() ? 0 : node->second.version;
  }
  Step any_step(bool in_transaction) {
    const std::string path = any_path();
    const std::string data = std::to_string(++written);
    switch (below(in_transaction ? 7 : 6)) {
      case 0:
      case 1: return Create{path, data, below(3) == 0, false};
      case 2: return Create{parent_of(path) == "/" ? "/seq-" : parent_of(path) + "/seq-", data, below(3) == 0, true};
      case 3:
      case 4: return Set{path, data, any_version_of(path)};
      case 5: return Remove{path, any_version_of(path)};
      default: return Check{path, any_version_of(path)};
    }
  }
  Step any_resolving_step() {
    const std::string path = any_path();
    const std::string parent = parent_of(path) == "/" ? "" : parent_of(path);
    const std::string data = std::to_string(++written);
    switch (below(5)) {
      case 0:
      case 1: return Create{parent + "/seq-", data, below(3) == 0, true};
      case 2:
      case 3: return Set{path, data, any_version_of(path)};
      default: return RemoveTree{path};
    }
  }
  ModelOperation any_operation() {
    ModelOperation operation;
    operation.resolving = below(4) == 0;
    if (operation.resolving) {
      operation.steps.push_back(any_resolving_step());
      return operation;
    }
    operation.transaction = below(3) == 0;
    const std::size_t steps = operation.transaction ? 1 + below(3) : 1;
    for (std::size_t i = 0; i < steps; ++i)
      operation.steps.push_back(any_step(operation.transaction));
    return operation;
  }

  void one_operation();

  const unsigned seed = std::getenv("ZKRECIPES_SEED") != nullptr
                            ? static_cast<unsigned>(std::strtoul(std::getenv("ZKRECIPES_SEED"), nullptr, 10))
                            : std::random_device()();
  std::mt19937 random{seed};
  std::optional<Client> observer;
  zktesting::Proxy proxy{hosts()};
  std::vector<Client> clients;
  Tree model;
  int written = 0;
  int doubts = 0;
  int happened = 0;
  int resolved = 0;
};

void ModelTest::one_operation() {
  const ModelOperation operation = any_operation();
  const Client& client = clients[below(clients.size())];
  const std::int64_t session = client.connect(patient()).id();
  const auto [after, expected] = predict(model, operation, session);
  std::optional<Fault> fault;
  const std::size_t kind = below(10);
  const bool reply_lost = kind < 2;
  if (kind < 3) {
    const RequestType type = request_of(operation);
    fault = reply_lost ? proxy.drop_next_reply(type) : proxy.drop_next_request(type);
  }
  SCOPED_TRACE(fmt::format("{} {}", describe(operation), !fault ? "" : reply_lost ? "(reply lost)" : "(request lost)"));
  Errc reported{};
  try {
    if (operation.resolving) {
      perform_resolving(client, *observer, operation.steps.front());
    } else {
      perform(client, operation);
    }
  } catch (const Error& error) {
    reported = error.errc();
  }
  // The version was one that the node does not have, so what it is now tells nothing about the set.
  const bool untold = operation.resolving && reported == Errc::in_doubt && expected == Errc::bad_version;
  if (untold && fault && fault->happened()) reported = expected;
  if (!fault || operation.resolving) {
    ASSERT_EQ(reported, expected) << make_error_code(reported).message();
    model = after;
    if (fault) {
      resolved += fault->happened();
      fault->cancel();  // A set of a node that is missing is not sent.
      const Tree found = read();
      ASSERT_EQ(found, model) << "found:\n" << describe(found) << "expected:\n" << describe(model);
    }
    return;
  }
  ASSERT_TRUE(fault->wait(testkit::patience));
  ASSERT_EQ(reported, Errc::in_doubt) << make_error_code(reported).message();
  ++doubts;
  const Tree found = read();
  ASSERT_TRUE(found == model || found == after) << "neither before nor after:\n" << describe(found);
  ASSERT_EQ(found, reply_lost ? after : model) << "the proxy knows better";
  if (after != model && found == after) ++happened;
  model = found;
}

TEST_F(ModelTest, WhatIsReportedIsWhatHappened) {
  GTEST_LOG_(INFO) << "ZKRECIPES_SEED=" << seed;
  const char* soak = std::getenv("ZKRECIPES_SOAK");
  const auto end = testkit::SteadyClock::now() + std::chrono::seconds(soak != nullptr ? std::atoi(soak) : 0);
  int operations = 0;
  for (; operations < 80 || testkit::SteadyClock::now() < end; ++operations) {
    SCOPED_TRACE(fmt::format("operation {}, seed {}", operations, seed));
    one_operation();
    if (HasFatalFailure()) break;
    if (operations % 10 != 0) continue;
    const Tree found = read();  // Nothing happened late.
    ASSERT_EQ(found, model) << "found:\n" << describe(found) << "expected:\n" << describe(model);
  }
  for (const Client& client : clients)
    client.sync("/", patient());
  const Tree found = read();
  EXPECT_EQ(found, model) << "found:\n" << describe(found) << "expected:\n" << describe(model);
  GTEST_LOG_(INFO) << operations << " operations, " << doubts << " in doubt, of which " << happened << " had happened; "
                   << resolved << " losses resolved";
  EXPECT_GT(doubts, 0);
}

}  // namespace
