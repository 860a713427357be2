// The coefficient section of a zkey, checked and turned into two CSR matrices in two passes over the mapped file.
#include <cstring>

#include "variant.hpp"

CZK_BEGIN
namespace {

enum Fault : int32_t { kMatrix = 1, kConstraint = 2, kColumn = 3, kValue = 4, kInputRow = 5 };

constexpr uint64_t kEntryBytes = 44;
constexpr uint32_t kFirstOther = 2;  // table entries 0 and 1 are +1 and -1

template <class Fr>
struct Entry {
  uint32_t matrix, constraint, column;
  Fr value;

  static CZK_FN Entry load(const void* entries, uint64_t i) {
    const char* src = at(entries, i, kEntryBytes);
    Entry e;
    std::memcpy(&e.matrix, src, 4);
    std::memcpy(&e.constraint, src + 4, 4);
    std::memcpy(&e.column, src + 8, 4);
    e.value = Fr::load(src + 12);
    return e;
  }
};

// Gives equal values one table entry. What is remembered is bounded (sets of four, the oldest leaves): a value that was
// forgotten gets a second entry, so a key of millions of different coefficients costs little more than their copy.
template <class Fr>
class Dictionary {
 public:
  Dictionary(void* table, uint64_t n) : table_(table) {
    while (bits_ < kMostBits && (uint64_t(1) << bits_) < n) bits_++;
    sets_ = Buffer<Set>(uint64_t(1) << bits_);
    std::memset(sets_.data(), 0, sets_.size() * sizeof(Set));
    plus_ = Fr::r2(), minus_ = Fr::r2().neg();
    plus_.store(at(table_, 0, Fr::kBytes));
    minus_.store(at(table_, 1, Fr::kBytes));
  }

  CZK_FN uint32_t index(const Fr& value) {
    if (value == plus_) return 0;
    if (value == minus_) return 1;
    uint64_t mixed = 0;
    for (int i = 0; i < Fr::N; i++) mixed = (mixed ^ value.v[i]) * 0x9E3779B97F4A7C15u, mixed ^= mixed >> 32;
    Set& set = sets_[mixed & (sets_.size() - 1)];
    const uint32_t tag = uint32_t(mixed >> 32);
    for (const Slot& slot : set.slots)
      if (slot.index && slot.tag == tag && Fr::load(at(table_, slot.index, Fr::kBytes)) == value) return slot.index;
    for (int i = kWays - 1; i > 0; i--) set.slots[i] = set.slots[i - 1];
    set.slots[0] = {size_, tag};
    value.store(at(table_, size_, Fr::kBytes));
    return size_++;
  }
  uint64_t size() const { return size_; }

 private:
  static constexpr int kWays = 4, kMostBits = 14;
  struct Slot {
    uint32_t index, tag;
  };
  struct Set {
    Slot slots[kWays];
  };
  void* table_;
  int bits_ = 6;
  Buffer<Set> sets_;
  Fr plus_, minus_;
  uint32_t size_ = kFirstOther;
};

// Why entry i is refused, or 0. The last `inputs` entries are the input rows.
template <class Fr>
CZK_FN int32_t fault(const Entry<Fr>& e, uint64_t i, uint64_t n, uint64_t columns, uint64_t constraints,
                     uint64_t inputs) {
  if (e.matrix > 1) return kMatrix;
  if (i >= n - inputs) {
    uint64_t s = i - (n - inputs);
    return e.matrix == 0 && e.constraint == constraints + s && e.column == s && e.value == Fr::r2() ? 0 : kInputRow;
  }
  if (e.constraint >= constraints) return kConstraint;
  if (e.column >= columns) return kColumn;
  return e.value.is_reduced() ? 0 : kValue;
}

}  // namespace
CZK_END

CZK_DEFINE(zkey_matrices)(int32_t curve, const void* entries, uint64_t n, uint64_t columns, uint64_t constraints,
                          uint64_t inputs, uint64_t rows, uint64_t* row_ptr_a, uint64_t* row_ptr_b, uint32_t* col,
                          uint32_t* coef, void* table, uint64_t* table_len, uint64_t* bad, int32_t* why) {
  using namespace czk;
  if (inputs > n || inputs > columns || rows < inputs || constraints > rows - inputs)
    return fail(CZK_INVALID, "zkey coefficients: %llu constraints and %llu inputs in %llu rows, %llu columns, %llu entries",
                (unsigned long long)constraints, (unsigned long long)inputs, (unsigned long long)rows,
                (unsigned long long)columns, (unsigned long long)n);
  if (n > 0xffffffff - kFirstOther) return fail(CZK_INVALID, "zkey coefficients: more than 2^32 entries");
  return guarded([&] {
    return with_curve(curve, [&](auto tag) {
      using Fr = typename decltype(tag)::type::Fr;
      uint64_t* row_ptr[2] = {row_ptr_a, row_ptr_b};
      for (uint64_t* p : row_ptr) std::memset(p, 0, (rows + 1) * sizeof(uint64_t));
      *table_len = 0;
      for (*bad = 0, *why = 0; *bad < n; ++*bad) {
        auto e = Entry<Fr>::load(entries, *bad);
        *why = fault(e, *bad, n, columns, constraints, inputs);
        if (*why) return int32_t(CZK_OK);
        row_ptr[e.matrix][e.constraint + 1]++;
      }
      for (uint64_t* p : row_ptr)
        for (uint64_t i = 0; i < rows; i++) p[i + 1] += p[i];

      // Each row's start moves to its end while the row is filled; one shift puts the starts back.
      const uint64_t first[2] = {0, row_ptr_a[rows]};
      Dictionary<Fr> dictionary(table, n);
      for (uint64_t i = 0; i < n; i++) {
        auto e = Entry<Fr>::load(entries, i);
        uint64_t k = first[e.matrix] + row_ptr[e.matrix][e.constraint]++;
        col[k] = e.column;
        coef[k] = dictionary.index(e.value);
      }
      for (uint64_t* p : row_ptr) {
        std::memmove(p + 1, p, rows * sizeof(uint64_t));
        p[0] = 0;
      }
      *table_len = dictionary.size();
      return int32_t(CZK_OK);
    });
  });
}
