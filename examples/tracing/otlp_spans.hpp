#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>
#include <zkclient/observer.hpp>

/// Writes spans for OpenTelemetry: each is a line of OTLP/JSON, as a collector's receiver `otlpjsonfile` reads it.
///
/// What the library tells becomes a child of the work that its caller was doing: see Work. Leases and heartbeats belong to
/// no call, and begin traces of their own.
///
/// Thread safety: all members, from any thread.
class OtlpSpans : public zkclient::Observer {
  struct Ids {
    std::string trace;  ///< 32 hexadecimal digits.
    std::string span;   ///< 16.
  };

 public:
  /// `service`: the name of this service in all traces. `out` must live as long as this object.
  OtlpSpans(std::string service, std::FILE* out) : service_(std::move(service)), out_(out) {}

  /// A span of the service: begins here, and ends with this object. Calls of the library that this thread begins meanwhile
  /// are its children. Those of one thread end in the reverse order of their beginnings.
  class Work {
   public:
    Work(OtlpSpans& spans, std::string name) : spans_(spans), name_(std::move(name)) {
      ids_->trace = outer_ != nullptr ? outer_->trace : random_hex(2);
      ids_->span = random_hex(1);
      current() = ids_;
    }
    ~Work() {
      current() = outer_;
      const auto duration = std::chrono::steady_clock::now() - started_;
      spans_.write(spans_.span(*ids_, outer_.get(), name_, begin_, duration));
    }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    OtlpSpans& spans_;
    const std::string name_;
    const std::shared_ptr<Ids> outer_ = current();
    const std::shared_ptr<Ids> ids_ = std::make_shared<Ids>();
    const std::chrono::system_clock::time_point begin_ = std::chrono::system_clock::now();
    const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  };

  std::shared_ptr<const void> capture() override { return current(); }

  void on_span(const zkclient::Span& told, const std::shared_ptr<const void>& context) override {
    const auto* parent = static_cast<const Ids*>(context.get());
    const Ids ids{parent != nullptr ? parent->trace : random_hex(2), random_hex(1)};
    nlohmann::json json = span(ids, parent, std::string(told.operation), told.begin, told.duration);
    json["kind"] = told.kind == zkclient::Span::Kind::call ? client_kind : internal_kind;
    nlohmann::json& attributes = json["attributes"];
    if (!told.path.empty()) attributes.push_back(text_attribute("zkrecipes.path", told.path));
    if (told.session != 0) attributes.push_back(text_attribute("zkrecipes.session", session_id(told.session)));
    if (told.token != 0) {
      attributes.push_back({{"key", "zkrecipes.token"}, {"value", {{"intValue", std::to_string(told.token)}}}});
    }
    if (told.error) {
      std::string message = told.error.message();
      if (!told.detail.empty()) message += ": " + std::string(told.detail);
      json["status"] = {{"code", error_status}, {"message", message}};
    }
    write(std::move(json));
  }

 private:
  // Numbers of the protocol.
  static constexpr int internal_kind = 1;
  static constexpr int client_kind = 3;
  static constexpr int error_status = 2;

  static std::shared_ptr<Ids>& current() {
    static thread_local std::shared_ptr<Ids> ids;
    return ids;
  }
  static std::string hex(std::uint64_t number) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
    return digits;
  }
  /// As the servers' logs name sessions.
  static std::string session_id(std::int64_t id) {
    char text[19];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(id));
    return text;
  }
  static std::string random_hex(int words) {
    static thread_local std::mt19937_64 random{std::random_device()()};
    std::string digits;
    for (int i = 0; i < words; ++i)
      digits += hex(random());
    return digits;
  }
  static nlohmann::json text_attribute(std::string_view key, std::string_view text) {
    return {{"key", key}, {"value", {{"stringValue", text}}}};
  }
  // 64 bits are strings in this JSON.
  static std::string nanoseconds(std::chrono::system_clock::time_point time) {
    return std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  }

  static nlohmann::json span(const Ids& ids, const Ids* parent, const std::string& name,
                             std::chrono::system_clock::time_point begin, std::chrono::nanoseconds duration) {
    using Ticks = std::chrono::system_clock::duration;
    nlohmann::json json{{"traceId", ids.trace},
                        {"spanId", ids.span},
                        {"name", name},
                        {"kind", internal_kind},
                        {"startTimeUnixNano", nanoseconds(begin)},
                        {"endTimeUnixNano", nanoseconds(begin + std::chrono::duration_cast<Ticks>(duration))},
                        {"attributes", nlohmann::json::array()}};
    if (parent != nullptr) json["parentSpanId"] = parent->span;
    return json;
  }

  void write(nlohmann::json span) {
    using nlohmann::json;
    const json resource{{"attributes", json::array({text_attribute("service.name", service_)})}};
    const json scope_spans{{"scope", {{"name", "zkrecipes"}}}, {"spans", json::array({std::move(span)})}};
    const json resource_spans{{"resource", resource}, {"scopeSpans", json::array({scope_spans})}};
    const json line{{"resourceSpans", json::array({resource_spans})}};
    // A path may have any bytes. One call: lines of several threads do not mix.
    std::fputs((line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n").c_str(), out_);
  }

  const std::string service_;
  std::FILE* const out_;
};
