#pragma once

#include <cstddef>
#include <optional>

#include <zktesting/ensemble.hpp>

namespace testkit {

/// Now and then, though rarely, a real server ends its own process when its leader falls silent. Like in production,
/// the test has to start it again. `killed` is to stay so.
inline void restart_who_has_died(zktesting::Ensemble& ensemble, std::optional<std::size_t> killed = {}) {
  for (std::size_t i = 0; i < ensemble.size(); ++i) {
    if (i != killed && !ensemble.server(i).running()) ensemble.restart(i);
  }
}

}  // namespace testkit
