// Sums of the points of each bucket, for one curve and group (CZK_FP, CZK_GROUP). The hot loop of a multiplication.
//
// The sorted entries are cut into runs of one length, one for each worker, wherever buckets end: all workers do the same
// number of additions, however the digits are spread. A worker stores the sum of a bucket that begins in its run where
// the bucket's sum belongs, and sets aside that of the bucket that began before its run; msm_merge adds the latter later.
#include "coordinates.cuh"
#include "msm.cuh"

CZK_BEGIN

using Hot = Field<CZK_FP, kHotForm>;
using Coordinate = CoordinateOver<Hot>;

constexpr uint32_t kAccumulateThreads = 128;
// Two warps a scheduler, with registers for several products in flight each, are faster than three with 168 (measured).
constexpr uint32_t kAccumulateBlocks = 2;

// Affine points, of which the first `absent` are not there: they count as infinity.
struct Bases {
  const uint32_t* points;
  uint32_t absent;
  // Point i/2, negated if i is odd.
  CZK_FN Affine<Coordinate> load_signed(uint32_t i) const {
    using L = Layout<Coordinate>;
    Affine<Coordinate> q{Coordinate::zero(), Coordinate::zero()};
    if (i >> 1 >= absent) q = load_affine<Coordinate>(points + uint64_t((i >> 1) - absent) * (2 * L::kWords));
    q.y = L::select(i & 1, q.y.neg(), q.y);
    return q;
  }
};

// The sum of a bucket's points so far. Lanes stay together whatever their points are.
struct BucketSum {
  using F = Coordinate;
  using L = Layout<F>;
  Xyzz<F> sum;
  bool empty;  // the sum is the point at infinity, whatever its coordinates say

  CZK_FN void store(uint32_t* target) const {
    if (empty)
      store_xyzz(target, Xyzz<F>{F::zero(), F::zero(), F::zero(), F::zero()});
    else
      store_xyzz(target, sum);
  }

  // Adds point i, to the empty sum if `fresh`; nothing if not `some`. The formula of curve.cuh's mixed addition; where it
  // does not hold its result is not taken, and equal points, which hardly ever meet, are loaded again and doubled.
  CZK_FN void add(const Bases& bases, uint32_t i, bool some, bool fresh) {
    Affine<F> q{F::zero(), F::zero()};
    if (some) q = bases.load_signed(i);
    const bool nothing = L::is_zero(q.x) & L::is_zero(q.y);
    const bool starts = fresh | empty;
    const bool skip = starts | nothing;
    sum.x = L::select(starts, q.x, sum.x);
    sum.y = L::select(starts, q.y, sum.y);
    sum.zz = L::select(starts, F::one(), sum.zz);
    sum.zzz = L::select(starts, F::one(), sum.zzz);
    empty = starts & nothing;

    const F p = q.x * sum.zz - sum.x;
    const F r = q.y * sum.zzz - sum.y;
    const bool exceptional = L::is_zero(p) & !skip;
    const bool opposite = exceptional & !L::is_zero(r);
    const F pp = p.sqr();
    sum.zz = L::select(skip, sum.zz, sum.zz * pp);
    const F qq = sum.x * pp;
    const F ppp = p * pp;
    sum.zzz = L::select(skip, sum.zzz, sum.zzz * ppp);
    const F x3 = r.sqr() - ppp - qq.dbl();
    sum.y = L::select(skip, sum.y, F::product_difference(r, qq - x3, sum.y, ppp));
    sum.x = L::select(skip, sum.x, x3);
    if (grid::any_lane(exceptional)) {
      const Affine<F> again = bases.load_signed(i);
      const Xyzz<F> doubled = twice(Xyzz<F>{again.x, again.y, F::one(), F::one()});
      sum.x = L::select(exceptional & !opposite, doubled.x, sum.x);
      sum.y = L::select(exceptional & !opposite, doubled.y, sum.y);
      sum.zz = L::select(exceptional & !opposite, doubled.zz, sum.zz);
      sum.zzz = L::select(exceptional & !opposite, doubled.zzz, sum.zzz);
      empty |= opposite;
    }
  }
};

CZK_END

using namespace czk;

// points: affine bases, without the first `absent` ones. entries: *total of them, sorted by bucket. shortest: no run is
// shorter. buckets: one sum for each bucket, all at infinity before. heads, head_buckets: for each worker the sum that
// belongs to a bucket of the runs before, and that bucket, or kNone. A worker is one thread, or two in G2.
CZK_KERNEL_RESIDENT(kAccumulateThreads, kAccumulateBlocks)
msm_accumulate(const uint32_t* points, uint32_t absent, const uint32_t* entries, const uint32_t* total,
               uint32_t shortest, uint32_t* buckets, uint32_t* heads, uint32_t* head_buckets) {
  using L = Layout<Coordinate>;
  constexpr uint32_t kXyzzWords = 4 * L::kWords;
  const uint32_t workers = grid::all_threads() / L::kLanes, worker = grid::thread_of_all() / L::kLanes;
  const uint32_t n = *total;
  uint32_t length = uint32_t((uint64_t(n) + workers - 1) / workers);
  if (length < shortest) length = shortest;
  const uint64_t from = uint64_t(worker) * length;
  const uint32_t begin = from < n ? uint32_t(from) : n, end = n - begin < length ? n : begin + length;

  head_buckets[worker] = kNone;
  if (!grid::any_lane(begin < end)) return;
  Entry ahead = begin < end ? load_entry(entries, begin) : Entry{kNone, 0};
  bool head = begin > 0 && begin < end && load_entry(entries, begin - 1).bucket == ahead.bucket;
  if (head) head_buckets[worker] = ahead.bucket;

  const Bases bases{points, absent};
  BucketSum acc;
  acc.sum = {Coordinate::zero(), Coordinate::zero(), Coordinate::zero(), Coordinate::zero()};
  acc.empty = true;
  uint32_t bucket = ahead.bucket;
    for (uint32_t i = begin; grid::any_lane(i < end); i++) {
    const Entry entry = ahead;
    const bool alive = i < end;
    if (alive && i + 1 < end) ahead = load_entry(entries, i + 1);
    const bool fresh = alive && entry.bucket != bucket;
    if (fresh) {
      acc.store(head ? heads + uint64_t(worker) * kXyzzWords : buckets + uint64_t(bucket) * kXyzzWords);
      bucket = entry.bucket;
      head = false;
    }
    acc.add(bases, entry.point, alive, fresh);
  }
  if (begin < end) acc.store(head ? heads + uint64_t(worker) * kXyzzWords : buckets + uint64_t(bucket) * kXyzzWords);
}
