// A process that loaded libzookeeper_mt as well: this program exports a function that only that library has.

#include <gtest/gtest.h>
#include <zkclient/error.hpp>
#include <zkclient/runtime.hpp>

extern "C" int zoo_create() { return 0; }

namespace {

TEST(LibraryConflict, IsRefused) {
  try {
    const zkclient::Runtime runtime;
    FAIL() << "no error was thrown";
  } catch (const zkclient::Error& error) {
    EXPECT_EQ(error.errc(), zkclient::Errc::library_conflict) << error.what();
  }
}

}  // namespace
