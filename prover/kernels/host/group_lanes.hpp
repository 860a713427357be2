// The lanes in which the variant adds a group's points.
#pragma once
#include "msm_lanes.hpp"

#if CZK_VARIANT_ifma
#include "msm_lanes_ifma.hpp"
#endif

CZK_BEGIN
namespace msm {

#if CZK_VARIANT_ifma
template <class G>
using LanesOf = IfmaLanes<typename G::Fp::Params, G::kGroup>;
#else
template <class G>
using LanesOf = HostLane<typename G::F>;
#endif

// Points of the interface as rows of V; the number i of the row is that of the point.
template <class V>
void points_to_rows(const void* points, uint64_t n, char* rows) {
  constexpr uint64_t kBlock = 1024;
  uint32_t entries[kBlock];
  for (uint64_t begin = 0; begin < n; begin += kBlock) {
    const uint64_t count = std::min(kBlock, n - begin);
    for (uint64_t i = 0; i < count; i++) entries[i] = uint32_t(begin + i) << 1;
    V::convert(static_cast<const char*>(points), entries, count, rows + begin * V::kRowBytes);
  }
}

}  // namespace msm
CZK_END
