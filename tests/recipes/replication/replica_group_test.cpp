#include <zkrecipes/replica_group.hpp>

#include <gtest/gtest.h>

#include "tests/recipes/replication/replica_support.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::error_of;
using testkit::eventually;
using testkit::soon;
using testkit::take_in;
using testkit::TestReplica;
using zkclient::Errc;
using Strings = std::vector<std::string>;

ReplicaGroupOptions brisk() {
  ReplicaGroupOptions options;
  options.settle = 50ms;
  options.read_term = 500ms;
  return options;
}

ReplicaHandlers no_handlers() {
  return {[](const PrimaryTerm&) {}, [](const SecondaryTerm&) {}};
}

class ReplicaGroupTest : public testkit::RecipeTest {
 protected:
  ReplicaGroupTest() : RecipeTest("/replicas") {}
};

TEST_F(ReplicaGroupTest, TheFirstMemberIsThePrimary) {
  TestReplica a(client(), "a", brisk());
  ASSERT_TRUE(a.may_write());
  EXPECT_EQ(a->role(), ReplicaRole::primary);
  EXPECT_EQ(a.in_sync(), Strings{"a"});
  EXPECT_TRUE(a->may_serve_reads());
  const auto terms = a.primary_terms();
  ASSERT_EQ(terms.size(), 1U);
  EXPECT_EQ(terms[0].second.epoch, 1);
  EXPECT_GT(terms[0].second.token, FencingToken());
  ASSERT_EQ(terms[0].second.in_sync.size(), 1U);
  EXPECT_EQ(terms[0].second.in_sync[0].storage, "disk");
  EXPECT_FALSE(terms[0].second.lost.stop_requested());
  EXPECT_EQ(client().get("/replicas/state").data,
            "replicas 1 epoch=1 primary=a minimum=1 forced=0 leaving=0\na disk 500\n");
}

TEST_F(ReplicaGroupTest, AMemberCatchesUpAndIsTakenInAndOut) {
  TestReplica a(client(), "a", brisk());
  ASSERT_TRUE(a.may_write());
  TestReplica b(client(), "b", brisk());
  ASSERT_TRUE(b.is(ReplicaRole::out));
  EXPECT_FALSE(b->may_serve_reads());
  ASSERT_TRUE(eventually([&] { return b.secondary_terms().size() == 1; }));  // A slow handler is told the newest only.
  ASSERT_TRUE(a.sees("b"));
  a->expand(a.epoch(), "b", "disk");
  EXPECT_EQ(a.in_sync(), (Strings{"a", "b"}));
  ASSERT_TRUE(b.is(ReplicaRole::secondary));
  ASSERT_TRUE(b.may_serve_reads());
  EXPECT_FALSE(b->may_write());
  EXPECT_EQ(b.in_sync(), Strings());
  ASSERT_TRUE(eventually([&] { return b.secondary_terms().size() == 2; }));
  const SecondaryTerm last = b.secondary_terms().back();
  EXPECT_EQ(last.epoch, 1);
  EXPECT_EQ(last.primary, "a");
  EXPECT_EQ(last.address, "at-a");
  EXPECT_TRUE(last.in_sync);
  EXPECT_FALSE(b.secondary_terms().front().in_sync);

  a->shrink({"b"});
  EXPECT_EQ(a.in_sync(), Strings{"a"});
  EXPECT_FALSE(b->may_serve_reads());
  EXPECT_TRUE(b.is(ReplicaRole::out));
  a->shrink({"b", "z"});  // Nothing to do.
  a->expand(a.epoch(), "b", "disk");
  a->expand(a.epoch(), "b", "disk");
  EXPECT_EQ(a.in_sync(), (Strings{"a", "b"}));
}

TEST_F(ReplicaGroupTest, BelowTheMinimumNothingIsWritten) {
  ReplicaGroupOptions options = brisk();
  options.minimum = 2;
  TestReplica a(client(), "a", options);
  TestReplica b(client(), "b", options);
  TestReplica* primary = nullptr;
  TestReplica* other = nullptr;
  ASSERT_TRUE(eventually([&] {
    primary = a->role() == ReplicaRole::primary ? &a : &b;
    other = primary == &a ? &b : &a;
    return (*primary)->role() == ReplicaRole::primary && (*primary)->may_serve_reads();
  }));
  const std::string id = other == &a ? "a" : "b";
  EXPECT_FALSE((*primary)->may_write());
  ASSERT_TRUE(primary->sees(id));
  (*primary)->expand(primary->epoch(), id, "disk");
  EXPECT_TRUE((*primary)->may_write());
  (*primary)->shrink({id});
  EXPECT_FALSE((*primary)->may_write());
  EXPECT_EQ((*primary)->state()->minimum, 2U);
}

