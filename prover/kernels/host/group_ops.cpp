// Element-wise group operations, multiples of a fixed base, and the checks of points that come from files.
#include <cstring>
#include <memory>

#include "affine_batch.hpp"
#include "chacha.hpp"
#include "endomorphism.hpp"
#include "variant.hpp"

CZK_BEGIN
namespace {

constexpr uint64_t kBatch = 512;  // points that share an inversion

template <class G>
int32_t group_op(int32_t op, const void* a, const void* b, void* out, uint64_t n) {
  using F = typename G::F;
  constexpr uint64_t size = G::kPointBytes;
  if (op < CZK_POINT_ADD || op > CZK_POINT_NEG) return fail(CZK_INVALID, "unknown group operation %d", op);
  Buffer<Affine<F>> acc(std::min(n, kBatch)), other(std::min(n, kBatch));
  Buffer<F> scratch(2 * std::min(n, kBatch));
  for (uint64_t begin = 0; begin < n; begin += kBatch) {
    uint64_t count = std::min(kBatch, n - begin);
    for (uint64_t i = 0; i < count; i++) {
      acc[i] = load_point<F>(at(a, begin + i, size));
      other[i] = op == CZK_POINT_ADD ? load_point<F>(at(b, begin + i, size)) : acc[i];
      if (op == CZK_POINT_NEG) acc[i] = acc[i].neg();
    }
    if (op != CZK_POINT_NEG) batch_add_affine(acc.data(), count, scratch.data(), [&](uint64_t i) { return other[i]; });
    for (uint64_t i = 0; i < count; i++) store_point(acc[i], at(out, begin + i, size));
  }
  return CZK_OK;
}

// --- scalars --------------------------------------------------------------------------------------------------------

struct Scalar {
  uint64_t v[5];  // one limb of zeros above, so that windows may reach over the end
};

// False if the scalar is not below r.
template <class Fr>
bool load_scalar(const void* src, Scalar& s) {
  static_assert(Fr::N == 4);
  Fr x = Fr::load(src);
  std::memcpy(s.v, x.v, sizeof x.v);
  s.v[4] = 0;
  return x.is_reduced();
}

CZK_FN uint32_t bits_of(const Scalar& s, uint32_t from, uint32_t width) {
  uint32_t limb = from / 64, shift = from % 64;
  uint64_t low = s.v[limb] >> shift;
  if (shift + width > 64) low |= s.v[limb + 1] << (64 - shift);
  return uint32_t(low & ((uint64_t(1) << width) - 1));
}

// Digits in [-2^(width-1), 2^(width-1)], least significant first, with sum digit[j] 2^(width j) = scalar.
CZK_FN void signed_digits(const Scalar& s, uint32_t width, uint32_t windows, int32_t* digit) {
  uint32_t carry = 0;
  for (uint32_t j = 0; j < windows; j++) {
    uint32_t d = bits_of(s, j * width, width) + carry;
    carry = d > (uint32_t(1) << (width - 1));
    digit[j] = int32_t(d) - int32_t(carry << width);
  }
}

// Windows of this width that hold every scalar below 2^255 and the last carry.
constexpr uint32_t windows_for(uint32_t width) { return 256 / width + (256 % width != 0); }

int32_t bad_scalar(uint64_t i) { return fail(CZK_INVALID, "scalar %llu is not below r", (unsigned long long)i); }

// --- variable base --------------------------------------------------------------------------------------------------

// Signed windows of four bits over the multiples 1..8 of the point.
template <class F>
Xyzz<F> multiply(const Affine<F>& p, const Scalar& s) {
  constexpr uint32_t width = 4, windows = windows_for(width);
  int32_t digit[windows];
  signed_digits(s, width, windows, digit);
  Xyzz<F> multiple[9];
  multiple[0] = Xyzz<F>::infinity();
  for (int i = 1; i <= 8; i++) {
    multiple[i] = multiple[i - 1];
    multiple[i].add(p);
  }
  Xyzz<F> acc = Xyzz<F>::infinity();
  for (uint32_t j = windows; j-- > 0;) {
    for (uint32_t i = 0; i < width; i++) acc = acc.dbl();
    int32_t d = digit[j];
    acc.add(d < 0 ? multiple[-d].neg() : multiple[d]);
  }
  return acc;
}

template <class G>
int32_t group_mul(const void* points, const void* scalars, void* out, uint64_t n, int32_t threads, CzkCancel cancel) {
  using F = typename G::F;
  constexpr uint64_t size = G::kPointBytes, batch = 32;
  return parallel_ranges(n, batch, threads, cancel, [&](uint64_t begin, uint64_t end, int32_t) -> int32_t {
    Xyzz<F> product[batch];
    Affine<F> affine[batch];
    F scratch[batch];
    for (uint64_t i = begin; i < end; i++) {
      Scalar s;
      if (!load_scalar<typename G::Fr>(at(scalars, i, 32), s)) return bad_scalar(i);
      product[i - begin] = multiply(load_point<F>(at(points, i, size)), s);
    }
    batch_to_affine(product, affine, end - begin, scratch);
    for (uint64_t i = begin; i < end; i++) store_point(affine[i - begin], at(out, i, size));
    return CZK_OK;
  });
}

// --- fixed base -----------------------------------------------------------------------------------------------------

// The multiples d * 2^(width*j) * base, d = 1..2^(width-1), of every window j.
template <class F>
struct WindowTable {
  uint32_t width, windows, half;
  Buffer<Affine<F>> entry;  // entry[j*half + d - 1]

