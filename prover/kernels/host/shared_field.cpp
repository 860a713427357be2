// Field operations through the header that the GPU's kernels are written on, inline as its busiest kernels have them: for
// tests, so compiled once.
#include "../field.cuh"
#include "elementwise.hpp"

CZK_BEGIN
namespace {

// The GPU's form of a host field.
template <class F>
struct SharedForm;
template <class P>
struct SharedForm<HostField<P>> {
  using type = Field<P, MulForm::kInline>;
};
template <class F>
struct SharedForm<Fp2<F>> {
  using type = Fp2<typename SharedForm<F>::type>;
};

}  // namespace
CZK_END

extern "C" __attribute__((visibility("default"))) int32_t czk_field_op_shared(int32_t field, int32_t op, const void* a,
                                                                              const void* b, void* out, uint64_t n) {
  using namespace czk;
  return guarded([&] {
    return with_field(field, [&](auto tag) {
      using F = typename SharedForm<typename decltype(tag)::type>::type;
      if (op != CZK_INV) return elementwise<F>(op, a, b, out, n);
      unary<F>(a, out, n, [](const F& x) { return x.inverse(); });
      return int32_t(CZK_OK);
    });
  });
}
