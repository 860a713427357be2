// The only file that asks which compiler runs: integer types and function annotations.
#pragma once

#if defined(__CUDACC_RTC__)
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int int32_t;
typedef long long int64_t;
#else
#include <cstddef>
#include <cstdint>
#endif

// CZK_FN is inlined everywhere, CZK_OUTLINED nowhere; CZK_LARGE where registers are plenty and calls dear: on the device.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define CZK_FN __device__ __forceinline__
#define CZK_OUTLINED __device__ __noinline__
#define CZK_LARGE __device__ __forceinline__
#define CZK_UNROLL _Pragma("unroll")
#else
#define CZK_FN inline __attribute__((always_inline))
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
