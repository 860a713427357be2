// Miller loops of the optimal ate pairing (Vercauteren, Optimal pairings, 2010) for several pairs at once, which share
// the squarings. Steps in homogeneous coordinates: Costello, Lange, Naehrig, Faster pairing computations on curves with
// high-degree twists, 2010, section 5.
//
// A Curve type gives: Tower; kTwist; `times_b3(Fp2)`, the product by three times the twist's coefficient; kLoop, the
// digits (-1, 0, 1) of the loop length below the leading one, most significant first; kNegative, whether the length is
// negative; kFrobeniusSteps, whether two more lines follow (BN curves).
#pragma once
#include <vector>

#include "../curve.cuh"
#include "pairing_tower.hpp"

CZK_BEGIN

// How the twist maps to the curve. D: (x w^2, y w^3). M: (x / w^2, y / w^3); lines are then multiplied by w^3, which
// the final exponentiation takes to 1 as it does every factor of a proper subfield.
enum class Twist { kD, kM };

// The signed digits of a number in non-adjacent form, below the leading one, most significant first.
template <int kLength>
struct SignedDigits {
  int8_t digit[kLength];
  int count;
};
constexpr SignedDigits<128> non_adjacent_form(unsigned __int128 n) {
  int8_t low_first[129] = {};
  int count = 0;
  for (; n != 0; n >>= 1, count++)
    if (n & 1) {
      low_first[count] = n & 2 ? -1 : 1;
      n = n & 2 ? n + 1 : n - 1;
    }
  SignedDigits<128> out{};
  out.count = count - 1;
  for (int i = 0; i < count - 1; i++) out.digit[i] = low_first[count - 2 - i];
  return out;
}

// One pair on its way: the point T on the twist, and the line that the last step left.
template <class Curve>
class PairState {
 public:
  using Tower = typename Curve::Tower;
  using Fp = typename Tower::Fp;
  using E2 = Fp2<Fp>;
  using E12 = Fp12<Tower>;

  PairState(const Affine<Fp>& p, const Affine<E2>& q) : p_(p), q_(q), x_(q.x), y_(q.y), z_(E2::one()) {}

  // T <- 2T; f <- f * (the tangent at T, in P).
  void double_step(E12& f) {
    E2 a = halve(mul(x_, y_)), b = sqr(y_), c = sqr(z_);
    E2 e = Curve::times_b3(c), f3 = e.dbl() + e;
    E2 g = halve(b + f3), h = sqr(y_ + z_) - (b + c);
    E2 j = sqr(x_), e2 = sqr(e);
    x_ = mul(a, b - f3);
    y_ = sqr(g) - (e2.dbl() + e2);
    z_ = mul(b, h);
    multiply_line(f, h.neg(), j.dbl() + j, e - b);
  }
  // T <- T +- Q; f <- f * (the line through them, in P).
  void add_step(E12& f, int sign) { add_step(f, sign > 0 ? q_ : q_.neg()); }
  // The last steps on a BN curve: the Frobenius images pi(Q) and -pi^2(Q).
  void frobenius_steps(E12& f) {
    const auto& w = FrobeniusFactors<Tower>::get().w;
    Affine<E2> image = {mul(q_.x.conjugate(), w[2]), mul(q_.y.conjugate(), w[3])};
    add_step(f, image);
    image = {mul(image.x.conjugate(), w[2]), mul(image.y.conjugate(), w[3])};
    add_step(f, image.neg());
  }

 private:
  static E2 mul(const E2& a, const E2& b) { return Fp2Products<Fp>::mul(a, b); }
  static E2 sqr(const E2& a) { return Fp2Products<Fp>::sqr(a); }
  static CZK_FN Fp halve(const Fp& a) {
    uint64_t odd = 0 - (a.v[0] & 1), carry = 0;
    Fp s;
    CZK_UNROLL for (int i = 0; i < Fp::N; i++) {
      u128 t = u128(a.v[i]) + (Fp::K.p[i] & odd) + carry;
      s.v[i] = uint64_t(t);
      carry = uint64_t(t >> 64);
    }
    CZK_UNROLL for (int i = 0; i + 1 < Fp::N; i++) s.v[i] = (s.v[i] >> 1) | (s.v[i + 1] << 63);
    s.v[Fp::N - 1] >>= 1;  // p leaves the top bit free
    return s;
  }
  static E2 halve(const E2& a) { return {halve(a.c0), halve(a.c1)}; }

  void add_step(E12& f, const Affine<E2>& q) {
    E2 theta = y_ - mul(q.y, z_), lambda = x_ - mul(q.x, z_);
    E2 c = sqr(theta), d = sqr(lambda);
    E2 e = mul(lambda, d), g = mul(x_, d);
    E2 h = e + mul(z_, c) - g.dbl();
    x_ = mul(lambda, h);
    y_ = mul(theta, g - h) - mul(e, y_);
    z_ = mul(z_, e);
    multiply_line(f, lambda, theta.neg(), mul(theta, q.x) - mul(lambda, q.y));
  }
  // The line, times a factor of Fp2: y_P * along_y + x_P * along_x w + constant w^3 on a D-twist, w^3 times the same
  // with 1/w for w on an M-twist.
  void multiply_line(E12& f, const E2& along_y, const E2& along_x, const E2& constant) const {
    E2 by_y = along_y.scale(p_.y), by_x = along_x.scale(p_.x);
    if constexpr (Curve::kTwist == Twist::kD)
      f = f.times_034(by_y, by_x, constant);
    else
      f = f.times_014(constant, by_x, by_y);
  }

  Affine<Fp> p_;
  Affine<E2> q_;
  E2 x_, y_, z_;  // T: x/z, y/z
};

// The product of the Miller functions of all pairs; none may hold infinity.
template <class Curve>
Fp12<typename Curve::Tower> miller_loop(std::vector<PairState<Curve>>& pairs) {
  using E12 = Fp12<typename Curve::Tower>;
  E12 f = E12::one();
  if (pairs.empty()) return f;
  for (int i = 0; i < Curve::kLoop.count; i++) {
    if (i) f = f.sqr();
    for (auto& pair : pairs) pair.double_step(f);
    if (int digit = Curve::kLoop.digit[i])
      for (auto& pair : pairs) pair.add_step(f, digit);
  }
  if (Curve::kNegative) f = f.conjugate();
  if (Curve::kFrobeniusSteps)
    for (auto& pair : pairs) pair.frobenius_steps(f);
  return f;
}

CZK_END
