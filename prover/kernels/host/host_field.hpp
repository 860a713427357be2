// A prime field on the host: 64-bit limbs over the same bytes as field.cuh's 32-bit ones, Montgomery form, always
// reduced to [0, p). The limb arithmetic is the variant's multiplier.
#pragma once
#include <cstring>

#include "../params.cuh"
#include "../portable.cuh"
#include "modular_inverse.hpp"
#include "multiplier_portable.hpp"
// The MULX products take every register: a build without optimisation or with a sanitizer keeps some for itself.
#if defined(__x86_64__) && defined(__BMI2__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define CZK_HAS_MULX 1
#include "multiplier_mulx.hpp"
#endif

CZK_BEGIN

#if CZK_HAS_MULX
template <int N>
using Multiplier = MulxMultiplier<N>;
#else
template <int N>
using Multiplier = PortableMultiplier<N>;
#endif

template <class P>
struct HostField {
  using Params = P;
  static constexpr int N = P::kLimbs32 / 2;
  static constexpr int kBits = P::kBits;
  static constexpr int kBytes = 8 * N;
  static_assert(kBits < 64 * N, "the multipliers need a spare top bit");
  uint64_t v[N];

  // Copies go limb by limb: the compiler's own are 16 bytes wide, and a wide load of limbs that were just stored one by
  // one waits until these stores have left the store buffer.
  HostField() = default;
  CZK_FN HostField(const HostField& o) {
    CZK_UNROLL for (int i = 0; i < N; i++) v[i] = o.v[i];
  }
  CZK_FN HostField& operator=(const HostField& o) {
    CZK_UNROLL for (int i = 0; i < N; i++) v[i] = o.v[i];
    return *this;
  }

  struct Constants {
    uint64_t p[N];       // modulus
    uint64_t r[N];       // 2^(64N) mod p: one in Montgomery form
    uint64_t r2[N];      // 2^(128N) mod p
    uint64_t n0;         // -1/p mod 2^64
  };

  static constexpr Constants derive() {
    Constants c{};
    for (int i = 0; i < N; i++) c.p[i] = P::kModulus[2 * i] | (uint64_t(P::kModulus[2 * i + 1]) << 32);
    uint64_t inv = 1;
    for (int i = 0; i < 6; i++) inv *= 2 - c.p[0] * inv;
    c.n0 = 0 - inv;
    uint64_t x[N] = {1};
    for (int step = 1; step <= 128 * N; step++) {  // x = 2^step mod p by doubling
      uint64_t carry = 0, d[N] = {}, s[N] = {}, borrow = 0;
      for (int i = 0; i < N; i++) {
        d[i] = (x[i] << 1) | carry;
        carry = x[i] >> 63;
      }
      for (int i = 0; i < N; i++) {
        u128 t = u128(d[i]) - c.p[i] - borrow;
        s[i] = uint64_t(t);
        borrow = uint64_t(t >> 64) & 1;
      }
      bool reduce = carry || !borrow;
      for (int i = 0; i < N; i++) x[i] = reduce ? s[i] : d[i];
      if (step == 64 * N)
        for (int i = 0; i < N; i++) c.r[i] = x[i];
    }
    for (int i = 0; i < N; i++) c.r2[i] = x[i];
    return c;
  }
  static constexpr Constants K = derive();

  static CZK_FN HostField zero() { return HostField{}; }
  static CZK_FN HostField one() {
    HostField o;
    CZK_UNROLL for (int i = 0; i < N; i++) o.v[i] = K.r[i];
    return o;
  }
  static CZK_FN HostField r2() {
    HostField o;
    CZK_UNROLL for (int i = 0; i < N; i++) o.v[i] = K.r2[i];
    return o;
  }
  // Unaligned: memory-mapped files give no 8-byte alignment.
  static CZK_FN HostField load(const void* src) {
    HostField o;
    CZK_UNROLL for (int i = 0; i < N; i++) std::memcpy(&o.v[i], static_cast<const char*>(src) + 8 * i, 8);
    return o;
  }
  CZK_FN void store(void* dst) const {
    CZK_UNROLL for (int i = 0; i < N; i++) std::memcpy(static_cast<char*>(dst) + 8 * i, &v[i], 8);
  }

