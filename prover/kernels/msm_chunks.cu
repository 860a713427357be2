// From the sums of the buckets to those of chunks of buckets, for one curve and group (CZK_FP, CZK_GROUP).
//
// A window's sum is that of (b + 1) * bucket[b]. The first step to it takes the buckets in chunks of 2^log_chunk. Adding up
// a chunk's buckets from the last to the first, and the running sums too, gives the chunk's plain sum and its weighted sum.
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

// Plain and weighted sums of each of the `chunks` chunks of all windows.
CZK_KERNEL(kChunkThreads) msm_chunks(const uint32_t* buckets, uint32_t log_chunk, uint32_t chunks, uint32_t* plain,
                                     uint32_t* weighted) {
  const uint32_t mine = grid::thread_of_all() / Point::kLanes, chunk = min_of(mine, chunks - 1);
  const uint32_t* bucket = buckets + ((uint64_t(chunk) + 1) << log_chunk) * Point::kWords;
  // Every other time the next bucket joins the running sum, then that joins the sum. The two change places, so that there
  // is one addition in the code.
  Point target = Point::infinity(), other = Point::infinity();
  for (uint32_t turn = uint32_t(2) << log_chunk; turn-- > 0;) {
    Point addend = other;
    if (turn & 1) {
      bucket -= Point::kWords;
      addend = Point::load(bucket);
    }
    target.add(addend);
    const Point swapped = target;
    target = other;
    other = swapped;
  }
  if (mine < chunks) {
    target.store(plain + uint64_t(chunk) * Point::kWords);
    other.store(weighted + uint64_t(chunk) * Point::kWords);
  }
}
