#include "recipes/kernel/owned_node.hpp"

#include <utility>

#include "recipes/kernel/ended_wait.hpp"

namespace zkrecipes::detail {

std::optional<Error> OwnedNode::problem() const {
  const auto problem = shown_.problem();
  if (!problem) return std::nullopt;
  return Error(problem->code, place_.operation, place_.path, problem->detail);
}

zkclient::Subscription OwnedNode::on_state(StateListener listener) {
  if (!listener) throw Error(Errc::invalid_argument, "on_state", place_.path, "no listener");
  if (shown_.forked()) throw Error(Errc::forked, "on_state", place_.path);
  return shown_.on_state(place_.client->callbacks(), std::move(listener));
}

void OwnedNode::show(PresenceState state) {
  if (shown_.show(state)) waiting_.wake_all();
}

void OwnedNode::show_problem(Errc code, std::string detail, bool definite) {
  shown_.show_problem({code, std::move(detail), definite});
  waiting_.wake_all();
}

Error OwnedNode::ended_wait(Errc why, const char* operation, std::string_view awaited) const {
  std::string seen = to_string(shown_.state());
  if (const auto problem = shown_.problem())
    seen += "; " + (problem->detail.empty() ? make_error_code(problem->code).message() : problem->detail);
  return Error(why, operation, place_.path, wait_story(awaited, seen));
}

}  // namespace zkrecipes::detail
