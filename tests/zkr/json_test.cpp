// What `zkr` writes with --json has the shapes that docs/zkr_look.md promises to scripts.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stop_token>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include <zkrecipes/configuration.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zkrecipes/queue.hpp>

#include "tests/support/commit_test.hpp"
#include "tests/support/program.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/words.hpp"
#include "tests/zkr/zkr_call.hpp"

namespace zkr {
namespace {

using namespace testkit::words;
namespace bj = boost::json;

/// The shapes by name, as the guide has them.
class ShapeBook {
 public:
  ShapeBook() {
    std::ifstream file(DOCS "/zkr_look.md");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t begin = text.find("```json\n", text.find("\n## JSON\n")) + 8;
    shapes_ = bj::parse(text.substr(begin, text.find("\n```", begin) - begin)).as_object();
  }

  /// "": the value has the shape. Else what differs.
  std::string difference(const bj::value& value, const std::string& shape) {
    seen().insert(shape);
    return of_object(value, shapes_.at(shape).as_object());
  }
  /// The shapes that no value has been compared with, by this book or by another one.
  std::string never_seen() const {
    std::string all;
    for (const auto& shape : shapes_) {
      const std::string name(shape.key());
      if (!seen().contains(name)) all += (all.empty() ? "" : ", ") + name;
    }
    return all;
  }

 private:
  static std::set<std::string>& seen() {
    static std::set<std::string> names;
    return names;
  }
  std::string of_object(const bj::value& value, const bj::object& shape) {
    if (!value.is_object()) return "no object: " + bj::serialize(value);
    std::set<std::string> known;
    for (const auto& member : shape) {
      std::string name(member.key());
      const bool optional = name.ends_with('?');
      if (optional) name.pop_back();
      known.insert(name);
      const bj::value* const found = value.as_object().if_contains(name);
      if (found == nullptr && !optional) return name + " is missing";
      if (found == nullptr) continue;
      if (const std::string why = of_member(*found, member.value()); !why.empty()) return name.append(": ").append(why);
    }
    for (const auto& member : value.as_object()) {
      if (!known.contains(std::string(member.key()))) return std::string(member.key()) + " is not in the guide";
    }
    // Data stands in one of two forms; only a node that is not there has none.
    const bool there = !known.contains("event") || value.as_object().contains("stat");
    for (const char* data : {"data", "value"}) {
      const auto forms = value.as_object().count(data) + value.as_object().count(std::string(data) + "_base64");
      if (there && known.contains(std::string(data) + "_base64") && forms != 1)
        return std::string(data) + " is missing";
    }
    return "";
  }
  std::string of_member(const bj::value& value, const bj::value& shape) {
    if (!shape.is_array()) return of_one(value, std::string(shape.as_string()));
    if (!value.is_array()) return "no list: " + bj::serialize(value);
    for (const bj::value& one : value.as_array()) {
      if (std::string why = of_one(one, std::string(shape.at(0).as_string())); !why.empty()) return why;
    }
    return "";
  }
  std::string of_one(const bj::value& value, const std::string& kinds) {
    std::istringstream alternatives(kinds);
    std::string why;
    for (std::string kind; std::getline(alternatives, kind, '|');) {
      why = shapes_.contains(kind) ? difference(value, kind) : is_of(value, kind) ? "" : "no " + kind;
      if (why.empty()) return why;
    }
    return why + ": " + bj::serialize(value);
  }
  static bool is_of(const bj::value& value, const std::string& kind) {
    if (kind == "null") return value.is_null();
    if (kind == "number") return value.is_number();
    if (kind == "boolean") return value.is_bool();
    if (!value.is_string()) return false;
    const std::string text(value.as_string());
    if (kind == "time") return text.size() == 24 && text[10] == 'T' && text.back() == 'Z';
    if (kind == "session") return text.starts_with("0x");
    return kind == "text";
  }

  bj::object shapes_;
};

class ZkrJsonShapes : public testkit::RecipeTest {
 protected:
  ZkrJsonShapes() : RecipeTest("/place") {}
  // If all tests of them have run.
  static void TearDownTestSuite() {
    const testing::TestSuite& suite = *testing::UnitTest::GetInstance()->current_test_suite();
    if (suite.test_to_run_count() != suite.total_test_count()) return;
    EXPECT_EQ(ShapeBook().never_seen(), "");
  }

