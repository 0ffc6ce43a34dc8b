#pragma once

#include <memory>
#include <string>
#include <utility>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/prepared_call.hpp"
#include "recipes/values/value_core.hpp"

namespace zkrecipes::detail {

/// What every call of a Counter or a SharedValue needs until its end.
template <typename Kind>
struct ValueRecipe {
  using Core = ValueCore<Kind>;
  using Request = typename Kind::Request;

  /// What a call needs on the loop: not the user's client, which no call may keep open.
  struct Target {
    std::shared_ptr<zk::ClientCore> client;
    std::shared_ptr<Core> core;
    std::string node;
    const char* operation;
    std::string path;  ///< As the user wrote it.

    Error error(const Reply& reply) const { return zk::to_error(reply, operation, path); }
  };

  zkclient::Client client;  // Stays open for as long as it is used here.
  Path path;                // As the user wrote it.
  std::string node;         // The same, full.
  Kind kind;
  std::shared_ptr<Core> core;

  /// Errors: invalid_acl, invalid_argument.
  static std::shared_ptr<const ValueRecipe> make(const char* recipe, zkclient::Client client, Path path, Kind kind,
                                                 ValueOptions options) {
    require_acl(recipe, path, options.acl);
    const auto refuse = [&](const std::string& why) { throw Error(Errc::invalid_argument, recipe, path.str(), why); };
    if (options.max_marker_age.count() <= 0) refuse("the age of a marker is not positive");
    if (path.is_root()) refuse(std::string("the root is no ") + recipe);
    std::string node = client.impl()->full(path);
    auto core = Core::make(client.impl(), node, kind, std::move(options));
    return std::make_shared<const ValueRecipe>(
        ValueRecipe{std::move(client), std::move(path), std::move(node), kind, std::move(core)});
  }

  Target target(const char* operation) const { return {client.impl(), core, node, operation, path.str()}; }
  zk::CallForm form(const char* operation) const { return zk::CallForm(client.impl(), operation, path.str()); }

  /// A call to `coroutine`, which carries so many bytes of data.
  template <typename T>
  PreparedCall<T> prepare(const char* operation, Request request, std::size_t payload,
                          Awaitable<Result<T>> (*coroutine)(Target, Request, Call)) const {
    auto work = [where = target(operation), request = std::move(request), coroutine](Call limits) {
      return coroutine(where, request, std::move(limits));
    };
    return {form(operation).payload(payload), std::move(work)};
  }
};

}  // namespace zkrecipes::detail
