// The functions of grid.cuh over an emulated grid, so that kernels run on a processor as they are. Blocks run one after
// another, the threads of a block as fibers that hand over at barriers and lane functions; whoever waits for a thread
// that never comes is reported, not waited for.
#pragma once
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CZK_KERNEL(threads) extern "C" void
#define CZK_KERNEL_RESIDENT(threads, blocks) extern "C" void
#define CZK_UNROLL_SOME
#define CZK_SHARED static
#define CZK_DYNAMIC_SHARED(name) uint32_t* const name = czk::grid::emulated.dynamic.data()

// Fibers: a stack each, and a way from one to another. ucontext's asks the system twice a switch, which takes most of the
// time of a test, so it is left to processors for which nobody has written these few instructions.
#if defined(__x86_64__)
extern "C" void czk_switch_stack(void** here, void* there);
asm(R"(
.text
.weak czk_switch_stack
.type czk_switch_stack, @function
czk_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

class Fiber {
 public:
  void begin(char* stack, size_t bytes, void (*body)()) {
    uint64_t top = (uint64_t(stack) + bytes) & ~uint64_t(15);
    uint64_t* words = reinterpret_cast<uint64_t*>(top);
    words[-2] = uint64_t(body);  // what the switch returns to, as if words[-1] were its caller's address
    at_ = words - 8;             // six registers below it
    std::memset(at_, 0, 6 * sizeof(uint64_t));
    words[-1] = 0;
  }
  void go(Fiber& there) { czk_switch_stack(&at_, there.at_); }

 private:
  void* at_ = nullptr;
};
#else
class Fiber {
 public:
  void begin(char* stack, size_t bytes, void (*body)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, body, 0);
  }
  void go(Fiber& there) { swapcontext(&context_, &there.context_); }

 private:
  ucontext_t context_;
};
#endif

