// Those who look at an election, of whichever kind, while everything breaks: the last row of the tables "What goes
// wrong" in <zkrecipes/leader_election.hpp> and <zkrecipes/unfair_leader_election.hpp>.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/any_election.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

using Seen = std::optional<Leader>;

class ElectionObservers : public testkit::AnyElectionTest {
 protected:
  /// Breaks something of an observer that is at rest, and what it asks for next is lost with that. Each fault was hit
  /// when the observer has told what happened after it was armed, because nothing can be told without that request.
  using Trouble = std::function<std::optional<zktesting::Fault>(const Client& observer)>;
  std::vector<Trouble> troubles() {
    return {
        [this](const Client&) { return proxy.drop_next_reply(kind().locating); },
        [this](const Client&) { return proxy.drop_next_reply(RequestType::get_data); },
        [this](const Client&) { return proxy.drop_next_request(RequestType::get_data); },
        [this](const Client&) {  // What is sent first on a new connection.
          auto fault = proxy.drop_next_reply(RequestType::set_watches);
          proxy.cut();
          EXPECT_TRUE(fault.wait(patience));
          return fault;
        },
        [this](const Client&) {
          proxy.cut();
          return std::nullopt;
        },
        [this](const Client& observer) {
          expire(observer);
          return std::nullopt;
        },
    };
  }
  /// While no candidate is there to make it again. The observer of a fair election is told, and looks for the node.
  Trouble removal() {
    return [this](const Client&) {
      std::optional<zktesting::Fault> fault;
      if (is_fair()) fault = proxy.drop_next_reply(RequestType::exists);
      the_operator().remove("/election");
      EXPECT_TRUE(!fault || fault->wait(patience)) << "before the next candidate makes it again";
      return fault;
    };
  }
  static std::optional<zktesting::Fault> none(const Client&) { return std::nullopt; }
};
INSTANTIATE_FOR_ALL_ELECTIONS(ElectionObservers);

// An observer misses no change for good, whatever happens to its connection: after each fault it is told the truth.
TEST_P(ElectionObservers, ObserverUnderFaults) {
  Client client = calm_proxied();
  const Election& observed = candidate(client, "observer");
  Election& election = candidate(the_operator(), "a");
  Box<Seen> seen;
  const auto subscription = observed.observe([&](const Seen& leader) { seen.put(leader); });
  EXPECT_EQ(seen.take(), std::nullopt);
  int number = 0;
  const auto lead = [&](const Trouble& before, const Trouble& meanwhile) {
    const std::string value = std::to_string(++number);
    auto fault = before(client);
    Leadership leadership = election.campaign({.deadline = soon()});
    const auto is_told = [&](const std::optional<std::string>& words) {
      (void)seen.take_until(
          [&](const Seen& leader) { return leader && leader->term == leadership.token() && leader->value == words; });
      EXPECT_TRUE(!fault || fault->happened()) << "fault " << number << " has hit nothing";
    };
    is_told(std::nullopt);
    fault = meanwhile(client);
    leadership.proclaim(value, {.deadline = soon()});
    is_told(value);
    proxy.cut();
    leadership.release({.deadline = soon()});
    (void)seen.take_until([](const Seen& leader) { return !leader; });
  };
  for (const Trouble& trouble : troubles())
    lead(trouble, trouble);
  lead(removal(), none);  // The last one: made anew it is a container, which the server may remove at any time.
}

// Who waits for a leader goes on waiting, whatever happens, and is told of the one that comes.
TEST_P(ElectionObservers, WaitingForALeaderUnderFaults) {
  Client client = calm_proxied();
  const Election& follower = candidate(client, "follower");
  Election& election = candidate(the_operator(), "a");
  client.connect({.deadline = soon()});
  FencingToken last;
  const auto wait = [&](const Trouble& before, const Trouble& meanwhile) {
    const std::size_t looks = proxy.request_count(kind().locating);
    auto first = before(client);
    auto waiting = in_thread([&] { return follower.wait_for_leader({.after = last}, {.deadline = soon()}); });
    // The fair election's follower lists once more when it has found no leader: that watches.
    ASSERT_TRUE(proxy.wait_for_requests(kind().locating, looks + (is_fair() ? 2 : 1), patience));
    client.sync("/", {.deadline = soon()});  // Answered after the look: the follower is at rest.
    auto second = meanwhile(client);
    Leadership leadership = election.campaign({.deadline = soon()});
    leadership.ready({.deadline = soon()});
    last = result_of(waiting).term;
    EXPECT_EQ(last, leadership.token());
    EXPECT_TRUE(!first || first->happened());
    EXPECT_TRUE(!second || second->happened());
    leadership.release({.deadline = soon()});
  };
  // A look begins with a sync.
  wait([this](const Client&) { return proxy.drop_next_reply(RequestType::sync); }, none);
  wait([this](const Client&) { return proxy.drop_next_reply(kind().locating); }, none);
  for (const Trouble& trouble : troubles())
    wait(none, trouble);
  wait(none, removal());
}

}  // namespace
}  // namespace zkrecipes
