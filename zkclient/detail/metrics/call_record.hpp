#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include <zkclient/error.hpp>
#include <zkclient/export.hpp>

#include "zkclient/detail/meter.hpp"
#include "zkclient/detail/metrics/span_teller.hpp"

namespace zkclient::detail {

/// A user's call while it goes on: counted, and told of, when it ends.
class ZKRECIPES_INTERNAL_API CallRecord {
 public:
  /// On the caller's thread. `meter`, `spans`: null for none. `waits`: for other clients. `answer`: an error that is
  /// none (exists: no_node); Errc{} if there is no such.
  CallRecord(std::shared_ptr<Meter> meter, std::shared_ptr<SpanTeller> spans, const char* operation,
             const std::string& path, bool waits, Errc answer);

  /// Whether anybody is told; otherwise texts need not be made.
  bool tells() const noexcept { return spans_ != nullptr; }
  /// Once. `session`: its id, or 0.
  void end(std::error_code error, std::string_view detail, std::int64_t session);

 private:
  const std::shared_ptr<Meter> meter_;
  const std::shared_ptr<SpanTeller> spans_;
  const char* const operation_;
  std::string path_;  // If anybody is told.
  const bool waits_;
  const Errc answer_;
  std::shared_ptr<const void> context_;
  const SpanBegin begin_;
};

}  // namespace zkclient::detail
