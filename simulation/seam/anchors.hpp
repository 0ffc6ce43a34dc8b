#pragma once

namespace zktesting::simulated {

void anchor_clocks();
void anchor_descriptors();
void anchor_threads();

/// Aborts with a sentence if the shared libraries of this program see libc's functions and not ours: it was linked in a
/// way that hides them (--exclude-libs, a version script), and half of it would have another time. So it does if the
/// allocator locks mutexes that are the world's (jemalloc).
void expect_seam_to_be_seen();

/// The linker takes an object from a static library only if somebody asks for something in it. Shared libraries, which
/// need these symbols most, do not count.
inline void use_seam() {
  anchor_clocks();
  anchor_descriptors();
  anchor_threads();
}

}  // namespace zktesting::simulated
