// The element-wise operations eight elements at a time, by the 52-bit multiply-add instructions.
#pragma once
#include "ifma_field.hpp"
#include "ifma_words.hpp"
#include "variant.hpp"

CZK_BEGIN

// out = a*b - c for as many eights from `begin` on as fit before `end`; returns where it stopped.
//
// Operands carry the factor 2^256; a product here divides by 2^260. So a*b comes out with 2^252, and a second product
// by 2^264 (by 2^8 for a canonical result) puts that right; c enters the same sum with -2^260 (-2^4).
template <class F>
uint64_t mul_sub_lanes(const void* a, const void* b, const void* c, void* out, uint64_t begin, uint64_t end,
                       bool canonical) {
  using Lanes = IfmaField<typename F::Params>;
  auto load = [](const void* base, uint64_t i) {
    WordLimbs words = load_words(at(base, i, F::kBytes));
    Lanes x;
    CZK_UNROLL for (int j = 0; j < Lanes::N; j++) x.v[0][j] = words.limb[j];
    return x;
  };
  F one = F::zero();
  one.v[0] = 1;
  auto power_of_two = [&](int exponent) {
    F x = one;
    while (exponent--) x = x.dbl();
    return x;
  };
  auto broadcast = [](const F& x) { return Lanes::set(Lanes::Constants::split(x.v, F::N)); };
  Lanes for_product = broadcast(power_of_two(canonical ? 8 : 264));
  Lanes for_c = broadcast(power_of_two(canonical ? 4 : 260).neg());
  uint64_t i = begin;
  for (; i + 8 <= end; i += 8) {
    Lanes product = load(a, i) * load(b, i), subtrahend = load(c, i);
    const typename Lanes::Factor x[2] = {product.factor(), subtrahend.factor()};
    const typename Lanes::Factor y[2] = {for_product.factor(), for_c.factor()};
    Lanes result = Lanes::template sum_of_products_raw<2>(x, y).normalised().template reduce_once<1>();
    WordLimbs words;
    CZK_UNROLL for (int j = 0; j < Lanes::N; j++) words.limb[j] = result.v[0][j];
    pack_words(words, at(out, i, F::kBytes));
  }
  return i;
}

CZK_END
