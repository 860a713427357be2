// Scalars as signed digits, and the digits' points sorted by bucket. Integers only: one module for all curves and groups.
//
// A scalar s above r/2 counts as r - s with the sign turned, so one bit less has to be cut into windows, and a digit of w
// bits lies in [-2^(w-1), 2^(w-1)), or, in the top window, in [0, 2^(w-1)]. A bucket collects the digits of one window
// and one magnitude; buckets of consecutive windows are numbered on. An entry is a bucket and a point, whose number is
// doubled and carries the sign in its lowest bit. Zero digits make no entry.
//
// The sort has two passes. The first throws entries into coarse bins of 2^low_bits buckets: count, scan, scatter. The
// second orders every bin by bucket; it works on tiles, pieces of a bin of bounded length, so that bins which hold
// nearly everything are shared by many blocks. Within a bucket the order is whatever it happens to be.
#include "carry.cuh"
#include "grid.cuh"
#include "msm.cuh"

CZK_BEGIN

constexpr uint32_t kSortThreads = 512;
constexpr uint32_t kScanThreads = 1024;
constexpr int kScalarsEach = 4;
constexpr int kEntriesEach = 8;

// A scalar folded to at most r/2, with the offsets of its digits added, from which digits are taken lowest first. All
// lanes of a warp do so together, those without a scalar (i >= n) too.
struct Digits {
  uint32_t rest[kScalarWords];
  uint32_t point;
  bool some;

  CZK_FN void begin(const Cut& cut, const uint32_t* scalars, uint32_t i, uint32_t n) {
    constexpr int N = kScalarWords;
    uint32_t negated[N];
    some = i < n;
    CZK_UNROLL for (int j = 0; j < N; j++) rest[j] = 0;
    if (some) load_words<N>(rest, scalars + uint64_t(i) * N);
    CarryChain minus;
    negated[0] = minus.sub_cc(cut.modulus[0], rest[0]);
    CZK_UNROLL for (int j = 1; j < N; j++) negated[j] = minus.subc_cc(cut.modulus[j], rest[j]);
    // Nobody passes a scalar above the modulus; if memory changed under us, its digits must not leave the buckets.
    if (minus.subc(0, 0) != 0) some = false;
    CarryChain compare;
    compare.sub_cc(negated[0], rest[0]);
    CZK_UNROLL for (int j = 1; j < N; j++) compare.subc_cc(negated[j], rest[j]);
    const bool flip = compare.subc(0, 0) != 0;
    CZK_UNROLL for (int j = 0; j < N; j++) rest[j] = flip ? negated[j] : rest[j];
    point = 2 * i + uint32_t(flip);
    CarryChain plus;
    rest[0] = plus.add_cc(rest[0], cut.offset[0]);
    CZK_UNROLL for (int j = 1; j < N - 1; j++) rest[j] = plus.addc_cc(rest[j], cut.offset[j]);
    rest[N - 1] = plus.addc(rest[N - 1], cut.offset[N - 1]);
  }

  // The entry of window w, with bucket = kNone for a zero digit. Windows are taken in order, from 0 on.
  CZK_FN Entry next(const Cut& cut, uint32_t w) {
    const uint32_t width = cut.width(w);
    const uint32_t half = w + 1 == cut.windows ? 0 : uint32_t(1) << (width - 1);
    const uint32_t bits = rest[0] & ((uint32_t(1) << width) - 1);
    CZK_UNROLL for (int j = 0; j < kScalarWords - 1; j++) rest[j] = rest[j] >> width | rest[j + 1] << (32 - width);
    rest[kScalarWords - 1] >>= width;
    const bool negative = bits < half;
    const uint32_t magnitude = negative ? half - bits : bits - half;
    return {some && magnitude != 0 ? cut.first_bucket(w) + magnitude - 1 : kNone, point ^ uint32_t(negative)};
  }
};

