// Pairings and products of pairings on both curves.
//
// e(P, Q) here is the optimal ate pairing to the power m of pairing_final.hpp: bilinear and non-degenerate all the
// same, since m is prime to r. czk_pairing stores an element of Fp12 = Fp6[w], Fp6 = Fp2[v], as c0.c0, c0.c1, c0.c2,
// c1.c0, c1.c1, c1.c2 (coefficients of 1, v, v^2, w, v w, v^2 w), each c0 + c1 u.
#include "pairing_final.hpp"
#include "variant.hpp"

CZK_BEGIN
namespace {

template <class F>
CZK_FN F times_small(const F& x, int k) {
  F sum = x;
  int top = 31 - __builtin_clz(unsigned(k));
  for (int bit = top - 1; bit >= 0; bit--) {
    sum = sum.dbl();
    if (k >> bit & 1) sum = sum + x;
  }
  return sum;
}

// xi = 1 + u; y^2 = x^3 + 4 xi; x = -0xd201000000010000.
struct BlsTower {
  using Fp = BlsFp;
  static CZK_FN Fp2<Fp> times_xi(const Fp2<Fp>& a) { return {a.c0 - a.c1, a.c0 + a.c1}; }
};
struct BlsPairing {
  using Tower = BlsTower;
  static constexpr Twist kTwist = Twist::kM;
  static constexpr SignedDigits<128> kX = non_adjacent_form(0xd201000000010000);
  static constexpr SignedDigits<128> kLoop = kX;
  static constexpr bool kNegative = true, kFrobeniusSteps = false;
  static CZK_FN Fp2<BlsFp> times_b3(const Fp2<BlsFp>& a) { return times_small(BlsTower::times_xi(a), 12); }
};

// xi = 9 + u; y^2 = x^3 + 3 / xi; x = 4965661367192848881, the loop length 6x + 2.
struct BnTower {
  using Fp = BnFp;
  static CZK_FN Fp2<Fp> times_xi(const Fp2<Fp>& a) {
    Fp2<Fp> nine = times_small(a, 9);
    return {nine.c0 - a.c1, nine.c1 + a.c0};
  }
};
struct BnPairing {
  using Tower = BnTower;
  static constexpr Twist kTwist = Twist::kD;
  static constexpr uint64_t kParameter = 4965661367192848881;
  static constexpr SignedDigits<128> kX = non_adjacent_form(kParameter);
  static constexpr SignedDigits<128> kLoop = non_adjacent_form(u128(kParameter) * 6 + 2);
  static constexpr bool kNegative = false, kFrobeniusSteps = true;
  static Fp2<BnFp> times_b3(const Fp2<BnFp>& a) {
    static const Fp2<BnFp> b3 = times_small(BnTower::times_xi(Fp2<BnFp>::one()).inverse(), 9);
    return Fp2Products<BnFp>::mul(a, b3);
  }
};

template <class C>
using PairingOf = std::conditional_t<C::kIndex == 0, BlsPairing, BnPairing>;

// Pairs begin .. end; those with infinity count as 1 and are left out.
template <class P>
std::vector<PairState<P>> load_pairs(const void* g1, const void* g2, uint64_t begin, uint64_t end) {
  using Fp = typename P::Tower::Fp;
  std::vector<PairState<P>> pairs;
  pairs.reserve(end - begin);
  for (uint64_t i = begin; i < end; i++) {
    auto p = load_point<Fp>(at(g1, i, 2 * Fp::kBytes));
    auto q = load_point<Fp2<Fp>>(at(g2, i, 4 * Fp::kBytes));
    if (!p.is_infinity() && !q.is_infinity()) pairs.emplace_back(p, q);
  }
  return pairs;
}

// Each thread runs Miller loops of its own share of the pairs. Larger shares than kShare gain nothing more from sharing
// the squarings and leave the threads less even.
constexpr uint64_t kShare = 32;

template <class P>
int32_t miller_product(const void* g1, const void* g2, uint64_t n, int32_t threads, Fp12<typename P::Tower>& product) {
  using E12 = Fp12<typename P::Tower>;
  if (threads < 1) return fail(CZK_INVALID, "threads must be at least 1, not %d", threads);
  uint64_t wanted = std::max<uint64_t>(uint64_t(threads), (n + kShare - 1) / kShare);
  Split split(n, wanted, 1);
  std::vector<E12> partial(split.parts, E12::one());
  int32_t status = parallel_for(split.parts, threads, nullptr, [&](uint64_t part, int32_t) {
    auto pairs = load_pairs<P>(g1, g2, split.begin(part), split.end(part));
    partial[part] = miller_loop<P>(pairs);
  });
  product = E12::one();
  for (const E12& f : partial) product = product * f;
  return status;
}

}  // namespace
CZK_END

CZK_DEFINE(pairing_check)(int32_t curve, const void* g1, const void* g2, uint64_t n, int32_t threads, int32_t* ok) {
  using namespace czk;
  return guarded([&] {
    return with_curve(curve, [&](auto tag) {
      using P = PairingOf<typename decltype(tag)::type>;
      using E12 = Fp12<typename P::Tower>;
      E12 f;
      int32_t status = miller_product<P>(g1, g2, n, threads, f);
      *ok = status == CZK_OK && final_exponentiation<P>(f) == E12::one();
      return status;
    });
  });
}

CZK_DEFINE(pairing)(int32_t curve, const void* g1, const void* g2, uint64_t n, void* out) {
  using namespace czk;
  return guarded([&] {
    return with_curve(curve, [&](auto tag) {
      using P = PairingOf<typename decltype(tag)::type>;
      using Fp = typename P::Tower::Fp;
      Fp12<typename P::Tower> f;
      int32_t status = miller_product<P>(g1, g2, n, 1, f);
      if (status != CZK_OK) return status;
      f = final_exponentiation<P>(f);
      const Fp2<Fp> coefficients[6] = {f.c0.c0, f.c0.c1, f.c0.c2, f.c1.c0, f.c1.c1, f.c1.c2};
      for (int i = 0; i < 6; i++) store_element(coefficients[i], at(out, i, 2 * Fp::kBytes));
      return int32_t(CZK_OK);
    });
  });
}
