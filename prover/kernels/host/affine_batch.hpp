// Many affine points at once: additions and conversions that share one field inversion (Montgomery's trick).
#pragma once
#include "variant.hpp"

CZK_BEGIN

// out[i] = in[i] in affine coordinates; 6 products each and one inversion in all. scratch holds n elements.
template <class F>
void batch_to_affine(const Xyzz<F>* in, Affine<F>* out, uint64_t n, F* scratch) {
  F product = F::one();
  for (uint64_t i = 0; i < n; i++) {
    scratch[i] = product;
    if (!in[i].is_infinity()) product = product * in[i].zzz;
  }
  F inverse = product.inverse();
  for (uint64_t i = n; i-- > 0;) {
    if (in[i].is_infinity()) {
      out[i] = Affine<F>::infinity();
      continue;
    }
    F inv_zzz = inverse * scratch[i];
    inverse = inverse * in[i].zzz;
    F inv_z = inv_zzz * in[i].zz;
    out[i] = {in[i].x * inv_z.sqr(), in[i].y * inv_zzz};
  }
}

// acc[i] += addend(i) for i < n, affine, complete: 5 products and 1 squaring each and one inversion in all.
// scratch holds 2n elements.
template <class F, class Addend>
void batch_add_affine(Affine<F>* acc, uint64_t n, F* scratch, Addend&& addend) {
  F* denominator = scratch;
  F* prefix = scratch + n;
  F product = F::one();
  for (uint64_t i = 0; i < n; i++) {
    const Affine<F> q = addend(i);
    F d = q.x - acc[i].x;
    if (q.is_infinity() || acc[i].is_infinity())
      d = F::zero();
    else if (d.is_zero() && q.y == acc[i].y)
      d = q.y.dbl();  // zero for a point of order two
    denominator[i] = d;
    prefix[i] = product;
    if (!d.is_zero()) product = product * d;
  }
  F inverse = product.inverse();
  for (uint64_t i = n; i-- > 0;) {
    const Affine<F> q = addend(i);
    Affine<F>& a = acc[i];
    if (denominator[i].is_zero()) {
      if (a.is_infinity())
        a = q;
      else if (!q.is_infinity())
        a = Affine<F>::infinity();  // opposite points
      continue;
    }
    F slope = inverse * prefix[i];
    inverse = inverse * denominator[i];
    if (q.x == a.x) {
      F xx = a.x.sqr();
      slope = slope * (xx.dbl() + xx);
    } else {
      slope = slope * (q.y - a.y);
    }
    F x3 = slope.sqr() - a.x - q.x;
    a = {x3, slope * (a.x - x3) - a.y};
  }
}

CZK_END
