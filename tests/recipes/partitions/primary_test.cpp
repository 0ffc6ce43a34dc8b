// Primaries: one test at least per row of the table "What goes wrong" in <zkrecipes/primary.hpp>.

#include <zkrecipes/primary.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/partition_map.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Strings = std::vector<std::string>;

const testkit::OnRealServers primaries_on_real_servers{"PrimaryFaults.PrimaryIsCutOff"};

/// A member that keeps the roles that it gets. All of one test share the judge: who gets a role looks whether the one
/// before knows that it has not got it any more.
class RoleHolder {
 public:
  using Judge = std::map<std::string, std::shared_ptr<Primary>>;

  RoleHolder(const Client& client, PrimaryNodeOptions options, Judge& judge, std::mutex& lock, bool gives_back = true)
      : judge_(judge),
        lock_(lock),
        gives_back_(gives_back),
        node_(
            std::in_place, client, "/app", [this](Primary primary) { keep(std::move(primary)); }, std::move(options)) {
    node_->start();
  }
  ~RoleHolder() {
    node_.reset();
    kept_.clear();
  }

  PrimaryNode& node() { return *node_; }
  bool has(const std::string& role) const {
    const std::lock_guard lock(lock_);
    const auto found = kept_.find(role);
    return found != kept_.end() && found->second.primary->valid();
  }
  FencingToken token(const std::string& role) const {
    const std::lock_guard lock(lock_);
    return kept_.at(role).primary->token();
  }
  std::shared_ptr<Primary> primary(const std::string& role) const {
    const std::lock_guard lock(lock_);
    return kept_.at(role).primary;
  }
  int asked() const { return asked_; }
  int lost() const { return lost_; }

 private:
  using Callback = std::stop_callback<std::function<void()>>;
  struct Kept {
    std::shared_ptr<Primary> primary;
    std::unique_ptr<Callback> lost;
    std::unique_ptr<Callback> asked = {};
  };

  void keep(Primary got) {
    const auto primary = std::make_shared<Primary>(std::move(got));
    Kept kept{primary, std::make_unique<Callback>(primary->lost(), [this] { ++lost_; })};
    kept.asked = std::make_unique<Callback>(primary->revoke_requested(), [this, primary] {
      ++asked_;
      if (gives_back_) primary->async_release([](const zkclient::Result<void>&) {});
    });
    const std::lock_guard lock(lock_);
    auto& before = judge_[primary->role()];
    if (before != nullptr) {
      EXPECT_FALSE(before->valid()) << "two primaries";
      EXPECT_LT(before->token(), primary->token());
    }
    before = primary;
    std::swap(kept_[primary->role()], kept);
  }

  Judge& judge_;
  std::mutex& lock_;
  const bool gives_back_;
  std::map<std::string, Kept> kept_;
  std::atomic<int> asked_{0};
  std::atomic<int> lost_{0};
  std::optional<PrimaryNode> node_;
};

class PrimaryFaults : public testkit::RecipeFaultTest {
 protected:
  PrimaryFaults() : RecipeFaultTest("/app") {}

  std::unique_ptr<RoleHolder> join(const Client& client, const std::string& id, bool gives_back = true) {
    PrimaryNodeOptions options;
    options.id = id;
    options.grace = gives_back ? 60s : 100ms;
    return std::make_unique<RoleHolder>(client, std::move(options), judge, lock, gives_back);
  }
  static std::unique_ptr<PrimaryMonitor> watch_over(const Client& client, ChoosePrimary choose = keep_primary,
                                                    Strings roles = {"r"}) {
    PrimaryMonitorOptions options;
    options.choose = std::move(choose);
    auto monitor = std::make_unique<PrimaryMonitor>(client, "/app", std::move(roles), std::move(options));
    monitor->start();
    return monitor;
  }
  std::string named(const std::string& role = "r") {
    std::error_code error;
    return the_operator().get(Path("/app/roles") / role, {}, error).data;
  }
  bool is_member(const std::string& id) {
    return eventually([&] { return the_operator().exists(Path("/app/members") / id).has_value(); });
  }
  /// Waits until `holder` has the role, whoever was chosen first. A monitor that does not see the member would name
  /// another one; so it is moved to those that are to be seen, until it stays.
  bool give(PrimaryMonitor& monitor, const std::unique_ptr<RoleHolder>& holder) {
    const std::string& id = holder->node().id();
    const auto made = [&] { return the_operator().exists("/app/roles/r").has_value(); };
    return eventually(made) && is_member(id) && eventually([&] {
             if (named() != id) monitor.move("r", id, patient());
             return holder->has("r");
           });
  }

