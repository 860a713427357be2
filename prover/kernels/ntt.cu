// One pass of a number-theoretic transform over Fr, Montgomery form.
//
// n = R1*R2*R3 (fewer factors for small n). A pass transforms along one of them: a block gathers a tile of `columns`
// sub-transforms of length R = 2^levels into shared memory, does up to ten levels there (decimation in frequency, three
// at a time in registers), multiplies by what the pass owes, and puts the rows back. All passes but the last keep
// every element's place, with index k for r; the last one writes in natural order:
//
//   X[k1 + R1*k2 + R1*R2*k3] = sum over i3 of w_R3^(i3 k3) w_(R2 R3)^(k2 i3) * sum over i2 of ...
//
// Source of the scheme: Bailey, "FFTs in external or hierarchical memory", Journal of Supercomputing 4 (1990).
#include "field.cuh"
#include "grid.cuh"
#include "params.cuh"

CZK_BEGIN

using Fr = Field<CZK_FR, kHotForm>;

constexpr uint32_t kNttThreads = 128;
constexpr uint32_t kHalf = 4;  // words of half an element, what one access moves

CZK_FN Fr load_element(const uint32_t* source, uint32_t index) {
  Fr x;
  load_words<Fr::N>(x.v, source + uint64_t(index) * Fr::N);
  return x;
}

// What an element is multiplied by before or after a pass, as a power from a table.
enum Exponent : uint32_t {
  kNothing = 0,   // not at all
  kTwiddle = 1,   // (k * position behind it) << shift: between two passes
  kPosition = 2,  // the index in natural order: powers of a coset's shift
  kConstant = 3,  // 0: the table's first element
};

// Powers in two tables: low[e mod 2^split] * high[e / 2^split]; without `high`, low[e].
struct Powers {
  const uint32_t* low;
  const uint32_t* high;
  uint32_t split;

  CZK_FN Fr operator()(uint32_t e) const {
    if (high == nullptr) return load_element(low, e);
    return load_element(low, e & ((1u << split) - 1)) * load_element(high, e >> split);
  }
};

// A tile in shared memory: the two halves of its elements in planes, and within a plane each group of eight permuted by
// the next three bits of the index. Whatever power of two lies between the elements of a warp, eight consecutive lanes
// then meet eight different groups of banks. In the second plane fours change places, for lanes that copy both halves.
class Tile {
 public:
  CZK_FN Tile(uint32_t* memory, uint32_t log_size) : low_(memory), high_(memory + kHalf * plane(log_size)) {}
  CZK_FN uint32_t* half(uint32_t index, uint32_t which) const {
    return which ? high_ + high(index) : low_ + low(index);
  }
  CZK_FN Fr load(uint32_t index) const {
    Fr x;
    grid::load_four(x.v, low_ + low(index));
    grid::load_four(x.v + kHalf, high_ + high(index));
    return x;
  }
  CZK_FN void store(uint32_t index, const Fr& x) const {
    grid::store_four(low_ + low(index), x.v);
    grid::store_four(high_ + high(index), x.v + kHalf);
  }

 private:
  static CZK_FN uint32_t plane(uint32_t log_size) { return log_size < 3 ? 8 : 1u << log_size; }
  static CZK_FN uint32_t low(uint32_t index) { return kHalf * (index ^ (index >> 3 & 7)); }
  static CZK_FN uint32_t high(uint32_t index) { return low(index ^ 4); }
  uint32_t* low_;
  uint32_t* high_;
};

// What a pass's tile holds: 2^log_columns transforms of 2^levels elements. Element (row, column) is at row*columns + column.
struct Shape {
  uint32_t levels, log_columns;
  CZK_FN uint32_t size() const { return 1u << (levels + log_columns); }
  CZK_FN uint32_t row(uint32_t index) const { return index >> log_columns; }
  CZK_FN uint32_t column(uint32_t index) const { return index & ((1u << log_columns) - 1); }
};

// kLog levels on 2^kLog rows that lie 2^log_stride apart, the first of them row s of its stretch. With kTrivial s is 0,
// and so is the exponent of every first twiddle.
template <int kLog, bool kTrivial>
CZK_FN void butterflies(Fr* x, const uint32_t* roots, uint32_t s, uint32_t log_stride, uint32_t level) {
  CZK_UNROLL for (int l = 0; l < kLog; l++) {
    const int half = 1 << (kLog - 1 - l);
    CZK_UNROLL for (int j = 0; j < half; j++) {
      Fr w;
      if (!kTrivial || j) w = load_element(roots, (s + (uint32_t(j) << log_stride)) << (level + l));
      CZK_UNROLL for (int block = 0; block < (1 << kLog); block += 2 * half) {
        const Fr difference = x[block + j] - x[block + j + half];
        x[block + j] = x[block + j] + x[block + j + half];
        x[block + j + half] = !kTrivial || j ? difference * w : difference;
      }
    }
  }
}

