// Multi-scalar multiplication by Pippenger's bucket method ("On the evaluation of powers and monomials", 1980) with
// signed digits, affine additions in batches, and lanes: see msm_windows.hpp (digits), msm_batch.hpp (additions),
// msm_buckets.hpp (buckets).
//
// The bases must lie in the subgroup of order r: a scalar above r/2 stands for its opposite with the opposite base.
#include "group_lanes.hpp"
#include "msm_buckets.hpp"

CZK_BEGIN
namespace {

using namespace msm;

// What does not depend on the group: how the work is cut.
class Pippenger {
 public:
  // n scalars; the group's points are added up `lanes` at a time, in at most `batch` sums, and lie in rows of row_bytes.
  struct Shape {
    uint64_t lanes, batch, row_bytes;
    Costs costs;
  };

  Pippenger(const Shape& shape, uint64_t n, Team& team, CzkCancel cancel)
      : shape_(shape), n_(n), threads_(uint64_t(team.threads())), team_(team), cancel_(cancel), scalars_(n) {}
  virtual ~Pippenger() = default;

  // Finds points whose sum, each weighed by 2^position, is the product; a status.
  int32_t run() {
    int32_t status = read();
    if (status != CZK_OK || lengths_.total() == 0) return status;
    windows_ = choose_windows(lengths_, shape_.costs);
    status = team_.run(ranges_.size(), [&](uint64_t i, int32_t) { scalars_.add_offsets(ranges_[i], windows_); });
    if (status != CZK_OK) return status;
    const uint64_t wave = wave_windows();
    for (uint64_t begin = 0; begin < windows_.size(); begin += wave) {
      status = add_windows(begin, std::min<uint64_t>(windows_.size(), begin + wave));
      if (status != CZK_OK) return status;
    }
    return CZK_OK;
  }

 protected:
  // Windows of one size that one thread reduces together; bucket b of window first + w is row base + b*count + w.
  struct Part {
    uint64_t first, count, base;
    uint32_t buckets;
  };

  // Folds the scalars, drops what contributes nothing, converts the bases that remain.
  virtual int32_t read() = 0;
  // The sums of all runs of the entries' points, into the rows of `buckets` and `partial`.
  virtual int32_t add_runs(const std::vector<Run>& runs, const uint32_t* entries, const char* table, char* buckets,
                           char* partial) = 0;
  // The windows' points out of their buckets.
  virtual int32_t reduce(const std::vector<Part>& parts, const char* buckets) = 0;

  // Number k of a part's points, of which there are count for each bit of the window, weighs 2^position.
  uint32_t position(const Part& part, uint64_t k) const {
    const Window& window = windows_[part.first + k % part.count];
    const uint32_t piece = uint32_t(k / part.count);
    // Piece 0 weighs 1, piece 1 + r weighs buckets/2^(r+1) = 2^(width - 2 - r).
    return window.position + (piece == 0 ? 0 : window.width - 1 - piece);
  }

 private:
  // Rows of buckets, whole vectors: those past the last bucket must hold infinity.
  uint64_t padded(uint64_t buckets) const { return (buckets + shape_.lanes - 1) / shape_.lanes * shape_.lanes; }

  // Windows handled together, so that entries and buckets take not much more than 128 MiB.
  uint64_t wave_windows() const {
    const uint64_t bytes = 4 * n_ + uint64_t(windows_[0].buckets()) * shape_.row_bytes;
    return std::max<uint64_t>({threads_, (uint64_t(128) << 20) / bytes, 1});
  }

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
        base += padded(uint64_t(count) * buckets);
      }
      i = same;
    }
    rows = Recycled<char>(base * shape_.row_bytes);
    for (const Part& p : parts) {
      const uint64_t used = p.count * p.buckets;
      clear(rows.data(), p.base + used, padded(used) - used);
    }
    return parts;
  }

  void clear(char* rows, uint64_t row, uint64_t count) const {
    std::memset(rows + row * shape_.row_bytes, 0, count * shape_.row_bytes);
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
      Recycled<char> next(rows * shape_.row_bytes);
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
    const uint64_t lanes = threads_ * shape_.batch;
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

  const Shape shape_;

 protected:
  const uint64_t n_, threads_;
  Team& team_;
  const CzkCancel cancel_;
  Scalars scalars_;
  std::vector<Scalars::Range> ranges_;
  Lengths lengths_;
  Recycled<char> table_;  // converted bases

 private:
  std::vector<Window> windows_;
};

// The numbers of the weights, lightest first.
std::vector<uint32_t> ascending(const std::vector<uint32_t>& weights) {
  std::vector<uint32_t> order(weights.size());
  for (uint32_t i = 0; i < order.size(); i++) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return weights[a] < weights[b]; });
  return order;
}

