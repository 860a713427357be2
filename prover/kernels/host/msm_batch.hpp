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
  static constexpr bool kNormIsOwn = !std::is_same_v<Norm, V>;  // not the denominator itself

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

  BatchAdder() : denominator_(kGroups), y_(kGroups), prefix_(kGroups + 1), norm_(kNormIsOwn ? kGroups : 0) {}

  // accumulator(g) += the points whose coordinates operand(g, x, y) puts into x and y, in the lanes whose mask it
  // returns, for g < groups <= kGroups. The accumulators must be distinct. meanwhile(g) is called in the second pass,
  // which leaves the memory idle.
  template <class Accumulator, class Operand, class Meanwhile>
  void add(uint32_t groups, Accumulator&& accumulator, Operand&& operand, Meanwhile&& meanwhile) {
    exceptions_.clear();
    prefix_[0] = Norm::one();
    for (uint32_t g = 0; g < groups; g++) {
      const Lanes<V>& a = accumulator(g);
      V x;
      const Mask active = operand(g, x, y_[g]);
      V& d = denominator_[g];
      d = V::difference(x, a.x);
      const Mask odd = d.maybe_zero() | V::maybe_infinite(a.x, a.y) | V::maybe_infinite(x, y_[g]) | (active ^ V::kAll);
      if (__builtin_expect(odd != 0, 0)) except(g, a, x, active);
      if constexpr (kNormIsOwn) norm_[g] = d.norm();
      prefix_[g + 1].set_product(prefix_[g], factor(g));
    }
    Norm inverse = prefix_[groups].inverse();
    for (uint32_t g = groups; g-- > 0;) {
      meanwhile(g);
      Lanes<V>& a = accumulator(g);
      const V& d = denominator_[g];
      Norm own;
      Norm::peel(inverse, prefix_[g], factor(g), own);
      if (__builtin_expect(!exceptions_.empty() && exceptions_.back().group == g, 0)) {
        finish(exceptions_.back(), a, own);
        exceptions_.pop_back();
        continue;
      }
      V::third_point(V::quotient(V::difference(y_[g], a.y), d, own), d, a);
    }
  }

 private:
  CZK_FN const Norm& factor(uint32_t g) const {
    if constexpr (kNormIsOwn)
      return norm_[g];
    else
      return denominator_[g];
  }

  // Sorts the lanes out; denominators become the tangents', and one where nothing is divided.
  __attribute__((noinline)) void except(uint32_t g, const Lanes<V>& a, const V& x, Mask active) {
    V &d = denominator_[g], &y = y_[g];
    y = y.normalised();
    Exception e{g, 0, 0, 0, 0, x, d};
    const Mask infinite = V::is_infinite(a.x, a.y);
    e.keep = (V::kAll & ~active) | V::is_infinite(x, y);
    e.take = infinite & ~e.keep;
    const Mask same_x = d.is_zero() & ~(e.keep | e.take);
    // A point of order two (y = 0) would be its own opposite; doubled it vanishes as well.
    e.tangent = same_x & V::difference(y, a.y).is_zero() & ~V::difference(a.y, V::zero()).is_zero();
    e.vanish = same_x & ~e.tangent;
    exceptions_.push_back(e);
    d = V::select(e.tangent, a.y.doubled(), V::select(e.keep | e.take | e.vanish, V::one(), d));
  }

  __attribute__((noinline)) void finish(const Exception& e, Lanes<V>& a, const Norm& own) {
    const V &d = denominator_[e.group], &y = y_[e.group];
    const V rise = V::select(e.tangent, a.x.tripled_square(), V::difference(y, a.y));
    Lanes<V> sum = a;
    V::third_point(V::quotient(rise, d, own), e.difference, sum);
    a.x = V::select(e.take, e.x2, V::select(e.keep, a.x, V::select(e.vanish, V::zero(), sum.x)));
    a.y = V::select(e.take, y, V::select(e.keep, a.y, V::select(e.vanish, V::zero(), sum.y)));
  }

  Recycled<V> denominator_, y_;
  Recycled<Norm> prefix_, norm_;
  std::vector<Exception> exceptions_;
};

// Additions of vectors that lie in memory. One instance a group for all that needs no fetching ahead: a BatchAdder::add
// is a second or two of compiling.
template <class V>
class PairAdder {
 public:
  static constexpr uint32_t kPairs = BatchAdder<V>::kGroups;
  struct Pair {
    Lanes<V>* sum;
    const Lanes<V>* addend;
  };

  // *sum += *addend for count <= kPairs pairs, whose sums must be distinct. In lane_sums.cpp.
  void add(const Pair* pairs, uint32_t count);

 private:
  BatchAdder<V> adder_;
};

}  // namespace msm
CZK_END
