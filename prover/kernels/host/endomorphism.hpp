// What the curves' endomorphisms need, computed once from params.cuh: b of both groups, phi on G1, psi on G2, and the
// subgroup tests that rest on them.
//
// phi(x, y) = (beta x, y), beta^3 = 1. psi = twist^-1 . Frobenius . twist: (conj(x) c^2, conj(y) c^3) with
// c^6 = xi^(+-(p-1)); it satisfies psi^2 - t psi + p = 0 and acts as multiplication by p on the subgroup of order r.
#pragma once
#include "variant.hpp"

CZK_BEGIN

// A small integer in Montgomery form.
template <class Fp>
Fp small_integer(uint64_t value) {
  Fp x{};
  x.v[0] = value;
  return x.to_montgomery();
}

// base^((p - 1)/divisor); the divisor must divide p - 1.
template <class F, class Fp>
F power_of_p_minus_1_over(const F& base, uint64_t divisor) {
  uint64_t e[Fp::N], remainder = 0;
  for (int i = Fp::N - 1; i >= 0; i--) {
    u128 t = (u128(remainder) << 64) | (Fp::K.p[i] - (i == 0));
    e[i] = uint64_t(t / divisor);
    remainder = uint64_t(t % divisor);
  }
  F acc = F::one();
  for (int i = 64 * Fp::N - 1; i >= 0; i--) {
    acc = acc.sqr();
    if ((e[i / 64] >> (i % 64)) & 1) acc = acc * base;
  }
  return acc;
}

// |x| * p for the curve parameter x: 63 doublings and few additions.
template <class C, class F>
Xyzz<F> times_x(const Xyzz<F>& p) {
  Xyzz<F> acc = p;
  for (int i = 62 - __builtin_clzll(C::Params::kX); i >= 0; i--) {
    acc = acc.dbl();
    if ((C::Params::kX >> i) & 1) acc.add(p);
  }
  return acc;
}

template <class F>
bool same_point(const Xyzz<F>& a, const Xyzz<F>& b) {
  if (a.is_infinity() || b.is_infinity()) return a.is_infinity() == b.is_infinity();
  return a.x * b.zz == b.x * a.zz && a.y * b.zzz == b.y * a.zzz;
}

template <class C>
struct CurveConstants {
  using Fp = typename C::Fp;
  using F2 = Fp2<Fp>;
  Fp b;
  F2 b2;
  Fp beta;  // BLS12: phi acts on G1 as -x^2
  F2 psi_x, psi_y;

  static const CurveConstants& get() {
    static const CurveConstants constants;
    return constants;
  }

  template <int G>
  const auto& coefficient() const {
    if constexpr (G == 1)
      return b;
    else
      return b2;
  }
  Xyzz<F2> psi(const Xyzz<F2>& p) const {
    return {p.x.conjugate() * psi_x, p.y.conjugate() * psi_y, p.zz.conjugate(), p.zzz.conjugate()};
  }

 private:
  CurveConstants() {
    using P = typename C::Params;
    b = small_integer<Fp>(P::kB);
    F2 xi{small_integer<Fp>(P::kXi), Fp::one()};
    F2 xi_or_inverse = P::kTwistMultiplies ? xi : xi.inverse();
    b2 = xi_or_inverse.scale(b);
    F2 c = P::kTwistMultiplies ? xi.inverse() : xi;
    psi_x = power_of_p_minus_1_over<F2, Fp>(c, 3);
    psi_y = power_of_p_minus_1_over<F2, Fp>(c, 2);
    beta = cube_root();
  }

  // The primitive cube root of one for which phi(G) = [-x^2]G; the other one if this is not a BLS12 curve's affair.
  static Fp cube_root() {
    Fp root = Fp::one();
    for (uint64_t base = 2; root == Fp::one(); base++) root = power_of_p_minus_1_over<Fp, Fp>(small_integer<Fp>(base), 3);
    Fp gx, gy;
    for (int i = 0; i < Fp::N; i++) {
      gx.v[i] = C::Params::kG1X[2 * i] | (uint64_t(C::Params::kG1X[2 * i + 1]) << 32);
      gy.v[i] = C::Params::kG1Y[2 * i] | (uint64_t(C::Params::kG1Y[2 * i + 1]) << 32);
    }
    Affine<Fp> g{gx.to_montgomery(), gy.to_montgomery()};
    auto x2g = times_x<C>(times_x<C>(Xyzz<Fp>::from_affine(g))).neg();
    Affine<Fp> image{g.x * root, g.y};
    return same_point(x2g, Xyzz<Fp>::from_affine(image)) ? root : root.sqr();
  }
};

template <class G>
bool is_on_curve(const typename G::Point& p) {
  if (p.is_infinity()) return true;
  return p.y.sqr() == p.x.sqr() * p.x + CurveConstants<typename G::Curve>::get().template coefficient<G::kGroup>();
}

// Whether a point of the curve lies in the subgroup of order r. Each test is exact:
// - BN254 G1: the whole curve has order r.
// - BLS12-381 G1: phi(P) = [-x^2]P. phi^2 + phi + 1 = 0 gives [x^4 - x^2 + 1]P = 0, and that number is r.
// - BLS12-381 G2: psi(P) = [x]P (Scott, "A note on group membership tests", 2021). psi^2 - t psi + p = 0 with
//   t = x + 1 gives [p - x]P = 0; p - x = r (x-1)^2/3, and its greatest common divisor with the curve's order is r.
// - BN254 G2: psi(P) = [6x^2]P. 6x^2 = t - 1 gives [p + 1 - t]P = 0, and that number is r.
// The converses hold because psi acts on G2 as p, which is x or 6x^2 modulo r.
template <class G>
bool is_in_subgroup(const Xyzz<typename G::F>& p) {
  using C = typename G::Curve;
  const auto& k = CurveConstants<C>::get();
  constexpr bool kBls = std::is_same_v<C, Bls12381>;
  if constexpr (G::kGroup == 1 && !kBls) {
    return true;
  } else if constexpr (G::kGroup == 1) {
    return same_point(times_x<C>(times_x<C>(p)).neg(), Xyzz<typename G::F>{p.x * k.beta, p.y, p.zz, p.zzz});
  } else if constexpr (kBls) {
    return same_point(times_x<C>(p).neg(), k.psi(p));
  } else {
    auto p2 = p.dbl(), p6 = p2.dbl();
    p6.add(p2);
    return same_point(times_x<C>(times_x<C>(p6)), k.psi(p));
  }
}

CZK_END
