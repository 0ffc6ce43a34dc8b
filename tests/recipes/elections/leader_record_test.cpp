#include "recipes/elections/leader_record.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace zkrecipes::detail {
namespace {

TEST(LeaderRecord, RoundTrip) {
  const std::string everything = [] {
    std::string bytes;
    for (int i = 0; i < 256; ++i)
      bytes.push_back(static_cast<char>(i));
    return bytes;
  }();
  const std::optional<std::string> values[] = {std::nullopt, "", "x", "\n", "two\nlines", "leader/1 7 1 1\nnested",
                                               everything};
  for (const std::int64_t term :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{0x1'0000'0002}, std::numeric_limits<std::int64_t>::max()}) {
    for (const bool ready : {false, true}) {
      for (const auto& value : values) {
        const LeaderRecord record{term, ready, value};
        EXPECT_EQ(decode_leader_record(encode(record)), record);
      }
    }
  }
}

TEST(LeaderRecord, LooksAsDocumented) {
  EXPECT_EQ(encode({17, true, "here"}), "leader/1 17 1 1\nhere");
  EXPECT_EQ(encode({17, false, std::nullopt}), "leader/1 17 0 0\n");
  EXPECT_EQ(encode({17, false, ""}), "leader/1 17 0 1\n");
}

TEST(LeaderRecord, NoValueAndAnEmptyOneAreTwoThings) {
  EXPECT_EQ(decode_leader_record("leader/1 1 0 0\n")->value, std::nullopt);
  EXPECT_EQ(decode_leader_record("leader/1 1 0 1\n")->value, "");
}

TEST(LeaderRecord, GarbageIsRefused) {
  const char* const garbage[] = {"",
                                 "\n",
                                 "leader",
                                 "leader/1",
                                 "leader/1 ",
                                 "leader/1 \n",
                                 "leader/2 1 0 0\n",
                                 "Leader/1 1 0 0\n",
                                 " leader/1 1 0 0\n",
                                 "leader/1 1 0 0",
                                 "leader/1 1 0\n",
                                 "leader/1 1\n",
                                 "leader/1 x 0 0\n",
                                 "leader/1  1 0 0\n",
                                 "leader/1 +1 0 0\n",
                                 "leader/1 1.5 0 0\n",
                                 "leader/1 99999999999999999999 0 0\n",
                                 "leader/1 1 2 0\n",
                                 "leader/1 1 0 2\n",
                                 "leader/1 1 00\n",
                                 "leader/1 1 0 0 \n",
                                 "leader/1 1  0 0\n",
                                 "leader/1 1 0 0\nvalue without its flag",
                                 "192.168.0.1",
                                 "{\"term\": 1}"};
  for (const char* text : garbage) {
    EXPECT_EQ(decode_leader_record(text), std::nullopt) << text;
  }
}

TEST(LeaderRecord, EveryTruncatedHeaderIsRefused) {
  const std::string header = "leader/1 12345 1 1\n";
  for (std::size_t length = 0; length < header.size(); ++length) {
    EXPECT_EQ(decode_leader_record(std::string_view(header).substr(0, length)), std::nullopt) << length;
  }
}

TEST(LeaderRecord, EveryChangedByteOfTheHeaderIsNoticedOrChangesTheRecord) {
  const LeaderRecord record{12345, true, "value"};
  const std::string good = encode(record);
  const std::size_t header = good.find('\n') + 1;
  for (std::size_t at = 0; at < header; ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = good;
      changed[at] = static_cast<char>(byte);
      if (changed == good) continue;
      EXPECT_NE(decode_leader_record(changed), record) << "byte " << byte << " at " << at;
    }
  }
}

}  // namespace
}  // namespace zkrecipes::detail