  RoleHolder::Judge judge;
  std::mutex lock;
  const zkclient::AclList hidden = {{zkclient::Acl::all & ~zkclient::Acl::read, "world", "anyone"}};
};

// V77.
TEST_F(PrimaryFaults, PrimaryIsCutOff) {
  const Client cut = contended_proxied();
  const Client direct = calm_direct();
  const auto a = join(cut, "a");
  const auto b = join(direct, "b");
  const auto monitor = watch_over(direct);
  ASSERT_TRUE(give(*monitor, a));
  const auto of_a = a->primary("r");  // The last one: a session as short as this may lose one before.
  refuse_and_cut();
  EXPECT_TRUE(eventually([&] { return b->has("r"); }));  // The judge looks whether the other one was lost before.
  EXPECT_TRUE(stopped(of_a->lost()));
  EXPECT_GE(a->lost(), 1);
  EXPECT_EQ(named(), "b");
}

// V80: only the lease counts.
TEST_F(PrimaryFaults, PrimarysConnectionBreaks) {
  const Client client = calm_proxied();
  const Client direct = calm_direct();
  const auto a = join(client, "a");
  const auto b = join(direct, "b");
  const auto monitor = watch_over(direct);
  ASSERT_TRUE(give(*monitor, a));
  const FencingToken token = a->token("r");
  for (int i = 0; i < 3; ++i) {
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    b->node().update_status("well " + std::to_string(i), patient());  // So that the monitor decides again.
    testkit::let_age(50ms);
    proxy.refuse(false);
    client.sync("/", patient());
  }
  EXPECT_TRUE(a->has("r"));
  EXPECT_EQ(a->token("r"), token);
  EXPECT_EQ(a->asked(), 0);
}

TEST_F(PrimaryFaults, AnotherMemberIsNamed) {
  const Client client = calm_direct();
  const Client other = calm_direct();
  const auto a = join(client, "a");
  const auto b = join(other, "b", false);
  const auto monitor = watch_over(client);
  ASSERT_TRUE(give(*monitor, a));
  ASSERT_TRUE(give(*monitor, b));
  EXPECT_EQ(a->lost(), 0) << "handed over";
  EXPECT_FALSE(a->has("r"));
  const int lost = b->lost();  // A monitor that did not see the other one had named it before.
  ASSERT_TRUE(give(*monitor, a));
  EXPECT_EQ(b->lost(), lost + 1) << "it did not give back";
}

TEST_F(PrimaryFaults, NoMonitor) {
  const Client client = calm_direct();
  auto monitor = watch_over(client);
  const auto a = join(client, "a");
  const Client other = calm_direct();
  const auto b = join(other, "b");
  ASSERT_TRUE(give(*monitor, a));
  monitor.reset();
  const FencingToken token = a->token("r");
  b->node().update_status("better", patient());
  the_operator().sync("/", patient());
  EXPECT_EQ(a->token("r"), token);
  EXPECT_TRUE(a->has("r"));
  // It is still the one that is named, so it comes back by itself.
  const auto lost = a->primary("r")->lost();
  the_operator().remove("/app/owners/r/owner");
  EXPECT_TRUE(stopped(lost));
  EXPECT_TRUE(eventually([&] { return a->has("r"); }));
}

TEST_F(PrimaryFaults, MonitorIsCutOff) {
  const Client cut = contended_proxied();
  const Client direct = calm_direct();
  const auto first = watch_over(cut);
  ASSERT_TRUE(eventually([&] { return first->leads(); }));
  const auto second = watch_over(direct);
  auto a = join(direct, "a");
  ASSERT_TRUE(eventually([&] { return a->has("r"); }));
  refuse_and_cut();
  EXPECT_TRUE(eventually([&] { return second->leads(); }));
  EXPECT_FALSE(first->leads());
  const Client other = calm_direct();
  const auto b = join(other, "b");
  a->node().leave(patient());
  EXPECT_TRUE(eventually([&] { return b->has("r"); }));
}

