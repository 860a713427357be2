// Multiples of one point: out[i] = scalars[i] * base, affine. Windows of eight bits: the table holds d * 2^(8j) * base for
// every digit d and window j, so that a multiple is at most 32 additions. Then all multiples are brought into affine form
// with one inversion for each thread (Montgomery's trick).
#include "curve.cuh"
#include "field.cuh"
#include "grid.cuh"
#include "params.cuh"
#include "tower.cuh"

CZK_BEGIN

constexpr uint32_t kFixedBaseThreads = 128;
constexpr uint32_t kDigits = 256;  // of a window
constexpr uint32_t kScalarWords = 8;

using Base = Field<CZK_FP, MulForm::kOutlined>;
#if CZK_GROUP == 1
using Coordinate = Base;
#else
using Coordinate = Fp2<Base>;
#endif
constexpr uint32_t kWords = CZK_GROUP * Base::N;
constexpr uint32_t kAffineWords = 2 * kWords, kXyzzWords = 4 * kWords;

CZK_FN void load(Base& x, const uint32_t* source) { load_words<Base::N>(x.v, source); }
CZK_FN void load(Fp2<Base>& x, const uint32_t* source) {
  load(x.c0, source);
  load(x.c1, source + Base::N);
}
CZK_FN void store(uint32_t* target, const Base& x) { store_words<Base::N>(target, x.v); }
CZK_FN void store(uint32_t* target, const Fp2<Base>& x) {
  store(target, x.c0);
  store(target + Base::N, x.c1);
}
CZK_FN Coordinate coordinate(const uint32_t* source) {
  Coordinate x;
  load(x, source);
  return x;
}

CZK_END

CZK_KERNEL(czk::kFixedBaseThreads)
fixed_base_sums(const uint32_t* table, const uint32_t* scalars, uint32_t* sums, uint32_t n) {
  using namespace czk;
  for (uint32_t i = grid::thread_of_all(); i < n; i += grid::all_threads()) {
    Xyzz<Coordinate> sum = Xyzz<Coordinate>::infinity();
    for (uint32_t word = 0; word < kScalarWords; word++) {
      const uint32_t digits = scalars[uint64_t(i) * kScalarWords + word];
      for (uint32_t byte = 0; byte < 4; byte++) {
        const uint32_t digit = digits >> (8 * byte) & (kDigits - 1);
        if (digit == 0) continue;
        const uint32_t entry = (4 * word + byte) * kDigits + digit;
        const uint32_t* point = table + uint64_t(entry) * kAffineWords;
        sum.add(Affine<Coordinate>{coordinate(point), coordinate(point + kWords)});
      }
    }
    uint32_t* target = sums + uint64_t(i) * kXyzzWords;
    store(target, sum.x);
    store(target + kWords, sum.y);
    store(target + 2 * kWords, sum.zz);
    store(target + 3 * kWords, sum.zzz);
  }
}

// A thread's points are those at its own number and every so many threads after that. prefixes: a coordinate each.
CZK_KERNEL(czk::kFixedBaseThreads)
to_affine(const uint32_t* sums, uint32_t* prefixes, uint32_t* out, uint32_t n) {
  using namespace czk;
  const uint32_t first = grid::thread_of_all(), step = grid::all_threads();
  if (first >= n) return;
  Coordinate product = Coordinate::one();
  for (uint64_t i = first; i < n; i += step) {
    store(prefixes + i * kWords, product);
    const Coordinate zzz = coordinate(sums + i * kXyzzWords + 3 * kWords);
    if (!zzz.is_zero()) product = product * zzz;
  }
  Coordinate inverse = product.inverse();
  for (uint64_t left = (n - 1 - first) / step + 1; left > 0; left--) {
    const uint64_t i = first + (left - 1) * step;
    const uint32_t* sum = sums + i * kXyzzWords;
    const Coordinate zzz = coordinate(sum + 3 * kWords);
    Affine<Coordinate> point = Affine<Coordinate>::infinity();
    if (!zzz.is_zero()) {
      const Coordinate inverse_zzz = inverse * coordinate(prefixes + i * kWords);
      const Coordinate inverse_z = inverse_zzz * coordinate(sum + 2 * kWords);
      inverse = inverse * zzz;
      point = {coordinate(sum) * inverse_z.sqr(), coordinate(sum + kWords) * inverse_zzz};
    }
    store(out + i * kAffineWords, point.x);
    store(out + i * kAffineWords + kWords, point.y);
  }
}
