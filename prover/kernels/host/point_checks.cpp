// The checks of points that come from files, one by one: coordinates, curve, subgroup.
#include "endomorphism.hpp"
#include "variant.hpp"

CZK_BEGIN
namespace {

enum { kNotReduced = 1, kNotOnCurve = 2, kNotInSubgroup = 3 };

template <class F>
bool is_reduced(const F& x) {
  if constexpr (kIsFp2<F>)
    return x.c0.is_reduced() && x.c1.is_reduced();
  else
    return x.is_reduced();
}

template <class G>
int32_t fault(const typename G::Point& p, bool subgroup) {
  if (!is_reduced(p.x) || !is_reduced(p.y)) return kNotReduced;
  if (!is_on_curve<G>(p)) return kNotOnCurve;
  if (subgroup && !is_in_subgroup<G>(G::Accumulator::from_affine(p))) return kNotInSubgroup;
  return 0;
}

template <class G>
int32_t points_check(const void* points, uint64_t n, int32_t checks, int32_t threads, CzkCancel cancel, uint64_t* bad,
                     int32_t* why) {
  using F = typename G::F;
  const bool subgroup = checks & CZK_CHECK_SUBGROUP;
  std::atomic<uint64_t> first{n};
  // Ranges are taken in order, so a range that begins above a known offender can be left out.
  int32_t status =
      parallel_ranges(n, subgroup ? 16 : 1024, threads, cancel, [&](uint64_t begin, uint64_t end, int32_t) {
        for (uint64_t i = begin; i < end && i < first.load(std::memory_order_relaxed); i++) {
          if (!fault<G>(load_point<F>(at(points, i, G::kPointBytes)), subgroup)) continue;
          uint64_t seen = first.load();
          while (i < seen && !first.compare_exchange_weak(seen, i)) {
          }
        }
      });
  if (status != CZK_OK) return status;
  *bad = first;
  *why = first < n ? fault<G>(load_point<F>(at(points, first, G::kPointBytes)), subgroup) : 0;
  return CZK_OK;
}

}  // namespace
CZK_END

CZK_DEFINE(points_check)(int32_t curve, int32_t group, const void* points, uint64_t n, int32_t checks, int32_t threads,
                         CzkCancel cancel, uint64_t* bad, int32_t* why) {
  using namespace czk;
  return guarded([&] {
    return with_group(curve, group, [&](auto tag) {
      return points_check<typename decltype(tag)::type>(points, n, checks, threads, cancel, bad, why);
    });
  });
}
