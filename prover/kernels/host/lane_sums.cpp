// The additions of msm_batch.hpp, compiled once a variant for all that use them: by far the most of the compiler's work
// is in their unrolled products.
#include "group_lanes.hpp"
#include "msm_buckets.hpp"

CZK_BEGIN
namespace msm {

template <class V>
int32_t Accumulator<V>::add(const Run* given, uint32_t count, const uint32_t* entries, const char* table, char* buckets,
                            char* partial, CzkCancel cancel) {
  sort(given, count);
  load_first(given, count, entries, table);
  const Run* runs = runs_.data();
  uint32_t live = count;
  for (uint32_t step = 1;; step++) {
    while (live > 0 && runs[live - 1].length <= step) live--;
    if (live == 0) break;
    if (cancelled(cancel)) return CZK_CANCELLED;
    const uint32_t groups = (live + L - 1) / L, last = live - (groups - 1) * L;
    adder_.add(
        groups, [&](uint32_t g) -> Lanes<V>& { return sum_[g]; },
        [&](uint32_t g, V& x, V& y) {
          const uint32_t lanes = g + 1 < groups ? L : last;
          take(runs + g * L, lanes, step, entries, table, x, y);
          return lanes == L ? V::kAll : (typename V::Mask(1) << lanes) - 1;
        },
        // Inlined by force: the compiler takes a function that only prefetches for one without effect.
        [&](uint32_t g) __attribute__((always_inline)) { prefetch(runs + g * L, std::min(L, live - g * L), step + 1, entries, table); });
  }
  store(count, buckets, partial);
  return CZK_OK;
}

template <class V>
void PairAdder<V>::add(const Pair* pairs, uint32_t count) {
  adder_.add(
      count, [&](uint32_t g) -> Lanes<V>& { return *pairs[g].sum; },
      [&](uint32_t g, V& x, V& y) {
        x = pairs[g].addend->x;
        y = pairs[g].addend->y;
        return V::kAll;
      },
      [](uint32_t) {});
}

template <class V>
void points_to_rows(const void* points, const uint32_t* entries, uint64_t n, char* rows) {
  V::convert(static_cast<const char*>(points), entries, n, rows);
}
template <class V>
void rows_to_lanes(const char* const* rows, Lanes<V>& lanes) {
  V::load_rows(rows, lanes.x, lanes.y);
}
template <class V>
void lanes_to_rows(const Lanes<V>& lanes, char* const* rows) {
  V::store_rows(lanes, rows);
}
template <class V>
Affine<typename V::Field> lane_to_point(const Lanes<V>& lanes, int lane) {
  return V::to_affine(lanes, lane);
}

#define CZK_INSTANTIATE(curve, group)                                                                        \
  template class Accumulator<LanesOf<Group<curve, group>>>;                                                  \
  template class PairAdder<LanesOf<Group<curve, group>>>;                                                    \
  template void points_to_rows<LanesOf<Group<curve, group>>>(const void*, const uint32_t*, uint64_t, char*); \
  template void rows_to_lanes(const char* const*, Lanes<LanesOf<Group<curve, group>>>&);                     \
  template void lanes_to_rows(const Lanes<LanesOf<Group<curve, group>>>&, char* const*);                     \
  template Affine<Group<curve, group>::F> lane_to_point(const Lanes<LanesOf<Group<curve, group>>>&, int);
CZK_INSTANTIATE(Bls12381, 1)
CZK_INSTANTIATE(Bls12381, 2)
CZK_INSTANTIATE(Bn254, 1)
CZK_INSTANTIATE(Bn254, 2)
#undef CZK_INSTANTIATE

}  // namespace msm
CZK_END
