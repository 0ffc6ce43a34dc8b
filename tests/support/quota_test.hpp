#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <zkclient/client.hpp>
#include <zktesting/expire.hpp>
#include <zktesting/proxy.hpp>
#include <zktesting/server.hpp>

#include "tests/support/testkit.hpp"

namespace testkit {

/// With a server that enforces quotas, and a proxy in front of it. Each test has a folder of its own, root(), and says
/// when that is full: allow_no_node(), allow_no_byte(), allow_nothing().
class QuotaTest : public ::testing::Test {
 protected:
  static constexpr auto calm = 30s;

  void SetUp() override { operator_.create(root_, ""); }

  const zkclient::Path& root() const { return root_; }
  zkclient::Client& the_operator() { return operator_; }
  zkclient::Client proxied() { return zkclient::Client(proxy.connect_string(), {.session_timeout = calm}); }
  static zktesting::Server& server() {
    static zktesting::Server one([] {
      zktesting::ServerOptions enforcing;
      enforcing.config["enforceQuota"] = "true";
      return enforcing;
    }());
    return one;
  }
  /// Meanwhile the client cannot come back: see RecipeFaultTest::expire().
  void expire(const zkclient::Client& client) {
    const auto session = client.connect(patient());
    proxy.refuse(true);
    zktesting::expire(server().connect_string(), session.id(), session.credentials().password);
    proxy.refuse(false);
  }

  /// A hard limit of the nodes below root(): so many more than there are now.
  void allow_nodes(int more) {
    limit("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=" + std::to_string(std::stoll(usage("count=")) + more));
  }
  void allow_no_node() { allow_nodes(0); }
  void allow_no_byte() { limit("count=-1,bytes=-1=;byteHardLimit=" + usage("bytes=") + ";countHardLimit=-1"); }
  void allow_nothing() {
    limit("count=-1,bytes=-1=;byteHardLimit=" + usage("bytes=") + ";countHardLimit=" + usage("count="));
  }
  void allow_all() { limit("count=-1,bytes=-1"); }
  /// What an error says of the full quota.
  std::string full() const { return "the quota of " + root_.str() + ": "; }
  /// The detail of what `action` throws, which is for want of room; nothing, and a failure, if it throws nothing.
  template <typename Action>
  static std::optional<std::string> refusal_of(Action&& action) {
    try {
      action();
    } catch (const zkclient::Error& error) {
      const bool of_transaction = error.errc() == zkclient::Errc::transaction_failed;
      EXPECT_TRUE(error.errc() == zkclient::Errc::quota_exceeded || of_transaction) << error.what();
      return error.detail();
    }
    ADD_FAILURE() << "there was room";
    return std::nullopt;
  }
  /// A refusal names the quota, if the server tells of it in time. `action` changes nothing as long as it is full.
  template <typename Action>
  void expect_full(Action&& action, const std::string& used = {}) {
    std::optional<std::string> refusal;
    const auto names_it = [&] {
      refusal = refusal_of(action);
      return !refusal || refusal->find(full() + used) != std::string::npos;
    };
    EXPECT_TRUE(eventually(names_it)) << refusal.value_or("");
  }

  std::size_t children(const zkclient::Path& path) {
    std::error_code error;
    return operator_.children(path, {}, error).names.size();
  }
  /// Nodes below root() that go with their sessions.
  std::size_t ephemerals() {
    std::size_t count = 0;
    const std::string below = root_.str() + "/";
    const std::string dump = server().four_letter_word("dump");
    for (std::size_t at = dump.find(below); at != std::string::npos; at = dump.find(below, at + 1))
      ++count;
    return count;
  }
  /// What stands in for nodes that have no room is beside root(), and goes with its owner.
  std::size_t stand_ins() { return beside("-slot-"); }
  /// Nodes beside root() whose names go on like that.
  std::size_t beside(const std::string& rest) {
    std::size_t count = 0;
    for (const std::string& name : operator_.children("/").names)
      count += name.starts_with(root_.str().substr(1) + rest) ? 1 : 0;
    return count;
  }

  zktesting::Proxy proxy{server().connect_string()};

 private:
  zkclient::Path quota() const { return zkclient::Path("/zookeeper/quota" + root_.str()); }
  void limit(const std::string& limits) {
    make_quota();
    operator_.set(quota() / "zookeeper_limits", limits);
  }
  void make_quota() {
    if (operator_.exists(quota())) return;
    operator_.create(quota(), "");
    operator_.create(quota() / "zookeeper_limits", "count=-1,bytes=-1");
    operator_.create(quota() / "zookeeper_stats", "count=0,bytes=0");
  }
  /// The server counts from when there is a quota.
  std::string usage(std::string_view key) {
    make_quota();
    const std::string data = operator_.get(quota() / "zookeeper_stats").data;
    const std::string rest = data.substr(data.find(key) + key.size());
    return rest.substr(0, rest.find_first_not_of("0123456789"));
  }

  static std::string name_of_test() {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(name.begin(), name.end(), '/', '-');  // Of a test with a parameter.
    return name;
  }

  const zkclient::Path root_{"/" + name_of_test() + "-" +
                             std::to_string(SteadyClock::now().time_since_epoch().count())};
  zkclient::Client operator_{server().connect_string(), {.session_timeout = calm}};
};

}  // namespace testkit
