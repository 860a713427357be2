// Products before their Montgomery reduction: sums of products are reduced once instead of once each.
#pragma once
#include "host_field.hpp"

CZK_BEGIN

// A sum of products of two elements modulo p*R, kept below p*R (R = 2^(64N)) so that one reduction brings it below p.
// Adding a product (below p^2 < p*R) therefore needs at most one subtraction of p from the upper half.
template <class F>
struct WideSum {
  static constexpr int N = F::N;
  uint64_t v[2 * N];

  static CZK_FN WideSum zero() { return WideSum{}; }

  // a*b, 2N limbs.
  static CZK_FN WideSum product(const F& a, const F& b) {
    WideSum t;
    CZK_UNROLL for (int i = 0; i < N; i++) {
      uint64_t carry = 0;
      CZK_UNROLL for (int j = 0; j < N; j++) {
        u128 s = u128(a.v[i]) * b.v[j] + (i ? t.v[i + j] : 0) + carry;
        t.v[i + j] = uint64_t(s);
        carry = uint64_t(s >> 64);
      }
      t.v[i + N] = carry;
    }
    return t;
  }

  CZK_FN void operator+=(const WideSum& o) {
    uint64_t t[2 * N], carry = 0;
    CZK_UNROLL for (int i = 0; i < 2 * N; i++) {
      u128 s = u128(v[i]) + o.v[i] + carry;
      t[i] = uint64_t(s);
      carry = uint64_t(s >> 64);
    }
    F high = F::reduce_once(t + N);
    CZK_UNROLL for (int i = 0; i < N; i++) {
      v[i] = t[i];
      v[N + i] = high.v[i];
    }
  }
  CZK_FN void add_product(const F& a, const F& b) { *this += product(a, b); }

  // Adds x*R.
  CZK_FN void add_shifted(const F& x) {
    F high;
    CZK_UNROLL for (int i = 0; i < N; i++) high.v[i] = v[N + i];
    high = high + x;
    CZK_UNROLL for (int i = 0; i < N; i++) v[N + i] = high.v[i];
  }

  // The sum over R modulo p: Montgomery reduction (Montgomery 1985), one limb at a time. Below p*R in, below p out.
  CZK_FN F reduce() const {
    uint64_t t[2 * N], above = 0;  // above: the carry into the limb that the next step completes
    CZK_UNROLL for (int i = 0; i < 2 * N; i++) t[i] = v[i];
    CZK_UNROLL for (int i = 0; i < N; i++) {
      uint64_t m = t[i] * F::K.n0;
      uint64_t carry = uint64_t((u128(m) * F::K.p[0] + t[i]) >> 64);
      CZK_UNROLL for (int j = 1; j < N; j++) {
        u128 s = u128(m) * F::K.p[j] + t[i + j] + carry;
        t[i + j] = uint64_t(s);
        carry = uint64_t(s >> 64);
      }
      u128 s = u128(t[i + N]) + carry + above;
      t[i + N] = uint64_t(s);
      above = uint64_t(s >> 64);
    }
    return F::reduce_once(t + N);
  }
};

CZK_END
