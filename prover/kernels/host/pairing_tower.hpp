// The tower over which pairings are computed: Fp2 = Fp[u]/(u^2 + 1), Fp6 = Fp2[v]/(v^3 - xi), Fp12 = Fp6[w]/(w^2 - v).
// Hence w^6 = xi, and an element of Fp12 is also a polynomial in w of degree 5 over Fp2 (`coefficient`).
// Algorithms: Devegili, O hEigeartaigh, Scott, Dahab, Multiplication and squaring on pairing-friendly fields, 2006;
// Granger, Scott, Faster squaring in the cyclotomic subgroup of sixth degree extensions, 2010.
//
// A Tower type names the base field and xi: `Fp`, `times_xi(Fp2)`.
#pragma once
#include "../tower.cuh"
#include "host_field.hpp"

CZK_BEGIN

// Products in Fp2 with one reduction a coordinate: four products in Fp, where Karatsuba's three need sums around them.
template <class Fp>
struct Fp2Products {
  using E = Fp2<Fp>;

  static CZK_OUTLINED E mul(const E& a, const E& b) {
    return {Fp::product_difference(a.c0, b.c0, a.c1, b.c1), Fp::product_sum(a.c0, b.c1, a.c1, b.c0)};
  }
  static CZK_OUTLINED E sqr(const E& a) { return {(a.c0 + a.c1) * (a.c0 - a.c1), a.c0.dbl() * a.c1}; }
};

template <class Tower>
struct Fp6 {
  using Fp = typename Tower::Fp;
  using E2 = Fp2<Fp>;
  E2 c0, c1, c2;

  static CZK_FN E2 mul2(const E2& a, const E2& b) { return Fp2Products<Fp>::mul(a, b); }
  static CZK_FN E2 sqr2(const E2& a) { return Fp2Products<Fp>::sqr(a); }
  static CZK_FN E2 xi(const E2& a) { return Tower::times_xi(a); }

  static Fp6 zero() { return {E2::zero(), E2::zero(), E2::zero()}; }
  static Fp6 one() { return {E2::one(), E2::zero(), E2::zero()}; }
  bool is_zero() const { return c0.is_zero() && c1.is_zero() && c2.is_zero(); }
  bool operator==(const Fp6& o) const { return c0 == o.c0 && c1 == o.c1 && c2 == o.c2; }

  friend Fp6 operator+(const Fp6& a, const Fp6& b) { return {a.c0 + b.c0, a.c1 + b.c1, a.c2 + b.c2}; }
  friend Fp6 operator-(const Fp6& a, const Fp6& b) { return {a.c0 - b.c0, a.c1 - b.c1, a.c2 - b.c2}; }
  Fp6 neg() const { return {c0.neg(), c1.neg(), c2.neg()}; }
  Fp6 times_v() const { return {xi(c2), c0, c1}; }

  // Karatsuba: 6 products in Fp2.
  friend Fp6 operator*(const Fp6& a, const Fp6& b) {
    E2 v0 = mul2(a.c0, b.c0), v1 = mul2(a.c1, b.c1), v2 = mul2(a.c2, b.c2);
    E2 t12 = mul2(a.c1 + a.c2, b.c1 + b.c2) - v1 - v2;
    E2 t01 = mul2(a.c0 + a.c1, b.c0 + b.c1) - v0 - v1;
    E2 t02 = mul2(a.c0 + a.c2, b.c0 + b.c2) - v0 - v2;
    return {v0 + xi(t12), t01 + xi(v2), t02 + v1};
  }
  // By b0 + b1 v: 5 products.
  Fp6 times_01(const E2& b0, const E2& b1) const {
    E2 v0 = mul2(c0, b0), v1 = mul2(c1, b1);
    E2 t12 = mul2(c1 + c2, b1) - v1;
    E2 t01 = mul2(c0 + c1, b0 + b1) - v0 - v1;
    E2 t02 = mul2(c0 + c2, b0) - v0;
    return {v0 + xi(t12), t01, t02 + v1};
  }
  // By b1 v: 3 products.
  Fp6 times_1(const E2& b1) const { return {xi(mul2(c2, b1)), mul2(c0, b1), mul2(c1, b1)}; }
  // By an element of Fp2: 3 products.
  Fp6 times_0(const E2& b0) const { return {mul2(c0, b0), mul2(c1, b0), mul2(c2, b0)}; }

  Fp6 inverse() const {
    E2 t0 = sqr2(c0) - xi(mul2(c1, c2));
    E2 t1 = xi(sqr2(c2)) - mul2(c0, c1);
    E2 t2 = sqr2(c1) - mul2(c0, c2);
    E2 norm = mul2(c0, t0) + xi(mul2(c2, t1) + mul2(c1, t2));
    E2 inv = norm.inverse();
    return {mul2(t0, inv), mul2(t1, inv), mul2(t2, inv)};
  }
};

// xi^(i(p-1)/6) for i = 0 .. 5: what raising to the power p multiplies w^i by. Computed, not listed.
template <class Tower>
struct FrobeniusFactors {
  using Fp = typename Tower::Fp;
  Fp2<Fp> w[6];

