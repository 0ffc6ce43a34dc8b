// The model of a server against a real one: three clients send the same random requests to both, and everything that
// comes back must be the same, byte for byte: replies, their zxids and Stats, children and their order, events and where
// they stand among the replies. Times alone are replaced, by a number that follows from the transaction's zxid.
//
// The same with three servers: each client has one of its own, and another one when it comes back. Only one client asks at
// a time, and begins with a sync: how far a follower lags behind differs from run to run. At a leader it begins with a write:
// a leader answers a sync before it has applied what it has told its followers to commit.
//
// ZKRECIPES_RUNS=number: so many requests. ZKRECIPES_SEED=number: the seed of the first round; each has the next.
//
// What differs, and is therefore not asked:
// | request | real server (3.8.0) | model |
// |---|---|---|
// | check outside of a multi, version right | no reply ever (it cannot write a Stat that is not there) | error 0 |
// | createTTL without a TTL's mode, ttl below 0 | the thread that applies transactions ends | bad arguments |
// | a path with characters beyond U+FFFF that comes back (sync, setWatches) | written as two surrogates | as it came |
// | checkWatches of "relative/a" | depends on recursive watches of other clients | marshalling error |
// | multi with reads, multiRead with writes | marshalling error, sometimes without a zxid of its own | with one |
// | whoAmI, createSession and deleteContainer from a client | answered | unimplemented, closed |
// | quotas | counted, and enforced if that is switched on | none |
// And what a real server does differently from run to run, so that a client here waits for the reply before it goes on:
// | request | what a next request meets that is on its way already |
// |---|---|
// | setACL | the old ACL, until the new one is applied |
// | a create whose mode is not that of its operation | the owner by the mode; later that by the operation |
// | a multi that stumbles over its third part, say | nodes of the first two, until the multi is applied |
// | closeSession | parents that still count the session's ephemeral nodes |
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comparison.hpp"
#include "ensemble_model.hpp"
#include "local_server.hpp"
#include "random_requests.hpp"
#include "simulation/servers/access.hpp"
#include "simulation/servers/owner.hpp"
#include "wire_text.hpp"
#include "zktesting/ensemble.hpp"

namespace zktesting::simulated {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t requests_in_all = 100'000;
constexpr std::uint64_t requests_of_an_ensemble = 10'000;
constexpr std::uint64_t requests_of_a_round = 2'000;

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

Request chosen_request(Op op, std::string path = {}) {
  Request request;
  request.op = op;
  request.path = std::move(path);
  return request;
}

Request failing_write() {
  Request request = chosen_request(Op::remove, "/nothing");
  request.version = -1;
  return request;
}

Request create_of(const std::string& path, std::int32_t flags = mode::persistent) {
  Request request = chosen_request(Op::create, path);
  request.flags = flags;
  request.data = "";
  request.acl = {{perms::all, {"world", "anyone"}}};
  return request;
}

/// Each real server has addresses of its own in it.
bool names_configuration(const Request& request) {
  const auto is_it = [](const std::string& path) { return path == "/zookeeper/config"; };
  return is_it(request.path) || std::ranges::any_of(request.data_watches, is_it) ||
         std::ranges::any_of(request.parts, names_configuration);
}

ServerOptions options() {
  ServerOptions options;
  options.container_check_interval = 24h;
  options.jvm_flags = {"-Dorg.slf4j.simpleLogger.defaultLogLevel=off",  // Else it tells the log of each error.
                       "-Dzookeeper.DigestAuthenticationProvider.superDigest=" + digest_of(RandomRequests::super)};
  return options;
}

detail::Endpoint endpoint_of(const zktesting::Server& server) { return {server.address(), server.port()}; }

/// Of real servers on which nothing else happens.
Beginning beginning_of(const zktesting::Server& server) {
  RealConnection connection(endpoint_of(server), 30s);
  const auto ask = [&](Request request) {
    connection.send(Encoder().buffer(encode_request(request)).bytes());
    const std::optional<std::string> reply = connection.next();
    if (!reply) throw Error("the server does not say what there is");
    return *reply;
  };
  Request exists = chosen_request(Op::exists, "/");
  exists.xid = 1;
  const std::string found = ask(exists);
  const Stat root = Decoder(std::string_view(found).substr(16)).stat();
  const std::string closed = ask(chosen_request(Op::close_session));
  return {Decoder(std::string_view(closed).substr(4)).int64(), (root.cversion + root.num_children) / 2};
}

/// Three clients that ask at random, one at a time.
class RandomClients {
 public:
  RandomClients(Comparison& both, std::uint64_t seed)
      : both_(both), random_(seed), requests_(random_.fork(), fmt::format("/r{}", seed)), seed_(seed) {}

