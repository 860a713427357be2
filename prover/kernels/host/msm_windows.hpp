// Scalars as signed digits: which windows to cut them into, and the points of a window sorted by bucket.
#pragma once
#include <cmath>

#if CZK_VARIANT_ifma
#include <immintrin.h>
#endif

#include "recycled.hpp"

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
// carry of its signed digits.
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
// (msm_buckets.hpp), and its share of inversions: a batch of additions needs one, and as many batches follow each other as the fullest bucket
// has points, then two for every halving of the buckets.
inline std::vector<Window> choose_windows(const Lengths& lengths, const Costs& costs) {
  constexpr uint32_t kWidest = 18;
  const uint32_t bits = lengths.longest();
  const double n = double(lengths.total());
  std::vector<double> above(258, 0);  // scalars longer than i bits
  for (int i = 256; i > 0; i--) above[i - 1] = above[i] + double(lengths.count[i]);
  double best = 0;
  uint32_t best_count = 0;
  for (uint32_t count = bits / kWidest + 1; count <= bits + 1; count++) {
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
    double cost = additions + 2.5 * buckets + costs.digit * n * count + costs.inversion * batches;
    if (best_count == 0 || cost < best) best = cost, best_count = count;
    if (cost > 1.5 * best) break;
  }
  return cut_windows(bits, best_count);
}

// The non-zero scalars whose base is not infinity, folded to at most r/2 by the sign of the base, with the digits'
// offsets added: digit = (bits of the window) - 2^(width-1). Ranges that were filled by different threads lie apart.
class Scalars {
 public:
  struct Range {
    uint64_t begin, end;
  };

  explicit Scalars(uint64_t n) : entry_(n) {
    for (auto& limb : limb_) limb = Recycled<uint64_t>(n);
  }

  // Takes scalars [begin, end) of the interface to the slots from `begin` on; infinite(i) says whether base i is.
  template <class Fr, class Infinite>
  Range fill(const void* scalars, uint64_t begin, uint64_t end, Lengths& lengths, Infinite&& infinite) {
    static_assert(Fr::N == 4);
    uint64_t slot = begin;
    for (uint64_t i = begin; i < end; i++) {
      Fr s = Fr::load(at(scalars, i, Fr::kBytes));
      if (s.is_zero() || infinite(i)) continue;
      Fr negated = s.neg();
      bool flip = false;
      for (int k = 3; k >= 0; k--)
        if (s.v[k] != negated.v[k]) {
          flip = s.v[k] > negated.v[k];
          break;
        }
      if (flip) s = negated;
      int top = 3;
      while (s.v[top] == 0) top--;
      lengths.count[64 * top + 64 - __builtin_clzll(s.v[top])]++;
      for (int k = 0; k < 4; k++) limb_[k][slot] = s.v[k];
      entry_[slot++] = uint32_t(i << 1) | uint32_t(flip);
    }
    return {begin, slot};
  }

  // 2*(number of the base) + sign, of the scalar in a slot.
  const uint32_t& entry(uint64_t slot) const { return entry_[slot]; }
  // Makes the slots the numbers of their bases.
  void renumber(const Range& range) {
    for (uint64_t i = range.begin; i < range.end; i++) entry_[i] = uint32_t(i << 1) | (entry_[i] & 1);
  }

  // Adds 2^(position + width - 1) for every window but the top one.
  void add_offsets(const Range& range, const std::vector<Window>& windows) {
    uint64_t offset[4] = {};
    for (const Window& w : windows)
      if (!w.top) offset[(w.position + w.width - 1) / 64] |= uint64_t(1) << (w.position + w.width - 1) % 64;
    for (uint64_t i = range.begin; i < range.end; i++) {
      uint64_t carry = 0;
      for (int k = 0; k < 4; k++) {
        u128 sum = u128(limb_[k][i]) + offset[k] + carry;
        limb_[k][i] = uint64_t(sum);
        carry = uint64_t(sum >> 64);
      }
    }
  }

  // Sorts a window's non-zero digits by bucket (counting sort): entries receives 2*number + sign, bucket b's from
  // first[b] to first[b + 1]. keys: scratch of as many words as there are slots.
  void sort(const std::vector<Range>& ranges, const Window& window, uint32_t* keys, uint32_t* entries,
            std::vector<uint32_t>& first) const {
    first.assign(window.buckets() + 2, 0);
    uint32_t* count = first.data() + 1;  // count[m]: digits of magnitude m, so that sums land one place on
    for (const Range& r : ranges) {
      digits(window, r, keys);
      for (uint64_t i = r.begin; i < r.end; i++) count[keys[i] >> 1]++;
    }
    count[0] = 0;
    for (uint32_t b = 1; b <= window.buckets(); b++) count[b] += count[b - 1];
    // first[m] is now where magnitude m begins, bucket m - 1.
    for (const Range& r : ranges)
      for (uint64_t i = r.begin; i < r.end; i++) {
        uint32_t key = keys[i];
        if (key >> 1) entries[first[key >> 1]++] = entry_[i] ^ (key & 1);
      }
    // Each start has moved to the next one's place.
    first[0] = 0;
    first.pop_back();
  }

 private:
  // keys[i] = 2*magnitude + sign of the digits of a window.
  void digits(const Window& window, const Range& range, uint32_t* keys) const {
    const uint32_t word = window.position / 64, shift = window.position % 64;
    const bool spans = shift + window.width > 64 && word < 3;
    const uint64_t *low = limb_[word].data(), *high = limb_[spans ? word + 1 : word].data();
    const uint64_t mask = (uint64_t(1) << window.width) - 1;
    const int64_t half = window.top ? 0 : int64_t(1) << (window.width - 1);
    // The bits above the word, or, where the window does not reach over, none.
    const uint32_t up = spans ? 64 - shift : 0;
    const uint64_t above = spans ? ~uint64_t(0) : 0;
    uint64_t i = range.begin;
#if CZK_VARIANT_ifma
    const __m512i masks = _mm512_set1_epi64(int64_t(mask)), halves = _mm512_set1_epi64(half);
    const __m512i aboves = _mm512_set1_epi64(int64_t(above));
    const __m128i down_count = _mm_cvtsi32_si128(int(shift)), up_count = _mm_cvtsi32_si128(int(up));
    for (; i + 8 <= range.end; i += 8) {
      const __m512i from_low = _mm512_srl_epi64(_mm512_loadu_si512(low + i), down_count);
      const __m512i from_high = _mm512_and_si512(_mm512_sll_epi64(_mm512_loadu_si512(high + i), up_count), aboves);
      const __m512i digit = _mm512_sub_epi64(_mm512_and_si512(_mm512_or_si512(from_low, from_high), masks), halves);
      const __m512i key = _mm512_or_si512(_mm512_slli_epi64(_mm512_abs_epi64(digit), 1), _mm512_srli_epi64(digit, 63));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(keys + i), _mm512_cvtepi64_epi32(key));
    }
#endif
    for (; i < range.end; i++) {
      const int64_t digit = int64_t((low[i] >> shift | (high[i] << up & above)) & mask) - half;
      keys[i] = uint32_t(digit < 0 ? -digit : digit) << 1 | uint32_t(digit < 0);
    }
  }

  Recycled<uint64_t> limb_[4];
  Recycled<uint32_t> entry_;
};

}  // namespace msm
CZK_END
