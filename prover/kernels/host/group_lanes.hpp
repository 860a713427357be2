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

// The functions of V that are large, in lane_sums.cpp.
template <class V>
void points_to_rows(const void* points, const uint32_t* entries, uint64_t n, char* rows);
template <class V>
void rows_to_lanes(const char* const* rows, Lanes<V>& lanes);
template <class V>
void lanes_to_rows(const Lanes<V>& lanes, char* const* rows);
template <class V>
Affine<typename V::Field> lane_to_point(const Lanes<V>& lanes, int lane);

}  // namespace msm
CZK_END
