// The coordinates of msm_lanes.hpp in AVX-512 IFMA: sixteen points at once in G1, eight in G2. Either way two vectors a
// limb, whose products interleave: two groups of eight lanes in Fp, the two components of eight lanes in Fp2.
//
// Bounds, in multiples of p: x < 2.3, y <= 3, differences of either at most 6, slopes < 1.1. The smallest kSlack is 84
// (BN254), so no product of operands at most 6, nor a sum of two, reaches 2.
//
// Another radix for nothing. Rows of the interface hold X = x*Rhost, and HostField's radix Rhost is not R = 2^kShift *
// Rhost of the vectors. Read as they are they stand for x/2^kShift = u^2*x with u = 2^(-kShift/2), and (u^2*x, u^3*y) is
// a point of the isomorphic curve Y^2 = X^3 + u^6*b, where additions go the same way since they do not use b. So x is
// copied and y divided by 2^(kShift/2), one short Montgomery step, where a change of radix would take two products; on
// the way back y is multiplied by 2^(kShift/2).
#pragma once
#include <array>

#include "ifma_field.hpp"
#include "msm_lanes.hpp"

CZK_BEGIN
namespace msm {

// --- rows to vectors and back: K words of each of eight rows ---

template <int K>
CZK_FN void gather_rows(const char* const (&row)[8], Vec* out) {
  static_assert(K % 2 == 0);
  const Vec even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  each<K / 4>([&](auto quad) CZK_LAMBDA {
    constexpr int k = 4 * quad;
    auto four = [&](int r) CZK_LAMBDA { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row[r] + 8 * k)); };
    Vec a[4];
    each<4>([&](auto i) CZK_LAMBDA { a[i] = _mm512_inserti64x4(_mm512_castsi256_si512(four(i)), four(i + 4), 1); });
    const Vec low01 = _mm512_unpacklo_epi64(a[0], a[1]), low23 = _mm512_unpacklo_epi64(a[2], a[3]);
    const Vec high01 = _mm512_unpackhi_epi64(a[0], a[1]), high23 = _mm512_unpackhi_epi64(a[2], a[3]);
    out[k] = _mm512_permutex2var_epi64(low01, even, low23);
    out[k + 1] = _mm512_permutex2var_epi64(high01, even, high23);
    out[k + 2] = _mm512_permutex2var_epi64(low01, odd, low23);
    out[k + 3] = _mm512_permutex2var_epi64(high01, odd, high23);
  });
  if constexpr (K % 4 == 2) {
    constexpr int k = K - 2;
    auto two = [&](int r) CZK_LAMBDA { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row[r] + 8 * k)); };
    Vec a[2];
    each<2>([&](auto i) CZK_LAMBDA {
      a[i] = _mm512_castsi128_si512(two(i));
      a[i] = _mm512_inserti64x2(a[i], two(i + 2), 1);
      a[i] = _mm512_inserti64x2(a[i], two(i + 4), 2);
      a[i] = _mm512_inserti64x2(a[i], two(i + 6), 3);
    });
    out[k] = _mm512_unpacklo_epi64(a[0], a[1]);
    out[k + 1] = _mm512_unpackhi_epi64(a[0], a[1]);
  }
}

template <int K>
CZK_FN void scatter_rows(const Vec* in, char* const (&row)[8]) {
  static_assert(K % 2 == 0);
  const Vec front = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), back = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  each<K / 4>([&](auto quad) CZK_LAMBDA {
    constexpr int k = 4 * quad;
    auto store = [&](int r, Vec both) CZK_LAMBDA {  // rows r and r + 2
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row[r] + 8 * k), _mm512_castsi512_si256(both));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row[r + 2] + 8 * k), _mm512_extracti64x4_epi64(both, 1));
    };
    const Vec low01 = _mm512_unpacklo_epi64(in[k], in[k + 1]), low23 = _mm512_unpacklo_epi64(in[k + 2], in[k + 3]);
    const Vec high01 = _mm512_unpackhi_epi64(in[k], in[k + 1]), high23 = _mm512_unpackhi_epi64(in[k + 2], in[k + 3]);
    store(0, _mm512_permutex2var_epi64(low01, front, low23));
    store(1, _mm512_permutex2var_epi64(high01, front, high23));
    store(4, _mm512_permutex2var_epi64(low01, back, low23));
    store(5, _mm512_permutex2var_epi64(high01, back, high23));
  });
  if constexpr (K % 4 == 2) {
    constexpr int k = K - 2;
    each<2>([&](auto i) CZK_LAMBDA {
      const Vec pair = i == 0 ? _mm512_unpacklo_epi64(in[k], in[k + 1]) : _mm512_unpackhi_epi64(in[k], in[k + 1]);
      auto store = [&](int r, __m128i x) CZK_LAMBDA { _mm_storeu_si128(reinterpret_cast<__m128i*>(row[r] + 8 * k), x); };
      store(i, _mm512_castsi512_si128(pair));
      store(i + 2, _mm512_extracti64x2_epi64(pair, 1));
      store(i + 4, _mm512_extracti64x2_epi64(pair, 2));
      store(i + 6, _mm512_extracti64x2_epi64(pair, 3));
    });
  }
}

