// The transform of a block that stays in cache: m elements in each of eight lanes, decimation in frequency (Gentleman
// and Sande 1966), two levels at a time, natural order in, bit-reversed order out.
#pragma once
#include <type_traits>
#include <vector>

#include "host_field.hpp"

CZK_BEGIN

// Twiddle factors of the transform of 2^log_m elements, in the order of use.
template <class L>
class BlockTwiddles {
 public:
  using F = typename L::Field;
  using Constant = typename L::Constant;

  BlockTwiddles() = default;
  // root: primitive 2^log_m-th.
  BlockTwiddles(uint32_t log_m, const F& root) : log_m_(log_m), levels_(log_m + 1) {
    if (log_m >= 2) {
      F quarter = root;
      for (uint32_t i = 2; i < log_m; i++) quarter = quarter.sqr();
      quarter_ = L::constant(quarter);
    }
    F z = root;  // of order 2^log
    for (uint32_t log = log_m; log > 2; log -= 2) {
      uint64_t h = uint64_t(1) << (log - 2);
      auto& level = levels_[log];
      level.reserve(3 * h);
      F power = F::one();
      for (uint64_t k = 0; k < h; k++, power = power * z) {
        F square = power.sqr();
        level.push_back(L::constant(square));
        level.push_back(L::constant(power));
        level.push_back(L::constant(square * power));
      }
      z = z.sqr().sqr();
    }
  }

  uint32_t log_m() const { return log_m_; }
  // For k in [0, 2^log / 4): z^2k, z^k, z^3k, z of order 2^log.
  const Constant* level(uint32_t log) const { return levels_[log].data(); }
  // The primitive fourth root.
  const Constant& quarter() const { return quarter_; }

 private:
  uint32_t log_m_ = 0;
  Constant quarter_{};
  std::vector<std::vector<Constant>> levels_;
};

// Blocks below this size fit the first-level cache: all their levels run one after the other.
constexpr uint32_t kLogCached = 6;

// Elements may grow between the levels of a lazy Lanes type: every second level reduces, the one before the last too.
template <class L>
void radix4_level(typename L::Block* x, uint32_t log, const BlockTwiddles<L>& twiddles) {
  uint64_t h = uint64_t(1) << (log - 2);
  const auto* w = twiddles.level(log);
  auto level = [&](auto reduce) {
    constexpr bool kReduce = decltype(reduce)::value;
    L::template radix4_plain<kReduce>(x, h, twiddles.quarter());
    for (uint64_t k = 1; k < h; k++) L::template radix4<kReduce>(x + k, h, w + 3 * k, twiddles.quarter());
  };
  if (((log + 1) / 2) % 2 == 0)
    level(std::true_type{});
  else
    level(std::false_type{});
}

// Transforms `count` consecutive blocks of 2^log elements.
template <class L>
void transform_blocks(typename L::Block* x, uint32_t log, uint64_t count, const BlockTwiddles<L>& twiddles) {
  if (log > kLogCached) {
    for (uint64_t i = 0; i < count; i++) {
      radix4_level<L>(x + (i << log), log, twiddles);
      transform_blocks<L>(x + (i << log), log - 2, 4, twiddles);
    }
    return;
  }
  for (; log > 2; log -= 2, count *= 4)
    for (uint64_t i = 0; i < count; i++) radix4_level<L>(x + (i << log), log, twiddles);
  if (log == 2)
    for (uint64_t i = 0; i < count; i++) L::template radix4_plain<false>(x + 4 * i, 1, twiddles.quarter());
  else if (log == 1)
    for (uint64_t i = 0; i < count; i++) L::radix2_plain(x + 2 * i);
}

template <class L>
void transform_block(typename L::Block* x, const BlockTwiddles<L>& twiddles) {
  transform_blocks<L>(x, twiddles.log_m(), 1, twiddles);
}

CZK_END