/// Names "b", and the second time waits, and would name somebody else.
class SlowChoice {
 public:
  explicit SlowChoice(std::string second) : second_(std::move(second)) {}

  ChoosePrimary choose() {
    return [this](const RoleState& state, const std::vector<Member>&) {
      const int decision = ++decisions_;
      if (decision == 1) return std::string("b");
      if (decision > 2) return state.named;
      go_on_.wait(false);
      return second_;
    };
  }
  bool decides(int times) const {
    return eventually([&] { return decisions_ >= times; });
  }
  bool waits() const { return decides(2); }
  void go_on() {
    go_on_ = true;
    go_on_.notify_all();
  }

 private:
  const std::string second_;
  std::atomic<int> decisions_{0};
  std::atomic<bool> go_on_{false};
};

/// The member has the lease, and no other change would bring back that its executor has not told it.
TEST_F(PrimaryFaults, AnExecutorDropsARoleThatWasTaken) {
  the_operator().create("/app/roles/r", "a", {.parents = true});
  testkit::DroppingRuntime dropping;
  const Client client(dropping.runtime(), proxy.connect_string(), {.session_timeout = calm});
  const auto a = join(client, "a");
  ASSERT_TRUE(eventually([&] { return a->has("r"); }));
  const FencingToken token = a->token("r");
  dropping.drop();
  the_operator().remove("/app/owners/r/owner");
  EXPECT_TRUE(eventually([&] {
    const auto owner = the_operator().exists("/app/owners/r/owner");
    return owner && FencingToken{owner->czxid} != token && a->node().held() == Strings{"r"};
  }));
  client.sync("/", patient());  // Behind the task that would tell it.
  dropping.run();
  EXPECT_TRUE(eventually([&] { return a->has("r"); }));
  EXPECT_LT(token, a->token("r"));
}

// V78: it had begun to decide, and writes before it hears that it is deposed.
TEST_F(PrimaryFaults, ADeposedMonitorWrites) {
  const Client deposed = calm_proxied();
  const Client direct = calm_direct();
  const auto b = join(direct, "b");
  SlowChoice choice("a");
  const auto first = watch_over(deposed, choice.choose());
  // The monitor's end waits for the choice, also when this test fails.
  const std::shared_ptr<void> at_the_end(nullptr, [&](std::nullptr_t) { choice.go_on(); });
  ASSERT_TRUE(choice.waits());
  ASSERT_TRUE(eventually([&] { return b->has("r"); }));
  proxy.stall(Direction::to_client);
  for (const std::string& candidate : names("/app/monitor"))
    the_operator().remove(Path("/app/monitor") / candidate);
  const auto second = watch_over(direct);
  EXPECT_TRUE(eventually([&] { return second->leads(); }));
  const std::size_t writes = proxy.request_count(RequestType::multi);
  EXPECT_TRUE(first->leads()) << "it has not heard of that";
  choice.go_on();
  EXPECT_TRUE(eventually([&] { return proxy.request_count(RequestType::multi) > writes; }));
  proxy.unstall(Direction::to_client);
  deposed.sync("/", patient());  // Behind what it has written.
  EXPECT_TRUE(eventually([&] { return !first->leads(); }));
  EXPECT_EQ(named(), "b");
  EXPECT_EQ(the_operator().get("/app/roles/r").stat.version, 0);
}

// What it decides rests on what was there when it looked. Another one has written since: it decides anew.
TEST_F(PrimaryFaults, ARoleIsNamedTwiceAtOnce) {
  const Client client = calm_direct();
  SlowChoice choice("late");
  const auto monitor = watch_over(client, choice.choose());
  const std::shared_ptr<void> at_the_end(nullptr, [&](std::nullptr_t) { choice.go_on(); });
  ASSERT_TRUE(choice.waits());
  monitor->move("r", "moved", patient());
  choice.go_on();
  EXPECT_TRUE(choice.decides(3));
  EXPECT_EQ(named(), "moved");
}

TEST_F(PrimaryFaults, ARoleHasNobodyWhoCouldHaveIt) {
  const Client client = calm_direct();
  const auto monitor = watch_over(client);
  ASSERT_TRUE(eventually([&] { return the_operator().exists("/app/roles/r").has_value(); }));
  EXPECT_EQ(named(), "");
  const auto a = join(client, "a");
  EXPECT_TRUE(eventually([&] { return a->has("r"); }));
  EXPECT_FALSE(monitor->problem());
  EXPECT_FALSE(a->node().problem());
  PartitionMap map(client, "/app");
  EXPECT_EQ(map.wait_owner("r", {}, patient()).id, "a");
}

