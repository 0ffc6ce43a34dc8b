#pragma once

#include <unistd.h>

#include <cstddef>
#include <fstream>

/// For tests of how much memory something takes.
namespace testkit {

/// A sanitizer makes each call many times as slow, keeps what is freed, and its notes take several times the memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// Of this process, in memory.
inline std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace testkit
