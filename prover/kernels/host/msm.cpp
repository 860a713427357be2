// Multi-scalar multiplication by Pippenger's bucket method ("On the evaluation of powers and monomials", 1980) with
// signed digits, affine additions in batches, and lanes: see msm_windows.hpp (digits), msm_batch.hpp (additions),
// msm_buckets.hpp (buckets).
//
// The bases must lie in the subgroup of order r: a scalar above r/2 stands for its opposite with the opposite base.
#include "msm_buckets.hpp"
#include "team.hpp"

#if CZK_VARIANT_ifma
#include "msm_lanes_ifma.hpp"
#endif

CZK_BEGIN
namespace {

using namespace msm;

#if CZK_VARIANT_ifma
template <class G>
using LanesOf = IfmaLanes<typename G::Fp::Params, G::kGroup>;
#else
template <class G>
using LanesOf = HostLane<typename G::F>;
#endif

template <class G>
class Pippenger {
  using V = LanesOf<G>;
  using F = typename G::F;
  using Sum = typename G::Accumulator;
  static constexpr uint32_t L = V::kLanes;

 public:
  Pippenger(const void* bases, const void* scalars, uint64_t n, Team& team, CzkCancel cancel)
      : bases_(static_cast<const char*>(bases)), given_(scalars), n_(n), threads_(uint64_t(team.threads())),
        team_(team), cancel_(cancel), scalars_(n) {}

  // *sum = the product; a status.
  int32_t run(Sum* sum) {
    *sum = Sum::infinity();
    int32_t status = read();
    if (status != CZK_OK || lengths_.total() == 0) return status;
    windows_ = choose_windows(lengths_, V::kCosts);
    status = team_.run(ranges_.size(), [&](uint64_t i, int32_t) { scalars_.add_offsets(ranges_[i], windows_); });
    if (status != CZK_OK) return status;
    points_.assign(lengths_.longest() + 2, {});
    const uint64_t wave = wave_windows();
    for (uint64_t begin = 0; begin < windows_.size(); begin += wave) {
      status = add_windows(begin, std::min<uint64_t>(windows_.size(), begin + wave));
      if (status != CZK_OK) return status;
    }
    for (size_t bit = points_.size(); bit-- > 0;) {
      *sum = sum->dbl();
      for (const Affine<F>& p : points_[bit]) sum->add(p);
    }
    return CZK_OK;
  }

 private:
  static constexpr uint64_t kRange = 4096;  // scalars and bases read in one task

  // Folds the scalars, drops what contributes nothing, converts the bases that remain.
  int32_t read() {
    table_ = Recycled<char>(n_ * V::kRowBytes);
    const uint64_t tasks = (n_ + kRange - 1) / kRange;
    ranges_.resize(tasks);
    std::vector<Lengths> lengths(std::min<uint64_t>(threads_, tasks));
    int32_t status = team_.run_ranges(n_, kRange, [&](uint64_t begin, uint64_t end, int32_t worker) {
      auto infinite = [&](uint64_t i) {
        const char* base = at(static_cast<const void*>(bases_), i, G::kPointBytes);
        uint64_t word;
        std::memcpy(&word, base, 8);
        return word == 0 && load_point<F>(base).is_infinity();
      };
      auto& range = ranges_[begin / kRange];
      range = scalars_.fill(given_, begin, end, lengths[worker], infinite);
      V::convert(bases_, &scalars_.entry(range.begin), range.end - range.begin, &table_[range.begin * V::kRowBytes]);
      scalars_.renumber(range);
    });
    for (const Lengths& l : lengths) lengths_.add(l);
    return status;
  }

  // Windows handled together, so that entries and buckets take not much more than 128 MiB.
  uint64_t wave_windows() const {
    const uint64_t bytes = 4 * n_ + uint64_t(windows_[0].buckets()) * sizeof(Lanes<V>) / L;
    return std::max<uint64_t>({threads_, (uint64_t(128) << 20) / bytes, 1});
  }

  // Windows of one size that one thread reduces together; bucket b of window first + w is row base + b*count + w.
  struct Part {
    uint64_t first, count, base;
    uint32_t buckets;
  };

  int32_t add_windows(uint64_t begin, uint64_t end) {
    const uint64_t count = end - begin;
    Recycled<uint32_t> entries(count * n_);
    std::vector<std::vector<uint32_t>> first(count);
    std::vector<Recycled<uint32_t>> keys(std::min<uint64_t>(threads_, count));
    int32_t status = team_.run(count, [&](uint64_t w, int32_t worker) {
      if (keys[worker].size() == 0) keys[worker] = Recycled<uint32_t>(n_);
      scalars_.sort(ranges_, windows_[begin + w], keys[worker].data(), &entries[w * n_], first[w]);
    });
    if (status != CZK_OK) return status;
    Recycled<char> buckets;
    const std::vector<Part> parts = place(begin, end, buckets);
    status = accumulate(begin, entries, first, parts, buckets.data());
    if (status != CZK_OK) return status;
    return reduce(parts, buckets.data());
  }