  std::vector<std::string> call_of(std::vector<std::string> words) const {
    words.insert(words.begin(), {"--server", hosts(), "--prefix", prefix().str(), "--json"});
    return words;
  }
  /// Each line that the call writes has the shape; there is one at least.
  void check(const std::string& shape, std::vector<std::string> words, const std::string& input = "") {
    const Called called = call_zkr(call_of(std::move(words)), input);
    EXPECT_NE(called.output, "") << shape << called.errors;
    std::istringstream lines(called.output);
    for (std::string line; std::getline(lines, line);)
      EXPECT_EQ(book_.difference(bj::parse(line), shape), "") << shape;
  }
  /// The same for the first line of a command that goes on.
  void check_first(const std::string& shape, std::vector<std::string> words) {
    testkit::Program program(zkr_program(), call_of(std::move(words)));
    EXPECT_EQ(book_.difference(bj::parse(program.next_line()), shape), "") << shape;
  }

  ShapeBook book_;
};

TEST_F(ZkrJsonShapes, EachCommandWritesWhatTheGuideSays) {
  check("create", {"create", "/place", "words"});
  check("get", {"get", "/place"});
  check("set", {"set", "/place", "-"}, "\xff");
  check("get", {"get", "/place"});
  check("stat", {"stat", "/place"});
  check("txn", {"txn"}, "create -s /place/n-\nset /place x\ncheck /place\ndelete /place/n-0000000000");
  client().create("/place/child", "", {.mode = CreateMode::ephemeral});
  check("ls", {"ls", "/place"});
  check("ls -l", {"ls", "-l", "/place"});
  check("tree", {"tree", "/place"});
  check("acl get", {"acl", "get", "/place"});
  check("acl set", {"acl", "set", "/place", "world:anyone:cdrwa"});
  check_first("watch", {"watch", "/none"});
  check_first("watch", {"watch", "/place"});
  check_first("watch --children", {"watch", "--children", "/place"});
  check("cp", {"cp", "/place", "/copy"});
  check("import", {"import", "/imported"}, call_zkr(call_of({"export", "/copy"})).output);
  check("rm", {"rm", "-r", "/imported"});
  check("doctor", {"doctor", "/place", "--timer-time", "1ms"});
}

TEST_F(ZkrJsonShapes, EachRecipesCommandWritesWhatTheGuideSays) {
  check("barrier raise", {"barrier", "raise", "/barrier"});
  check("who", {"who", "/barrier"});
  {
    const auto lease = zkrecipes::Mutex(client(), "/locks/a").acquire();
    client().create("/locks/free", "");
    check("who", {"who", "/locks/a"});
    check("who", {"who", "/locks/a", "--address"});
    check("top", {"top", "/locks", "/none", "--looks", "1"});
    check("revoke", {"revoke", "/locks/a"});
  }
  check("leader", {"leader", "/election"});
  {
    const auto leadership = zkrecipes::LeaderElection(client(), "/election").campaign({.deadline = soon()});
    check("leader", {"leader", "/election"});
    check_first("observe", {"observe", "/election"});
  }
  zkrecipes::Queue(client(), "/queue").push_all({"a", "b", "\xff"});
  check("who", {"who", "/queue"});
  check("queue ls", {"queue", "ls", "/queue"});
  check("queue size", {"queue", "size", "/queue"});
  check("queue peek", {"queue", "peek", "/queue"});
  check("queue pop", {"queue", "pop", "/queue"});
  check("queue retry-dead", {"queue", "retry-dead", "/queue"});
  check("queue purge", {"queue", "purge", "/queue"});
  zkrecipes::DelayQueue(client(), "/later").push("a", std::chrono::system_clock::now());
  check("queue ls", {"queue", "ls", "/later"});
  zkrecipes::IdQueue(client(), "/ids").push("a", "x");
  check("queue ls", {"queue", "ls", "/ids"});
  check("queue remove", {"queue", "remove", "/ids", "x"});
}

TEST_F(ZkrJsonShapes, EachRecipeWithPartsIsAsTheGuideSays) {
  const auto put = [&](const Path& node, const std::string& data, CreateMode mode = CreateMode::persistent) {
    client().create(node, data, {.mode = mode, .parents = true});
  };
  put("/latch", "generation=1 count=3 left=2");
  check("who", {"who", "/latch"});
  const std::string run = R"({"firing":"9999-01-01T01:00:00.000Z","attempt":1,"outcome":"running","runner":"me",)"
                          R"("token":7,"started":"2001-01-01T01:00:00.000Z"})";
  put("/job/state", R"({"settled":"2001-01-01T00:00:00.000Z","running":)" + run + "}");
  put("/job/history/2001-01-01T00:00:00.000Z-1", run);
  check("who", {"who", "/job"});
  put("/records/set/meta-0000000000", std::string(32, 'x'));
  put("/records/set/meta-0000000001", "words");
  check("who", {"who", "/records"});
  put("/placed/hosts/a", "host 1 1 -", CreateMode::ephemeral);
  put("/placed/hosts/b", "words");
  put("/placed/placement/p0", "placement 1\na wanted\nb leaving\n");
  check("who", {"who", "/placed"});
  put("/ttl/touch", "");
  check("who", {"who", "/ttl"});
}

TEST_F(ZkrJsonShapes, EachValuesCommandWritesWhatTheGuideSays) {
  check("counter add", {"counter", "add", "/counter", "3"});
  check("counter get", {"counter", "get", "/counter"});
  check("config publish", {"config", "publish", "/config", "a=1", "b/c=2"});
  check("config get", {"config", "get", "/config"});
  check("config get KEY", {"config", "get", "/config", "a"});
  zkrecipes::Group group(client(), "/group");
  const auto member = group.join("me", "at 10.0.0.8", {.deadline = soon()});
  check("group ls", {"group", "ls", "/group"});
  Box<zkrecipes::Partition> taken;
  zkrecipes::Partitioner partitioner(client(), "/partitions", zkrecipes::PartitionSource::numbered(1),
                                     [&](zkrecipes::Partition partition) { taken.put(std::move(partition)); });
  partitioner.start();
  const zkrecipes::Partition partition = taken.take();
  check("partition ls", {"partition", "ls", "/partitions"});
}

TEST_F(ZkrJsonShapes, EachCommitCommandWritesWhatTheGuideSays) {
  testkit::Gate gate;
  testkit::TestParticipant participant(client(), path(), "bank");
  testkit::hold(participant, gate);
  participant.start(client());
  Client other = make_client();
  zkrecipes::CommitCoordinator coordinator(other, path());
  auto running = in_thread([&] { return coordinator.run({"bank"}, "payload", {.timeout = 60s}); });
  (void)gate.reached.take();
  check("commit ls", {"commit", "ls", "/place"});
  other.close();
  gate.open.put(1);
  check("commit recover", {"commit", "recover", "/place"});
  (void)testkit::error_of([&] { (void)result_of(running); });
  testkit::hold(participant, gate, false);
  gate.open.put(1);
  check("commit run", {"commit", "run", "/place", "bank"});
}

// It was prepared in a tree that is gone.
TEST_F(ZkrJsonShapes, EachCommandForATransactionInDoubtWritesWhatTheGuideSays) {
  const testkit::TemporaryFolder folder;
  const std::string log = (folder / "log").string();
  testkit::Program serving(zkr_program(),
                           call_of({"commit", "participate", "/place", "own", "--log", log, "-c", "echo $ZKR_PHASE"}));
  testkit::Gate gate;
  testkit::TestParticipant other(client(), path(), "other");
  testkit::hold(other, gate);
  other.start(client());
  ASSERT_TRUE(eventually([&] { return client().exists("/place/participants/own").has_value(); }));
  zkrecipes::CommitCoordinator coordinator(client(), path());
  std::stop_source stop;
  const CallOptions call{.stop = stop.get_token()};
  auto running = in_thread([&] { return coordinator.run({"own", "other"}, "", {.timeout = 60s}, call); });
  const std::string id = gate.reached.take();
  ASSERT_TRUE(eventually([&] { return client().exists("/place/transactions/" + id + "/vote-own").has_value(); }));
  client().remove_tree(path(), {.deadline = soon()});
  check("commit in-doubt", {"commit", "in-doubt", "--log", log});
  ASSERT_TRUE(eventually([&] {
    return call_zkr(call_of({"commit", "in-doubt", "--log", log})).output.find("not there") != std::string::npos;
  }));
  check("commit resolve", {"commit", "resolve", id, "abort", "--log", log});
  gate.open.put(1);
  stop.request_stop();
  (void)testkit::error_of([&] { (void)result_of(running); });
}

}  // namespace
}  // namespace zkr
