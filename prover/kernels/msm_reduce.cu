// The sums that workers set aside to their buckets, and from the chunks' sums to one for each window; for one curve and
// group (CZK_FP, CZK_GROUP).
//
// Of each chunk c, msm_chunks.cu found A[c] and Y[c]; a window of m chunks sums up m * Y[c] + (c + 1) * A[c]. The sum of
// c * A[c] is that of 2^j * D[j] over j, where D[j] adds up the A[c] whose c has bit j set. A binary tree finds A's total and all D[j]
// at once, in place: a node of 2^l chunks keeps its total at offset 0 and its D[j] at offset 2^j; joining two nodes adds
// these of the right one to the left one's, and the right one's total, left where it is, becomes D[l].
#include "lane_point.cuh"
#include "msm.cuh"
#include "quad.cuh"

CZK_BEGIN

using Base = Field<CZK_FP, MulForm::kOutlined>;
using Coordinate = CoordinateOver<Base>;
using Point = QuadPoint<Coordinate>;
using Whole = LanePoint<Coordinate>;

constexpr uint32_t kMergeThreads = 128;
constexpr uint32_t kFoldThreads = 128;
constexpr uint32_t kWindowThreads = 256;
constexpr uint32_t kXyzzWords = Point::kWords;

CZK_FN uint32_t* point_at(uint32_t* points, uint64_t i) { return points + i * kXyzzWords; }
CZK_FN const uint32_t* point_at(const uint32_t* points, uint64_t i) { return points + i * kXyzzWords; }

// Calls use(task, some) for the tasks of a block, one for kLanes lanes each, while any in the warp have one; `some` is
// false for those that have none, and then task is a valid one.
template <uint32_t kLanes = Point::kLanes, class Use>
CZK_FN void each_task(uint32_t tasks, Use&& use) {
  constexpr uint32_t kInWarp = 32 / kLanes;
  const uint32_t step = grid::block_threads() / kLanes, mine = grid::thread() / kLanes;
  for (uint32_t first = mine & ~(kInWarp - 1); first < tasks; first += step) {
    const uint32_t task = first + (mine & (kInWarp - 1));
    use(task < tasks ? task : tasks - 1, task < tasks);
  }
}

CZK_FN void add_in_place(uint32_t* target, const uint32_t* source, bool some) {
  const Point sum = Point::load(target) + Point::load(source);
  if (some) sum.store(target);
}

// Joins the nodes of 2^level chunks among the 2^log_span chunks whose sums begin at plain and weighted.
CZK_FN void join_nodes(uint32_t* plain, uint32_t* weighted, uint32_t log_span, uint32_t level) {
  const uint32_t each = level + 2;  // the total, D[0] to D[level - 1], and the weighted sum
  each_task((uint32_t(1) << (log_span - level - 1)) * each, [&](uint32_t task, bool some) {
    const uint32_t left = task / each << (level + 1), right = left + (uint32_t(1) << level), what = task % each;
    uint32_t* sums = what == each - 1 ? weighted : plain;
    const uint32_t offset = what == 0 || what == each - 1 ? 0 : uint32_t(1) << (what - 1);
    add_in_place(point_at(sums, left + offset), point_at(sums, right + offset), some);
  });
  grid::barrier();
}

CZK_END

using namespace czk;