  std::vector<Part> place(uint64_t begin, uint64_t end, Recycled<char>& rows) const {
    std::vector<Part> parts;
    uint64_t base = 0;
    for (uint64_t i = begin; i < end;) {
      uint64_t same = i;
      while (same < end && windows_[same].width == windows_[i].width) same++;
      const Split split(same - i, threads_, 1);
      for (uint64_t p = 0; p < split.parts; p++) {
        const uint32_t count = uint32_t(split.end(p) - split.begin(p)), buckets = windows_[i].buckets();
        parts.push_back({i + split.begin(p), count, base, buckets});
        base += Reducer<V>::padded(count, buckets);
      }
      i = same;
    }
    rows = Recycled<char>(base * V::kRowBytes);
    for (const Part& p : parts) {
      const uint64_t used = p.count * p.buckets;
      clear(rows.data(), p.base + used, Reducer<V>::padded(p.count, p.buckets) - used);
    }
    return parts;
  }

  static void clear(char* rows, uint64_t row, uint64_t count) {
    std::memset(rows + row * V::kRowBytes, 0, count * V::kRowBytes);
  }

  // All buckets' points into their rows. A bucket with many points is cut into runs, whose sums are added up in a
  // further round as if they were points.
  int32_t accumulate(uint64_t begin, const Recycled<uint32_t>& entries, const std::vector<std::vector<uint32_t>>& first,
                     const std::vector<Part>& parts, char* buckets) {
    std::vector<Run> whole;  // one for each bucket that holds a point
    uint64_t buckets_in_all = 0;
    for (const Part& p : parts) buckets_in_all += p.count * p.buckets;
    whole.reserve(buckets_in_all);
    for (const Part& p : parts)
      for (uint64_t w = 0; w < p.count; w++) {
        const std::vector<uint32_t>& start = first[p.first + w - begin];
        for (uint32_t b = 0; b < p.buckets; b++) {
          const uint32_t row = p.base + b * p.count + w, length = start[b + 1] - start[b];
          if (length == 0)
            clear(buckets, row, 1);
          else
            whole.push_back({uint32_t((p.first + w - begin) * n_ + start[b]), length, row});
        }
      }
    const uint32_t* source = entries.data();
    const char* table = table_.data();
    Recycled<char> partial;
    Recycled<uint32_t> numbers;
    while (!whole.empty()) {
      std::vector<Run> cut, runs = cut_runs(whole, cut);
      uint64_t rows = 0;
      for (const Run& r : cut) rows += r.length;
      Recycled<char> next(rows * V::kRowBytes);
      int32_t status = add_runs(runs, source, table, buckets, next.data());
      if (status != CZK_OK) return status;
      numbers = Recycled<uint32_t>(rows);
      for (uint64_t i = 0; i < rows; i++) numbers[i] = uint32_t(i << 1);
      source = numbers.data();
      partial = std::move(next);
      table = partial.data();
      whole = std::move(cut);
    }
    return CZK_OK;
  }

  // Cuts `whole` into runs of at most so many points that enough lanes are busy and that no few long runs keep a batch
  // going. cut: for each bucket with several runs, where its partial sums will lie.
  std::vector<Run> cut_runs(const std::vector<Run>& whole, std::vector<Run>& cut) const {
    uint64_t points = 0;
    for (const Run& r : whole) points += r.length;
    const double load = double(points) / double(whole.size());
    const uint64_t lanes = threads_ * Accumulator<V>::kRuns;
    const uint32_t longest =
        uint32_t(std::max<uint64_t>(4, std::min(uint64_t(load + 2 * std::sqrt(load)), points / (2 * lanes))));
    std::vector<Run> runs;
    runs.reserve(whole.size() + points / longest);
    uint32_t row = 0;
    for (const Run& r : whole) {
      if (r.length <= longest) {
        runs.push_back(r);
        continue;
      }
      const uint32_t pieces = (r.length + longest - 1) / longest;
      cut.push_back({row, pieces, r.target});
      for (uint32_t i = 0, from = r.begin; i < pieces; i++) {
        const uint32_t length = r.length / pieces + (i < r.length % pieces);
        runs.push_back({from, length, kPartial + row++});
        from += length;
      }
    }
    return runs;
  }

  int32_t add_runs(const std::vector<Run>& runs, const uint32_t* source, const char* table, char* buckets,
                   char* partial) {
    // Full batches, or as many equal ones as there are threads; whole vectors.
    const uint64_t n = runs.size();
    uint64_t batch = std::min<uint64_t>(Accumulator<V>::kRuns, (n + threads_ - 1) / threads_);
    batch = (batch + L - 1) / L * L;
    std::vector<Accumulator<V>> workers(std::min<uint64_t>(threads_, (n + batch - 1) / batch));
    return team_.run_ranges(n, batch, [&](uint64_t from, uint64_t to, int32_t worker) {
      return workers[worker].add(&runs[from], uint32_t(to - from), source, table, buckets, partial, cancel_);
    });
  }

