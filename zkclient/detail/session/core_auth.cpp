// Identities: proven once on each session, before anything else is sent there.

#include <algorithm>

#include "zkclient/detail/session/core.hpp"

namespace zkclient::detail {

std::shared_ptr<Credential> ClientCore::remember(Credential credential) {
  const auto same = std::find_if(credentials_.begin(), credentials_.end(), [&](const auto& known) {
    return known->scheme == credential.scheme && known->secret == credential.secret;
  });
  if (same != credentials_.end()) return *same;
  credentials_.push_back(std::make_shared<Credential>(std::move(credential)));
  return credentials_.back();
}

void ClientCore::forget(const std::shared_ptr<Credential>& credential) { std::erase(credentials_, credential); }

// The server does not say which one it refuses, and the C client gives the session up. What was never accepted is the
// suspect; if there is no such one, the server has changed its mind about one of the others. Those that are refused are
// not tried again: a session that cannot do everything is better than none.
void ClientCore::refuse_credentials() {
  const bool suspects =
      std::any_of(credentials_.begin(), credentials_.end(), [](const auto& known) { return !known->confirmed; });
  std::erase_if(credentials_, [&](const auto& known) {
    known->refused = !suspects || !known->confirmed;
    return known->refused;
  });
}

Awaitable<Reply> ClientCore::add_auth(Credential credential, Call call) {
  const std::shared_ptr<Credential> known = remember(std::move(credential));
  Request request = make_request(OpType::authenticate, "/");
  request.credential = known;
  ++known->calls;
  Reply sent = co_await perform(std::move(request), call);
  --known->calls;
  if (!sent.ok()) {
    // Not what another call has proven, or is about to prove.
    if (known->calls == 0 && !known->sent) forget(known);
    co_return sent;
  }
  known->sent = true;
  // There is no telling whose answer an answer to an authentication is. But a server that refuses one closes the
  // connection and reads no further: what was sent behind it is answered only if it was accepted.
  Call here = call;
  here.bound = sent.session;
  Reply answer = co_await perform(make_request(OpType::exists, "/"), here);
  if (!known->refused && answer.failed(Errc::session_lost)) {  // For another reason; the next one begins with it.
    answer = co_await perform(make_request(OpType::exists, "/"), call);
  }
  if (known->refused) {
    answer.error = Errc::auth_failed;
  } else if (answer.ok()) {
    known->confirmed = true;
  }
  co_return answer;
}

}  // namespace zkclient::detail
