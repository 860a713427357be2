// The two halves of Pippenger's method over batches of affine additions: points into buckets, buckets into window sums.
#pragma once
#include "msm_batch.hpp"
#include "msm_windows.hpp"

CZK_BEGIN
namespace msm {

// A sum to take: entries [begin, begin + length), whose result goes to bucket slot `target`, or, with kPartial set, to
// row target - kPartial of the partial sums.
struct Run {
  uint32_t begin, length, target;
};
constexpr uint32_t kPartial = uint32_t(1) << 31;

// Bucket sums as vectors of points, slot s in lane s % kLanes of vector s / kLanes.
template <class V>
struct Slots {
  Buffer<Lanes<V>> vectors;
  void clear(uint32_t slot) { V::clear_lane(vectors[slot / V::kLanes], slot % V::kLanes); }
};

// Adds up every run, one lane each: all runs take their next point in the same batch, so no two additions of a batch
// meet in one sum, whatever the scalars are. Runs must come longest first.
template <class V>
class Accumulator {
 public:
  Accumulator() : sum_(BatchAdder<V>::kGroups) {}
  static constexpr uint32_t kRuns = BatchAdder<V>::kGroups * V::kLanes;

  int32_t add(const Run* runs, uint32_t count, const uint32_t* entries, const char* table, Slots<V>& slots,
              char* partial, CzkCancel cancel) {
    constexpr uint32_t L = V::kLanes;
    load_first(runs, count, entries, table);
    uint32_t live = count;
    for (uint32_t step = 1;; step++) {
      while (live > 0 && runs[live - 1].length <= step) live--;
      if (live == 0) break;
      if (cancelled(cancel)) return CZK_CANCELLED;
      const uint32_t groups = (live + L - 1) / L, last = live - (groups - 1) * L;
      adder_.add(
          groups, [&](uint32_t g) -> Lanes<V>& { return sum_[g]; },
          [&](uint32_t g, Lanes<V>& q) {
            if (g + kAhead < groups) prefetch(runs + (g + kAhead) * L, live - (g + kAhead) * L, step, entries, table);
            uint32_t entry[L];
            const Run* run = runs + g * L;
            const uint32_t lanes = g + 1 < groups ? L : last;
            for (uint32_t l = 0; l < L; l++) entry[l] = entries[run[l < lanes ? l : 0].begin + step];
            V::gather(table, entry, q);
            return lanes == L ? V::kAll : (typename V::Mask(1) << lanes) - 1;
          });
    }
    for (uint32_t i = 0; i < count; i++) {
      const uint32_t target = runs[i].target;
      if (target & kPartial)
        V::store_row(sum_[i / L], i % L, partial + uint64_t(target - kPartial) * V::kRowBytes);
      else
        V::copy_lane(sum_[i / L], i % L, slots.vectors[target / L], target % L);
    }
    return CZK_OK;
  }

 private:
  static constexpr uint32_t kAhead = 4;

  static CZK_FN void prefetch(const Run* run, uint32_t runs, uint32_t step, const uint32_t* entries,
                              const char* table) {
    for (uint32_t l = 0; l < std::min<uint32_t>(runs, V::kLanes); l++)
      V::prefetch(table, entries[run[l].begin + step] >> 1);
  }

  void load_first(const Run* runs, uint32_t count, const uint32_t* entries, const char* table) {
    constexpr uint32_t L = V::kLanes;
    for (uint32_t g = 0; g * L < count; g++) {
      if ((g + kAhead) * L < count) prefetch(runs + (g + kAhead) * L, count - (g + kAhead) * L, 0, entries, table);
      uint32_t entry[L];
      for (uint32_t l = 0; l < L; l++) entry[l] = entries[runs[std::min(g * L + l, count - 1)].begin];
      V::gather(table, entry, sum_[g]);
      sum_[g].y = sum_[g].y.normalised();
    }
  }

  Buffer<Lanes<V>> sum_;
  BatchAdder<V> adder_;
};

// Turns the buckets of windows of one size into one point for every bit of weight. Bucket b of the group's window w
// lies in slot base + b*windows + w.
//
// Halving from the top: with buckets B[0..2h) of weights b + 1, add the upper half onto the lower one and keep the sum X
// of the upper half: sum (b+1) B[b] = sum over b < h of (b+1) (B[b] + B[b+h]) + h*X. Every X is summed by halving as
// well, at the same pace, so round r adds (r+1) pieces of buckets/2^(r+1) in one batch: two additions for each bucket
// in all, and all lanes of a vector at work until the last rounds.
template <class V>
class Reducer {
 public:
  // On return piece(0) holds each window's sum of all buckets, piece(1 + r) the one of weight buckets/2^(r+1).
  int32_t reduce(Slots<V>& slots, uint64_t base, uint32_t windows, uint32_t buckets, CzkCancel cancel) {
    constexpr uint32_t L = V::kLanes;
    pieces_.assign(1, &slots.vectors[base / L]);
    spill_.clear();
    for (uint32_t half = buckets / 2; half > 0; half /= 2) {
      const uint32_t points = half * windows, vectors = (points + L - 1) / L;
      pairs_.clear();
      const size_t count = pieces_.size();
      for (size_t i = 0; i < count; i++) {
        Lanes<V>* low = pieces_[i];
        Lanes<V>* high = points % L == 0 ? low + points / L : realign(low, points);
        if (i == 0) pieces_.push_back(high);
        for (uint32_t v = 0; v < vectors; v++) pairs_.push_back({low + v, high + v});
      }
      for (size_t begin = 0; begin < pairs_.size(); begin += BatchAdder<V>::kGroups) {
        if (cancelled(cancel)) return CZK_CANCELLED;
        const Pair* pair = &pairs_[begin];
        adder_.add(
            uint32_t(std::min<size_t>(BatchAdder<V>::kGroups, pairs_.size() - begin)),
            [&](uint32_t g) -> Lanes<V>& { return *pair[g].low; },
            [&](uint32_t g, Lanes<V>& q) {
              q = *pair[g].high;
              return V::kAll;
            });
      }
    }
    return CZK_OK;
  }
  const Lanes<V>* piece(uint32_t i) const { return pieces_[i]; }

  // Slots that a group takes: whole vectors.
  static uint64_t slots(uint32_t windows, uint32_t buckets) {
    return (uint64_t(windows) * buckets + V::kLanes - 1) / V::kLanes * V::kLanes;
  }

 private:
  struct Pair {
    Lanes<V>*low, *high;
  };

  // The upper half starts inside a vector: moves it to vectors of its own. Lanes past the end become infinity.
  Lanes<V>* realign(Lanes<V>* low, uint32_t points) {
    constexpr uint32_t L = V::kLanes;
    const uint32_t vectors = (points + L - 1) / L;
    spill_.emplace_back(vectors);
    Lanes<V>* high = spill_.back().data();
    for (uint32_t i = 0; i < points; i++) V::copy_lane(low[(points + i) / L], (points + i) % L, high[i / L], i % L);
    for (uint32_t i = points; i < vectors * L; i++) {
      V::clear_lane(low[i / L], i % L);
      V::clear_lane(high[i / L], i % L);
    }
    return high;
  }

  std::vector<Lanes<V>*> pieces_;
  std::vector<Pair> pairs_;
  std::vector<Buffer<Lanes<V>>> spill_;
  BatchAdder<V> adder_;
};

}  // namespace msm
CZK_END
