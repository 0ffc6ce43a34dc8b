#include "zkclient/detail/calls/add_auth.hpp"

#include "zkclient/detail/requests/credentials.hpp"

namespace zkclient::detail {

Awaitable<Reply> add_auth(std::shared_ptr<ClientCore> client, Credential credential, Call call) {
  const std::shared_ptr<Credential> known = client->credentials().remember(std::move(credential));
  Request request = make_request(OpType::authenticate, "/");
  request.credential = known;
  ++known->calls;
  Reply sent = co_await client->perform(std::move(request), call);
  --known->calls;
  if (!sent.ok()) {
    // Not what another call has proven, or is about to prove.
    if (known->calls == 0 && !known->sent) client->credentials().forget(known);
    co_return sent;
  }
  known->sent = true;
  // There is no telling whose answer an answer to an authentication is. But a server that refuses one closes the
  // connection and reads no further: what was sent behind it is answered only if it was accepted.
  Call here = call;
  here.bound = sent.session;
  Reply answer = co_await client->perform(make_request(OpType::exists, "/"), here);
  if (!known->refused && answer.failed(Errc::session_lost)) {  // For another reason; the next one begins with it.
    answer = co_await client->perform(make_request(OpType::exists, "/"), call);
  }
  if (known->refused) {
    answer.error = Errc::auth_failed;
  } else if (answer.ok()) {
    known->confirmed = true;
  }
  co_return answer;
}

}  // namespace zkclient::detail
