// Element-wise field operations: what tests and conversions call; the hot loops inline the same types.
#include "../field.cuh"
#include "variant.hpp"

CZK_BEGIN
namespace {

template <class F, class Fn>
void unary(const void* a, void* out, uint64_t n, Fn fn) {
  constexpr uint64_t size = element_bytes<F>();
  for (uint64_t i = 0; i < n; i++) store_element(fn(load_element<F>(at(a, i, size))), at(out, i, size));
}
template <class F, class Fn>
void binary(const void* a, const void* b, void* out, uint64_t n, Fn fn) {
  constexpr uint64_t size = element_bytes<F>();
  for (uint64_t i = 0; i < n; i++)
    store_element(fn(load_element<F>(at(a, i, size)), load_element<F>(at(b, i, size))), at(out, i, size));
}

template <class F>
F to_montgomery(const F& x) {
  if constexpr (kIsFp2<F>)
    return {x.c0.to_montgomery(), x.c1.to_montgomery()};
  else
    return x.to_montgomery();
}
template <class F>
F from_montgomery(const F& x) {
  if constexpr (kIsFp2<F>)
    return {x.c0.from_montgomery(), x.c1.from_montgomery()};
  else
    return x.from_montgomery();
}

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

// The GPU's form of a host field.
template <class F>
struct SharedForm;
template <class P>
struct SharedForm<HostField<P>> {
  using type = Field<P>;
};
template <class F>
struct SharedForm<Fp2<F>> {
  using type = Fp2<typename SharedForm<F>::type>;
};

template <class F>
int32_t field_op(int32_t op, const void* a, const void* b, void* out, uint64_t n) {
  switch (op) {
    case CZK_ADD: binary<F>(a, b, out, n, [](const F& x, const F& y) { return x + y; }); break;
    case CZK_SUB: binary<F>(a, b, out, n, [](const F& x, const F& y) { return x - y; }); break;
    case CZK_MUL: binary<F>(a, b, out, n, [](const F& x, const F& y) { return x * y; }); break;
    case CZK_SQR: unary<F>(a, out, n, [](const F& x) { return x.sqr(); }); break;
    case CZK_NEG: unary<F>(a, out, n, [](const F& x) { return x.neg(); }); break;
    case CZK_INV: batch_invert<F>(a, out, n); break;
    case CZK_TO_MONT: unary<F>(a, out, n, [](const F& x) { return to_montgomery(x); }); break;
    case CZK_FROM_MONT: unary<F>(a, out, n, [](const F& x) { return from_montgomery(x); }); break;
    default: return fail(CZK_INVALID, "unknown field operation %d", op);
  }
  return CZK_OK;
}

}  // namespace
CZK_END

CZK_DEFINE(field_op)(int32_t field, int32_t op, const void* a, const void* b, void* out, uint64_t n) {
  using namespace czk;
  return guarded([&] {
    return with_field(field, [&](auto tag) { return field_op<typename decltype(tag)::type>(op, a, b, out, n); });
  });
}

CZK_DEFINE(field_op_shared)(int32_t field, int32_t op, const void* a, const void* b, void* out, uint64_t n) {
  using namespace czk;
  return guarded([&] {
    if (op == CZK_INV) return fail(CZK_INVALID, "the shared form has no batch inversion");
    return with_field(field, [&](auto tag) {
      return field_op<typename SharedForm<typename decltype(tag)::type>::type>(op, a, b, out, n);
    });
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
