#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/servers/wire.hpp"

namespace zktesting::simulated {

/// A request's frame, as a client sends it, without its length.
std::string encode_request(const Request& request);

/// What a person reads of it.
std::string text_of(const Request& request);
/// The same of a frame of the server's, without its length: an event, or the reply to `request`. Whatever is there behind a
/// reply is shown as numbers.
std::string text_of(std::string_view frame, const Request& request);

/// Where in such a frame the Stats begin.
std::vector<std::size_t> stats_in(std::string_view frame, const Request& request);

bool is_event(std::string_view frame);

}  // namespace zktesting::simulated