  CZK_FN bool is_zero() const {
    uint64_t acc = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) acc |= v[i];
    return acc == 0;
  }
  CZK_FN bool operator==(const HostField& o) const {
    uint64_t acc = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) acc |= v[i] ^ o.v[i];
    return acc == 0;
  }
  // Whether the limbs are below the modulus.
  CZK_FN bool is_reduced() const {
    uint64_t borrow = 0;
    for (int i = 0; i < N; i++) borrow = uint64_t((u128(v[i]) - K.p[i] - borrow) >> 64) & 1;
    return borrow;
  }

  // t - p unless t < p; t is below 2p.
  static CZK_FN HostField reduce_once(const uint64_t* t) {
    HostField o;
    CZK_UNROLL for (int i = 0; i < N; i++) o.v[i] = t[i];
    Multiplier<N>::reduce_once(o.v, K.p);
    return o;
  }

  friend CZK_FN HostField operator+(const HostField& a, const HostField& b) {
    HostField o(a);
    Multiplier<N>::add(o.v, b.v, K.p);
    return o;
  }
  friend CZK_FN HostField operator-(const HostField& a, const HostField& b) {
    HostField o(a);
    Multiplier<N>::sub(o.v, b.v, K.p);
    return o;
  }
  CZK_FN HostField neg() const { return zero() - *this; }
  CZK_FN HostField dbl() const { return *this + *this; }
  friend CZK_FN HostField operator*(const HostField& a, const HostField& b) {
    HostField o;
    product(o.v, a.v, b.v);
    return o;
  }
  CZK_FN HostField sqr() const { return *this * *this; }
  // Whether two products cost one reduction.
  static constexpr bool kFusesProducts = kBits + 2 <= 64 * N;
  static CZK_FN HostField product_sum(const HostField& a, const HostField& b, const HostField& c,
                                      const HostField& d) {
    HostField o;
    if constexpr (kFusesProducts)
      product_pair(o.v, a.v, b.v, c.v, d.v);
    else
      o = a * b + c * d;
    return o;
  }
  static CZK_FN HostField product_difference(const HostField& a, const HostField& b, const HostField& c,
                                             const HostField& d) {
    return product_sum(a, b, c.neg(), d);
  }

  CZK_FN HostField to_montgomery() const { return *this * r2(); }
  CZK_FN HostField from_montgomery() const {
    HostField one_raw{};
    one_raw.v[0] = 1;
    return *this * one_raw;
  }

  // this^e, e as little-endian limbs; not constant time.
  HostField pow(const uint64_t* e, int limbs) const {
    HostField acc = one();
    for (int i = 64 * limbs - 1; i >= 0; i--) {
      acc = acc.sqr();
      if ((e[i / 64] >> (i % 64)) & 1) acc = acc * *this;
    }
    return acc;
  }
  // By divsteps; the inverse of zero is zero.
  CZK_OUTLINED HostField inverse() const {
    HostField o;
    ModularInverse<P>::invert(v, o.v);  // 1/(x*R)
    return o * r2() * r2();
  }

 private:
  // One function per field and operation, a kilobyte each: in line they would cost more instruction cache than calls.
  static CZK_OUTLINED void product(uint64_t* out, const uint64_t* a, const uint64_t* b) {
    Multiplier<N>::mul(out, a, b, K.p, K.n0);
  }
  static CZK_OUTLINED void product_pair(uint64_t* out, const uint64_t* a, const uint64_t* b, const uint64_t* c,
                                        const uint64_t* d) {
    Multiplier<N>::mul_pair(out, a, b, c, d, K.p, K.n0);
  }
};

using BlsFp = HostField<Bls12381Fp>;
using BlsFr = HostField<Bls12381Fr>;
using BnFp = HostField<Bn254Fp>;
using BnFr = HostField<Bn254Fr>;

CZK_END
