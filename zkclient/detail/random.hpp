#pragma once

#include <cstddef>
#include <cstdint>

#include <zkclient/export.hpp>

namespace zkclient::detail {

/// The only source of randomness of the libraries, from the kernel. Not std::random_device, which may ask the processor:
/// a test that makes its own world takes the kernel's place, but cannot take the processor's.
ZKRECIPES_INTERNAL_API void fill_randomly(void* bytes, std::size_t size);

/// For a generator of its own.
ZKRECIPES_INTERNAL_API std::uint64_t random_seed();

}  // namespace zkclient::detail
