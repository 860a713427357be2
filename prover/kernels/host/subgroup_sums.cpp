// The subgroup check of many points at once, by random sums.
#include <cstring>

#include "chacha.hpp"
#include "group_lanes.hpp"
#include "msm_buckets.hpp"

CZK_BEGIN
namespace {

using namespace msm;

// The bucket test (Bellare, Garay, Rabin, "Fast batch verification for modular exponentiation and digital signatures",
// 1998, section 4): in each of k rounds every point goes into one of B = 2^c buckets, drawn by ChaCha20 from the seed;
// then every bucket's sum must lie in the subgroup.
//
// Error bound. Let some point lie outside, and look at the classes of all points modulo the subgroup. Draw the buckets of
// all other points first: its own bucket can then make every sum trivial for at most one of the B choices. So a round
// misses with probability at most 1/B, whatever the cofactor's small prime factors are (a random linear combination would
// miss a point whose class has order 3 every third time), and k independent rounds with at most 2^-(ck) <= 2^-kErrorBits.
struct BucketTest {
  static constexpr uint32_t kErrorBits = 40;
  uint64_t points, test_cost;
  uint32_t log_buckets = 4, rounds = kErrorBits / 4;

  // test_cost: a subgroup test in affine additions.
  BucketTest(uint64_t points, uint64_t test_cost) : points(points), test_cost(test_cost) {
    for (uint32_t c = 5; c <= 16; c++) {
      const BucketTest other(*this, c);
      if (other.cost() < cost()) *this = other;
    }
  }
  uint64_t buckets() const { return uint64_t(1) << log_buckets; }
  uint64_t cost() const { return rounds * (points + test_cost * buckets()); }
  bool pays() const { return cost() < test_cost * points; }

 private:
  BucketTest(const BucketTest& like, uint32_t c)
      : points(like.points), test_cost(like.test_cost), log_buckets(c), rounds((kErrorBits + c - 1) / c) {}
};

template <class G>
class CombinedCheck {
  using V = LanesOf<G>;
  static constexpr uint32_t L = V::kLanes;
  static constexpr uint64_t kTestCost = L == 1 ? 150 : 500;
  static constexpr uint64_t kRange = 4096;
  static constexpr uint64_t kBlock = uint64_t(1) << 18;  // points of a test of its own: bounds the memory

 public:
  CombinedCheck(const uint8_t* seed, Team& team, CzkCancel cancel) : team_(team), cancel_(cancel) {
    std::memcpy(key_, seed, sizeof key_);
  }

  int32_t run(const void* points, uint64_t n, int32_t* ok) {
    *ok = 1;
    for (uint64_t begin = 0; begin < n && *ok; begin += kBlock) {
      const uint64_t count = std::min(kBlock, n - begin);
      const int32_t status = block(at(points, begin, G::kPointBytes), begin, count, ok);
      if (status != CZK_OK) return status;
    }
    return CZK_OK;
  }

 private:
  int32_t block(const void* points, uint64_t number, uint64_t n, int32_t* ok) {
    const BucketTest test(n, kTestCost);
    if (!test.pays()) return each_in_subgroup(points, n, ok);
    // A round's points are cut into parts with buckets of their own, so that there are sums enough to fill every
    // thread's batches.
    const uint64_t buckets = test.buckets(), wanted = Accumulator<V>::kRuns * uint64_t(team_.threads());
    const Split split(n, wanted / (buckets * test.rounds) + 1, 16 * buckets);
    const uint64_t sums = test.rounds * split.parts * buckets;
    Recycled<char> table(n * V::kRowBytes), rows((sums + L) * V::kRowBytes);
    Recycled<uint32_t> entries(test.rounds * n);
    std::vector<Run> runs(sums);
    int32_t status = team_.run_ranges(n, kRange, [&](uint64_t begin, uint64_t end, int32_t) {
      uint32_t entry[kRange];
      for (uint64_t i = begin; i < end; i++) entry[i - begin] = uint32_t(i) << 1;
      points_to_rows<V>(points, entry, end - begin, table.data() + begin * V::kRowBytes);
    });
    if (status != CZK_OK) return status;
    status = team_.run(test.rounds * split.parts, [&](uint64_t task, int32_t) {
      const uint32_t round = uint32_t(task / split.parts);
      deal(test, round, number, split.begin(task % split.parts), split.end(task % split.parts),
           round * n, entries.data(), &runs[task * buckets], uint32_t(task * buckets));
    });
    if (status != CZK_OK) return status;
    std::memset(rows.data(), 0, rows.size());  // an empty bucket holds infinity
    runs.erase(std::remove_if(runs.begin(), runs.end(), [](const Run& r) { return r.length == 0; }), runs.end());
    status = add(runs, entries.data(), table.data(), rows.data());
    return status != CZK_OK ? status : test_sums(test, split.parts, rows.data(), ok);
  }

