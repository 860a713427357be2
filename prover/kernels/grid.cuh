// What a kernel sees of its grid: places, barriers, counters, and the lanes of its warp. Kernels are one-dimensional and
// take pointers and 32-bit integers only. On the GPU each function is an instruction or two; where a host compiler
// compiles a kernel, host_grid.hpp must be on its include path and gives the same functions over an emulated grid.
//
// Lane functions are met by all 32 lanes of a warp together: no lane may have left the kernel or be in another branch.
#pragma once
#include "portable.cuh"

#if CZK_ON_DEVICE

#define CZK_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
// So many blocks are to fit on a multiprocessor: bounds the registers.
#define CZK_KERNEL_RESIDENT(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define CZK_UNROLL_SOME _Pragma("unroll 4")
#define CZK_SHARED __shared__
// Shared memory of the size that the launch gives, as 32-bit words.
#define CZK_DYNAMIC_SHARED(name) extern __shared__ uint32_t name[]

CZK_BEGIN
namespace grid {

CZK_FN uint32_t thread() { return threadIdx.x; }
CZK_FN uint32_t block() { return blockIdx.x; }
CZK_FN uint32_t block_threads() { return blockDim.x; }
CZK_FN uint32_t blocks() { return gridDim.x; }
CZK_FN void barrier() { __syncthreads(); }
// A barrier; whether any thread of the block says yes.
CZK_FN bool barrier_any(bool yes) { return __syncthreads_or(yes); }

CZK_FN uint32_t lane() { return threadIdx.x & 31; }
CZK_FN uint32_t lanes_that(bool yes) { return __ballot_sync(0xffffffffu, yes); }
CZK_FN bool any_lane(bool yes) { return __any_sync(0xffffffffu, yes); }
CZK_FN uint32_t from_lane(uint32_t word, uint32_t source) { return __shfl_sync(0xffffffffu, word, int(source)); }
// target[i] = word i of the source lane. target may be words.
CZK_FN void words_from_lane(uint32_t* target, const uint32_t* words, int n, uint32_t source) {
  CZK_UNROLL for (int i = 0; i < n; i++) target[i] = __shfl_sync(0xffffffffu, words[i], int(source));
}

// Counters in shared or global memory; the value before.
CZK_FN uint32_t add_to(uint32_t* counter, uint32_t n) { return atomicAdd(counter, n); }

CZK_FN uint32_t ones_in(uint32_t word) { return uint32_t(__popc(int(word))); }
CZK_FN uint32_t lowest_one(uint32_t word) { return uint32_t(__ffs(int(word)) - 1); }
// The lowest n bits (at most 32) in opposite order.
CZK_FN uint32_t reversed_bits(uint32_t word, uint32_t n) { return n ? __brev(word) >> (32 - n) : 0; }

// 8 bytes at an address that 8 divides, 16 at one that 16 divides.
CZK_FN void load_two(uint32_t* words, const uint32_t* source) {
  uint2 two = *reinterpret_cast<const uint2*>(source);
  words[0] = two.x, words[1] = two.y;
}
CZK_FN void store_two(uint32_t* target, uint32_t first, uint32_t second) {
  *reinterpret_cast<uint2*>(target) = uint2{first, second};
}
CZK_FN void load_four(uint32_t* words, const uint32_t* source) {
  uint4 four = *reinterpret_cast<const uint4*>(source);
  words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
}
CZK_FN void store_four(uint32_t* target, const uint32_t* words) {
  *reinterpret_cast<uint4*>(target) = uint4{words[0], words[1], words[2], words[3]};
}

}  // namespace grid
CZK_END

#else
#include <host_grid.hpp>
#endif

CZK_BEGIN

namespace grid {
CZK_FN uint32_t thread_of_all() { return block() * block_threads() + thread(); }
CZK_FN uint32_t all_threads() { return blocks() * block_threads(); }
}  // namespace grid

CZK_FN uint32_t min_of(uint32_t a, uint32_t b) { return a < b ? a : b; }

// n words (a multiple of four) from or to an address that 16 divides.
template <int n>
CZK_FN void load_words(uint32_t* words, const uint32_t* source) {
  static_assert(n % 4 == 0, "whole 16 bytes");
  CZK_UNROLL for (int i = 0; i < n; i += 4) grid::load_four(words + i, source + i);
}
template <int n>
CZK_FN void store_words(uint32_t* target, const uint32_t* words) {
  static_assert(n % 4 == 0, "whole 16 bytes");
  CZK_UNROLL for (int i = 0; i < n; i += 4) grid::store_four(target + i, words + i);
}

CZK_END