// counters[bin]++ for every lane that has a bin; what was there before it. Lanes that agree with the first one count
// together: witnesses are full of zeros and ones, and then all lanes want the same counter.
CZK_FN uint32_t count(uint32_t* counters, uint32_t bin) {
  const uint32_t wanting = grid::lanes_that(bin != kNone);
  if (wanting == 0) return 0;
  const uint32_t leader = grid::lowest_one(wanting);
  const uint32_t common = grid::from_lane(bin, leader);
  const uint32_t agreeing = grid::lanes_that(bin == common);
  uint32_t before = 0;
  if (grid::lane() == leader) before = grid::add_to(&counters[common], grid::ones_in(agreeing));
  before = grid::from_lane(before, leader) + grid::ones_in(agreeing & ((uint32_t(1) << grid::lane()) - 1));
  if (bin != kNone && bin != common) before = grid::add_to(&counters[bin], 1);
  return before;
}

CZK_FN void clear(uint32_t* words, uint32_t n) {
  for (uint32_t i = grid::thread(); i < n; i += grid::block_threads()) words[i] = 0;
  grid::barrier();
}

// Replaces this thread's value by the sum of those before it in the block; the block's sum. scratch: two words a thread.
CZK_FN uint32_t scan_block(uint32_t& value, uint32_t* scratch) {
  const uint32_t t = grid::thread(), threads = grid::block_threads(), mine = value;
  uint32_t *from = scratch, *to = scratch + threads;
  from[t] = mine;
  grid::barrier();
  for (uint32_t distance = 1; distance < threads; distance *= 2) {
    to[t] = from[t] + (t >= distance ? from[t - distance] : 0);
    grid::barrier();
    uint32_t* swapped = from;
    from = to;
    to = swapped;
  }
  value = from[t] - mine;
  const uint32_t sum = from[threads - 1];
  grid::barrier();
  return sum;
}

// The tile that a block works on: entries [begin, end) of one coarse bin, at most kEntriesEach a thread.
struct Tile {
  uint32_t bin, begin, end;
};
CZK_FN bool find_tile(Tile& tile, const uint32_t* starts, const uint32_t* tile_starts, uint32_t bins) {
  const uint32_t number = grid::block(), length = grid::block_threads() * kEntriesEach;
  if (number >= tile_starts[bins]) return false;
  uint32_t low = 0, high = bins;  // tile_starts[low] <= number < tile_starts[high]
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    if (tile_starts[middle] <= number)
      low = middle;
    else
      high = middle;
  }
  tile.bin = low;
  tile.begin = starts[low] + (number - tile_starts[low]) * length;
  tile.end = tile.begin + min_of(starts[low + 1] - tile.begin, length);
  return true;
}
// This thread's entries of the tile; bucket = kNone where there is none.
CZK_FN void load_tile(Entry* entry, const Tile& tile, const uint32_t* entries) {
  CZK_UNROLL for (int k = 0; k < kEntriesEach; k++) {
    const uint32_t i = tile.begin + uint32_t(k) * grid::block_threads() + grid::thread();
    entry[k] = i < tile.end ? load_entry(entries, i) : Entry{kNone, 0};
  }
}
CZK_FN uint32_t bucket_in_bin(const Entry& entry, uint32_t buckets) {
  return entry.bucket == kNone ? kNone : entry.bucket & (buckets - 1);
}

