#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace zkclient::detail {

/// Before the C client may send, and after it may have received. What one thread sends and another receives puts them
/// in an order. ThreadSanitizer would see that in the calls to the system, as one order of all sockets, but it leaves
/// out those of the C client (tests/support/tsan.supp). Nothing in other builds.
inline void note_socket_order() noexcept {
#if defined(__SANITIZE_THREAD__)
  static char all_sockets = 0;
  __tsan_acquire(&all_sockets);
  __tsan_release(&all_sockets);
#endif
}

}  // namespace zkclient::detail
