// Eight transforms side by side in AVX-512 registers: elements in five limbs of 52 bits, one lane each, products by the
// 52-bit multiply-add instructions (IFMA). Same interface as ScalarLanes (ntt_lanes.hpp).
//
// Ranges. An element is any value below 2^260 = 35.3 p (BLS12-381) or 84.6 p (BN254); its limbs may exceed 52 bits or
// be negative, and `carried` settles that where a product or a store needs it. A product by a constant lies below 2p,
// its limbs below 2^57. The block transform calls radix4<true> and radix4<false> in alternation, radix4<true> before
// the last levels, so that neither values nor limbs outgrow their room:
//   in below 2p -> radix4<false> -> below 8p, limbs below 2^59 -> radix4<true> -> below 2p -> last levels -> below 8p.
#pragma once
#include <immintrin.h>

#include "host_field.hpp"
#include "ifma_words.hpp"

CZK_BEGIN

template <class F>
struct IfmaLanes {
  using Field = F;
  static constexpr int kLanes = 8;
  static constexpr int M = 5;  // limbs
  static constexpr uint64_t kMask = (uint64_t(1) << 52) - 1;
  static_assert(F::N == 4, "five limbs of 52 bits hold four of 64");

  struct alignas(64) Block {
    uint64_t limb[M][kLanes];
  };
  // A factor w of all lanes, with floor(w * 2^260 / p).
  struct Constant {
    uint64_t w[M], quotient[M];
  };
  using Factors = WordLimbs;
  using V = WordLimbs;

 private:
  // k*p and 2^260 - p, in limbs.
  struct Limbs {
    uint64_t v[M];
  };
  static constexpr Limbs split(const uint64_t (&x)[5]) {
    Limbs out{};
    for (int i = 0; i < M; i++) {
      int bit = 52 * i, word = bit / 64, offset = bit % 64;
      uint64_t value = x[word] >> offset;
      if (offset > 12) value |= x[word + 1] << (64 - offset);
      out.v[i] = value & kMask;
    }
    return out;
  }
  static constexpr Limbs multiple(uint64_t k) {
    uint64_t x[5] = {};
    u128 carry = 0;
    for (int i = 0; i < 4; i++) {
      carry += u128(F::K.p[i]) * k;
      x[i] = uint64_t(carry);
      carry >>= 64;
    }
    x[4] = uint64_t(carry);
    return split(x);
  }
  static constexpr Limbs complement() {
    Limbs out = multiple(1);
    uint64_t carry = 1;
    for (int i = 0; i < M; i++) {
      uint64_t s = (~out.v[i] & kMask) + carry;
      out.v[i] = s & kMask;
      carry = s >> 52;
    }
    return out;
  }
  template <int k>
  static constexpr Limbs kMultiple = multiple(k);
  static constexpr Limbs kMinusP = complement();
  static constexpr uint64_t kMinusInverse = F::K.n0 & kMask;  // -1/p mod 2^52
  // 2^(51 + bits of p's top limb) over that limb plus 1: what the top limb of a value is multiplied by to estimate
  // value / p.
  static constexpr int kTopBits = F::kBits - 52 * (M - 1);
  static constexpr uint64_t kReciprocal = uint64_t((u128(1) << (51 + kTopBits)) / (multiple(1).v[M - 1] + 1));
  static_assert(kReciprocal < (uint64_t(1) << 52));

  static CZK_FN __m512i all(uint64_t x) { return _mm512_set1_epi64(int64_t(x)); }
  static CZK_FN __m512i mask() { return all(kMask); }
  static CZK_FN __m512i lo(__m512i c, __m512i a, __m512i b) { return _mm512_madd52lo_epu64(c, a, b); }
  static CZK_FN __m512i hi(__m512i c, __m512i a, __m512i b) { return _mm512_madd52hi_epu64(c, a, b); }