  // The width that makes table and products cheapest: windows * (2^(width-1) + n) additions.
  static uint32_t best_width(uint64_t n) {
    uint32_t best = 2;
    auto cost = [&](uint32_t w) { return windows_for(w) * ((uint64_t(1) << (w - 1)) + n); };
    for (uint32_t w = 3; w <= 14; w++)
      if (cost(w) < cost(best)) best = w;
    return best;
  }

  explicit WindowTable(uint64_t n)
      : width(best_width(n)), windows(windows_for(width)), half(1u << (width - 1)), entry(uint64_t(windows) * half) {}

  int32_t build(const Affine<F>& base, int32_t threads, CzkCancel cancel) {
    Buffer<Xyzz<F>> power(windows);
    Buffer<Affine<F>> first(windows);
    Buffer<F> scratch(windows);
    power[0] = Xyzz<F>::from_affine(base);
    for (uint32_t j = 1; j < windows; j++) {
      power[j] = power[j - 1];
      for (uint32_t i = 0; i < width; i++) power[j] = power[j].dbl();
    }
    batch_to_affine(power.data(), first.data(), windows, scratch.data());
    for (uint32_t j = 0; j < windows; j++) entry[uint64_t(j) * half] = first[j];
    // From the first `have` multiples to twice as many: add the last one to each.
    for (uint32_t have = 1; have < half; have *= 2) {
      uint64_t total = uint64_t(windows) * have, most = std::min(total, kBatch);
      int32_t status = parallel_ranges(total, most, threads, cancel, [&](uint64_t begin, uint64_t end, int32_t) {
        Buffer<Affine<F>> sum(end - begin);
        Buffer<F> space(2 * (end - begin));
        auto row = [&](uint64_t i) { return &entry[(begin + i) / have * half]; };
        auto column = [&](uint64_t i) { return (begin + i) % have; };
        for (uint64_t i = 0; i < end - begin; i++) sum[i] = row(i)[column(i)];
        batch_add_affine(sum.data(), end - begin, space.data(), [&](uint64_t i) { return row(i)[have - 1]; });
        for (uint64_t i = 0; i < end - begin; i++) row(i)[have + column(i)] = sum[i];
      });
      if (status != CZK_OK) return status;
    }
    return CZK_OK;
  }

