#pragma once

// What recipes may use beyond recipe_api.hpp: which names of other clients' nodes count.

#include "zkclient/detail/requests/usable_names.hpp"