  // Draws the buckets of points [begin, end) and sorts them: entries [at + begin, at + end), and a run for each bucket.
  void deal(const BucketTest& test, uint32_t round, uint64_t number, uint64_t begin, uint64_t end, uint64_t at,
            uint32_t* entries, Run* runs, uint32_t target) {
    const uint32_t mask = uint32_t(test.buckets() - 1);
    Recycled<uint16_t> bucket(end - begin);
    std::vector<uint32_t> next(test.buckets() + 1, 0);
    ChaChaBlock block{};
    for (uint64_t i = begin, have = ~uint64_t(0); i < end; i++) {
      const uint64_t draw = number + i;  // a block serves 32 points, 16 bits each
      if (draw / 32 != have) {
        have = draw / 32;
        block = chacha_block(key_, round, uint32_t(have), uint32_t(have >> 32), 0);
      }
      const uint32_t b = (block.word[draw % 32 / 2] >> (16 * (draw & 1))) & mask;
      bucket[i - begin] = uint16_t(b);
      next[b + 1]++;
    }
    for (uint32_t b = 0; b <= mask; b++) {
      const uint32_t length = next[b + 1];
      next[b + 1] += next[b];
      runs[b] = {uint32_t(at + begin) + next[b], length, target + b};
    }
    for (uint64_t i = begin; i < end; i++) entries[at + begin + next[bucket[i - begin]]++] = uint32_t(i) << 1;
  }

  int32_t add(const std::vector<Run>& runs, const uint32_t* entries, const char* table, char* rows) {
    uint64_t batch = std::min<uint64_t>(Accumulator<V>::kRuns, (runs.size() + team_.threads() - 1) / team_.threads());
    batch = (batch + L - 1) / L * L;
    PerThread<Accumulator<V>> workers(uint64_t(team_.threads()));
    return team_.run_ranges(runs.size(), batch, [&](uint64_t begin, uint64_t end, int32_t worker) {
      return workers[worker].add(&runs[begin], uint32_t(end - begin), entries, table, rows, nullptr, cancel_);
    });
  }

  // Adds the parts up and tests every bucket.
  int32_t test_sums(const BucketTest& test, uint64_t parts, const char* rows, int32_t* ok) {
    const uint64_t vectors = test.buckets() / L;
    static_assert(16 % L == 0, "a part's buckets fill whole vectors");
    Buffer<Lanes<V>> sum(test.rounds * vectors), addend(test.rounds * vectors);
    // Vector v of a round's buckets of one part.
    auto load = [&](uint64_t round, uint64_t part, uint64_t v, Lanes<V>& to) {
      const char* row[L];
      for (uint32_t l = 0; l < L; l++)
        row[l] = rows + (((round * parts + part) * vectors + v) * L + l) * V::kRowBytes;
      rows_to_lanes(row, to);
    };
    PairAdder<V> adder;
    std::vector<typename PairAdder<V>::Pair> pairs(sum.size());
    for (uint64_t part = 0; part < parts; part++) {
      for (uint64_t i = 0; i < sum.size(); i++) {
        load(i / vectors, part, i % vectors, part == 0 ? sum[i] : addend[i]);
        pairs[i] = {&sum[i], &addend[i]};
      }
      for (uint64_t begin = 0; part > 0 && begin < pairs.size(); begin += PairAdder<V>::kPairs) {
        if (cancelled(cancel_)) return CZK_CANCELLED;
        adder.add(&pairs[begin], uint32_t(std::min<uint64_t>(PairAdder<V>::kPairs, pairs.size() - begin)));
      }
    }
    Buffer<char> sums(test.rounds * test.buckets() * G::kPointBytes);
    for (uint64_t i = 0; i < test.rounds * test.buckets(); i++)
      store_point(lane_to_point(sum[i / L], int(i % L)), at(sums.data(), i, G::kPointBytes));
    return each_in_subgroup(sums.data(), test.rounds * test.buckets(), ok);
  }

  int32_t each_in_subgroup(const void* points, uint64_t n, int32_t* ok) {
    uint64_t bad;
    int32_t why;
    const int32_t status = czk_points_check(G::Curve::kIndex, G::kGroup, points, n, CZK_CHECK_SUBGROUP, team_.threads(),
                                            cancel_, &bad, &why);
    if (status == CZK_OK) *ok = bad == n;
    return status;
  }

  uint32_t key_[8];
  Team& team_;
  CzkCancel cancel_;
};

template <class G>
int32_t points_check_combined(const void* points, uint64_t n, const uint8_t* seed, int32_t threads, CzkCancel cancel,
                              int32_t* ok) {
  if (threads < 1) return fail(CZK_INVALID, "threads must be at least 1, not %d", threads);
  if constexpr (G::kGroup == 1 && std::is_same_v<typename G::Curve, Bn254>) {
    *ok = 1;  // the whole curve
    return CZK_OK;
  } else {
    Team team(threads, cancel);
    return CombinedCheck<G>(seed, team, cancel).run(points, n, ok);
  }
}

}  // namespace
CZK_END

CZK_DEFINE(points_check_combined)(int32_t curve, int32_t group, const void* points, uint64_t n, const uint8_t* seed,
                                  int32_t threads, CzkCancel cancel, int32_t* ok) {
  using namespace czk;
  return guarded([&] {
    return with_group(curve, group, [&](auto tag) {
      return points_check_combined<typename decltype(tag)::type>(points, n, seed, threads, cancel, ok);
    });
  });
}
