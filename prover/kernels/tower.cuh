// Fp2 = Fp[u] / (u^2 + 1), over any base-field type with the interface of field.cuh / host_field.hpp.
// Multiplication: Karatsuba, 3 base products, or 4 in pairs that share a reduction where the base field has such;
// squaring: complex squaring, 2 base products.
#pragma once
#include "portable.cuh"

CZK_BEGIN

template <class F>
struct Fp2 {
  using Base = F;
  F c0, c1;

  static CZK_FN Fp2 zero() { return {F::zero(), F::zero()}; }
  static CZK_FN Fp2 one() { return {F::one(), F::zero()}; }
  CZK_FN bool is_zero() const { return c0.is_zero() && c1.is_zero(); }
  CZK_FN bool operator==(const Fp2& o) const { return c0 == o.c0 && c1 == o.c1; }

  friend CZK_FN Fp2 operator+(const Fp2& a, const Fp2& b) { return {a.c0 + b.c0, a.c1 + b.c1}; }
  friend CZK_FN Fp2 operator-(const Fp2& a, const Fp2& b) { return {a.c0 - b.c0, a.c1 - b.c1}; }
  CZK_FN Fp2 neg() const { return {c0.neg(), c1.neg()}; }
  CZK_FN Fp2 dbl() const { return {c0.dbl(), c1.dbl()}; }
  CZK_FN Fp2 conjugate() const { return {c0, c1.neg()}; }

  friend CZK_LARGE Fp2 operator*(const Fp2& a, const Fp2& b) {
    if constexpr (F::kFusesProducts) {
      return {F::product_difference(a.c0, b.c0, a.c1, b.c1), F::product_sum(a.c0, b.c1, a.c1, b.c0)};
    }
    F v0 = a.c0 * b.c0;
    F v1 = a.c1 * b.c1;
    F cross = (a.c0 + a.c1) * (b.c0 + b.c1);
    return {v0 - v1, cross - v0 - v1};
  }
  static CZK_FN Fp2 product_difference(const Fp2& a, const Fp2& b, const Fp2& c, const Fp2& d) { return a * b - c * d; }
  CZK_FN Fp2 scale(const F& k) const { return {c0 * k, c1 * k}; }
  CZK_LARGE Fp2 sqr() const {
    F sum = c0 + c1;
    F diff = c0 - c1;
    F prod = c0 * c1;
    return {sum * diff, prod.dbl()};
  }
  // 1/(c0 + c1 u) = (c0 - c1 u) / (c0^2 + c1^2); the inverse of zero is zero.
  CZK_LARGE Fp2 inverse() const {
    F norm = (c0.sqr() + c1.sqr()).inverse();
    return {c0 * norm, c1.neg() * norm};
  }
};

CZK_END
