// Beginning, end, session and state of a client. Its operations are in client_reads, client_writes, client_tree and
// client_admin.

#include <zkclient/client.hpp>

#include "zkclient/detail/calls/plan.hpp"
#include "zkclient/detail/process.hpp"

namespace zkclient {

using detail::ClientCore;
using detail::CorePtr;
using detail::make_request;
using detail::OpType;
using detail::Plan;
using detail::Reply;
using detail::run;
using detail::start;

/// The state that the copies of a Client share.
struct Client::Handle {
  std::unique_ptr<Runtime> runtime;  // Only if the client made its own.
  std::shared_ptr<ClientCore> core;

  void close() {
    if (core->loop()->forked()) return;
    core->begin_close();
    core->finish_close();
    if (runtime != nullptr) runtime->impl()->stop();
  }
  ~Handle() {
    if (core == nullptr) return;
    if (core->loop()->forked()) {  // They are the parent's.
      detail::keep_for_ever(std::move(core));
      static_cast<void>(runtime.release());
      return;
    }
    if (!core->loop()->on_loop()) {
      close();
      return;
    }
    // The last copy was in something that the event loop let go, which must not wait for itself. The session ends also if
    // the executor drops the rest.
    core->begin_close();
    const auto callbacks = core->callbacks();
    callbacks->post([runtime = std::move(runtime), core = std::move(core)] {
      core->finish_close();
      if (runtime != nullptr) runtime->impl()->stop();
    });
  }
};

Client::Client(std::string_view hosts, ClientOptions options) : handle_(std::make_shared<Handle>()) {
  auto runtime = std::make_unique<Runtime>();
  handle_->core = ClientCore::start(runtime->impl(), hosts, std::move(options));
  handle_->runtime = std::move(runtime);
}

Client::Client(Runtime& runtime, std::string_view hosts, ClientOptions options) : handle_(std::make_shared<Handle>()) {
  handle_->core = ClientCore::start(runtime.impl(), hosts, std::move(options));
}

void Client::close() { handle_->close(); }
Session Client::session() const { return Session(handle_->core->session()); }
const Path& Client::prefix() const noexcept { return handle_->core->options().prefix; }
const std::shared_ptr<ClientCore>& Client::impl() const noexcept { return handle_->core; }

std::optional<std::string> Client::server() const { return impl()->server(); }
std::string Client::trouble() const { return impl()->trouble(); }

namespace {
Plan<Session> plan_connect() {
  return {make_request(OpType::connect, "/"), "", [](Reply& reply) { return Session(reply.session); }};
}
}  // namespace

Session Client::connect(const CallOptions& call) const { return run(impl(), plan_connect(), call).value(); }
void Client::async_connect(Handler<Session> handler, const CallOptions& call) const {
  start(impl(), plan_connect(), call, std::move(handler));
}

Subscription Client::on_state_change(StateListener listener) const {
  if (!listener) throw Error(Errc::invalid_argument, "on_state_change", "", "no listener");
  return Subscription(impl()->subscribe(std::move(listener)));
}

}  // namespace zkclient