// Writes the entries of each block's scalars, kEach a thread, to their coarse bins. The windows come one after another, so
// that what is written at about the same time lies together. local: a word for each bin of the widest window.
template <int kEach>
CZK_FN void scatter_coarse(const Cut& cut, const uint32_t* scalars, uint32_t n, uint32_t low_bits, uint32_t* cursors,
                           uint32_t* entries, uint32_t* local) {
  const uint32_t threads = grid::block_threads(), first = grid::block() * threads * kEach + grid::thread();
  Digits digits[kEach];
  CZK_UNROLL for (int k = 0; k < kEach; k++) digits[k].begin(cut, scalars, first + uint32_t(k) * threads, n);
  for (uint32_t w = 0; w < cut.last; w++) {
    Entry entry[kEach];
    CZK_UNROLL for (int k = 0; k < kEach; k++) entry[k] = digits[k].next(cut, w);
    if (w < cut.first) continue;
    const uint32_t first_bin = cut.first_bucket(w) >> low_bits, bins = cut.buckets(w) >> low_bits;
    clear(local, bins);
    uint32_t rank[kEach];
    CZK_UNROLL for (int k = 0; k < kEach; k++)
      rank[k] = count(local, entry[k].bucket == kNone ? kNone : (entry[k].bucket >> low_bits) - first_bin);
    grid::barrier();
    for (uint32_t bin = grid::thread(); bin < bins; bin += threads)
      if (local[bin]) local[bin] = grid::add_to(&cursors[first_bin + bin], local[bin]);
    grid::barrier();
    CZK_UNROLL for (int k = 0; k < kEach; k++)
      if (entry[k].bucket != kNone) store_entry(entries, local[(entry[k].bucket >> low_bits) - first_bin] + rank[k], entry[k]);
    grid::barrier();
  }
}

CZK_END

using namespace czk;

// n times 16 bytes of zeros.
CZK_KERNEL(kSortThreads) msm_zero(uint32_t* words, uint32_t n) {
  const uint32_t zeros[4] = {};
  for (uint64_t i = grid::thread_of_all(); i < n; i += grid::all_threads()) grid::store_four(words + 4 * i, zeros);
}

// counts[bin] += entries of each coarse bin. Shared: one word a bin.
CZK_KERNEL(kSortThreads) msm_count_coarse(const Cut* cut, const uint32_t* scalars, uint32_t n, uint32_t low_bits,
                                          uint32_t bins, uint32_t* counts) {
  CZK_DYNAMIC_SHARED(local);
  clear(local, bins);
  const uint32_t step = grid::all_threads();
  for (uint64_t base = grid::block() * grid::block_threads(); base < n; base += step) {
    Digits digits;
    digits.begin(*cut, scalars, uint32_t(base) + grid::thread(), n);
    for (uint32_t w = 0; w < cut->last; w++) {
      const Entry entry = digits.next(*cut, w);
      if (w >= cut->first) count(local, entry.bucket == kNone ? kNone : entry.bucket >> low_bits);
    }
  }
  grid::barrier();
  for (uint32_t bin = grid::thread(); bin < bins; bin += grid::block_threads())
    if (local[bin]) grid::add_to(&counts[bin], local[bin]);
}

// One block. starts[bin] = cursors[bin] = entries before a coarse bin, tile_starts[bin] = tiles before it; each array of
// starts has one word more, for the total.
CZK_KERNEL(kScanThreads) msm_scan_coarse(const uint32_t* counts, uint32_t bins, uint32_t tile_length, uint32_t* starts,
                                         uint32_t* cursors, uint32_t* tile_starts) {
  CZK_SHARED uint32_t scratch[2 * kScanThreads];
  const uint32_t each = (bins + grid::block_threads() - 1) / grid::block_threads();
  const uint32_t begin = min_of(grid::thread() * each, bins), end = min_of(begin + each, bins);
  uint32_t entries = 0, tiles = 0;
  for (uint32_t bin = begin; bin < end; bin++) {
    entries += counts[bin];
    tiles += (counts[bin] + tile_length - 1) / tile_length;
  }
  const uint32_t all_entries = scan_block(entries, scratch), all_tiles = scan_block(tiles, scratch);
  for (uint32_t bin = begin; bin < end; bin++) {
    starts[bin] = cursors[bin] = entries;
    tile_starts[bin] = tiles;
    entries += counts[bin];
    tiles += (counts[bin] + tile_length - 1) / tile_length;
  }
  if (grid::thread() == 0) {
    starts[bins] = all_entries;
    tile_starts[bins] = all_tiles;
  }
}

