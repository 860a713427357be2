// Eight transforms side by side, one element after the other: the form of every processor.
//
// A Lanes type gives the block transform (ntt_block.hpp) its arithmetic on blocks of eight elements, one of each of
// eight independent transforms. Blocks may hold any representation; `load` and `store` meet the interface's elements.
#pragma once
#include "host_field.hpp"

CZK_BEGIN

template <class F>
struct ScalarLanes {
  using Field = F;
  static constexpr int kLanes = 8;
  struct Block {
    F x[kLanes];
  };
  // A factor common to the lanes, and one factor for each lane.
  using Constant = F;
  using Factors = Block;

  static Constant constant(const F& x) { return x; }
  // The form in which a table of factors, one for each lane, is kept.
  static F factor(const F& x) { return x; }

  // Lane l from src + l*stride bytes.
  static CZK_FN void load(Block& b, const char* src, uint64_t stride) {
    for (int l = 0; l < kLanes; l++) b.x[l] = F::load(src + l * stride);
  }
  static CZK_FN void load_scaled(Block& b, const char* src, uint64_t stride, const Constant& k) {
    for (int l = 0; l < kLanes; l++) b.x[l] = F::load(src + l * stride) * k;
  }
  static CZK_FN void store(const Block& b, char* dst) {
    for (int l = 0; l < kLanes; l++) b.x[l].store(dst + l * F::kBytes);
  }
  static CZK_FN void store_scaled(const Block& b, const Constant& k, char* dst) {
    for (int l = 0; l < kLanes; l++) (b.x[l] * k).store(dst + l * F::kBytes);
  }

  static CZK_FN Factors load_factors(const F* src) {
    Factors f;
    for (int l = 0; l < kLanes; l++) f.x[l] = src[l];
    return f;
  }
  static CZK_FN void multiply(Factors& f, const Factors& by) {
    for (int l = 0; l < kLanes; l++) f.x[l] = f.x[l] * by.x[l];
  }
  // Stores each lane times its factor, for the second pass to load.
  static CZK_FN void store_twisted(const Block& b, const Factors& f, char* dst) {
    for (int l = 0; l < kLanes; l++) (b.x[l] * f.x[l]).store(dst + l * F::kBytes);
  }

  // Two levels of decimation in frequency on x[0], x[h], x[2h], x[3h]; w = (z^2k, z^k, z^3k), i = z^h, z of order 4h.
  template <bool kReduce>
  static CZK_FN void radix4(Block* x, uint64_t h, const Constant* w, const Constant& i) {
    for (int l = 0; l < kLanes; l++) {
      F a = x[0].x[l], b = x[h].x[l], c = x[2 * h].x[l], d = x[3 * h].x[l];
      F s0 = a + c, s1 = b + d, d0 = a - c, d1 = (b - d) * i;
      x[0].x[l] = s0 + s1;
      x[h].x[l] = (s0 - s1) * w[0];
      x[2 * h].x[l] = (d0 + d1) * w[1];
      x[3 * h].x[l] = (d0 - d1) * w[2];
    }
  }
  // The same where w is (1, 1, 1).
  template <bool kReduce>
  static CZK_FN void radix4_plain(Block* x, uint64_t h, const Constant& i) {
    for (int l = 0; l < kLanes; l++) {
      F a = x[0].x[l], b = x[h].x[l], c = x[2 * h].x[l], d = x[3 * h].x[l];
      F s0 = a + c, s1 = b + d, d0 = a - c, d1 = (b - d) * i;
      x[0].x[l] = s0 + s1;
      x[h].x[l] = s0 - s1;
      x[2 * h].x[l] = d0 + d1;
      x[3 * h].x[l] = d0 - d1;
    }
  }
  static CZK_FN void radix2_plain(Block* x) {
    for (int l = 0; l < kLanes; l++) {
      F a = x[0].x[l], b = x[1].x[l];
      x[0].x[l] = a + b;
      x[1].x[l] = a - b;
    }
  }
};

CZK_END
