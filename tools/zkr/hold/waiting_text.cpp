#include "tools/zkr/hold/waiting_text.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/self_description.hpp"

namespace zkr {
namespace {

std::string name_of(const zkrecipes::Contender& contender) {
  const SelfDescription self = parse_self_description(contender.data);
  if (self.host.empty()) return self.who.empty() ? contender.node : self.who;
  const std::string process = self.host + ", pid " + self.pid;
  return self.who.empty() ? process : self.who + " (" + process + ")";
}

/// By two clocks, the server's and ours.
std::string age_of(const zkrecipes::Contender& contender) {
  const auto age = std::chrono::system_clock::now() - contender.since;
  return to_text(std::max<std::chrono::nanoseconds>(age, std::chrono::seconds(0)));
}

}  // namespace

std::string waiting_text(const std::vector<zkrecipes::Contender>& contenders, std::int64_t session) {
  const auto own = std::find_if(contenders.begin(), contenders.end(), [session](const zkrecipes::Contender& contender) {
    return contender.session_id == session;
  });
  if (own == contenders.begin() || (own != contenders.end() && own->holds)) return "";
  const zkrecipes::Contender& first = contenders.front();
  const bool queued = own != contenders.end();
  return fmt::format("{}held by {}, which came {} ago",
                     queued ? fmt::format("waiting behind {}; ", own - contenders.begin()) : "", name_of(first),
                     age_of(first));
}

}  // namespace zkr
