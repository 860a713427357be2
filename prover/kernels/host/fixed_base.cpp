// Many multiples of one point, by tables of its multiples in signed windows. A product is a sum of one entry a window,
// taken for thousands of scalars at once by affine additions in batches (msm_batch.hpp).
#include "group_lanes.hpp"
#include "msm_batch.hpp"
#include "scalar.hpp"

CZK_BEGIN
namespace {

using namespace msm;

template <class G>
class FixedBase {
  using V = LanesOf<G>;
  using F = typename G::F;
  static constexpr uint32_t L = V::kLanes, kGroups = PairAdder<V>::kPairs;

  // One thread's additions: sum[g] += addend[g].
  struct Worker {
    PairAdder<V> adder;
    Buffer<Lanes<V>> sum{kGroups}, addend{kGroups};
    Buffer<typename PairAdder<V>::Pair> pair{kGroups};
    Buffer<uint32_t> entry{uint64_t(kGroups) * L};

    Worker() {
      for (uint32_t g = 0; g < kGroups; g++) pair[g] = {&sum[g], &addend[g]};
    }
  };

 public:
  FixedBase(uint64_t n, Team& team) : team_(team), windows_(cheapest(n)), workers_(uint64_t(team.threads())) {
    uint64_t rows = 0;
    for (const Window& w : windows_) {
      first_.push_back(rows);
      rows += w.buckets();
    }
    table_ = Recycled<char>(rows * V::kRowBytes);
  }

  // The multiples 1..2^(width-1) of 2^position * base for every window: row first_[window] + multiple - 1.
  int32_t build(const void* base) {
    Worker& worker = workers_[0];
    Buffer<char> rows(V::kRowBytes);
    const uint32_t entry = 0;
    points_to_rows<V>(base, &entry, 1, rows.data());
    const char* copies[L];
    for (const char*& copy : copies) copy = rows.data();
    Lanes<V>& power = worker.sum[0];
    rows_to_lanes(copies, power);
    uint32_t position = 0;
    for (size_t j = 0; j < windows_.size(); j++) {
      for (; position < windows_[j].position; position++) {
        worker.addend[0] = power;
        worker.adder.add(worker.pair.data(), 1);
      }
      char* to[L];
      for (char*& row_of_lane : to) row_of_lane = row(j, 1);
      lanes_to_rows(power, to);
    }
    // From the first `have` multiples to twice as many, by adding the last of them to each.
    for (uint32_t have = 1; have < windows_[0].buckets(); have *= 2) {
      steps_.clear();
      for (size_t j = 0; j < windows_.size(); j++)
        for (uint32_t m = 1; m <= have && have + m <= windows_[j].buckets(); m++)
          steps_.push_back({row(j, m), row(j, have), row(j, have + m)});
      int32_t status = team_.run_ranges(steps_.size(), kGroups * L, [&](uint64_t begin, uint64_t end, int32_t worker) {
        double_table(&steps_[begin], uint32_t(end - begin), workers_[worker]);
      });
      if (status != CZK_OK) return status;
    }
    return CZK_OK;
  }

  int32_t multiply(const void* scalars, void* out, uint64_t n, CzkCancel cancel) {
    // Full batches, or as many equal ones as there are threads; whole vectors.
    uint64_t batch = std::min<uint64_t>(kGroups * L, (n + team_.threads() - 1) / team_.threads());
    batch = (batch + L - 1) / L * L;
    return team_.run_ranges(n, batch, [&](uint64_t begin, uint64_t end, int32_t worker) -> int32_t {
      Buffer<Scalar> scalar(end - begin);
      for (uint64_t i = begin; i < end; i++)
        if (!load_scalar<typename G::Fr>(at(scalars, i, G::Fr::kBytes), scalar[i - begin])) return bad_scalar(i);
      return multiply(scalar.data(), at(out, begin, G::kPointBytes), uint32_t(end - begin), workers_[worker], cancel);
    });
  }

 private:
  struct Step {
    const char *a, *b;
    char* sum;
  };

  // The widths that make tables and products cheapest, in additions. The bit above the scalars takes the last carry.
  static std::vector<Window> cheapest(uint64_t n) {
    constexpr uint32_t kNarrowest = 2, kWidest = 14, bits = G::Fr::kBits;
    std::vector<Window> best;
    uint64_t least = ~uint64_t(0);
    for (uint32_t count = (bits + kWidest) / kWidest; count <= bits / kNarrowest; count++) {
      std::vector<Window> windows = cut_windows(bits, count);
      uint64_t cost = count * n;
      for (const Window& w : windows) cost += w.buckets();
      if (cost < least) least = cost, best = std::move(windows);
    }
    return best;
  }

