// One addition at a time: the coordinates that the batch algorithms of msm_batch.hpp and msm_buckets.hpp compute with,
// in 64-bit limbs. msm_lanes_ifma.hpp has the same interface with eight or sixteen lanes.
//
// Interface, for a coordinate type V with Field the coordinate field of the group:
//   kLanes, Mask (bit l for lane l), kAll
//   Norm: lanes of the base field, V itself in G1. A denominator d is inverted through d in Fp and through its norm,
//         d0^2 + d1^2, in Fp2: the shared inversion and its products stay in the base field (3 products instead of 9).
//   difference(a, b): a - b, an operand of products;  maybe_zero(): lanes where it may be zero, all that are
//   quotient(a, d, 1/norm(d)): a/d
//   third_point(slope, x2 - x1, point): point becomes its sum with (x2, y2)
//   doubled(), tripled_square(): 2y and 3x^2, operands of products
//   rows: points in memory, kRowBytes each, infinity all zero bytes
#pragma once
#include "msm_split.hpp"
#include "msm_windows.hpp"

CZK_BEGIN
namespace msm {

// A point a lane.
template <class V>
struct Lanes {
  V x, y;
};

template <class F>
struct HostLane {
  using Field = F;
  using Mask = uint32_t;
  static constexpr int kLanes = 1;
  static constexpr Mask kAll = 1;
  static constexpr Costs kCosts = {0.02, 12, 2000};
  F v;

  template <class E>
  struct BaseOf {
    using type = E;
  };
  template <class E>
  struct BaseOf<Fp2<E>> {
    using type = E;
  };
  using Norm = HostLane<typename BaseOf<F>::type>;

  static CZK_FN HostLane zero() { return {F::zero()}; }
  static CZK_FN HostLane one() { return {F::one()}; }
  static CZK_FN HostLane select(Mask mask, const HostLane& a, const HostLane& b) { return mask ? a : b; }
  static CZK_FN HostLane difference(const HostLane& a, const HostLane& b) { return {a.v - b.v}; }
  CZK_FN Mask maybe_zero() const { return v.is_zero(); }
  Mask is_zero() const { return v.is_zero(); }
  static CZK_FN Mask maybe_infinite(const HostLane& x, const HostLane& y) { return x.v.is_zero() && y.v.is_zero(); }
  static Mask is_infinite(const HostLane& x, const HostLane& y) { return maybe_infinite(x, y); }

  CZK_FN Norm norm() const { return {v.c0.sqr() + v.c1.sqr()}; }
  static CZK_FN HostLane quotient(const HostLane& a, const HostLane& d, const Norm& inverse_norm) {
    if constexpr (kIsFp2<F>)
      return {(a.v * d.v.conjugate()).scale(inverse_norm.v)};
    else
      return {a.v * inverse_norm.v};
  }
  static CZK_FN void third_point(const HostLane& slope, const HostLane& d, Lanes<HostLane>& point) {
    const F x3 = slope.v.sqr() - (point.x.v.dbl() + d.v);
    point.y.v = slope.v * (point.x.v - x3) - point.y.v;
    point.x.v = x3;
  }
  CZK_FN HostLane doubled() const { return {v.dbl()}; }
  CZK_FN HostLane tripled_square() const {
    F s = v.sqr();
    return {s.dbl() + s};
  }
  CZK_FN HostLane normalised() const { return *this; }

  // --- in the base field: the inversion that a batch shares ---
  // *this = a*b.
  CZK_FN void set_product(const HostLane& a, const HostLane& b) { v = a.v * b.v; }
  // One step back through the prefix products: inverse becomes that of one factor fewer, own the factor's.
  static CZK_FN void peel(HostLane& inverse, const HostLane& prefix, const HostLane& factor, HostLane& own) {
    own.v = inverse.v * prefix.v;
    inverse.v = inverse.v * factor.v;
  }
  HostLane inverse() const { return {v.inverse()}; }

  // --- memory ---
  static constexpr uint64_t kRowBytes = 2 * element_bytes<F>();
  // The images under the endomorphism's power `part` of points of the interface, entries[i]/2 being the number of the
  // i-th, to rows. Copied even where they stay the same: the caller's bases lie on small pages, of which more are in use
  // than the processor has translations for.
  template <class G>
  static void convert(const char* bases, const uint32_t* entries, uint64_t n, int part, char* rows) {
    const auto& powers = EndomorphismPowers<G>::get();
    for (uint64_t i = 0; i < n; i++) {
      const char* base = bases + uint64_t(entries[i] >> 1) * kRowBytes;
      if (part == 0) {
        std::memcpy(rows + i * kRowBytes, base, kRowBytes);
        continue;
      }
      Affine<F> p = load_point<F>(base);
      if constexpr (kIsFp2<F>)
        if (part % 2) p = {p.x.conjugate(), p.y.conjugate()};
      p.x = p.x * powers.of_x[part];
      if constexpr (kIsFp2<F>) p.y = p.y * powers.of_y[part];
      store_point<F>(p, rows + i * kRowBytes);
    }
  }
  template <int write>
  static CZK_FN void prefetch(const char* row) {
    for (uint64_t byte = 0; byte < kRowBytes; byte += 64) __builtin_prefetch(row + byte, write);
    __builtin_prefetch(row + kRowBytes - 1, write);
  }
  // entry: 2*number + sign.
  static CZK_FN void gather(const char* table, const uint32_t* entry, HostLane& x, HostLane& y) {
    const Affine<F> q = load_point<F>(table + uint64_t(entry[0] >> 1) * kRowBytes);
    x.v = q.x;
    y.v = negated_if(entry[0] & 1, q.y);
  }
  // Without a branch: signs are random.
  static CZK_FN F negated_if(bool negate, const F& y) {
    if constexpr (kIsFp2<F>) {
      return {HostLane<typename F::Base>::negated_if(negate, y.c0), HostLane<typename F::Base>::negated_if(negate, y.c1)};
    } else {
      F minus = y.neg();
      CZK_UNROLL for (int i = 0; i < F::N; i++) minus.v[i] = negate ? minus.v[i] : y.v[i];
      return minus;
    }
  }
  static CZK_FN void load_rows(const char* const* row, HostLane& x, HostLane& y) {
    const Affine<F> q = load_point<F>(row[0]);
    x.v = q.x;
    y.v = q.y;
  }
  static CZK_FN void store_rows(const Lanes<HostLane>& p, char* const* row) { store_point<F>({p.x.v, p.y.v}, row[0]); }
  static CZK_FN void copy_lane(const Lanes<HostLane>& from, int, Lanes<HostLane>& to, int) { to = from; }
  static CZK_FN void clear_lane(Lanes<HostLane>& p, int) { p = {zero(), zero()}; }
  static Affine<F> to_affine(const Lanes<HostLane>& p, int) { return {p.x.v, p.y.v}; }
};

}  // namespace msm
CZK_END
