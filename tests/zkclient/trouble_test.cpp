#include "zkclient/detail/connection/trouble.hpp"

#include <string>

#include <gtest/gtest.h>

namespace {

using zkclient::detail::handshake_defect;
using zkclient::detail::Host;
using zkclient::detail::Resolution;
using zkclient::detail::ServerTroubles;
using zkclient::detail::trouble_in;

std::string line(const std::string& text) {
  return "2026-01-01 10:00:00,000:17(0x7f00):ZOO_ERROR@handle_socket_error_msg@2436: " + text;
}

TEST(TroubleInALine, SaysWhichServerAndWhat) {
  const auto refused = trouble_in(
      line("Socket 127.0.0.1:2181 zk retcode=-4, errno=111(Connection refused): server refused to accept the client"));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->address, "127.0.0.1:2181");
  EXPECT_EQ(refused->reason, "refused the connection");
  const auto reason = [](const char* text) {
    const auto trouble = trouble_in(line(text));
    return trouble ? trouble->reason : "";
  };
  EXPECT_EQ(
      reason("Socket 10.0.0.1:1 zk retcode=-4, errno=112(Host is down): failed while receiving a server response"),
      "closed the connection");
  EXPECT_EQ(
      reason("Socket 10.0.0.1:1 zk retcode=-4, errno=104(Connection reset by peer): failed while receiving a server "
             "response"),
      "closed the connection");
  EXPECT_EQ(
      reason("Socket 10.0.0.1:1 zk retcode=-7, errno=110(Connection timed out): connection to 10.0.0.1:1 timed out "
             "(exceeded timeout by 1ms)"),
      "does not answer");
  EXPECT_EQ(reason("Socket 10.0.0.1:1 zk retcode=-4, errno=113(No route to host): server refused to accept the client"),
            "cannot be reached: there is no route to it");
  EXPECT_EQ(reason("Socket 10.0.0.1:1 zk retcode=-4, errno=101(Network is unreachable): connect() call failed"),
            "cannot be reached: there is no route to it");
  EXPECT_EQ(reason("Socket 10.0.0.1:1 zk retcode=-4, errno=13(Permission denied): connect() call failed"),
            "cannot be reached: a rule of this host or its network forbids it (Permission denied)");
  EXPECT_EQ(reason("Socket [::1]:1 zk retcode=-4, errno=99(Cannot assign requested address): connect() call failed"),
            "cannot be reached: this host has no address or no port left for it (Cannot assign requested address)");
  EXPECT_EQ(reason("Socket [::1]:1 zk retcode=-1, errno=97(Address family not supported by protocol): socket() call "
                   "failed"),
            "was not tried: this host does not have addresses of that family (Address family not supported by "
            "protocol)");
  EXPECT_EQ(reason("Socket 10.0.0.1:1 zk retcode=-1, errno=24(Too many open files): socket() call failed"),
            "was not tried: no descriptor is left (too many open files)");
  EXPECT_EQ(reason("Socket 10.0.0.1:1 zk retcode=-112, errno=116(Stale file handle): sessionId=0x1 has expired."),
            "said that the session has expired");
}

TEST(TroubleInALine, IsNotSeenWhereThereIsNone) {
  for (const char* text :
       {"", "Socket ", "Socket 127.0.0.1:1 zk retcode=-4, errno=x(y): z", "errno=111(Connection refused)",
        "Delaying connection after exhaustively trying all servers [127.0.0.1:1]"})
    EXPECT_FALSE(trouble_in(line(text))) << text;
}

std::string answer(unsigned char length, unsigned char timeout_byte, unsigned char password) {
  std::string bytes(24, '\0');
  bytes[3] = static_cast<char>(length);
  bytes[8] = static_cast<char>(timeout_byte);
  bytes[11] = 100;
  bytes[23] = static_cast<char>(password);
  return bytes;
}

TEST(HandshakeDefect, LetsServersThroughAndNobodyElse) {
  EXPECT_EQ(handshake_defect(answer(36, 0, 16)), nullptr);
  EXPECT_EQ(handshake_defect(answer(37, 0, 16)), nullptr);
  EXPECT_NE(handshake_defect(answer(35, 0, 16)), nullptr);
  EXPECT_NE(handshake_defect(answer(37, 0x20, 16)), nullptr) << "a timeout of days";
  EXPECT_NE(handshake_defect(answer(37, 0xff, 16)), nullptr) << "a negative timeout";
  EXPECT_NE(handshake_defect(answer(37, 0, 17)), nullptr);
  EXPECT_NE(handshake_defect("HTTP/1.1 400 Bad Request"), nullptr);
  EXPECT_NE(handshake_defect("SSH-2.0-OpenSSH_9.2\r\n"), nullptr);
  for (std::size_t size = 0; size <= 24; ++size)
    EXPECT_EQ(handshake_defect(answer(37, 0, 16).substr(0, size)), nullptr) << size;
  EXPECT_EQ(handshake_defect(""), nullptr);
}

