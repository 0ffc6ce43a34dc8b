#include "tools/zkr/commands/top_view.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/commands/inspection_text.hpp"

namespace zkr {
namespace {

constexpr std::size_t lines_above = 3;  // The keys, the message, the heading.

std::size_t place_of(const std::vector<TopRow>& rows, const std::string& path) {
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const TopRow& row) { return row.path == path; });
  return at == rows.end() ? 0 : static_cast<std::size_t>(at - rows.begin());
}

}  // namespace

TopRow* TopView::selected() {
  if (rows_.empty()) return nullptr;
  TopRow* const row = &rows_[place_of(rows_, selected_)];
  selected_ = row->path;
  return row;
}

void TopView::show(std::vector<TopRow> rows) {
  if (rows_.empty() && !rows.empty()) message_.clear();
  rows_ = std::move(rows);
  sort_rows(rows_, sort_);
}

TopView::Wish TopView::answer(TopKey key) {
  mode_ = Mode::list;
  message_.clear();
  if (key != TopKey::yes) return {};
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const TopRow& one) { return one.path == asked_.path; });
  if (row == rows_.end() || holder_text(*row) != asked_.holder) {
    message_ = printable(asked_.path) + ": the holder has changed, nobody was asked";
    return {};
  }
  message_ = "asking ...";
  return {.revoke = asked_.path};
}

void TopView::ask_about(const TopRow& row) {
  if (!row.trouble.empty()) {
    message_ = printable(row.path) + ": " + row.trouble;
  } else if (holder_text(row) == "-") {
    message_ = printable(row.path) + ": nobody holds it";
  } else {
    mode_ = Mode::ask;
    asked_ = {row.path, holder_text(row)};
    message_ = fmt::format("{}: ask {} to give it back? y/N", printable(asked_.path), asked_.holder);
  }
}

TopView::Wish TopView::press(TopKey key) {
  if (mode_ == Mode::ask) return answer(key);
  message_.clear();
  if (key == TopKey::quit) return {.quit = true};
  if (mode_ == Mode::who) {
    mode_ = Mode::list;
    return {};
  }
  const TopRow* const row = selected();
  if (row == nullptr) return {};
  const std::size_t at = place_of(rows_, row->path);
  if (key == TopKey::up && at > 0) selected_ = rows_[at - 1].path;
  if (key == TopKey::down && at + 1 < rows_.size()) selected_ = rows_[at + 1].path;
  if (key == TopKey::enter) mode_ = Mode::who;
  if (key == TopKey::sort) {
    sort_ = next(sort_);
    sort_rows(rows_, sort_);
  }
  if (key == TopKey::revoke) ask_about(*row);
  return {};
}

TopPicture TopView::draw_who() {
  TopPicture picture;
  picture.lines = {"q quit, any other key: back", message_};
  if (const TopRow* const row = selected()) {
    const bool known = row->trouble.empty();
    std::istringstream text(known ? inspection_text(row->path, row->found) : row->path + "  " + row->trouble);
    for (std::string line; std::getline(text, line);)
      picture.lines.push_back(line);
  }
  picture.heading = 3;
  picture.selected = picture.lines.size();
  return picture;
}

TopPicture TopView::draw_list(std::size_t height) {
  const std::size_t room = std::max(height, lines_above + 1) - lines_above;
  const std::size_t at = selected() == nullptr ? 0 : place_of(rows_, selected_);
  first_ = std::min(first_, at);
  if (at >= first_ + room) first_ = at + 1 - room;
  const std::vector<std::string> lines = top_lines(rows_);
  TopPicture picture;
  picture.lines = {
      fmt::format("{} paths by {}    q quit, s sort, enter who, R revoke (asks)", rows_.size(), to_string(sort_)),
      message_, lines.front()};
  picture.heading = lines_above - 1;
  for (std::size_t i = first_; i < std::min(rows_.size(), first_ + room); ++i)
    picture.lines.push_back(lines[i + 1]);
  picture.selected = rows_.empty() ? picture.lines.size() : lines_above + at - first_;
  return picture;
}

TopPicture TopView::draw(std::size_t height) { return mode_ == Mode::who ? draw_who() : draw_list(height); }

}  // namespace zkr
