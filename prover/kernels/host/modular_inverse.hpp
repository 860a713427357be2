// Inversion modulo an odd number by the divsteps of Bernstein and Yang ("Fast constant-time gcd computation and modular
// inversion", TCHES 2019, sections 8 to 11), in batches of 62 steps on the low words. Variable time: runs of even g are
// taken at once and several steps are cancelled with one multiple of f, as Wuille's note on safegcd describes. About
// 25 times faster than Fermat's exponentiation at 381 bits.
#pragma once
#include "../portable.cuh"

CZK_BEGIN

template <class P>
class ModularInverse {
  static constexpr int kWords = P::kLimbs32 / 2;
  static constexpr int kLimbs = (P::kBits + 2 + 61) / 62;  // signed, 62 bits each, the top one carries the sign
  static constexpr int64_t kMask = (int64_t(1) << 62) - 1;
  using i128 = __int128;

  struct Signed {
    int64_t v[kLimbs];
  };
  // 2^62 * (f, g) after 62 divsteps = matrix * (f, g) before.
  struct Matrix {
    int64_t u, v, q, r;
  };
  struct Constants {
    Signed p;
    uint64_t inverse;  // 1/p mod 2^62
  };

  static constexpr Signed split(const uint64_t (&x)[kWords]) {
    Signed o{};
    for (int i = 0; i < kLimbs; i++) {
      int bit = 62 * i, word = bit / 64, off = bit % 64;
      uint64_t w = word < kWords ? x[word] >> off : 0;
      if (off > 2 && word + 1 < kWords) w |= x[word + 1] << (64 - off);
      o.v[i] = int64_t(w & uint64_t(kMask));
    }
    return o;
  }
  static constexpr Constants derive() {
    Constants c{};
    uint64_t p[kWords] = {};
    for (int i = 0; i < kWords; i++) p[i] = P::kModulus[2 * i] | (uint64_t(P::kModulus[2 * i + 1]) << 32);
    c.p = split(p);
    uint64_t inverse = 1;
    for (int i = 0; i < 6; i++) inverse *= 2 - p[0] * inverse;
    c.inverse = inverse & uint64_t(kMask);
    return c;
  }
  static constexpr Constants K = derive();

  // 62 divsteps on the low words of f (odd) and g; eta = -delta. Every step halves g, after making it even by adding a
  // multiple of f; f and g change places when delta > 0 and g is odd.
  static int64_t divsteps(int64_t eta, uint64_t f, uint64_t g, Matrix& m) {
    uint64_t u = 1, v = 0, q = 0, r = 1;
    int left = 62;
    for (;;) {
      int zeros = __builtin_ctzll(g | (~uint64_t(0) << left));
      g >>= zeros;
      u <<= zeros;
      v <<= zeros;
      eta -= zeros;
      left -= zeros;
      if (left == 0) break;
      uint64_t w;  // the multiple of f that clears as many low bits of g as the next exchange allows
      if (eta < 0) {
        eta = -eta;
        uint64_t t = f;
        f = g, g = 0 - t;
        t = u, u = q, q = 0 - t;
        t = v, v = r, r = 0 - t;
        w = f * g * (f * f - 2) & 63;  // -g/f mod 64, as f*(2 - f^2) = 1/f mod 64
      } else {
        w = (0 - (f + (((f + 1) & 4) << 1)) * g) & 15;  // -g/f mod 16
      }
      int limit = eta + 1 > left ? left : int(eta) + 1;
      w &= ~uint64_t(0) >> (64 - limit);
      g += f * w;
      q += u * w;
      r += v * w;
    }
    m = {int64_t(u), int64_t(v), int64_t(q), int64_t(r)};
    return eta;
  }

  // (f, g) = matrix * (f, g) / 2^62, exact.
  static void update_fg(Signed& f, Signed& g, const Matrix& m, int limbs) {
    i128 cf = i128(m.u) * f.v[0] + i128(m.v) * g.v[0];
    i128 cg = i128(m.q) * f.v[0] + i128(m.r) * g.v[0];
    cf >>= 62;
    cg >>= 62;
    for (int i = 1; i < limbs; i++) {
      cf += i128(m.u) * f.v[i] + i128(m.v) * g.v[i];
      cg += i128(m.q) * f.v[i] + i128(m.r) * g.v[i];
      f.v[i - 1] = int64_t(cf) & kMask;
      g.v[i - 1] = int64_t(cg) & kMask;
      cf >>= 62;
      cg >>= 62;
    }
    f.v[limbs - 1] = int64_t(cf);
    g.v[limbs - 1] = int64_t(cg);
  }

