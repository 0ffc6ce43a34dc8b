#include <zkrecipes/optimistic.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/error.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Names = std::vector<std::string>;

class OptimisticTest : public testkit::RecipeTest {
 protected:
  OptimisticTest() : RecipeTest("/bank") {}
  void SetUp() override {
    RecipeTest::SetUp();
    client().ensure(path(), CreateMode::persistent);
    for (const char* account : {"ann", "bob"})
      client().create(path() / account, "50");
  }
  Optimistic make() { return Optimistic(client(), path()); }
  std::string data(const char* name) { return client().get(path() / name, patient()).data; }
  int money(const char* name) { return std::stoi(data(name)); }
  /// Runs `function`, and `between` in its first run, when it has read what it reads.
  void disturbed(Optimistic& bank, const Optimistic::Function& function, const std::function<void()>& between,
                 int runs = 2) {
    int count = 0;
    bank.atomically(
        [&](OptimisticView& view) {
          EXPECT_EQ(view.attempt(), ++count);
          function(view);
          if (count == 1) between();
        },
        patient());
    EXPECT_EQ(count, runs);
  }

  static inline const Path ann = "/bank/ann";
  static inline const Path bob = "/bank/bob";
  static inline const Path new_one = "/bank/new";
};

void transfer(OptimisticView& view, const Path& from, const Path& to, int amount) {
  view.set(from, std::to_string(std::stoi(view.get(from)) - amount));
  view.set(to, std::to_string(std::stoi(view.get(to)) + amount));
}

TEST_F(OptimisticTest, ReadsAndChangesTogether) {
  Optimistic bank = make();
  EXPECT_EQ(bank.path(), path());
  bank.atomically([](OptimisticView& view) { transfer(view, ann, bob, 20); }, patient());
  EXPECT_EQ(data("ann"), "30");
  EXPECT_EQ(data("bob"), "70");
  EXPECT_EQ(client().exists(ann)->mzxid, client().exists(bob)->mzxid);
}

TEST_F(OptimisticTest, AFunctionSeesItsOwnChanges) {
  Optimistic bank = make();
  bank.atomically(
      [](OptimisticView& view) {
        view.set(ann, "1");
        EXPECT_EQ(view.get(ann), "1");
        EXPECT_EQ(view.find(new_one), std::nullopt);
        EXPECT_EQ(error_of([&] { (void)view.get(new_one); }), Errc::no_node);
        EXPECT_EQ(error_of([&] { view.set(new_one, ""); }), Errc::no_node);
        EXPECT_EQ(error_of([&] { view.create(new_one / "a/b", ""); }), Errc::no_node);
        view.create(new_one, "2");
        view.create(new_one / "a", "3");
        EXPECT_EQ(error_of([&] { view.create(new_one, ""); }), Errc::node_exists);
        EXPECT_EQ(view.children(new_one), Names{"a"});
        view.remove(bob);
        EXPECT_FALSE(view.exists(bob));
        EXPECT_EQ(error_of([&] { view.remove(bob); }), Errc::no_node);
        EXPECT_EQ(error_of([&] { (void)view.children(bob); }), Errc::no_node);
        const Names all = view.children("/bank");
        EXPECT_EQ(std::count(all.begin(), all.end(), "new"), 1);
        EXPECT_EQ(std::count(all.begin(), all.end(), "bob"), 0);
        EXPECT_EQ(error_of([&] { view.remove("/bank"); }), Errc::not_empty);
      },
      patient());
  EXPECT_EQ(data("ann"), "1");
  EXPECT_EQ(data("new"), "2");
  EXPECT_EQ(client().get(new_one / "a").data, "3");
  EXPECT_FALSE(client().exists(bob));
}

TEST_F(OptimisticTest, WhatWasReadIsChangedMeanwhile) {
  Optimistic bank = make();
  const auto pay = [](OptimisticView& view) { transfer(view, ann, bob, 20); };
  disturbed(bank, pay, [&] { client().set(ann, "500"); });
  EXPECT_EQ(data("ann"), "480");
  EXPECT_EQ(data("bob"), "70");
  // Also what is only read.
  disturbed(
      bank, [](OptimisticView& view) { view.set(bob, view.get(ann)); }, [&] { client().set(ann, "7"); });
  EXPECT_EQ(data("bob"), "7");
  disturbed(
      bank, [](OptimisticView& view) { view.set(bob, view.exists(ann) ? "there" : "gone"); },
      [&] { client().remove(ann); });
  EXPECT_EQ(data("bob"), "gone");
  // And by a function that changes nothing.
  std::string seen;
  disturbed(
      bank, [&](OptimisticView& view) { seen = view.get(bob); }, [&] { client().set(bob, "last"); });
  EXPECT_EQ(seen, "last");
}

