// From the sums of the buckets to those of chunks of buckets, for one curve and group (CZK_FP, CZK_GROUP).
//
// A window of 2^(log_chunk + l) buckets has 2^l chunks; chunk c holds the buckets c + j*2^l, so that neighbouring chunks
// read neighbouring buckets. Running sums from the last to the first give a chunk's plain sum A, and Y, its sum with the
// weights j. The window's sum, that of (b + 1) * bucket[b], then is that of 2^l * Y[c] + (c + 1) * A[c] over its chunks.
#include "lane_point.cuh"
#include "msm.cuh"

CZK_BEGIN

using Hot = Field<CZK_FP, kHotForm>;
#if CZK_GROUP == 1
using Coordinate = Hot;
#else
using Coordinate = SplitFp2<Hot>;
#endif
using Point = LanePoint<Coordinate>;

constexpr uint32_t kChunkThreads = 128;

CZK_END

using namespace czk;

// plain, weighted: A and Y of each of the `chunks` chunks of all windows.
CZK_KERNEL(kChunkThreads) msm_chunks(const Cut* cut, const uint32_t* buckets, uint32_t log_chunk, uint32_t chunks,
                                     uint32_t* plain, uint32_t* weighted) {
  const uint32_t mine = grid::thread_of_all() / Point::kLanes, chunk = min_of(mine, chunks - 1);
  uint32_t window = cut->first;
  while (window + 1 < cut->last && cut->first_bucket[window + 1] >> log_chunk <= chunk) window++;
  const uint32_t first = cut->first_bucket[window], own = chunk - (first >> log_chunk);
  const uint64_t stride = uint64_t(1) << (cut->width[window] - 1 - log_chunk);
  const uint32_t* bucket = buckets + (first + own + (stride << log_chunk)) * Point::kWords;
  // Every other time the next bucket joins the running sum, then that joins the weighted one, but for the first bucket.
  // The two change places, so that there is one addition in the code.
  Point target = Point::infinity(), other = Point::infinity();
  for (uint32_t turn = (uint32_t(2) << log_chunk) - 1; turn-- > 0;) {
    Point addend = other;
    if (!(turn & 1)) {
      bucket -= stride * Point::kWords;
      addend = Point::load(bucket);
    }
    target.add(addend);
    const Point swapped = target;
    target = other;
    other = swapped;
  }
  if (mine < chunks) {
    other.store(plain + uint64_t(chunk) * Point::kWords);
    target.store(weighted + uint64_t(chunk) * Point::kWords);
  }
}
