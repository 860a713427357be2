// Elements of a prime field in AVX-512 IFMA: one element a 64-bit lane, radix 2^52, one vector a limb; W groups of eight
// lanes. Only for the `ifma` variant: the instructions fault elsewhere.
//
// Representation. A value is any integer congruent to the element; limbs are below 2^52 ("normalised") wherever an
// operand is multiplied. Nothing is reduced to [0, p) unless `canonical` is called: every function states its bounds in
// multiples of p. The Montgomery radix is R = 2^(52N), which leaves 35 spare bits for BLS12-381 Fp (N = 8) and 5.1, 6.4,
// 6.4 for BLS12-381 Fr, BN254 Fp and Fr (N = 5); kSlack is R/p rounded down.
//
// Cost of a product in 52-bit multiply-adds, for eight lanes: 2N^2 for a*b and N(2N+1) for the reduction, 264 (N = 8) or
// 105 (N = 5), of which a core with the unit on ports 0 and 5 starts two a cycle. One product alone waits for its own
// carries (measured on Sapphire Rapids: 170 cycles, 192 in a chain; N = 5: 77 and 106); with W = 2 two are interleaved
// and the ports are nearly full (161 cycles each, in a chain too; N = 5: 69).
#pragma once
#include <immintrin.h>

#include <utility>

#include "host_field.hpp"

CZK_BEGIN

using Vec = __m512i;
#define CZK_LAMBDA __attribute__((always_inline))

// fn(0), ..., fn(n - 1), and fn(0, 0), fn(0, 1), ..., with compile-time arguments: unrolled before the compiler decides
// which vectors live in registers. A loop is unrolled after that, and every vector of a limb array goes through memory.
template <class Fn, int... i>
CZK_FN void each_of(Fn&& fn, std::integer_sequence<int, i...>) {
  (fn(std::integral_constant<int, i>{}), ...);
}
template <int n, class Fn>
CZK_FN void each(Fn&& fn) {
  each_of(fn, std::make_integer_sequence<int, n>{});
}
template <int m, int n, class Fn>
CZK_FN void each(Fn&& fn) {
  each<m>([&](auto i) CZK_LAMBDA { each<n>([&](auto j) CZK_LAMBDA { fn(i, j); }); });
}

CZK_FN Vec vec_set(uint64_t x) { return _mm512_set1_epi64(int64_t(x)); }
CZK_FN Vec vec_zero() { return _mm512_setzero_si512(); }
CZK_FN Vec madd_lo(Vec acc, Vec a, Vec b) { return _mm512_madd52lo_epu64(acc, a, b); }
CZK_FN Vec madd_hi(Vec acc, Vec a, Vec b) { return _mm512_madd52hi_epu64(acc, a, b); }
// The same with the second factor read from memory by the instruction itself, as a vector or one word for all lanes:
// left to itself the compiler keeps such factors in registers and spills the accumulators.
CZK_FN Vec madd_lo_mem(Vec acc, Vec a, const Vec& b) {
  __asm__("vpmadd52luq %2, %1, %0" : "+v"(acc) : "v"(a), "m"(b));
  return acc;
}
CZK_FN Vec madd_hi_mem(Vec acc, Vec a, const Vec& b) {
  __asm__("vpmadd52huq %2, %1, %0" : "+v"(acc) : "v"(a), "m"(b));
  return acc;
}
CZK_FN Vec madd_lo_all(Vec acc, Vec a, const uint64_t& b) {
  __asm__("vpmadd52luq %2%{1to8%}, %1, %0" : "+v"(acc) : "v"(a), "m"(b));
  return acc;
}
CZK_FN Vec madd_hi_all(Vec acc, Vec a, const uint64_t& b) {
  __asm__("vpmadd52huq %2%{1to8%}, %1, %0" : "+v"(acc) : "v"(a), "m"(b));
  return acc;
}

// Limbs in radix 2^52 and constants of the representation.
template <class P>
struct IfmaConstants {
  using Host = HostField<P>;
  static constexpr int N = (P::kBits + 5 + 51) / 52;
  static constexpr uint64_t kMask = (uint64_t(1) << 52) - 1;

