// Affine additions in batches that share one field inversion (Montgomery's trick): 5 products and a square each, with
// every exceptional case.
#pragma once
#include "msm_lanes.hpp"

CZK_BEGIN
namespace msm {

template <class V>
class BatchAdder {
  using Norm = typename V::Norm;
  using Mask = typename V::Mask;
  static constexpr bool kNormIsOwn = sizeof(Norm) != sizeof(V);  // the norm is not the denominator itself

  // A vector with a lane that is not the sum of two different points: it keeps what the second pass needs.
  struct Exception {
    uint32_t group;
    Mask tangent, keep, take, vanish;  // double; leave as it is; becomes the operand; becomes infinity
    V x2, difference;
  };

 public:
  // Memory of a batch: accumulators 2 coordinates, denominators and y of the operands 1 each, prefix products: in a
  // second-level cache of 1 or 2 MiB, with room left for the points that are fetched ahead.
  static constexpr uint32_t kGroups = std::max<uint32_t>(16, 128 * 1024 / sizeof(V));

  BatchAdder() : denominator_(kGroups), y_(kGroups), prefix_(kGroups), norm_(kNormIsOwn ? kGroups : 0) {}

  // accumulator(g) += the points that operand(g, q) puts into q, in the lanes whose mask it returns, for
  // g < groups <= kGroups. The accumulators must be distinct. meanwhile(g) is called in the second pass, which leaves
  // the memory idle.
  template <class Accumulator, class Operand, class Meanwhile>
  void add(uint32_t groups, Accumulator&& accumulator, Operand&& operand, Meanwhile&& meanwhile) {
    exceptions_.clear();
    Norm product = Norm::one();
    for (uint32_t g = 0; g < groups; g++) {
      const Lanes<V>& a = accumulator(g);
      Lanes<V> q;
      const Mask active = operand(g, q);
      V d = V::difference(q.x, a.x);
      if (__builtin_expect((d.maybe_zero() | V::maybe_infinite(a) | V::maybe_infinite(q)) != 0 || active != V::kAll, 0))
        d = except(g, a, q, active, d);
      denominator_[g] = d;
      y_[g] = q.y;
      Norm n = d.norm();
      if constexpr (kNormIsOwn) norm_[g] = n;
      prefix_[g] = product;
      product = product * n;
    }
    Norm inverse = product.inverse();
    for (uint32_t g = groups; g-- > 0;) {
      meanwhile(g);
      Lanes<V>& a = accumulator(g);
      const V d = denominator_[g];
      Norm factor;
      if constexpr (kNormIsOwn)
        factor = norm_[g];
      else
        factor = d.norm();
      const Norm inverse_norm = Norm::peel(inverse, prefix_[g], factor);
      if (__builtin_expect(!exceptions_.empty() && exceptions_.back().group == g, 0)) {
        finish(exceptions_.back(), a, d, inverse_norm);
        exceptions_.pop_back();
        continue;
      }
      const V slope = V::quotient(V::difference(y_[g], a.y), d, inverse_norm);
      const V x3 = V::next_x(slope, a.x, d);
      a.y = V::next_y(slope, a.x, x3, a.y);
      a.x = x3;
    }
  }

 private:
  // Sorts the lanes out; the denominator with the tangents' and, where nothing is divided, ones.
  __attribute__((noinline)) V except(uint32_t g, const Lanes<V>& a, Lanes<V>& q, Mask active, const V& d) {
    q.y = q.y.normalised();
    Exception e{g, 0, 0, 0, 0, q.x, d};
    const Mask a_infinite = V::is_infinite(a), q_infinite = V::is_infinite(q) & active;
    e.keep = (V::kAll & ~active) | q_infinite;
    e.take = a_infinite & ~e.keep;
    const Mask same_x = d.is_zero() & ~(e.keep | e.take);
    // A point of order two (y = 0) would be its own opposite; doubled it vanishes as well.
    e.tangent = same_x & V::difference(q.y, a.y).is_zero() & ~V::difference(a.y, V::zero()).is_zero();
    e.vanish = same_x & ~e.tangent;
    exceptions_.push_back(e);
    return V::select(e.tangent, a.y.doubled(), V::select(e.keep | e.take | e.vanish, V::one(), d));
  }

  __attribute__((noinline)) void finish(const Exception& e, Lanes<V>& a, const V& d, const Norm& inverse_norm) {
    const uint32_t g = e.group;
    const V rise = V::select(e.tangent, a.x.tripled_square(), V::difference(y_[g], a.y));
    const V slope = V::quotient(rise, d, inverse_norm);
    V x3 = V::next_x(slope, a.x, e.difference);
    V y3 = V::next_y(slope, a.x, x3, a.y);
    x3 = V::select(e.take, e.x2, V::select(e.keep, a.x, V::select(e.vanish, V::zero(), x3)));
    y3 = V::select(e.take, y_[g], V::select(e.keep, a.y, V::select(e.vanish, V::zero(), y3)));
    a = {x3, y3};
  }

  Recycled<V> denominator_, y_;
  Recycled<Norm> prefix_, norm_;
  std::vector<Exception> exceptions_;
};

}  // namespace msm
CZK_END
