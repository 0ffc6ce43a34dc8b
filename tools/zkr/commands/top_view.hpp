#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/zkr/commands/top_rows.hpp"

/// What stands on `top`'s screen, and what its keys do, without a screen.
namespace zkr {

enum class TopKey { none, quit, sort, up, down, enter, revoke, yes };

/// The lines of a screen.
struct TopPicture {
  std::vector<std::string> lines;
  std::size_t heading = 0;   // This line is shown as a heading; past the end: none is.
  std::size_t selected = 0;  // This one as selected.
};

class TopView {
 public:
  /// What the caller has to do.
  struct Wish {
    bool quit = false;
    std::string revoke = {};  // Ask the holders of this path to give way. "": nobody.
  };

  void show(std::vector<TopRow> rows);
  /// In the line of messages, until the next key.
  void tell(std::string message) { message_ = std::move(message); }
  Wish press(TopKey key);
  TopPicture draw(std::size_t height);
  TopSort sort() const { return sort_; }

 private:
  enum class Mode { list, who, ask };

  /// Rows come and go before it is answered.
  struct Question {
    std::string path;
    std::string holder;
  };

  TopRow* selected();
  TopPicture draw_list(std::size_t height);
  TopPicture draw_who();
  void ask_about(const TopRow& row);
  Wish answer(TopKey key);

  std::vector<TopRow> rows_;
  TopSort sort_ = TopSort::path;
  Mode mode_ = Mode::list;
  std::string selected_;  // A path: lines change their places.
  Question asked_;        // In Mode::ask.
  std::size_t first_ = 0;
  std::string message_ = "looking ...";
};

}  // namespace zkr