// --- inversion ---

// Every lane's inverse for one inversion of a single element; no lane may be zero. Below 1.1p for x < 6p.
template <class P>
CZK_OUTLINED IfmaField<P, 1> inverse_of_lanes(const IfmaField<P, 1>& x) {
  using Field = IfmaField<P, 1>;
  auto exchanged = [](const Field& a, int distance) {  // lane l gets lane l ^ distance
    alignas(64) int64_t index[8];
    for (int l = 0; l < 8; l++) index[l] = l ^ distance;
    Field o;
    for (int i = 0; i < Field::N; i++) o.v[0][i] = _mm512_permutexvar_epi64(_mm512_load_si512(index), a.v[0][i]);
    return o;
  };
  const Field of1 = exchanged(x, 1), product2 = x * of1;
  const Field of2 = exchanged(product2, 2), product4 = product2 * of2;
  const Field of4 = exchanged(product4, 4), product8 = product4 * of4;
  const Field others = of1 * of2 * of4;
  const auto limbs = product8.canonical().lane(0);
  uint64_t words[HostField<P>::N];
  ifma_join<P>(limbs, words);
  ModularInverse<P>::invert(words, words);
  // 1/(x*R) times R^3 is (1/x)*R.
  return Field::set(Field::Constants::split(words, HostField<P>::N)) * Field::set(Field::K.r3) * others;
}

// Norms in G2: eight lanes.
template <class P>
struct IfmaNorm {
  using Single = IfmaField<P, 1>;
  using Pair = IfmaField<P, 2>;
  Single f;
  static CZK_FN IfmaNorm one() { return {Single::one()}; }
  CZK_FN void set_product(const IfmaNorm& a, const IfmaNorm& b) { f.set_product(a.f, b.f); }
  // The two products interleave.
  static CZK_FN void peel(IfmaNorm& inverse, const IfmaNorm& prefix, const IfmaNorm& factor, IfmaNorm& own) {
    const typename Pair::Factor x[1] = {{{inverse.f.v[0], inverse.f.v[0]}}}, y[1] = {{{prefix.f.v[0], factor.f.v[0]}}};
    const Pair both = Pair::template sum_of_products<1>(x, y);
    own.f = both.group(0);
    inverse.f = both.group(1);
  }
  IfmaNorm inverse() const { return {inverse_of_lanes<P>(f)}; }
};

// --- coordinates ---

template <class P, int kGroup>
struct IfmaLanes {
  static_assert(kGroup == 1 || kGroup == 2);
  using Pair = IfmaField<P, 2>;
  using Single = IfmaField<P, 1>;
  using Host = HostField<P>;
  using Field = std::conditional_t<kGroup == 1, Host, Fp2<Host>>;
  using Mask = uint32_t;
  using Points = Lanes<IfmaLanes>;
  static constexpr int N = Pair::N;
  static constexpr int kLanes = kGroup == 1 ? 16 : 8;
  static constexpr Mask kAll = (Mask(1) << kLanes) - 1;
  static constexpr int kShift = 52 * N - 64 * Host::N;
  static_assert(kShift % 2 == 0 && kShift > 0);
  static constexpr Costs kCosts = {0.1, 100, 2000};

  Pair f;

