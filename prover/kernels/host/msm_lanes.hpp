// One addition at a time: the coordinates that the batch algorithms of msm_batch.hpp and msm_buckets.hpp compute with,
// in 64-bit limbs. msm_lanes_ifma.hpp has the same interface with eight or sixteen lanes.
//
// Interface, for a coordinate type V with Field the coordinate field of the group:
//   kLanes, Mask (bit l for lane l), kAll
//   Norm: the base field's lanes. A denominator d is inverted through norm(d): itself in Fp, d0^2 + d1^2 in Fp2, so that
//         the shared inversion and its products stay in the base field (3 base products each instead of 9).
//   difference(a, b): a - b, an operand of products;  maybe_zero(): lanes where it may be zero, all that are
//   quotient(a, d, 1/norm(d)): a/d
//   next_x(slope, x1, x2 - x1), next_y(slope, x1, x3, y1): the sum's coordinates
//   doubled(), tripled_square(): 2y and 3x^2, operands of products
//   rows: points in memory, kRowBytes each, infinity all zero bytes
#pragma once
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

  template <class E, class = void>
  struct BaseOf {
    using type = E;
  };
  template <class E>
  struct BaseOf<E, std::void_t<typename E::Base>> {
    using type = typename E::Base;
  };
  struct Norm {
    using Base = typename BaseOf<F>::type;
    Base v;
    static CZK_FN Norm one() { return {Base::one()}; }
    friend CZK_FN Norm operator*(const Norm& a, const Norm& b) { return {a.v * b.v}; }
    // One step back through the prefix products: inverse becomes that of one factor fewer; returns the factor's own.
    static CZK_FN Norm peel(Norm& inverse, const Norm& prefix, const Norm& factor) {
      const Norm own = inverse * prefix;
      inverse = inverse * factor;
      return own;
    }
    Norm inverse() const { return {v.inverse()}; }
  };

  static CZK_FN HostLane zero() { return {F::zero()}; }
  static CZK_FN HostLane one() { return {F::one()}; }
  static CZK_FN HostLane select(Mask mask, const HostLane& a, const HostLane& b) { return mask ? a : b; }
  static CZK_FN HostLane difference(const HostLane& a, const HostLane& b) { return {a.v - b.v}; }
  CZK_FN Mask maybe_zero() const { return v.is_zero(); }
  Mask is_zero() const { return v.is_zero(); }
  static CZK_FN Mask maybe_infinite(const Lanes<HostLane>& p) { return p.x.v.is_zero() && p.y.v.is_zero(); }
  static Mask is_infinite(const Lanes<HostLane>& p) { return maybe_infinite(p); }

  CZK_FN Norm norm() const {
    if constexpr (kIsFp2<F>)
      return {v.c0.sqr() + v.c1.sqr()};
    else
      return {v};
  }
  static CZK_FN HostLane quotient(const HostLane& a, const HostLane& d, const Norm& inverse_norm) {
    if constexpr (kIsFp2<F>)
      return {(a.v * d.v.conjugate()).scale(inverse_norm.v)};
    else
      return {a.v * inverse_norm.v};
  }
  static CZK_FN HostLane next_x(const HostLane& slope, const HostLane& x1, const HostLane& d) {
    return {slope.v.sqr() - (x1.v.dbl() + d.v)};
  }
  static CZK_FN HostLane next_y(const HostLane& slope, const HostLane& x1, const HostLane& x3, const HostLane& y1) {
    return {slope.v * (x1.v - x3.v) - y1.v};
  }
  CZK_FN HostLane doubled() const { return {v.dbl()}; }
  CZK_FN HostLane tripled_square() const {
    F s = v.sqr();
    return {s.dbl() + s};
  }
  CZK_FN HostLane normalised() const { return *this; }

  // --- memory ---
  static constexpr uint64_t kRowBytes = 2 * element_bytes<F>();
  // Rows are points of the interface: the caller's bases are read where they lie.
  static constexpr bool kConverts = false;
  template <int write>
  static CZK_FN void prefetch(const char* row) {
    for (uint64_t byte = 0; byte < kRowBytes; byte += 64) __builtin_prefetch(row + byte, write);
    __builtin_prefetch(row + kRowBytes - 1, write);
  }
  // entry: 2*number + sign.
  static CZK_FN void gather(const char* table, const uint32_t* entry, Lanes<HostLane>& p) {
    Affine<F> q = load_point<F>(table + uint64_t(entry[0] >> 1) * kRowBytes);
    p = {{q.x}, {entry[0] & 1 ? q.y.neg() : q.y}};
  }
  static CZK_FN void load_rows(const char* const* row, Lanes<HostLane>& p) {
    const Affine<F> q = load_point<F>(row[0]);
    p = {{q.x}, {q.y}};
  }
  static CZK_FN void store_rows(const Lanes<HostLane>& p, char* const* row) { store_point<F>({p.x.v, p.y.v}, row[0]); }
  static CZK_FN void copy_lane(const Lanes<HostLane>& from, int, Lanes<HostLane>& to, int) { to = from; }
  static CZK_FN void clear_lane(Lanes<HostLane>& p, int) { p = {zero(), zero()}; }
  static Affine<F> to_affine(const Lanes<HostLane>& p, int) { return {p.x.v, p.y.v}; }
};

}  // namespace msm
CZK_END
