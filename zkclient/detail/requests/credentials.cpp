#include "zkclient/detail/requests/credentials.hpp"

#include <algorithm>

namespace zkclient::detail {

std::shared_ptr<Credential> Credentials::remember(Credential credential) {
  const auto same = std::find_if(all_.begin(), all_.end(), [&](const auto& known) {
    return known->scheme == credential.scheme && known->secret == credential.secret;
  });
  if (same != all_.end()) return *same;
  all_.push_back(std::make_shared<Credential>(std::move(credential)));
  return all_.back();
}

// The C client gives the session up. What was never accepted is the suspect; if there is no such one, the server has
// changed its mind about one of the others. Those that are refused are not tried again: a session that cannot do
// everything is better than none.
void Credentials::refuse() {
  const bool suspects = std::any_of(all_.begin(), all_.end(), [](const auto& known) { return !known->confirmed; });
  std::erase_if(all_, [&](const auto& known) {
    known->refused = !suspects || !known->confirmed;
    return known->refused;
  });
}

}  // namespace zkclient::detail