  /// Of several servers, those at which a sync brings what others have written; a client of another one writes.
  std::set<std::size_t> followers = {};
  /// True: all was the same.
  bool play(std::uint64_t requests);

 private:
  bool begin_turn(Comparison::Client& client);
  bool step(Comparison::Client& client);
  bool ask_some(Comparison::Client& client);
  bool break_off(Comparison::Client& client);
  bool all(Op op);

  Comparison& both_;
  Random random_;
  RandomRequests requests_;
  const std::uint64_t seed_;
};

/// A real server, and its model.
class Differential : public ::testing::Test {
 protected:
  explicit Differential(const ServerOptions& how = options(), TreeOptions tree = {})
      : server_(how), model_(beginning_of(server_).last_zxid, tree, digest_of(RandomRequests::super)) {}

  Comparison comparison(std::size_t clients) { return {{endpoint_of(server_)}, model_, times_, clients}; }

  bool round(std::uint64_t seed) {
    Comparison both = comparison(3);
    return RandomClients(both, seed).play(requests_of_a_round);
  }

  zktesting::Server server_;
  LocalServer model_;
  Times times_;
};

// What others have written is there, on this client's server, before the sync is answered. The first of its requests need not
// wait for that.
bool RandomClients::begin_turn(Comparison::Client& client) {
  if (both_.servers() == 1) return true;
  both_.add(client, followers.contains(client.server) ? chosen_request(Op::sync, "/") : failing_write());
  return random_.one_in(2) || both_.flush(client);
}

bool RandomClients::ask_some(Comparison::Client& client) {
  Comparison& both = both_;
  RandomRequests& requests = requests_;
  const auto waits = [](const Request& request) { return RandomRequests::waits(request); };
  for (auto left = requests.random().one_in(5) ? 1 : requests.random().between(2, 120); left > 0; --left) {
    const Request request = requests.next(both.last_zxid());
    if (both.servers() > 1 && names_configuration(request)) continue;
    if (requests.random().one_in(200))
      both.add_cut(client, request, static_cast<std::size_t>(requests.random().between(1, 60)));
    else
      both.add(client, request);
    if (waits(request) || std::any_of(request.parts.begin(), request.parts.end(), waits)) break;
  }
  return both.flush(client);
}

/// The end of a connection in one of several ways, and a new one.
bool RandomClients::break_off(Comparison::Client& client) {
  Comparison& both = both_;
  RandomRequests& requests = requests_;
  switch (requests.random().below(6)) {
    case 0:
      if (!both.ask(client, chosen_request(Op::close_session))) return false;
      both.open(client);
      return true;
    case 1: both.add(client, requests.fatal()); break;
    case 2: both.add_bytes(client, Encoder().buffer(std::string(6, '\0')).bytes(), "half a header"); break;
    case 3:
      both.add_bytes(client, Encoder().int32(FrameReader::usual_max_buffer + 1).bytes(), "the length of a long frame");
      break;
    default: break;
  }
  if (!both.flush(client)) return false;
  client.server = random_.below(both.servers());
  both.resume(client);
  return true;
}

bool RandomClients::step(Comparison::Client& client) {
  if (!begin_turn(client)) return false;
  if (requests_.random().one_in(25)) return both_.flush(client) && both_.ask(client, requests_.auth());
  if (requests_.random().one_in(40)) return both_.flush(client) && break_off(client);
  const bool same = ask_some(client);
  requests_.note_created(both_.created());
  return same;
}

bool RandomClients::all(Op op) {
  for (std::size_t i = 0; i < both_.clients(); ++i) {
    const bool same = begin_turn(both_.client(i)) && both_.ask(both_.client(i), chosen_request(op));
    if (!same) return false;
  }
  return true;
}

bool RandomClients::play(std::uint64_t requests) {
  for (std::size_t i = 0; i < both_.clients(); ++i)
    both_.open(both_.client(i));
  bool same = true;
  while (same && both_.requests() < requests)
    same = step(both_.client(random_.below(both_.clients())));
  // The ping brings what others' writes have sent them.
  same = same && all(Op::ping) && all(Op::close_session);
  EXPECT_TRUE(same) << both_.story() << "ZKRECIPES_SEED=" << seed_ << " ZKRECIPES_RUNS=1";
  return same;
}

TEST_F(Differential, TheModelAnswersAsARealServer) {
  const std::uint64_t first = number_from("ZKRECIPES_SEED", std::random_device()());
  const std::uint64_t rounds = number_from("ZKRECIPES_RUNS", requests_in_all) / requests_of_a_round;
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(1, rounds); ++i)
    ASSERT_TRUE(round(first + i));
}