  // (d, e) = matrix * (d, e) / 2^62 mod p; both stay in (-2p, p).
  static void update_de(Signed& d, Signed& e, const Matrix& m) {
    int64_t sd = d.v[kLimbs - 1] >> 63, se = e.v[kLimbs - 1] >> 63;
    int64_t md = (m.u & sd) + (m.v & se), me = (m.q & sd) + (m.r & se);  // multiples of p to add
    i128 cd = i128(m.u) * d.v[0] + i128(m.v) * e.v[0];
    i128 ce = i128(m.q) * d.v[0] + i128(m.r) * e.v[0];
    md -= int64_t((K.inverse * uint64_t(cd) + uint64_t(md)) & uint64_t(kMask));
    me -= int64_t((K.inverse * uint64_t(ce) + uint64_t(me)) & uint64_t(kMask));
    cd += i128(K.p.v[0]) * md;
    ce += i128(K.p.v[0]) * me;
    cd >>= 62;
    ce >>= 62;
    CZK_UNROLL for (int i = 1; i < kLimbs; i++) {
      cd += i128(m.u) * d.v[i] + i128(m.v) * e.v[i] + i128(K.p.v[i]) * md;
      ce += i128(m.q) * d.v[i] + i128(m.r) * e.v[i] + i128(K.p.v[i]) * me;
      d.v[i - 1] = int64_t(cd) & kMask;
      e.v[i - 1] = int64_t(ce) & kMask;
      cd >>= 62;
      ce >>= 62;
    }
    d.v[kLimbs - 1] = int64_t(cd);
    e.v[kLimbs - 1] = int64_t(ce);
  }

  // d*sign from (-2p, p) to [0, p).
  static void reduce(Signed& d, bool negate) {
    for (int pass = 0; pass < 2; pass++) {
      int64_t add = d.v[kLimbs - 1] >> 63, flip = pass == 0 && negate ? -1 : 0, carry = 0;
      for (int i = 0; i < kLimbs; i++) {
        int64_t t = d.v[i] + (K.p.v[i] & add);
        t = ((t ^ flip) - flip) + carry;
        carry = t >> 62;
        d.v[i] = i + 1 < kLimbs ? t & kMask : t;
      }
    }
  }

 public:
  // out = 1/x mod p for x in [0, p), plain integers; zero to zero. out may be x.
  static void invert(const uint64_t (&x)[kWords], uint64_t (&out)[kWords]) {
    Signed f = K.p, g = split(x), d{}, e{};
    e.v[0] = 1;
    int limbs = kLimbs;
    int64_t eta = -1;
    for (;;) {
      Matrix m;
      eta = divsteps(eta, uint64_t(f.v[0]) | uint64_t(f.v[1]) << 62, uint64_t(g.v[0]) | uint64_t(g.v[1]) << 62, m);
      update_de(d, e, m);
      update_fg(f, g, m, limbs);
      int64_t rest = 0;
      for (int i = 0; i < limbs; i++) rest |= g.v[i];
      if (rest == 0) break;
      // Both top limbs only repeat a sign: fold them into the ones below.
      int64_t fn = f.v[limbs - 1], gn = g.v[limbs - 1];
      if (limbs > 2 && (fn ^ (fn >> 63)) == 0 && (gn ^ (gn >> 63)) == 0) {
        f.v[limbs - 2] |= int64_t(uint64_t(fn) << 62);
        g.v[limbs - 2] |= int64_t(uint64_t(gn) << 62);
        limbs--;
      }
    }
    reduce(d, f.v[limbs - 1] < 0);  // f is 1 or -1 (p for x = 0, where d = 0)
    for (int i = 0; i < kWords; i++) out[i] = 0;
    for (int i = 0; i < kLimbs; i++) {
      int bit = 62 * i, word = bit / 64, off = bit % 64;
      if (word < kWords) out[word] |= uint64_t(d.v[i]) << off;
      if (off > 2 && word + 1 < kWords) out[word + 1] |= uint64_t(d.v[i]) >> (64 - off);
    }
  }
};

CZK_END
