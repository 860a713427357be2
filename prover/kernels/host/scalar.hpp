// Scalars of the interface, and their digits.
#pragma once
#include "variant.hpp"

CZK_BEGIN

struct Scalar {
  uint64_t v[5];  // one limb of zeros above, so that a window may reach over the end

  CZK_FN uint32_t bits(uint32_t from, uint32_t width) const {
    const uint32_t limb = from / 64, shift = from % 64;
    uint64_t low = v[limb] >> shift;
    if (shift + width > 64) low |= v[limb + 1] << (64 - shift);
    return uint32_t(low & ((uint64_t(1) << width) - 1));
  }
  // The digit at bits [from, from + width), in (-2^(width-1), 2^(width-1)]; takes and leaves the carry of the digits
  // below. The highest digit leaves none if its window reaches a zero bit above the scalar.
  CZK_FN int32_t digit(uint32_t from, uint32_t width, uint32_t& carry) const {
    const uint32_t d = bits(from, width) + carry;
    carry = d > (uint32_t(1) << (width - 1));
    return int32_t(d) - int32_t(carry << width);
  }
};

// Whether the scalar is below r.
template <class Fr>
bool load_scalar(const void* src, Scalar& s) {
  static_assert(Fr::N == 4);
  const Fr x = Fr::load(src);
  for (int i = 0; i < 4; i++) s.v[i] = x.v[i];
  s.v[4] = 0;
  return x.is_reduced();
}

inline int32_t bad_scalar(uint64_t i) {
  return fail(CZK_INVALID, "scalar %llu is not below r", static_cast<unsigned long long>(i));
}

CZK_END