  char* row(size_t window, uint32_t multiple) { return table_.data() + (first_[window] + multiple - 1) * V::kRowBytes; }

  static void double_table(const Step* steps, uint32_t count, Worker& worker) {
    char surplus[V::kRowBytes] = {};
    const uint32_t groups = (count + L - 1) / L;
    // The rows of a group's lanes; those past the end are infinity.
    auto rows = [&](uint32_t g, auto member, auto* out) {
      for (uint32_t l = 0; l < L; l++) out[l] = g * L + l < count ? steps[g * L + l].*member : surplus;
    };
    for (auto [member, vectors] : {std::pair(&Step::a, worker.sum.data()), std::pair(&Step::b, worker.addend.data())})
      for (uint32_t g = 0; g < groups; g++) {
        const char* from[L];
        rows(g, member, from);
        rows_to_lanes(from, vectors[g]);
      }
    worker.adder.add(worker.pair.data(), groups);
    for (uint32_t g = 0; g < groups; g++) {
      char* to[L];
      rows(g, &Step::sum, to);
      lanes_to_rows(worker.sum[g], to);
    }
  }

  int32_t multiply(const Scalar* scalars, void* out, uint32_t count, Worker& worker, CzkCancel cancel) {
    const uint32_t groups = (count + L - 1) / L;
    const char* table = table_.data();
    Buffer<int8_t> carry(count);
    std::fill(carry.begin(), carry.end(), 0);
    // The table's entries of a window, 2*row + sign, or kNone for the digit zero; fetched ahead.
    constexpr uint32_t kNone = ~uint32_t(0);
    auto look_up = [&](size_t j) {
      for (uint32_t i = 0; i < groups * L; i++) {
        worker.entry[i] = kNone;
        if (i >= count) continue;
        uint32_t c = uint32_t(carry[i]);
        const int32_t d = scalars[i].digit(windows_[j].position, windows_[j].width, c);
        carry[i] = int8_t(c);
        if (d == 0) continue;
        const uint64_t number = first_[j] + uint64_t(std::abs(d)) - 1;
        worker.entry[i] = uint32_t(2 * number) | uint32_t(d < 0);
        V::template prefetch<0>(table + number * V::kRowBytes);
      }
    };
    // The points of a window; infinity for the digit zero.
    auto take = [&](Lanes<V>* points) {
      for (uint32_t g = 0; g < groups; g++) {
        uint32_t entry[L];
        typename V::Mask mask = 0;
        for (uint32_t l = 0; l < L; l++) {
          const uint32_t e = worker.entry[g * L + l];
          entry[l] = e == kNone ? 0 : e;
          mask |= typename V::Mask(e != kNone) << l;
        }
        V x, y;
        V::gather(table, entry, x, y);
        points[g] = {V::select(mask, x, V::zero()), V::select(mask, y.normalised(), V::zero())};
      }
    };
    for (size_t j = 0; j < windows_.size(); j++) {
      if (cancelled(cancel)) return CZK_CANCELLED;
      look_up(j);
      take(j == 0 ? worker.sum.data() : worker.addend.data());
      if (j > 0) worker.adder.add(worker.pair.data(), groups);
    }
    for (uint32_t i = 0; i < count; i++)
      store_point<F>(lane_to_point(worker.sum[i / L], int(i % L)), at(out, i, G::kPointBytes));
    return CZK_OK;
  }

  Team& team_;
  std::vector<Window> windows_;
  std::vector<uint64_t> first_;
  Recycled<char> table_;
  std::vector<Step> steps_;
  PerThread<Worker> workers_;
};

template <class G>
int32_t fixed_base_mul(const void* base, const void* scalars, void* out, uint64_t n, int32_t threads,
                       CzkCancel cancel) {
  if (threads < 1) return fail(CZK_INVALID, "threads must be at least 1, not %d", threads);
  if (n == 0) return CZK_OK;
  Team team(threads, cancel);
  FixedBase<G> multiples(n, team);
  const int32_t status = multiples.build(base);
  return status != CZK_OK ? status : multiples.multiply(scalars, out, n, cancel);
}

}  // namespace
CZK_END

CZK_DEFINE(fixed_base_mul)(int32_t curve, int32_t group, const void* base, const void* scalars, void* out, uint64_t n,
                           int32_t threads, CzkCancel cancel) {
  using namespace czk;
  return guarded([&] {
    return with_group(curve, group, [&](auto tag) {
      return fixed_base_mul<typename decltype(tag)::type>(base, scalars, out, n, threads, cancel);
    });
  });
}
