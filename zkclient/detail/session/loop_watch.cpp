#include "zkclient/detail/session/loop_watch.hpp"

namespace zkclient::detail {

LoopWatch::~LoopWatch() {
  if (id_ != 0 && core_->current() == session_) core_->watches().remove(id_);
}

void LoopWatch::arm(const std::string& path) {
  session_ = core_->current();
  id_ = core_->watches().add(path, kind_, std::move(callback_));
}

}  // namespace zkclient::detail
