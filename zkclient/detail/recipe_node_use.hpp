#pragma once

// Beside recipe_api.hpp, for recipes that put nodes in the place of those that a session has left.

#include "zkclient/detail/session/node_use.hpp"
