#include "zkclient/detail/loop/awaitable.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <new>

#include "zkclient/detail/loop/event_loop.hpp"

namespace zkclient::detail {
namespace coroutine {
namespace {

std::atomic<std::size_t> live_frames{0};

/// The thread's memory for frames is gone. Outside of that: an object may not be asked once it is destroyed.
thread_local constinit bool frame_memory_ended = false;

/// Memory for frames, of one thread, which keeps some of it for the next ones: a call takes some twenty frames, most of
/// them larger than what malloc() keeps at hand for a thread. A frame may be given back by another thread.
class FrameMemory {
 public:
  ~FrameMemory() {
    for (Spare& spare : spare_) {
      for (std::size_t i = 0; i < spare.count; ++i)
        ::operator delete(spare.blocks[i]);
    }
    frame_memory_ended = true;
  }

  void* take(std::size_t size) {
    const std::size_t kind = (size + sizeof(Header) - 1) / step;
    const bool kept = kind < spare_.size() && !frame_memory_ended && spare_[kind].count > 0;
    if (!kept) return begin(::operator new((kind + 1) * step), kind);
    Spare& spare = spare_[kind];
    return begin(spare.blocks[--spare.count], kind);
  }
  void give_back(void* frame) noexcept {
    Header* const block = static_cast<Header*>(frame) - 1;
    const std::size_t kind = block->kind;
    const bool keeps = keeps_blocks && kind < spare_.size() && !frame_memory_ended && spare_[kind].count < most;
    if (!keeps) return ::operator delete(block);
    spare_[kind].blocks[spare_[kind].count++] = block;
  }

 private:
  struct alignas(std::max_align_t) Header {
    std::size_t kind;
  };
  static constexpr std::size_t most = 8;
  struct Spare {
    std::array<void*, most> blocks;
    std::size_t count = 0;
  };
  static constexpr std::size_t step = 256;  // Bytes.
#if defined(__SANITIZE_ADDRESS__)
  static constexpr bool keeps_blocks = false;  // It is to see who uses a frame that is gone.
#else
  static constexpr bool keeps_blocks = true;
#endif

  static void* begin(void* block, std::size_t kind) { return ::new (block) Header{kind} + 1; }

  std::array<Spare, 16> spare_;
};

thread_local FrameMemory frame_memory;

Root run(Awaitable<void> awaited, const char*) { co_await std::move(awaited); }

}  // namespace

void resume_later(std::coroutine_handle<> suspended) { EventLoop::current()->resume_later(suspended); }

std::size_t frames() noexcept { return live_frames; }

void* allocate_frame(std::size_t size) {
  void* const frame = frame_memory.take(size);
  live_frames.fetch_add(1, std::memory_order_relaxed);
  return frame;
}

void free_frame(void* frame) noexcept {
  live_frames.fetch_sub(1, std::memory_order_relaxed);
  frame_memory.give_back(frame);
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
