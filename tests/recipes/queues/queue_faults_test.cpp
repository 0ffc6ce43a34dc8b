// One test for each row of the table "What goes wrong" in <zkrecipes/queue.hpp> that needs a fault; the others are in
// queue_test.cpp. And random operations with requests and replies lost at random, of which every item must come out
// once.
//
// ZKRECIPES_SEED=number repeats a run of the latter, ZKRECIPES_SOAK=seconds makes it long.

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include <zkclient/error.hpp>
#include <zkclient/log.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/self_process.hpp"
#include "tests/support/stall_watch.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using zkclient::Acl;

// They need a process of their own, or a file of the server.
const testkit::OnRealServers queues_on_real_servers{"QueueFaults.ClaimersProcessDies",
                                                    "QueueFaults.EveryItemOnceWhateverGetsLost"};

/// What the log has told since.
class Warnings {
 public:
  Warnings() {
    zkclient::set_log_handler([this](zkclient::LogLevel, std::string_view text) {
      const std::lock_guard lock(mutex_);
      texts_.emplace_back(text);
    });
    zkclient::set_log_level(zkclient::LogLevel::warning);
  }
  ~Warnings() {
    zkclient::set_log_level(zkclient::LogLevel::error);
    zkclient::set_log_handler({});
  }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  std::ptrdiff_t count(std::string_view part) const {
    const std::lock_guard lock(mutex_);
    return std::count_if(texts_.begin(), texts_.end(),
                         [&](const std::string& text) { return text.find(part) != std::string::npos; });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

class QueueFaults : public testkit::RecipeFaultTest {
 protected:
  QueueFaults() : RecipeFaultTest("/queue") {}
  static CallOptions within(std::chrono::milliseconds time) { return {.deadline = SteadyClock::now() + time}; }
  static CallOptions until(const std::stop_source& stop) { return {.deadline = soon(), .stop = stop.get_token()}; }
  std::size_t items() { return names("/queue/items").size(); }
  bool claims(std::size_t count) {
    return eventually([&] { return names("/queue/claims").size() == count; });
  }
  /// Lets nobody delete what is in the folder of the items, or everybody.
  void forbid_removal(bool forbidden) {
    constexpr auto all_but_remove = Acl::all & ~Acl::remove;
    the_operator().set_acl("/queue/items", {{.permissions = forbidden ? all_but_remove : Acl::all}});
  }
  /// Waits until a producer has seen, through the proxy, that there is no room, and waits for some.
  bool waits_for_room(Queue& queue, std::size_t lists) {
    if (!proxy.wait_for_requests(RequestType::get_children2, lists, patience)) return false;
    (void)queue.size(patient());  // Answered after the list.
    return true;
  }
  void remove_first() {
    const std::vector<QueueItem> all = Queue(the_operator(), "/queue").list(patient());
    the_operator().remove(Path("/queue/items") / all.front().node);
  }
  static unsigned choose_seed() {
    const char* chosen = std::getenv("ZKRECIPES_SEED");
    const unsigned seed =
        chosen != nullptr ? static_cast<unsigned>(std::strtoul(chosen, nullptr, 10)) : std::random_device()();
    GTEST_LOG_(INFO) << "ZKRECIPES_SEED=" << seed;
    return seed;
  }
  static SteadyClock::time_point end_of_run() {
    const char* soak = std::getenv("ZKRECIPES_SOAK");
    return SteadyClock::now() + (soak != nullptr ? std::chrono::seconds(std::atoi(soak)) : 3s);
  }
  /// So many connections broke that it was not tried any longer: nothing was done.
  static bool has_given_up(const Error& error) { return error.errc() == Errc::connection_loss; }
  /// It was in doubt with its session, so that nobody can put the item back.
  static bool is_lost(const Error& error) {
    return std::string_view(error.what()).find(" may have been taken") != std::string_view::npos;
  }
  /// The number of the node that a pop has taken, or not, as its error says.
  static int item_in_doubt(const Error& error) {
    constexpr std::size_t digits = 10;
    const std::string& node = error.node();
    EXPECT_GT(node.size(), digits) << error.what();
    EXPECT_NE(error.detail().find(node), std::string::npos) << error.what();
    return node.size() > digits ? std::stoi(node.substr(node.size() - digits)) : -1;
  }
  /// The item that a node held when it was made. The node is gone, but the server's log of transactions has its path
  /// and then its data, behind four bytes of length.
  std::string item_created_at(const std::string& node) const {
    for (const auto& file : std::filesystem::directory_iterator(server.real().directory() / "data" / "version-2")) {
      if (!file.path().filename().string().starts_with("log.")) continue;
      std::ifstream stream(file.path(), std::ios::binary);
      const std::string log((std::istreambuf_iterator<char>(stream)), {});
      const std::size_t data = log.find(node) + node.size() + 4;
      if (data < node.size() + 4 || data > log.size()) continue;
      return log.substr(data, static_cast<unsigned char>(log[data - 1]));  // The items of these tests are short.
    }
    ADD_FAILURE() << node << " was named, and has never been there";
    return "";
  }
  /// For calls whose time is to be over behind the sending: once more if it was over before. `late` makes the call, and
  /// tells whether its time was over.
  static void repeat_until_sent(const zktesting::HeldReply& held, const std::function<bool()>& late) {
    const auto end = soon();
    while (late() && !held.happened() && SteadyClock::now() < end) {
    }
  }
  template <typename AnyQueue>
  void expect_every_item_once(const std::function<void(AnyQueue&, std::vector<std::string>)>& push_all);
  /// Waits until the client has seen to everything that it was told before.
  static void flush(Queue& queue) {
    Box<Result<void>> seen;
    queue.async_push_all({}, [&](Result<void> result) { seen.put(std::move(result)); });
    seen.take().value();
  }
};

TEST_F(QueueFaults, PushLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("0", patient());
  int pushed = 1;
  for (const bool request : {true, false}) {
    auto fault = lose(request);
    queue.push(std::to_string(pushed++), patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(items(), static_cast<std::size_t>(pushed));
    fault = lose(request);
    queue.push_all({std::to_string(pushed), std::to_string(pushed + 1)}, patient());
    pushed += 2;
    EXPECT_TRUE(fault.wait(patience));
  }
  for (int i = 0; i < pushed; ++i)
    EXPECT_EQ(queue.pop(patient()), std::to_string(i));
  EXPECT_EQ(items(), 0u);
}

TEST_F(QueueFaults, FirstPushLost) {
  for (const bool request : {true, false}) {
    Client client = calm_proxied();
    Queue queue(client, "/queue");
    auto slot = lose(request, RequestType::create2);
    queue.push("x", patient());
    EXPECT_TRUE(slot.wait(patience));
    EXPECT_EQ(queue.pop(patient()), "x");
    EXPECT_EQ(items(), 0u);
  }
}

// It also reads the folder of the items, and writes to it.
TEST_F(QueueFaults, PushWithALimitLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue", {.capacity = 100});
  queue.push("0", patient());
  std::size_t pushed = 1;
  for (const RequestType type : {RequestType::get_data, RequestType::multi}) {
    for (const bool request : {true, false}) {
      auto fault = lose(request, type);
      queue.push(std::to_string(pushed++), patient());
      EXPECT_TRUE(fault.wait(patience));
      EXPECT_EQ(items(), pushed);
    }
  }
  for (std::size_t i = 0; i < pushed; ++i)
    EXPECT_EQ(queue.pop(patient()), std::to_string(i));
}

TEST_F(QueueFaults, PopLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue rival(the_operator(), "/queue");
  queue.push_all({"a", "b", "c", "d", "e"}, patient());
  EXPECT_EQ(queue.pop(patient()), "a");
  for (const bool request : {true, false}) {
    auto fault = lose(request);
    EXPECT_EQ(queue.pop(patient()), request ? "b" : "c");
    EXPECT_TRUE(fault.wait(patience));
  }
  EXPECT_EQ(rival.pop(patient()), "d");
  EXPECT_EQ(queue.pop(patient()), "e");
  EXPECT_FALSE(rival.try_pop());
}

TEST_F(QueueFaults, ListOrReadLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue other(the_operator(), "/queue");
  for (const RequestType type : {RequestType::get_children2, RequestType::get_data}) {
    for (const bool request : {true, false}) {
      other.push("x", patient());
      auto fault = lose(request, type);
      EXPECT_EQ(queue.pop(patient()), "x");
      EXPECT_TRUE(fault.wait(patience));
    }
  }
}

TEST_F(QueueFaults, ClaimLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push_all({"a", "b"}, patient());
  for (const bool request : {true, false}) {
    auto fault = lose(request);
    Claim claim = queue.claim(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(claim.data(), request ? "a" : "b");
    EXPECT_EQ(claim.deliveries(), 1);
    EXPECT_TRUE(claim.valid());
    EXPECT_TRUE(claims(1));
    claim.commit(patient());
  }
  EXPECT_EQ(items(), 0u);
  EXPECT_TRUE(claims(0));
}

// A commit that did not happen is never reported as one that did.
TEST_F(QueueFaults, CommitOrGiveBackLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push_all({"a", "b", "c"}, patient());
  for (const bool request : {true, false}) {
    Claim claim = queue.claim(patient());
    auto fault = lose(request);
    claim.give_back(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_TRUE(claims(0));
    claim = queue.claim(patient());
    EXPECT_EQ(claim.data(), request ? "a" : "b");
    EXPECT_EQ(claim.deliveries(), 2);
    fault = lose(request);
    claim.commit(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(items(), request ? 2u : 1u);
    EXPECT_TRUE(claims(0));
  }
  EXPECT_EQ(queue.pop(patient()), "c");
}

// By who claims it next, and by who gives it back once too often.
TEST_F(QueueFaults, BurialLost) {
  Client client = calm_proxied();
  Queue dead(the_operator(), "/queue/dead");
  for (const bool request : {true, false}) {
    Queue queue(client, "/queue", {.max_deliveries = 1});
    Queue lenient(the_operator(), "/queue");
    lenient.push("a", patient());
    lenient.claim(patient()).give_back(patient());
    queue.push("b", patient());
    auto fault = lose(request);
    Claim claim = queue.claim(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(claim.data(), "b");
    EXPECT_EQ(items(), 1u);
    fault = lose(request);
    claim.give_back(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(items(), 0u);
    EXPECT_EQ(dead.pop(patient()), "a");
    EXPECT_EQ(dead.pop(patient()), "b");
    EXPECT_FALSE(dead.try_pop(patient())) << "each once";
    EXPECT_TRUE(claims(0));
  }
}

TEST_F(QueueFaults, RejectionLost) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue dead(the_operator(), "/queue/dead");
  for (const bool request : {true, false}) {
    queue.push_all({"poison", "good"}, patient());
    Claim claim = queue.claim(patient());
    auto fault = lose(request);
    claim.reject("nobody can read it", patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_FALSE(claim.valid());
    Claim letter = dead.claim(patient());
    EXPECT_EQ(letter.data(), "poison");
    EXPECT_EQ(letter.reason(), "nobody can read it");
    letter.commit(patient());
    EXPECT_FALSE(dead.try_pop(patient())) << "it came once";
    EXPECT_EQ(queue.pop(patient()), "good");
    EXPECT_EQ(items(), 0u);
    EXPECT_TRUE(claims(0));
  }
}

TEST_F(QueueFaults, SessionLostWhileRejectWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("poison", patient());
  Claim claim = queue.claim(patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] { return error_of([&] { claim.reject("nobody can read it", patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  expire(client);
  proxy.cut();
  held.release();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  EXPECT_FALSE(claim.valid());
}

TEST_F(QueueFaults, SessionLostBeforeReject) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("poison", patient());
  Claim claim = queue.claim(patient());
  const auto id = client.session().credentials();
  refuse_and_cut();
  auto waiting = in_thread([&] { return error_of([&] { claim.reject("nobody can read it", patient()); }); });
  zktesting::expire(server.connect_string(), id.id, id.password);
  proxy.refuse(false);
  EXPECT_EQ(result_of(waiting), Errc::not_held);
  EXPECT_TRUE(claims(0));
  EXPECT_EQ(queue.pop(patient()), "poison") << "it was not rejected";
}

TEST_F(QueueFaults, CommitRefusedForAnotherReason) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("a", patient());
  Claim claim = queue.claim(patient());
  forbid_removal(true);
  EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::no_auth);
  for (const bool request : {true, false}) {
    auto fault = lose(request);
    EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::no_auth);
    EXPECT_TRUE(fault.wait(patience));
  }
  EXPECT_TRUE(claim.valid()) << "nothing has happened";
  EXPECT_FALSE(claim.lost().stop_requested());
  EXPECT_EQ(items(), 1u);
  EXPECT_TRUE(claims(1));
  forbid_removal(false);
  claim.commit(patient());
  EXPECT_EQ(items(), 0u);
  EXPECT_TRUE(claims(0));
}

TEST_F(QueueFaults, ClaimDroppedWhileCommitting) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("a", patient());
  for (const bool refused : {true, false}) {
    std::optional<Claim> claim = queue.claim(patient());
    EXPECT_EQ(claim->data(), "a");
    forbid_removal(refused);
    auto held = proxy.hold_next_reply(RequestType::multi);
    Box<Result<void>> done;
    claim->async_commit([&](Result<void> result) { done.put(std::move(result)); }, patient());
    ASSERT_TRUE(held.wait(patience));
    claim.reset();
    flush(queue);
    held.release();
    const Result<void> outcome = done.take();
    EXPECT_EQ(!outcome, refused);
    if (refused) {
      EXPECT_EQ(outcome.error().errc(), Errc::no_auth);
    }
    EXPECT_TRUE(claims(0)) << "given back, or gone";
    forbid_removal(false);
  }
  EXPECT_FALSE(queue.try_pop(patient()));
}

// The delay holds, whatever becomes of a commit that was begun before.
TEST_F(QueueFaults, ClaimGivenBackAfterAWhileWhileCommitting) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("a", patient());
  Claim claim = queue.claim(patient());
  forbid_removal(true);
  auto held = proxy.hold_next_reply(RequestType::multi);
  Box<Result<void>> done;
  claim.async_commit([&](Result<void> result) { done.put(std::move(result)); }, patient());
  ASSERT_TRUE(held.wait(patience));
  claim.give_back_after(1h);
  flush(queue);
  held.release();
  EXPECT_FALSE(done.take());
  (void)client.exists("/queue", patient());  // Answered after what was sent before.
  EXPECT_EQ(names("/queue/claims").size(), 1u);
  client.close();
  EXPECT_TRUE(claims(0));
  forbid_removal(false);
  EXPECT_EQ(Queue(the_operator(), "/queue").pop(patient()), "a");
}

TEST_F(QueueFaults, ConnectionBreaksWhileWaiting) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue other(the_operator(), "/queue");
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  ASSERT_TRUE(eventually([&] { return server.watch_count() > 0; }));
  refuse_and_cut();
  other.push("pushed meanwhile", patient());
  proxy.refuse(false);
  EXPECT_EQ(result_of(waiting), "pushed meanwhile");
}

// For queues: it goes on with the next session.
TEST_F(QueueFaults, SessionLostWhileWaiting) {
  Client client = calm_direct();
  Queue queue(client, "/queue");
  Queue other(the_operator(), "/queue");
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  ASSERT_TRUE(eventually([&] { return server.watch_count() > 0; }));
  expire(client);
  other.push("x", patient());
  EXPECT_EQ(result_of(waiting), "x");
  other.push("y", patient());
  EXPECT_EQ(queue.claim(patient()).data(), "y");
}

TEST_F(QueueFaults, ConnectionBreaksWhilePushWaitsForRoom) {
  Client client = calm_proxied();
  Queue queue(client, "/queue", {.capacity = 1});
  queue.push("0", patient());
  std::size_t lists = 0;
  for (const bool request : {true, false}) {
    auto fault = lose(request, RequestType::get_children2);
    auto waiting = in_thread([&] { queue.push("next", patient()); });
    ASSERT_TRUE(fault.wait(patience));
    ASSERT_TRUE(waits_for_room(queue, lists += 2));
    refuse_and_cut();
    remove_first();
    EXPECT_EQ(items(), 0u);
    proxy.refuse(false);
    result_of(waiting);
    EXPECT_EQ(items(), 1u);
  }
}

TEST_F(QueueFaults, SessionLostWhilePushWaitsForRoom) {
  Client client = calm_proxied();
  Queue queue(client, "/queue", {.capacity = 1});
  queue.push("a", patient());
  auto waiting = in_thread([&] { queue.push("b", patient()); });
  ASSERT_TRUE(waits_for_room(queue, 1));
  expire(client);
  ASSERT_TRUE(waits_for_room(queue, 2)) << "on the next session";
  EXPECT_EQ(items(), 1u);
  remove_first();
  result_of(waiting);
  EXPECT_EQ(items(), 1u);
  EXPECT_EQ(queue.pop(patient()), "b");
}

// A claimed item takes its room up until it is committed, no matter which consumer claims it.
TEST_F(QueueFaults, SessionLostWhileClaimedFromAFullQueue) {
  Client client = calm_direct();
  Queue queue(client, "/queue");
  Client proxied = calm_proxied();
  Queue other(proxied, "/queue", {.capacity = 2});
  other.push_all({"a", "b"}, patient());
  const Claim claim = queue.claim(patient());
  auto waiting = in_thread([&] { other.push("c", patient()); });
  ASSERT_TRUE(waits_for_room(other, 1));
  EXPECT_FALSE(other.try_push("d", patient()));
  expire(client);
  EXPECT_TRUE(claims(0));
  EXPECT_FALSE(other.try_push("d", patient())) << "it has come back";
  EXPECT_EQ(other.pop(patient()), "a");
  result_of(waiting);
  EXPECT_FALSE(other.try_push("d", patient()));
  EXPECT_EQ(other.pop(patient()), "b");
  EXPECT_EQ(other.pop(patient()), "c");
}

TEST_F(QueueFaults, SessionLostWhilePopWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push_all({"a", "b"}, patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] { return error_of([&] { (void)queue.pop(patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  expire(client);
  proxy.cut();
  held.release();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  EXPECT_EQ(queue.pop(patient()), "b") << "a was taken, and its taker knows that it does not know";
}

TEST_F(QueueFaults, SessionLostWhilePushWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("a", patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] { return error_of([&] { queue.push("b", patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  expire(client);
  proxy.cut();
  held.release();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  queue.push("c", patient());
  EXPECT_EQ(items(), 3u);
}

// What a process does that is killed.
[[noreturn]] void claim_for_ever(const std::string& hosts) {
  // It ends when the process is killed, and not before, or an item would be claimed twice.
  const Client client(hosts, {.session_timeout = 12s});
  Queue queue(client, "/queue", {.prefetch = 1});
  const Claim claim = queue.claim({.deadline = soon()});
  std::cout << "claimed" << std::endl;
  ::alarm(300);  // Ends it if nobody kills it.
  for (;;)
    ::pause();
}

TEST_F(QueueFaults, ClaimersProcessDies) {
  Queue queue(the_operator(), "/queue");
  queue.push_all({"a", "b", "c", "d"}, patient());
  testkit::Box<std::string> steps;
  int workers = 0;
  // What was claimed ahead goes back after a second, which a busy machine may need to look: then another one dies.
  for (bool ahead = false; !ahead; ++workers) {
    ASSERT_LT(workers, 5) << "one was claimed ahead";
    auto worker = std::make_unique<testkit::SelfProcess>(
        std::vector<std::string>{"--claim", server.connect_string()},
        [&](const std::vector<std::string>& words) { steps.put(words.front()); });
    ASSERT_EQ(steps.take(), "claimed");
    ahead = eventually([&] { return names("/queue/claims").size() == 2; }, 1s);
    worker.reset();
    ASSERT_TRUE(claims(0));
  }
  EXPECT_EQ(items(), 4u);
  Claim again = queue.claim(patient());
  EXPECT_EQ(again.deliveries(), workers + 1);
  again.give_back(patient());
  for (const char* item : {"a", "b", "c", "d"})
    EXPECT_EQ(queue.pop(patient()), item);
}

// The commit was done, or never arrived.
TEST_F(QueueFaults, SessionLostWhileCommitWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue other(the_operator(), "/queue");
  queue.push_all({"a", "b"}, patient());
  for (const bool done : {true, false}) {
    Claim claim = queue.claim(patient());
    EXPECT_EQ(claim.data(), done ? "a" : "b");
    const auto session = client.session();
    const auto id = session.credentials();
    std::optional<zktesting::HeldReply> held;
    std::optional<zktesting::Fault> fault;
    if (done) {
      held.emplace(proxy.hold_next_reply(RequestType::multi));
    } else {
      fault.emplace(proxy.drop_next_request(RequestType::multi));
    }
    proxy.refuse(true);
    auto waiting = in_thread([&] { return error_of([&] { claim.commit(patient()); }); });
    ASSERT_TRUE(done ? held->wait(patience) : fault->wait(patience));
    zktesting::expire(server.connect_string(), id.id, id.password);
    proxy.cut();
    proxy.refuse(false);
    EXPECT_EQ(result_of(waiting), Errc::in_doubt);
    EXPECT_FALSE(claim.valid());
    EXPECT_TRUE(stopped(claim.lost()));
    EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::not_held);
    EXPECT_EQ(items(), 1u);
    EXPECT_TRUE(claims(0));
  }
  EXPECT_EQ(other.claim(patient()).deliveries(), 2) << "b has come back";
}

TEST_F(QueueFaults, SessionLostWhileClaimed) {
  Client client = calm_direct();
  Queue queue(client, "/queue", {.prefetch = 2});
  Queue other(the_operator(), "/queue");
  queue.push_all({"a", "b", "c", "d", "e", "f"}, patient());
  Claim claim = queue.claim(patient());
  // Those ahead go back after a second, which a busy machine may need to look: then once more.
  for (int attempt = 0; !eventually([&] { return names("/queue/claims").size() == 3; }, 1s); ++attempt) {
    ASSERT_LT(attempt, 5);
    ASSERT_TRUE(claims(1));
    claim.give_back(patient());
    claim = queue.claim(patient());
  }
  auto taken = in_thread([&, call = patient()] {
    for (;;) {
      Claim next = other.claim(call);
      if (next.data() == "a") return next;
    }
  });
  expire(client);
  Claim theirs = result_of(taken);
  EXPECT_TRUE(stopped(claim.lost()));
  EXPECT_FALSE(claim.valid());
  EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::not_held);
  EXPECT_TRUE(theirs.valid());
  theirs.commit(patient());
  EXPECT_EQ(queue.claim(patient()).data(), "b") << "what was claimed ahead has come back too";
}

// For claims: nobody else has it before the loss is known here.
TEST_F(QueueFaults, PartitionedPastExpiryWhileClaimed) {
  Client client(proxy.connect_string(), {.session_timeout = testkit::contended_session});
  Queue queue(client, "/queue");
  queue.push("a", patient());
  Claim claim = queue.claim(patient());
  Queue other(the_operator(), "/queue");
  const testkit::StallWatch stalls;
  auto waiting = in_thread([&] {
    Claim next = other.claim(patient());
    EXPECT_FALSE(claim.valid());
    EXPECT_LT(claim.valid_until(), zkclient::BootClock::now());
    EXPECT_TRUE(claim.lost().stop_requested() || stalls.seen());
    next.commit(patient());
  });
  proxy.stall(Direction::both);
  result_of(waiting);
  proxy.unstall(Direction::both);
  EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::not_held);
  EXPECT_EQ(items(), 0u);
}

TEST_F(QueueFaults, PartitionedPastExpiryWhileCommitting) {
  Client client(proxy.connect_string(), {.session_timeout = testkit::contended_session});
  Queue queue(client, "/queue");
  queue.push("a", patient());
  Claim claim = queue.claim(patient());
  Queue other(the_operator(), "/queue");
  const testkit::StallWatch stalls;
  auto waiting = in_thread([&] {
    Claim next = other.claim(patient());
    EXPECT_TRUE(claim.lost().stop_requested() || stalls.seen());
    next.commit(patient());
  });
  proxy.stall(Direction::both);
  Box<Result<void>> done;
  claim.async_commit([&](Result<void> result) { done.put(std::move(result)); }, patient());
  result_of(waiting);
  proxy.unstall(Direction::both);
  EXPECT_FALSE(done.take());
  EXPECT_FALSE(claim.valid());
  EXPECT_EQ(items(), 0u);
}

TEST_F(QueueFaults, DeadlineOrStopRequestWhilePopWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue other(the_operator(), "/queue");
  queue.push_all({"a", "b", "c"}, patient());
  // The answer comes soon: the item is the caller's.
  auto held = proxy.hold_next_reply(RequestType::multi);
  std::stop_source stop;
  auto waiting = in_thread([&] { return queue.pop({.stop = stop.get_token()}); });
  ASSERT_TRUE(held.wait(patience));
  const auto told = SteadyClock::now();
  stop.request_stop();
  held.release();
  try {
    EXPECT_EQ(result_of(waiting), "a");
  } catch (const Error& error) {  // Or as below.
    EXPECT_EQ(error.errc(), Errc::in_doubt) << error.what();
    EXPECT_GE(SteadyClock::now() - told, 500ms) << "for so long it waits";
    EXPECT_TRUE(eventually([&] { return items() == 3; }));
    EXPECT_EQ(other.pop(patient()), "a");
    (void)client.exists("/queue", patient());  // Answered after what has put it back.
  }
  // It does not: in doubt, and the item goes back to its place.
  held = proxy.hold_next_reply(RequestType::multi);
  auto doubtful =
      in_thread([&] { return error_of([&] { repeat_until_sent(held, [&] { return !queue.try_pop_for(3s); }); }); });
  ASSERT_TRUE(held.wait(patience));
  EXPECT_EQ(result_of(doubtful), Errc::in_doubt);
  EXPECT_EQ(items(), 1u);
  held.release();
  EXPECT_TRUE(eventually([&] { return items() == 2; }));
  EXPECT_EQ(other.pop(patient()), "b");
  EXPECT_EQ(other.pop(patient()), "c");
}

// Where it was: first in a node that holds several. Or, when that is not to be had any more, at the end.
TEST_F(QueueFaults, WhatIsPutBackGoesToItsPlaceOrToTheEnd) {
  Client client = calm_proxied();
  const QueueLayout layout = QueueLayout::curator();
  Queue other(the_operator(), "/queue", {.layout = layout});
  const std::string two("\0\1\0\1\1\0\0\0\1a\1\0\0\0\1b\2", 17);
  const auto fill = [&] {
    the_operator().create("/queue/queue-", two, {.mode = CreateMode::persistent_sequential});
    other.push("c", patient());
  };
  const auto pop_in_doubt = [&](const std::function<void()>& meanwhile) {
    Queue queue(client, "/queue", {.layout = layout});  // It has no list yet that is out of date.
    (void)client.exists("/queue", patient());           // Answered after what has put the last one back.
    auto held = proxy.hold_next_reply(RequestType::multi);
    std::stop_source stop;
    auto waiting = in_thread([&] { return error_of([&] { (void)queue.pop(until(stop)); }); });
    ASSERT_TRUE(held.wait(patience));
    stop.request_stop();
    EXPECT_EQ(result_of(waiting), Errc::in_doubt);
    meanwhile();
  };
  const auto holds = [&](const std::vector<std::string>& expected) {
    EXPECT_TRUE(eventually([&] { return other.peek(patient()) == expected.front(); }));
    for (const std::string& item : expected)
      EXPECT_EQ(other.try_pop_for(patience), item);
    EXPECT_FALSE(other.try_pop(patient()));
  };
  fill();
  pop_in_doubt([] {});
  holds({"a", "b", "c"});
  // Somebody else has gone on with the node.
  fill();
  pop_in_doubt([&] { EXPECT_EQ(other.pop(patient()), "b"); });
  holds({"c", "a"});
  // Its name is taken.
  other.push_all({"x", "y"}, patient());
  const std::string name = other.list(patient()).front().node;
  pop_in_doubt([&] { the_operator().create(Path("/queue") / name, two); });
  holds({"a", "b", "y", "x"});
  // Its folder is gone.
  other.push("x", patient());
  pop_in_doubt([&] { the_operator().remove_tree("/queue", patient()); });
  holds({"x"});
  // It may not be made again, for a while.
  other.push("y", patient());
  std::size_t sent = 0;
  pop_in_doubt([&] {
    the_operator().set_acl("/queue", {{zkclient::Acl::all & ~zkclient::Acl::create, "world", "anyone"}});
    sent = proxy.request_count(RequestType::multi);
  });
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::multi, sent + 3, patience)) << "back, to the end, and once more";
  the_operator().set_acl("/queue", zkclient::open_acl());
  holds({"y"});
}

// Its place and the end of the queue may not be written, or nothing at all.
TEST_F(QueueFaults, ClientClosedWhileAnItemWaitsToBePutBack) {
  constexpr auto all_but_create = Acl::all & ~Acl::create;
  for (const char* closed : {"/queue/items", "/queue/slots"}) {
    SCOPED_TRACE(closed);
    Client client = calm_proxied();
    Queue queue(client, "/queue");
    queue.push("a", patient());
    auto held = proxy.hold_next_reply(RequestType::multi);
    std::stop_source stop;
    auto waiting = in_thread([&] { return error_of([&] { (void)queue.pop(until(stop)); }); });
    ASSERT_TRUE(held.wait(patience));
    stop.request_stop();
    EXPECT_EQ(result_of(waiting), Errc::in_doubt);
    the_operator().set_acl(closed, {{.permissions = all_but_create}});
    const RequestType attempt = closed == std::string_view("/queue/items") ? RequestType::multi : RequestType::create2;
    const std::size_t sent = proxy.request_count(attempt);
    const Warnings warnings;
    held.release();
    const std::size_t attempts = time_is_made() ? 7 : 3;  // The pauses between them become long.
    ASSERT_TRUE(proxy.wait_for_requests(attempt, sent + attempts, patience));
    (void)client.exists("/queue", patient());  // Answered after the last attempt.
    const auto begin = SteadyClock::now();
    client.close();
    if (time_is_made()) {
      EXPECT_LT(SteadyClock::now() - begin, 2s) << "it does not wait for the next attempt";
    }
    EXPECT_EQ(warnings.count(" waits here to be put back: "), 1);
    EXPECT_EQ(warnings.count(" may be lost: "), 1);
    the_operator().set_acl("/queue/items", zkclient::open_acl());
  }
}

// Better one too many than one that is lost.
TEST_F(QueueFaults, WhatIsPutBackNeedsNoRoom) {
  Client client = calm_proxied();
  Queue other(the_operator(), "/queue", {.capacity = 1});
  for (const bool place_taken : {false, true}) {
    Queue queue(client, "/queue", {.capacity = 1});
    queue.push("a", patient());
    const std::string name = names("/queue/items").front();
    auto held = proxy.hold_next_reply(RequestType::multi);
    std::stop_source stop;
    auto waiting = in_thread([&] { return error_of([&] { (void)queue.pop(until(stop)); }); });
    ASSERT_TRUE(held.wait(patience));
    stop.request_stop();
    EXPECT_EQ(result_of(waiting), Errc::in_doubt);
    if (place_taken) {
      the_operator().create(Path("/queue/items") / name, "b");
    } else {
      other.push("b", patient());
    }
    held.release();
    ASSERT_TRUE(eventually([&] { return items() == 2; }));
    EXPECT_FALSE(other.try_push("c", patient()));
    EXPECT_EQ(other.pop(patient()), place_taken ? "b" : "a");
    EXPECT_FALSE(other.try_push("c", patient()));
    EXPECT_EQ(other.pop(patient()), place_taken ? "a" : "b");
    EXPECT_FALSE(other.try_pop(patient()));
  }
}

// The item is read for one caller, who gives up; what becomes of it is the next one's business then.
TEST_F(QueueFaults, SessionLostWhileTheNextCallersPopWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  EXPECT_FALSE(queue.try_pop(patient()));
  queue.push("a", patient());
  auto reading = proxy.hold_next_reply(RequestType::get_data);
  std::stop_source stop;
  auto first = in_thread([&] { return error_of([&] { (void)queue.pop(until(stop)); }); });
  ASSERT_TRUE(reading.wait(patience));
  auto second = in_thread([&] { return error_of([&] { (void)queue.pop(patient()); }); });
  flush(queue);
  stop.request_stop();
  EXPECT_EQ(result_of(first), Errc::cancelled);
  flush(queue);
  auto held = proxy.hold_next_reply(RequestType::multi);
  reading.release();
  ASSERT_TRUE(held.wait(patience));
  expire(client);
  proxy.cut();
  held.release();
  EXPECT_EQ(result_of(second), Errc::in_doubt);
  EXPECT_EQ(items(), 0u);
}

TEST_F(QueueFaults, DeadlineOrStopRequestWhilePushWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("0", patient());
  std::size_t pushed = 1;
  for (const bool stops : {false, true}) {
    auto held = proxy.hold_next_reply(RequestType::multi);
    std::stop_source stop;
    auto waiting = in_thread([&] {
      std::optional<Errc> failure;
      repeat_until_sent(held, [&] {
        failure = error_of([&] { queue.push("x", stops ? until(stop) : within(3s)); });
        return failure == Errc::deadline_exceeded;
      });
      return failure;
    });
    ASSERT_TRUE(held.wait(patience));
    if (stops) stop.request_stop();
    EXPECT_EQ(result_of(waiting), Errc::in_doubt);
    held.release();
    EXPECT_EQ(items(), ++pushed) << "it was pushed, and once";
  }
}

// The commit was done, or never arrived.
TEST_F(QueueFaults, DeadlineOrStopRequestWhileCommitWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push_all({"a", "b"}, patient());
  {
    Claim claim = queue.claim(patient());
    const std::size_t multis = proxy.request_count(RequestType::multi);
    auto held = proxy.hold_next_reply(RequestType::multi);
    auto waiting = in_thread([&] {
      std::optional<Errc> failure;
      repeat_until_sent(held, [&] {
        failure = error_of([&] { claim.commit(within(3s)); });
        return failure == Errc::deadline_exceeded;
      });
      return failure;
    });
    ASSERT_TRUE(held.wait(patience));
    EXPECT_EQ(result_of(waiting), Errc::in_doubt);
    EXPECT_FALSE(claim.valid());
    EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::not_held);
    held.release();
    // Or it would be the request that gets lost below.
    EXPECT_TRUE(proxy.wait_for_requests(RequestType::multi, multis + 2, patience)) << "to remove what is left of it";
    EXPECT_EQ(items(), 1u);
    EXPECT_TRUE(claims(0));
  }
  Claim claim = queue.claim(patient());
  EXPECT_EQ(claim.data(), "b");
  auto fault = lose(true);
  proxy.refuse(true);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { claim.commit(until(stop)); }); });
  ASSERT_TRUE(fault.wait(patience));
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  EXPECT_FALSE(claim.valid());
  proxy.refuse(false);
  Claim again = queue.claim(patient());
  EXPECT_EQ(again.data(), "b") << "it has come back";
  EXPECT_EQ(again.deliveries(), 2);
  again.commit(patient());
  EXPECT_EQ(items(), 0u);
}

TEST_F(QueueFaults, DeadlineOrStopRequestWhileGiveBackWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("a", patient());
  for (const bool arrives : {true, false}) {
    Claim claim = queue.claim(patient());
    std::optional<zktesting::HeldReply> held;
    std::optional<zktesting::Fault> fault;
    if (arrives) {
      held.emplace(proxy.hold_next_reply(RequestType::multi));
    } else {
      fault.emplace(lose(true));
      proxy.refuse(true);
    }
    std::stop_source stop;
    auto waiting = in_thread([&] { return error_of([&] { claim.give_back(until(stop)); }); });
    ASSERT_TRUE(arrives ? held->wait(patience) : fault->wait(patience));
    stop.request_stop();
    EXPECT_EQ(result_of(waiting), Errc::cancelled);
    EXPECT_FALSE(claim.valid());
    if (arrives) held->release();
    proxy.refuse(false);
    EXPECT_TRUE(claims(0)) << "in the background";
  }
  EXPECT_EQ(queue.claim(patient()).deliveries(), 3);
}

// It goes back all the same.
TEST_F(QueueFaults, GiveBackThatWasLeftAndThenRefused) {
  Client client = calm_proxied();
  the_operator().create("/closed", "");
  Queue queue(client, "/queue", {.max_deliveries = 1, .dead_letters = Path("/closed/dead")});
  queue.push("a", patient());
  Claim claim = queue.claim(patient());
  the_operator().remove_tree("/closed/dead", patient());
  the_operator().set_acl("/closed", {{.permissions = Acl::read | Acl::admin}});
  auto held = proxy.hold_next_reply(RequestType::multi);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { claim.give_back(until(stop)); }); });
  ASSERT_TRUE(held.wait(patience));
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
  held.release();
  EXPECT_TRUE(claims(0));
  EXPECT_EQ(items(), 1u);
  the_operator().set_acl("/closed", zkclient::open_acl());
}

TEST_F(QueueFaults, DeadlineWhileClaimWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("a", patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] {
    bool claimed = false;
    repeat_until_sent(held, [&] { return !(claimed = queue.try_claim_for(3s).has_value()); });
    return claimed;
  });
  ASSERT_TRUE(held.wait(patience));
  EXPECT_FALSE(result_of(waiting));
  held.release();
  EXPECT_TRUE(claims(0)) << "it went back";
  EXPECT_EQ(queue.claim(patient()).data(), "a");
}

