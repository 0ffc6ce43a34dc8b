#include "simulation/kernel/turns.hpp"

#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <csignal>
#include <span>

#include "simulation/seam/real.hpp"

// Is it linked? This library need not be instrumented itself.
extern "C" void __asan_init() __attribute__((weak));
extern "C" void __tsan_init() __attribute__((weak));
extern "C" void __msan_init() __attribute__((weak));

#if defined(__x86_64__) && !defined(__ILP32__)
#define ZKR_CAN_CHANGE_STACKS 1
#else
#define ZKR_CAN_CHANGE_STACKS 0
#endif

#if ZKR_CAN_CHANGE_STACKS

// The registers that a called function must preserve are kept on the stack that is left, and how it calculates with floating
// point (its rounding, say). The base of thread-local storage is `base`.
//   zkr_change_stack(void** left, void* stack, void* base): goes on where a stack was left.
//   zkr_call_on_stack(void** left, void* top, void* base, void (*function)(void*), void* argument): does not return by
//   itself.
__asm__(R"(
.pushsection .text
.macro ZKR_KEEP
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  pushq %r12
  .cfi_adjust_cfa_offset 8
  pushq %r13
  .cfi_adjust_cfa_offset 8
  pushq %r14
  .cfi_adjust_cfa_offset 8
  pushq %r15
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  wrfsbase %rdx
.endm

.globl zkr_change_stack
.hidden zkr_change_stack
.type zkr_change_stack, @function
zkr_change_stack:
  .cfi_startproc
  ZKR_KEEP
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %r15
  .cfi_adjust_cfa_offset -8
  popq %r14
  .cfi_adjust_cfa_offset -8
  popq %r13
  .cfi_adjust_cfa_offset -8
  popq %r12
  .cfi_adjust_cfa_offset -8
  popq %rbx
  .cfi_adjust_cfa_offset -8
  popq %rbp
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
.size zkr_change_stack, . - zkr_change_stack

.globl zkr_call_on_stack
.hidden zkr_call_on_stack
.type zkr_call_on_stack, @function
zkr_call_on_stack:
  .cfi_startproc
  ZKR_KEEP
  .cfi_undefined %rip
  xorl %ebp, %ebp
  movq %r8, %rdi
  call *%rcx
  ud2
  .cfi_endproc
.size zkr_call_on_stack, . - zkr_call_on_stack
.popsection
)");

extern "C" void zkr_change_stack(void** left, void* stack, void* base);
extern "C" void zkr_call_on_stack(void** left, void* top, void* base, void (*function)(void*), void* argument);

#endif