// The points of one group.
template <class G>
class PippengerIn final : public Pippenger {
  using V = LanesOf<G>;
  using F = typename G::F;
  static constexpr uint32_t L = V::kLanes;

 public:
  PippengerIn(const void* bases, const void* scalars, uint64_t n, Team& team, CzkCancel cancel,
              std::vector<Affine<F>>& points, std::vector<uint32_t>& positions)
      : Pippenger({L, Accumulator<V>::kRuns, V::kRowBytes, V::kCosts}, n, team, cancel),
        bases_(static_cast<const char*>(bases)), given_(scalars), points_(points), positions_(positions) {}

 private:
  static constexpr uint64_t kRange = 4096;  // scalars and bases read in one task

  int32_t read() override {
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
      range = scalars_.fill<typename G::Fr>(given_, begin, end, lengths[worker], infinite);
      points_to_rows<V>(bases_, &scalars_.entry(range.begin), range.end - range.begin, &table_[range.begin * V::kRowBytes]);
      scalars_.renumber(range);
    });
    for (const Lengths& l : lengths) lengths_.add(l);
    return status;
  }

  int32_t add_runs(const std::vector<Run>& runs, const uint32_t* entries, const char* table, char* buckets,
                   char* partial) override {
    // Full batches, or as many equal ones as there are threads; whole vectors.
    const uint64_t n = runs.size();
    uint64_t batch = std::min<uint64_t>(Accumulator<V>::kRuns, (n + threads_ - 1) / threads_);
    batch = (batch + L - 1) / L * L;
    PerThread<Accumulator<V>> workers(threads_);
    return team_.run_ranges(n, batch, [&](uint64_t from, uint64_t to, int32_t worker) {
      return workers[worker].add(&runs[from], uint32_t(to - from), entries, table, buckets, partial, cancel_);
    });
  }

  int32_t reduce(const std::vector<Part>& parts, const char* buckets) override {
    PerThread<Reducer<V>> workers(threads_);
    std::mutex mutex;
    return team_.run(parts.size(), [&](uint64_t i, int32_t worker) -> int32_t {
      const Part& part = parts[i];
      Reducer<V>& reducer = workers[worker];
      int32_t status = reducer.reduce(buckets + part.base * V::kRowBytes, uint32_t(part.count), part.buckets, cancel_);
      if (status != CZK_OK) return status;
      std::lock_guard<std::mutex> lock(mutex);
      for (uint64_t k = 0; k < reducer.pieces() * part.count; k++) {
        const uint64_t w = k % part.count;
        points_.push_back(lane_to_point(reducer.piece(uint32_t(k / part.count))[w / L], int(w % L)));
        positions_.push_back(position(part, k));
      }
      return CZK_OK;
    });
  }

  const char* bases_;
  const void* given_;
  std::vector<Affine<F>>& points_;
  std::vector<uint32_t>& positions_;
};

template <class G>
int32_t msm_of(const void* bases, const void* scalars, uint64_t n, int32_t threads, CzkCancel cancel, void* out) {
  using F = typename G::F;
  constexpr uint64_t kBlock = uint64_t(1) << 20;  // bounds the memory
  if (threads < 1) return fail(CZK_INVALID, "threads must be at least 1, not %d", threads);
  Team team(threads, cancel);
  std::vector<Affine<F>> found;
  std::vector<uint32_t> weights;
  for (uint64_t begin = 0; begin < n; begin += kBlock) {
    PippengerIn<G> block(at(bases, begin, G::kPointBytes), at(scalars, begin, G::Fr::kBytes),
                         std::min(kBlock, n - begin), team, cancel, found, weights);
    const int32_t status = block.run();
    if (status != CZK_OK) return status;
  }
  Buffer<Xyzz<F>> points(found.size());
  Buffer<uint32_t> positions(found.size());
  const std::vector<uint32_t> order = ascending(weights);
  for (size_t i = 0; i < order.size(); i++) {
    points[i] = Xyzz<F>::from_affine(found[order[i]]);
    positions[i] = weights[order[i]];
  }
  return czk_msm_combine(G::Curve::kIndex, G::kGroup, points.data(), positions.data(), order.size(), out);
}

}  // namespace
CZK_END

CZK_DEFINE(msm)(int32_t curve, int32_t group, const void* bases, const void* scalars, uint64_t n, int32_t threads,
                CzkCancel cancel, void* out) {
  using namespace czk;
  return guarded([&] {
    return with_group(curve, group, [&](auto tag) {
      return msm_of<typename decltype(tag)::type>(bases, scalars, n, threads, cancel, out);
    });
  });
}
