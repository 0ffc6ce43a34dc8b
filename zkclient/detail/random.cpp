#include "zkclient/detail/random.hpp"

#include <unistd.h>

#include <random>

namespace zkclient::detail {

void fill_randomly(void* bytes, std::size_t size) {
  if (::getentropy(bytes, size) == 0) return;
  std::random_device device;  // Only in a sandbox without the system call.
  for (auto* at = static_cast<unsigned char*>(bytes); size > 0; --size)
    *at++ = static_cast<unsigned char>(device());
}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  fill_randomly(&seed, sizeof seed);
  return seed;
}

}  // namespace zkclient::detail