  struct Limbs {
    uint64_t v[N];
  };
  Limbs multiple[9];   // k*p
  uint64_t n0;         // -1/p mod 2^52
  Limbs one;           // R mod p: one
  Limbs r2;            // R^2 mod p: times a canonical integer gives Montgomery form
  Limbs r3;            // R^3 mod p: times 1/(x*R) gives 1/x
  Limbs from_host;     // R^2/Rhost mod p: times x*Rhost gives x*R, for HostField's Rhost = 2^(64*Host::N)
  Limbs to_host;       // Rhost mod p: times x*R gives x*Rhost
  int slack;           // floor(R/p), saturated

  static constexpr Limbs split(const uint64_t* x, int words) {
    Limbs o{};
    for (int i = 0; i < N; i++) {
      int bit = 52 * i, word = bit / 64, off = bit % 64;
      uint64_t w = word < words ? x[word] >> off : 0;
      if (off > 12 && word + 1 < words) w |= x[word + 1] << (64 - off);
      o.v[i] = w & kMask;
    }
    return o;
  }

  static constexpr IfmaConstants derive() {
    IfmaConstants c{};
    constexpr int M = Host::N;
    uint64_t p[M + 1] = {}, sum[M + 1] = {};
    for (int i = 0; i < M; i++) p[i] = Host::K.p[i];
    for (int k = 0; k < 9; k++) {
      c.multiple[k] = split(sum, M + 1);
      uint64_t carry = 0;
      for (int i = 0; i <= M; i++) {
        u128 s = u128(sum[i]) + p[i] + carry;
        sum[i] = uint64_t(s);
        carry = uint64_t(s >> 64);
      }
    }
    c.n0 = Host::K.n0 & kMask;
    uint64_t x[M] = {1};
    for (int step = 1; step <= 156 * N; step++) {  // x = 2^step mod p
      uint64_t carry = 0, d[M] = {}, s[M] = {}, borrow = 0;
      for (int i = 0; i < M; i++) {
        d[i] = (x[i] << 1) | carry;
        carry = x[i] >> 63;
      }
      for (int i = 0; i < M; i++) {
        u128 t = u128(d[i]) - p[i] - borrow;
        s[i] = uint64_t(t);
        borrow = uint64_t(t >> 64) & 1;
      }
      bool reduce = carry || !borrow;
      for (int i = 0; i < M; i++) x[i] = reduce ? s[i] : d[i];
      if (step == 52 * N) c.one = split(x, M);
      if (step == 104 * N) c.r2 = split(x, M);
      if (step == 156 * N) c.r3 = split(x, M);
      if (step == 104 * N - 64 * M) c.from_host = split(x, M);
      if (step == 64 * M) c.to_host = split(x, M);
    }
    int top = P::kBits - 20, spare = 52 * N - P::kBits;
    uint64_t lead = p[top / 64] >> (top % 64);
    if (top % 64 > 44) lead |= p[top / 64 + 1] << (64 - top % 64);
    lead = (lead & 0xfffff) + 1;  // p < lead * 2^top
    c.slack = int(((uint64_t(1) << (20 + (spare > 20 ? 20 : spare))) - 1) / lead);
    return c;
  }
};

// A canonical value's limbs in 64-bit words.
template <class P>
inline void ifma_join(const typename IfmaConstants<P>::Limbs& x, uint64_t (&words)[HostField<P>::N]) {
  constexpr int M = HostField<P>::N;
  for (uint64_t& w : words) w = 0;
  for (int i = 0; i < IfmaConstants<P>::N; i++) {
    const int bit = 52 * i, word = bit / 64, off = bit % 64;
    if (word < M) words[word] |= x.v[i] << off;
    if (off > 12 && word + 1 < M) words[word + 1] |= x.v[i] >> (64 - off);
  }
}

