// The scalars of a multiplication as signed digits, and the points of a window sorted by bucket.
#pragma once
#if CZK_VARIANT_ifma
#include <immintrin.h>
#endif

#include "msm_split.hpp"
#include "msm_windows.hpp"
#include "recycled.hpp"

CZK_BEGIN
namespace msm {

// The non-zero scalars whose base is not infinity, split (msm_split.hpp) or whole: magnitudes, signs apart, with the
// digits' offsets added: digit = (bits of the window) - 2^(width-1). Each task fills ranges of slots of its own, one for
// each part and one for scalars 1 and -1, which are most of a witness and have a digit in the first window only.
template <class G>
class Scalars {
  using Fr = typename G::Fr;
  static constexpr int kWords = 4;
  static_assert(Fr::N == kWords);

 public:
  struct Range {
    uint64_t begin, end;
    uint32_t longest;  // bits of its longest scalar
  };
  static constexpr uint64_t kMost = 4096;  // scalars of a task

  Scalars(uint64_t n, bool split)
      : parts_(split ? Splitter<G>::kParts : 1), words_(split ? 2 : kWords), slots_(n * uint64_t(parts_)), entry_(slots_) {
    for (int k = 0; k < words_; k++) limb_[k] = Recycled<uint64_t>(slots_);
  }
  int parts() const { return parts_; }
  uint64_t slots() const { return slots_; }

  int ranges() const { return parts_ + 1; }

  // Takes scalars [begin, end) of the interface to the slots from parts*begin to parts*end. range[i] becomes part i's,
  // the last one that of the units. infinite(i) says whether base i is.
  template <class Infinite>
  void fill(const void* scalars, uint64_t begin, uint64_t end, Lengths& lengths, Infinite&& infinite, Range* range) {
    // Lists without branches: zeros, ones and infinities come as they like.
    uint32_t some[kMost], units[kMost], others[kMost];
    uint64_t some_count = 0, unit_count = 0, other_count = 0;
    for (uint64_t n = begin; n < end; n++) {
      some[some_count] = uint32_t(n);
      some_count += uint64_t(!Fr::load(at(scalars, n, Fr::kBytes)).is_zero());
    }
    for (uint64_t i = 0; i < some_count; i++) {
      const uint32_t n = some[i];
      const bool unit = is_unit(Fr::load(at(scalars, n, Fr::kBytes))), absent = infinite(n);
      units[unit_count] = others[other_count] = n;
      unit_count += uint64_t(unit & !absent);
      other_count += uint64_t(!unit & !absent);
    }
    for (int i = 0; i < parts_; i++) {
      const uint64_t first = parts_ * begin + uint64_t(i) * (end - begin);
      range[i] = {first, first, 0};
    }
    // The units take the upper end of the first part's slots.
    const uint64_t top = parts_ * begin + (end - begin);
    range[parts_] = {top - unit_count, top, 1};
    lengths.count[1] += unit_count;
    for (uint64_t i = 0; i < unit_count; i++) {
      const uint64_t slot = range[parts_].begin + i;
      limb_[0][slot] = 1;
      for (int k = 1; k < words_; k++) limb_[k][slot] = 0;
      entry_[slot] = units[i] << 1 | uint32_t(Fr::load(at(scalars, units[i], Fr::kBytes)).v[3] != 0);
    }
    for (uint64_t i = 0; i < other_count; i++) split(scalars, others[i], range, lengths);
  }

  // 2*(number of the base) + sign, of the scalar in a slot.
  const uint32_t& entry(uint64_t slot) const { return entry_[slot]; }
  // Makes the slots the numbers of their bases.
  void renumber(const Range& range) {
    for (uint64_t i = range.begin; i < range.end; i++) entry_[i] = uint32_t(i << 1) | (entry_[i] & 1);
  }

