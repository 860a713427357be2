// Sparse matrix times vector over Fr: rows in compressed form, coefficients by index into a table of value * R^2, so
// that one Montgomery product with a canonical value is the Montgomery form of the product. Indices 0 and 1 are +1 and -1:
// those values are added up as they are, and converted once a row.
//
// A block has a row for each thread. Short rows are one thread's work; longer ones are done by the whole warp after
// that, and the longest by the whole block.
#include "field.cuh"
#include "grid.cuh"
#include "params.cuh"

CZK_BEGIN

using Fr = Field<CZK_FR, kHotForm>;

constexpr uint32_t kSpmvThreads = 256;
constexpr uint32_t kWarpLanes = 32;
constexpr uint32_t kLaneEntries = 24;    // at most, in a thread's row
constexpr uint32_t kWarpEntries = 2048;  // at most, in a warp's row

struct Matrix {
  const uint32_t* row_ptr;  // 64-bit offsets
  const uint32_t* col;
  const uint32_t* coef;
  const uint32_t* table;

  CZK_FN uint64_t offset(uint32_t row) const {
    uint32_t words[2];
    grid::load_two(words, row_ptr + 2 * uint64_t(row));
    return uint64_t(words[1]) << 32 | words[0];
  }
};

CZK_FN Fr load_element(const uint32_t* source, uint32_t index) {
  Fr x;
  load_words<Fr::N>(x.v, source + uint64_t(index) * Fr::N);
  return x;
}

// The sum over the entries first, first + step, ... below end.
CZK_FN Fr partial_sum(const Matrix& m, const uint32_t* vector, uint64_t first, uint64_t end, uint32_t step) {
  Fr plain = Fr::zero(), products = Fr::zero();
  for (uint64_t k = first; k < end; k += step) {
    const uint32_t coef = m.coef[k];
    const Fr value = load_element(vector, m.col[k]);
    if (coef == 0)
      plain = plain + value;
    else if (coef == 1)
      plain = plain - value;
    else
      products = products + load_element(m.table, coef) * value;
  }
  return products + plain.to_montgomery();
}

CZK_FN Fr warp_sum(Fr x) {
  for (uint32_t offset = kWarpLanes / 2; offset; offset /= 2) {
    Fr other;
    grid::words_from_lane(other.v, x.v, Fr::N, grid::lane() ^ offset);
    x = x + other;
  }
  return x;
}

CZK_FN void store_row(uint32_t* out, uint32_t row, const Fr& x) {
  store_words<Fr::N>(out + uint64_t(row) * Fr::N, x.v);
}

CZK_END

CZK_KERNEL(czk::kSpmvThreads)
spmv(const uint32_t* row_ptr, const uint32_t* col, const uint32_t* coef, const uint32_t* table, const uint32_t* vector,
     uint32_t* out, uint32_t rows) {
  using namespace czk;
  CZK_SHARED uint32_t long_rows[kSpmvThreads];
  CZK_SHARED uint32_t long_count;
  alignas(16) CZK_SHARED uint32_t sums[kSpmvThreads / kWarpLanes * Fr::N];
  const Matrix m{row_ptr, col, coef, table};
  if (grid::thread() == 0) long_count = 0;
  grid::barrier();

  const uint32_t row = grid::thread_of_all();
  const uint64_t begin = row < rows ? m.offset(row) : 0, end = row < rows ? m.offset(row + 1) : 0;
  const bool is_short = end - begin <= kLaneEntries, is_long = end - begin > kWarpEntries;
  if (row < rows && is_short) store_row(out, row, partial_sum(m, vector, begin, end, 1));
  if (is_long) long_rows[grid::add_to(&long_count, 1)] = row;

  uint32_t waiting = grid::lanes_that(!is_short && !is_long);
  while (waiting) {
    const uint32_t source = grid::lowest_one(waiting);
    waiting &= waiting - 1;
    const uint32_t warp_row = row - grid::lane() + source;
    const uint64_t first = m.offset(warp_row) + grid::lane();
    const Fr sum = warp_sum(partial_sum(m, vector, first, m.offset(warp_row + 1), kWarpLanes));
    if (grid::lane() == 0) store_row(out, warp_row, sum);
  }
  grid::barrier();

  for (uint32_t i = 0; i < long_count; i++) {
    const uint64_t first = m.offset(long_rows[i]) + grid::thread();
    Fr sum = warp_sum(partial_sum(m, vector, first, m.offset(long_rows[i] + 1), kSpmvThreads));
    if (grid::lane() == 0) store_row(sums, grid::thread() / kWarpLanes, sum);
    grid::barrier();
    if (grid::thread() == 0) {
      for (uint32_t warp = 1; warp < kSpmvThreads / kWarpLanes; warp++) sum = sum + load_element(sums, warp);
      store_row(out, long_rows[i], sum);
    }
    grid::barrier();
  }
}