template <class P, int W = 1>
struct IfmaField {
  using Params = P;
  using Host = HostField<P>;
  using Constants = IfmaConstants<P>;
  using Limbs = typename Constants::Limbs;
  using Mask = uint32_t;  // bit 8w + l: lane l of group w
  static constexpr Constants K = Constants::derive();
  static constexpr int N = Constants::N;
  static constexpr int kLanes = 8 * W;
  static constexpr int kSlack = K.slack;
  static constexpr Mask kAll = (Mask(1) << kLanes) - 1;

  Vec v[W][N];

  static CZK_FN Vec limb(const Limbs& x, int i) { return vec_set(x.v[i]); }

  static CZK_FN IfmaField set(const Limbs& x) {
    IfmaField o;
    each<W, N>([&](auto w, auto i) CZK_LAMBDA { o.v[w][i] = limb(x, i); });
    return o;
  }
  static CZK_FN IfmaField zero() { return set(Limbs{}); }
  static CZK_FN IfmaField one() { return set(K.one); }

  // --- lanes ---
  CZK_FN IfmaField<P, 1> group(int w) const {
    IfmaField<P, 1> o;
    each<N>([&](auto i) CZK_LAMBDA { o.v[0][i] = v[w][i]; });
    return o;
  }
  static CZK_FN IfmaField pair(const IfmaField<P, 1>& a, const IfmaField<P, 1>& b) {
    static_assert(W == 2);
    IfmaField o;
    each<N>([&](auto i) CZK_LAMBDA { o.v[0][i] = a.v[0][i], o.v[1][i] = b.v[0][i]; });
    return o;
  }
  // The lanes of `mask` from a, the others from b.
  static CZK_FN IfmaField select(Mask mask, const IfmaField& a, const IfmaField& b) {
    IfmaField o;
    each<W, N>([&](auto w, auto i) CZK_LAMBDA {
      o.v[w][i] = _mm512_mask_mov_epi64(b.v[w][i], __mmask8(mask >> (8 * w)), a.v[w][i]);
    });
    return o;
  }
  // One lane's limbs; the value need not be canonical.
  CZK_FN Limbs lane(int l) const {
    Limbs o;
    for (int i = 0; i < N; i++) std::memcpy(&o.v[i], reinterpret_cast<const char*>(&v[l / 8][i]) + 8 * (l % 8), 8);
    return o;
  }
  CZK_FN void set_lane(int l, const Limbs& x) {
    for (int i = 0; i < N; i++) std::memcpy(reinterpret_cast<char*>(&v[l / 8][i]) + 8 * (l % 8), &x.v[i], 8);
  }

  // --- carries ---
  // The carries of signed limbs; the value must be in [0, R).
  CZK_FN IfmaField normalised() const {
    IfmaField o;
    const Vec mask = vec_set(Constants::kMask);
    each<W>([&](auto w) CZK_LAMBDA {
      Vec x = v[w][0];
      each<N - 1>([&](auto i) CZK_LAMBDA {
        o.v[w][i] = _mm512_and_si512(x, mask);
        x = _mm512_add_epi64(v[w][i + 1], _mm512_srai_epi64(x, 52));
      });
      o.v[w][N - 1] = x;
    });
    return o;
  }
  // Limb by limb, the carries left in place.
  static CZK_FN IfmaField add_raw(const IfmaField& a, const IfmaField& b) {
    IfmaField o;
    each<W, N>([&](auto w, auto i) CZK_LAMBDA { o.v[w][i] = _mm512_add_epi64(a.v[w][i], b.v[w][i]); });
    return o;
  }
  static CZK_FN IfmaField sub_raw(const IfmaField& a, const IfmaField& b) {
    IfmaField o;
    each<W, N>([&](auto w, auto i) CZK_LAMBDA { o.v[w][i] = _mm512_sub_epi64(a.v[w][i], b.v[w][i]); });
    return o;
  }
  // this + k*p in the lanes of `mask` (k may be negative).
  template <int k>
  CZK_FN IfmaField plus_p_raw(Mask mask = kAll) const {
    IfmaField o;
    each<W, N>([&](auto w, auto i) CZK_LAMBDA {
      const Vec kp = limb(K.multiple[k < 0 ? -k : k], i);
      const __mmask8 m = __mmask8(mask >> (8 * w));
      o.v[w][i] = k < 0 ? _mm512_mask_sub_epi64(v[w][i], m, v[w][i], kp) : _mm512_mask_add_epi64(v[w][i], m, v[w][i], kp);
    });
    return o;
  }