TEST_F(Differential, ManyChildrenAreListedInTheSameOrder) {
  Comparison both = comparison(1);
  Comparison::Client& client = both.client(0);
  both.open(client);
  both.add(client, create_of("/many"));
  for (int i = 0; i < 3000; ++i) {
    both.add(client,
             create_of(fmt::format("/many/{}-", i % 7 == 0 ? "\u00fcn\u00efc\u00f6de" : "queue"), i % 2 == 0 ? 2 : 3));
    if (i % 3 == 0) both.add(client, chosen_request(Op::remove, fmt::format("/many/queue-{:010}", i / 2)));
    if (i % 100 == 0) both.add(client, chosen_request(Op::get_children, "/many"));
    const bool same = i % 500 != 0 || both.flush(client);
    ASSERT_TRUE(same) << both.story();
  }
  both.add(client, chosen_request(Op::get_children2, "/many"));
  both.add(client, chosen_request(Op::get_ephemerals, "/"));
  ASSERT_TRUE(both.flush(client)) << both.story();
  ASSERT_TRUE(both.ask(client, chosen_request(Op::close_session))) << both.story();
}

TEST(DifferentialEnsemble, TheModelAnswersAsRealServers) {
  zktesting::EnsembleOptions how;
  how.sync_limit =
      40;  // 20 s: they elect no other leader because this process, with the proxies between them, stands still.
  how.server.container_check_interval = 24h;
  how.server.jvm_flags = {"-Dorg.slf4j.simpleLogger.defaultLogLevel=off"};
  zktesting::Ensemble real(how);
  std::vector<detail::Endpoint> servers;
  for (std::size_t i = 0; i < real.size(); ++i)
    servers.push_back(endpoint_of(real.server(i)));
  EnsembleModel model(static_cast<int>(real.size()), beginning_of(real.server(0)));
  std::set<std::size_t> followers;
  for (const std::size_t follower : real.followers())
    if (follower != model.leader()) followers.insert(follower);
  Times times;
  {  // The last change of the root's children is the same from here on.
    Comparison both(servers, model, times, 1);
    both.open(both.client(0));
    ASSERT_TRUE(both.ask(both.client(0), create_of("/first"))) << both.story();
    ASSERT_TRUE(both.ask(both.client(0), chosen_request(Op::remove, "/first"))) << both.story();
    ASSERT_TRUE(both.ask(both.client(0), chosen_request(Op::close_session))) << both.story();
  }
  const std::uint64_t first = number_from("ZKRECIPES_SEED", std::random_device()());
  const std::uint64_t rounds = number_from("ZKRECIPES_RUNS", requests_of_an_ensemble) / requests_of_a_round;
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(1, rounds); ++i) {
    Comparison both(servers, model, times, 3);
    RandomClients clients(both, first + i);
    clients.followers = followers;
    ASSERT_TRUE(clients.play(requests_of_a_round));
  }
}

