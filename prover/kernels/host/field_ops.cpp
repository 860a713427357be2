// Element-wise field operations: what tests and conversions call; the hot loops inline the same types.
#include "elementwise.hpp"
#include "variant.hpp"

CZK_BEGIN
namespace {

// Montgomery's trick (Speeding the Pollard and elliptic curve methods, 1987, section 10.3.1): one inversion for all,
// three products each. Zeros are stepped over.
template <class F>
void batch_invert(const void* a, void* out, uint64_t n) {
  constexpr uint64_t size = element_bytes<F>();
  Buffer<F> prefix(n);  // product of the non-zero elements before i
  F product = F::one();
  for (uint64_t i = 0; i < n; i++) {
    prefix[i] = product;
    F x = load_element<F>(at(a, i, size));
    if (!x.is_zero()) product = product * x;
  }
  F inverse = product.inverse();
  for (uint64_t i = n; i-- > 0;) {
    F x = load_element<F>(at(a, i, size));
    if (x.is_zero()) {
      store_element(x, at(out, i, size));
      continue;
    }
    store_element(inverse * prefix[i], at(out, i, size));
    inverse = inverse * x;
  }
}

template <class F>
int32_t field_op(int32_t op, const void* a, const void* b, void* out, uint64_t n) {
  if (op == CZK_INV) {
    batch_invert<F>(a, out, n);
    return CZK_OK;
  }
  return elementwise<F>(op, a, b, out, n);
}

}  // namespace
CZK_END

CZK_DEFINE(field_op)(int32_t field, int32_t op, const void* a, const void* b, void* out, uint64_t n) {
  using namespace czk;
  return guarded([&] {
    return with_field(field, [&](auto tag) { return field_op<typename decltype(tag)::type>(op, a, b, out, n); });
  });
}

CZK_DEFINE(field_check)(int32_t field, const void* a, uint64_t n, uint64_t* bad) {
  using namespace czk;
  return guarded([&] {
    return with_field(field, [&](auto tag) {
      using F = typename decltype(tag)::type;
      constexpr uint64_t size = element_bytes<F>();
      for (*bad = 0; *bad < n; ++*bad) {
        F x = load_element<F>(at(a, *bad, size));
        bool reduced;
        if constexpr (kIsFp2<F>)
          reduced = x.c0.is_reduced() && x.c1.is_reduced();
        else
          reduced = x.is_reduced();
        if (!reduced) break;
      }
      return int32_t(CZK_OK);
    });
  });
}