  // --- sums ---
  // a + b, normalised: the bounds add up.
  friend CZK_FN IfmaField operator+(const IfmaField& a, const IfmaField& b) { return add_raw(a, b).normalised(); }
  // a - b + k*p, normalised, for b <= a + k*p.
  template <int k>
  static CZK_FN IfmaField sub(const IfmaField& a, const IfmaField& b) {
    return sub_raw(a, b).template plus_p_raw<k>().normalised();
  }
  // this - k*p in the lanes where that is not negative: from [0, m*p) to [0, max(k, m-k)*p). Exact.
  template <int k>
  CZK_FN IfmaField reduce_once() const {
    IfmaField d = plus_p_raw<-k>().normalised();
    each<W>([&](auto w) CZK_LAMBDA {
      const __mmask8 negative = _mm512_movepi64_mask(d.v[w][N - 1]);
      each<N>([&](auto i) CZK_LAMBDA { d.v[w][i] = _mm512_mask_mov_epi64(d.v[w][i], negative, v[w][i]); });
    });
    return d;
  }
  // The representative in [0, p) of a value below 8p.
  CZK_FN IfmaField canonical() const {
    return reduce_once<4>().template reduce_once<2>().template reduce_once<1>();
  }
  // Lanes whose limbs are all zero (after canonical(): whose element is zero).
  CZK_FN Mask zero_limbs() const {
    Mask mask = 0;
    each<W>([&](auto w) CZK_LAMBDA {
      Vec any = v[w][0];
      each<N - 1>([&](auto i) CZK_LAMBDA { any = _mm512_or_si512(any, v[w][i + 1]); });
      mask |= Mask(_mm512_testn_epi64_mask(any, any)) << (8 * w);
    });
    return mask;
  }

  // --- products ---
  // One factor of a sum of products: for each group the vectors of a limb array.
  struct Factor {
    const Vec* v[W];
  };
  CZK_FN Factor factor() const {
    Factor o;
    each<W>([&](auto w) CZK_LAMBDA { o.v[w] = v[w]; });
    return o;
  }

  // (a[0]*b[0] + ... + a[T-1]*b[T-1]) / R, value below (sum of A*B / kSlack + 1) p for a < A*p, b < B*p. Limbs are
  // normalised, or raw: below 2^58 and not negative, for another sum. The result may overwrite a factor.
  template <int T>
  CZK_FN void set_sum_of_products(const Factor (&a)[T], const Factor (&b)[T]) {
    if constexpr (kOutlined)
      outlined<T, true>(a, b, *this);
    else
      *this = inlined<T>(a, b).normalised();
  }
  template <int T>
  CZK_FN void set_sum_of_products_raw(const Factor (&a)[T], const Factor (&b)[T]) {
    if constexpr (kOutlined)
      outlined<T, false>(a, b, *this);
    else
      *this = inlined<T>(a, b);
  }
  template <int T>
  static CZK_FN IfmaField sum_of_products(const Factor (&a)[T], const Factor (&b)[T]) {
    IfmaField o;
    o.template set_sum_of_products<T>(a, b);
    return o;
  }
  template <int T>
  static CZK_FN IfmaField sum_of_products_raw(const Factor (&a)[T], const Factor (&b)[T]) {
    IfmaField o;
    o.template set_sum_of_products_raw<T>(a, b);
    return o;
  }

  // Montgomery product a*b/R, normalised, below (A*B/kSlack + 1)p.
  friend CZK_FN IfmaField operator*(const IfmaField& a, const IfmaField& b) {
    IfmaField o;
    o.set_product(a, b);
    return o;
  }
  // The same in place, where a copy of the result would cost a store and a load for every limb.
  CZK_FN void set_product(const IfmaField& a, const IfmaField& b) {
    const Factor x[1] = {a.factor()}, y[1] = {b.factor()};
    set_sum_of_products<1>(x, y);
  }
  CZK_FN IfmaField sqr() const { return *this * *this; }

