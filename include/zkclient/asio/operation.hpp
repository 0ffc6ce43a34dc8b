#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <boost/asio/cancellation_type.hpp>

#include <zkclient/asio/initiate.hpp>
#include <zkclient/watch.hpp>

/// Part of <zkclient/asio.hpp>: makes function objects out of the asynchronous members of classes.
namespace zkclient {

namespace detail {

/// How an argument is kept until the operation starts: views become what they look at, and what cannot be copied (a Lease)
/// must stay.
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
    return initiate<T>(std::move(begin), std::move(call), std::forward<Token>(token), Accepts);
  }
};

/// Takes `void Object::async_x(arguments..., Handler<T>, const CallOptions&)` to pieces: `Before` are the arguments that
/// are known to stand before the handler.
template <auto Member, boost::asio::cancellation_type Accepts, typename Object, typename Before, typename... Rest>
struct Dissect;
template <auto Member, boost::asio::cancellation_type Accepts, typename Object, typename... Before, typename T>
struct Dissect<Member, Accepts, Object, std::tuple<Before...>, UniqueFunction<void(Result<T>)>, const CallOptions&> {
  using type = MemberOperation<Member, Accepts, Object, T, Before...>;
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
