#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/error.hpp>

#include "recipes/values/value_write.hpp"

namespace zkrecipes::detail {

/// What is in the node.
struct LatchRecord {
  std::int64_t generation = 0;  ///< 0: none has begun.
  std::int64_t count = 0;
  std::int64_t left = 0;

  bool operator==(const LatchRecord&) const = default;
};

std::string encode_latch(const LatchRecord& record);
/// nullopt: it is no latch. No data is one that nobody has counted down.
std::optional<LatchRecord> decode_latch(std::string_view data) noexcept;

/// What an object expects: one use of the path.
struct LatchUse {
  std::int64_t generation = 1;
  std::int64_t count = 1;
};

/// The node, as it was read.
struct LatchView {
  bool exists = false;
  std::optional<LatchRecord> record = LatchRecord();  ///< nullopt: no latch.
  std::int32_t version = 0;
};

/// What a use finds in the node, or what its caller gets if the transaction is applied.
struct LatchAnswer {
  std::optional<zkclient::Errc> error = {};
  std::string why = {};
  std::int64_t left = 0;  ///< Of the use's generation.
};

/// One transaction for many callers.
struct LatchStep {
  ValueWrite write = ValueWrite::nothing;
  LatchRecord record = {};
  std::vector<LatchAnswer> answers = {};  ///< In the order of the counts.
};

/// What the use has left; an error if the node is not for it.
LatchAnswer look_at_latch(const std::optional<LatchRecord>& record, const LatchUse& use);

/// Applies `counts` to `view`, one after the other.
LatchStep decide_latch(const LatchView& view, const std::vector<std::int64_t>& counts, const LatchUse& use);

}  // namespace zkrecipes::detail