TEST_F(ReplicaGroupTest, TheHighestReportedVersionIsNext) {
  TestReplica a(client(), "a", brisk());
  ASSERT_TRUE(a.may_write());
  ReplicaGroupOptions second = brisk();
  second.settle = 10min;  // So that it waits for as long as the first choice is there.
  TestReplica b(client(), "b", second);
  TestReplica c(client(), "c", brisk());
  take_in(a, b, "b");
  take_in(a, c, "c");
  b->report_version(7);
  c->report_version(8);
  const auto reported = [](TestReplica& at, std::uint64_t version) {
    return eventually([&] {
      for (const ReplicaMember& one : at->members()) {
        if (one.id == "c" && one.version == version) return true;
      }
      return false;
    });
  };
  ASSERT_TRUE(reported(b, 8));
  ASSERT_TRUE(reported(c, 8));
  a->leave();
  EXPECT_EQ(a->role(), ReplicaRole::left);
  ASSERT_TRUE(c.may_write());
  EXPECT_EQ(c->state()->epoch, 2);
  EXPECT_TRUE(b.is(ReplicaRole::secondary));
  EXPECT_EQ(c.in_sync(), (Strings{"a", "b", "c"}));  // Until it is taken out.
  c->shrink({"a"});
  EXPECT_EQ(c.in_sync(), (Strings{"b", "c"}));
}

