#include "storm/place.hpp"

#include <thread>

namespace storm {

void Place::pause(std::uint64_t most) {
  std::this_thread::sleep_for(std::chrono::microseconds(1 + below(most * 250 * habits().pause_quarters)));
}

}  // namespace storm
