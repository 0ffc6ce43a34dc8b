#pragma once

#include "zkclient/detail/probes.hpp"  // For recipes, which include nothing else of the client's inside.
