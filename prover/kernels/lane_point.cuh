// Points in XYZZ coordinates, all four in the lanes of one element: one lane in G1, two in G2. For work that fills the GPU;
// where there is less, quad.cuh spreads a point wider. All functions are met by whole warps.
#pragma once
#include "coordinates.cuh"

CZK_BEGIN

template <class F>
struct LanePoint {
  using L = Layout<F>;
  static constexpr uint32_t kLanes = L::kLanes;
  static constexpr uint32_t kWords = 4 * L::kWords;
  Xyzz<F> p;

  static CZK_FN LanePoint infinity() { return {{F::zero(), F::zero(), F::zero(), F::zero()}}; }
  static CZK_FN LanePoint load(const uint32_t* source) { return {load_xyzz<F>(source)}; }
  CZK_FN void store(uint32_t* target) const { store_xyzz(target, p); }

  // The formulas of curve.cuh; where that of the addition does not hold, its result is not taken.
  CZK_FN void add(const LanePoint& other) {
    const Xyzz<F>& q = other.p;
    const bool here_infinite = L::is_zero(p.zz), there_infinite = L::is_zero(q.zz);
    const F u1 = p.x * q.zz, s1 = p.y * q.zzz;
    const F step = q.x * p.zz - u1, r = q.y * p.zzz - s1;
    const bool exceptional = L::is_zero(step) & !here_infinite & !there_infinite;
    const F pp = step.sqr(), ppp = step * pp, qq = u1 * pp;
    const F x3 = r.sqr() - ppp - qq.dbl();
    Xyzz<F> sum{x3, F::product_difference(r, qq - x3, s1, ppp), p.zz * q.zz * pp, p.zzz * q.zzz * ppp};
    if (grid::any_lane(exceptional)) {
      const bool same_y = L::is_zero(r);
      const Xyzz<F> doubled = twice(p);
      sum.x = L::select(exceptional & same_y, doubled.x, sum.x);
      sum.y = L::select(exceptional & same_y, doubled.y, sum.y);
      sum.zz = L::select(exceptional, L::select(same_y, doubled.zz, F::zero()), sum.zz);
      sum.zzz = L::select(exceptional, L::select(same_y, doubled.zzz, F::zero()), sum.zzz);
    }
    p.x = choose(here_infinite, there_infinite, q.x, p.x, sum.x);
    p.y = choose(here_infinite, there_infinite, q.y, p.y, sum.y);
    p.zz = choose(here_infinite, there_infinite, q.zz, p.zz, sum.zz);
    p.zzz = choose(here_infinite, there_infinite, q.zzz, p.zzz, sum.zzz);
  }

 private:
  static CZK_FN F choose(bool here_infinite, bool there_infinite, const F& there, const F& here, const F& sum) {
    return L::select(here_infinite, there, L::select(there_infinite, here, sum));
  }
};

CZK_END
