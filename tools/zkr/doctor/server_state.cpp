#include "tools/zkr/doctor/server_state.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>
#include <boost/json/parse.hpp>

#include "tools/zkr/cli/json.hpp"

namespace zkr {
namespace {

// What follows `name` in its line. "": there is no such line.
std::string_view value_of(std::string_view text, std::string_view name) {
  std::size_t at = text.find(name);
  while (at != std::string_view::npos && at != 0 && text[at - 1] != '\n')
    at = text.find(name, at + 1);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + name.size());
  return text.substr(0, text.find_first_of("\r\n"));
}

std::int64_t number_of(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::uint64_t hexadecimal(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return number;
}

// "0/0.4512/17", the least, the average, the most.
void read_latencies(std::string_view text, ServerState& state) {
  const std::size_t first = text.find('/');
  const std::size_t second = text.rfind('/');
  if (first == second) return;
  state.latency_ms = std::strtod(std::string(text.substr(first + 1, second - first - 1)).c_str(), nullptr);
  state.worst_latency_ms = std::strtod(std::string(text.substr(second + 1)).c_str(), nullptr);
}

double number_in(const json::object& object, const char* name) {
  const json::value* member = object.if_contains(name);
  return member != nullptr && member->is_number() ? member->to_number<double>() : 0;
}

}  // namespace

std::optional<ServerState> parse_srvr(std::string_view answer) {
  ServerState state;
  state.mode = value_of(answer, "Mode: ");
  if (state.mode.empty()) return std::nullopt;
  state.zxid = hexadecimal(value_of(answer, "Zxid: "));
  read_latencies(value_of(answer, "Latency min/avg/max: "), state);
  state.outstanding = number_of(value_of(answer, "Outstanding: "));
  state.connections = number_of(value_of(answer, "Connections: "));
  return state;
}

std::optional<ServerState> parse_stats(std::string_view answer) {
  json::error_code error;
  const json::value value = json::parse({answer.data(), answer.size()}, error);
  if (error || !value.is_object()) return std::nullopt;
  const json::value* statistics = value.get_object().if_contains("server_stats");
  if (statistics == nullptr || !statistics->is_object()) return std::nullopt;
  const json::object& object = statistics->get_object();
  const json::value* mode = object.if_contains("server_state");
  if (mode == nullptr || !mode->is_string()) return std::nullopt;
  ServerState state;
  state.mode = mode->get_string();
  state.zxid = static_cast<std::uint64_t>(number_in(object, "last_processed_zxid"));
  state.latency_ms = number_in(object, "avg_latency");
  state.worst_latency_ms = number_in(object, "max_latency");
  state.outstanding = static_cast<std::int64_t>(number_in(object, "outstanding_requests"));
  state.connections = static_cast<std::int64_t>(number_in(object, "num_alive_client_connections"));
  return state;
}

std::string why_closed(std::string_view answer) {
  if (answer.empty()) return "it does not answer four letters";
  if (answer.find("not in the whitelist") != std::string_view::npos) {
    return "its four letters are closed: 4lw.commands.whitelist=srvr,cons in its zoo.cfg opens them";
  }
  if (answer.find("not currently serving") != std::string_view::npos) return "it does not serve: it has no quorum";
  return parse_srvr(answer) ? "" : "it gives no answer that is known";
}

const char* to_string(Gravity gravity) noexcept {
  switch (gravity) {
    case Gravity::good: return "ok";
    case Gravity::note: return "note";
    case Gravity::warning: return "warning";
    case Gravity::failure: return "failure";
  }
  return "failure";
}

std::vector<Finding> judge_ensemble(std::size_t listed, const std::vector<ServerState>& states) {
  constexpr std::uint64_t long_lag = 1000;
  if (states.empty()) return {{Gravity::note, "ensemble", "no server tells its role"}};
  const auto leaders = std::count_if(states.begin(), states.end(), [](const ServerState& state) {
    return state.mode == "leader" || state.mode == "standalone";
  });
  std::vector<Finding> findings;
  if (leaders > 1) {
    findings.push_back(
        {Gravity::failure, "ensemble",
         fmt::format("{} servers say that they lead: they are no ensemble, or one of them is cut off", leaders)});
  } else if (leaders == 1) {
    findings.push_back({Gravity::good, "ensemble", "one leader"});
  } else {
    const Gravity gravity = states.size() < listed ? Gravity::note : Gravity::warning;
    findings.push_back(
        {gravity, "ensemble", "none of the servers that answer leads: the leader is not among those named"});
  }
  const auto newest = std::max_element(states.begin(), states.end(),
                                       [](const ServerState& a, const ServerState& b) { return a.zxid < b.zxid; });
  for (const ServerState& state : states) {
    if (newest->zxid - state.zxid <= long_lag) continue;
    findings.push_back({Gravity::warning, "ensemble",
                        fmt::format("a {} is {} transactions behind", state.mode, newest->zxid - state.zxid)});
  }
  return findings;
}

}  // namespace zkr
