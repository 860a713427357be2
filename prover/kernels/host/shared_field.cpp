// Field operations through the header that the GPU's kernels are written on: for tests, so compiled once and small.
#include "../field.cuh"
#include "elementwise.hpp"

CZK_BEGIN
namespace {

// The GPU's form of a host field.
template <class F>
struct SharedForm;
template <class P>
struct SharedForm<HostField<P>> {
  using type = Field<P, MulForm::kOutlined>;
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
    if (op == CZK_INV) return fail(CZK_INVALID, "the shared form has no batch inversion");
    return with_field(field, [&](auto tag) {
      return elementwise<typename SharedForm<typename decltype(tag)::type>::type>(op, a, b, out, n);
    });
  });
}
