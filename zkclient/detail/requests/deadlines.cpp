#include "zkclient/detail/requests/deadlines.hpp"

namespace zkclient::detail {

void Deadlines::add(const std::shared_ptr<Op>& op) {
  if (!op->deadline) return;
  ops_.emplace(*op->deadline, op);
  // Most ops are done long before: forget those from time to time.
  if (ops_.size() > 4096 && (ops_.size() & (ops_.size() - 1)) == 0) {
    std::erase_if(ops_, [](const auto& entry) {
      const auto alive = entry.second.lock();
      return alive == nullptr || alive->state == Op::State::done;
    });
  }
  if (*op->deadline < timer_.due()) await(*op->deadline);
}

void Deadlines::await(Op::TimePoint due) {
  timer_.set(due, [this, whole = whole_] {
    if (const auto alive = whole.lock()) on_time();
  });
}

void Deadlines::on_time() {
  const auto now = std::chrono::steady_clock::now();
  while (!ops_.empty() && ops_.begin()->first <= now) {
    const auto op = ops_.begin()->second.lock();
    ops_.erase(ops_.begin());
    if (op != nullptr) reached_(op);
  }
  while (!ops_.empty()) {
    const auto next = ops_.begin()->second.lock();
    if (next != nullptr && next->state != Op::State::done) {
      await(ops_.begin()->first);
      return;
    }
    ops_.erase(ops_.begin());
  }
}

}  // namespace zkclient::detail
