#pragma once

#include <optional>

#include "tools/zkr/commands/top_view.hpp"

namespace zkr {

/// The whole terminal, until the object goes. There may be one at a time.
class TopScreen {
 public:
  /// Errors: Failure (exit_configuration): nothing is known of this kind of terminal.
  TopScreen();
  ~TopScreen();
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  std::size_t height() const;
  void draw(const TopPicture& picture);
  /// The next key that was pressed. Nothing: there is none. Does not block.
  std::optional<TopKey> key();
};

}  // namespace zkr