TEST_F(ReplicaGroupTest, OnlyThePrimaryChangesWhoIsInSync) {
  TestReplica a(client(), "a", brisk());
  ASSERT_TRUE(a.may_write());
  TestReplica b(client(), "b", brisk());
  take_in(a, b, "b");
  EXPECT_EQ(error_of([&] { b->shrink({"a"}); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { b->expand(1, "a", "disk"); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { a->shrink({"a"}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { a->expand(1, "z", "disk"); }), Errc::no_node);
  EXPECT_EQ(error_of([&] { a->expand(1, "b", "another disk"); }), Errc::no_node);
  EXPECT_EQ(error_of([&] { a->expand(0, "b", "disk"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { a->expand(2, "b", "disk"); }), Errc::not_held);
}

TEST_F(ReplicaGroupTest, APrimaryWritesOnlyWhenItsHandlerHasReturned) {
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  std::promise<void> began;
  ReplicaHandlers handlers = no_handlers();
  handlers.become_primary = [&began, gone](const PrimaryTerm&) {
    began.set_value();
    gone.wait();
  };
  ReplicaGroup group(client(), "/replicas", {"a", "disk"}, std::move(handlers), brisk());
  began.get_future().wait();
  EXPECT_EQ(group.role(), ReplicaRole::primary);
  EXPECT_FALSE(group.may_write());
  EXPECT_FALSE(group.may_serve_reads());
  EXPECT_EQ(group.in_sync().size(), 1U);
  go.set_value();
  EXPECT_TRUE(eventually([&] { return group.may_write(); }));
}

TEST_F(ReplicaGroupTest, ANewPrimaryWaitsForTheReadersThatWereTakenOut) {
  ReplicaGroupOptions options = brisk();
  options.read_term = 3s;
  client().create("/replicas", "");
  client().create("/replicas/state", "replicas 1 epoch=4 primary=z minimum=1 forced=0 leaving=1500\na disk 0\n");
  const auto begin = zkclient::BootClock::now();  // The handler is called at some time after the term began.
  TestReplica a(client(), "a", options);
  ASSERT_TRUE(a.may_write());
  EXPECT_GE(zkclient::BootClock::now() - begin, 1500ms);
  EXPECT_EQ(a.epoch(), 5);
  EXPECT_EQ(a->state()->leaving, 1500ms);
}

TEST_F(ReplicaGroupTest, RefusesWhatItCannotPromise) {
  const auto with = [&](Replica self, ReplicaHandlers handlers, ReplicaGroupOptions options = {},
                        zkclient::Path at = "/replicas") {
    return error_of([&] { ReplicaGroup(client(), at, self, std::move(handlers), options); });
  };
  ReplicaGroupOptions quorum;
  quorum.write_quorum = 2;
  EXPECT_EQ(with({"a", "disk"}, no_handlers(), quorum), Errc::unsupported);
  EXPECT_EQ(with({"", "disk"}, no_handlers()), Errc::invalid_argument);
  EXPECT_EQ(with({"a b", "disk"}, no_handlers()), Errc::invalid_argument);
  EXPECT_EQ(with({"a", ""}, no_handlers()), Errc::invalid_argument);
  EXPECT_EQ(with({"a", "disk", std::string(2000, 'x')}, no_handlers()), Errc::invalid_argument);
  EXPECT_EQ(with({"a", "disk"}, {}), Errc::invalid_argument);
  EXPECT_EQ(with({"a", "disk"}, no_handlers(), {}, "/"), Errc::invalid_argument);
  ReplicaGroupOptions none;
  none.minimum = 0;
  EXPECT_EQ(with({"a", "disk"}, no_handlers(), none), Errc::invalid_argument);
  ReplicaGroupOptions early;
  early.settle = -1ms;
  EXPECT_EQ(with({"a", "disk"}, no_handlers(), early), Errc::invalid_argument);
  ReplicaGroupOptions nobody;
  nobody.acl = {};
  EXPECT_EQ(with({"a", "disk"}, no_handlers(), nobody), Errc::invalid_acl);
  EXPECT_TRUE(names().empty());
}

TEST_F(ReplicaGroupTest, LeavesInItsOwnHandler) {
  std::promise<void> made;
  testkit::Box<bool> done;
  std::optional<ReplicaGroup> group;
  ReplicaHandlers handlers = no_handlers();
  handlers.become_primary = [&, is_made = made.get_future().share()](const PrimaryTerm&) {
    is_made.wait();  // The optional says so only then.
    group->leave({.deadline = soon()});
    done.put(true);
  };
  group.emplace(client(), "/replicas", Replica{"a", "disk"}, std::move(handlers), brisk());
  made.set_value();
  EXPECT_TRUE(done.take());
  EXPECT_EQ(group->role(), ReplicaRole::left);
  EXPECT_FALSE(group->may_write());
  group->leave({.deadline = soon()});
}

TEST_F(ReplicaGroupTest, StateCannotBeRead) {
  const zkclient::AclList unreadable = {{zkclient::Acl::write | zkclient::Acl::admin, "world", "anyone"}};
  const std::string state = "replicas 1 epoch=1 primary=b minimum=1 forced=0 leaving=0\na disk 500\n";
  client().create("/replicas", "");
  client().create("/replicas/state", state, {.acl = unreadable});
  TestReplica a(client(), "a", brisk());
  EXPECT_TRUE(eventually([&] { return a.problem() == Errc::no_auth; }));
  EXPECT_FALSE(a->may_write());
  EXPECT_FALSE(a->state());
}

// Else a group could not be destroyed while its handler waits for members that do not answer.
TEST_F(ReplicaGroupTest, AHandlerThatWaitsForTheEndOfItsTermIsToldThatTheGroupLeaves) {
  testkit::Box<bool> began;
  testkit::Box<bool> ended;
  ReplicaHandlers handlers = no_handlers();
  handlers.become_primary = [&](const PrimaryTerm& term) {
    began.put(true);
    ended.put(testkit::stopped(term.lost));
  };
  {
    const ReplicaGroup a(client(), "/replicas", {"a", "disk"}, std::move(handlers), brisk());
    began.take();
  }
  EXPECT_TRUE(ended.take()) << "by the end of the object";
}

TEST_F(ReplicaGroupTest, ClientClosed) {
  zkclient::Client own = make_client();
  TestReplica a(own, "a", brisk());
  ASSERT_TRUE(a.may_write());
  own.close();
  EXPECT_TRUE(a.is(ReplicaRole::left));
  EXPECT_FALSE(a->may_write());
  EXPECT_FALSE(a->may_serve_reads());
  EXPECT_TRUE(a.primary_terms()[0].second.lost.stop_requested());
  EXPECT_EQ(error_of([&] { a->shrink({"b"}); }), Errc::closed);
  EXPECT_EQ(error_of([&] { a->report_version(1); }), Errc::closed);
}

}  // namespace
}  // namespace zkrecipes
