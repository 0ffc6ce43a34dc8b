#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace zkclient {

namespace detail {

struct NoElement {};
template <typename T>
struct ElementOf {
  using type = NoElement;
};
template <typename Element>
struct ElementOf<std::vector<Element>> {
  using type = Element;
};

}  // namespace detail

/// A T that knows where it was made. Members of aggregates are of this type, so that `{.stop = token}` may stand in a
/// coroutine's co_await expression.
///
/// g++ 12 copies the members of an aggregate in braces byte by byte there, and destroys the copies as well as the
/// originals. The originals live until the end of the expression, so such a copy can be read; it must not free
/// anything, and no code may move from it. It is recognised by its address. With other compilers this is just a T: what
/// lies in memory must not depend on the compiler, as programs and libraries may be built with different ones.
///
/// Thread safety: as T.
template <typename T>
class Anchored : public T {
 public:
  static_assert(std::is_nothrow_default_constructible_v<T>);

  Anchored() = default;
  /// From whatever a T is made of.
  Anchored(const T& value) : T(value) {}
  Anchored(T&& value) noexcept(std::is_nothrow_move_constructible_v<T>) : T(std::move(value)) {}
  template <std::convertible_to<T> Value>
  requires(!std::derived_from<std::remove_cvref_t<Value>, T>) Anchored(Value&& value) : T(std::forward<Value>(value)) {}
  Anchored(std::initializer_list<typename detail::ElementOf<T>::type> elements) requires(
      !std::same_as<typename detail::ElementOf<T>::type, detail::NoElement>)
      : T(elements) {}
  /// From what a T is made of, if that is more than one value.
  template <typename... Values>
  requires(sizeof...(Values) > 1 && std::same_as<typename detail::ElementOf<T>::type, detail::NoElement> &&
           std::is_constructible_v<T, Values...>) Anchored(Values&&... values)
      : T(std::forward<Values>(values)...) {}

  Anchored(const Anchored& other) : T(static_cast<const T&>(other)) {}
  Anchored(Anchored&& other) noexcept(std::is_nothrow_move_constructible_v<T>)
      : T(other.at_home() ? T(static_cast<T&&>(other)) : T(static_cast<const T&>(other))) {}
  Anchored& operator=(const Anchored& other) {
    if (this == &other) return *this;
    disown();
    T::operator=(static_cast<const T&>(other));
    return *this;
  }
  Anchored& operator=(Anchored&& other) noexcept(std::is_nothrow_move_assignable_v<T>) {
    if (this == &other) return *this;
    disown();
    if (other.at_home()) {
      T::operator=(static_cast<T&&>(other));
    } else {
      T::operator=(static_cast<const T&>(other));
    }
    return *this;
  }
  /// As that of T.
  template <typename Value>
  requires(!std::derived_from<std::remove_cvref_t<Value>, Anchored> && std::is_assignable_v<T&, Value>) Anchored&
  operator=(Value&& value) {
    disown();
    T::operator=(std::forward<Value>(value));
    return *this;
  }
  ~Anchored() { disown(); }

 private:
  bool at_home() const noexcept { return home_ == this; }
  // The members of a copy of bytes belong to the original: forgotten, not destroyed.
  void disown() noexcept {
    if (at_home()) return;
    std::construct_at(static_cast<T*>(this));
    home_ = this;
  }

  const void* home_ = this;
};

/// A list of texts that is made of any texts in braces; g++ 12 compiles no std::initializer_list in a co_await
/// expression. Otherwise a std::vector<std::string>.
class Texts : public Anchored<std::vector<std::string>> {
 public:
  Texts() = default;
  Texts(const std::vector<std::string>& texts) : Anchored(texts) {}
  Texts(std::vector<std::string>&& texts) noexcept : Anchored(std::move(texts)) {}
  /// From any texts.
  template <std::convertible_to<std::string_view>... Text>
  requires(sizeof...(Text) > 0) Texts(Text&&... texts) {
    reserve(sizeof...(texts));
    (emplace_back(std::string_view(std::forward<Text>(texts))), ...);
  }
};

}  // namespace zkclient
