#include "zkclient/detail/requests/set_decider.hpp"

#include <cstdint>

namespace zkclient::detail {

// In the life of one node each version is made by exactly one write.
SetOutcome decide_set(const Stat& expected, const std::string& data, const Stat& now, const std::string& now_data,
                      bool now_null) {
  if (now.czxid != expected.czxid) return SetOutcome::unknown;
  if (now.version == expected.version) return SetOutcome::not_applied;
  const auto next = static_cast<std::int32_t>(static_cast<std::uint32_t>(expected.version) + 1);
  if (now.version != next) return SetOutcome::unknown;
  return !now_null && now_data == data ? SetOutcome::applied : SetOutcome::superseded;
}

}  // namespace zkclient::detail
