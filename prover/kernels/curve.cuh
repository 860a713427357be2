// Short Weierstrass points y^2 = x^3 + b (a = 0) over any coordinate field: Fp for G1, Fp2 for G2.
// Formulas: Explicit-Formulas Database, shortw/xyzz (madd-2008-s, add-2008-s, dbl-2008-s-1), with every exceptional
// case (infinity, equal, opposite) handled. The affine point at infinity is (0, 0), which is on neither curve.
#pragma once
#include "portable.cuh"

CZK_BEGIN

template <class F>
struct Affine {
  F x, y;
  static CZK_FN Affine infinity() { return {F::zero(), F::zero()}; }
  CZK_FN bool is_infinity() const { return x.is_zero() && y.is_zero(); }
  CZK_FN Affine neg() const { return {x, y.neg()}; }
};

// X/ZZ, Y/ZZZ with ZZ^3 = ZZZ^2; infinity has ZZ = ZZZ = 0.
template <class F>
struct Xyzz {
  F x, y, zz, zzz;

  static CZK_FN Xyzz infinity() { return {F::zero(), F::zero(), F::zero(), F::zero()}; }
  CZK_FN bool is_infinity() const { return zz.is_zero(); }
  static CZK_FN Xyzz from_affine(const Affine<F>& p) {
    if (p.is_infinity()) return infinity();
    return {p.x, p.y, F::one(), F::one()};
  }
  CZK_FN Xyzz neg() const { return {x, y.neg(), zz, zzz}; }

  CZK_LARGE Xyzz dbl() const {
    if (is_infinity() || y.is_zero()) return infinity();
    F u = y.dbl();
    F v = u.sqr();
    F w = u * v;
    F s = x * v;
    F xx = x.sqr();
    F m = xx.dbl() + xx;
    F x3 = m.sqr() - s.dbl();
    return {x3, F::product_difference(m, s - x3, w, y), v * zz, w * zzz};
  }

  // 8M + 2S
  CZK_LARGE void add(const Affine<F>& q) {
    if (q.is_infinity()) return;
    if (is_infinity()) {
      *this = from_affine(q);
      return;
    }
    F p = q.x * zz - x;
    F r = q.y * zzz - y;
    if (p.is_zero()) {
      *this = r.is_zero() ? from_affine(q).dbl() : infinity();
      return;
    }
    F pp = p.sqr();
    F ppp = p * pp;
    F qq = x * pp;
    F x3 = r.sqr() - ppp - qq.dbl();
    y = F::product_difference(r, qq - x3, y, ppp);
    x = x3;
    zz = zz * pp;
    zzz = zzz * ppp;
  }

  // 12M + 2S
  CZK_LARGE void add(const Xyzz& q) {
    if (q.is_infinity()) return;
    if (is_infinity()) {
      *this = q;
      return;
    }
    F u1 = x * q.zz;
    F s1 = y * q.zzz;
    F p = q.x * zz - u1;
    F r = q.y * zzz - s1;
    if (p.is_zero()) {
      *this = r.is_zero() ? dbl() : infinity();
      return;
    }
    F pp = p.sqr();
    F ppp = p * pp;
    F qq = u1 * pp;
    F x3 = r.sqr() - ppp - qq.dbl();
    y = F::product_difference(r, qq - x3, s1, ppp);
    x = x3;
    zz = zz * q.zz * pp;
    zzz = zzz * q.zzz * ppp;
  }

  // One inversion; host only in practice.
  CZK_LARGE Affine<F> to_affine() const {
    if (is_infinity()) return Affine<F>::infinity();
    F inv_zzz = zzz.inverse();
    F inv_z = inv_zzz * zz;  // 1/Z, since ZZ/ZZZ = 1/Z
    return {x * inv_z.sqr(), y * inv_zzz};
  }
};

CZK_END
