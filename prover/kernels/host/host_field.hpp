// A prime field on the host: 64-bit limbs over the same bytes as field.cuh's 32-bit ones, Montgomery form, always
// reduced to [0, p). This file is the portable form; faster multipliers replace `mont_mul` behind dispatch.
#pragma once
#include <cstring>

#include "../params.cuh"
#include "../portable.cuh"
#include "modular_inverse.hpp"

CZK_BEGIN

using u128 = unsigned __int128;

template <class P>
struct HostField {
  using Params = P;
  static constexpr int N = P::kLimbs32 / 2;
  static constexpr int kBits = P::kBits;
  static constexpr int kBytes = 8 * N;
  uint64_t v[N];

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
    std::memcpy(o.v, src, kBytes);
    return o;
  }
  CZK_FN void store(void* dst) const { std::memcpy(dst, v, kBytes); }

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

  // t - p if t >= p, without a branch; `carry` is the limb above t (0 or 1).
  static CZK_FN HostField reduce_once(const uint64_t* t, uint64_t carry) {
    HostField s;
    uint64_t borrow = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) {
      u128 d = u128(t[i]) - K.p[i] - borrow;
      s.v[i] = uint64_t(d);
      borrow = uint64_t(d >> 64) & 1;
    }
    uint64_t keep = 0 - uint64_t(carry < borrow);  // all ones: t < p, keep t
    CZK_UNROLL for (int i = 0; i < N; i++) s.v[i] = (t[i] & keep) | (s.v[i] & ~keep);
    return s;
  }

  friend CZK_FN HostField operator+(const HostField& a, const HostField& b) {
    uint64_t t[N], carry = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) {
      u128 s = u128(a.v[i]) + b.v[i] + carry;
      t[i] = uint64_t(s);
      carry = uint64_t(s >> 64);
    }
    return reduce_once(t, carry);
  }
  friend CZK_FN HostField operator-(const HostField& a, const HostField& b) {
    HostField d;
    uint64_t borrow = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) {
      u128 t = u128(a.v[i]) - b.v[i] - borrow;
      d.v[i] = uint64_t(t);
      borrow = uint64_t(t >> 64) & 1;
    }
    uint64_t mask = 0 - borrow, carry = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) {
      u128 s = u128(d.v[i]) + (K.p[i] & mask) + carry;
      d.v[i] = uint64_t(s);
      carry = uint64_t(s >> 64);
    }
    return d;
  }
  CZK_FN HostField neg() const { return zero() - *this; }
  CZK_FN HostField dbl() const { return *this + *this; }
  friend CZK_FN HostField operator*(const HostField& a, const HostField& b) { return mont_mul(a, b); }
  CZK_FN HostField sqr() const { return mont_mul(*this, *this); }

  // Montgomery product a*b/2^(64N): coarsely integrated operand scanning (Koc, Acar, Kaliski 1996, section 5). All four
  // moduli leave a spare top bit, so a row's two carries fit one limb and no (N+1)-th limb is kept.
  static CZK_OUTLINED HostField mont_mul(const HostField& a, const HostField& b) {
    uint64_t t[N] = {};
    CZK_UNROLL for (int i = 0; i < N; i++) {
      u128 s = u128(a.v[i]) * b.v[0] + t[0];
      uint64_t ca = uint64_t(s >> 64);
      uint64_t m = uint64_t(s) * K.n0;
      uint64_t cb = uint64_t((u128(m) * K.p[0] + uint64_t(s)) >> 64);
      CZK_UNROLL for (int j = 1; j < N; j++) {
        s = u128(a.v[i]) * b.v[j] + t[j] + ca;
        ca = uint64_t(s >> 64);
        u128 q = u128(m) * K.p[j] + uint64_t(s) + cb;
        cb = uint64_t(q >> 64);
        t[j - 1] = uint64_t(q);
      }
      t[N - 1] = ca + cb;
    }
    return reduce_once(t, 0);
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
};

using BlsFp = HostField<Bls12381Fp>;
using BlsFr = HostField<Bls12381Fr>;
using BnFp = HostField<Bn254Fp>;
using BnFr = HostField<Bn254Fr>;

CZK_END
