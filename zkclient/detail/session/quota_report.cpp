#include "zkclient/detail/session/quota_report.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "zkclient/detail/requests/quota.hpp"
#include "zkclient/detail/session/request_queue.hpp"

namespace zkclient::detail {

namespace {

// The refusal is known already: it is not held back for long.
constexpr auto longest_look = std::chrono::seconds(2);

/// Two reads for each node that may hold the quota, under way together.
struct QuotaLook {
  Path prefix;
  std::vector<std::string> holders;  // The nearest one first.
  std::vector<Reply> replies;        // Limits and usage of the first, of the second, ...
  std::size_t missing = 0;
  Reply refusal;
  Op::Done done;

  void arrive(std::size_t index, Reply reply) {
    replies[index] = std::move(reply);
    if (--missing != 0) return;
    for (std::size_t i = 0; i < holders.size(); ++i) {
      const Reply& limits = replies[2 * i];
      const Reply& usage = replies[2 * i + 1];
      if (!limits.ok()) continue;
      const std::string text = describe_quota(prefix, holders[i], parse_quota(limits.data), parse_quota(usage.data));
      refusal.detail += refusal.detail.empty() ? text : "; " + text;
      break;
    }
    done(std::move(refusal));
  }
};

}  // namespace

std::string refused_by_quota(const Op& op) {
  if (op.request.type != OpType::multi) return op.code == rc::quota_exceeded ? op.request.path : std::string();
  const std::optional<Refusal> refusal = op.reply.refusal();
  const bool known = refusal && refusal->code == rc::quota_exceeded && refusal->index < op.request.operations.size();
  if (!known) return {};
  return std::visit([](const auto& one) { return one.path.str(); }, op.request.operations[refusal->index]);
}

Op::Done with_quota_report(RequestQueue& queue, const Path& prefix, const std::string& path,
                           std::optional<Op::TimePoint> deadline, Op::Done done) {
  return [&queue, prefix, path, deadline, next = std::move(done)](Reply refusal) mutable {
    const auto look = std::make_shared<QuotaLook>();
    look->prefix = prefix;
    look->holders = quota_holders(path);
    look->missing = 2 * look->holders.size();
    look->replies.resize(look->missing);
    look->refusal = std::move(refusal);
    look->done = std::move(next);
    Call call;
    call.deadline = Op::TimePoint::clock::now() + longest_look;
    if (deadline) call.deadline = std::min(*call.deadline, *deadline);
    for (std::size_t i = 0; i < look->holders.size(); ++i) {
      queue.start(make_request(OpType::get, quota_limits(look->holders[i])), call,
                  [look, i](Reply reply) { look->arrive(2 * i, std::move(reply)); });
      queue.start(make_request(OpType::get, quota_usage(look->holders[i])), call,
                  [look, i](Reply reply) { look->arrive(2 * i + 1, std::move(reply)); });
    }
    if (look->holders.empty()) look->done(std::move(look->refusal));
  };
}

}  // namespace zkclient::detail
