// Access rights, identities, the ensemble.

#include <zkclient/client.hpp>

#include <algorithm>

#include "zkclient/detail/calls/add_auth.hpp"
#include "zkclient/detail/calls/plan.hpp"

namespace zkclient {

using detail::Awaitable;
using detail::Call;
using detail::CallForm;
using detail::CorePtr;
using detail::make_request;
using detail::OpType;
using detail::Plan;
using detail::Reply;
using detail::run;
using detail::start;
using detail::take;
using detail::Work;

namespace {

constexpr std::size_t max_secret_bytes = 64 * 1024;

Plan<NodeAcl> plan_get_acl(const CorePtr& core, const Path& path) {
  return {make_request(OpType::get_acl, core->full(path)), path.str(), [](Reply& reply) {
            return NodeAcl{std::move(reply.acl), reply.stat};
          }};
}

Plan<void> plan_set_acl(const CorePtr& core, const Path& path, const AclList& acl, std::int32_t acl_version) {
  detail::check_acl("set_acl", path, acl);
  detail::Request request = make_request(OpType::set_acl, core->full(path));
  request.acl = acl;
  request.version = acl_version;
  return {std::move(request), path.str(), {}};
}

Plan<void> plan_sync(const CorePtr& core, const Path& path) {
  return {make_request(OpType::sync, core->full(path)), path.str(), {}};
}

Work<void> proving(const CorePtr& core, std::string_view scheme, std::string_view credentials) {
  const auto refuse = [](const char* why) { throw Error(Errc::invalid_argument, "add_auth", "", why); };
  if (scheme.empty() || scheme.find('\0') != std::string_view::npos) refuse("no scheme, or one with a zero byte");
  if (credentials.size() > max_secret_bytes) refuse("the credentials are longer than 64 KiB");
  detail::Credential credential{std::string(scheme), std::string(credentials)};
  return [core, credential = std::move(credential)](Call limits) {
    return [](CorePtr owner, detail::Credential proof, Call call) -> Awaitable<Result<void>> {
      Reply reply = co_await detail::add_auth(owner, std::move(proof), std::move(call));
      if (!reply.ok()) co_return detail::to_error(reply, "add_auth", "");
      co_return Result<void>();
    }(core, credential, std::move(limits));
  };
}

// The C client puts the entries into one list with commas.
void check_entries(const std::vector<std::string>& entries, const char* what, std::string_view start) {
  const auto bad = [&](const std::string& entry) {
    return entry.empty() || !entry.starts_with(start) ||
           entry.find_first_of(std::string_view(",\r\n\0", 4)) != std::string::npos;
  };
  if (std::any_of(entries.begin(), entries.end(), bad)) {
    throw Error(Errc::invalid_argument, "reconfig", "", std::string(what) + " has a malformed entry");
  }
}

Plan<EnsembleConfig> plan_reconfig(const Reconfig& change) {
  const auto refuse = [](const char* why) { throw Error(Errc::invalid_argument, "reconfig", "", why); };
  const bool incremental = !change.joining.empty() || !change.leaving.empty();
  if (incremental == !change.members.empty()) refuse("either joining and leaving, or members");
  if (change.version < Reconfig::any_config) refuse("the version is negative");
  check_entries(change.joining, "joining", "server.");
  check_entries(change.leaving, "leaving", "");
  check_entries(change.members, "members", "");
  detail::Request request = make_request(OpType::reconfig, "/");
  request.reconfig = std::make_shared<const Reconfig>(change);
  return {std::move(request), "", [](Reply& reply) {
            EnsembleConfig config = parse_ensemble_config(reply.data);
            config.stat = reply.stat;
            return config;
          }};
}

}  // namespace

NodeAcl Client::get_acl(const Path& path, const CallOptions& call) const {
  return run(impl(), plan_get_acl(impl(), path), call).value();
}
NodeAcl Client::get_acl(const Path& path, const CallOptions& call, std::error_code& error) const {
  return take(run(impl(), plan_get_acl(impl(), path), call), error);
}
void Client::async_get_acl(const Path& path, Handler<NodeAcl> handler, const CallOptions& call) const {
  start(impl(), plan_get_acl(impl(), path), call, std::move(handler));
}

void Client::set_acl(const Path& path, const AclList& acl, std::int32_t acl_version, const CallOptions& call) const {
  run(impl(), plan_set_acl(impl(), path, acl, acl_version), call).value();
}
void Client::set_acl(const Path& path, const AclList& acl, std::int32_t acl_version, const CallOptions& call,
                     std::error_code& error) const {
  take(run(impl(), plan_set_acl(impl(), path, acl, acl_version), call), error);
}
void Client::async_set_acl(const Path& path, const AclList& acl, std::int32_t acl_version, Handler<void> handler,
                           const CallOptions& call) const {
  start(impl(), plan_set_acl(impl(), path, acl, acl_version), call, std::move(handler));
}

void Client::add_auth(std::string_view scheme, std::string_view credentials, const CallOptions& call) const {
  CallForm(impl(), "add_auth", "").wait(call, proving(impl(), scheme, credentials));
}
void Client::add_auth(std::string_view scheme, std::string_view credentials, const CallOptions& call,
                      std::error_code& error) const {
  take(CallForm(impl(), "add_auth", "").result(call, proving(impl(), scheme, credentials)), error);
}
void Client::async_add_auth(std::string_view scheme, std::string_view credentials, Handler<void> handler,
                            const CallOptions& call) const {
  CallForm(impl(), "add_auth", "").start(call, proving(impl(), scheme, credentials), std::move(handler));
}

void Client::sync(const Path& path, const CallOptions& call) const {
  run(impl(), plan_sync(impl(), path), call).value();
}
void Client::sync(const Path& path, const CallOptions& call, std::error_code& error) const {
  take(run(impl(), plan_sync(impl(), path), call), error);
}
void Client::async_sync(const Path& path, Handler<void> handler, const CallOptions& call) const {
  start(impl(), plan_sync(impl(), path), call, std::move(handler));
}

EnsembleConfig Client::reconfig(const Reconfig& change, const CallOptions& call) const {
  return run(impl(), plan_reconfig(change), call).value();
}
EnsembleConfig Client::reconfig(const Reconfig& change, const CallOptions& call, std::error_code& error) const {
  return take(run(impl(), plan_reconfig(change), call), error);
}
void Client::async_reconfig(const Reconfig& change, Handler<EnsembleConfig> handler, const CallOptions& call) const {
  start(impl(), plan_reconfig(change), call, std::move(handler));
}

}  // namespace zkclient
