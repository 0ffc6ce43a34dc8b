#include <zkclient/path.hpp>

#include <cstdint>
#include <ostream>

#include <zkclient/error.hpp>

namespace zkclient {
namespace {

// Shows bytes that would garble a log line as \xNN.
std::string printable(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, 200)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    } else {
      out += c;
    }
  }
  return text.size() > 200 ? out + "..." : out;
}

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw Error(Errc::invalid_path, "path", printable(text), why);
}

// Decodes one UTF-8 character at `text[0]`; returns its length, or 0 if it is malformed or overlong.
std::size_t decode(std::string_view text, std::uint32_t& code) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) {
    code = lead;
    return 1;
  }
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  code = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0u) != 0x80u) return 0;
    code = (code << 6) | (at(i) & 0x3fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  return overlong || code > 0x10ffff ? 0 : length;
}

// The server refuses these (its PathUtils works on UTF-16 units, hence the surrogate range, into which every
// character above U+FFFF would be split).
bool refused_by_server(std::uint32_t code) {
  return code <= 0x1f || (code >= 0x7f && code <= 0x9f) || (code >= 0xd800 && code <= 0xf8ff) || code >= 0xfff0;
}

void check_component(std::string_view text, std::string_view component) {
  if (component.empty()) refuse(text, "has an empty component");
  if (component == "." || component == "..") refuse(text, "has a relative component");
}

void validate(std::string_view text) {
  if (text.empty()) refuse(text, "is empty");
  if (text[0] != '/') refuse(text, "does not start with '/'");
  if (text.size() > Path::max_size) refuse(text, "is longer than 64 KiB");
  if (text.size() == 1) return;
  for (std::size_t i = 0; i < text.size();) {
    std::uint32_t code = 0;
    const std::size_t length = decode(text.substr(i), code);
    if (length == 0) refuse(text, "is not valid UTF-8");
    if (refused_by_server(code)) refuse(text, "holds a character that the server refuses");
    i += length;
  }
  for (std::size_t begin = 1; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    check_component(text, text.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

Path::Path(std::string_view text) {
  validate(text);
  text_ = text;
}

std::string_view Path::name() const noexcept { return std::string_view(text_).substr(text_.rfind('/') + 1); }

Path Path::parent() const {
  Path result;
  const std::size_t slash = text_.rfind('/');
  if (slash > 0) result.text_ = text_.substr(0, slash);
  return result;
}

bool Path::starts_with(const Path& ancestor) const noexcept {
  if (ancestor.is_root() || *this == ancestor) return true;
  return text_.size() > ancestor.text_.size() && text_.starts_with(ancestor.text_) &&
         text_[ancestor.text_.size()] == '/';
}

Path operator/(const Path& parent, std::string_view child) {
  if (child.empty()) refuse(parent.str() + "/", "has an empty component");
  std::string text = parent.is_root() ? std::string() : parent.str();
  text += '/';
  text += child;
  return Path(text);
}

std::ostream& operator<<(std::ostream& out, const Path& path) { return out << path.str(); }

}  // namespace zkclient
