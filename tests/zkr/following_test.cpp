// `zkr observe` and `zkr watch` while everything breaks: what they tell is true in the end, and never goes back.

#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <zkclient/client.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zktesting/environment.hpp>
#include <zktesting/proxy.hpp>

#include "tests/support/testkit.hpp"
#include "tests/zkr/expiry.hpp"
#include "tests/zkr/zkr_process.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using zktesting::Direction;
using zktesting::RequestType;

class ZkrFollowing : public testing::Test {
 protected:
  /// Breaks something, and returns what ends the fault.
  using Trouble = std::function<std::function<void()>()>;

  ZkrProcess& follow(Words words) {
    words.insert(words.begin() + 2, {"--server", proxy_.connect_string(), "--session-timeout", "2s"});
    zkr_ = std::make_unique<ZkrProcess>(words);
    return *zkr_;
  }
  /// What is armed may hit nothing: what is followed is read once for several changes.
  std::vector<Trouble> troubles() {
    const auto armed = [this](zktesting::Fault (zktesting::Proxy::*arm)(RequestType), RequestType type) -> Trouble {
      return [this, arm, type] {
        const auto fault = std::make_shared<zktesting::Fault>((proxy_.*arm)(type));
        return [fault] { fault->cancel(); };
      };
    };
    std::vector<Trouble> all;
    for (const RequestType type : {RequestType::get_data, RequestType::get_children2, RequestType::exists}) {
      all.push_back(armed(&zktesting::Proxy::drop_next_reply, type));
      all.push_back(armed(&zktesting::Proxy::drop_next_request, type));
    }
    all.push_back([this] {
      const auto fault = std::make_shared<zktesting::Fault>(proxy_.drop_next_event());
      return [fault] { fault->cancel(); };
    });
    all.push_back([this] {
      proxy_.cut();
      return [] {};
    });
    all.push_back([this] {
      proxy_.stall(Direction::to_client);
      return [this] { proxy_.unstall(Direction::to_client); };
    });
    all.push_back([this] {
      // It may be over before the fault is.
      const std::string session = followers_session();
      proxy_.refuse(true);
      proxy_.cut();
      return [this, session] {
        await_expiry(session);
        proxy_.refuse(false);
      };
    });
    return all;
  }
  /// Of what follows: the only one besides ours that is connected. "": a server that is not ours shows no log.
  std::string followers_session() const {
    if (!zktesting::SharedServer::instance().has_control()) return "";
    std::vector<std::string> others;
    EXPECT_TRUE(testkit::eventually([&] {
      others = sessions_of_others();
      return others.size() == 1;
    }));
    return others.empty() ? "none" : others.front();
  }
  /// Sessions that are connected, as the server says.
  std::vector<std::string> sessions_of_others() const {
    const std::string connections = zktesting::SharedServer::instance().server().four_letter_word("cons");
    const std::string ours = fmt::format("{:#x}", client_.session().id());
    const std::string name = "sid=";
    std::vector<std::string> others;
    for (std::size_t at = 0; (at = connections.find(name, at)) != std::string::npos;) {
      at += name.size();
      const std::string session = connections.substr(at, connections.find(',', at) - at);
      if (session != ours) others.push_back(session);
    }
    return others;
  }
  static void await_expiry(const std::string& session) {
    if (session.empty()) return;
    EXPECT_TRUE(testkit::eventually([&] { return has_expired(session); })) << session;
  }
  void expect_end_by_term() {
    zkr_->signal(SIGTERM);
    EXPECT_EQ(zkr_->end(), killed_by(SIGTERM));
  }

  const std::string path_ = std::string("/zkr/") + testing::UnitTest::GetInstance()->current_test_info()->name() + "-" +
                            std::to_string(++followed_) + "/followed";
  zktesting::Proxy proxy_{zktesting::SharedServer::instance().connect_string()};
  zkclient::Client client_{zktesting::SharedServer::instance().connect_string()};
  std::unique_ptr<ZkrProcess> zkr_;

 private:
  static inline int followed_ = 0;
};

// --- observe ------------------------------------------------------------------------------------------------------

/// Of a line of `zkr observe`. Nothing: nobody leads.
std::optional<std::int64_t> term_in(const std::string& line) {
  const std::size_t at = line.find(" term=");
  if (at == std::string::npos) return std::nullopt;
  return std::stoll(line.substr(at + 6));
}