  CZK_FN Affine<F> multiple(uint32_t window, int32_t digit) const {
    if (digit == 0) return Affine<F>::infinity();
    const Affine<F>* row = &entry[uint64_t(window) * half];
    return digit < 0 ? row[-digit - 1].neg() : row[digit - 1];
  }
};

template <class G>
int32_t fixed_base_mul(const void* base, const void* scalars, void* out, uint64_t n, int32_t threads,
                       CzkCancel cancel) {
  using F = typename G::F;
  constexpr uint64_t size = G::kPointBytes;
  if (n == 0) return CZK_OK;
  WindowTable<F> table(n);
  if (int32_t status = table.build(load_point<F>(base), threads, cancel); status != CZK_OK) return status;
  return parallel_ranges(n, kBatch, threads, cancel, [&](uint64_t begin, uint64_t end, int32_t) -> int32_t {
    uint64_t count = end - begin;
    Buffer<int32_t> digits(count * table.windows);
    Buffer<Affine<F>> acc(count);
    Buffer<F> scratch(2 * count);
    for (uint64_t i = 0; i < count; i++) {
      Scalar s;
      if (!load_scalar<typename G::Fr>(at(scalars, begin + i, 32), s)) return bad_scalar(begin + i);
      signed_digits(s, table.width, table.windows, &digits[i * table.windows]);
      acc[i] = table.multiple(0, digits[i * table.windows]);
    }
    for (uint32_t j = 1; j < table.windows; j++) {
      if (cancelled(cancel)) return CZK_CANCELLED;
      batch_add_affine(acc.data(), count, scratch.data(),
                       [&](uint64_t i) { return table.multiple(j, digits[i * table.windows + j]); });
    }
    for (uint64_t i = 0; i < count; i++) store_point(acc[i], at(out, begin + i, size));
    return CZK_OK;
  });
}

// --- checks ---------------------------------------------------------------------------------------------------------

template <class F>
bool reduced(const F& x) {
  if constexpr (kIsFp2<F>)
    return x.c0.is_reduced() && x.c1.is_reduced();
  else
    return x.is_reduced();
}

enum { kNotReduced = 1, kNotOnCurve = 2, kNotInSubgroup = 3 };

template <class G>
int32_t fault(const typename G::Point& p, bool subgroup) {
  if (!reduced(p.x) || !reduced(p.y)) return kNotReduced;
  if (!is_on_curve<G>(p)) return kNotOnCurve;
  if (subgroup && !is_in_subgroup<G>(G::Accumulator::from_affine(p))) return kNotInSubgroup;
  return 0;
}

template <class G>
int32_t points_check(const void* points, uint64_t n, int32_t checks, int32_t threads, CzkCancel cancel, uint64_t* bad,
                     int32_t* why) {
  using F = typename G::F;
  const bool subgroup = checks & CZK_CHECK_SUBGROUP;
  std::atomic<uint64_t> first{n};
  // Ranges are taken in order, so a range that begins above a known offender can be left out.
  int32_t status =
      parallel_ranges(n, subgroup ? 16 : 1024, threads, cancel, [&](uint64_t begin, uint64_t end, int32_t) {
        for (uint64_t i = begin; i < end && i < first.load(std::memory_order_relaxed); i++) {
          if (!fault<G>(load_point<F>(at(points, i, G::kPointBytes)), subgroup)) continue;
          uint64_t seen = first.load();
          while (i < seen && !first.compare_exchange_weak(seen, i)) {
          }
        }
      });
  if (status != CZK_OK) return status;
  *bad = first;
  *why = first < n ? fault<G>(load_point<F>(at(points, first, G::kPointBytes)), subgroup) : 0;
  return CZK_OK;
}

// The bucket test (Bellare, Garay, Rabin, "Fast batch verification", 1998, section 4): in each of k rounds every point is
// added into one of B = 2^c buckets, drawn by ChaCha20 from the seed; then every bucket's sum must lie in the subgroup.
//
// Error bound. Let some point lie outside, and look at the classes of all points modulo the subgroup. Draw the buckets of
// all other points first: its own bucket can then make every sum trivial for at most one of the B choices. So a round
// misses with probability at most 1/B, whatever the cofactor's small prime factors are (a random linear combination would
// miss a point whose class has order 3 every third time), and k independent rounds with at most 2^-(ck) <= 2^-kErrorBits.
struct BucketTest {
  static constexpr uint32_t kErrorBits = 40;
  uint32_t log_buckets, rounds;