 private:
  // A product of two groups of eight limbs is 700 instructions and 6 kB: a loop of five inlined ones would not fit the
  // first-level instruction cache.
  static constexpr bool kOutlined = N >= 8;

  template <int T, bool normalise>
  static __attribute__((noinline)) void outlined(const Factor (&a)[T], const Factor (&b)[T], IfmaField& o) {
    if constexpr (normalise)
      o = inlined<T>(a, b).normalised();
    else
      o = inlined<T>(a, b);
  }

  // Where the instruction reads a factor: with eight limbs there are too few registers for the accumulators and factors.
  static CZK_FN Vec low(Vec acc, Vec a, const Vec& b) {
    return kOutlined ? madd_lo_mem(acc, a, b) : madd_lo(acc, a, b);
  }
  static CZK_FN Vec high(Vec acc, Vec a, const Vec& b) {
    return kOutlined ? madd_hi_mem(acc, a, b) : madd_hi(acc, a, b);
  }
  static CZK_FN Vec low(Vec acc, Vec a, const uint64_t& b) {
    return kOutlined ? madd_lo_all(acc, a, b) : madd_lo(acc, a, vec_set(b));
  }
  static CZK_FN Vec high(Vec acc, Vec a, const uint64_t& b) {
    return kOutlined ? madd_hi_all(acc, a, b) : madd_hi(acc, a, vec_set(b));
  }

  // Row i of the products' low halves, into the accumulators from limb `shift` on.
  template <int T, int i, int shift>
  static CZK_FN void low_halves(Vec (&t)[W][N + 1], const Factor (&a)[T], const Factor (&b)[T]) {
    if constexpr (i < N)
      each<T, N>([&](auto k, auto j) CZK_LAMBDA {
        each<W>([&](auto w) CZK_LAMBDA { t[w][j + shift] = low(t[w][j + shift], a[k].v[w][i], b[k].v[w][j]); });
      });
  }

  // Operand scanning with the reduction interleaved; carries between limbs wait in the 12 spare bits of the accumulators.
  template <int T>
  static CZK_FN IfmaField inlined(const Factor (&a)[T], const Factor (&b)[T]) {
    // The next row's low halves do not wait for m: they go before it where registers are left, else after.
    constexpr bool kLate = W * N > 12;
    Vec t[W][N + 1], m[W];
    each<W, N + 1>([&](auto w, auto j) CZK_LAMBDA { t[w][j] = vec_zero(); });
    low_halves<T, 0, 0>(t, a, b);
    each<N>([&](auto i) CZK_LAMBDA {
      each<W>([&](auto w) CZK_LAMBDA { m[w] = low(vec_zero(), t[w][0], K.n0); });
      each<T, N>([&](auto k, auto j) CZK_LAMBDA {
        each<W>([&](auto w) CZK_LAMBDA { t[w][j + 1] = high(t[w][j + 1], a[k].v[w][i], b[k].v[w][j]); });
      });
      if constexpr (!kLate) low_halves<T, i + 1, 1>(t, a, b);
      each<N, W>([&](auto j, auto w) CZK_LAMBDA { t[w][j] = low(t[w][j], m[w], K.multiple[1].v[j]); });
      each<N, W>([&](auto j, auto w) CZK_LAMBDA { t[w][j + 1] = high(t[w][j + 1], m[w], K.multiple[1].v[j]); });
      each<W>([&](auto w) CZK_LAMBDA {
        t[w][1] = _mm512_add_epi64(t[w][1], _mm512_srli_epi64(t[w][0], 52));
        each<N>([&](auto j) CZK_LAMBDA { t[w][j] = t[w][j + 1]; });
        t[w][N] = vec_zero();
      });
      if constexpr (kLate) low_halves<T, i + 1, 0>(t, a, b);
    });
    IfmaField o;
    each<W, N>([&](auto w, auto j) CZK_LAMBDA { o.v[w][j] = t[w][j]; });
    return o;
  }
};

CZK_END
