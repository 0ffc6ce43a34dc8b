#pragma once

#include <dlfcn.h>

namespace zktesting::simulated {

/// libc's own function of that name, or the sanitizer's if it has one: what this program's symbol hides. The first call
/// looks it up; no static with a guard, because the guard's functions are themselves hidden.
template <typename Function>
Function real_symbol(Function& known, const char* name) {
  Function found = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (found == nullptr) {
    found = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
    __atomic_store_n(&known, found, __ATOMIC_RELAXED);
  }
  return found;
}

}  // namespace zktesting::simulated

/// The function of type `TYPE` that this program's `NAME` hides.
#define ZKR_REAL_AS(TYPE, NAME)                                   \
  ([] {                                                           \
    static TYPE known = nullptr;                                  \
    return zktesting::simulated::real_symbol<TYPE>(known, #NAME); \
  }())
#define ZKR_REAL(NAME) ZKR_REAL_AS(decltype(&::NAME), NAME)
