#pragma once

#include <memory>
#include <stop_token>
#include <utility>

namespace zkclient {

/// A std::stop_token, or the first of two: `{.stop = {shutting_down, request.cancelled()}}`. Its copies share what
/// watches the two; when the last copy goes, a request is no longer passed on. Thread safety: as std::stop_token.
class AnyStop : public std::stop_token {
 public:
  AnyStop() noexcept = default;
  AnyStop(const std::stop_token& token) noexcept : std::stop_token(token) {}
  AnyStop(AnyStop first, AnyStop second);

 private:
  struct Both;
  explicit AnyStop(std::shared_ptr<Both> both);

  std::shared_ptr<Both> both_;
};

struct AnyStop::Both {
  struct PassOn {
    std::stop_source to;
    void operator()() { to.request_stop(); }
  };
  Both(AnyStop a, AnyStop b)
      : first(std::move(a)), second(std::move(b)), of_first(first, PassOn{either}), of_second(second, PassOn{either}) {}
  std::stop_source either;
  AnyStop first;
  AnyStop second;
  std::stop_callback<PassOn> of_first;
  std::stop_callback<PassOn> of_second;
};

inline AnyStop::AnyStop(AnyStop first, AnyStop second)
    : AnyStop(std::make_shared<Both>(std::move(first), std::move(second))) {}
inline AnyStop::AnyStop(std::shared_ptr<Both> both)
    : std::stop_token(both->either.get_token()), both_(std::move(both)) {}

}  // namespace zkclient
