// Loops over arrays of field elements, for any form of field.
#pragma once
#include "variant.hpp"

CZK_BEGIN

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

// The operations of abi.h but for CZK_INV.
template <class F>
int32_t elementwise(int32_t op, const void* a, const void* b, void* out, uint64_t n) {
  switch (op) {
    case CZK_ADD: binary<F>(a, b, out, n, [](const F& x, const F& y) { return x + y; }); break;
    case CZK_SUB: binary<F>(a, b, out, n, [](const F& x, const F& y) { return x - y; }); break;
    case CZK_MUL: binary<F>(a, b, out, n, [](const F& x, const F& y) { return x * y; }); break;
    case CZK_SQR: unary<F>(a, out, n, [](const F& x) { return x.sqr(); }); break;
    case CZK_NEG: unary<F>(a, out, n, [](const F& x) { return x.neg(); }); break;
    case CZK_TO_MONT: unary<F>(a, out, n, [](const F& x) { return to_montgomery(x); }); break;
    case CZK_FROM_MONT: unary<F>(a, out, n, [](const F& x) { return from_montgomery(x); }); break;
    default: return fail(CZK_INVALID, "unknown field operation %d", op);
  }
  return CZK_OK;
}

CZK_END
