#pragma once

#include <compare>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include <zkclient/anchored.hpp>
#include <zkclient/export.hpp>

namespace zkclient {

/// An absolute znode path that was validated once, when it was built.
///
/// Valid: "/" or "/a/b": every component is non-empty, is neither "." nor "..", is valid UTF-8 and holds none
/// of the characters that the server refuses (U+0000 to U+001F, U+007F to U+009F, U+D800 to U+F8FF, U+FFF0 to
/// U+FFFF). No trailing slash. At most `max_size` bytes.
///
/// Converts implicitly from strings, so that `client.get("/config")` reads naturally.
/// Errors: every constructor and `operator/` throw `zkclient::Error` (Errc::invalid_path) that shows the text.
/// Thread safety: a value type.
class ZKRECIPES_API Path {
 public:
  static constexpr std::size_t max_size = 64 * 1024;  ///< The longest path, in bytes.

  Path() = default;  ///< The root, "/".
  /// Errors: invalid_path.
  Path(const char* text) : Path(std::string_view(text)) {}
  Path(std::string_view text);
  Path(const std::string& text) : Path(std::string_view(text)) {}

  /// The whole path as text.
  const std::string& str() const noexcept { return text_; }
  operator std::string_view() const noexcept { return text_; }

  /// The last component; "" for the root.
  std::string_view name() const noexcept;
  /// The path without its last component; the root's parent is the root.
  Path parent() const;
  bool is_root() const noexcept { return text_.size() == 1; }
  /// True when this path is `ancestor` or lies below it.
  bool starts_with(const Path& ancestor) const noexcept;

  friend bool operator==(const Path&, const Path&) = default;
  friend std::strong_ordering operator<=>(const Path&, const Path&) = default;

 private:
  Anchored<std::string> text_ = "/";
};

/// `Path("/a") / "b"` is "/a/b"; the right side may hold several components ("b/c") but no leading slash.
ZKRECIPES_API Path operator/(const Path& parent, std::string_view child);
ZKRECIPES_API std::ostream& operator<<(std::ostream& out, const Path& path);

}  // namespace zkclient

template <>
struct std::hash<zkclient::Path> {
  std::size_t operator()(const zkclient::Path& path) const noexcept { return std::hash<std::string>()(path.str()); }
};
