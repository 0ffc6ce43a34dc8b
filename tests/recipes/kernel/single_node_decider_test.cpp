#include "recipes/kernel/single_node_decider.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace zkrecipes::detail {
namespace {

namespace rc = zk::rc;
using zk::Reply;
using zkclient::Errc;

constexpr std::int64_t own_session = 7;
constexpr std::int64_t them = 8;
constexpr const char* own = "_c_00000000-0000-4000-8000-000000000001-lock";
constexpr const char* others = "_c_00000000-0000-4000-8000-000000000002-lock";

Reply succeeded() { return Reply{}; }

Reply failed(Errc code) {
  Reply reply;
  reply.error = code;
  return reply;
}

Reply ended_by_caller(Errc code) {
  Reply reply = failed(Errc::in_doubt);
  reply.given_up = code;
  return reply;
}

/// `first`: what became of the node that is ours alone, `second`: of the wanted one.
Reply refused(int first, int second) {
  Reply reply = failed(Errc::transaction_failed);
  reply.codes = {first, second};
  return reply;
}

struct Creation {
  Reply reply;
  std::optional<FlightStep> step;  ///< Nothing: that depends on what was read.
};

const std::vector<Creation>& creations() {
  static const std::vector<Creation> all = {
      {succeeded(), FlightStep::claim},
      {failed(Errc::in_doubt), FlightStep::look},
      {ended_by_caller(Errc::cancelled), FlightStep::failed},
      {ended_by_caller(Errc::deadline_exceeded), FlightStep::failed},
      {refused(rc::node_exists, rc::runtime_inconsistency), FlightStep::look},
      {refused(rc::no_node, rc::runtime_inconsistency), FlightStep::make_parents},
      {refused(rc::no_auth, rc::runtime_inconsistency), FlightStep::failed},
      {refused(rc::ok, rc::node_exists), std::nullopt},
      {refused(rc::ok, rc::no_auth), FlightStep::failed},
      {failed(Errc::transaction_failed), FlightStep::failed},
      {failed(Errc::connection_loss), FlightStep::failed},
      {failed(Errc::session_lost), FlightStep::failed},
      {failed(Errc::cancelled), FlightStep::failed},
      {failed(Errc::deadline_exceeded), FlightStep::failed},
      {failed(Errc::closed), FlightStep::failed},
      {failed(Errc::overloaded), FlightStep::failed},
  };
  return all;
}

struct Reading {
  Reply reply;
  FlightStep step;  ///< If another client has it.
};

const std::vector<Reading>& readings() {
  static const std::vector<Reading> all = {
      {succeeded(), FlightStep::wait},
      {failed(Errc::no_node), FlightStep::try_again},
      {failed(Errc::no_auth), FlightStep::read_failed},
      {failed(Errc::connection_loss), FlightStep::read_failed},
      {failed(Errc::session_lost), FlightStep::read_failed},
      {failed(Errc::cancelled), FlightStep::read_failed},
      {failed(Errc::closed), FlightStep::read_failed},
  };
  return all;
}

TEST(SingleNodeDecider, Flight) {
  for (std::size_t i = 0; i < creations().size(); ++i) {
    for (std::size_t j = 0; j < readings().size(); ++j) {
      const Creation& created = creations()[i];
      const Reading& read = readings()[j];
      const FlightStep step = created.step.value_or(read.step);
      EXPECT_EQ(decide_flight(created.reply, read.reply, false), step) << i << ", " << j;
      const FlightStep later = step == FlightStep::claim ? FlightStep::look : step;
      EXPECT_EQ(decide_flight(created.reply, read.reply, true), later) << i << ", " << j;
    }
  }
}

/// The same reply with so many conditions before, and a change behind, that went well or were not tried.
Reply among(Reply reply, std::size_t conditions) {
  if (reply.codes.empty()) return reply;
  reply.codes.insert(reply.codes.begin(), conditions, rc::ok);
  reply.codes.push_back(rc::runtime_inconsistency);
  return reply;
}

// The two creates mean the same, wherever they stand in the transaction.
TEST(SingleNodeDecider, FlightAmongOperationsOfTheRecipe) {
  for (const std::size_t conditions : {0U, 1U, 2U}) {
    for (const Creation& created : creations()) {
      for (const Reading& read : readings()) {
        EXPECT_EQ(decide_flight(among(created.reply, conditions), read.reply, false, conditions),
                  created.step.value_or(read.step));
      }
    }
  }
}

// Whatever the reason, also one that would mean "taken" or "no parent" of a create, and whoever has the node.
TEST(SingleNodeDecider, FlightRefusedByARecipesOperation) {
  constexpr std::size_t conditions = 2;
  constexpr std::size_t operations = 6;  // Two changes.
  for (const std::size_t refused : {0U, 1U, 4U, 5U}) {
    for (const int code : {rc::bad_version, rc::no_node, rc::node_exists, rc::no_auth}) {
      for (const Reading& read : readings()) {
        Reply reply = failed(Errc::transaction_failed);
        reply.codes.assign(operations, rc::runtime_inconsistency);
        std::fill_n(reply.codes.begin(), refused, rc::ok);
        reply.codes[refused] = code;
        for (const bool later : {false, true})
          EXPECT_EQ(decide_flight(reply, read.reply, later, conditions), FlightStep::refused)
              << refused << ", " << code;
      }
    }
  }
}

// In plain words, for each owner, each age, each way of listing: it is ours if this session owns the wanted node, and
// it is the one of our create.
TEST(SingleNodeDecider, Claim) {
  constexpr std::int64_t czxid = 50;
  const std::vector<std::vector<std::string>> lists = {
      {}, {"lock", own}, {"lock", own, others}, {others, "lock", own}, {"lock", own, "foreign", "_c_x-lock", "-lock"}};
  for (const std::int64_t owner : {own_session, them, std::int64_t{0}}) {
    for (const std::int64_t made : {czxid, czxid + 1}) {
      for (const std::int64_t known : {std::int64_t{0}, czxid}) {
        for (const auto& names : lists) {
          for (const bool listed_ok : {true, false}) {
            Reply wanted = succeeded();
            wanted.stat.ephemeral_owner = owner;
            wanted.stat.czxid = made;
            Reply listed = listed_ok ? succeeded() : failed(Errc::connection_loss);
            listed.names = names;
            ClaimStep expected = ClaimStep::prove;
            if (std::find(names.begin(), names.end(), others) != names.end()) expected = ClaimStep::clear_up;
            if (!listed_ok) expected = ClaimStep::list_failed;
            if (owner != own_session || (known != 0 && known != made)) expected = ClaimStep::vanished;
            EXPECT_EQ(decide_claim({wanted, listed, own_session, known, own, "lock"}), expected)
                << owner << " " << made << " " << known << " " << names.size() << " " << listed_ok;
          }
        }
      }
    }
  }
}

TEST(SingleNodeDecider, ClaimOfWhatCannotBeRead) {
  const Reply listed = succeeded();
  EXPECT_EQ(decide_claim({failed(Errc::no_node), listed, own_session, 0, own, "lock"}), ClaimStep::vanished);
  for (const Errc code : {Errc::connection_loss, Errc::session_lost, Errc::cancelled, Errc::no_auth})
    EXPECT_EQ(decide_claim({failed(code), listed, own_session, 0, own, "lock"}), ClaimStep::wanted_failed);
}

TEST(SingleNodeDecider, NamesOfHoldings) {
  EXPECT_TRUE(is_holding(own, "lock"));
  EXPECT_FALSE(is_holding(own, "leader"));
  for (const char* name :
       {"", "lock", "_c_-lock", "_c_00000000-0000-4000-8000-000000000001lock",
        "_c_00000000-0000-4000-8000-000000000001-lock-0000000001", "_x_00000000-0000-4000-8000-000000000001-lock"})
    EXPECT_FALSE(is_holding(name, "lock")) << name;
  EXPECT_TRUE(is_others(others, own, "lock"));
  EXPECT_FALSE(is_others(own, own, "lock"));
  EXPECT_FALSE(is_others("lock", own, "lock"));
}

TEST(SingleNodeDecider, OnlyASessionsNodeIsEphemeral) {
  const auto owned_by = [](std::uint64_t owner) {
    zkclient::Stat stat;
    stat.ephemeral_owner = static_cast<std::int64_t>(owner);
    return is_ephemeral(stat);
  };
  EXPECT_TRUE(owned_by(0x0100'0000'0000'0001U));
  EXPECT_TRUE(owned_by(0x8100'0000'0000'0001U)) << "a session of a server with a high number";
  EXPECT_FALSE(owned_by(0)) << "persistent";
  EXPECT_FALSE(owned_by(0x8000'0000'0000'0000U)) << "a container";
  EXPECT_FALSE(owned_by(0xff00'0000'0000'03e8U)) << "a node with a time to live of a second";
}

}  // namespace
}  // namespace zkrecipes::detail
