#include "zkclient/detail/loop/awaitable.hpp"

#include <atomic>
#include <cstdio>
#include <new>

#include "zkclient/detail/loop/event_loop.hpp"

namespace zkclient::detail {
namespace coroutine {
namespace {

std::atomic<std::size_t> live_frames{0};

Root run(Awaitable<void> awaited, const char*) { co_await std::move(awaited); }

}  // namespace

void resume_later(std::coroutine_handle<> suspended) { EventLoop::current()->resume_later(suspended); }

std::size_t frames() noexcept { return live_frames; }

void* allocate_frame(std::size_t size) {
  void* const frame = ::operator new(size);
  live_frames.fetch_add(1, std::memory_order_relaxed);
  return frame;
}

void free_frame(void* frame) noexcept {
  live_frames.fetch_sub(1, std::memory_order_relaxed);
  ::operator delete(frame);
}

void die(const char* where) noexcept {
  const auto say = [where](const char* what) {
    std::fprintf(stderr, "zkclient: an exception escaped from a coroutine of %s(): %s\n", where, what);
  };
  try {
    throw;
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("not a std::exception");
  }
  std::terminate();
}

}  // namespace coroutine

void spawn(Awaitable<void> coroutine, const char* from) { coroutine::run(std::move(coroutine), from); }

}  // namespace zkclient::detail