// Scatters the coarse bins' entries; so many scalars a thread: one, or kScalarsEach.
CZK_KERNEL(kSortThreads) msm_scatter_coarse_one(const Cut* cut, const uint32_t* scalars, uint32_t n, uint32_t low_bits,
                                                uint32_t* cursors, uint32_t* entries) {
  CZK_DYNAMIC_SHARED(local);
  scatter_coarse<1>(*cut, scalars, n, low_bits, cursors, entries, local);
}
CZK_KERNEL(kSortThreads) msm_scatter_coarse_many(const Cut* cut, const uint32_t* scalars, uint32_t n,
                                                 uint32_t low_bits, uint32_t* cursors, uint32_t* entries) {
  CZK_DYNAMIC_SHARED(local);
  scatter_coarse<kScalarsEach>(*cut, scalars, n, low_bits, cursors, entries, local);
}

// counts[bucket] += entries of each bucket. A block a tile. Shared: 2^low_bits words.
CZK_KERNEL(kSortThreads) msm_count_fine(const uint32_t* entries, const uint32_t* starts, const uint32_t* tile_starts,
                                        uint32_t bins, uint32_t low_bits, uint32_t* counts) {
  CZK_DYNAMIC_SHARED(local);
  Tile tile;
  if (!find_tile(tile, starts, tile_starts, bins)) return;
  const uint32_t buckets = uint32_t(1) << low_bits;
  clear(local, buckets);
  Entry entry[kEntriesEach];
  load_tile(entry, tile, entries);
  CZK_UNROLL for (int k = 0; k < kEntriesEach; k++) count(local, bucket_in_bin(entry[k], buckets));
  grid::barrier();
  for (uint32_t b = grid::thread(); b < buckets; b += grid::block_threads())
    if (local[b]) grid::add_to(&counts[(tile.bin << low_bits) + b], local[b]);
}

// Turns the counts of a coarse bin's buckets into the places where their entries go. A block a bin.
CZK_KERNEL(kSortThreads) msm_scan_fine(const uint32_t* starts, uint32_t low_bits, uint32_t* counts) {
  CZK_SHARED uint32_t scratch[2 * kSortThreads];
  const uint32_t buckets = uint32_t(1) << low_bits, bin = grid::block();
  const uint32_t each = (buckets + grid::block_threads() - 1) / grid::block_threads();
  const uint32_t begin = min_of(grid::thread() * each, buckets), end = min_of(begin + each, buckets);
  uint32_t* bucket = counts + (uint64_t(bin) << low_bits);
  uint32_t place = 0;
  for (uint32_t b = begin; b < end; b++) place += bucket[b];
  scan_block(place, scratch);
  place += starts[bin];
  for (uint32_t b = begin; b < end; b++) {
    const uint32_t here = bucket[b];
    bucket[b] = place;
    place += here;
  }
}

// Writes a tile's entries to their buckets' places. Shared: 2^low_bits words.
CZK_KERNEL(kSortThreads) msm_scatter_fine(const uint32_t* entries, const uint32_t* starts, const uint32_t* tile_starts,
                                          uint32_t bins, uint32_t low_bits, uint32_t* cursors, uint32_t* sorted) {
  CZK_DYNAMIC_SHARED(local);
  Tile tile;
  if (!find_tile(tile, starts, tile_starts, bins)) return;
  const uint32_t buckets = uint32_t(1) << low_bits;
  clear(local, buckets);
  Entry entry[kEntriesEach];
  uint32_t rank[kEntriesEach];
  load_tile(entry, tile, entries);
  CZK_UNROLL for (int k = 0; k < kEntriesEach; k++) rank[k] = count(local, bucket_in_bin(entry[k], buckets));
  grid::barrier();
  for (uint32_t b = grid::thread(); b < buckets; b += grid::block_threads())
    if (local[b]) local[b] = grid::add_to(&cursors[(tile.bin << low_bits) + b], local[b]);
  grid::barrier();
  CZK_UNROLL for (int k = 0; k < kEntriesEach; k++)
    if (entry[k].bucket != kNone) store_entry(sorted, local[bucket_in_bin(entry[k], buckets)] + rank[k], entry[k]);
}