  static CZK_FN V load_lanes(const char* src, uint64_t stride) {
    return __builtin_constant_p(stride) && stride == F::kBytes ? load_words(src) : load_words(src, stride);
  }
  static CZK_FN V read(const Block& b) {
    V x;
    CZK_UNROLL for (int i = 0; i < M; i++) x.limb[i] = _mm512_load_si512(b.limb[i]);
    return x;
  }
  static CZK_FN void write(Block& b, const V& x) {
    CZK_UNROLL for (int i = 0; i < M; i++) _mm512_store_si512(b.limb[i], x.limb[i]);
  }

  static CZK_FN V add(const V& a, const V& b) {
    V s;
    CZK_UNROLL for (int i = 0; i < M; i++) s.limb[i] = _mm512_add_epi64(a.limb[i], b.limb[i]);
    return s;
  }
  // a - b + k*p, k*p an upper bound of b.
  template <int k>
  static CZK_FN V sub(const V& a, const V& b) {
    V d;
    CZK_UNROLL for (int i = 0; i < M; i++)
      d.limb[i] = _mm512_add_epi64(_mm512_sub_epi64(a.limb[i], b.limb[i]), all(kMultiple<k>.v[i]));
    return d;
  }
  // Moves what exceeds 52 bits, or is missing, to the next limb. The instructions that multiply read 52 bits only, so
  // for an operand of theirs the limbs need no masking.
  template <bool kMasked>
  static CZK_FN V carried(const V& x) {
    V out;
    __m512i carry = x.limb[0];
    CZK_UNROLL for (int i = 0; i < M; i++) {
      out.limb[i] = kMasked ? _mm512_and_si512(carry, mask()) : carry;
      if (i + 1 < M) carry = _mm512_add_epi64(x.limb[i + 1], _mm512_srai_epi64(carry, 52));
    }
    return out;
  }

  // The value modulo 2^260 of limbs whose carries wait, known to be small once those are added: then the top limb,
  // without them, is small too, and may be negative. So its 52 bits are taken as a signed number.
  static CZK_FN V modulo_260(V x) {
    x.limb[M - 1] = _mm512_srai_epi64(_mm512_slli_epi64(x.limb[M - 1], 12), 12);
    return x;
  }

  // x times a constant w modulo p, below 2p (Shoup's trick; Harvey, Faster arithmetic for number-theoretic transforms,
  // 2014). q = floor(x * quotient / 2^260) is short of x*w/p by less than 2: by x/2^260 < 1 for the constant's rounding
  // and by less than 1 + 2^-40 here, where products below limb 4 are left out. x*w - q*p is then below 2p (the sum is
  // 2^-40 short of 2 since x stays below 35p), and only its 260 lowest bits need computing.
  static CZK_FN V times(const V& x_in, const Constant& k) {
    V x = carried<false>(x_in);
    __m512i q[M + 1];  // limbs 4 .. 9
    CZK_UNROLL for (int i = 0; i <= M; i++) q[i] = _mm512_setzero_si512();
    CZK_UNROLL for (int i = 0; i < M; i++) {
      CZK_UNROLL for (int j = 0; j < M; j++) {
        if (i + j >= 4) q[i + j - 4] = lo(q[i + j - 4], x.limb[i], all(k.quotient[j]));
        if (i + j >= 3) q[i + j - 3] = hi(q[i + j - 3], x.limb[i], all(k.quotient[j]));
      }
    }
    V r;
    CZK_UNROLL for (int i = 0; i < M; i++) r.limb[i] = _mm512_setzero_si512();
    CZK_UNROLL for (int i = 0; i < M; i++) {
      CZK_UNROLL for (int j = 0; i + j < M; j++) {
        r.limb[i + j] = lo(r.limb[i + j], x.limb[i], all(k.w[j]));
        if (i + j + 1 < M) r.limb[i + j + 1] = hi(r.limb[i + j + 1], x.limb[i], all(k.w[j]));
      }
    }
    CZK_UNROLL for (int i = 0; i < M; i++) q[i + 1] = _mm512_add_epi64(q[i + 1], _mm512_srli_epi64(q[i], 52));
    CZK_UNROLL for (int i = 0; i < M; i++) {
      CZK_UNROLL for (int j = 0; i + j < M; j++) {
        r.limb[i + j] = lo(r.limb[i + j], q[i + 1], all(kMinusP.v[j]));
        if (i + j + 1 < M) r.limb[i + j + 1] = hi(r.limb[i + j + 1], q[i + 1], all(kMinusP.v[j]));
      }
    }
    return modulo_260(r);
  }