CZK_BEGIN
namespace grid {

constexpr uint32_t kMostThreads = 1024;
constexpr size_t kStackBytes = 256 * 1024;
constexpr uint32_t kGuardWords = 64, kGuard = 0xdeadbeefu;  // behind dynamic shared memory, which holds the same

// Those who meet at one point: a block, or a warp. Words are exchanged through two buffers in turn, so that nobody can
// overwrite what another has yet to read.
struct Meeting {
  uint32_t members = 0, arrived = 0, round = 0;
  std::vector<uint32_t> words[2];
};

struct Emulated {
  uint32_t block = 0, blocks = 0, threads = 0, thread = 0;
  std::vector<uint32_t> dynamic;
  std::vector<char> stacks;
  Fiber scheduler, fibers[kMostThreads];
  bool over[kMostThreads];
  Meeting all;
  Meeting warps[kMostThreads / 32];
  uint64_t progress = 0;
  void (*call)(const uint64_t*) = nullptr;
  const uint64_t* arguments = nullptr;
};
inline Emulated emulated;

inline void hand_over() {
  Emulated& e = emulated;
  e.fibers[e.thread].go(e.scheduler);
}
inline void settle(Meeting& m) {
  if (m.members > 0 && m.arrived == m.members) {
    m.arrived = 0;
    m.round++;
    emulated.progress++;
  }
}
// Puts words into this thread's place, waits for all, and returns everybody's.
inline const uint32_t* meet(Meeting& m, uint32_t place, const uint32_t* words, uint32_t n) {
  const uint32_t round = m.round;
  std::vector<uint32_t>& buffer = m.words[round & 1];
  if (buffer.size() < size_t(kMostThreads) * n) buffer.resize(size_t(kMostThreads) * n);
  for (uint32_t i = 0; i < n; i++) buffer[place * n + i] = words[i];
  m.arrived++;
  settle(m);
  while (m.round == round) hand_over();
  return m.words[round & 1].data();
}

inline uint32_t thread() { return emulated.thread; }
inline uint32_t block() { return emulated.block; }
inline uint32_t block_threads() { return emulated.threads; }
inline uint32_t blocks() { return emulated.blocks; }
inline void barrier() { meet(emulated.all, thread(), nullptr, 0); }
inline bool barrier_any(bool yes) {
  const uint32_t mine = yes;
  const uint32_t* said = meet(emulated.all, thread(), &mine, 1);
  for (uint32_t i = 0; i < block_threads(); i++)
    if (!emulated.over[i] && said[i]) return true;
  return false;
}

inline uint32_t lane() { return thread() % 32; }
inline const uint32_t* meet_warp(const uint32_t* words, uint32_t n) {
  Meeting& warp = emulated.warps[thread() / 32];
  if (warp.members != 32) {
    std::fprintf(stderr, "lane function in a warp of %u lanes\n", warp.members);
    std::abort();
  }
  return meet(warp, lane(), words, n);
}
inline uint32_t lanes_that(bool yes) {
  const uint32_t mine = yes;
  const uint32_t* said = meet_warp(&mine, 1);
  uint32_t lanes = 0;
  for (uint32_t i = 0; i < 32; i++) lanes |= said[i] << i;
  return lanes;
}
inline bool any_lane(bool yes) { return lanes_that(yes) != 0; }
inline uint32_t from_lane(uint32_t word, uint32_t source) { return meet_warp(&word, 1)[source % 32]; }
inline void words_from_lane(uint32_t* target, const uint32_t* words, int n, uint32_t source) {
  const uint32_t* all = meet_warp(words, uint32_t(n));
  for (int i = 0; i < n; i++) target[i] = all[(source % 32) * uint32_t(n) + uint32_t(i)];
}

inline uint32_t add_to(uint32_t* counter, uint32_t n) {
  const uint32_t before = *counter;
  *counter += n;
  return before;
}
inline uint32_t ones_in(uint32_t word) { return uint32_t(__builtin_popcount(word)); }
inline uint32_t lowest_one(uint32_t word) { return uint32_t(__builtin_ctz(word)); }
inline uint32_t reversed_bits(uint32_t word, uint32_t n) {
  uint32_t out = 0;
  for (uint32_t i = 0; i < n; i++) out |= (word >> i & 1) << (n - 1 - i);
  return out;
}

inline void aligned(const void* address, uint64_t bytes) {
  if (uint64_t(address) % bytes == 0) return;
  std::fprintf(stderr, "access of %u bytes at %p\n", uint32_t(bytes), address);
  std::abort();
}
inline void load_two(uint32_t* words, const uint32_t* source) {
  aligned(source, 8);
  std::memcpy(words, source, 8);
}
inline void store_two(uint32_t* target, uint32_t first, uint32_t second) {
  aligned(target, 8);
  target[0] = first, target[1] = second;
}
inline void load_four(uint32_t* words, const uint32_t* source) {
  aligned(source, 16);
  std::memcpy(words, source, 16);
}
inline void store_four(uint32_t* target, const uint32_t* words) {
  aligned(target, 16);
  std::memcpy(target, words, 16);
}

inline void body() {
  Emulated& e = emulated;
  e.call(e.arguments);
  e.over[e.thread] = true;
  e.progress++;
  Meeting& warp = e.warps[e.thread / 32];
  e.all.members--, warp.members--;
  settle(e.all);
  hand_over();
}

// Runs every thread of one block until it is over. False if they wait for each other.
inline bool run_block() {
  Emulated& e = emulated;
  e.all.members = e.threads, e.all.arrived = 0;
  for (uint32_t w = 0; w < kMostThreads / 32; w++)
    e.warps[w].members = e.threads > 32 * w ? (e.threads - 32 * w < 32 ? e.threads - 32 * w : 32) : 0, e.warps[w].arrived = 0;
  for (uint32_t t = 0; t < e.threads; t++) {
    e.over[t] = false;
    e.fibers[t].begin(e.stacks.data() + t * kStackBytes, kStackBytes, body);
  }
  for (uint32_t left = e.threads; left > 0;) {
    const uint64_t before = e.progress;
    left = 0;
    for (uint32_t t = 0; t < e.threads; t++) {
      if (e.over[t]) continue;
      e.thread = t;
      e.scheduler.go(e.fibers[t]);
      left += !e.over[t];
    }
    if (left > 0 && e.progress == before) return false;
  }
  return true;
}

}  // namespace grid
CZK_END

// Launches a kernel of this library; arguments are 64-bit words each. 0, or 1 if threads wait for each other for ever, or
// 2 if one wrote behind the end of its shared memory.
// The kernel is called with all its arguments as 64-bit integers, which the calling conventions of the 64-bit platforms
// that we test on pass like the pointers and 32-bit integers that it takes.
extern "C" int czk_emulate(void (*kernel)(), uint32_t blocks, uint32_t threads, uint32_t shared_words,
                           const uint64_t* arguments) {
  using namespace czk::grid;
  static void (*target)();
  target = kernel;
  Emulated& e = emulated;
  e.call = [](const uint64_t* a) {
    using Words = void (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                           uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                           uint64_t, uint64_t);
    reinterpret_cast<Words>(target)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12],
                                    a[13], a[14], a[15], a[16], a[17], a[18], a[19]);
  };
  e.arguments = arguments;
  e.blocks = blocks, e.threads = threads;
  e.stacks.resize(kMostThreads * kStackBytes);
  for (e.block = 0; e.block < blocks; e.block++) {
    e.dynamic.assign(shared_words + kGuardWords, kGuard);
    if (!run_block()) return 1;
    for (uint32_t i = 0; i < kGuardWords; i++)
      if (e.dynamic[shared_words + i] != kGuard) return 2;
  }
  return 0;
}
