#include <zkclient/runtime.hpp>

#include <utility>

#include "zkclient/detail/process.hpp"
#include "zkclient/detail/session/loop.hpp"

namespace zkclient {

Runtime::Runtime(RuntimeOptions options) : loop_(detail::Loop::start(std::move(options))) {}
Runtime::~Runtime() {
  loop_->stop();
  if (loop_->forked()) detail::keep_for_ever(std::move(loop_));  // Its threads are the parent's.
}

}  // namespace zkclient