/// Who has gone does not lead again, nor does whoever led before; and an older text is not shown again.
void expect_never_back(const Words& lines) {
  std::int64_t newest = 0;
  bool over = false;
  std::string value;
  for (const std::string& line : lines) {
    const auto term = term_in(line);
    over = over || !term;
    if (!term) continue;
    const std::string shown = line.substr(line.find("-ready") + 6);
    if (*term == newest) {
      EXPECT_FALSE(over) << line;
      EXPECT_GE(shown, value) << line;
    } else {
      EXPECT_GT(*term, newest) << line;
    }
    newest = *term;
    over = false;
    value = shown;
  }
}

TEST_F(ZkrFollowing, Z24TermsOfAnObserverNeverGoBack) {
  ZkrProcess& observer = follow({"observe", path_});
  ASSERT_TRUE(observer.lines().await("nobody"));
  zkrecipes::LeaderElection first(client_, path_, {.id = "first"});
  zkrecipes::LeaderElection second(client_, path_, {.id = "second"});
  bool is_first = true;
  for (const Trouble& trouble : troubles()) {
    const auto end = trouble();
    zkrecipes::LeaderElection& election = is_first ? first : second;
    auto leadership = election.campaign(testkit::patient());
    leadership.proclaim("1", testkit::patient());
    leadership.proclaim("2", testkit::patient());
    end();
    const std::string name = is_first ? "first" : "second";
    EXPECT_TRUE(observer.lines().await(name + " term=" + std::to_string(leadership.token().value) + " not-ready 2"));
    leadership.release(testkit::patient());
    is_first = !is_first;
  }
  observer.lines().await("nobody");
  expect_end_by_term();
  observer.lines().rest();
  expect_never_back(observer.lines().all());
}

// --- watch --------------------------------------------------------------------------------------------------------

/// Each handler says that it begins, what it was told, and that it ends.
void expect_one_at_a_time(const Words& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const char* expected = i % 3 == 0 ? "begin" : i % 3 == 1 ? "{\"path\":" : "end";
    EXPECT_TRUE(lines[i].starts_with(expected)) << lines[i] << " instead of " << expected;
  }
  EXPECT_EQ(lines.size() % 3, 0U);
}

class ZkrWatching : public ZkrFollowing {
 protected:
  ZkrProcess& watch() { return follow({"watch", path_, "--", "sh", "-c", "echo begin; cat; echo end"}); }
  /// Waits until a handler was told of that, and has ended.
  static testing::AssertionResult is_told(ZkrProcess& watch, const std::string& part) {
    while (const auto line = watch.lines().await("{")) {
      if (line->find(part) == std::string::npos) continue;
      if (watch.lines().await("end")) return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << "nobody is told of " << part;
  }
  static std::string data(int number) { return "\"data\":\"" + std::to_string(number) + "\""; }
};

TEST_F(ZkrWatching, Z27LastStateIsToldThroughCutsAndLostSessionsByOneHandlerAtATime) {
  std::error_code was_not_there;
  client_.remove_tree(path_, {}, was_not_there);  // By an earlier run, on a server that is not ours.
  ZkrProcess& watching = watch();
  ASSERT_TRUE(is_told(watching, "\"event\":\"absent\""));
  client_.create(path_, "0", {.parents = true});
  ASSERT_TRUE(is_told(watching, data(0)));
  int number = 0;
  for (const Trouble& trouble : troubles()) {
    // A value, and then none, and a value of another node.
    const auto set = trouble();
    for (int i = 0; i < 5; ++i)
      client_.set(path_, std::to_string(++number));
    set();
    EXPECT_TRUE(is_told(watching, data(number)));
    const auto removed = trouble();
    client_.set(path_, std::to_string(++number));
    client_.remove(path_);
    removed();
    EXPECT_TRUE(is_told(watching, "\"event\":\"deleted\""));
    const auto created = trouble();
    client_.create(path_, std::to_string(++number), {.parents = true});
    created();
    EXPECT_TRUE(is_told(watching, data(number)));
  }
  expect_end_by_term();
  watching.lines().rest();
  expect_one_at_a_time(watching.lines().all());
}

}  // namespace
}  // namespace zkr
