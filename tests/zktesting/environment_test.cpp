#include "zktesting/environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "testing_support.hpp"

namespace zktesting {
namespace {

TEST(ExternalServer, IsReadFromTheEnvironment) {
  ::unsetenv("ZKRECIPES_SERVER");
  EXPECT_EQ(external_server(), std::nullopt);
  ::setenv("ZKRECIPES_SERVER", "", 1);
  EXPECT_EQ(external_server(), std::nullopt);
  ::setenv("ZKRECIPES_SERVER", "127.0.0.1:2181", 1);
  EXPECT_EQ(external_server(), "127.0.0.1:2181");
  ::unsetenv("ZKRECIPES_SERVER");
}

TEST(SharedServer, IsOursIfThereIsNoExternalOne) {
  ::unsetenv("ZKRECIPES_SERVER");
  SharedServer& shared = SharedServer::instance();
  EXPECT_TRUE(shared.has_control());
  EXPECT_EQ(shared.connect_string(), shared.server().connect_string());
  EXPECT_EQ(&shared, &SharedServer::instance());
  EXPECT_EQ(connect_to(shared.connect_string()).exists("/"), 0);
}

}  // namespace
}  // namespace zktesting
