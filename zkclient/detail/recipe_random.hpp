#pragma once

#include "zkclient/detail/random.hpp"  // For recipes, which include nothing else of the client's inside.