TEST_F(OptimisticTest, AMissingNodeIsMadeMeanwhile) {
  Optimistic bank = make();
  disturbed(
      bank, [](OptimisticView& view) { view.set(ann, view.find(new_one).value_or("none")); },
      [&] { client().create(new_one, "one"); });
  EXPECT_EQ(data("ann"), "one");
  disturbed(
      bank, [](OptimisticView& view) { view.set(ann, view.find("/bank/x/y/z").value_or("none")); },
      [&] {
        client().ensure("/bank/x/y", CreateMode::persistent);
        client().create("/bank/x/y/z", "deep");
      });
  EXPECT_EQ(data("ann"), "deep");
  // Or is not: the check leaves nothing behind.
  disturbed(
      bank, [](OptimisticView& view) { view.set(ann, view.find("/bank/u/v").value_or("none")); }, [] {}, 1);
  EXPECT_EQ(data("ann"), "none");
  EXPECT_FALSE(client().exists("/bank/u"));
  // The one that it was to make itself.
  disturbed(
      bank,
      [](OptimisticView& view) {
        const Path mine = "/bank/mine";
        view.exists(mine) ? view.set(mine, "found") : view.create(mine, "made");
      },
      [&] { client().create("/bank/mine", "other"); });
  EXPECT_EQ(data("mine"), "found");
}

TEST_F(OptimisticTest, AListChangesMeanwhile) {
  Optimistic bank = make();
  client().create("/bank/list", "");
  const auto copy = [](OptimisticView& view) {
    std::string all;
    for (const std::string& name : view.children("/bank/list"))
      all += name;
    view.set(ann, all);
  };
  disturbed(bank, copy, [&] { client().create("/bank/list/a", ""); });
  EXPECT_EQ(data("ann"), "a");
  disturbed(bank, copy, [&] { client().create("/bank/list/b", ""); });
  EXPECT_EQ(data("ann"), "ab");
  disturbed(bank, copy, [&] { client().remove("/bank/list/a"); });
  EXPECT_EQ(data("ann"), "b");
  disturbed(bank, copy, [&] {
    client().remove("/bank/list/b");
    client().create("/bank/list/b", "");
  });
  disturbed(
      bank, copy, [] {}, 1);
  EXPECT_EQ(data("ann"), "b");
  EXPECT_EQ(names("/bank/list"), Names{"b"}) << "the check leaves nothing behind";
  disturbed(
      bank, [](OptimisticView& view) { view.set(bob, view.exists("/bank/list") ? "there" : "gone"); },
      [&] { client().remove_tree("/bank/list"); });
  EXPECT_EQ(data("bob"), "gone");
}

TEST_F(OptimisticTest, AnEmptyListIsRemoved) {
  Optimistic bank = make();
  client().create("/bank/list", "");
  disturbed(
      bank,
      [](OptimisticView& view) {
        for (const std::string& name : view.children("/bank/list"))
          view.remove(Path("/bank/list") / name);
        view.remove("/bank/list");
      },
      [&] { client().create("/bank/list/late", ""); });
  EXPECT_FALSE(client().exists("/bank/list"));
  client().create("/bank/list", "");
  client().create("/bank/list/a", "");
  EXPECT_EQ(error_of([&] { bank.atomically([](OptimisticView& view) { view.remove("/bank/list"); }, patient()); }),
            Errc::not_empty);
}

TEST_F(OptimisticTest, ChildrenOfEphemeralNodes) {
  Optimistic bank = make();
  client().create("/bank/mayfly", "", {.mode = CreateMode::ephemeral});
  bank.atomically(
      [](OptimisticView& view) {
        EXPECT_EQ(view.children("/bank/mayfly"), Names());
        view.set(ann, "1");
      },
      patient());
  EXPECT_EQ(data("ann"), "1");
}

// What it has seen belongs to two instants: the sum is wrong, and it says so.
TEST_F(OptimisticTest, WhatWasReadDoesNotFitTogether) {
  Optimistic bank = make();
  int runs = 0;
  bank.atomically(
      [&](OptimisticView& view) {
        const int first = std::stoi(view.get(ann));
        if (++runs == 1) client().commit(zkclient::Transaction().set(ann, "0").set(bob, "100"));
        if (first + std::stoi(view.get(bob)) != 100) throw std::logic_error("money has come from nowhere");
        view.set(ann, "100");
        view.set(bob, "0");
      },
      patient());
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(data("ann"), "100");
}

