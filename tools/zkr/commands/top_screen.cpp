#include "tools/zkr/commands/top_screen.hpp"

#include <algorithm>
#include <clocale>
#include <string_view>

#define NCURSES_NOMACROS
#include <curses.h>

#include "tools/zkr/cli/failure.hpp"

namespace zkr {
namespace {

// Letters beyond ASCII take one column, whatever their number of bytes.
std::string_view clipped(std::string_view line, int columns) {
  std::size_t end = 0;
  for (int used = 0; end < line.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(line[end]) & 0xC0U) != 0x80;
    if (begins && ++used > columns) break;
  }
  return line.substr(0, end);
}

void draw_line(int row, std::string_view line, bool marked) {
  const std::string_view text = clipped(line, COLS - 1);
  if (marked) ::attron(A_REVERSE);
  ::mvaddnstr(row, 0, text.data(), static_cast<int>(text.size()));
  if (marked) ::attroff(A_REVERSE);
}

TopKey key_of(int code) {
  switch (code) {
    case 'q': return TopKey::quit;
    case 's': return TopKey::sort;
    case 'R': return TopKey::revoke;
    case 'y': return TopKey::yes;
    case 'k':
    case KEY_UP: return TopKey::up;
    case 'j':
    case KEY_DOWN: return TopKey::down;
    case '\r':
    case '\n':
    case KEY_ENTER: return TopKey::enter;
    default: return TopKey::none;
  }
}

}  // namespace

TopScreen::TopScreen() {
  std::setlocale(LC_CTYPE, "");
  if (::newterm(nullptr, stdout, stdin) == nullptr) {
    throw Failure(exit_configuration, "nothing is known of this kind of terminal (TERM); --batch needs none");
  }
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::curs_set(0);
}

TopScreen::~TopScreen() { ::endwin(); }

std::size_t TopScreen::height() const { return static_cast<std::size_t>(std::max(LINES, 1)); }

void TopScreen::draw(const TopPicture& picture) {
  ::erase();
  const std::size_t shown = std::min(picture.lines.size(), height());
  for (std::size_t i = 0; i < shown; ++i)
    draw_line(static_cast<int>(i), picture.lines[i], i == picture.heading || i == picture.selected);
  ::refresh();
}

std::optional<TopKey> TopScreen::key() {
  int code = ::getch();
  while (code == KEY_RESIZE)  // Nobody has pressed it.
    code = ::getch();
  if (code == ERR) return std::nullopt;
  return key_of(code);
}

}  // namespace zkr
