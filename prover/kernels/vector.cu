// Element-wise work over Fr.
#include "field.cuh"
#include "grid.cuh"
#include "params.cuh"

CZK_BEGIN

using Fr = Field<CZK_FR, kHotForm>;

CZK_FN Fr load_element(const uint32_t* source, uint32_t index) {
  Fr x;
  load_words<Fr::N>(x.v, source + uint64_t(index) * Fr::N);
  return x;
}

CZK_END

// out = a*b - c, Montgomery in; canonical out if asked. out may be any of the operands.
CZK_KERNEL(256)
mul_sub(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* out, uint32_t n, uint32_t canonical_out) {
  using namespace czk;
  for (uint32_t i = grid::thread_of_all(); i < n; i += grid::all_threads()) {
    Fr value = load_element(a, i) * load_element(b, i) - load_element(c, i);
    if (canonical_out) value = value.from_montgomery();
    store_words<Fr::N>(out + uint64_t(i) * Fr::N, value.v);
  }
}
