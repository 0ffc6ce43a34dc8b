#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include <zkclient/client.hpp>

namespace bench {

/// Of each session.
inline constexpr std::chrono::milliseconds recovery_timeout{4000};

/// One attempt to use a recipe: whether it has worked. An error says no.
using Works = std::function<bool()>;

/// Where a process stands: the servers as it reaches them, its client, the place of its recipe. Outlives what is prepared.
struct Stage {
  std::string hosts;
  zkclient::Client client;
  zkclient::Path path;

  Stage(std::string servers, zkclient::Path place)
      : hosts(std::move(servers)), client(hosts, {.session_timeout = recovery_timeout}), path(std::move(place)) {}
};

struct Recipe {
  const char* name;
  /// Begins to use it as one process does, of the same identity each time, and says how it is used.
  Works (*prepare)(const Stage& stage);
};

std::span<const Recipe> recovery_recipes();

}  // namespace bench
