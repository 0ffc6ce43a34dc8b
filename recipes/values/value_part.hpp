#pragma once

#include <optional>
#include <utility>

#include <zkclient/error.hpp>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// How one call ended; the reply has the error.
template <typename Kind>
struct ValueOutcome {
  zk::Reply reply;
  typename Kind::Answer answer;
};

/// One call.
template <typename Kind>
struct ValuePart {
  using Request = typename Kind::Request;
  using Outcome = ValueOutcome<Kind>;

  ValuePart(zk::EventLoop& events, Request what) : request(std::move(what)), deadline(events) {}

  const Request request;
  zk::Timer deadline;
  std::optional<zkclient::Errc> withdrawn;  // Given up before its transaction was sent.
  bool ended = false;
  zk::Pending<Outcome> outcome;

  void end(Outcome with) {
    if (std::exchange(ended, true)) return;
    deadline.cancel();
    outcome.arrive(std::move(with));
  }
  void fail(zkclient::Errc error, zkclient::Errc why, const char* detail = "") {
    Outcome failed;
    failed.reply.error = error;
    failed.reply.given_up = why;
    failed.reply.detail = detail;
    end(std::move(failed));
  }
};

}  // namespace zkrecipes::detail
