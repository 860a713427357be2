// The ChaCha20 block function (RFC 8439, section 2.3): pseudorandom words from a secret seed, for random checks.
#pragma once
#include "variant.hpp"

CZK_BEGIN

struct ChaChaBlock {
  uint32_t word[16];
};

constexpr void chacha_quarter_round(uint32_t* s, int a, int b, int c, int d) {
  auto rotate = [](uint32_t x, int n) { return (x << n) | (x >> (32 - n)); };
  s[a] += s[b], s[d] = rotate(s[d] ^ s[a], 16);
  s[c] += s[d], s[b] = rotate(s[b] ^ s[c], 12);
  s[a] += s[b], s[d] = rotate(s[d] ^ s[a], 8);
  s[c] += s[d], s[b] = rotate(s[b] ^ s[c], 7);
}

constexpr ChaChaBlock chacha_block(const uint32_t* key, uint32_t counter, uint32_t n0, uint32_t n1, uint32_t n2) {
  const uint32_t start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, key[0], key[1], key[2], key[3],
                              key[4],     key[5],     key[6],     key[7],     counter, n0,    n1,     n2};
  ChaChaBlock b{};
  for (int i = 0; i < 16; i++) b.word[i] = start[i];
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 4; i++) chacha_quarter_round(b.word, i, 4 + i, 8 + i, 12 + i);
    for (int i = 0; i < 4; i++) chacha_quarter_round(b.word, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
  }
  for (int i = 0; i < 16; i++) b.word[i] += start[i];
  return b;
}

// The RFC's own example, section 2.3.2.
constexpr uint32_t kChaChaTestKey[8] = {0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c,
                                        0x13121110, 0x17161514, 0x1b1a1918, 0x1f1e1d1c};
static_assert(chacha_block(kChaChaTestKey, 1, 0x09000000, 0x4a000000, 0).word[0] == 0xe4e7f110);
static_assert(chacha_block(kChaChaTestKey, 1, 0x09000000, 0x4a000000, 0).word[15] == 0x4e3c50a2);

CZK_END