  // The mask of a pair's vectors: in G2 a lane has one bit for each component.
  static CZK_FN Mask widen(Mask mask) { return kGroup == 1 ? mask : mask | mask << 8; }
  static CZK_FN Mask narrow(Mask mask) { return kGroup == 1 ? mask : mask & mask >> 8 & 0xff; }

  static CZK_FN IfmaLanes zero() { return {Pair::zero()}; }
  static CZK_FN IfmaLanes one() {
    if constexpr (kGroup == 1)
      return {Pair::one()};
    else
      return {Pair::pair(Single::one(), Single::zero())};
  }
  static CZK_FN IfmaLanes select(Mask mask, const IfmaLanes& a, const IfmaLanes& b) {
    return {Pair::select(widen(mask), a.f, b.f)};
  }
  CZK_FN IfmaLanes normalised() const { return {f.normalised()}; }

  static CZK_FN IfmaLanes difference(const IfmaLanes& a, const IfmaLanes& b) {
    return {Pair::template sub<3>(a.f, b.f)};
  }
  // A multiple k*p with k < 8 times -1/p is -k modulo 2^52: one low product finds the candidates.
  CZK_FN Mask maybe_zero() const {
    const Vec least = vec_set((uint64_t(1) << 52) - 8);
    Mask mask = 0;
    each<2>([&](auto w) CZK_LAMBDA {
      mask |= Mask(_mm512_cmpge_epu64_mask(madd_lo(vec_zero(), f.v[w][0], vec_set(Pair::K.n0)), least)) << (8 * w);
    });
    return narrow(mask);
  }
  Mask is_zero() const { return narrow(f.canonical().zero_limbs()); }
  // Infinity is all zero limbs.
  static CZK_FN Mask maybe_infinite(const IfmaLanes& x, const IfmaLanes& y) {
    Mask mask = 0;
    each<2>([&](auto w) CZK_LAMBDA {
      const Vec any = _mm512_or_si512(x.f.v[w][0], y.f.v[w][0]);
      mask |= Mask(_mm512_testn_epi64_mask(any, any)) << (8 * w);
    });
    return narrow(mask);
  }
  static Mask is_infinite(const IfmaLanes& x, const IfmaLanes& y) {
    return narrow(x.f.zero_limbs() & y.f.zero_limbs());
  }

  using Norm = std::conditional_t<kGroup == 1, IfmaLanes, IfmaNorm<P>>;
  // In G2.
  CZK_FN Norm norm() const {
    const typename Single::Factor x[2] = {{{f.v[0]}}, {{f.v[1]}}};
    return {Single::template sum_of_products<2>(x, x)};
  }
  // In G1, as its own norm.
  CZK_FN void set_product(const IfmaLanes& a, const IfmaLanes& b) { f.set_product(a.f, b.f); }
  static CZK_FN void peel(IfmaLanes& inverse, const IfmaLanes& prefix, const IfmaLanes& factor, IfmaLanes& own) {
    own.f.set_product(inverse.f, prefix.f);
    inverse.f.set_product(inverse.f, factor.f);
  }
  IfmaLanes inverse() const {
    const Single a = f.group(0), b = f.group(1), i = inverse_of_lanes<P>(a * b);
    return {Pair::pair(i * b, i * a)};
  }

  static CZK_FN IfmaLanes quotient(const IfmaLanes& a, const IfmaLanes& d, const Norm& inverse_norm) {
    if constexpr (kGroup == 1) {
      return {a.f * inverse_norm.f};
    } else {
      // a * (d0 - d1*u) = (a0*d0 + a1*d1) + (a1*d0 + a0*(-d1))*u
      const Single minus_d1 = Single::template sub<6>(Single::zero(), d.f.group(1));
      const Factor x[2] = {{{a.f.v[0], a.f.v[1]}}, {{a.f.v[1], a.f.v[0]}}};
      const Factor y[2] = {{{d.f.v[0], d.f.v[0]}}, {{d.f.v[1], minus_d1.v[0]}}};
      Pair t;
      t.template set_sum_of_products<2>(x, y);
      const Factor s[1] = {t.factor()}, i[1] = {{{inverse_norm.f.v[0], inverse_norm.f.v[0]}}};
      t.template set_sum_of_products<1>(s, i);
      return {t};
    }
  }