TEST_F(QueueFaults, ClientClosedWhilePopWaitsForTheAnswer) {
  Client client = calm_proxied();
  auto queue = std::make_unique<Queue>(client, "/queue");
  queue->push("a", patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] { return error_of([&] { (void)queue->pop(patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  refuse_and_cut();
  client.close();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  proxy.refuse(false);
}

TEST_F(QueueFaults, ClientClosedWhilePushWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("a", patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] { return error_of([&] { queue.push("b", patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  refuse_and_cut();
  client.close();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  EXPECT_EQ(items(), 2u);
  proxy.refuse(false);
}

TEST_F(QueueFaults, ClientClosedWhilePushWaitsForRoom) {
  Client client = calm_proxied();
  Queue queue(client, "/queue", {.capacity = 1});
  queue.push("a", patient());
  auto waiting = in_thread([&] { return error_of([&] { queue.push("b", patient()); }); });
  ASSERT_TRUE(waits_for_room(queue, 1));
  client.close();
  EXPECT_EQ(result_of(waiting), Errc::closed);
  EXPECT_EQ(items(), 1u);
}

TEST_F(QueueFaults, ClientClosedWhileCommitWaitsForTheAnswer) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  queue.push("a", patient());
  Claim claim = queue.claim(patient());
  auto held = proxy.hold_next_reply(RequestType::multi);
  auto waiting = in_thread([&] { return error_of([&] { claim.commit(patient()); }); });
  ASSERT_TRUE(held.wait(patience));
  refuse_and_cut();
  client.close();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  EXPECT_FALSE(claim.valid());
  EXPECT_EQ(items(), 0u);
  proxy.refuse(false);
}

TEST_F(QueueFaults, ServerRestarts) {
  // A slow machine takes its time for a restart.
  Client client(server.connect_string(), {.session_timeout = 60s, .server_tick = testkit::server_tick});
  Queue queue(client, "/queue");
  queue.push_all({"a", "b", "c"}, patient());
  EXPECT_EQ(queue.pop(patient()), "a");
  auto claim = std::make_unique<Claim>(queue.claim(patient()));
  server.restart();
  EXPECT_EQ(queue.pop(patient()), "c");
  claim->commit(patient());
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  server.restart();
  queue.push("d", patient());
  EXPECT_EQ(result_of(waiting), "d");
}

TEST_F(QueueFaults, NothingIsLeft) {
  {
    Client client = calm_direct();
    Queue queue(client, "/queue", {.prefetch = 4});
    queue.push_all({"a", "b", "c", "d"}, patient());
    Claim claim = queue.claim(patient());
    claim.commit(patient());
    (void)queue.pop(patient());
    EXPECT_EQ(queue.claim(patient()).data().size(), 1u);
    for (int left = 0; left < 2; ++left)
      (void)queue.pop(patient());
    EXPECT_FALSE(queue.try_pop_for(100ms));
    claim = {};
  }
  EXPECT_TRUE(eventually([&] { return server.ephemeral_count() == 0; })) << server.four_letter_word("dump");
  EXPECT_TRUE(eventually([&] { return server.watch_count() == 0; })) << server.four_letter_word("wchp");
}

// --- Claims have the names of their items, so the next one's claim has the same name ---------------------------------

// A claim that has to go is removed once, although the reply to that is lost.
TEST_F(QueueFaults, ARemovalSentAgainLeavesTheNextClaimAlone) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue other(the_operator(), "/queue");
  Box<Result<void>> pushed;
  for (const char* item : {"a", "b", "c", "d"})  // So that there are several slots.
    queue.async_push(
        item, [&](Result<void> result) { pushed.put(std::move(result)); }, patient());
  for (int i = 0; i < 4; ++i)
    pushed.take().value();
  Claim claim = queue.claim(patient());
  const std::string name = claim.node();
  auto fault = lose(true);
  proxy.refuse(true);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { claim.commit(until(stop)); }); });
  ASSERT_TRUE(fault.wait(patience));
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  // The claim goes once there is a connection, but nobody hears of it.
  auto held = proxy.hold_next_reply(RequestType::multi);
  proxy.refuse(false);
  ASSERT_TRUE(held.wait(patience));
  ASSERT_TRUE(claims(0));
  Claim next = other.claim(patient());
  EXPECT_EQ(next.node(), name);
  proxy.cut();
  held.release();
  (void)queue.size(patient());  // What is sent again goes first.
  flush(queue);
  EXPECT_EQ(names("/queue/claims"), std::vector<std::string>{name});
  next.commit(patient());
}

// The loss is heard of when there is another claim already.
TEST_F(QueueFaults, ClaimDeletedByHandAndTakenBySomebodyElse) {
  Client client = calm_proxied();
  Queue queue(client, "/queue");
  Queue other(the_operator(), "/queue");
  queue.push("a", patient());
  Claim claim = queue.claim(patient());
  const Path node = Path("/queue/claims") / claim.node();
  ASSERT_TRUE(watches(client, node));
  proxy.stall(Direction::to_client);
  the_operator().remove(node);
  Claim next = other.claim(patient());
  const std::size_t before = proxy.request_count(RequestType::any);
  proxy.unstall(Direction::to_client);
  EXPECT_TRUE(stopped(claim.lost()));
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::any, before + 1, patience)) << "to remove what is left of it";
  (void)queue.size(patient());
  EXPECT_EQ(names("/queue/claims").size(), 1u);
  EXPECT_EQ(error_of([&] { claim.commit(patient()); }), Errc::not_held);
  next.commit(patient());
  EXPECT_EQ(items(), 0u);
}

// --- Priorities ---------------------------------------------------------------------------------------------------

class PriorityQueueFaults : public QueueFaults {
 protected:
  bool claims(std::size_t count) {
    return eventually([&] { return names("/queue-claims").size() == count; });
  }
};

// The rows about lost requests and replies.
TEST_F(PriorityQueueFaults, PushPopClaimCommitLost) {
  Client client = calm_proxied();
  PriorityQueue queue(client, "/queue");
  queue.push("last", 9, patient());
  for (const bool request : {true, false}) {
    auto fault = lose(request);
    queue.push("b", 2, patient());
    EXPECT_TRUE(fault.wait(patience));
    fault = lose(request);
    queue.push("a", -1, patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(names().size(), 3u);
    fault = lose(request);
    EXPECT_EQ(queue.pop(patient()), "a");
    EXPECT_TRUE(fault.wait(patience));
    fault = lose(request);
    Claim claim = queue.claim(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(claim.data(), "b");
    fault = lose(request);
    claim.give_back(patient());
    EXPECT_TRUE(fault.wait(patience));
    claim = queue.claim(patient());
    EXPECT_EQ(claim.data(), "b");
    EXPECT_EQ(claim.priority(), 2);
    fault = lose(request);
    claim.commit(patient());
    EXPECT_TRUE(fault.wait(patience));
    EXPECT_EQ(names().size(), 1u);
    EXPECT_TRUE(claims(0));
  }
}

// Whatever gets lost of what tells how old the list is, and of the list.
TEST_F(PriorityQueueFaults, NoInversionByStaleLists) {
  Client client = calm_proxied();
  PriorityQueue queue(client, "/queue");
  PriorityQueue producer(the_operator(), "/queue");
  producer.push_all(std::vector<std::string>(50, "low"), 100, patient());
  int priority = 0;
  for (const RequestType type :
       {RequestType::exists, RequestType::get_children2, RequestType::get_data, RequestType::multi}) {
    for (const bool request : {true, false}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(type)) + (request ? " request" : " reply"));
      // A list that is older than 5 s is read again without a look: then nothing was lost, and it is done once more.
      bool lost = false;
      for (int attempt = 0; attempt < 3 && !lost; ++attempt) {
        EXPECT_EQ(queue.pop(patient()), "low");
        auto fault = lose(request, type);
        producer.push("high", --priority, patient());
        EXPECT_EQ(queue.pop(patient()), "high");
        lost = fault.wait(5s);
        fault.cancel();
      }
      ASSERT_TRUE(lost);
    }
  }
  // Nor by a list that was read before the connection broke.
  EXPECT_EQ(queue.pop(patient()), "low");
  refuse_and_cut();
  producer.push("high", --priority, patient());
  auto waiting = in_thread([&] { return queue.pop(patient()); });
  proxy.refuse(false);
  EXPECT_EQ(result_of(waiting), "high");
  EXPECT_EQ(proxy.request_count(RequestType::sync), 0U)
      << "a look behind it may miss what a server has just acknowledged";
}

// What has come back was in no list, and nobody pushed it.
TEST_F(PriorityQueueFaults, NoInversionAfterACommitInDoubt) {
  Client client = calm_proxied();
  PriorityQueue queue(client, "/queue");
  queue.push_all({"low-1", "low-2", "low-3"}, 5, patient());
  queue.push("high", 1, patient());
  Claim claim = queue.claim(patient());
  EXPECT_EQ(claim.data(), "high");
  auto fault = lose(true);
  proxy.refuse(true);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { claim.commit(until(stop)); }); });
  ASSERT_TRUE(fault.wait(patience));
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  proxy.refuse(false);
  ASSERT_TRUE(claims(0));
  EXPECT_EQ(queue.pop(patient()), "high");
}

