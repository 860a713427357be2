// Final exponentiations: f -> f^(m (p^12 - 1) / r), m a small number prime to r that makes the hard part cheap.
#pragma once
#include "pairing_miller.hpp"

CZK_BEGIN

// f^x for f in the cyclotomic subgroup; digits of |x| in non-adjacent form.
template <class Tower>
Fp12<Tower> cyclotomic_power(const Fp12<Tower>& f, const SignedDigits<128>& x, bool negative) {
  Fp12<Tower> inverse = f.conjugate(), power = f;
  for (int i = 0; i < x.count; i++) {
    power = power.cyclotomic_sqr();
    if (x.digit[i] > 0) power = power * f;
    if (x.digit[i] < 0) power = power * inverse;
  }
  return negative ? power.conjugate() : power;
}

// f^((p^6 - 1)(p^2 + 1)), in the cyclotomic subgroup.
template <class Tower>
Fp12<Tower> easy_part(const Fp12<Tower>& f) {
  Fp12<Tower> t = f.conjugate() * f.inverse();
  return t.frobenius().frobenius() * t;
}

// m = 3: 3 (p^4 - p^2 + 1) / r = (x-1)^2 (x+p) (x^2 + p^2 - 1) + 3 (Hayashida, Hayasaka, Teruya, Efficient final
// exponentiation via cyclotomic structure for pairings over families of elliptic curves, 2020).
template <class Curve>
Fp12<typename Curve::Tower> hard_part_bls(const Fp12<typename Curve::Tower>& f) {
  auto power_x = [](const auto& g) { return cyclotomic_power(g, Curve::kX, Curve::kNegative); };
  auto t = power_x(f) * f.conjugate();
  t = power_x(t) * t.conjugate();
  t = power_x(t) * t.frobenius();
  t = power_x(power_x(t)) * t.frobenius().frobenius() * t.conjugate();
  return t * f.cyclotomic_sqr() * f;
}

// m = 2x(6x^2 + 3x + 1): the hard part times m is, with a = 12x^3 + 6x^2 + 6x and b = a - 2x,
// (a + 6x^2 + 1) + b p + a p^2 + (b - 1) p^3 (Fuentes-Castaneda, Knapp, Rodriguez-Henriquez, Faster hashing to G2,
// 2011).
template <class Curve>
Fp12<typename Curve::Tower> hard_part_bn(const Fp12<typename Curve::Tower>& f) {
  auto power_x = [](const auto& g) { return cyclotomic_power(g, Curve::kX, Curve::kNegative); };
  auto f2x = power_x(f).cyclotomic_sqr();
  auto f6x = f2x.cyclotomic_sqr() * f2x;
  auto f6xx = power_x(f6x);
  auto f12xxx = power_x(f6xx.cyclotomic_sqr());
  auto a = f12xxx * f6xx * f6x;
  auto b = a * f2x.conjugate();
  auto p2 = [](const auto& g) { return g.frobenius().frobenius(); };
  return (a * f6xx * f) * b.frobenius() * p2(a) * p2((b * f.conjugate()).frobenius());
}

template <class Curve>
Fp12<typename Curve::Tower> final_exponentiation(const Fp12<typename Curve::Tower>& f) {
  auto easy = easy_part(f);
  if constexpr (Curve::kFrobeniusSteps)
    return hard_part_bn<Curve>(easy);
  else
    return hard_part_bls<Curve>(easy);
}

CZK_END