  // point becomes (x3, y3): x3 = slope^2 - x1 - x2, with x2 = d + x1 - 3p, and y3 = slope*(x1 - x3) - y1.
  //
  // x3 is in (-3.6p, 2.2p) after p is added: a top limb below 4 tells the negative ones, and a few small positive ones,
  // since the limbs below carry at most 2^7 units of it; likewise below -2p. y3 is in (-2p, 2.2p) after p is added.
  static CZK_FN void third_point(const IfmaLanes& slope, const IfmaLanes& d, Points& point) {
    Pair t;
    slope.square_raw(t);
    t = Pair::sub_raw(Pair::sub_raw(t, point.x.f), Pair::add_raw(point.x.f, d.f)).template plus_p_raw<4>();
    const Mask below_0 = top_below(t, 4), below_2p = top_below(t, 4 - int64_t(Pair::K.multiple[2].v[N - 1]));
    const Pair x3 = t.template plus_p_raw<2>(below_0).template plus_p_raw<2>(below_2p).normalised();
    const Pair run = Pair::template sub<3>(point.x.f, x3);
    point.x.f = x3;
    if constexpr (kGroup == 1) {
      const Factor x[1] = {slope.f.factor()}, y[1] = {run.factor()};
      t.template set_sum_of_products_raw<1>(x, y);
    } else {
      const Single minus_s1 = Single::template sub<2>(Single::zero(), slope.f.group(1));
      const Factor x[2] = {slope.f.factor(), {{minus_s1.v[0], slope.f.v[0]}}};
      const Factor y[2] = {{{run.v[0], run.v[0]}}, {{run.v[1], run.v[1]}}};
      t.template set_sum_of_products_raw<2>(x, y);
    }
    t = Pair::sub_raw(t, point.y.f).template plus_p_raw<1>();
    point.y.f = t.template plus_p_raw<2>(top_below(t, 4)).normalised();
  }
  CZK_FN IfmaLanes doubled() const { return {f + f}; }
  IfmaLanes tripled_square() const {
    Pair s;
    square_raw(s);
    return {Pair::add_raw(Pair::add_raw(s, s), s).normalised()};
  }

  // --- memory: rows of 52-bit limbs, x then y, c0 before c1 ---
  static constexpr int kRowWords = 2 * kGroup * N;
  static constexpr uint64_t kRowBytes = 8 * kRowWords;

  template <int write>
  static CZK_FN void prefetch(const char* row) {
    for (uint64_t byte = 0; byte < kRowBytes; byte += 64) __builtin_prefetch(row + byte, write);
    if constexpr (kRowBytes % 64 != 0) __builtin_prefetch(row + kRowBytes - 1, write);
  }
  static CZK_FN void load_rows(const char* const* rows, IfmaLanes& x, IfmaLanes& y) {
    each<kLanes / 8>([&](auto w) CZK_LAMBDA {
      const char* row[8];
      each<8>([&](auto l) CZK_LAMBDA { row[l] = rows[8 * w + l]; });
      Vec column[kRowWords];
      gather_rows<kRowWords>(row, column);
      each<N>([&](auto i) CZK_LAMBDA {
        if constexpr (kGroup == 1) {
          x.f.v[w][i] = column[i], y.f.v[w][i] = column[N + i];
        } else {
          x.f.v[0][i] = column[i], x.f.v[1][i] = column[N + i];
          y.f.v[0][i] = column[2 * N + i], y.f.v[1][i] = column[3 * N + i];
        }
      });
    });
  }
  // entry: 2*number + sign, one a lane. y is left with signed limbs, to be normalised or subtracted from.
  static CZK_FN void gather(const char* table, const uint32_t* entry, IfmaLanes& x, IfmaLanes& y) {
    const char* rows[kLanes];
    Mask sign = 0;
    for (int l = 0; l < kLanes; l++) {
      rows[l] = table + uint64_t(entry[l] >> 1) * kRowBytes;
      sign |= (entry[l] & 1) << l;
    }
    load_rows(rows, x, y);
    sign = widen(sign);
    each<2, N>([&](auto w, auto i) CZK_LAMBDA {
      y.f.v[w][i] = _mm512_mask_sub_epi64(y.f.v[w][i], __mmask8(sign >> (8 * w)), vec_set(Pair::K.multiple[3].v[i]),
                                          y.f.v[w][i]);
    });
  }

