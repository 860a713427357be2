// What the kernels of a multi-scalar multiplication share: how scalars are cut into windows, and the sorted entries.
#pragma once
#include "grid.cuh"

CZK_BEGIN

constexpr uint32_t kNone = 0xffffffffu;
constexpr int kScalarWords = 8;

// The windows of a multiplication; prover/device/cuda_msm_plan.py fills it in. Widths are narrow or one bit more, the wider
// windows lowest. Windows [first, last) are worked on now, and their buckets and chunks are numbered on from one to the
// next. A window of B buckets has B/chunk chunks, rounded up, and a power of two of numbers for them.
struct Cut {
  uint32_t modulus[kScalarWords];
  uint32_t offset[kScalarWords];  // 2^(width-1) at the place of every window but the top one
  uint32_t windows, wider;        // how many, and how many of them are wide
  uint32_t narrow;                // bits
  uint32_t first, last;
  uint32_t chunk;                 // buckets
  uint32_t log_chunks[2];         // of the numbers of a narrow and a wide window's chunks

  CZK_FN bool wide(uint32_t window) const { return window < wider; }
  CZK_FN uint32_t width(uint32_t window) const { return narrow + uint32_t(wide(window)); }
  CZK_FN uint32_t buckets(uint32_t window) const { return uint32_t(1) << (width(window) - 1); }
  CZK_FN uint32_t chunks(uint32_t window) const { return (buckets(window) + chunk - 1) / chunk; }
  CZK_FN uint32_t first_bucket(uint32_t window) const { return before(window, narrow - 1, narrow); }
  CZK_FN uint32_t first_chunk(uint32_t window) const { return before(window, log_chunks[0], log_chunks[1]); }

 private:
  // What the windows from `first` to this one have together, given the logarithms of what a narrow and a wide one has.
  CZK_FN uint32_t before(uint32_t window, uint32_t log_narrow, uint32_t log_wide) const {
    const uint32_t wide_ones = min_of(window, wider) - min_of(first, wider);
    return (wide_ones << log_wide) + ((window - first - wide_ones) << log_narrow);
  }
};

// A point's contribution to a bucket. Points are doubled and carry the sign in the lowest bit.
struct Entry {
  uint32_t bucket, point;
};
CZK_FN Entry load_entry(const uint32_t* entries, uint32_t i) {
  uint32_t words[2];
  grid::load_two(words, entries + uint64_t(2) * i);
  return {words[0], words[1]};
}
CZK_FN void store_entry(uint32_t* entries, uint32_t i, Entry e) {
  grid::store_two(entries + uint64_t(2) * i, e.bucket, e.point);
}

CZK_END
