#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/asio/cancellation_type.hpp>

#include <zkclient/anchored.hpp>
#include <zkclient/asio/initiate.hpp>
#include <zkclient/watch.hpp>

/// Part of <zkclient/asio.hpp>: makes function objects out of the asynchronous members of classes.
namespace zkclient {

namespace detail {

/// How an argument is kept until the operation starts: views become what they look at, and what cannot be copied (a
/// Lease) must stay.
template <typename Argument>
struct Kept {
  using type = std::conditional_t<std::is_copy_constructible_v<std::decay_t<Argument>>, std::decay_t<Argument>,
                                  std::reference_wrapper<const Argument>>;
};
template <>
struct Kept<DataView> {
  using type = std::optional<std::string>;
};
template <>
struct Kept<std::string_view> {
  using type = std::string;
};

// An operation may be copied before it starts; it starts once.
template <>
struct Kept<WatchHandler> {
  using type = std::shared_ptr<WatchHandler>;
};

template <typename Argument>
auto keep(Argument& argument) {
  using Plain = std::remove_const_t<Argument>;
  if constexpr (std::is_same_v<Plain, DataView>) {
    return argument ? std::optional<std::string>(*argument) : std::nullopt;
  } else if constexpr (std::is_same_v<Plain, WatchHandler>) {
    return std::make_shared<WatchHandler>(std::move(argument));
  } else {
    return typename Kept<Plain>::type(argument);
  }
}

template <typename T>
const T& hand_over(const T& kept) {
  return kept;
}
inline WatchHandler hand_over(const std::shared_ptr<WatchHandler>& kept) { return std::move(*kept); }

/// As what an argument is taken: as the member takes it, but for lists of texts, which may then be in braces.
template <typename Argument>
struct Taken {
  using type = Argument;
};
template <>
struct Taken<std::vector<std::string>> {
  using type = const Texts&;
};
template <>
struct Taken<const std::vector<std::string>&> {
  using type = const Texts&;
};

template <auto Member, boost::asio::cancellation_type Accepts, typename Object, typename T, typename... Arguments>
class MemberOperation {
 public:
  template <typename Token>
  auto operator()(Object& object, Arguments... arguments, CallOptions call, Token&& token) const {
    if constexpr (std::is_const_v<Object> && std::is_copy_constructible_v<std::remove_const_t<Object>>) {
      return start([kept = std::remove_const_t<Object>(object)]() -> Object& { return kept; }, std::move(call),
                   std::forward<Token>(token), arguments...);
    } else {
      return start([kept = &object]() -> Object& { return *kept; }, std::move(call), std::forward<Token>(token),
                   arguments...);
    }
  }
  template <typename Token>
  auto operator()(Object& object, Arguments... arguments, Token&& token) const {
    return (*this)(object, std::forward<Arguments>(arguments)..., CallOptions(), std::forward<Token>(token));
  }

 private:
  template <typename Get, typename Token>
  static auto start(Get get, CallOptions call, Token&& token, std::remove_reference_t<Arguments>&... arguments) {
    auto begin = [get = std::move(get), values = std::tuple(keep(arguments)...)](Handler<T> handler,
                                                                                 const CallOptions& limits) {
      std::apply([&](const auto&... value) { (get().*Member)(hand_over(value)..., std::move(handler), limits); },
                 values);
    };
    return begin_operation<T>(std::move(begin), std::move(call), std::forward<Token>(token), Accepts);
  }
};

/// The same with a WatchHandler behind `Arguments`, whose own type must be known to tell what breaks.
template <auto Member, boost::asio::cancellation_type Accepts, typename Object, typename T, typename... Arguments>
class WatchingOperation {
 public:
  template <typename OnEvent, typename Token>
  requires std::is_constructible_v<WatchHandler, OnEvent>
  auto operator()(Object& object, Arguments... arguments, OnEvent&& on_event, CallOptions call, Token&& token) const {
    using Started = decltype(Plain()(object, std::forward<Arguments>(arguments)..., WatchHandler(), CallOptions(),
                                     std::forward<Token>(token)));
    static_assert(
        !breaks_when_awaited<OnEvent, WatchHandler, Started>,
        "g++ 12 destroys what a lambda owns twice when it stands in a co_await expression. Make it a variable "
        "first: `zkclient::WatchHandler on_event = [...](const auto& event) {...};`, and pass "
        "`std::move(on_event)`.");
    return Plain()(object, std::forward<Arguments>(arguments)..., WatchHandler(std::forward<OnEvent>(on_event)),
                   std::move(call), std::forward<Token>(token));
  }
  template <typename OnEvent, typename Token>
  requires std::is_constructible_v<WatchHandler, OnEvent>
  auto operator()(Object& object, Arguments... arguments, OnEvent&& on_event, Token&& token) const {
    return (*this)(object, std::forward<Arguments>(arguments)..., std::forward<OnEvent>(on_event), CallOptions(),
                   std::forward<Token>(token));
  }

 private:
  using Plain = MemberOperation<Member, Accepts, Object, T, Arguments..., WatchHandler>;
};

/// Takes `void Object::async_x(arguments..., Handler<T>, const CallOptions&)` to pieces: `Before` are the arguments
/// that are known to stand before the handler.
template <auto Member, boost::asio::cancellation_type Accepts, typename Object, typename Before, typename... Rest>
struct Dissect;
template <auto Member, boost::asio::cancellation_type Accepts, typename Object, typename... Before, typename T>
struct Dissect<Member, Accepts, Object, std::tuple<Before...>, UniqueFunction<void(Result<T>)>, const CallOptions&> {
  using type = MemberOperation<Member, Accepts, Object, T, typename Taken<Before>::type...>;
};
template <auto Member, boost::asio::cancellation_type Accepts, typename Object, typename... Before, typename T>
struct Dissect<Member, Accepts, Object, std::tuple<Before...>, WatchHandler, UniqueFunction<void(Result<T>)>,
               const CallOptions&> {
  using type = WatchingOperation<Member, Accepts, Object, T, typename Taken<Before>::type...>;
};
template <auto Member, boost::asio::cancellation_type Accepts, typename Object, typename... Before, typename Next,
          typename... Rest>
struct Dissect<Member, Accepts, Object, std::tuple<Before...>, Next, Rest...>
    : Dissect<Member, Accepts, Object, std::tuple<Before..., Next>, Rest...> {};

template <auto Member, boost::asio::cancellation_type Accepts, typename Type = decltype(Member)>
struct OperationOf;
template <auto Member, boost::asio::cancellation_type Accepts, typename Object, typename... Arguments>
struct OperationOf<Member, Accepts, void (Object::*)(Arguments...) const>
    : Dissect<Member, Accepts, const Object, std::tuple<>, Arguments...> {};
template <auto Member, boost::asio::cancellation_type Accepts, typename Object, typename... Arguments>
struct OperationOf<Member, Accepts, void (Object::*)(Arguments...)>
    : Dissect<Member, Accepts, Object, std::tuple<>, Arguments...> {};

}  // namespace detail

/// One or more asynchronous members (of different classes) as a function object that takes a completion token.
template <boost::asio::cancellation_type Accepts, auto... Members>
struct Operation : detail::OperationOf<Members, Accepts>::type... {
  using detail::OperationOf<Members, Accepts>::type::operator()...;
};

}  // namespace zkclient