TEST_F(PrimaryFaults, NamedMemberIsNotThere) {
  const Client client = calm_direct();
  const auto choose = [](const RoleState&, const std::vector<Member>&) { return std::string("ghost"); };
  const auto monitor = watch_over(client, choose);
  const auto a = join(client, "a");
  ASSERT_TRUE(eventually([&] { return named() == "ghost"; }));
  EXPECT_FALSE(a->has("r"));
  const Client other = calm_direct();
  const auto ghost = join(other, "ghost");
  EXPECT_TRUE(eventually([&] { return ghost->has("r"); }));
}

TEST_F(PrimaryFaults, TwoMembersWithOneId) {
  const Client client = calm_direct();
  const Client other = calm_direct();
  const auto monitor = watch_over(client);
  const auto first = join(client, "a");
  ASSERT_TRUE(eventually([&] { return first->has("r"); }));
  const auto second = join(other, "a");
  EXPECT_TRUE(eventually([&] {
    const auto problem = second->node().problem();
    return problem && problem->errc() == Errc::node_exists;
  }));
  EXPECT_TRUE(first->has("r"));
  EXPECT_FALSE(second->has("r"));
  first->node().stop(patient());
  EXPECT_TRUE(eventually([&] { return second->has("r"); }));
}

TEST_F(PrimaryFaults, ClientClosed) {
  Client client = calm_direct();
  const auto monitor = watch_over(client);
  const auto a = join(client, "a");
  ASSERT_TRUE(eventually([&] { return a->has("r"); }));
  client.close();
  EXPECT_FALSE(a->has("r"));
  EXPECT_TRUE(eventually([&] { return a->lost() == 1; }));
  EXPECT_TRUE(a->node().held().empty());
  EXPECT_EQ(error_of([&] { a->node().leave(patient()); }), Errc::closed);
  EXPECT_FALSE(monitor->leads());
}

// It may be a member's whose status nobody knows: so nobody is named in its place.
TEST_F(PrimaryFaults, AMembersNodeCannotBeRead) {
  const auto monitor = watch_over(calm_proxied());
  auto a = join(calm_direct(), "a");
  ASSERT_TRUE(eventually([&] { return a->has("r"); }));
  the_operator().create("/app/members/b", "", {.mode = CreateMode::ephemeral, .acl = hidden});
  ASSERT_TRUE(eventually([&] {
    const auto problem = monitor->problem();
    return problem && problem->errc() == Errc::no_auth;
  }));
  a.reset();
  ASSERT_TRUE(eventually([&] { return !the_operator().exists("/app/members/a"); }));
  // Each look of the monitor begins with a sync. When the third one begins, the second one is over.
  for (const char* news : {"/app/roles/x", "/app/roles/y", "/app/roles/z"}) {
    const auto looks = proxy.request_count(RequestType::sync);
    the_operator().create(news, "");
    ASSERT_TRUE(eventually([&] { return proxy.request_count(RequestType::sync) > looks; }));
  }
  EXPECT_EQ(named(), "a");
  the_operator().remove("/app/members/b");
  EXPECT_TRUE(eventually([&] { return named().empty(); }));
  EXPECT_TRUE(eventually([&] { return !monitor->problem(); }));
}

// Whom it names is not known: so its primary is not asked to give it back.
TEST_F(PrimaryFaults, ARolesNodeCannotBeRead) {
  the_operator().create("/app/roles", "", {.parents = true});
  the_operator().create("/app/roles/r", "a");
  const auto a = join(calm_direct(), "a");
  ASSERT_TRUE(eventually([&] { return a->has("r"); }));
  zkclient::Transaction again;
  again.remove("/app/roles/r");
  again.create("/app/roles/r", "a", {.acl = hidden});
  the_operator().commit(again);
  ASSERT_TRUE(eventually([&] {
    const auto problem = a->node().problem();
    return problem && problem->errc() == Errc::no_auth;
  }));
  the_operator().create("/app/roles/s", "a");
  ASSERT_TRUE(eventually([&] { return a->has("s"); })) << "what can be read goes on";
  EXPECT_TRUE(a->has("r"));
  EXPECT_EQ(a->asked(), 0);
}

