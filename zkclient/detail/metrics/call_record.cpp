#include "zkclient/detail/metrics/call_record.hpp"

#include <utility>

namespace zkclient::detail {

CallRecord::CallRecord(std::shared_ptr<Meter> meter, std::shared_ptr<SpanTeller> spans, const char* operation,
                       const std::string& path, bool waits, Errc answer)
    : meter_(std::move(meter)),
      spans_(std::move(spans)),
      operation_(operation),
      path_(spans_ != nullptr ? path : std::string()),
      waits_(waits),
      answer_(answer),
      context_(spans_ != nullptr ? spans_->capture() : nullptr) {
  if (meter_ != nullptr && waits_) meter_->change(Metrics::Gauge::calls_waiting, 1);
}

void CallRecord::end(std::error_code error, std::string_view detail, std::int64_t session) {
  if (error == answer_) error.clear();
  if (meter_ != nullptr) {
    if (error) meter_->count(Metrics::Counter::calls_failed);
    if (waits_) meter_->change(Metrics::Gauge::calls_waiting, -1);
    if (waits_) meter_->time(Metrics::Timing::call_wait, begin_.since());
  }
  if (spans_ == nullptr) return;
  spans_->tell({.kind = Span::Kind::call,
                .operation = operation_,
                .path = std::move(path_),
                .begin = begin_,
                .error = error,
                .detail = std::string(detail),
                .session = session,
                .context = std::move(context_)});
}

}  // namespace zkclient::detail
