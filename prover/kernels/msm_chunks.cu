// From the sums of the buckets to those of chunks of buckets, for one curve and group (CZK_FP, CZK_GROUP).
//
// A window of B buckets has m = B/k chunks of k, rounded up; chunk c holds the buckets c + j*m, so that neighbouring chunks
// read neighbouring buckets. Running sums from the last to the first give a chunk's plain sum A, and Y, its sum with the
// weights j. The window's sum, that of (b + 1) * bucket[b], then is that of m * Y[c] + (c + 1) * A[c] over its chunks.
#include "lane_point.cuh"
#include "msm.cuh"

CZK_BEGIN

using Hot = Field<CZK_FP, kHotForm>;
using Coordinate = CoordinateOver<Hot>;
using Point = LanePoint<Coordinate>;

constexpr uint32_t kChunkThreads = 128;

CZK_END

using namespace czk;

// plain, weighted: A and Y of each of the `chunks` chunks of all windows; those that make their number a power of two have
// no buckets and are at infinity.
CZK_KERNEL(kChunkThreads) msm_chunks(const Cut* cut, const uint32_t* buckets, uint32_t chunks, uint32_t* plain,
                                     uint32_t* weighted) {
  const uint32_t mine = grid::thread_of_all() / Point::kLanes, number = min_of(mine, chunks - 1);
  uint32_t window = cut->first;
  while (window + 1 < cut->last && cut->first_chunk(window + 1) <= number) window++;
  const uint32_t own = number - cut->first_chunk(window), stride = cut->chunks(window);
  const uint32_t size = cut->buckets(window);
  const uint32_t held = own < stride ? (size - own + stride - 1) / stride : 0;  // buckets of this chunk
  const uint32_t* bucket = buckets + (uint64_t(cut->first_bucket(window)) + own) * Point::kWords;
  // Every other time the next bucket joins the running sum, then that joins the weighted one, but for the first bucket.
  // The two change places, so that there is one addition in the code.
  Point target = Point::infinity(), other = Point::infinity();
  if (grid::any_lane(held > 0)) {
    for (uint32_t turn = 2 * cut->chunk - 1; turn-- > 0;) {
      const uint32_t j = turn / 2;
      Point addend = other;
      if (!(turn & 1)) addend = j < held ? Point::load(bucket + uint64_t(j) * stride * Point::kWords) : Point::infinity();
      target.add(addend);
      const Point swapped = target;
      target = other;
      other = swapped;
    }
  }
  if (mine < chunks) {
    other.store(plain + uint64_t(number) * Point::kWords);
    target.store(weighted + uint64_t(number) * Point::kWords);
  }
}