  static const FrobeniusFactors& get() {
    static const FrobeniusFactors factors;
    return factors;
  }

 private:
  FrobeniusFactors() {
    uint64_t e[Fp::N], remainder = 0;  // (p-1)/6, by long division from the top
    for (int i = Fp::N - 1; i >= 0; i--) {
      u128 part = (u128(remainder) << 64) | (i ? Fp::K.p[i] : Fp::K.p[i] - 1);
      e[i] = uint64_t(part / 6);
      remainder = uint64_t(part % 6);
    }
    Fp2<Fp> xi = Tower::times_xi(Fp2<Fp>::one()), power = Fp2<Fp>::one();
    for (int i = 64 * Fp::N - 1; i >= 0; i--) {
      power = Fp2Products<Fp>::sqr(power);
      if (e[i / 64] >> (i % 64) & 1) power = Fp2Products<Fp>::mul(power, xi);
    }
    w[0] = Fp2<Fp>::one();
    for (int i = 1; i < 6; i++) w[i] = Fp2Products<Fp>::mul(w[i - 1], power);
  }
};

template <class Tower>
struct Fp12 {
  using Fp = typename Tower::Fp;
  using E2 = Fp2<Fp>;
  using E6 = Fp6<Tower>;
  E6 c0, c1;

  static Fp12 one() { return {E6::one(), E6::zero()}; }
  bool operator==(const Fp12& o) const { return c0 == o.c0 && c1 == o.c1; }

  // The coefficient of w^i.
  E2& coefficient(int i) {
    E6& half = i % 2 ? c1 : c0;
    return i / 2 == 0 ? half.c0 : i / 2 == 1 ? half.c1 : half.c2;
  }

  friend Fp12 operator*(const Fp12& a, const Fp12& b) {
    E6 v0 = a.c0 * b.c0, v1 = a.c1 * b.c1;
    E6 cross = (a.c0 + a.c1) * (b.c0 + b.c1) - v0 - v1;
    return {v0 + v1.times_v(), cross};
  }
  // Complex squaring: 2 products in Fp6.
  Fp12 sqr() const {
    E6 product = c0 * c1;
    E6 square = (c0 + c1) * (c0 + c1.times_v());
    return {square - product - product.times_v(), product + product};
  }
  // The power p^6; the inverse in the cyclotomic subgroup.
  Fp12 conjugate() const { return {c0, c1.neg()}; }
  Fp12 inverse() const {
    E6 norm = (c0 * c0 - (c1 * c1).times_v()).inverse();
    return {c0 * norm, c1.neg() * norm};
  }
  // The power p.
  Fp12 frobenius() const {
    const auto& factors = FrobeniusFactors<Tower>::get();
    Fp12 out = *this;
    for (int i = 0; i < 6; i++) {
      E2& c = out.coefficient(i);
      c = i ? Fp2Products<Fp>::mul(c.conjugate(), factors.w[i]) : c.conjugate();
    }
    return out;
  }

  // By b0 + b1 v + b4 v w: the lines of a curve with an M-twist.
  Fp12 times_014(const E2& b0, const E2& b1, const E2& b4) const {
    E6 v0 = c0.times_01(b0, b1), v1 = c1.times_1(b4);
    E6 cross = (c0 + c1).times_01(b0, b1 + b4) - v0 - v1;
    return {v0 + v1.times_v(), cross};
  }
  // By b0 + b3 w + b4 v w: the lines of a curve with a D-twist.
  Fp12 times_034(const E2& b0, const E2& b3, const E2& b4) const {
    E6 v0 = c0.times_0(b0), v1 = c1.times_01(b3, b4);
    E6 cross = (c0 + c1).times_01(b0 + b3, b4) - v0 - v1;
    return {v0 + v1.times_v(), cross};
  }

  // Squaring of an element of the cyclotomic subgroup (order p^4 - p^2 + 1): three squarings in
  // Fp4 = Fp2[s]/(s^2 - xi), s = w^3, of (w^0, w^3), (w^1, w^4), (w^2, w^5); then x -> 3 x^2 -+ 2 conj(x).
  Fp12 cyclotomic_sqr() const {
    E2 a0, a1, b0, b1, d0, d1;
    square4(c0.c0, c1.c1, a0, a1);
    square4(c1.c0, c0.c2, b0, b1);
    square4(c0.c1, c1.c2, d0, d1);
    return {{minus(a0, c0.c0), minus(b0, c0.c1), minus(d0, c0.c2)},
            {plus(E6::xi(d1), c1.c0), plus(a1, c1.c1), plus(b1, c1.c2)}};
  }

 private:
  // (x0 + x1 s)^2 = y0 + y1 s
  static void square4(const E2& x0, const E2& x1, E2& y0, E2& y1) {
    E2 s0 = E6::sqr2(x0), s1 = E6::sqr2(x1);
    y1 = E6::sqr2(x0 + x1) - s0 - s1;
    y0 = s0 + E6::xi(s1);
  }
  static E2 minus(const E2& y, const E2& x) { return (y - x).dbl() + y; }  // 3y - 2x
  static E2 plus(const E2& y, const E2& x) { return (y + x).dbl() + y; }   // 3y + 2x
};

CZK_END
