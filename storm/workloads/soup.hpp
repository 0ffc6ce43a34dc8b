#pragma once

#include "storm/checkers/checkers.hpp"
#include "storm/place.hpp"

/// Many recipes on one client, at the same time.
namespace storm {

void run_soup(Place& place);
void look_at_soup(Place& place);
Faults check_soup(const History& history);

}  // namespace storm
