#pragma once

// What views of the tree need of the client beside recipe_api.hpp: to hear of its own writes, and to share what they have
// in common.

#include "zkclient/detail/session/own_writes.hpp"