  // a * b / 2^260 modulo p (Montgomery), for a*b below 2^260 * p and carried operands; below 2p, carries waiting.
  static CZK_FN V montgomery(const V& a, const V& b) {
    __m512i t[2 * M];
    CZK_UNROLL for (int i = 0; i < 2 * M; i++) t[i] = _mm512_setzero_si512();
    CZK_UNROLL for (int i = 0; i < M; i++) {
      CZK_UNROLL for (int j = 0; j < M; j++) {
        t[i + j] = lo(t[i + j], a.limb[i], b.limb[j]);
        t[i + j + 1] = hi(t[i + j + 1], a.limb[i], b.limb[j]);
      }
    }
    CZK_UNROLL for (int i = 0; i < M; i++) {
      __m512i m = lo(_mm512_setzero_si512(), t[i], all(kMinusInverse));
      CZK_UNROLL for (int j = 0; j < M; j++) {
        t[i + j] = lo(t[i + j], m, all(kMultiple<1>.v[j]));
        t[i + j + 1] = hi(t[i + j + 1], m, all(kMultiple<1>.v[j]));
      }
      t[i + 1] = _mm512_add_epi64(t[i + 1], _mm512_srli_epi64(t[i], 52));
    }
    V r;
    CZK_UNROLL for (int i = 0; i < M; i++) r.limb[i] = t[M + i];
    return r;
  }

  // The same value modulo p, below p * (1 + 2^-38), for a value below 35p: the estimate of value / p from the top limb
  // is never too large, and too small by at most 1.
  static CZK_FN V reduced(const V& x_in) {
    V x = carried<true>(x_in);
    __m512i q = _mm512_srli_epi64(hi(_mm512_setzero_si512(), x.limb[4], all(kReciprocal)), kTopBits - 1);
    CZK_UNROLL for (int i = 0; i < M; i++) {
      x.limb[i] = lo(x.limb[i], q, all(kMinusP.v[i]));
      if (i + 1 < M) x.limb[i + 1] = hi(x.limb[i + 1], q, all(kMinusP.v[i]));
    }
    return modulo_260(x);
  }
  // Below p and carried, for a value below 2p.
  static CZK_FN V canonical(const V& x_in) {
    V x = carried<true>(x_in), d;
    CZK_UNROLL for (int i = 0; i < M; i++) d.limb[i] = _mm512_sub_epi64(x.limb[i], all(kMultiple<1>.v[i]));
    d = carried<true>(d);
    __mmask8 below = _mm512_test_epi64_mask(d.limb[4], all(uint64_t(1) << 51));
    CZK_UNROLL for (int i = 0; i < M; i++) d.limb[i] = _mm512_mask_mov_epi64(d.limb[i], below, x.limb[i]);
    return d;
  }

 public:
  // The element times 2^260 instead of 2^256.
  static F factor(const F& x) { return x.dbl().dbl().dbl().dbl(); }

