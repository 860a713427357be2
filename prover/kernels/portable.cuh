// The only file that asks which compiler runs: integer types, function annotations, access to words in memory.
#pragma once

#if defined(__CUDACC_RTC__)
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int int32_t;
typedef long long int64_t;
#else
#include <cstddef>
#include <cstdint>
#include <cstring>
#endif

// CZK_FN is inlined everywhere, CZK_OUTLINED nowhere; CZK_LARGE where registers are plenty and calls dear: on the device.
// CZK_CONST_FN also runs at compile time.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define CZK_ON_DEVICE 1
#define CZK_FN __device__ __forceinline__
#define CZK_CONST_FN __device__ constexpr
#define CZK_OUTLINED __device__ __noinline__
#define CZK_LARGE __device__ __forceinline__
#define CZK_UNROLL _Pragma("unroll")
#else
#define CZK_ON_DEVICE 0
#define CZK_FN inline __attribute__((always_inline))
#define CZK_CONST_FN constexpr
#define CZK_OUTLINED __attribute__((noinline))
#define CZK_LARGE __attribute__((noinline))
#define CZK_UNROLL _Pragma("GCC unroll 16")
#endif

// The host library compiles its hot files once per instruction-set variant. Each variant lives in its own inline
// namespace: without it the linker would merge template instances compiled with different flags.
#if !defined(CZK_VARIANT)
#define CZK_VARIANT device
#endif
#define CZK_BEGIN namespace czk { inline namespace CZK_VARIANT {
#define CZK_END } }

CZK_BEGIN

// 32-bit word i of an array in memory; on the host at any address (memory-mapped files align nothing).
CZK_FN uint32_t load_word(const void* base, int i) {
#if CZK_ON_DEVICE
  return static_cast<const uint32_t*>(base)[i];
#else
  uint32_t word;
  std::memcpy(&word, static_cast<const char*>(base) + 4 * i, 4);
  return word;
#endif
}
CZK_FN void store_word(void* base, int i, uint32_t word) {
#if CZK_ON_DEVICE
  static_cast<uint32_t*>(base)[i] = word;
#else
  std::memcpy(static_cast<char*>(base) + 4 * i, &word, 4);
#endif
}

CZK_END
