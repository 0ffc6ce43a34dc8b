// Reads, and the watches that they arm.

#include <zkclient/client.hpp>

#include "zkclient/detail/calls/plan.hpp"

namespace zkclient {

using detail::CorePtr;
using detail::make_request;
using detail::OpType;
using detail::Plan;
using detail::Reply;
using detail::run;
using detail::run_watched;
using detail::start;
using detail::start_watched;
using detail::take;
using Kind = detail::WatchRegistry::Kind;

namespace {

Plan<NodeData> plan_get(const CorePtr& core, const Path& path) {
  return {make_request(OpType::get, core->full(path)), path.str(), [](Reply& reply) {
            return NodeData{std::move(reply.data), reply.is_null, reply.stat};
          }};
}

Plan<std::optional<Stat>> plan_exists(const CorePtr& core, const Path& path) {
  Plan<std::optional<Stat>> plan{make_request(OpType::exists, core->full(path)), path.str(),
                                 [](Reply& reply) { return reply.ok() ? std::optional(reply.stat) : std::nullopt; }};
  plan.also_success = Errc::no_node;
  return plan;
}

Plan<Children> plan_children(const CorePtr& core, const Path& path) {
  return {make_request(OpType::children, core->full(path)), path.str(), [](Reply& reply) {
            return Children{std::move(reply.names), reply.stat};
          }};
}

// Outside every client's prefix.
constexpr const char* config_path = "/zookeeper/config";

Plan<EnsembleConfig> plan_config() {
  return {make_request(OpType::get, config_path), config_path, [](Reply& reply) {
            EnsembleConfig config = parse_ensemble_config(reply.data);
            config.stat = reply.stat;
            return config;
          }};
}

}  // namespace

NodeData Client::get(const Path& path, const CallOptions& call) const {
  return run(impl(), plan_get(impl(), path), call).value();
}
NodeData Client::get(const Path& path, const CallOptions& call, std::error_code& error) const {
  return take(run(impl(), plan_get(impl(), path), call), error);
}
void Client::async_get(const Path& path, Handler<NodeData> handler, const CallOptions& call) const {
  start(impl(), plan_get(impl(), path), call, std::move(handler));
}
Watched<NodeData> Client::get_and_watch(const Path& path, WatchHandler handler, const CallOptions& call) const {
  return run_watched(impl(), plan_get(impl(), path), Kind::data, std::move(handler), call).value();
}
void Client::async_get_and_watch(const Path& path, WatchHandler on_event, Handler<Watched<NodeData>> handler,
                                 const CallOptions& call) const {
  start_watched(impl(), plan_get(impl(), path), Kind::data, std::move(on_event), std::move(handler), call);
}

std::optional<Stat> Client::exists(const Path& path, const CallOptions& call) const {
  return run(impl(), plan_exists(impl(), path), call).value();
}
std::optional<Stat> Client::exists(const Path& path, const CallOptions& call, std::error_code& error) const {
  return take(run(impl(), plan_exists(impl(), path), call), error);
}
void Client::async_exists(const Path& path, Handler<std::optional<Stat>> handler, const CallOptions& call) const {
  start(impl(), plan_exists(impl(), path), call, std::move(handler));
}
Watched<std::optional<Stat>> Client::exists_and_watch(const Path& path, WatchHandler handler,
                                                      const CallOptions& call) const {
  return run_watched(impl(), plan_exists(impl(), path), Kind::data, std::move(handler), call).value();
}
void Client::async_exists_and_watch(const Path& path, WatchHandler on_event,
                                    Handler<Watched<std::optional<Stat>>> handler, const CallOptions& call) const {
  start_watched(impl(), plan_exists(impl(), path), Kind::data, std::move(on_event), std::move(handler), call);
}

Children Client::children(const Path& path, const CallOptions& call) const {
  return run(impl(), plan_children(impl(), path), call).value();
}
Children Client::children(const Path& path, const CallOptions& call, std::error_code& error) const {
  return take(run(impl(), plan_children(impl(), path), call), error);
}
void Client::async_children(const Path& path, Handler<Children> handler, const CallOptions& call) const {
  start(impl(), plan_children(impl(), path), call, std::move(handler));
}
Watched<Children> Client::children_and_watch(const Path& path, WatchHandler handler, const CallOptions& call) const {
  return run_watched(impl(), plan_children(impl(), path), Kind::children, std::move(handler), call).value();
}
void Client::async_children_and_watch(const Path& path, WatchHandler on_event, Handler<Watched<Children>> handler,
                                      const CallOptions& call) const {
  start_watched(impl(), plan_children(impl(), path), Kind::children, std::move(on_event), std::move(handler), call);
}

EnsembleConfig Client::get_config(const CallOptions& call) const { return run(impl(), plan_config(), call).value(); }
EnsembleConfig Client::get_config(const CallOptions& call, std::error_code& error) const {
  return take(run(impl(), plan_config(), call), error);
}
void Client::async_get_config(Handler<EnsembleConfig> handler, const CallOptions& call) const {
  start(impl(), plan_config(), call, std::move(handler));
}
Watched<EnsembleConfig> Client::get_config_and_watch(WatchHandler handler, const CallOptions& call) const {
  return run_watched(impl(), plan_config(), Kind::data, std::move(handler), call).value();
}
void Client::async_get_config_and_watch(WatchHandler on_event, Handler<Watched<EnsembleConfig>> handler,
                                        const CallOptions& call) const {
  start_watched(impl(), plan_config(), Kind::data, std::move(on_event), std::move(handler), call);
}

}  // namespace zkclient
