#include <zkclient/metrics.hpp>

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "zkclient/detail/meter.hpp"

namespace zkclient {
namespace {

using Counter = Metrics::Counter;
using Gauge = Metrics::Gauge;
using Timing = Metrics::Timing;

// One sample of the text. Those of one family follow each other, and only the first one has the help.
template <typename Name>
struct Row {
  Name name;
  std::string_view family;
  std::string_view label;
  std::string_view help;
};

constexpr Row<Counter> counter_rows[] = {
    {Counter::sessions_opened, "sessions_opened", "", "Sessions that a server granted."},
    {Counter::sessions_closed, "sessions_closed", "", "Sessions that their client closed."},
    {Counter::sessions_expired, "sessions_lost", "cause=\"expired\"", "Sessions that ended before their client."},
    {Counter::sessions_given_up, "sessions_lost", "cause=\"given_up\"", ""},
    {Counter::sessions_refused, "sessions_lost", "cause=\"refused\"", ""},
    {Counter::connections_opened, "connections_opened", "", "Connections with a session."},
    {Counter::connections_lost, "connections_lost", "", "Connections that a session lost."},
    {Counter::attempts_failed, "connection_failures", "", "Attempts to connect, and connections, that failed."},
    {Counter::reads, "requests", "kind=\"read\"", "Requests that were sent to a server."},
    {Counter::writes, "requests", "kind=\"write\"", ""},
    {Counter::retries, "request_retries", "", "Requests that were sent again."},
    {Counter::requests_in_doubt, "requests_failed", "cause=\"in_doubt\"", "Requests without an answer."},
    {Counter::requests_unsent, "requests_failed", "cause=\"unsent\"", ""},
    {Counter::watch_events, "watch_events", "", "Events of watches that servers sent."},
    {Counter::leases_granted, "leases_granted", "", "Leases that began."},
    {Counter::leases_released, "leases_ended", "end=\"released\"", "Leases that ended."},
    {Counter::leases_lost, "leases_ended", "end=\"lost\"", ""},
    {Counter::calls_failed, "calls_failed", "", "Calls that ended with an error."},
};
static_assert(std::size(counter_rows) == Metrics::counters);

constexpr Row<Gauge> gauge_rows[] = {
    {Gauge::sessions_connected, "sessions_connected", "", "Sessions that have a connection."},
    {Gauge::requests_pending, "requests_pending", "", "Requests that wait, or are on their way."},
    {Gauge::leases_held, "leases_held", "", "Leases that are held."},
    {Gauge::calls_waiting, "calls_waiting", "", "Calls that wait without a deadline of their own."},
};
static_assert(std::size(gauge_rows) == Metrics::gauges);

constexpr Row<Timing> timing_rows[] = {
    {Timing::read, "request_duration", "kind=\"read\"", "From a request to its answer."},
    {Timing::write, "request_duration", "kind=\"write\"", ""},
    {Timing::heartbeat, "heartbeat_duration", "", "From a heartbeat of leases to its answer."},
    {Timing::validity_left, "validity_left", "", "How long leases were still certain when they were renewed."},
    {Timing::callback_delay, "callback_delay", "", "From an event to the beginning of its handler."},
    {Timing::call_wait, "call_wait", "", "How long calls took that wait without a deadline of their own."},
    {Timing::lease_held, "lease_held", "", "From the grant of a lease to its end."},
};
static_assert(std::size(timing_rows) == Metrics::timings);

template <typename Duration>
double seconds(Duration time) {
  return std::chrono::duration<double>(time).count();
}

template <typename... Parts>
void add(std::string& text, fmt::format_string<Parts...> format, Parts&&... parts) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Parts>(parts)...);
}

std::string in_braces(std::string_view label) { return label.empty() ? std::string() : fmt::format("{{{}}}", label); }

template <typename Name>
void add_head(std::string& text, const Row<Name>& row, std::string_view type, std::string_view unit = "") {
  if (row.help.empty()) return;
  const std::string family = fmt::format("zkrecipes_{}{}{}", row.family, unit.empty() ? "" : "_", unit);
  add(text, "# HELP {} {}\n# TYPE {} {}\n", family, row.help, family, type);
  if (!unit.empty()) add(text, "# UNIT {} {}\n", family, unit);
}

