// Vectors over Fr: the sparse matrix-vector products that evaluate a constraint system, and what
// follows the transforms.
#include "variant.hpp"
#if CZK_VARIANT_ifma
#include "vector_ops_ifma.hpp"
#endif

CZK_BEGIN
namespace {

template <class T>
CZK_FN T load_integer(const T* base, uint64_t i) {
  T value;
  std::memcpy(&value, at(static_cast<const void*>(base), i, sizeof(T)), sizeof(T));
  return value;
}

// --- sparse matrix times vector -------------------------------------------------------------------------------------

constexpr uint64_t kTermsPerTask = 1 << 14;
// The witness is read at random: so many terms ahead.
constexpr uint64_t kPrefetch = 16;

// One row of the product. Terms with coefficient +-1 need no multiplication: their witness values are summed as they
// are, and the sum enters with one product by R^2, as if R^2 were its table entry.
template <class F>
class RowSum {
 public:
  // The sign costs no branch: it is often as good as random.
  CZK_FN void unit(bool negative, const F& w) { units_ = units_ + negated_if(negative, w), has_units_ = true; }
  CZK_FN void product(const F& entry, const F& w) { products_ = products_ + entry * w; }
  CZK_FN F montgomery() const { return has_units_ ? products_ + units_.to_montgomery() : products_; }

 private:
  // w, or p - w (p for 0, which a sum with a reduced element takes back into range).
  static CZK_FN F negated_if(bool negative, const F& w) {
    uint64_t mask = 0 - uint64_t(negative), carry = negative;
    F out;
    CZK_UNROLL for (int i = 0; i < F::N; i++) {
      u128 s = u128(w.v[i] ^ mask) + (F::K.p[i] & mask) + carry;
      out.v[i] = uint64_t(s);
      carry = uint64_t(s >> 64);
    }
    return out;
  }

  F units_ = F::zero();
  F products_ = F::zero();
  bool has_units_ = false;
};

struct SparseMatrix {
  uint64_t rows;
  const uint64_t* row_ptr;
  const uint32_t* col;
  const uint32_t* coef;
  const void* table;
  uint64_t table_len;