// Adds the sums that workers set aside to their buckets. sums, owners: n of them; those of one bucket are neighbours. A
// block joins its own; what belongs to a bucket whose first sum another block has goes to next_sums and next_owners, one
// for each block, which the next launch takes. The last launch has one block.
CZK_KERNEL(kMergeThreads) msm_merge(uint32_t* sums, const uint32_t* owners, uint32_t n, uint32_t* buckets,
                                    uint32_t* next_sums, uint32_t* next_owners) {
  CZK_SHARED uint32_t shared_owners[kMergeThreads];
  CZK_SHARED uint32_t starts[2][kMergeThreads];
  CZK_SHARED uint32_t receivers[kMergeThreads];
  const uint32_t t = grid::thread(), i = grid::thread_of_all();
  const uint32_t owner = i < n ? owners[i] : kNone;
  shared_owners[t] = owner;
  grid::barrier();
  const bool first = t == 0 || owner != shared_owners[t - 1];
  starts[0][t] = first ? t : 0;
  grid::barrier();
  uint32_t side = 0;
  for (uint32_t distance = 1; distance < kMergeThreads; distance *= 2, side ^= 1) {
    const uint32_t mine = starts[side][t], before = t >= distance ? starts[side][t - distance] : 0;
    starts[side ^ 1][t] = mine > before ? mine : before;
    grid::barrier();
  }
  const uint32_t rank = t - starts[side][t];

  // Rank r takes over the sum of rank r + distance, where 2*distance divides r.
  for (uint32_t distance = 1; distance < kMergeThreads; distance *= 2) {
    const bool joins = owner != kNone && rank % (2 * distance) == 0 && t + distance < kMergeThreads &&
                       shared_owners[t + distance] == owner;
    if (!grid::barrier_any(joins)) break;
    receivers[t] = joins;
    grid::barrier();
    each_task(kMergeThreads, [&](uint32_t task, bool) {
      const bool some = receivers[task];
      if (!grid::any_lane(some)) return;
      const uint32_t place = grid::block() * kMergeThreads + task;
      add_in_place(point_at(sums, some ? place : 0), point_at(sums, some ? place + distance : 0), some);
    });
  }
  grid::barrier();
  const bool continues = t == 0 && owner != kNone && i > 0 && owners[i - 1] == owner;
  receivers[t] = first && owner != kNone && !continues;
  if (t == 0) next_owners[grid::block()] = continues ? owner : kNone;
  grid::barrier();
  each_task<Whole::kLanes>(kMergeThreads, [&](uint32_t task, bool) {
    const bool some = receivers[task];
    if (!grid::any_lane(some)) return;
    uint32_t* bucket = point_at(buckets, some ? shared_owners[task] : 0);
    Whole sum = Whole::load(bucket);
    sum.add(Whole::load(point_at(sums, some ? grid::block() * kMergeThreads + task : 0)));
    if (some) sum.store(bucket);
  });
  if (grid::thread() < 32 && grid::any_lane(continues)) {
    const Point sum = Point::load(point_at(sums, grid::block() * kMergeThreads));
    if (grid::thread() < Point::kLanes) sum.store(point_at(next_sums, grid::block()));
  }
}

// The tree over each block's 2^levels chunks. plain, weighted: A and Y of each chunk of all windows.
CZK_KERNEL(kFoldThreads) msm_fold(uint32_t levels, uint32_t* plain, uint32_t* weighted) {
  const uint64_t first = uint64_t(grid::block()) << levels;
  plain = point_at(plain, first);
  weighted = point_at(weighted, first);
  for (uint32_t level = 0; level < levels; level++) join_nodes(plain, weighted, levels, level);
}

// The rest of the tree, and the window's sum. A block a window.
CZK_KERNEL(kWindowThreads) msm_window_sums(const Cut* cut, uint32_t levels, uint32_t* plain, uint32_t* weighted,
                                           uint32_t* window_sums) {
  const uint32_t window = cut->first + grid::block();
  const uint32_t log_span = cut->log_chunks[cut->wide(window)], chunks = cut->chunks(window);
  plain = point_at(plain, cut->first_chunk(window));
  weighted = point_at(weighted, cut->first_chunk(window));
  for (uint32_t level = levels; level < log_span; level++) join_nodes(plain, weighted, log_span, level);
  if (grid::thread() >= 32) return;
  Point sum = Point::infinity();
  const Point all_weighted = Point::load(weighted);
  for (uint32_t j = log_span + 1; j-- > 0;) {
    sum = sum.dbl();
    if (j < log_span) sum = sum + Point::load(point_at(plain, uint32_t(1) << j));
    if (chunks >> j & 1) sum = sum + all_weighted;
  }
  sum = sum + Point::load(plain);
  if (grid::thread() < Point::kLanes) sum.store(point_at(window_sums, grid::block()));
}
