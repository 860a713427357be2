// What every per-variant file shares: how its C functions are named, dispatch from the interface's numbers to types,
// errors, threads, memory.
//
//   CZK_DEFINE(field_op)(int32_t field, ...) {
//     return guarded([&] { return with_field(field, [&](auto tag) { using F = typename decltype(tag)::type; ... }); });
//   }
#pragma once
#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <type_traits>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "../abi.h"
#include "../curve.cuh"
#include "../tower.cuh"
#include "functions.hpp"
#include "host_field.hpp"
#include "team.hpp"

#define CZK_JOIN3_(a, b, c) a##b##c
#define CZK_JOIN3(a, b, c) CZK_JOIN3_(a, b, c)
#define CZK_NAME(name) CZK_JOIN3(czk_, CZK_VARIANT, _##name)
#define CZK_DEFINE(name) extern "C" int32_t CZK_NAME(name)

#define CZK_DECLARE(name, params, args) CZK_DEFINE(name) params;
CZK_FUNCTIONS(CZK_DECLARE)
#undef CZK_DECLARE

CZK_BEGIN

// --- dispatch -------------------------------------------------------------------------------------------------------

template <class T>
struct Tag {
  using type = T;
};

struct Bls12381 {
  using Fp = BlsFp;
  using Fr = BlsFr;
  using Params = Bls12381Curve;
  static constexpr int kIndex = 0;
};
struct Bn254 {
  using Fp = BnFp;
  using Fr = BnFr;
  using Params = Bn254Curve;
  static constexpr int kIndex = 1;
};

// One of the four groups: its curve, the coordinate field F, its point types.
template <class C, int G>
struct Group {
  using Curve = C;
  using Fp = typename C::Fp;
  using Fr = typename C::Fr;
  using F = std::conditional_t<G == 1, Fp, Fp2<Fp>>;
  using Point = Affine<F>;
  using Accumulator = Xyzz<F>;
  static constexpr int kGroup = G;
  static constexpr uint64_t kPointBytes = 2 * G * Fp::kBytes;
};

// Whether the type is Fp2 of some base field.
template <class F>
inline constexpr bool kIsFp2 = false;
template <class F>
inline constexpr bool kIsFp2<Fp2<F>> = true;

// Bytes of an element.
template <class F>
constexpr uint64_t element_bytes() {
  if constexpr (kIsFp2<F>)
    return 2 * F::Base::kBytes;
  else
    return F::kBytes;
}

template <class F>
CZK_FN F load_element(const void* src) {
  if constexpr (kIsFp2<F>)
    return {F::Base::load(src), F::Base::load(static_cast<const char*>(src) + F::Base::kBytes)};
  else
    return F::load(src);
}
template <class F>
CZK_FN void store_element(const F& x, void* dst) {
  if constexpr (kIsFp2<F>) {
    x.c0.store(dst);
    x.c1.store(static_cast<char*>(dst) + F::Base::kBytes);
  } else {
    x.store(dst);
  }
}
template <class F>
CZK_FN Affine<F> load_point(const void* src) {
  return {load_element<F>(src), load_element<F>(static_cast<const char*>(src) + element_bytes<F>())};
}
template <class F>
CZK_FN void store_point(const Affine<F>& p, void* dst) {
  store_element(p.x, dst);
  store_element(p.y, static_cast<char*>(dst) + element_bytes<F>());
}

// Element or point number i of an array of the interface.
CZK_FN const char* at(const void* base, uint64_t i, uint64_t size) { return static_cast<const char*>(base) + i * size; }
CZK_FN char* at(void* base, uint64_t i, uint64_t size) { return static_cast<char*>(base) + i * size; }

// Each calls fn(Tag<...>{}) -> int32_t.
template <class Fn>
int32_t with_field(int32_t field, Fn&& fn) {
  switch (field) {
    case 0: return fn(Tag<BlsFp>{});
    case 1: return fn(Tag<BlsFr>{});
    case 2: return fn(Tag<BnFp>{});
    case 3: return fn(Tag<BnFr>{});
    case 4: return fn(Tag<Fp2<BlsFp>>{});
    case 5: return fn(Tag<Fp2<BnFp>>{});
    default: return fail(CZK_INVALID, "unknown field %d", field);
  }
}
template <class Fn>
int32_t with_curve(int32_t curve, Fn&& fn) {
  switch (curve) {
    case 0: return fn(Tag<Bls12381>{});
    case 1: return fn(Tag<Bn254>{});
    default: return fail(CZK_INVALID, "unknown curve %d", curve);
  }
}
template <class Fn>
int32_t with_group(int32_t curve, int32_t group, Fn&& fn) {
  if (group != 1 && group != 2) return fail(CZK_INVALID, "unknown group %d", group);
  return with_curve(curve, [&](auto tag) {
    using C = typename decltype(tag)::type;
    return group == 1 ? fn(Tag<Group<C, 1>>{}) : fn(Tag<Group<C, 2>>{});
  });
}

// --- errors ---------------------------------------------------------------------------------------------------------

// Runs the body of an interface function; no exception crosses.
template <class Fn>
int32_t guarded(Fn&& fn) {
  try {
    return fn();
  } catch (const std::bad_alloc&) {
    return fail(CZK_NO_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return fail(CZK_INTERNAL, "%s", e.what());
  }
}

CZK_FN bool cancelled(CzkCancel cancel) { return cancel && *cancel; }

// Cuts [0, n) into as many nearly equal ranges as fit: not more than `most`, not shorter than `least` (unless n is).
struct Split {
  uint64_t n, parts;
  Split(uint64_t n, uint64_t most, uint64_t least)
      : n(n), parts(std::max<uint64_t>(1, std::min(most, n / std::max<uint64_t>(1, least)))) {}
  uint64_t begin(uint64_t part) const { return n / parts * part + std::min(part, n % parts); }
  uint64_t end(uint64_t part) const { return begin(part + 1); }
};

// --- memory ---------------------------------------------------------------------------------------------------------

// Uninitialised array, cache-line aligned, on huge pages where it is large. Throws std::bad_alloc.
template <class T>
class Buffer {
  static_assert(std::is_trivially_destructible_v<T>, "elements are left uninitialised and never destroyed");

 public:
  Buffer() = default;
  explicit Buffer(uint64_t n) : size_(n) {
    constexpr uint64_t kHuge = uint64_t(2) << 20;
    if (n == 0) return;
    if (n > (uint64_t(1) << 62) / sizeof(T)) throw std::bad_alloc();
    uint64_t bytes = n * sizeof(T), align = bytes >= 2 * kHuge ? kHuge : 64;
    bytes = (bytes + align - 1) / align * align;
    data_ = static_cast<T*>(std::aligned_alloc(align, bytes));
    if (!data_) throw std::bad_alloc();
#if defined(__linux__)
    if (align == kHuge) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
  }
  Buffer(Buffer&& o) noexcept : data_(o.data_), size_(o.size_) { o.data_ = nullptr, o.size_ = 0; }
  Buffer& operator=(Buffer&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  uint64_t size() const { return size_; }
  T& operator[](uint64_t i) { return data_[i]; }
  const T& operator[](uint64_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }

 private:
  T* data_ = nullptr;
  uint64_t size_ = 0;
};

CZK_END