  uint64_t first(uint64_t row) const { return load_integer(row_ptr, row); }
  // Work before the row: its terms and one unit a row.
  uint64_t work_before(uint64_t row) const { return first(row) - first(0) + row; }
  // The first row with at least this much work before it (or `rows`).
  uint64_t row_at(uint64_t work) const {
    uint64_t low = 0, high = rows;
    while (low < high) {
      uint64_t middle = low + (high - low) / 2;
      if (work_before(middle) < work)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

// What kept a row from being computed: the first worker to see one leaves it here for the caller's error text.
struct BadRow {
  std::atomic<uint64_t> row{~uint64_t(0)};
  int32_t report(uint64_t at) {
    row.store(at, std::memory_order_relaxed);
    return CZK_INVALID;
  }
};

template <class F>
int32_t multiply_rows(const SparseMatrix& m, uint64_t begin, uint64_t end, const void* w, uint64_t w_len, void* out,
                      CzkCancel cancel, BadRow& bad) {
  uint64_t k = m.first(begin), total = m.first(m.rows);
  for (uint64_t row = begin; row < end; row++) {
    uint64_t stop = m.first(row + 1);
    if (stop < k || stop > total) return bad.report(row);
    RowSum<F> sum;
    for (; k < stop; k++) {
      uint32_t col = load_integer(m.col, k), coef = load_integer(m.coef, k);
      if (col >= w_len || coef >= m.table_len) return bad.report(row);
      F x = F::load(at(w, col, F::kBytes));
      if (k + kPrefetch < total) __builtin_prefetch(at(w, load_integer(m.col, k + kPrefetch), F::kBytes));
      if (coef < 2)
        sum.unit(coef == 1, x);
      else
        sum.product(F::load(at(m.table, coef, F::kBytes)), x);
      if (k % kTermsPerTask == 0 && cancelled(cancel)) return CZK_CANCELLED;
    }
    sum.montgomery().store(at(out, row, F::kBytes));
  }
  return CZK_OK;
}

// Tasks of about equal work: long rows and short ones share the threads evenly. The boundaries of the tasks lead from
// row 0 to the last one whatever row_ptr holds, so each row is visited, and one with a bad end is found.
template <class F>
int32_t multiply(const SparseMatrix& m, const void* w, uint64_t w_len, void* out, int32_t threads, CzkCancel cancel) {
  if (m.rows == 0) return CZK_OK;
  if (m.table_len < 2) return fail(CZK_INVALID, "the coefficient table lacks its entries for +1 and -1");
  if (m.first(m.rows) < m.first(0)) return fail(CZK_INVALID, "the matrix ends before it begins");
  Split work(m.work_before(m.rows), m.rows, kTermsPerTask);
  BadRow bad;
  int32_t status = parallel_for(work.parts, threads, cancel, [&](uint64_t task, int32_t) {
    uint64_t begin = m.row_at(work.begin(task));
    uint64_t end = task + 1 == work.parts ? m.rows : m.row_at(work.end(task));
    return begin < end ? multiply_rows<F>(m, begin, end, w, w_len, out, cancel, bad) : int32_t(CZK_OK);
  });
  if (status != CZK_INVALID || threads < 1) return status;
  return fail(CZK_INVALID, "row %llu of the matrix: no such column or coefficient, or a bad end",
              (unsigned long long)bad.row.load());
}

// --- element-wise ---------------------------------------------------------------------------------------------------

constexpr uint64_t kElementsPerTask = 1 << 14;

template <class F>
void mul_sub(const void* a, const void* b, const void* c, void* out, uint64_t begin, uint64_t end, bool canonical) {
#if CZK_VARIANT_ifma
  begin = mul_sub_lanes<F>(a, b, c, out, begin, end, canonical);
#endif
  for (uint64_t i = begin; i < end; i++) {
    F x = F::load(at(a, i, F::kBytes)) * F::load(at(b, i, F::kBytes)) - F::load(at(c, i, F::kBytes));
    if (canonical) x = x.from_montgomery();
    x.store(at(out, i, F::kBytes));
  }
}

template <class F>
uint64_t first_unsatisfied(const void* a, const void* b, const void* c, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) {
    F product = F::load(at(a, i, F::kBytes)) * F::load(at(b, i, F::kBytes));
    if (!(product == F::load(at(c, i, F::kBytes)))) return i;
  }
  return n;
}

}  // namespace
CZK_END

CZK_DEFINE(mul_sub)(int32_t curve, const void* a, const void* b, const void* c, void* out, uint64_t n,
                    int32_t canonical_out, int32_t threads, CzkCancel cancel) {
  using namespace czk;
  return guarded([&] {
    return with_curve(curve, [&](auto tag) {
      using F = typename decltype(tag)::type::Fr;
      return parallel_ranges(n, kElementsPerTask, threads, cancel, [&](uint64_t begin, uint64_t end, int32_t) {
        mul_sub<F>(a, b, c, out, begin, end, canonical_out != 0);
      });
    });
  });
}

CZK_DEFINE(spmv)(int32_t curve, uint64_t rows, const uint64_t* row_ptr, const uint32_t* col, const uint32_t* coef,
                 const void* table, uint64_t table_len, const void* w, uint64_t w_len, void* out, int32_t threads,
                 CzkCancel cancel) {
  using namespace czk;
  return guarded([&] {
    return with_curve(curve, [&](auto tag) {
      using F = typename decltype(tag)::type::Fr;
      return multiply<F>(SparseMatrix{rows, row_ptr, col, coef, table, table_len}, w, w_len, out, threads, cancel);
    });
  });
}

CZK_DEFINE(first_unsatisfied)(int32_t curve, const void* a, const void* b, const void* c, uint64_t n, uint64_t* bad) {
  using namespace czk;
  return guarded([&] {
    return with_curve(curve, [&](auto tag) {
      *bad = first_unsatisfied<typename decltype(tag)::type::Fr>(a, b, c, n);
      return int32_t(CZK_OK);
    });
  });
}
