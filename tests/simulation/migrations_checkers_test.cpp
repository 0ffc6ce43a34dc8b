// The judge of migrations must refuse histories that are wrong, and nothing else.

#include <gtest/gtest.h>

#include <string>

#include "storm/checkers/migrations.hpp"

namespace storm {
namespace {

struct MigrationNote {
  const char* what = "";
  std::int64_t a = 0;
  const char* text = "";
  const char* who = "p0";
};

// Every third step reads what it changes.
std::string judge_migrations(std::initializer_list<MigrationNote> notes) {
  History history;
  for (const MigrationNote& one : notes)
    history.add({Nanos(1), one.who, one.what, one.a, 0, one.text});
  std::string all;
  for (const std::string& fault : check_migrations(history, [](std::int64_t step) { return step % 3 == 0; }))
    all += fault + "; ";
  return all;
}

TEST(MigrationsChecker, TakesWhatIsRight) {
  EXPECT_EQ(judge_migrations({}), "");
  EXPECT_EQ(judge_migrations({{"migrating", 2},
                              {"migrated", 2, "1,2"},
                              {"migrating", 6, "", "p1"},
                              {"migrated", 6, "3,4,5,6", "p1"},
                              {"migrating", 2},
                              {"too old", 2},
                              {"looking"},
                              {"sees", 0, "1,2,3,4,5,6"},
                              {"list", 0, "3,6"},
                              {"written", 3}}),
            "");
  EXPECT_EQ(judge_migrations({{"migrating", 3}, {"looking"}, {"sees", 0, "1,2"}, {"list"}, {"written", 1}}), "")
      << "one that is not done, or in doubt";
  EXPECT_EQ(judge_migrations({{"migrating", 1}, {"looking"}, {"migrated", 1, "1"}, {"sees"}}), "")
      << "it has looked before";
  EXPECT_EQ(judge_migrations({{"migrating", 2}, {"migrating", 3, "", "p1"}, {"migrated", 3, "3", "p1"}}), "")
      << "one that nobody claims: its reply was lost";
}

TEST(MigrationsChecker, RefusesWhatIsWrong) {
  EXPECT_NE(judge_migrations({{"migrating", 2}, {"migrated", 2, "1,2"}, {"migrated", 2, "2", "p1"}}), "") << "twice";
  EXPECT_NE(judge_migrations({{"migrating", 1}, {"migrating", 9, "", "p1"}, {"migrated", 1, "2"}}), "")
      << "a step that it does not have";
  EXPECT_NE(judge_migrations({{"migrating", 2}, {"too old", 2}}), "") << "nobody was newer";
  EXPECT_NE(judge_migrations({{"migrating", 3}, {"looking"}, {"sees", 0, "1,3"}}), "") << "a gap";
  EXPECT_NE(judge_migrations({{"migrating", 3}, {"migrated", 3, ""}, {"looking"}, {"sees", 0, "1,2"}}), "")
      << "one is missing";
  EXPECT_NE(judge_migrations({{"migrating", 1}, {"looking"}, {"sees", 0, "1,2"}}), "") << "of which program?";
  EXPECT_NE(judge_migrations({{"migrating", 3}, {"looking"}, {"sees", 0, "1,2,3"}, {"list", 0, "3,3"}}), "");
  EXPECT_NE(judge_migrations({{"migrating", 6}, {"looking"}, {"sees", 0, "1,2,3,4,5,6"}, {"list", 0, "6,3"}}), "");
  EXPECT_NE(judge_migrations({{"migrating", 2}, {"looking"}, {"sees", 0, "1,2"}, {"written", 2}}), "")
      << "written twice";
  EXPECT_NE(judge_migrations({{"wrong", 0, "node_exists"}}), "");
}

}  // namespace
}  // namespace storm