// Somebody removes the claims and their folder, which then has changed as often as before.
TEST_F(PriorityQueueFaults, NoInversionWhenTheClaimsAreMadeAgain) {
  Client client = calm_proxied();
  PriorityQueue queue(client, "/queue");
  PriorityQueue other(the_operator(), "/queue");
  queue.push_all({"low-1", "low-2", "low-3"}, 5, patient());
  queue.push("high", 1, patient());
  const Claim claim = other.claim(patient());
  EXPECT_EQ(claim.data(), "high");
  EXPECT_EQ(queue.pop(patient()), "low-1");
  the_operator().remove_tree("/queue-claims", patient());
  the_operator().create("/queue-claims", "");
  the_operator().create("/queue-claims/foreign", "");
  EXPECT_EQ(queue.pop(patient()), "high");
}

// What is put back keeps its priority, and its place.
TEST_F(PriorityQueueFaults, StopRequestWhilePopWaitsForTheAnswer) {
  Client client = calm_proxied();
  PriorityQueue queue(client, "/queue");
  PriorityQueue other(the_operator(), "/queue");
  queue.push_all({"high-1", "high-2"}, 1, patient());
  queue.push("low", 5, patient());
  auto looking = proxy.hold_next_reply(RequestType::multi);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { (void)queue.pop(until(stop)); }); });
  ASSERT_TRUE(looking.wait(patience));  // Ahead of the list.
  auto held = proxy.hold_next_reply(RequestType::multi);
  looking.release();
  ASSERT_TRUE(held.wait(patience));
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::in_doubt);
  held.release();
  ASSERT_TRUE(eventually([&] { return names().size() == 3; }));
  EXPECT_EQ(other.pop(patient()), "high-1");
  EXPECT_EQ(queue.pop(patient()), "high-2");
  EXPECT_EQ(other.pop(patient()), "low");
}