  // Fewest field products: an addition into a bucket takes 10, a subgroup test about 1200.
  explicit BucketTest(uint64_t n) {
    log_buckets = 4, rounds = kErrorBits / 4;
    auto cost = [&](uint64_t c, uint64_t k) { return k * (10 * n + (1200 << c)); };
    for (uint32_t c = 5; c <= 16; c++) {
      uint32_t k = (kErrorBits + c - 1) / c;
      if (cost(c, k) < cost(log_buckets, rounds)) log_buckets = c, rounds = k;
    }
  }
  uint64_t buckets() const { return uint64_t(1) << log_buckets; }
  // Whether testing each point is no dearer.
  bool pays(uint64_t n) const { return rounds * (10 * n + 1200 * buckets()) < 1200 * n; }
};

template <class G>
int32_t each_in_subgroup(const typename G::Accumulator* sums, uint64_t n, int32_t threads, CzkCancel cancel,
                         int32_t* ok) {
  std::atomic<bool> all{true};
  int32_t status = parallel_ranges(n, 16, threads, cancel, [&](uint64_t begin, uint64_t end, int32_t) {
    for (uint64_t i = begin; i < end && all.load(std::memory_order_relaxed); i++)
      if (!sums[i].is_infinity() && !is_in_subgroup<G>(sums[i])) all = false;
  });
  *ok = all;
  return status;
}

template <class G>
int32_t points_check_combined(const void* points, uint64_t n, const uint8_t* seed, int32_t threads, CzkCancel cancel,
                              int32_t* ok) {
  using F = typename G::F;
  using Sum = typename G::Accumulator;
  *ok = 1;
  if constexpr (G::kGroup == 1 && std::is_same_v<typename G::Curve, Bn254>) return CZK_OK;  // the whole curve
  const BucketTest test(n);
  if (!test.pays(n)) {
    Buffer<Sum> own(n);
    for (uint64_t i = 0; i < n; i++) own[i] = Sum::from_affine(load_point<F>(at(points, i, G::kPointBytes)));
    return each_in_subgroup<G>(own.data(), n, threads, cancel, ok);
  }
  uint32_t key[8];
  std::memcpy(key, seed, sizeof key);
  // A part of a round has buckets of its own; they are summed at the end.
  const uint64_t buckets = test.buckets();
  const Split split(n, uint64_t(threads), 8 * buckets);
  Buffer<Sum> sums(test.rounds * split.parts * buckets);
  int32_t status = parallel_for(test.rounds * split.parts, threads, cancel, [&](uint64_t task, int32_t) -> int32_t {
    uint32_t round = uint32_t(task / split.parts);
    uint64_t part = task % split.parts;
    Sum* bucket = &sums[task * buckets];
    std::fill(bucket, bucket + buckets, Sum::infinity());
    ChaChaBlock block{};
    for (uint64_t i = split.begin(part), end = split.end(part), have = ~uint64_t(0); i < end; i++) {
      if (i / 32 != have) {  // a block serves 32 points, 16 bits each
        if (cancelled(cancel)) return CZK_CANCELLED;
        have = i / 32;
        block = chacha_block(key, round, uint32_t(have), uint32_t(have >> 32), 0);
      }
      uint32_t draw = block.word[i % 32 / 2] >> (16 * (i & 1));
      bucket[draw & (buckets - 1)].add(load_point<F>(at(points, i, G::kPointBytes)));
    }
    return CZK_OK;
  });
  if (status != CZK_OK) return status;
  for (uint32_t round = 0; round < test.rounds; round++) {
    Sum* total = &sums[round * split.parts * buckets];
    for (uint64_t i = buckets; i < split.parts * buckets; i++) total[i % buckets].add(total[i]);
    status = each_in_subgroup<G>(total, buckets, threads, cancel, ok);
    if (status != CZK_OK || !*ok) return status;
  }
  return CZK_OK;
}

}  // namespace
CZK_END

// Calls the template of the group that the interface's numbers name.
#define CZK_WITH_GROUP(call) \
  czk::guarded([&] {         \
    return czk::with_group(curve, group, [&](auto tag) { return czk::call; }); \
  })
#define CZK_G typename decltype(tag)::type

CZK_DEFINE(group_op)(int32_t curve, int32_t group, int32_t op, const void* a, const void* b, void* out, uint64_t n) {
  return CZK_WITH_GROUP(group_op<CZK_G>(op, a, b, out, n));
}

CZK_DEFINE(group_mul)(int32_t curve, int32_t group, const void* points, const void* scalars, void* out, uint64_t n,
                      int32_t threads, CzkCancel cancel) {
  return CZK_WITH_GROUP(group_mul<CZK_G>(points, scalars, out, n, threads, cancel));
}

CZK_DEFINE(fixed_base_mul)(int32_t curve, int32_t group, const void* base, const void* scalars, void* out, uint64_t n,
                           int32_t threads, CzkCancel cancel) {
  return CZK_WITH_GROUP(fixed_base_mul<CZK_G>(base, scalars, out, n, threads, cancel));
}

CZK_DEFINE(points_check)(int32_t curve, int32_t group, const void* points, uint64_t n, int32_t checks, int32_t threads,
                         CzkCancel cancel, uint64_t* bad, int32_t* why) {
  return CZK_WITH_GROUP(points_check<CZK_G>(points, n, checks, threads, cancel, bad, why));
}

CZK_DEFINE(points_check_combined)(int32_t curve, int32_t group, const void* points, uint64_t n, const uint8_t* seed,
                                  int32_t threads, CzkCancel cancel, int32_t* ok) {
  return CZK_WITH_GROUP(points_check_combined<CZK_G>(points, n, seed, threads, cancel, ok));
}
