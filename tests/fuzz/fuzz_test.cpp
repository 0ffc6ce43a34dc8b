// The fuzz targets over their seeds and a few thousand mutations of them. ZKRECIPES_SEED repeats a run,
// ZKRECIPES_SOAK=seconds makes it long.

#include <chrono>
#include <cstdlib>
#include <random>
#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/fuzz/targets.hpp"

namespace {

class FuzzTest : public ::testing::TestWithParam<fuzz::Target> {
 protected:
  void check(const std::string& input) {
    try {
      GetParam().check(input);
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\ninput: " << ::testing::PrintToString(input) << "\nseed: " << seed;
    }
  }
  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random); }
  const std::string& any_seed() { return GetParam().seeds[below(GetParam().seeds.size())]; }
  char any_byte() {
    // Those that parsers mind, as often as all the others together.
    static const std::string special(
        "/.:,[]-_ \n\0\xff\x80\xc3\xed"
        "0129a\t",
        21);
    return below(2) == 0 ? special[below(special.size())] : static_cast<char>(below(256));
  }
  void mutate(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0: text.insert(at, 1, any_byte()); break;
      case 1: text.erase(at, below(4)); break;
      case 2:
        if (at < text.size()) text[at] = any_byte();
        break;
      case 3: text.insert(at, text.substr(below(text.size() + 1), below(12))); break;
      default: text.insert(at, any_seed()); break;
    }
  }

  const unsigned seed = std::getenv("ZKRECIPES_SEED") != nullptr
                            ? static_cast<unsigned>(std::strtoul(std::getenv("ZKRECIPES_SEED"), nullptr, 10))
                            : std::random_device()();
  std::mt19937 random{seed};
};

TEST_P(FuzzTest, SeedsHaveTheProperties) {
  check("");
  for (const std::string& text : GetParam().seeds)
    check(text);
}

TEST_P(FuzzTest, MutationsHaveTheProperties) {
  const char* soak = std::getenv("ZKRECIPES_SOAK");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(soak != nullptr ? std::atoi(soak) : 0);
  for (int i = 0; (i < 5000 || std::chrono::steady_clock::now() < end) && !HasFatalFailure(); ++i) {
    std::string text = any_seed();
    for (std::size_t changes = 1 + below(6); changes > 0; --changes)
      mutate(text);
    check(text);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, FuzzTest, ::testing::ValuesIn(fuzz::targets()),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
