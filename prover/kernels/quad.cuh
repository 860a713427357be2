// Points in XYZZ coordinates over neighbouring lanes, a quarter of them for each of x, y, zz, zzz: four lanes in G1, eight
// in G2. Where there is less work than lanes, an addition takes the time of four multiplications instead of fourteen, and
// a doubling of three instead of nine. The formulas are those of curve.cuh. All functions are met by whole warps.
#pragma once
#include "coordinates.cuh"

CZK_BEGIN

template <class F>
struct QuadPoint {
  using L = Layout<F>;
  static constexpr uint32_t kLanes = 4 * L::kLanes;
  static constexpr uint32_t kWords = 4 * L::kWords;
  F own;

  // Which coordinate this lane holds.
  static CZK_FN uint32_t place() { return grid::lane() / L::kLanes % 4; }
  // The coordinate k of this point, from what its lanes hold; the coordinate two places on.
  static CZK_FN F at(const F& f, uint32_t k) {
    return L::from_lane(f, (grid::lane() & ~(kLanes - 1)) | k * L::kLanes | (grid::lane() & (L::kLanes - 1)));
  }
  static CZK_FN F across(const F& f) { return L::from_lane(f, grid::lane() ^ (2 * L::kLanes)); }
  // Whether coordinate k is zero, given the lanes that say so of theirs.
  static CZK_FN bool bit(uint32_t lanes, uint32_t k) {
    return lanes >> ((grid::lane() & ~(kLanes - 1)) | k * L::kLanes) & 1;
  }
  static CZK_FN uint32_t zero_lanes(const F& f) { return grid::lanes_that(L::is_zero(f)); }

  static CZK_FN QuadPoint infinity() { return {F::zero()}; }
  static CZK_FN QuadPoint load(const uint32_t* source) { return {L::load(source + place() * L::kWords)}; }
  CZK_FN void store(uint32_t* target) const { L::store(target + place() * L::kWords, own); }

  CZK_FN QuadPoint dbl() const { return doubled(*this); }
  friend CZK_FN QuadPoint operator+(const QuadPoint& p, const QuadPoint& q) { return added(p, q); }

 private:
  static CZK_OUTLINED QuadPoint doubled(QuadPoint p) {
    const uint32_t j = place();
    const F u = p.own.dbl();
    const F first = L::select(j == 1, u, p.own);
    const F squares = first.sqr();  // x^2, v = u^2, -, -
    const F xx = at(squares, 0), v = at(squares, 1);
    const F m = xx.dbl() + xx;
    const F second = L::select(j == 3, m, first) * L::select(j == 3, m, v);  // s = x*v, w = u*v, zz*v, m^2
    const F s = at(second, 0), w = at(second, 1), x3 = at(second, 3) - s.dbl();
    const F third = L::select(j == 0, m, p.own) * L::select(j == 0, s - x3, w);  // m*(s - x3), y*w, -, zzz*w
    const F y3 = at(third, 0) - third;
    return {L::select(j == 0, x3, L::select(j == 1, y3, L::select(j == 2, second, third)))};
  }

  static CZK_OUTLINED QuadPoint added(QuadPoint p, QuadPoint q) {
    const uint32_t j = place();
    const bool here_infinite = bit(zero_lanes(p.own), 2);
    const bool there_infinite = bit(zero_lanes(q.own), 2);
    // u1 = x*zz', s1 = y*zzz', u2 = zz*x', s2 = zzz*y'
    const F first = p.own * across(q.own);
    const F opposite = across(first);
    const F difference = L::select(j < 2, opposite, first) - L::select(j < 2, first, opposite);  // p, r, p, r
    const uint32_t zeros = zero_lanes(difference);
    const bool same_x = bit(zeros, 0), same_y = bit(zeros, 1);
    // pp, r^2, zz*zz', zzz*zzz'
    const F second = L::select(j < 2, difference, p.own) * L::select(j < 2, difference, q.own);
    const F pp = at(second, 0), x_step = at(difference, 0);
    // qq = u1*pp, ppp, zz3, ppp
    const F third = L::select(j == 0, first, L::select(j == 2, second, x_step)) * pp;
    const F qq = at(third, 0), ppp = at(third, 1), s1 = at(first, 1);
    const F x3 = second - third - qq.dbl();  // in lane 1
    // s1*ppp, r*(qq - x3), -, zzz3
    const F fourth = L::select(j == 0, s1, L::select(j == 1, difference, second)) * L::select(j == 1, qq - x3, ppp);
    const F y3 = fourth - at(fourth, 0), x3_there = at(x3, 1);
    QuadPoint sum{L::select(j == 0, x3_there, L::select(j == 1, y3, L::select(j == 2, third, fourth)))};
    const bool exceptional = same_x & !here_infinite & !there_infinite;
    if (grid::any_lane(exceptional)) {
      const QuadPoint twice = doubled(p);
      sum.own = L::select(exceptional, L::select(same_y, twice.own, F::zero()), sum.own);
    }
    return {L::select(here_infinite, q.own, L::select(there_infinite, p.own, sum.own))};
  }
};

CZK_END
