// What front and keeper say to each other while one of them does not listen.

#include <gtest/gtest.h>

#include <optional>

#include "tools/zkr/run/link.hpp"

namespace zkr {
namespace {

int number_of_lines(Link& link) {
  Descriptor none;
  int lines = 0;
  while (link.receive(none))
    ++lines;
  return lines;
}

TEST(ZkrLink, LinesAloneAreDroppedWhileThereIsNoRoom) {
  constexpr int said = 10'000;  // More than any socket takes.
  auto ends = Link::pair();
  Link& keeper = ends.first;
  Link& front = ends.second;
  for (int i = 0; i < said; ++i)
    keeper.say("line");
  const Descriptor command = file_with("stands for a process");
  keeper.send({.word = Word::guard});
  keeper.send({.word = Word::started, .number = 1}, command.get());
  EXPECT_TRUE(keeper.is_behind());
  const int heard = number_of_lines(front);
  EXPECT_LT(heard, said);

  keeper.catch_up();
  EXPECT_FALSE(keeper.is_behind());
  keeper.say("the last one");
  Descriptor process;
  const auto guard = front.receive(process);
  ASSERT_TRUE(guard);
  EXPECT_EQ(guard->word, Word::guard);
  const auto started = front.receive(process);
  ASSERT_TRUE(started);
  EXPECT_EQ(started->word, Word::started);
  EXPECT_TRUE(process);
  const auto last = front.receive(process);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->number, said - heard) << "so many are missing";
}

TEST(ZkrLink, EarlierRunIsForgottenWhenTheNextBegins) {
  auto ends = Link::pair();
  Link& keeper = ends.first;
  while (!keeper.is_behind())
    keeper.send({.word = Word::stopped, .number = 19});
  keeper.send({.word = Word::guard});
  number_of_lines(ends.second);
  keeper.catch_up();
  Descriptor none;
  const auto next = ends.second.receive(none);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->word, Word::guard);
}

}  // namespace
}  // namespace zkr
