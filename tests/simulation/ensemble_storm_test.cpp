#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>

#include "tests/simulation/raw_client.hpp"

// Clients write while whatever may break does break. Nothing that was acknowledged is lost, nobody sees time go backwards,
// and when all is well again the servers have the same.

namespace zktesting::simulated {
namespace {

using namespace std::chrono_literals;

/// What happened, as one number.
class Trace {
 public:
  void add(std::int64_t number) { hash_ = (hash_ ^ static_cast<std::uint64_t>(number)) * 0x100000001B3u + 17; }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325u;
};

/// Creates nodes of unique names, and counts up a node of its own; reads that back in the same session.
class Writer {
 public:
  Writer(World& world, int number, Trace& trace)
      : world_(world),
        client_(world.client()),
        trace_(trace),
        counter_("/counter" + std::to_string(number)),
        number_(number) {
    client_.keeps_answers = false;
    client_.on_connected = [this] { connected(); };
    client_.on_closed = [this] { again(); };
  }

  void begin() { connect(); }
  void stop() {
    stopped_ = true;
    client_.disconnect();
  }
  /// Its connection breaks.
  void interrupt() {
    client_.disconnect();
    again();
  }
  void check(const Tree& tree) const {
    for (const std::string& path : created_)
      EXPECT_TRUE(tree.stat(path)) << path << " was acknowledged and is lost";
    if (const auto stat = tree.stat(counter_)) {
      EXPECT_GE(stat->version, acknowledged_) << counter_;
    } else {
      EXPECT_FALSE(has_counter_) << counter_ << " was acknowledged and is lost";
    }
  }
  [[nodiscard]] std::size_t acknowledged() const { return created_.size(); }

 private:
  Random& random() { return world_.events.random(); }

  void connect() {
    if (stopped_) return;
    ++connection_;
    const auto server = static_cast<int>(random().between(1, world_.ensemble.size()));
    client_.connect(server, 2000);
    // A connection that leads to nothing is given up.
    world_.events.after(1500ms, [this, mine = connection_] {
      if (mine == connection_ && !client_.connected()) interrupt();
    });
  }
  void again() {
    if (stopped_) return;
    ++connection_;
    world_.events.after(Nanos(random().between(1'000'000, 100'000'000)), [this, mine = connection_] {
      if (mine == connection_) connect();
    });
  }
  void connected() {
    trace_.add(client_.session);
    if (client_.session == 0) {
      client_.password = std::string(16, '\0');
      return;  // The server closes the connection.
    }
    ++connection_;
    next();
  }
  void next() {
    if (stopped_) return;
    const std::uint64_t mine = connection_;
    // An answer that does not come: as a client does, after two thirds of its timeout.
    const std::uint64_t asked = ++asked_;
    world_.events.after(1300ms, [this, mine, asked] {
      if (mine == connection_ && asked == asked_) interrupt();
    });
    act([this, mine](const RawClient::Answer& answer) {
      if (mine != connection_) return;
      note(answer);
      ++asked_;
      world_.events.after(Nanos(random().between(0, 40'000'000)), [this, mine] {
        if (mine == connection_) next();
      });
    });
  }
  void note(const RawClient::Answer& answer) {
    trace_.add(world_.events.now().count());
    trace_.add(answer.xid);
    trace_.add(answer.zxid);
    trace_.add(answer.error);
    EXPECT_GE(answer.zxid, seen_) << "time went backwards for writer " << number_;
    seen_ = answer.zxid;
  }

  void act(const RawClient::OnAnswer& done) {
    switch (random().below(4)) {
      case 0: return count(done);
      case 1: return read(done);
      default: return create(done);
    }
  }
  void create(const RawClient::OnAnswer& done) {
    const std::string path = "/w" + std::to_string(number_) + "-" + std::to_string(++last_name_);
    client_.create(path, path, 0, [this, path, done](const RawClient::Answer& answer) {
      if (answer.error == code::ok) created_.insert(path);
      done(answer);
    });
  }
  void count(const RawClient::OnAnswer& done) {
    if (!has_counter_) {
      client_.create(counter_, "", 0, [this, done](const RawClient::Answer& answer) {
        has_counter_ |= answer.error == code::ok || answer.error == code::node_exists;
        done(answer);
      });
      return;
    }
    client_.set(counter_, "x", [this, done](const RawClient::Answer& answer) {
      Decoder in(answer.body);
      if (answer.error == code::ok) acknowledged_ = std::max(acknowledged_, in.stat().version);
      done(answer);
    });
  }
  void read(const RawClient::OnAnswer& done) {
    // Behind another write, in one flight: the order of one session.
    const std::string path = "/w" + std::to_string(number_) + "-" + std::to_string(++last_name_);
    auto created = std::make_shared<bool>(false);
    client_.create(path, path, 0, [created](const RawClient::Answer& answer) { *created = answer.error == code::ok; });
    client_.exists(path, false, [this, path, created, done](const RawClient::Answer& answer) {
      if (*created) created_.insert(path);
      EXPECT_EQ(*created, answer.error == code::ok) << path << ": a session does not see its own write";
      done(answer);
    });
  }