namespace zktesting::simulated {
namespace {

using Turn = TurnTaker::Turn;

bool is_light() {
#if ZKR_CAN_CHANGE_STACKS
  constexpr unsigned long may_set_base = 2;  // HWCAP2_FSGSBASE
  unsigned long shadow_stack = 0;            // That is another one, and would have to be changed, too.
  __asm__ volatile("rdsspq %0" : "+r"(shadow_stack));
  return shadow_stack == 0 && (::getauxval(AT_HWCAP2) & may_set_base) != 0 && &__asan_init == nullptr &&
         &__tsan_init == nullptr && &__msan_init == nullptr;
#else
  return false;
#endif
}

#if ZKR_CAN_CHANGE_STACKS

/// Threads' errno is theirs, also while they change.
long system_call(long number, long a, long b = 0, long c = 0, long d = 0) {
  long result = number;
  register long fourth __asm__("r10") = d;
  __asm__ volatile("syscall" : "+a"(result) : "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
  return result;
}

#else

long system_call(long number, long a, long b = 0, long c = 0, long d = 0) {
  using Call = long (*)(long, ...);
  const int before = errno;
  const long result = ZKR_REAL_AS(Call, syscall)(number, a, b, c, d);
  errno = before;
  return result;
}

#endif

std::atomic_ref<std::uint32_t> turn_of(TurnTaker& taker) { return std::atomic_ref(taker.turn); }
void take_away(TurnTaker& taker) {
  turn_of(taker).store(static_cast<std::uint32_t>(Turn::of_another), std::memory_order_relaxed);
}
void set_turn(TurnTaker& taker, Turn turn) {
  turn_of(taker).store(static_cast<std::uint32_t>(turn), std::memory_order_release);
  system_call(SYS_futex, reinterpret_cast<long>(&taker.turn), FUTEX_WAKE_PRIVATE, 1);
}

/// On the real thread of `taker`.
void wait_for_turn(TurnTaker& taker) {
  for (;;) {
    switch (static_cast<Turn>(turn_of(taker).load(std::memory_order_acquire))) {
      case Turn::mine: return;
      case Turn::never_again:  // The process was killed: nothing of it may run, no destructor either.
        system_call(SYS_exit, 0);
        break;
      case Turn::of_another:
        system_call(SYS_futex, reinterpret_cast<long>(&taker.turn), FUTEX_WAIT_PRIVATE,
                    static_cast<long>(Turn::of_another));
        break;
    }
  }
}

#if ZKR_CAN_CHANGE_STACKS

/// Of its thread-local storage: glibc names a thread by that.
void* base_of(const TurnTaker& taker) { return std::bit_cast<void*>(taker.real); }

void go_on(void*& left, const TurnTaker& to) { zkr_change_stack(&left, to.stack_pointer, base_of(to)); }
void call_on_stack(TurnTaker& left, std::span<std::byte> stack, const TurnTaker& by, void (*function)(void*),
                   void* argument) {
  zkr_call_on_stack(&left.stack_pointer, stack.data() + stack.size(), base_of(by), function, argument);
}

/// A handler of a signal would find too small a stack.
void block_signals() {
  constexpr std::uint64_t all = ~std::uint64_t{0};
  system_call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&all), 0, sizeof all);
}

#else  // Not reached: each is on its own real thread.

void go_on(void*&, const TurnTaker&) {}
void call_on_stack(TurnTaker&, std::span<std::byte>, const TurnTaker&, void (*)(void*), void*) {}
void block_signals() {}

#endif

}  // namespace

Turns::Turns(TurnTaker& home) : home_(home), waiting_place_(size_of_waiting_place) {
  home_.real = ::pthread_self();
  home_.turn = static_cast<std::uint32_t>(Turn::mine);
  home_.on_own_thread = !is_light();
}

void Turns::await_first(TurnTaker& self) { wait_for_turn(self); }

void Turns::go_home(TurnTaker& self) {
  if (home_.on_own_thread) return;
  block_signals();
  next_ = &self;
  call_on_stack(self, self.resting_place, self, rest, this);
}

void Turns::leave_home(TurnTaker& self) {
  if (&self == &home_ || self.on_own_thread) return;
  self.on_own_thread = true;
  leave_to_real_thread(self, self);
}

void Turns::give(TurnTaker* from, TurnTaker& to) {
  if (from == &to) return;
  if (from != nullptr && !from->on_own_thread) {
    if (to.on_own_thread) return leave_to_real_thread(*from, to);
    return go_on(from->stack_pointer, to);
  }
  if (from != nullptr) take_away(*from);
  if (to.on_own_thread) {
    set_turn(to, Turn::mine);
  } else {
    next_ = &to;
    set_turn(home_, Turn::mine);
  }
  if (from != nullptr) wait_for_turn(*from);
}

void Turns::end(TurnTaker& taker) { set_turn(taker, Turn::never_again); }

void Turns::leave_to_real_thread(TurnTaker& from, TurnTaker& to) {
  next_ = &to;
  call_on_stack(from, waiting_place_, home_, wait_at_home, this);
}

// On the home's real thread.
void Turns::wait_at_home(void* turns) {
  Turns& self = *static_cast<Turns*>(turns);
  take_away(self.home_);
  set_turn(*self.next_, Turn::mine);
  wait_for_turn(self.home_);
  void* nothing_left = nullptr;
  go_on(nothing_left, *self.next_);
}

// On the real thread of the one that begins.
void Turns::rest(void* turns) {
  Turns& all = *static_cast<Turns*>(turns);
  TurnTaker& self = *all.next_;
  take_away(self);
  self.on_own_thread = false;
  set_turn(all.home_, Turn::mine);
  wait_for_turn(self);  // Until it leaves the home.
  void* nothing_left = nullptr;
  go_on(nothing_left, self);
}

}  // namespace zktesting::simulated
