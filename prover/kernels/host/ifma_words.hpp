// Elements of four 64-bit words in memory, eight at a time, to and from five vectors of 52-bit limbs.
#pragma once
#include <immintrin.h>

#include "../portable.cuh"

CZK_BEGIN

// Lanes hold the elements in the order 0 2 1 3 4 6 5 7: what two shuffles give. `pack_words` undoes it.
struct WordLimbs {
  __m512i limb[5];
};

CZK_FN WordLimbs unpack_words(__m512i e01, __m512i e23, __m512i e45, __m512i e67) {
  const __m512i mask = _mm512_set1_epi64((int64_t(1) << 52) - 1);
  __m512i even_low = _mm512_unpacklo_epi64(e01, e23), odd_low = _mm512_unpackhi_epi64(e01, e23);
  __m512i even_high = _mm512_unpacklo_epi64(e45, e67), odd_high = _mm512_unpackhi_epi64(e45, e67);
  __m512i w0 = _mm512_shuffle_i64x2(even_low, even_high, 0x88), w2 = _mm512_shuffle_i64x2(even_low, even_high, 0xdd);
  __m512i w1 = _mm512_shuffle_i64x2(odd_low, odd_high, 0x88), w3 = _mm512_shuffle_i64x2(odd_low, odd_high, 0xdd);
  auto joined = [&](__m512i low, int down, __m512i high) {
    return _mm512_and_si512(_mm512_or_si512(_mm512_srli_epi64(low, down), _mm512_slli_epi64(high, 64 - down)), mask);
  };
  WordLimbs x;
  x.limb[0] = _mm512_and_si512(w0, mask);
  x.limb[1] = joined(w0, 52, w1);
  x.limb[2] = joined(w1, 40, w2);
  x.limb[3] = joined(w2, 28, w3);
  x.limb[4] = _mm512_srli_epi64(w3, 16);
  return x;
}

// Eight consecutive elements.
CZK_FN WordLimbs load_words(const void* src) {
  auto at = [&](int i) { return _mm512_loadu_si512(static_cast<const char*>(src) + 64 * i); };
  return unpack_words(at(0), at(1), at(2), at(3));
}
// Element l from src + l*stride bytes.
CZK_FN WordLimbs load_words(const void* src, uint64_t stride) {
  auto at = [&](int l) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(static_cast<const char*>(src) + l * stride));
  };
  __m512i pair[4];
  CZK_UNROLL for (int i = 0; i < 4; i++)
    pair[i] = _mm512_inserti64x4(_mm512_castsi256_si512(at(2 * i)), at(2 * i + 1), 1);
  return unpack_words(pair[0], pair[1], pair[2], pair[3]);
}

// Stores eight consecutive elements: values below 2^256 in limbs below 2^52.
CZK_FN void pack_words(const WordLimbs& x, void* dst) {
  auto joined = [&](int i, int down, int up) {
    return _mm512_or_si512(_mm512_srli_epi64(x.limb[i], down), _mm512_slli_epi64(x.limb[i + 1], up));
  };
  __m512i w0 = joined(0, 0, 52), w1 = joined(1, 12, 40), w2 = joined(2, 24, 28), w3 = joined(3, 36, 16);
  __m512i low_even = _mm512_unpacklo_epi64(w0, w1), low_odd = _mm512_unpackhi_epi64(w0, w1);
  __m512i high_even = _mm512_unpacklo_epi64(w2, w3), high_odd = _mm512_unpackhi_epi64(w2, w3);
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  auto put = [&](int i, __m512i low, const __m512i& which, __m512i high) {
    _mm512_storeu_si512(static_cast<char*>(dst) + 64 * i, _mm512_permutex2var_epi64(low, which, high));
  };
  put(0, low_even, first, high_even);
  put(1, low_odd, first, high_odd);
  put(2, low_even, second, high_even);
  put(3, low_odd, second, high_odd);
}

CZK_END