// With its next session the primary may not list them any more. It still is the one that was named.
TEST_F(PrimaryFaults, RolesCannotBeListed) {
  the_operator().create("/app/roles", "", {.parents = true});
  the_operator().create("/app/roles/r", "a");
  const Client client = calm_direct();
  const auto a = join(client, "a");
  ASSERT_TRUE(eventually([&] { return a->has("r"); }));
  const FencingToken token = a->token("r");
  the_operator().set_acl("/app/roles", hidden);
  expire(client);
  EXPECT_TRUE(eventually([&] { return a->has("r") && token < a->token("r"); }));
  EXPECT_TRUE(eventually([&] { return a->node().problem() && a->node().problem()->errc() == Errc::no_auth; }));
}

TEST_F(PrimaryFaults, TheStatusDecides) {
  const Client client = calm_direct();
  const Client other = calm_direct();
  const auto monitor = watch_over(client, [](const RoleState& state, const std::vector<Member>& members) {
    std::string best = state.named;
    std::string highest;
    for (const Member& member : members) {
      if (member.payload > highest) best = member.id;
      highest = std::max(highest, member.payload);
    }
    return best;
  });
  const auto a = join(client, "a");
  const auto b = join(other, "b");
  a->node().update_status("1", patient());
  EXPECT_TRUE(eventually([&] { return a->has("r"); }));
  b->node().update_status("2", patient());
  EXPECT_TRUE(eventually([&] { return b->has("r"); }));
}

TEST_F(PrimaryFaults, AChooseThatThrowsIsReported) {
  const Client client = calm_direct();
  std::atomic<bool> throws{true};
  const auto monitor = watch_over(client, [&](const RoleState& state, const std::vector<Member>& members) {
    if (throws) throw std::runtime_error("no idea");
    return keep_primary(state, members);
  });
  const auto a = join(client, "a");
  EXPECT_TRUE(eventually([&] {
    const auto problem = monitor->problem();
    return problem && std::string(problem->what()).find("no idea") != std::string::npos;
  }));
  throws = false;
  EXPECT_TRUE(eventually([&] { return a->has("r"); }));
  EXPECT_TRUE(eventually([&] { return !monitor->problem(); }));
}

TEST_F(PrimaryFaults, AsynchronousFormsAndRefusals) {
  const Client client = calm_direct();
  const auto monitor = watch_over(client);
  const auto a = join(client, "a");
  const auto b = join(client, "b");
  ASSERT_TRUE(give(*monitor, a));
  ASSERT_TRUE(is_member("b"));
  const auto done = [](const std::function<void(zkclient::Handler<void>)>& start) {
    Box<bool> ended;
    start([&](const zkclient::Result<void>& result) { ended.put(result.has_value()); });
    return ended.take();
  };
  EXPECT_TRUE(done([&](auto h) { monitor->async_move("r", "b", std::move(h), patient()); }));
  EXPECT_TRUE(eventually([&] { return b->has("r"); }));
  EXPECT_FALSE(done([&](auto h) { monitor->async_move("unknown", "b", std::move(h), patient()); }));
  EXPECT_TRUE(done([&](auto h) { a->node().async_update_status("x", std::move(h), patient()); }));
  EXPECT_TRUE(done([&](auto h) { a->node().async_leave(std::move(h), patient()); }));
  EXPECT_TRUE(done([&](auto h) { b->node().async_stop(std::move(h), patient()); }));
  EXPECT_TRUE(eventually([&] { return b->lost() == 1; }));  // It is told in a thread of its own.
  EXPECT_EQ(error_of([&] { a->node().update_status("y", patient()); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { a->node().async_leave({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { a->node().async_stop({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { a->node().async_update_status("y", {}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { monitor->async_move("r", "b", {}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { PrimaryNode none(client, "/app", {}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { PrimaryNode none(client, "/app", [](const Primary&) {}, {.acl = {}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { PrimaryMonitor none(client, "/app", {"r", "r"}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { PrimaryMonitor none(client, "/app", {"a/b"}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { PrimaryMonitor none(client, "/app", {"r"}, {.acl = {}}); }), Errc::invalid_acl);
}

}  // namespace
}  // namespace zkrecipes
