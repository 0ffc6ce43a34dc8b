#include <zkclient/observer.hpp>

namespace zkclient {

Observer::~Observer() = default;

std::shared_ptr<const void> Observer::capture() { return nullptr; }

const char* to_string(Span::Kind kind) noexcept {
  switch (kind) {
    case Span::Kind::call: return "call";
    case Span::Kind::lease: return "lease";
    case Span::Kind::heartbeat: return "heartbeat";
  }
  return "unknown";
}

}  // namespace zkclient
