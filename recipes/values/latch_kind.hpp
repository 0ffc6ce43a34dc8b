#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "recipes/values/latch_decider.hpp"
#include "recipes/values/value_core.hpp"

namespace zkrecipes::detail {

/// A node that holds a latch: see ValueCore. A request is by how much is counted down.
struct LatchKind {
  using Request = std::int64_t;
  using Answer = LatchAnswer;
  using Step = LatchStep;
  static constexpr zk::OpType read = zk::OpType::get;
  static constexpr std::size_t most_calls = std::numeric_limits<std::size_t>::max();

  LatchUse use;

  LatchStep decide(const ValueLook& seen, const std::vector<std::int64_t>& counts) const {
    return decide_latch(view(seen.reply), counts, use);
  }
  static std::string data(const LatchStep& step) { return encode_latch(step.record); }
  static bool is_regardless(std::int64_t) noexcept { return false; }
  static bool needs_a_read(std::int64_t) noexcept { return false; }
  static bool has_looked(std::int64_t) noexcept { return false; }
  static std::optional<LatchAnswer> refusal(std::int64_t, ValueWrite, int) { return std::nullopt; }

  static LatchView view(const zk::Reply& seen) {
    LatchView view;
    view.exists = seen.ok();
    if (!view.exists) return view;
    view.record = decode_latch(seen.data);
    view.version = seen.stat.version;
    return view;
  }
};

}  // namespace zkrecipes::detail
