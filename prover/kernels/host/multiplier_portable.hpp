// Montgomery arithmetic on N 64-bit limbs in standard C++ (with 128-bit integers): what any processor runs, and what the
// faster multipliers are tested against.
#pragma once
#include "../portable.cuh"

CZK_BEGIN

using u128 = unsigned __int128;

template <int N>
struct PortableMultiplier {
  using Limbs = uint64_t[N];

  // t -= p unless t < p. Without a branch: which of the two holds is as good as random.
  static CZK_FN void reduce_once(Limbs& t, const Limbs& p) { reduce_once(t, 0, p); }
  // The same for t + carry*2^(64N).
  static CZK_FN void reduce_once(Limbs& t, uint64_t carry, const Limbs& p) {
    Limbs s;
    uint64_t borrow = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) {
      u128 d = u128(t[i]) - p[i] - borrow;
      s[i] = uint64_t(d);
      borrow = uint64_t(d >> 64) & 1;
    }
    uint64_t keep = 0 - uint64_t(carry < borrow);
    CZK_UNROLL for (int i = 0; i < N; i++) t[i] = (t[i] & keep) | (s[i] & ~keep);
  }
  // t = t + b mod p. Not in line: compilers make so much of it that calls cost less.
  static CZK_OUTLINED void add(Limbs& t, const Limbs& b, const Limbs& p) {
    uint64_t carry = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) {
      u128 s = u128(t[i]) + b[i] + carry;
      t[i] = uint64_t(s);
      carry = uint64_t(s >> 64);
    }
    reduce_once(t, p);
  }
  // t = t - b mod p
  static CZK_OUTLINED void sub(Limbs& t, const Limbs& b, const Limbs& p) {
    uint64_t borrow = 0, carry = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) {
      u128 d = u128(t[i]) - b[i] - borrow;
      t[i] = uint64_t(d);
      borrow = uint64_t(d >> 64) & 1;
    }
    CZK_UNROLL for (int i = 0; i < N; i++) {
      u128 s = u128(t[i]) + (p[i] & (0 - borrow)) + carry;
      t[i] = uint64_t(s);
      carry = uint64_t(s >> 64);
    }
  }

  // out = a*b/2^(64N) mod p: operand scanning with interleaved reduction (CIOS: Koc, Acar, Kaliski, "Analyzing and
  // comparing Montgomery multiplication algorithms", 1996, section 5). n0 = -1/p mod 2^64. The modulus leaves a spare
  // top bit, so that a row's two carries fit one limb.
  static CZK_FN void mul(uint64_t* out, const uint64_t* a, const uint64_t* b, const Limbs& p, const uint64_t& n0) {
    Limbs t = {};
    CZK_UNROLL for (int i = 0; i < N; i++) {
      uint64_t carry = add_row(t, a[i], b);
      fold(t, carry, p, n0);
    }
    finish(out, t, p);
  }
  // out = (a*b + c*d)/2^(64N) mod p, reduced once; the modulus must leave two spare bits.
  static CZK_FN void mul_pair(uint64_t* out, const uint64_t* a, const uint64_t* b, const uint64_t* c,
                              const uint64_t* d, const Limbs& p, const uint64_t& n0) {
    Limbs t = {};
    CZK_UNROLL for (int i = 0; i < N; i++) {
      uint64_t carry = add_row(t, a[i], b);
      carry += add_row(t, c[i], d);
      fold(t, carry, p, n0);
    }
    finish(out, t, p);
  }

 private:
  // t += k*b; returns the carry limb.
  static CZK_FN uint64_t add_row(Limbs& t, uint64_t k, const uint64_t* b) {
    uint64_t carry = 0;
    CZK_UNROLL for (int j = 0; j < N; j++) {
      u128 s = u128(k) * b[j] + t[j] + carry;
      t[j] = uint64_t(s);
      carry = uint64_t(s >> 64);
    }
    return carry;
  }
  // t = (t + top*2^(64N) + m*p) / 2^64 with the m that clears the lowest limb.
  static CZK_FN void fold(Limbs& t, uint64_t top, const Limbs& p, uint64_t n0) {
    uint64_t m = t[0] * n0;
    uint64_t carry = uint64_t((u128(m) * p[0] + t[0]) >> 64);
    CZK_UNROLL for (int j = 1; j < N; j++) {
      u128 s = u128(m) * p[j] + t[j] + carry;
      t[j - 1] = uint64_t(s);
      carry = uint64_t(s >> 64);
    }
    t[N - 1] = carry + top;
  }
  static CZK_FN void finish(uint64_t* out, Limbs& t, const Limbs& p) {
    reduce_once(t, p);
    CZK_UNROLL for (int i = 0; i < N; i++) out[i] = t[i];
  }
};

CZK_END
