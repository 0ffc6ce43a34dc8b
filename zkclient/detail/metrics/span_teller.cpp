#include "zkclient/detail/metrics/span_teller.hpp"

#include <utility>

namespace zkclient::detail {
namespace {

constexpr std::size_t max_waiting = 1000;

}  // namespace

SpanTeller::SpanTeller(std::shared_ptr<Observer> observer, std::shared_ptr<CallbackGroup> group)
    : observer_(std::move(observer)), queue_(std::make_shared<SerialQueue>(std::move(group), false)) {}

std::shared_ptr<const void> SpanTeller::capture() const noexcept {
  try {
    return observer_->capture();
  } catch (...) {
    return nullptr;
  }
}

void SpanTeller::close() {
  closed_ = true;
  queue_->close();
}

void SpanTeller::tell(Ended ended) {
  if (closed_) return;
  const auto duration = ended.begin.since();
  if (waiting_->fetch_add(1) >= max_waiting) {
    --*waiting_;
    queue_->nudge();
    return;
  }
  queue_->post([observer = observer_, waiting = waiting_, duration, ended = std::move(ended)] {
    --*waiting;
    const Span span{ended.kind,  ended.operation, ended.path,    ended.begin.at, duration,
                    ended.error, ended.detail,    ended.session, ended.token};
    try {
      observer->on_span(span, ended.context);
    } catch (...) {  // NOLINT(bugprone-empty-catch): as the header says.
    }
  });
}

}  // namespace zkclient::detail
