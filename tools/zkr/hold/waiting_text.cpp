#include "tools/zkr/hold/waiting_text.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/json.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/self_description.hpp"

namespace zkr {
namespace {

std::vector<zkrecipes::Contender>::const_iterator find_own(const std::vector<zkrecipes::Contender>& contenders,
                                                           std::int64_t session) {
  return std::find_if(contenders.begin(), contenders.end(),
                      [session](const zkrecipes::Contender& contender) { return contender.session_id == session; });
}

/// What another client has written may hold anything.
std::string name_of(const zkrecipes::Contender& contender) {
  const SelfDescription self = parse_self_description(contender.data);
  if (self.host.empty()) return printable(self.who.empty() ? contender.node : self.who);
  const std::string process = printable(self.host) + ", pid " + self.pid;
  return self.who.empty() ? process : printable(self.who) + " (" + process + ")";
}

/// Whom this session waits for, or would: the first one. Nothing: there is none.
const zkrecipes::Contender* in_the_way(const std::vector<zkrecipes::Contender>& contenders, std::int64_t session) {
  const auto own = find_own(contenders, session);
  const bool free = own == contenders.begin() || (own != contenders.end() && own->holds);
  return free ? nullptr : &contenders.front();
}

/// By two clocks, the server's and ours.
std::string age_of(const zkrecipes::Contender& contender) {
  const auto age = std::chrono::system_clock::now() - contender.since;
  return to_text(std::max<std::chrono::nanoseconds>(age, std::chrono::seconds(0)));
}

}  // namespace

std::string waiting_text(const std::vector<zkrecipes::Contender>& contenders, std::int64_t session) {
  const zkrecipes::Contender* first = in_the_way(contenders, session);
  if (first == nullptr) return "";
  const auto own = find_own(contenders, session);
  const bool queued = own != contenders.end();
  return fmt::format("{}held by {}, which came {} ago",
                     queued ? fmt::format("waiting behind {}; ", own - contenders.begin()) : "", name_of(*first),
                     age_of(*first));
}

std::string holder_json(const std::vector<zkrecipes::Contender>& contenders, std::int64_t session) {
  const zkrecipes::Contender* first = in_the_way(contenders, session);
  if (first == nullptr) return "";
  const SelfDescription self = parse_self_description(first->data);
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? json::value(nullptr) : json::value(printable(text));
  };
  json::object holder;
  holder["who"] = text_or_null(self.who);
  holder["host"] = text_or_null(self.host);
  holder["pid"] = self.pid.empty() ? json::value(nullptr) : json::value(std::atoll(self.pid.c_str()));
  holder["since"] = utc_text(first->since);
  return json_text(holder);
}

}  // namespace zkr
