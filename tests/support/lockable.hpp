#pragma once

#include <chrono>
#include <concepts>

/// What the standard asks of a Lockable and a TimedLockable.
namespace testkit {

using namespace std::chrono_literals;

template <typename T>
concept BasicLockable = requires(T mutex) {
  { mutex.lock() } -> std::same_as<void>;
  { mutex.unlock() } -> std::same_as<void>;
};
template <typename T>
concept Lockable = BasicLockable<T> && requires(T mutex) {
  { mutex.try_lock() } -> std::same_as<bool>;
};
template <typename T>
concept TimedLockable = Lockable<T> && requires(T mutex) {
  { mutex.try_lock_for(1s) } -> std::same_as<bool>;
  { mutex.try_lock_for(std::chrono::duration<double>(0.5)) } -> std::same_as<bool>;
  { mutex.try_lock_until(std::chrono::steady_clock::now()) } -> std::same_as<bool>;
  { mutex.try_lock_until(std::chrono::system_clock::now()) } -> std::same_as<bool>;
};

}  // namespace testkit
