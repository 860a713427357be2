// Which windows to cut the scalars into.
#pragma once
#include <cmath>

#include "variant.hpp"

CZK_BEGIN
namespace msm {

// The digits at bits [position, position + width) of the scalars: in [-2^(width-1), 2^(width-1)), or, in the top
// window, in [0, 2^(width-1)]. Bucket b collects the digits b + 1 and -(b + 1).
struct Window {
  uint32_t position, width;
  bool top;
  uint32_t buckets() const { return uint32_t(1) << (width - 1); }
};

// What the choice of windows weighs, in affine additions of a batch.
struct Costs {
  double digit;        // taking out and sorting one digit, zero or not
  double inversion;    // the field inversion that a batch shares
  double batch_lanes;  // additions of a full batch
};

// How many folded scalars there are of each bit length; lengths[0] stays 0.
struct Lengths {
  uint64_t count[257] = {};
  void add(const Lengths& o) {
    for (int i = 0; i < 257; i++) count[i] += o.count[i];
  }
  uint32_t longest() const {
    uint32_t bits = 256;
    while (bits > 0 && count[bits] == 0) bits--;
    return bits;
  }
  uint64_t total() const {
    uint64_t n = 0;
    for (uint64_t c : count) n += c;
    return n;
  }
};

// Cuts bits [0, bits] into `count` windows whose widths differ by at most one. The bit above the longest scalar is the
// carry of its signed digits. With widths of at least two the digits below a position p can add up to 2^p/4 or more,
// so a scalar below 2^(p-2) has none at p or above.
inline std::vector<Window> cut_windows(uint32_t bits, uint32_t count) {
  std::vector<Window> windows;
  const uint32_t width = (bits + 1) / count, wider = (bits + 1) % count;
  for (uint32_t i = 0, position = 0; i < count; i++) {
    uint32_t w = width + (i < wider);
    windows.push_back({position, w, i + 1 == count});
    position += w;
  }
  return windows;
}

// The cheapest cut. Each window costs an addition for every non-zero digit, two and some copying for every bucket
// (msm_buckets.hpp), and its share of inversions: a batch of additions needs one, and as many batches follow each other
// as the fullest bucket has points, then one for every halving of the buckets.
inline std::vector<Window> choose_windows(const Lengths& lengths, const Costs& costs) {
  constexpr uint32_t kWidest = 18, kNarrowest = 2;  // digits of one bit are 0 and -1: a carry would never end
  const uint32_t bits = lengths.longest();
  const double n = double(lengths.total());
  std::vector<double> above(258, 0);  // scalars longer than i bits
  for (int i = 256; i > 0; i--) above[i - 1] = above[i] + double(lengths.count[i]);
  double best = 0;
  uint32_t best_count = 0;
  for (uint32_t count = bits / kWidest + 1; kNarrowest * count <= bits + 1; count++) {
    double additions = 0, buckets = 0;
    for (uint32_t i = 0, position = 0; i < count; i++) {
      uint32_t width = (bits + 1) / count + (i < (bits + 1) % count);
      double m = double(uint32_t(1) << (width - 1));
      // The digit of a scalar that reaches the window is zero once in 2^width.
      additions += above[position] * (1 - 0.5 / m);
      buckets += m;
      position += width;
    }
    double lanes = std::min(buckets, additions), load = additions / std::max(1.0, lanes);
    double batches = std::ceil(lanes / costs.batch_lanes) * (load + 2 * std::sqrt(load)) + (bits + 1.0) / count;
    double cost = additions + 3 * buckets + costs.digit * n * count + costs.inversion * batches;
    if (best_count == 0 || cost < best) best = cost, best_count = count;
    if (cost > 1.5 * best) break;
  }
  return cut_windows(bits, best_count);
}

}  // namespace msm
CZK_END