  // The images under the endomorphism's power `part` of points of the interface, entries[i]/2 being the number of the
  // i-th, to rows.
  template <class G>
  static void convert(const char* bases, const uint32_t* entries, uint64_t n, int part, char* rows) {
    constexpr int kWords = 2 * kGroup * Host::N;
    for (uint64_t i = 0; i < n; i += 8) {
      const char* from[8];
      char* to[8];
      char surplus[kRowBytes];
      for (uint64_t l = 0; l < 8; l++) {
        from[l] = bases + uint64_t(entries[std::min(i + l, n - 1)] >> 1) * (8 * kWords);
        to[l] = i + l < n ? rows + (i + l) * kRowBytes : surplus;
      }
      Vec words[kWords], limbs[kRowWords];
      gather_rows<kWords>(from, words);
      each<2 * kGroup>([&](auto c) CZK_LAMBDA {
        split_words(words + c * Host::N, limbs + c * N);
        if constexpr (c >= kGroup) shift_y(limbs + c * N);
      });
      if (part > 0) apply_power<G>(limbs, part);
      scatter_rows<kRowWords>(limbs, to);
    }
  }

  static CZK_FN void store_rows(const Points& p, char* const* rows) {
    each<kLanes / 8>([&](auto w) CZK_LAMBDA {
      Vec column[kRowWords];
      each<N>([&](auto i) CZK_LAMBDA {
        if constexpr (kGroup == 1) {
          column[i] = p.x.f.v[w][i], column[N + i] = p.y.f.v[w][i];
        } else {
          column[i] = p.x.f.v[0][i], column[N + i] = p.x.f.v[1][i];
          column[2 * N + i] = p.y.f.v[0][i], column[3 * N + i] = p.y.f.v[1][i];
        }
      });
      char* row[8];
      each<8>([&](auto l) CZK_LAMBDA { row[l] = rows[8 * w + l]; });
      scatter_rows<kRowWords>(column, row);
    });
  }
  static void copy_lane(const Points& from, int l, Points& to, int m) {
    to.x.f.set_lane(m, from.x.f.lane(l));
    to.y.f.set_lane(m, from.y.f.lane(l));
    if constexpr (kGroup == 2) {
      to.x.f.set_lane(m + 8, from.x.f.lane(l + 8));
      to.y.f.set_lane(m + 8, from.y.f.lane(l + 8));
    }
  }
  static void clear_lane(Points& p, int l) {
    for (int m = l; m < 16; m += kGroup == 1 ? 16 : 8) {
      p.x.f.set_lane(m, {});
      p.y.f.set_lane(m, {});
    }
  }
  // Back to the curve and the radix of the host.
  static Affine<Field> to_affine(const Points& p, int l) {
    static const Host scale = [] {
      Host two = Host::one();
      for (int i = 0; i < kShift / 2; i++) two = two.dbl();
      return two;
    }();
    auto host = [](const Pair& canonical, int lane) {
      Host o;
      ifma_join<P>(canonical.lane(lane), o.v);
      return o;
    };
    const Pair x = p.x.f.canonical(), y = p.y.f.canonical();
    if constexpr (kGroup == 1)
      return {host(x, l), host(y, l) * scale};
    else
      return {{host(x, l), host(x, l + 8)}, {host(y, l) * scale, host(y, l + 8) * scale}};
  }

 private:
  using Factor = typename Pair::Factor;

  CZK_FN void square_raw(Pair& out) const {
    if constexpr (kGroup == 1) {
      const Factor x[1] = {f.factor()};
      out.template set_sum_of_products_raw<1>(x, x);
    } else {
      // (c0 + c1)(c0 - c1) + 2*c0*c1*u
      const Single c0 = f.group(0), c1 = f.group(1);
      const Pair a = Pair::pair(Single::add_raw(c0, c1), Single::add_raw(c0, c0)).normalised();
      const Single b0 = Single::template sub<3>(c0, c1);
      const Factor x[1] = {a.factor()}, y[1] = {{{b0.v[0], f.v[1]}}};
      out.template set_sum_of_products_raw<1>(x, y);
    }
  }