  // Adds 2^(position + width - 1) for every window but the top one.
  void add_offsets(const Range& range, const std::vector<Window>& windows) {
    uint64_t offset[kWords] = {};
    for (const Window& w : windows)
      if (!w.top) offset[(w.position + w.width - 1) / 64] |= uint64_t(1) << (w.position + w.width - 1) % 64;
    for (uint64_t i = range.begin; i < range.end; i++) {
      uint64_t carry = 0;
      for (int k = 0; k < words_; k++) {
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
    // The carry of a scalar's digits may reach further than the scalar: see cut_windows.
    auto reaches = [&](const Range& r) { return window.position <= r.longest + 1; };
    for (const Range& r : ranges) {
      if (!reaches(r)) continue;
      digits(window, r, keys);
      for (uint64_t i = r.begin; i < r.end; i++) count[keys[i] >> 1]++;
    }
    count[0] = 0;
    for (uint32_t b = 1; b <= window.buckets(); b++) count[b] += count[b - 1];
    // first[m] is now where magnitude m begins, bucket m - 1.
    for (const Range& r : ranges) {
      if (!reaches(r)) continue;
      for (uint64_t i = r.begin; i < r.end; i++) {
        const uint32_t key = keys[i];
        if (key >> 1) entries[first[key >> 1]++] = entry_[i] ^ (key & 1);
      }
    }
    // Each start has moved to the next one's place.
    first[0] = 0;
    first.pop_back();
  }

 private:
  // 1 or r - 1.
  static CZK_FN bool is_unit(const Fr& s) {
    const bool plus = ((s.v[0] ^ 1) | s.v[1] | s.v[2] | s.v[3]) == 0;
    const bool minus = ((s.v[0] ^ (Fr::K.p[0] - 1)) | (s.v[1] ^ Fr::K.p[1]) | (s.v[2] ^ Fr::K.p[2]) | (s.v[3] ^ Fr::K.p[3])) == 0;
    return plus | minus;
  }

  void split(const void* scalars, uint32_t n, Range* range, Lengths& lengths) {
    Fr s = Fr::load(at(scalars, n, Fr::kBytes));
    const bool flip = fold(s);
    if (parts_ == 1) {
      add(s.v, kWords, n << 1 | uint32_t(flip), range[0], lengths);
      return;
    }
    typename Splitter<G>::Part part[Splitter<G>::kParts];
    Splitter<G>::get().split(s, part);
    for (int i = 0; i < Splitter<G>::kParts; i++) {
      const uint64_t words[2] = {uint64_t(part[i].magnitude), uint64_t(part[i].magnitude >> 64)};
      if ((words[0] | words[1]) != 0) add(words, 2, n << 1 | uint32_t(flip != part[i].negative), range[i], lengths);
    }
  }

  CZK_FN void add(const uint64_t* words, int count, uint32_t entry, Range& range, Lengths& lengths) {
    const uint64_t slot = range.end++;
    int top = count - 1;
    while (words[top] == 0) top--;
    const uint32_t length = uint32_t(64 * top + 64 - __builtin_clzll(words[top]));
    lengths.count[length]++;
    range.longest = std::max(range.longest, length);
    for (int k = 0; k < count; k++) limb_[k][slot] = words[k];
    entry_[slot] = entry;
  }

  // s becomes the smaller one of s and r - s, as far as the top word tells; whether it changed. Without a branch: it is a
  // toss-up.
  static CZK_FN bool fold(Fr& s) {
    const Fr opposite = s.neg();
    const uint64_t change = 0 - uint64_t(s.v[3] > opposite.v[3]);
    for (int k = 0; k < 4; k++) s.v[k] = (s.v[k] & ~change) | (opposite.v[k] & change);
    return change != 0;
  }

  // keys[i] = 2*magnitude + sign of the digits of a window.
  void digits(const Window& window, const Range& range, uint32_t* keys) const {
    const uint32_t word = window.position / 64, shift = window.position % 64;
    const bool spans = shift + window.width > 64 && int(word) + 1 < words_;
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

  int parts_, words_;
  uint64_t slots_;
  Recycled<uint64_t> limb_[kWords];
  Recycled<uint32_t> entry_;
};

}  // namespace msm
CZK_END