  // quotient = (w * 2^260 - (w * 2^260 mod p)) / p: an exact division, so computed modulo 2^260.
  static Constant constant(const F& x) {
    F w = x.from_montgomery(), remainder = factor(x);
    uint64_t wide_w[5] = {}, wide_remainder[5] = {};
    std::memcpy(wide_w, w.v, F::kBytes);
    std::memcpy(wide_remainder, remainder.v, F::kBytes);
    Limbs limbs = split(wide_w), r = split(wide_remainder), p = kMultiple<1>;
    Constant out;
    for (int i = 0; i < M; i++) out.w[i] = limbs.v[i];
    // q * p + remainder = 0 modulo 2^260, limb by limb.
    u128 t[M];
    for (int i = 0; i < M; i++) t[i] = r.v[i];
    for (int i = 0; i < M; i++) {
      uint64_t q = (uint64_t(t[i]) * kMinusInverse) & kMask;
      out.quotient[i] = q;
      for (int j = 0; i + j < M; j++) t[i + j] += u128(q) * p.v[j];
      if (i + 1 < M) t[i + 1] += t[i] >> 52;
    }
    return out;
  }

  static CZK_FN void load(Block& b, const char* src, uint64_t stride) { write(b, load_lanes(src, stride)); }
  static CZK_FN void load_scaled(Block& b, const char* src, uint64_t stride, const Constant& k) {
    write(b, times(load_lanes(src, stride), k));
  }
  static CZK_FN void store(const Block& b, char* dst) { pack_words(canonical(reduced(read(b))), dst); }
  static CZK_FN void store_scaled(const Block& b, const Constant& k, char* dst) {
    pack_words(canonical(times(read(b), k)), dst);
  }

  static CZK_FN Factors load_factors(const F* src) { return load_words(src); }
  static CZK_FN void multiply(Factors& f, const Factors& by) { f = carried<false>(montgomery(f, by)); }
  // Below p * (1 + 8 * 2 / 35): four words hold it unreduced.
  static CZK_FN void store_twisted(const Block& b, const Factors& f, char* dst) {
    pack_words(carried<true>(montgomery(carried<false>(read(b)), f)), dst);
  }

  template <bool kReduce>
  static CZK_FN void radix4(Block* x, uint64_t h, const Constant* w, const Constant& i) {
    Pairs<kReduce> v(x, h);
    write(x[0], settled<kReduce>(add(v.s0, v.s1)));
    write(x[h], times(sub<2 * kBound<kReduce>>(v.s0, v.s1), w[0]));
    V t = times(v.d1, i);
    write(x[2 * h], times(add(v.d0, t), w[1]));
    write(x[3 * h], times(sub<2>(v.d0, t), w[2]));
  }
  template <bool kReduce>
  static CZK_FN void radix4_plain(Block* x, uint64_t h, const Constant& i) {
    Pairs<kReduce> v(x, h);
    write(x[0], settled<kReduce>(add(v.s0, v.s1)));
    write(x[h], settled<kReduce>(sub<2 * kBound<kReduce>>(v.s0, v.s1)));
    V t = times(v.d1, i);
    write(x[2 * h], settled<kReduce>(add(v.d0, t)));
    write(x[3 * h], settled<kReduce>(sub<2>(v.d0, t)));
  }
  static CZK_FN void radix2_plain(Block* x) {
    V a = read(x[0]), b = read(x[1]);
    write(x[0], add(a, b));
    write(x[1], sub<2>(a, b));
  }

 private:
  // What the inputs of radix4 are below, in p.
  template <bool kReduce>
  static constexpr int kBound = kReduce ? 8 : 2;
  template <bool kReduce>
  static CZK_FN V settled(const V& x) {
    return kReduce ? reduced(x) : x;
  }
  // The sums and differences of the first of radix4's two levels.
  template <bool kReduce>
  struct Pairs {
    V s0, s1, d0, d1;
    CZK_FN Pairs(const Block* x, uint64_t h) {
      V a = read(x[0]), c = read(x[2 * h]);
      s0 = add(a, c), d0 = sub<kBound<kReduce>>(a, c);
      V b = read(x[h]), d = read(x[3 * h]);
      s1 = add(b, d), d1 = sub<kBound<kReduce>>(b, d);
    }
  };
};

CZK_END
