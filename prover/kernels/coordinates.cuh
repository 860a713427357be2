// Coordinates of points on the GPU: where they lie in memory, and how lanes of a warp share them.
//
// In memory an element of Fp is its limbs and one of Fp2 its coefficients c0, c1; a point is its coordinates one after
// another. An element of Fp lies in one lane, one of Fp2 in two neighbouring lanes, a coefficient each: that takes the same
// registers and the same code as Fp, at the price of exchanges. Functions over SplitFp2 are met by whole warps.
#pragma once
#include "curve.cuh"
#include "field.cuh"
#include "grid.cuh"

CZK_BEGIN

// An element of Fp2 over two lanes: c0 in the even one, c1 in the odd one.
template <class F>
struct SplitFp2 {
  using Base = F;
  F own;

  static CZK_FN bool odd() { return grid::lane() & 1; }
  CZK_FN F other() const {
    F o;
    grid::words_from_lane(o.v, own.v, F::N, grid::lane() ^ 1);
    return o;
  }
  static CZK_FN SplitFp2 zero() { return {F::zero()}; }
  static CZK_FN SplitFp2 one() { return {odd() ? F::zero() : F::one()}; }
  friend CZK_FN SplitFp2 operator+(const SplitFp2& a, const SplitFp2& b) { return {a.own + b.own}; }
  friend CZK_FN SplitFp2 operator-(const SplitFp2& a, const SplitFp2& b) { return {a.own - b.own}; }
  CZK_FN SplitFp2 neg() const { return {own.neg()}; }
  CZK_FN SplitFp2 dbl() const { return {own.dbl()}; }
  // Even: a0*b0 - a1*b1. Odd: a0*b1 + a1*b0. Two products and one reduction in each lane.
  friend CZK_FN SplitFp2 operator*(const SplitFp2& a, const SplitFp2& b) {
    const F a_other = a.other(), b_other = b.other();
    const F a0 = select(odd(), a_other, a.own), a1 = select(odd(), a.own, a_other.neg());
    return {F::product_sum(a0, b.own, a1, b_other)};
  }
  // Even: (a0 + a1) * (a0 - a1). Odd: (a1 + a1) * a0.
  CZK_FN SplitFp2 sqr() const {
    const F there = other();
    return {(own + select(odd(), own, there)) * select(odd(), there, own - there)};
  }
  static CZK_FN SplitFp2 product_difference(const SplitFp2& a, const SplitFp2& b, const SplitFp2& c, const SplitFp2& d) {
    return a * b - c * d;
  }

  static CZK_FN F select(bool first, const F& a, const F& b) {
    F o;
    CZK_UNROLL for (int i = 0; i < F::N; i++) o.v[i] = first ? a.v[i] : b.v[i];
    return o;
  }
};

// The coordinates of points of the module's group, over its base field.
#if CZK_GROUP == 1
template <class F>
using CoordinateOver = F;
#else
template <class F>
using CoordinateOver = SplitFp2<F>;
#endif

// How an element lies in lanes and memory: kLanes lanes hold it, kWords 32-bit words store it. Called is the same element
// with products that are calls, for code that hardly ever runs.
template <class F>
struct Layout;

template <class P, MulForm kForm>
struct Layout<Field<P, kForm>> {
  using F = Field<P, kForm>;
  static constexpr uint32_t kLanes = 1, kWords = F::N;
  static CZK_FN F load(const uint32_t* source) {
    F f;
    load_words<F::N>(f.v, source);
    return f;
  }
  static CZK_FN void store(uint32_t* target, const F& f) { store_words<F::N>(target, f.v); }
  static CZK_FN F from_lane(const F& f, uint32_t source) {
    F o;
    grid::words_from_lane(o.v, f.v, F::N, source);
    return o;
  }
  static CZK_FN F select(bool first, const F& a, const F& b) {
    F o;
    CZK_UNROLL for (int i = 0; i < F::N; i++) o.v[i] = first ? a.v[i] : b.v[i];
    return o;
  }
  // Whether the element is zero: in all its lanes.
  static CZK_FN bool is_zero(const F& f) { return f.is_zero(); }

  using Called = Field<P, MulForm::kOutlined>;
  static CZK_FN Called called(const F& f) {
    Called o;
    CZK_UNROLL for (int i = 0; i < F::N; i++) o.v[i] = f.v[i];
    return o;
  }
  static CZK_FN F uncalled(const Called& f) {
    F o;
    CZK_UNROLL for (int i = 0; i < F::N; i++) o.v[i] = f.v[i];
    return o;
  }
};

template <class B>
struct Layout<SplitFp2<B>> {
  using F = SplitFp2<B>;
  using L = Layout<B>;
  static constexpr uint32_t kLanes = 2, kWords = 2 * B::N;
  static CZK_FN uint32_t mine() { return F::odd() ? B::N : 0; }
  static CZK_FN F load(const uint32_t* source) { return {L::load(source + mine())}; }
  static CZK_FN void store(uint32_t* target, const F& f) { L::store(target + mine(), f.own); }
  static CZK_FN F from_lane(const F& f, uint32_t source) { return {L::from_lane(f.own, source)}; }
  static CZK_FN F select(bool first, const F& a, const F& b) { return {L::select(first, a.own, b.own)}; }
  static CZK_FN bool is_zero(const F& f) {
    const uint32_t zeros = grid::lanes_that(f.own.is_zero());
    return (zeros >> (grid::lane() & 30) & 3) == 3;
  }

  using Called = SplitFp2<typename L::Called>;
  static CZK_FN Called called(const F& f) { return {L::called(f.own)}; }
  static CZK_FN F uncalled(const Called& f) { return {L::uncalled(f.own)}; }
};

// 2q, for the rare case that two points which are to be added are equal: its products are calls.
template <class F>
CZK_FN Xyzz<F> twice(const Xyzz<F>& q) {
  using L = Layout<F>;
  using C = typename L::Called;
  const C x = L::called(q.x), y = L::called(q.y), u = y.dbl(), v = u.sqr(), w = u * v, s = x * v, xx = x.sqr();
  const C m = xx.dbl() + xx, x3 = m.sqr() - s.dbl();
  return {L::uncalled(x3), L::uncalled(C::product_difference(m, s - x3, w, y)), L::uncalled(v * L::called(q.zz)),
          L::uncalled(w * L::called(q.zzz))};
}

template <class F>
CZK_FN Affine<F> load_affine(const uint32_t* source) {
  using L = Layout<F>;
  return {L::load(source), L::load(source + L::kWords)};
}
template <class F>
CZK_FN Xyzz<F> load_xyzz(const uint32_t* source) {
  using L = Layout<F>;
  return {L::load(source), L::load(source + L::kWords), L::load(source + 2 * L::kWords), L::load(source + 3 * L::kWords)};
}
template <class F>
CZK_FN void store_xyzz(uint32_t* target, const Xyzz<F>& p) {
  using L = Layout<F>;
  L::store(target, p.x);
  L::store(target + L::kWords, p.y);
  L::store(target + 2 * L::kWords, p.zz);
  L::store(target + 3 * L::kWords, p.zzz);
}

CZK_END
