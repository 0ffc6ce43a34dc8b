#include "zkclient/detail/servers/hosts.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zkclient/error.hpp>

namespace {

using zkclient::Errc;
using zkclient::Error;
using zkclient::detail::all_numeric;
using zkclient::detail::Host;
using zkclient::detail::odd_list;
using zkclient::detail::parse_hosts;
using zkclient::detail::resolve;

std::string shown(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& host : hosts)
    text += host.name + "|" + std::to_string(host.port) + " ";
  return text;
}

TEST(HostsTest, ParsesNamesAddressesAndPorts) {
  EXPECT_EQ(shown(parse_hosts("zk1:2182")), "zk1|2182 ");
  EXPECT_EQ(shown(parse_hosts("zk1")), "zk1|2181 ");
  EXPECT_EQ(shown(parse_hosts("zk1.example.org:1,10.0.0.1:65535,zk_3-x")),
            "zk1.example.org|1 10.0.0.1|65535 zk_3-x|2181 ");
  EXPECT_EQ(shown(parse_hosts("ZK1:2181,ZK1:2181")), "ZK1|2181 ZK1|2181 ");
}

// What the C client says of a server has to find its host again.
TEST(HostsTest, AddressesAreNamedAsTheCClientNamesThemInItsMessages) {
  const auto resolution = resolve(parse_hosts("[0:0:0:0:0:0:0:1]:7,[2001:DB8::0:7],10.0.0.1:2"));
  EXPECT_EQ(resolution.addresses, "::1:7,2001:db8::7:2181,10.0.0.1:2");
  const std::map<std::string, std::string, std::less<>> names = {
      {"[::1]:7", "[0:0:0:0:0:0:0:1]:7"}, {"[2001:db8::7]:2181", "[2001:DB8::0:7]:2181"}, {"10.0.0.1:2", "10.0.0.1:2"}};
  EXPECT_EQ(resolution.names, names);
}

TEST(HostsTest, BlanksAroundEntriesDoNotMatter) { EXPECT_EQ(shown(parse_hosts("  zk1:1 ,\tzk2:2\t")), "zk1|1 zk2|2 "); }

TEST(HostsTest, Ipv6StandsInBrackets) {
  EXPECT_EQ(shown(parse_hosts("[::1]:2182")), "::1|2182 ");
  EXPECT_EQ(shown(parse_hosts("[fe80::1:2],[2001:db8::7]:3")), "fe80::1:2|2181 2001:db8::7|3 ");
  for (const char* bad : {"::1", "::1:2181", "[::1", "::1]", "[]", "[]:1", "[zk1]:1", "[127.0.0.1]:1", "[::1]2181",
                          "[::1]:", "[::1]:x", "[::1]x:1", "[[::1]]:1"}) {
    EXPECT_THROW((void)parse_hosts(bad), Error) << bad;
  }
}

TEST(HostsTest, RefusesBadListsAndPorts) {
  for (const char* bad : {"",
                          " ",
                          ",",
                          "zk1,",
                          ",zk1",
                          "zk1,,zk2",
                          ":2181",
                          "zk1:",
                          "zk1:0",
                          "zk1:65536",
                          "zk1:99999999999",
                          "zk1:-1",
                          "zk1:+1",
                          "zk1: 1",
                          "zk1:1a",
                          "zk1:1:2",
                          "zk 1:2181",
                          "zk1;zk2",
                          "user@zk1",
                          "zk1:2181\n",
                          "http://zk1"}) {
    try {
      (void)parse_hosts(bad);
      ADD_FAILURE() << "accepted: " << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.errc(), Errc::invalid_argument) << bad;
      EXPECT_EQ(error.operation(), "host list");
      EXPECT_FALSE(error.detail().empty());
    }
  }
}

// What a refusal says.
std::string refusal(const char* list) {
  try {
    (void)parse_hosts(list);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(HostsTest, RefusesAPathAndSaysWhatToUseInstead) {
  for (const char* bad : {"zk1:2181/app", "zk1/app", "zk1:2181,zk2:2181/app", "[::1]:2181/app"})
    EXPECT_NE(refusal(bad).find("ClientOptions::prefix"), std::string::npos) << bad << ": " << refusal(bad);
}

TEST(HostsTest, RefusesABareIPv6AddressAndSaysHowToWriteIt) {
  for (const char* bad : {"::1", "fe80::1", "127.0.0.1:2181,::1"})
    EXPECT_NE(refusal(bad).find("[::1]:2181"), std::string::npos) << bad << ": " << refusal(bad);
}

TEST(HostsTest, NumericAddressesResolveWithoutALookUp) {
  const auto hosts = parse_hosts("127.1.2.3:10,10.0.0.1");
  EXPECT_TRUE(all_numeric(hosts));
  EXPECT_EQ(resolve(hosts).addresses, "127.1.2.3:10,10.0.0.1:2181");
  EXPECT_TRUE(all_numeric(parse_hosts("[::1]:5")));
  EXPECT_FALSE(all_numeric(parse_hosts("127.0.0.1,localhost")));
}

TEST(HostsTest, AnAddressIsListedOnce) {
  EXPECT_EQ(resolve(parse_hosts("127.0.0.1:1,127.0.0.1:1,127.0.0.1:2")).addresses, "127.0.0.1:1,127.0.0.1:2");
}

TEST(HostsTest, NamesAreResolvedAndUnknownOnesLeftOut) {
  const std::string local = resolve(parse_hosts("localhost:77")).addresses;
  EXPECT_TRUE(local.find("127.0.0.1:77") != std::string::npos || local.find("::1:77") != std::string::npos) << local;
  EXPECT_EQ(resolve(parse_hosts("no-such-host.invalid:1,127.0.0.1:2")).addresses, "127.0.0.1:2");
  EXPECT_EQ(resolve(parse_hosts("no-such-host.invalid:1")).addresses, "");
}

TEST(HostsTest, AnEvenListGetsOneAddressTwice) {
  EXPECT_EQ(odd_list("a:1", 7), "a:1");
  EXPECT_EQ(odd_list("a:1,b:2", 0), "a:1,b:2,a:1");
  EXPECT_EQ(odd_list("a:1,b:2", 3), "a:1,b:2,b:2");
  EXPECT_EQ(odd_list("a:1,b:2,c:3", 1), "a:1,b:2,c:3");
}

}  // namespace