TEST(Troubles, AreToldUnderTheNamesThatTheUserGave) {
  const std::vector<Host> hosts = {{"zk1", 2181}, {"10.0.0.9", 2182}, {"zk2", 2181}, {"::1", 7}};
  ServerTroubles troubles;
  EXPECT_EQ(troubles.text(hosts), "");
  Resolution resolution;
  resolution.names = {{"10.0.0.1:2181", "zk1:2181"}, {"10.0.0.9:2182", "10.0.0.9:2182"}, {"[::1]:7", "[::1]:7"}};
  resolution.unknown = {{"zk2:2181", "has a name that is not known"}};
  troubles.resolved(resolution);
  troubles.note({"10.0.0.9:2182", "closed the connection"});
  troubles.note({"10.0.0.1:2181", "does not answer"});
  troubles.note({"10.0.0.1:2181", "refused the connection"});
  EXPECT_EQ(
      troubles.text(hosts),
      "zk1:2181 (10.0.0.1:2181) refused the connection; 10.0.0.9:2182 closed the connection; zk2:2181 has a name that "
      "is not known");
  troubles.note({"", "no descriptor is left"});
  EXPECT_TRUE(troubles.text(hosts).starts_with("no descriptor is left; zk1:2181"));
  troubles.note({"10.0.0.9:2182", "closed the connection"});
  EXPECT_TRUE(troubles.text(hosts).starts_with("zk1:2181"));
  resolution.unknown.clear();
  resolution.names.erase("10.0.0.1:2181");
  troubles.resolved(resolution);
  EXPECT_EQ(troubles.text(hosts), "10.0.0.9:2182 closed the connection");
  troubles.note({"[::1]:7", "refused the connection"});
  EXPECT_EQ(troubles.text(hosts), "10.0.0.9:2182 closed the connection; [::1]:7 refused the connection");
  troubles.clear();
  EXPECT_EQ(troubles.text(hosts), "");
}

TEST(Troubles, OfANameWithSeveralAddressesEachHasItsReason) {
  const std::vector<Host> hosts = {{"zk", 2181}};
  ServerTroubles troubles;
  Resolution resolution;
  resolution.names = {{"10.0.0.1:2181", "zk:2181"}, {"[fd00::1]:2181", "zk:2181"}};
  troubles.resolved(resolution);
  troubles.note({"[fd00::1]:2181", "cannot be reached: there is no route to it"});
  troubles.note({"10.0.0.1:2181", "refused the connection"});
  EXPECT_EQ(troubles.text(hosts),
            "zk:2181 (10.0.0.1:2181) refused the connection; zk:2181 ([fd00::1]:2181) cannot be reached: there is no "
            "route to it");
}

TEST(Troubles, SilenceIsWhatIsThereToTellBeforeAServerDidSomething) {
  const std::vector<Host> hosts = {{"zk1", 2181}, {"zk2", 2182}};
  ServerTroubles troubles;
  EXPECT_EQ(troubles.silence(hosts), "");
  troubles.begin();
  EXPECT_EQ(troubles.silence(hosts),
            "zk1:2181 has a name that is still being looked up; zk2:2182 has a name that is still being looked up");
  Resolution resolution;
  resolution.addresses = "10.0.0.1:2181,10.0.0.2:2182";
  resolution.names = {{"10.0.0.1:2181", "zk1:2181"}, {"10.0.0.2:2182", "zk2:2182"}};
  troubles.resolved(resolution);
  EXPECT_EQ(troubles.silence(hosts), "zk1:2181 has not answered yet; zk2:2182 has not answered yet");
  EXPECT_EQ(troubles.text(hosts), "") << "no attempt has ended";
  troubles.clear();
  EXPECT_EQ(troubles.silence(hosts), "") << "there is a connection";
}

TEST(Troubles, OfAnAddressThatNoNameHasAreToldAllTheSame) {
  ServerTroubles troubles;
  troubles.note({"10.0.0.1:2181", "refused the connection"});
  EXPECT_EQ(troubles.text({{"zk", 2181}}), "10.0.0.1:2181 refused the connection");
}

}  // namespace