// --- Random faults ------------------------------------------------------------------------------------------------

// Besides lost requests and replies, sessions end. The n-th item is in the n-th node: an item that nobody has got must
// be one that an error named.
template <typename AnyQueue>
void QueueFaults::expect_every_item_once(const std::function<void(AnyQueue&, std::vector<std::string>)>& push_all) {
  const unsigned seed = choose_seed();
  const auto end = end_of_run();
  std::mutex mutex;
  std::map<int, int> taken;
  std::set<int> doubtful;
  const auto note = [&](const std::string& item) {
    const std::lock_guard lock(mutex);
    ++taken[std::stoi(item)];
  };
  const auto doubt = [&](int item) {
    const std::lock_guard lock(mutex);
    doubtful.insert(item);
  };
  std::deque<Client> clients;
  std::deque<AnyQueue> queues;
  for (int c = 0; c < 4; ++c) {
    clients.push_back(calm_proxied());
    queues.emplace_back(clients.back(), "/queue");
  }
  std::vector<std::jthread> consumers;
  for (unsigned c = 0; c < 4; ++c) {
    consumers.emplace_back([&, c](const std::stop_token& stop) {
      std::minstd_rand random(seed + c);
      while (!stop.stop_requested()) {
        std::string claimed;
        try {
          if (c < 2) {
            note(queues[c].pop({.deadline = soon(), .stop = stop}));
            continue;
          }
          Claim claim = queues[c].claim({.deadline = soon(), .stop = stop});
          if (random() % 4 == 0) continue;  // Dropped: given back.
          claimed = claim.data();
          claim.commit(patient());
          note(claimed);
        } catch (const Error& error) {
          const Errc code = error.errc();
          if (code == Errc::in_doubt) {
            doubt(claimed.empty() ? item_in_doubt(error) : std::stoi(claimed));
          } else {
            const bool nothing_done = code == Errc::not_held || code == Errc::cancelled || has_given_up(error);
            EXPECT_TRUE(nothing_done) << error.what();
          }
        }
      }
    });
  }
  std::minstd_rand random(seed);
  constexpr RequestType types[] = {RequestType::multi, RequestType::multi, RequestType::get_data,
                                   RequestType::get_children2, RequestType::create2};
  AnyQueue producer(the_operator(), "/queue");
  int pushed = 0;
  int sessions = 0;
  const auto enough = [&] {
    const std::lock_guard lock(mutex);
    return taken.size() >= 20 && sessions > 0;
  };
  while (SteadyClock::now() < end || !enough()) {
    if (producer.size(patient()) < 50) {
      std::vector<std::string> batch;
      for (int i = 0; i < 50; ++i)
        batch.push_back(std::to_string(pushed++));
      push_all(producer, std::move(batch));
    }
    if (random() % 3 == 0) {
      try {
        expire(clients[random() % clients.size()]);
        ++sessions;
      } catch (const zktesting::Error&) {  // It is over, and its client has not heard of that yet.
      }
    } else {
      const auto fault = lose(random() % 2 == 0, types[random() % std::size(types)]);
      (void)fault.wait(100ms);
    }
  }
  consumers.clear();
  const auto missing = [&] {
    while (const auto item = producer.try_pop(patient()))
      note(*item);
    int count = 0;
    for (int i = 0; i < pushed; ++i)
      count += taken.count(i) == 0 && doubtful.count(i) == 0 ? 1 : 0;
    return count;
  };
  EXPECT_TRUE(eventually([&] { return missing() == 0; })) << missing() << " items are lost, and nobody was told";
  for (const auto& [item, times] : taken)
    EXPECT_EQ(times, 1) << item;
  GTEST_LOG_(INFO) << pushed << " pushed, " << taken.size() << " taken, " << doubtful.size() << " in doubt; "
                   << sessions << " sessions ended";
}