  int32_t reduce(const std::vector<Part>& parts, const char* buckets) {
    std::vector<std::vector<Affine<F>>> found(parts.size());
    std::vector<Reducer<V>> workers(std::min<uint64_t>(threads_, parts.size()));
    int32_t status = team_.run(parts.size(), [&](uint64_t i, int32_t worker) -> int32_t {
      const Part& p = parts[i];
      Reducer<V>& reducer = workers[worker];
      int32_t result = reducer.reduce(buckets + p.base * V::kRowBytes, uint32_t(p.count), p.buckets, cancel_);
      if (result != CZK_OK) return result;
      for (uint32_t piece = 0; piece < windows_[p.first].width; piece++)
        for (uint32_t w = 0; w < p.count; w++) found[i].push_back(V::to_affine(reducer.piece(piece)[w / L], w % L));
      return CZK_OK;
    });
    if (status != CZK_OK) return status;
    for (size_t i = 0; i < parts.size(); i++)
      for (uint64_t k = 0; k < found[i].size(); k++) {
        const Window& window = windows_[parts[i].first + k % parts[i].count];
        const uint64_t piece = k / parts[i].count;
        // Piece 0 weighs 1, piece 1 + r weighs buckets/2^(r+1) = 2^(width - 2 - r).
        points_[window.position + (piece == 0 ? 0 : window.width - 1 - piece)].push_back(found[i][k]);
      }
    return CZK_OK;
  }

  const char* bases_;
  const void* given_;
  uint64_t n_;
  uint64_t threads_;
  Team& team_;
  CzkCancel cancel_;
  Scalars<typename G::Fr> scalars_;
  std::vector<typename Scalars<typename G::Fr>::Range> ranges_;
  Lengths lengths_;
  std::vector<Window> windows_;
  Recycled<char> table_;  // converted bases
  std::vector<std::vector<Affine<F>>> points_;  // by bit of weight
};

template <class G>
int32_t msm_of(const void* bases, const void* scalars, uint64_t n, int32_t threads, CzkCancel cancel, void* out) {
  using F = typename G::F;
  constexpr uint64_t kBlock = uint64_t(1) << 20;  // bounds the memory
  if (threads < 1) return fail(CZK_INVALID, "threads must be at least 1, not %d", threads);
  Team team(threads, cancel);
  typename G::Accumulator total = G::Accumulator::infinity();
  for (uint64_t begin = 0; begin < n; begin += kBlock) {
    typename G::Accumulator sum;
    Pippenger<G> block(at(bases, begin, G::kPointBytes), at(scalars, begin, G::Fr::kBytes), std::min(kBlock, n - begin),
                       team, cancel);
    int32_t status = block.run(&sum);
    if (status != CZK_OK) return status;
    total.add(sum);
  }
  store_point<F>(total.to_affine(), out);
  return CZK_OK;
}

template <class G>
int32_t combine(const void* points, const uint32_t* positions, uint64_t n, void* out) {
  using F = typename G::F;
  constexpr uint64_t kCoordinate = element_bytes<F>();
  typename G::Accumulator sum = G::Accumulator::infinity();
  for (uint64_t i = n; i-- > 0;) {
    const char* p = at(points, i, 4 * kCoordinate);
    sum.add(typename G::Accumulator{load_element<F>(p), load_element<F>(p + kCoordinate),
                                    load_element<F>(p + 2 * kCoordinate), load_element<F>(p + 3 * kCoordinate)});
    const uint32_t below = i > 0 ? positions[i - 1] : 0;
    if (positions[i] < below || positions[i] > 256)
      return fail(CZK_INVALID, "position %u of point %llu must be from %u to 256", positions[i],
                  static_cast<unsigned long long>(i), below);
    for (uint32_t k = below; k < positions[i]; k++) sum = sum.dbl();
  }
  store_point<F>(sum.to_affine(), out);
  return CZK_OK;
}

}  // namespace
CZK_END

CZK_DEFINE(msm_combine)(int32_t curve, int32_t group, const void* points, const uint32_t* positions, uint64_t n,
                        void* out) {
  using namespace czk;
  return guarded([&] {
    return with_group(curve, group, [&](auto tag) {
      return combine<typename decltype(tag)::type>(points, positions, n, out);
    });
  });
}

CZK_DEFINE(msm)(int32_t curve, int32_t group, const void* bases, const void* scalars, uint64_t n, int32_t threads,
                CzkCancel cancel, void* out) {
  using namespace czk;
  return guarded([&] {
    return with_group(curve, group, [&](auto tag) {
      return msm_of<typename decltype(tag)::type>(bases, scalars, n, threads, cancel, out);
    });
  });
}