/// Everything that happens at a node and below it.
Request watch_below(const std::string& path) {
  Request request = chosen_request(Op::add_watch, path);
  request.flags = 1;
  return request;
}

TEST_F(Differential, TheNodesOfAnExpiredSessionGoInTheSameOrder) {
  Comparison both = comparison(2);
  Comparison::Client& owner = both.client(0);
  Comparison::Client& watcher = both.client(1);
  both.open(watcher);
  ASSERT_TRUE(both.ask(watcher, watch_below("/own"))) << both.story();
  both.open(owner, 8s);  // So long it lives although this test may stand still.
  both.add(owner, create_of("/own"));
  for (int i = 0; i < 100; ++i)
    both.add(owner, create_of(fmt::format("/own/{}", i * 31), mode::ephemeral));
  ASSERT_TRUE(both.flush(owner)) << both.story();
  const SessionId session = owner.real->session().id;
  owner.real.reset();
  model_.expire(session);
  ASSERT_TRUE(both.flush(watcher)) << both.story();
  ASSERT_TRUE(both.ask(watcher, chosen_request(Op::get_children2, "/own"))) << both.story();
  ASSERT_TRUE(both.ask(watcher, chosen_request(Op::close_session))) << both.story();
}

ServerOptions with_reaper() {
  ServerOptions how = options();
  how.container_check_interval = 1s;  // Longer than a delete takes: it would ask for that twice.
  return how;
}

class Reaped : public Differential {
 protected:
  Reaped() : Differential(with_reaper()) {}
};

const std::set<std::string> had_a_child = {"/reaped/ash", "/reaped/birch", "/reaped/cedar", "/reaped/elm",
                                           "/reaped/fir", "/reaped/oak",   "/reaped/pine",  "/reaped/yew"};

/// Containers that had a child, and one that never had any.
Request containers_to_be_reaped() {
  Request all = chosen_request(Op::multi);
  const auto add = [&](Request part) { all.parts.push_back(std::move(part)); };
  add(create_of("/reaped"));
  for (const std::string& path : had_a_child) {
    add(create_of(path, mode::container));
    add(create_of(path + "/child"));
    add(chosen_request(Op::remove, path + "/child"));
  }
  add(create_of("/reaped/unused", mode::container));
  return all;
}

/// The first containers of which a client hears that they go, as many as there should be.
std::vector<std::string> reaped_containers(RealConnection& client) {
  constexpr std::int32_t deleted = 2;
  std::vector<std::string> gone;
  while (gone.size() < had_a_child.size()) {
    const std::string frame = client.next().value();
    Decoder in(frame);
    if (in.int32() != xid::notification) continue;
    in.int64();
    in.int32();
    const std::int32_t type = in.int32();
    in.int32();
    std::string path = in.string();
    if (type == deleted && !path.ends_with("/child")) gone.push_back(std::move(path));
  }
  return gone;
}

/// How often the reaper went through what is `due` to meet these paths in this order.
std::size_t times_gone_through(const std::vector<std::string>& due, const std::vector<std::string>& met) {
  std::size_t times = 1;
  auto at = due.begin();
  for (const std::string& path : met) {
    auto next = std::find(at, due.end(), path);
    if (next == due.end()) {
      ++times;
      next = std::find(due.begin(), due.end(), path);
    }
    at = next;
  }
  return times;
}

/// Nodes with a time to live: only one of them is due soon, so that it does not matter when the reaper looks.
Request old_nodes_to_be_reaped() {
  Request all = chosen_request(Op::multi);
  const auto add = [&](Request part) { all.parts.push_back(std::move(part)); };
  add(create_of("/reaped"));
  const std::pair<const char*, Millis> with_ttl[] = {{"b", 1000}, {"busy", 1000}, {"long", longest_ttl}};
  for (const auto& [name, ttl] : with_ttl) {
    Request part = create_of(fmt::format("/reaped/{}", name), mode::ttl);
    part.op = Op::create_ttl;
    part.ttl = ttl;
    add(part);
  }
  add(create_of("/reaped/busy/child"));
  return all;
}

