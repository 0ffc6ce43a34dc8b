#include <zkclient/runtime.hpp>

#include "zkclient/detail/loop.hpp"

namespace zkclient {

Runtime::Runtime(RuntimeOptions options) : loop_(detail::Loop::start(std::move(options))) {}
Runtime::~Runtime() { loop_->stop(); }

}  // namespace zkclient
