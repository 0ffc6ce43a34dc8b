#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace bench {

/// What this process has in memory now.
inline std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace bench
