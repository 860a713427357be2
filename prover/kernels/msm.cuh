// What the kernels of a multi-scalar multiplication share: how scalars are cut into windows, and the sorted entries.
#pragma once
#include "grid.cuh"

CZK_BEGIN

constexpr uint32_t kNone = 0xffffffffu;
constexpr int kScalarWords = 8;
constexpr uint32_t kMostWindows = 128;

// The windows of a multiplication; prover/device/cuda_msm.py fills it in.
struct Cut {
  uint32_t modulus[kScalarWords];
  uint32_t offset[kScalarWords];  // 2^(w-1) at the place of every window but the top one
  uint32_t windows;
  uint32_t first, last;                 // of these windows [first, last) are worked on now
  uint32_t width[kMostWindows];         // in bits, from the lowest window on
  uint32_t first_bucket[kMostWindows];  // of a window from `first` on; it has 2^(width-1)
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
