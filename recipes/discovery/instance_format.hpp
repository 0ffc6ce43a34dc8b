#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <zkclient/export.hpp>
#include <zkrecipes/service_instance.hpp>

/// Instances as Curator's JsonInstanceSerializer writes them: one JSON object, with the keys in Curator's order.
namespace zkrecipes::detail {

inline constexpr std::size_t max_instance_bytes = std::size_t{1} << 20U;
/// Of objects and arrays within each other. What is deeper is no instance, and no payload.
inline constexpr int max_instance_depth = 32;
/// Of objects, arrays, keys and other values together: an object takes time with the square of its keys.
inline constexpr int max_instance_parts = 4096;

/// An instance, or what is wrong with it.
struct ReadInstance {
  std::optional<ServiceInstance> instance = {};
  std::string defect = {};
};
struct WrittenInstance {
  std::optional<std::string> bytes = {};
  std::string defect = {};
  bool too_large = false;
};

/// Neither throws, whatever the bytes.
ZKRECIPES_INTERNAL_API ReadInstance read_instance(std::string_view bytes);
ZKRECIPES_INTERNAL_API WrittenInstance write_instance(const ServiceInstance& instance);

}  // namespace zkrecipes::detail
