#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include <zkclient/observer.hpp>

/// Writes each span as one line of JSON: what calls, leases and heartbeats took, for a collector of logs.
///
/// A bridge to a tracer is made the same way, with two calls of the tracer's API where the comments below say.
///
/// Thread safety: all members, from any thread.
class SpanLog : public zkclient::Observer {
 public:
  /// `out` must live as long as this object.
  explicit SpanLog(std::FILE* out) : out_(out) {}

  /// Of a tracer: return the span that is current on this thread, which the service has opened for a request, say.
  std::shared_ptr<const void> capture() override { return nullptr; }

  /// Of a tracer: start a span here, as a child of `context`, with the given begin and fields, and end it at the begin
  /// plus the duration.
  void on_span(const zkclient::Span& span, const std::shared_ptr<const void>& /*context*/) override {
    using std::chrono::duration_cast;
    using std::chrono::microseconds;
    std::string line = "{\"kind\":" + quoted(zkclient::to_string(span.kind));
    line += ",\"operation\":" + quoted(span.operation);
    if (!span.path.empty()) line += ",\"path\":" + quoted(span.path);
    line += ",\"begin_us\":" + number(duration_cast<microseconds>(span.begin.time_since_epoch()).count());
    line += ",\"duration_us\":" + number(duration_cast<microseconds>(span.duration).count());
    if (span.error) line += ",\"error\":" + quoted(span.error.message());
    if (!span.detail.empty()) line += ",\"detail\":" + quoted(span.detail);
    if (span.session != 0) line += ",\"session\":\"" + hexadecimal(span.session) + "\"";
    if (span.token != 0) line += ",\"token\":" + number(span.token);
    line += "}\n";
    std::fputs(line.c_str(), out_);  // One call: lines of several clients do not mix.
  }

 private:
  static std::string number(std::int64_t value) { return std::to_string(value); }
  /// As the servers' logs name sessions.
  static std::string hexadecimal(std::int64_t value) {
    char text[19];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
  }
  static std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (static_cast<unsigned char>(c) < ' ') {
        char escaped[7];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        out += escaped;
      } else {
        out += c;
      }
    }
    return out += '"';
  }

  std::FILE* out_;
};