TEST_F(Reaped, ContainersGoInTheSameOrder) {
  Comparison both = comparison(2);
  Comparison::Client& client = both.client(0);
  Comparison::Client& observer = both.client(1);
  both.open(observer);
  ASSERT_TRUE(both.ask(observer, watch_below("/reaped"))) << both.story();
  both.open(client);
  ASSERT_TRUE(both.ask(client, watch_below("/reaped"))) << both.story();
  ASSERT_TRUE(both.ask(client, containers_to_be_reaped())) << both.story();
  const std::vector<std::string> gone = reaped_containers(*observer.real);
  // Twice: it came while the server applied the transaction, and found a part of them.
  EXPECT_LE(times_gone_through(model_.tree().due_for_reaper(0), gone), 2u) << both.story();
  model_.reap(gone);
  // Nothing is asked after this: a reaper that comes twice may ask twice for a path, and the second time costs a zxid, too.
  EXPECT_TRUE(both.flush(client)) << both.story();
}

TEST_F(Reaped, OldNodesGo) {
  Comparison both = comparison(1);
  Comparison::Client& client = both.client(0);
  both.open(client);
  ASSERT_TRUE(both.ask(client, watch_below("/reaped"))) << both.story();
  ASSERT_TRUE(both.ask(client, old_nodes_to_be_reaped())) << both.story();
  const Millis then = LocalServer::time_of(model_.tree().last_zxid());
  model_.reap(model_.tree().due_for_reaper(then + 1001));
  ASSERT_TRUE(both.flush(client)) << both.story();
  EXPECT_EQ(model_.tree().due_for_reaper(then + 1'000'000), std::vector<std::string>());
  ASSERT_TRUE(both.ask(client, chosen_request(Op::get_children2, "/reaped"))) << both.story();
  ASSERT_TRUE(both.ask(client, chosen_request(Op::close_session))) << both.story();
}

ServerOptions without_extended_types() {
  ServerOptions how = options();
  how.config["extendedTypesEnabled"] = "false";
  return how;
}

class NotExtended : public Differential {
 protected:
  NotExtended() : Differential(without_extended_types(), {.extended_types = false}) {}
};

TEST_F(NotExtended, TheModelAnswersAsARealServer) {
  const std::uint64_t first = number_from("ZKRECIPES_SEED", std::random_device()());
  for (std::uint64_t i = 0; i < 2; ++i)
    ASSERT_TRUE(round(first + i));
}

TEST_F(Differential, TheHandshakeHasTheSameBytes) {
  Encoder asked;
  asked.int32(0).int64(0).int32(30'000).int64(0).buffer(std::string(16, '\0'));
  for (const bool knows_read_only : {false, true}) {
    const std::string bytes = knows_read_only ? Encoder(asked).byte(false).frame() : asked.frame();
    const std::optional<ConnectRequest> request = decode_connect(std::string_view(bytes).substr(4));
    ASSERT_TRUE(request);
    EXPECT_EQ(request->knows_read_only, knows_read_only);
    EXPECT_EQ(request->timeout, 30'000);
    detail::Socket socket({server_.address(), server_.port()}, detail::Clock::now() + 60s);
    socket.write(bytes, detail::Clock::now() + 60s);
    const std::string answered = detail::read_frame(socket, detail::Clock::now() + 60s);
    Decoder in(answered);
    ConnectResponse response{
        .protocol = in.int32(), .timeout = in.int32(), .session = in.int64(), .password = in.string()};
    response.knows_read_only = request->knows_read_only;
    EXPECT_EQ(encode_connect(response).substr(4), answered);
  }
}

}  // namespace
}  // namespace zktesting::simulated
