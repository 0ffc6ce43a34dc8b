#include <zkclient/runtime.hpp>

#include <utility>
#include <vector>

#include "zkclient/detail/loop.hpp"

namespace zkclient {

Runtime::Runtime(RuntimeOptions options) : loop_(detail::Loop::start(std::move(options))) {}
Runtime::~Runtime() {
  loop_->stop();
  if (!loop_->forked()) return;
  static auto* const kept = new std::vector<std::shared_ptr<detail::Loop>>;  // Its threads are the parent's.
  kept->push_back(std::move(loop_));
}

}  // namespace zkclient
