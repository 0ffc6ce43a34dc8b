// Which nodes cannot be read, and when are they tried again?

#include "recipes/views/mirror_model.hpp"

#include <utility>

namespace zkrecipes::detail {

using zkclient::Stat;

// `again_by_exists`: that needs no right to read, tells its Stat, and watches.
void MirrorModel::refused(Node& node, MirrorSide which, Errc error, bool again_by_exists) {
  const std::error_code code = make_error_code(error);
  if (which == MirrorSide::data) {
    node.data_error = code;
    node.look_first = true;
    data_bytes_ -= std::exchange(node.bytes, 0);
  } else {
    node.list_error = code;
    node.listed = false;
    forget_children(node);
  }
  note_trouble(node);
  const bool looks = error != Errc::overloaded;
  if (which == MirrorSide::data && again_by_exists && looks) {
    if (node.shown != nullptr) show_stat(node, node.shown->stat);
    answered(node, which, false);
    return;
  }
  // Without a watch, the last Stat says nothing of the present.
  const bool known = node.shown != nullptr && looks;
  // A root that has come again is shown by its data: of which node it is, the refusal does not say.
  const bool is_shown_later = node.shown == nullptr && which == MirrorSide::list && wants_data(node);
  if (!is_shown_later) show_stat(node, known ? node.shown->stat : Stat());
  if (which == MirrorSide::list && !wants_data(node) && looks && &node == root_) {
    node.look_first = true;
    unsettle(node, MirrorSide::data, node.list.number);
  }
  answered(node, which, true);
}

// Nodes that lack something are tried again after a while.
void MirrorModel::note_trouble(Node& node) {
  const bool has_all = !node.data_error && !node.list_error && !node.incomplete;
  if (has_all) {
    // What is below it had no number while it could not be read.
    if (troubled_.erase(node.id) != 0) mended_up_to_ = last_number_;
    if (troubled_.empty()) retry_at_.reset();
    return;
  }
  troubled_.insert(node.id);
  if (!retry_at_) retry_at_ = now_ + retry_pause;
}

// What is wrong stays so until the answer comes: meanwhile the node is shown again for other reasons.
void MirrorModel::retry(Node& node) {
  if (node.data_error && wants_data(node)) {
    node.look_first = false;
    unsettle(node, MirrorSide::data);
  } else if (node.incomplete && wants_data(node) && !node.list_error) {
    const auto length = static_cast<std::size_t>(node.shown->stat.data_length);
    if (data_bytes_ + length <= scope_.options.max_bytes) unsettle(node, MirrorSide::data);
  }
  if (node.list_error && wants_list(node)) unsettle(node, MirrorSide::list);
}

std::optional<MirrorProblem> MirrorModel::problem() const {
  std::optional<MirrorProblem> found;
  for (const NodeId id : troubled_) {
    const Node& node = *find(id);
    const std::error_code code = node.data_error ? node.data_error : node.list_error;
    const Errc why = code ? static_cast<Errc>(code.value()) : Errc::too_large;
    if (!found || (why == Errc::overloaded && found->code != why)) found = {why, path_of(node, scope_.path)};
    if (found->code == Errc::overloaded) break;
  }
  return found;
}

}  // namespace zkrecipes::detail
