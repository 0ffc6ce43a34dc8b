#include <zkclient/function.hpp>

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace {

using zkclient::UniqueFunction;

TEST(UniqueFunctionTest, IsEmptyByDefault) {
  UniqueFunction<void()> function;
  EXPECT_FALSE(function);
  function = [] {};
  EXPECT_TRUE(function);
  function = nullptr;
  EXPECT_FALSE(function);
}

TEST(UniqueFunctionTest, OwnsWhatCannotBeCopied) {
  UniqueFunction<int()> function = [number = std::make_unique<int>(7)] { return *number; };
  UniqueFunction<int()> moved = std::move(function);
  EXPECT_EQ(moved(), 7);
}

TEST(UniqueFunctionTest, PassesArgumentsOnWithoutACopy) {
  UniqueFunction<std::unique_ptr<int>(std::unique_ptr<int>)> same = [](std::unique_ptr<int> p) { return p; };
  EXPECT_EQ(*same(std::make_unique<int>(3)), 3);
  UniqueFunction<void(std::string&)> append = [](std::string& text) { text += "!"; };
  std::string text = "a";
  append(text);
  EXPECT_EQ(text, "a!");
}

TEST(UniqueFunctionTest, KeepsStateBetweenCalls) {
  UniqueFunction<int()> count = [n = 0]() mutable { return ++n; };
  count();
  EXPECT_EQ(count(), 2);
}

TEST(UniqueFunctionTest, DropsTheResultForVoid) {
  int calls = 0;
  UniqueFunction<void()> function = [&] { return ++calls; };
  function();
  EXPECT_EQ(calls, 1);
}

TEST(UniqueFunctionTest, TakesACopyOfAnLvalue) {
  const auto shared = std::make_shared<int>(1);
  const auto lambda = [shared] { return *shared; };
  UniqueFunction<int()> function(lambda);
  EXPECT_EQ(shared.use_count(), 3);
  EXPECT_EQ(function(), 1);
}

TEST(UniqueFunctionTest, DestroysItsTargetOnce) {
  const auto shared = std::make_shared<int>(1);
  UniqueFunction<void()> function = [shared] {};
  UniqueFunction<void()> other = std::move(function);
  EXPECT_EQ(shared.use_count(), 2);
  other = nullptr;
  EXPECT_EQ(shared.use_count(), 1);
}

}  // namespace