  // A factor of the endomorphism's powers, all lanes alike, in the vectors' radix.
  static Pair constant(const Field& x) {
    auto vectors = [](const Host& h) {
      return Single::set(Pair::Constants::split(h.v, Host::N)) * Single::set(Pair::K.from_host);
    };
    if constexpr (kGroup == 1) {
      const Single v = vectors(x);
      return Pair::pair(v, v);
    } else {
      return Pair::pair(vectors(x.c0), vectors(x.c1));
    }
  }
  // The coordinates of eight points to those of their images. Below 1.2p.
  template <class G>
  static void apply_power(Vec* limbs, int part) {
    static const auto powers = [] {
      std::array<std::array<Pair, 2>, Splitter<G>::kParts> all;
      for (int i = 0; i < Splitter<G>::kParts; i++)
        all[i] = {constant(EndomorphismPowers<G>::get().of_x[i]), constant(EndomorphismPowers<G>::get().of_y[i])};
      return all;
    }();
    auto load = [&](int c) {
      Single v;
      each<N>([&](auto i) CZK_LAMBDA { v.v[0][i] = limbs[c * N + i]; });
      return v;
    };
    auto store = [&](int c, const Single& v) { each<N>([&](auto i) CZK_LAMBDA { limbs[c * N + i] = v.v[0][i]; }); };
    if constexpr (kGroup == 1) {
      store(0, load(0) * powers[part][0].group(0));
    } else {
      for (int c = 0; c < 2; c++) {
        const Single c0 = load(2 * c), c1 = load(2 * c + 1), minus_c1 = Single::template sub<2>(Single::zero(), c1);
        const Single &up = part % 2 ? minus_c1 : c1, &down = part % 2 ? c1 : minus_c1;  // conjugate or not
        const Pair& k = powers[part][c];
        const Factor x[2] = {{{c0.v[0], up.v[0]}}, {{down.v[0], c0.v[0]}}};
        const Factor y[2] = {{{k.v[0], k.v[0]}}, {{k.v[1], k.v[1]}}};
        const Pair image = Pair::template sum_of_products<2>(x, y);
        store(2 * c, image.group(0));
        store(2 * c + 1, image.group(1));
      }
    }
  }

  static CZK_FN Mask top_below(const Pair& t, int64_t bound) {
    Mask mask = 0;
    each<2>([&](auto w) CZK_LAMBDA {
      mask |= Mask(_mm512_cmplt_epi64_mask(t.v[w][N - 1], _mm512_set1_epi64(bound))) << (8 * w);
    });
    return mask;
  }

  // 64-bit words to limbs.
  static CZK_FN void split_words(const Vec* words, Vec* limbs) {
    each<N>([&](auto i) CZK_LAMBDA {
      constexpr int word = 52 * i / 64, off = 52 * i % 64;
      Vec x = _mm512_srli_epi64(words[word], off);
      if constexpr (off > 12 && word + 1 < Host::N) x = _mm512_or_si512(x, _mm512_slli_epi64(words[word + 1], 64 - off));
      limbs[i] = _mm512_and_si512(x, vec_set(Pair::Constants::kMask));
    });
  }

  // y/2^(kShift/2) mod p: adds the multiple of p that clears the low bits. Below 1.02p for y < p.
  static CZK_FN void shift_y(Vec* y) {
    constexpr int h = kShift / 2;
    const Vec m = _mm512_and_si512(madd_lo(vec_zero(), y[0], vec_set(Pair::K.n0)), vec_set((uint64_t(1) << h) - 1));
    Single t;
    each<N>([&](auto i) CZK_LAMBDA {
      t.v[0][i] = madd_lo(y[i], m, vec_set(Pair::K.multiple[1].v[i]));
      if constexpr (i > 0) t.v[0][i] = madd_hi(t.v[0][i], m, vec_set(Pair::K.multiple[1].v[i - 1]));
    });
    t = t.normalised();
    each<N - 1>([&](auto i) CZK_LAMBDA {
      y[i] = _mm512_and_si512(_mm512_or_si512(_mm512_srli_epi64(t.v[0][i], h), _mm512_slli_epi64(t.v[0][i + 1], 52 - h)),
                              vec_set(Pair::Constants::kMask));
    });
    y[N - 1] = _mm512_srli_epi64(t.v[0][N - 1], h);
  }
};

}  // namespace msm
CZK_END
