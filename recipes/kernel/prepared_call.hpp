#pragma once

#include <utility>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// A call whose arguments were checked, to be waited for or started: so both forms of an operation say what it does once.
template <typename T>
struct PreparedCall {
  zk::CallForm form;
  zk::Work<T> work;

  T wait(const zkclient::CallOptions& call) && { return form.wait(call, std::move(work)); }
  template <typename Handler>
  void start(Handler handler, const zkclient::CallOptions& call) && {
    form.start(call, std::move(work), std::move(handler));
  }
};

}  // namespace zkrecipes::detail