// Every item that was pushed is popped (or committed) exactly once, or is reported in doubt to exactly one caller.
TEST_F(QueueFaults, EveryItemOnceWhateverGetsLost) {
  const unsigned seed = choose_seed();
  const auto end = end_of_run();

  std::mutex mutex;
  std::set<std::string> pushed;
  std::set<std::string> doubtful_pushes;
  std::map<std::string, int> popped;
  std::set<std::string> doubtful_commits;
  int doubtful_pops = 0;
  std::set<std::string> lost_nodes;  // Of pops whose session ended before the answer.
  std::atomic<bool> over{false};     // For those who push.
  std::atomic<bool> producing{true};
  const auto note_pop = [&](const std::string& item) {
    const std::lock_guard lock(mutex);
    ++popped[item];
  };
  const auto doubt = [&](const Error& error, const std::string& committed) {
    if (has_given_up(error)) return;
    EXPECT_EQ(error.errc(), Errc::in_doubt) << error.what();
    const std::lock_guard lock(mutex);
    ++doubtful_pops;
    if (!committed.empty()) {
      doubtful_commits.insert(committed);
    } else if (is_lost(error)) {
      EXPECT_FALSE(error.node().empty()) << error.what();
      EXPECT_TRUE(lost_nodes.insert(error.node()).second) << "told twice: " << error.what();
    }
  };
  // They stay until everything is back that is to be put back.
  std::deque<Client> clients;
  std::deque<Queue> queues;
  for (int c = 0; c < 4; ++c) {
    clients.push_back(calm_proxied());
    queues.emplace_back(clients.back(), "/queue", QueueOptions{.prefetch = c == 3 ? 4 : 0});
  }
  {
    std::vector<std::jthread> crew;
    for (int p = 0; p < 2; ++p) {
      crew.emplace_back([&, p] {
        Client own = calm_proxied();
        Queue queue(own, "/queue", {.capacity = p == 0 ? 40u : 0u});
        for (int i = 0; !over; ++i) {
          const std::string item = std::to_string(p) + "-" + std::to_string(i);
          try {
            queue.push(item, {.deadline = SteadyClock::now() + 2s});
            const std::lock_guard lock(mutex);
            pushed.insert(item);
          } catch (const Error& error) {
            const std::lock_guard lock(mutex);
            if (error.errc() == Errc::in_doubt) {
              doubtful_pushes.insert(item);
            } else {
              EXPECT_TRUE(error.errc() == Errc::deadline_exceeded || has_given_up(error)) << error.what();
            }
          }
        }
      });
    }
    std::vector<std::jthread> consumers;
    for (int c = 0; c < 4; ++c) {
      consumers.emplace_back([&, c] {
        std::minstd_rand random(seed + static_cast<unsigned>(c));
        Queue& queue = queues[static_cast<std::size_t>(c)];
        for (;;) {
          std::string committed;
          const bool last = !producing;
          const auto time = std::chrono::milliseconds(last ? 1500 : random() % 60);
          try {
            if (c < 2) {
              const auto item = queue.try_pop_for(time);
              if (item) note_pop(*item);
              if (!item && last) break;
            } else {
              auto claim = queue.try_claim_for(time);
              if (!claim && last) break;
              if (!claim || random() % 4 == 0) continue;  // Dropped: given back.
              committed = claim->data();
              claim->commit(patient());
              note_pop(committed);
            }
          } catch (const Error& error) {
            doubt(error, committed);
          }
        }
      });
    }
    std::minstd_rand random(seed);
    constexpr RequestType types[] = {RequestType::multi,    RequestType::multi,         RequestType::multi,
                                     RequestType::get_data, RequestType::get_children2, RequestType::create2};
    int faults = 0;
    const auto enough = [&] {
      const std::lock_guard lock(mutex);
      return popped.size() >= 20;
    };
    while (SteadyClock::now() < end || !enough()) {
      const auto fault = lose(random() % 2 == 0, types[random() % std::size(types)]);
      (void)fault.wait(200ms);
      ++faults;
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 40));
    }
    over = true;
    crew.clear();
    // What was armed last may be waiting still.
    producing = false;
    consumers.clear();
    GTEST_LOG_(INFO) << faults << " faults, " << pushed.size() << " pushed, " << doubtful_pushes.size() << " in doubt; "
                     << popped.size() << " popped, " << doubtful_pops << " in doubt";
  }
  Queue queue(the_operator(), "/queue");
  Queue probe(the_operator(), "/queue/probe");
  probe.push("probe", patient());
  const Path probed = Path("/queue/probe/items") / probe.list(patient()).front().node;
  EXPECT_EQ(probe.pop(patient()), "probe");
  EXPECT_EQ(item_created_at(probed.str()), "probe") << "or nothing can be told of the nodes that are gone";
  std::set<std::string> named;
  for (const std::string& node : lost_nodes) {
    const std::string item = item_created_at(node);
    EXPECT_TRUE(pushed.count(item) == 1 || doubtful_pushes.count(item) == 1) << node << " held " << item;
    named.insert(item);
  }
  const auto missing = [&] {
    while (const auto item = queue.try_pop(patient()))
      ++popped[*item];
    std::string lost;
    for (const std::string& item : pushed) {
      if (popped.count(item) + doubtful_commits.count(item) + named.count(item) == 0) lost += item + " ";
    }
    return lost;
  };
  EXPECT_TRUE(eventually([&] { return missing().empty(); })) << "lost, and no error named them: " << missing();
  for (const std::string& node : lost_nodes)
    EXPECT_FALSE(the_operator().exists(Path(node))) << node << " was named, is there, and is not popped";
  EXPECT_TRUE(claims(0));
  for (const auto& [item, times] : popped) {
    EXPECT_EQ(times, 1) << item;
    EXPECT_TRUE(pushed.count(item) == 1 || doubtful_pushes.count(item) == 1) << item;
  }
}

TEST_F(QueueFaults, EveryItemOnceAlthoughSessionsEnd) {
  expect_every_item_once<Queue>(
      [](Queue& queue, std::vector<std::string> items) { queue.push_all(std::move(items), patient()); });
}

TEST_F(PriorityQueueFaults, EveryItemOnceAlthoughSessionsEnd) {
  expect_every_item_once<PriorityQueue>(
      [](PriorityQueue& queue, std::vector<std::string> items) { queue.push_all(std::move(items), 5, patient()); });
}

class DelayQueueRandomFaults : public QueueFaults {};

// Some are due when they are pushed, others a little later.
TEST_F(DelayQueueRandomFaults, EveryItemOnceAlthoughSessionsEnd) {
  unsigned batches = 0;
  expect_every_item_once<DelayQueue>([&](DelayQueue& queue, std::vector<std::string> items) {
    const auto later = std::chrono::milliseconds(20 * (batches++ % 3));
    queue.push_all(std::move(items), std::chrono::system_clock::now() + later, patient());
  });
}

}  // namespace
}  // namespace zkrecipes

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 2 && arguments[0] == "--claim") zkrecipes::claim_for_ever(arguments[1]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
