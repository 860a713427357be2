// The two halves of Pippenger's method over batches of affine additions: points into buckets, buckets into window sums.
#pragma once
#include "msm_batch.hpp"
#include "msm_windows.hpp"

CZK_BEGIN
namespace msm {

// A sum to take: entries [begin, begin + length), whose result goes to row `target` of the buckets, or, with kPartial
// set, to row target - kPartial of the partial sums.
struct Run {
  uint32_t begin, length, target;
};
constexpr uint32_t kPartial = uint32_t(1) << 31;

// Adds up every run, one lane each: all runs take their next point in the same batch, so no two additions of a batch
// meet in one sum, whatever the scalars are. The longest runs lie in the first lanes, so that few lanes idle at the end.
template <class V>
class Accumulator {
  static constexpr uint32_t L = V::kLanes;

 public:
  Accumulator() : sum_(BatchAdder<V>::kGroups) {}
  static constexpr uint32_t kRuns = BatchAdder<V>::kGroups * L;

  // The sums of count <= kRuns runs, to rows of `buckets` or `partial`. In lane_sums.cpp.
  int32_t add(const Run* given, uint32_t count, const uint32_t* entries, const char* table, char* buckets,
              char* partial, CzkCancel cancel);

 private:
  static CZK_FN void take(const Run* run, uint32_t lanes, uint32_t step, const uint32_t* entries, const char* table,
                          V& x, V& y) {
    uint32_t entry[L];
    for (uint32_t l = 0; l < L; l++) entry[l] = entries[run[l < lanes ? l : 0].begin + step];
    V::gather(table, entry, x, y);
  }

  // The points of a coming step.
  static CZK_FN void prefetch(const Run* run, uint32_t lanes, uint32_t step, const uint32_t* entries,
                              const char* table) {
    for (uint32_t l = 0; l < lanes; l++)
      if (run[l].length > step)
        V::template prefetch<0>(table + uint64_t(entries[run[l].begin + step] >> 1) * V::kRowBytes);
  }

  void load_first(const Run* given, uint32_t count, const uint32_t* entries, const char* table) {
    constexpr uint32_t kAhead = 4;
    const Run* runs = runs_.data();
    // The runs of a batch are mostly neighbours in the list of entries; sorted by length they are read in no order.
    for (uint32_t i = 0; i < count; i++)
      for (uint32_t k = 0; k < given[i].length; k += 16) __builtin_prefetch(&entries[given[i].begin + k], 0, 2);
    for (uint32_t g = 0; g * L < count; g++) {
      const uint32_t ahead = (g + kAhead) * L;
      if (ahead < count) prefetch(runs + ahead, std::min(L, count - ahead), 0, entries, table);
      const uint32_t lanes = std::min(L, count - g * L);
      take(runs + g * L, lanes, 0, entries, table, sum_[g].x, sum_[g].y);
      sum_[g].y = sum_[g].y.normalised();
      prefetch(runs + g * L, lanes, 1, entries, table);
    }
  }

  // Longest first, by counting.
  void sort(const Run* given, uint32_t count) {
    uint32_t longest = 0;
    for (uint32_t i = 0; i < count; i++) longest = std::max(longest, given[i].length);
    place_.assign(longest + 1, 0);
    for (uint32_t i = 0; i < count; i++) place_[longest - given[i].length + 1]++;
    for (uint32_t i = 1; i <= longest; i++) place_[i] += place_[i - 1];
    runs_.resize(count);
    for (uint32_t i = 0; i < count; i++) runs_[place_[longest - given[i].length]++] = given[i];
  }

  void store(uint32_t count, char* buckets, char* partial) const {
    constexpr uint32_t kAhead = 2 * L;
    char surplus[V::kRowBytes];
    auto row = [&](uint32_t i) {
      const uint32_t target = runs_[i].target;
      return target & kPartial ? partial + uint64_t(target - kPartial) * V::kRowBytes
                               : buckets + uint64_t(target) * V::kRowBytes;
    };
    for (uint32_t g = 0; g * L < count; g++) {
      char* rows[L];
      for (uint32_t l = 0; l < L; l++) {
        const uint32_t i = g * L + l;
        rows[l] = i < count ? row(i) : surplus;
        if (i + kAhead < count) V::template prefetch<1>(row(i + kAhead));
      }
      V::store_rows(sum_[g], rows);
    }
  }

  std::vector<Run> runs_;
  std::vector<uint32_t> place_;
  Recycled<Lanes<V>> sum_;
  BatchAdder<V> adder_;
};

// Turns the buckets of windows of one size into one point for every bit of weight. Bucket b of window w is row
// b*windows + w.
//
// Halving from the top: with buckets B[0..2h) of weights b + 1, add the upper half onto the lower one and keep the sum X
// of the upper half: sum (b+1) B[b] = sum over b < h of (b+1) (B[b] + B[b+h]) + h*X. Every X is summed by halving as
// well, at the same pace, so round r adds (r+1) pieces of buckets/2^(r+1) in one batch: two additions for each bucket
// in all, and all lanes of a vector at work until the last rounds.
template <class V>
class Reducer {
  static constexpr uint32_t L = V::kLanes;

 public:
  // On return piece(0) holds each window's sum of all buckets, piece(1 + r) the one of weight buckets/2^(r+1).
  int32_t reduce(const char* rows, uint32_t windows, uint32_t buckets, CzkCancel cancel) {
    const uint64_t need = padded(windows, buckets) / L;
    if (points_.size() < need) points_ = Recycled<Lanes<V>>(need);
    for (uint64_t v = 0; v < need; v++) {
      const char* row[L];
      for (uint32_t l = 0; l < L; l++) row[l] = rows + (v * L + l) * V::kRowBytes;
      V::load_rows(row, points_[v].x, points_[v].y);
    }
    pieces_.assign(1, points_.data());
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
      for (size_t begin = 0; begin < pairs_.size(); begin += PairAdder<V>::kPairs) {
        if (cancelled(cancel)) return CZK_CANCELLED;
        adder_.add(&pairs_[begin], uint32_t(std::min<size_t>(PairAdder<V>::kPairs, pairs_.size() - begin)));
      }
    }
    return CZK_OK;
  }
  const Lanes<V>* piece(uint32_t i) const { return pieces_[i]; }
  uint32_t pieces() const { return uint32_t(pieces_.size()); }

  // Rows that the buckets take up: whole vectors, those past the last bucket must hold infinity.
  static uint64_t padded(uint32_t windows, uint32_t buckets) { return (uint64_t(windows) * buckets + L - 1) / L * L; }

 private:
  // The upper half starts inside a vector: moves it to vectors of its own. Lanes past the end become infinity.
  Lanes<V>* realign(Lanes<V>* low, uint32_t points) {
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

  Recycled<Lanes<V>> points_;
  std::vector<Lanes<V>*> pieces_;
  std::vector<typename PairAdder<V>::Pair> pairs_;
  std::vector<Recycled<Lanes<V>>> spill_;
  PairAdder<V> adder_;
};

}  // namespace msm
CZK_END