template <int kLog, bool kTrivial>
CZK_FN void step(const Tile& tile, Shape shape, const uint32_t* roots, uint32_t level) {
  const uint32_t log_stride = shape.levels - level - kLog;
  const uint32_t apart = shape.log_columns + log_stride;
  for (uint32_t g = grid::thread(); g < shape.size() >> kLog; g += grid::block_threads()) {
    const uint32_t s = shape.row(g) & ((1u << log_stride) - 1);
    const uint32_t first = ((g >> apart) << (apart + kLog)) + (g & ((1u << apart) - 1));
    Fr x[1 << kLog];
    CZK_UNROLL for (int m = 0; m < (1 << kLog); m++) x[m] = tile.load(first + (uint32_t(m) << apart));
    butterflies<kLog, kTrivial>(x, roots, s, log_stride, level);
    CZK_UNROLL for (int m = 0; m < (1 << kLog); m++) tile.store(first + (uint32_t(m) << apart), x[m]);
  }
  grid::barrier();
}

// All levels. Row k of the result is at row reversed(k).
CZK_FN void transform(const Tile& tile, Shape shape, const uint32_t* roots) {
  uint32_t level = shape.levels % 3;
  if (level == 1) step<1, false>(tile, shape, roots, 0);
  if (level == 2) step<2, false>(tile, shape, roots, 0);
  for (; level + 3 < shape.levels; level += 3) step<3, false>(tile, shape, roots, level);
  if (level < shape.levels) step<3, true>(tile, shape, roots, level);
}

// Where element (row, column) of a block's tile comes from and goes to.
struct Place {
  uint64_t base, row, column;
  CZK_FN uint64_t operator()(uint32_t r, uint32_t c) const { return base + r * row + c * column; }
};

CZK_END

// `roots`: powers of the 2^levels-th root. The last pass (log_after = 0) has tiles over k1 and blocks over k2, with
// log_first and log_middle levels before it. The others have tiles over the positions behind their own index, 2^log_after
// of them, and blocks over these and what lies before. `before` and `after` are exponents, their tables the Powers.
CZK_KERNEL_RESIDENT(czk::kNttThreads, 4)
ntt_pass(const uint32_t* in, uint32_t* out, const uint32_t* roots, const uint32_t* before_low,
         const uint32_t* before_high, uint32_t before_split, uint32_t before, const uint32_t* after_low,
         const uint32_t* after_high, uint32_t after_split, uint32_t after, uint32_t shift, uint32_t levels,
         uint32_t log_columns, uint32_t log_first, uint32_t log_middle, uint32_t log_after) {
  using namespace czk;
  CZK_DYNAMIC_SHARED(shared);
  const Shape shape{levels, log_columns};
  const Tile tile(shared, levels + log_columns);
  const uint32_t columns = 1u << log_columns, size = shape.size();
  const bool last = log_after == 0;

  Place from, to;
  uint32_t position = 0;  // of column 0 behind the pass's index
  if (last) {
    const uint64_t k2 = grid::block() & ((1u << log_middle) - 1);
    const uint64_t k1 = uint64_t(grid::block() >> log_middle) << log_columns;
    from = {((k1 << log_middle) + k2) << levels, 1, uint64_t(1) << (log_middle + levels)};
    to = {k1 + (k2 << log_first), uint64_t(1) << (log_first + log_middle), 1};
  } else {
    const uint32_t log_tiles = log_after - log_columns;
    position = (grid::block() & ((1u << log_tiles) - 1)) << log_columns;
    from = {(uint64_t(grid::block() >> log_tiles) << (levels + log_after)) + position, uint64_t(1) << log_after, 1};
    to = from;
  }

  // Threads run along what is contiguous: an element's halves, then rows in the last pass, columns in the others.
  CZK_UNROLL_SOME for (uint32_t u = grid::thread(); u < 2 * size; u += grid::block_threads()) {
    const uint32_t half = u & 1, element = u >> 1;
    const uint32_t row = last ? element & ((1u << levels) - 1) : shape.row(element);
    const uint32_t column = last ? element >> levels : shape.column(element);
    uint32_t words[kHalf];
    grid::load_four(words, in + kHalf * (2 * from(row, column) + half));
    grid::store_four(tile.half(row * columns + column, half), words);
  }
  grid::barrier();

  if (before != kNothing) {
    const Powers factor{before_low, before_high, before_split};
    for (uint32_t element = grid::thread(); element < size; element += grid::block_threads()) {
      const uint32_t e = before == kPosition ? uint32_t(from(shape.row(element), shape.column(element))) : 0;
      tile.store(element, tile.load(element) * factor(e));
    }
    grid::barrier();
  }

  transform(tile, shape, roots);

  if (after != kNothing) {
    const Powers factor{after_low, after_high, after_split};
    for (uint32_t element = grid::thread(); element < size; element += grid::block_threads()) {
      const uint32_t k = grid::reversed_bits(shape.row(element), levels), column = shape.column(element);
      uint32_t e = 0;
      if (after == kTwiddle) e = (k * (position + column)) << shift;
      if (after == kPosition) e = uint32_t(to(k, column));
      tile.store(element, tile.load(element) * factor(e));
    }
    grid::barrier();
  }

  CZK_UNROLL_SOME for (uint32_t u = grid::thread(); u < 2 * size; u += grid::block_threads()) {
    const uint32_t half = u & 1, element = u >> 1;
    const uint32_t k = shape.row(element), column = shape.column(element);
    uint32_t words[kHalf];
    grid::load_four(words, tile.half(grid::reversed_bits(k, levels) * columns + column, half));
    grid::store_four(out + kHalf * (2 * to(k, column) + half), words);
  }
}