void add_histogram(std::string& text, const Row<Timing>& row, const Histogram& times) {
  add_head(text, row, "histogram", "seconds");
  const std::string family = fmt::format("zkrecipes_{}_seconds", row.family);
  const std::string_view comma = row.label.empty() ? "" : ",";
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < Histogram::bounds; ++i) {
    sum += times.buckets[i];
    add(text, "{}_bucket{{{}{}le=\"{}\"}} {}\n", family, row.label, comma, seconds(Histogram::bound(i)), sum);
  }
  sum += times.buckets[Histogram::bounds];
  add(text, "{}_bucket{{{}{}le=\"+Inf\"}} {}\n", family, row.label, comma, sum);
  add(text, "{}_count{} {}\n{}_sum{} {}\n", family, in_braces(row.label), sum, family, in_braces(row.label),
      seconds(times.sum));
}

}  // namespace

// --- Histogram -------------------------------------------------------------------------------------------------------

std::uint64_t Histogram::count() const noexcept {
  return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
}

std::chrono::nanoseconds Histogram::least() const noexcept { return quantile(0); }
std::chrono::nanoseconds Histogram::most() const noexcept { return quantile(1); }

std::chrono::nanoseconds Histogram::quantile(double share) const noexcept {
  const std::uint64_t all = count();
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i <= bounds; ++i) {
    seen += buckets[i];
    if (seen == 0 || static_cast<double>(seen) < share * static_cast<double>(all)) continue;
    return i < bounds ? bound(i) : std::chrono::nanoseconds::max();
  }
  return {};
}

// --- Meter -----------------------------------------------------------------------------------------------------------

namespace detail {

void Meter::time(Metrics::Timing timing, std::chrono::nanoseconds duration) noexcept {
  using std::chrono::ceil;
  duration = std::max(duration, std::chrono::nanoseconds::zero());
  const auto micros = static_cast<std::uint64_t>(ceil<std::chrono::microseconds>(duration).count());
  const std::size_t bucket = micros <= 1 ? 0 : static_cast<std::size_t>(std::bit_width(micros - 1));
  Durations& all = at(timings_, timing);
  all.buckets[std::min(bucket, Histogram::bounds)].fetch_add(1, relaxed);
  all.sum.fetch_add(static_cast<std::int64_t>(micros), relaxed);
}

Histogram Meter::histogram(Metrics::Timing timing) const noexcept {
  const Durations& all = at(timings_, timing);
  Histogram copy;
  for (std::size_t i = 0; i < copy.buckets.size(); ++i)
    copy.buckets[i] = all.buckets[i].load(relaxed);
  copy.sum = std::chrono::microseconds(all.sum.load(relaxed));
  return copy;
}

}  // namespace detail

// --- Metrics ---------------------------------------------------------------------------------------------------------

Metrics::Metrics() : meter_(std::make_shared<detail::Meter>()) {}
Metrics::~Metrics() = default;

std::uint64_t Metrics::value(Counter counter) const noexcept { return meter_->value(counter); }
std::int64_t Metrics::value(Gauge gauge) const noexcept { return meter_->value(gauge); }
Histogram Metrics::histogram(Timing timing) const noexcept { return meter_->histogram(timing); }

std::string Metrics::to_openmetrics() const {
  std::string text;
  for (const Row<Counter>& row : counter_rows) {
    add_head(text, row, "counter");
    add(text, "zkrecipes_{}_total{} {}\n", row.family, in_braces(row.label), value(row.name));
  }
  for (const Row<Gauge>& row : gauge_rows) {
    add_head(text, row, "gauge");
    add(text, "zkrecipes_{}{} {}\n", row.family, in_braces(row.label), value(row.name));
  }
  for (const Row<Timing>& row : timing_rows)
    add_histogram(text, row, histogram(row.name));
  return text + "# EOF\n";
}

}  // namespace zkclient
