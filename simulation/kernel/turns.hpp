#pragma once

#include <pthread.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace zktesting::simulated {

/// A thread's part in the turns: a real thread, which does something only when it has the turn.
///
/// It costs the machine microseconds to stop one thread and wake another, and a world changes threads thousands of
/// times. So the threads run on the real thread that made the world, the home, while their own ones rest: a change is that
/// of the stack pointer and of the base of thread-local storage. Only the beginning of a thread and what happens after its
/// body (destructors of thread_locals) are on its own real thread.
///
/// Where the processor does not let a program change that base, and under a sanitizer, which must know the thread by
/// itself, each one runs on its own real thread all the time. The turns are the same ones.
struct TurnTaker {
  enum class Turn : std::uint32_t { of_another, mine, never_again };

  pthread_t real{};
  std::uint32_t turn = 0;                                   ///< A Turn: the futex on which the real thread waits.
  bool on_own_thread = true;                                ///< Is it there that it goes on?
  void* stack_pointer = nullptr;                            ///< Where it goes on if it is at the home.
  alignas(16) std::array<std::byte, 4096> resting_place{};  ///< The stack of the real thread that rests.
};

class Turns {
 public:
  /// The calling thread, which is `home`, has the turn.
  explicit Turns(TurnTaker& home);
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Called by a new real thread: returns when it has the turn for the first time.
  static void await_first(TurnTaker& self);
  /// `self`, which has the turn, goes on at the home from now on, if the machine can do that.
  void go_home(TurnTaker& self);
  /// `self`, which has the turn, goes on on its own real thread from now on.
  void leave_home(TurnTaker& self);
  /// Returns when `from` has the turn again. nullptr: it is not to have one again, and is on its own real thread.
  void give(TurnTaker* from, TurnTaker& to);
  /// Ends the real thread of one that has not got the turn: no destructor runs. It must not be the home.
  static void end(TurnTaker& taker);

 private:
  static constexpr std::size_t size_of_waiting_place = 65536;

  void leave_to_real_thread(TurnTaker& from, TurnTaker& to);
  static void wait_at_home(void* turns);
  static void rest(void* turns);

  TurnTaker& home_;
  TurnTaker* next_ = nullptr;             // To whom the turn goes, while it passes between real threads.
  std::vector<std::byte> waiting_place_;  // The home's stack while it waits for a real thread.
};

}  // namespace zktesting::simulated