  World& world_;
  RawClient& client_;
  Trace& trace_;
  const std::string counter_;
  const int number_;
  bool stopped_ = false;
  bool has_counter_ = false;
  std::int32_t acknowledged_ = 0;
  int last_name_ = 0;
  Zxid seen_ = 0;
  std::uint64_t connection_ = 0;
  std::uint64_t asked_ = 0;
  std::set<std::string> created_;
};

/// Breaks things, and mends each after a while.
class Faults {
 public:
  Faults(World& world, std::vector<std::unique_ptr<Writer>>& writers) : world_(world), writers_(writers) {
    kinds_ = world.events.random().next();  // Each seed has faults of its own.
  }

  void begin() { next(); }
  void end() {
    ended_ = true;
    const int count = world_.ensemble.size();
    for (int server = 1; server <= count; ++server) {
      world_.ensemble.resume(server);
      world_.ensemble.set_fsync_refused(server, false);
      world_.ensemble.set_fsync_latency(server, {100us, 400us});
      world_.ensemble.start(server);
      for (int other = 1; other <= count; ++other) {
        world_.network.mend(server, other);
        world_.network.set_latency(server, other, {});
      }
    }
  }

 private:
  Random& random() { return world_.events.random(); }
  int server() { return static_cast<int>(random().between(1, world_.ensemble.size())); }
  void later(std::int64_t most_ms, std::function<void()> act) {
    world_.events.after(Nanos(random().between(1'000'000, most_ms * 1'000'000)), [this, act = std::move(act)] {
      if (!ended_) act();
    });
  }
  void next() {
    later(800, [this] {
      strike();
      next();
    });
  }
  void strike() {
    const auto kind = random().below(10);
    if ((kinds_ >> kind & 1) == 0) return;
    const int one = server();
    const int other = server();
    switch (kind) {
      case 0: return kill(one);
      case 1: world_.ensemble.pause(one); return later(5000, [this, one] { world_.ensemble.resume(one); });
      case 2:
        world_.network.cut(one, other);
        return later(5000, [this, one, other] { world_.network.mend(one, other); });
      case 3: world_.cut(one, other); return later(8000, [this, one, other] { world_.mend(one, other); });
      case 4:
        world_.network.set_latency(one, other, {1ms, 300ms});
        return later(3000, [this, one, other] { world_.network.set_latency(one, other, {}); });
      case 5:
        world_.ensemble.set_fsync_latency(one, {1ms, 500ms});
        return later(3000, [this, one] { world_.ensemble.set_fsync_latency(one, {100us, 400us}); });
      case 6:
        world_.ensemble.set_fsync_refused(one, true);
        return later(1000, [this, one] {
          world_.ensemble.set_fsync_refused(one, false);
          kill(one);
        });
      case 7: return world_.ensemble.stall_disk(one, world_.events.now() + Nanos(random().between(0, 5'000'000'000)));
      case 8:  // Only when nothing hangs on it.
        if (world_.ensemble.expendable(one)) lose_disk(one);
        return;
      default: return writers_[random().below(writers_.size())]->interrupt();
    }
  }
  void kill(int server) {
    constexpr Loss losses[] = {Loss::any, Loss::last_one, Loss::all, Loss::none};
    world_.ensemble.kill(server, losses[random().below(4)]);
    later(3000, [this, server] { world_.ensemble.start(server); });
  }
  void lose_disk(int server) {
    world_.ensemble.wipe(server);
    later(3000, [this, server] { world_.ensemble.start(server); });
  }

  World& world_;
  std::vector<std::unique_ptr<Writer>>& writers_;
  std::uint64_t kinds_ = 0;
  bool ended_ = false;
};

struct Outcome {
  std::uint64_t hash = 0;
  std::size_t acknowledged = 0;
};

bool equal_trees(const Ensemble& ensemble) {
  for (int server = 2; server <= ensemble.size(); ++server) {
    if (!(ensemble.tree(server) == ensemble.tree(1))) return false;
  }
  return true;
}

/// The first attempts may still meet what a server has not noticed yet.
bool write_at_last(World& world) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    RawClient& last = world.connected(1);
    if (world.answer(last, last.create("/last" + std::to_string(attempt), "x"), 10s)) return true;
  }
  return false;
}

Outcome storm(std::uint64_t seed) {
  EnsembleOptions options;
  options.tick = 500;
  options.servers = std::vector<int>{3, 3, 5, 1}[seed % 4];
  World world(seed, options);
  Trace trace;
  EXPECT_TRUE(world.serve());
  std::vector<std::unique_ptr<Writer>> writers;
  for (int number = 0; number < 4; ++number) {
    writers.push_back(std::make_unique<Writer>(world, number, trace));
    writers.back()->begin();
  }
  Faults faults(world, writers);
  faults.begin();
  world.pass(20s);
  faults.end();
  // A vote that was cut off is told again after a minute, at worst.
  EXPECT_TRUE(world.until([&] { return world.ensemble.complete(); }, 200s)) << "the servers do not recover";
  Outcome outcome;
  for (const auto& writer : writers)
    writer->stop();
  EXPECT_TRUE(write_at_last(world)) << "no write is possible";
  for (int i = 0; i < 100 && !equal_trees(world.ensemble); ++i)
    world.pass(100ms);
  EXPECT_TRUE(equal_trees(world.ensemble)) << "the servers differ";
  for (const auto& writer : writers) {
    writer->check(world.ensemble.tree(1));
    outcome.acknowledged += writer->acknowledged();
  }
  trace.add(world.ensemble.tree(1).last_zxid());
  outcome.hash = trace.hash();
  return outcome;
}

std::uint64_t number_from(const char* variable, std::uint64_t usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

TEST(EnsembleStorm, NothingAcknowledgedIsLost) {
  const std::uint64_t first = number_from("ZKRECIPES_SEED", 1);
  const std::uint64_t runs = number_from("ZKRECIPES_RUNS", 40);
  std::size_t acknowledged = 0;
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    const testing::ScopedTrace scope(__FILE__, __LINE__, "seed " + std::to_string(seed));
    acknowledged += storm(seed).acknowledged;
    if (HasFailure()) break;
  }
  EXPECT_GT(acknowledged, runs * 100);
}

TEST(EnsembleStorm, ASeedGivesTheSameTrace) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed)
    EXPECT_EQ(storm(seed).hash, storm(seed).hash) << seed;
  EXPECT_NE(storm(1).hash, storm(5).hash);
}

// Printed, not judged: a busy machine is not a failure.
TEST(EnsembleStorm, WhatAnHourglassOfSixtySecondsCosts) {
  const std::clock_t began = std::clock();
  World world(1);
  ASSERT_TRUE(world.serve());
  for (int i = 0; i < 5; ++i)
    world.connected(1 + i % 3, 4000).keeps_answers = false;
  const Nanos end = world.events.now() + 60s;
  int answered = 0;
  std::function<void(RawClient&, int)> write = [&](RawClient& client, int left) {
    client.set("/a", "x", [&, left](const RawClient::Answer&) {
      ++answered;
      if (left > 1) world.events.after(100ms, [&, left] { write(client, left - 1); });
    });
  };
  std::function<void(RawClient&)> ping = [&](RawClient& client) {
    client.ping();
    if (world.events.now() < end) world.events.after(1333ms, [&] { ping(client); });
  };
  for (const auto& client : world.clients)
    ping(*client);
  for (int i = 0; i < 4; ++i)
    write(world.connected(1 + i % 3, 4000), 500);
  world.events.run_until(end);
  EXPECT_EQ(answered, 2000);
  std::printf("60 virtual seconds, 3 servers, 2,000 writes, pings of 5 sessions: %.1f ms of processor time\n",
              static_cast<double>(std::clock() - began) * 1000.0 / CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace zktesting::simulated