TEST_F(OptimisticTest, AFunctionThrows) {
  Optimistic bank = make();
  const auto broke = [](OptimisticView& view) {
    view.set(ann, "0");
    view.create("/bank/x", "");
    throw std::logic_error("no money");
  };
  EXPECT_THROW(bank.atomically(broke, patient()), std::logic_error);
  Box<Result<void>> told;
  bank.async_atomically(
      broke, [&](auto result) { told.put(std::move(result)); }, patient());
  const Result<void> result = told.take();
  EXPECT_EQ(result.code(), Errc::invalid_argument);
  EXPECT_EQ(result.error().detail(), "no money");
  const auto sets = [](OptimisticView& view) { view.set("/bank/x", ""); };
  EXPECT_EQ(error_of([&] { bank.atomically(sets, patient()); }), Errc::no_node);
  EXPECT_EQ(data("ann"), "50");
  EXPECT_FALSE(client().exists("/bank/x"));
}

TEST_F(OptimisticTest, NodeDeletedAndMadeAgain) {
  Optimistic bank = make();
  const auto again = [&] {
    client().remove(ann);
    client().create(ann, "9");
  };
  const auto run = [&](const Optimistic::Function& function) {
    bank.atomically(
        [&](OptimisticView& view) {
          function(view);
          again();
        },
        patient());
  };
  EXPECT_EQ(error_of([&] { run([](OptimisticView& view) { view.set(ann, "1"); }); }), Errc::foreign_node);
  EXPECT_EQ(data("ann"), "1") << "it was written over";
  client().remove(ann);
  client().create(ann, "50");
  run([](OptimisticView& view) { view.set(bob, view.get(ann)); });
  EXPECT_EQ(data("bob"), "50") << "not noticed: the version is the same";
}

TEST_F(OptimisticTest, AnOperationIsRefused) {
  Optimistic bank = make();
  client().create("/bank/closed", "", {.acl = zkclient::read_only_acl()});
  const auto write = [](OptimisticView& view) {
    view.set(ann, "0");
    view.set("/bank/closed", "1");
  };
  EXPECT_EQ(error_of([&] { bank.atomically(write, patient()); }), Errc::no_auth);
  EXPECT_EQ(data("ann"), "50");
}

TEST_F(OptimisticTest, MoreThanFits) {
  Optimistic bank = make();
  const std::string much(700 * 1024, 'x');
  const auto write = [&](OptimisticView& view) {
    view.set(ann, much);
    view.set(bob, much);
  };
  EXPECT_EQ(error_of([&] { bank.atomically(write, patient()); }), Errc::too_large);
  EXPECT_EQ(data("ann"), "50");
}

// Money goes around, in both directions, and none is made or lost.
TEST_F(OptimisticTest, ManyClientsAtOnce) {
  constexpr int crew_size = 4;
  constexpr int rounds = 25;
  const std::vector<Path> accounts = {ann, bob, "/bank/eve"};
  client().create(accounts[2], "50");
  {
    std::vector<std::jthread> crew;
    for (int i = 0; i < crew_size; ++i) {
      crew.emplace_back([&, i] {
        Client own = make_client();
        Optimistic bank(own, path());
        for (int round = 0; round < rounds; ++round) {
          const Path from = accounts[static_cast<std::size_t>(i + round) % 3];
          const Path to = accounts[static_cast<std::size_t>(i + 2 * round + 1) % 3];
          int sum = 0;
          bank.atomically(
              [&](OptimisticView& view) {
                sum = 0;
                if (from != to) transfer(view, from, to, 1);
                for (const Path& account : accounts)
                  sum += std::stoi(view.get(account));
              },
              patient());
          EXPECT_EQ(sum, 150);
        }
      });
    }
  }
  EXPECT_EQ(money("ann") + money("bob") + money("eve"), 150);
}

TEST_F(OptimisticTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { Optimistic(client(), path(), {.acl = {}}); }), Errc::invalid_acl);
  Optimistic bank = make();
  EXPECT_EQ(error_of([&] { bank.atomically({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { bank.async_atomically({}, [](Result<void>) {}); }), Errc::invalid_argument);
}

}  // namespace
}  // namespace zkrecipes
