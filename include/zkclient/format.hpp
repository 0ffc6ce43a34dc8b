#pragma once

#include <string_view>

#include <fmt/format.h>

#include <zkclient/error.hpp>
#include <zkclient/path.hpp>
#include <zkclient/session.hpp>
#include <zkclient/types.hpp>
#include <zkclient/watch.hpp>

/// Formatters for {fmt} (9 or newer). Opt-in: only programs that include this header need fmt (CMake:
/// `find_package(zkrecipes COMPONENTS format)`, link `zkrecipes::format`). All but Stat take the format specification
/// of text (`{:>20}`); Stat takes none. No secret is ever formatted: there is no formatter for SessionCredentials.
namespace zkclient::detail {

struct FormatAsText : fmt::formatter<std::string_view> {
  template <typename Context>
  auto text(std::string_view text, Context& context) const {
    return fmt::formatter<std::string_view>::format(text, context);
  }
};

}  // namespace zkclient::detail

template <>
struct fmt::formatter<zkclient::Path> : zkclient::detail::FormatAsText {
  template <typename Context>
  auto format(const zkclient::Path& path, Context& context) const {
    return text(path.str(), context);
  }
};

/// Its message, as in Error::what().
template <>
struct fmt::formatter<zkclient::Errc> : zkclient::detail::FormatAsText {
  template <typename Context>
  auto format(zkclient::Errc code, Context& context) const {
    return text(make_error_code(code).message(), context);
  }
};

template <>
struct fmt::formatter<zkclient::ErrorKind> : zkclient::detail::FormatAsText {
  template <typename Context>
  auto format(zkclient::ErrorKind kind, Context& context) const {
    return text(to_string(kind), context);
  }
};

template <>
struct fmt::formatter<zkclient::Error> : zkclient::detail::FormatAsText {
  template <typename Context>
  auto format(const zkclient::Error& error, Context& context) const {
    return text(error.what(), context);
  }
};

template <>
struct fmt::formatter<zkclient::ConnectionState> : zkclient::detail::FormatAsText {
  template <typename Context>
  auto format(zkclient::ConnectionState state, Context& context) const {
    return text(to_string(state), context);
  }
};

template <>
struct fmt::formatter<zkclient::WatchEventType> : zkclient::detail::FormatAsText {
  template <typename Context>
  auto format(zkclient::WatchEventType type, Context& context) const {
    return text(to_string(type), context);
  }
};

/// What an operator wants to see; transaction ids in hexadecimal, as the server logs them.
template <>
struct fmt::formatter<zkclient::Stat> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <typename Context>
  auto format(const zkclient::Stat& stat, Context& context) const {
    return fmt::format_to(
        context.out(), "czxid={:#x} mzxid={:#x} pzxid={:#x} version={} children={} bytes={} owner={:#x}", stat.czxid,
        stat.mzxid, stat.pzxid, stat.version, stat.children_count, stat.data_length, stat.ephemeral_owner);
  }
};
