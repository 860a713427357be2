// What a transform of one size, root, direction and shift needs besides the data, and a small cache of it.
//
// n = n1 * n2. With input index i*n2 + j and output index k + n1*m the transform is (Bailey, FFTs in external or
// hierarchical memory, 1990):
//   for each j:  y[k] = sum_i x[i*n2 + j] * (z^n2)^(i*k)         (columns; z the root, z^n2 of order n1)
//   for each k:  X[k + n1*m] = sum_j (y[k] * z^(j*k)) * (z^n1)^(j*m)   (rows)
// A coset shift g multiplies the input by g^(i*n2 + j): (g^n2)^i as the columns are read, g^j with the twist between
// the passes. Interpolation divides the output by n * g^(k + n1*m): g^-k / n with the twist, (g^-n1)^m on the way out.
// Hence the twist of column j is start[j] * step[j]^k.
#pragma once
#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "ntt_block.hpp"

CZK_BEGIN

// The smallest transform that has eight columns and eight rows.
constexpr uint32_t kLogPlanned = 6;

template <class F>
struct NttRequest {
  uint32_t log_n;
  bool inverse, has_shift;
  F root, shift;  // Montgomery form; shift is 1 where there is none

  bool operator==(const NttRequest& o) const {
    return log_n == o.log_n && inverse == o.inverse && has_shift == o.has_shift && root == o.root && shift == o.shift;
  }
};

template <class F>
F power_of_two(F x, uint32_t log) {
  while (log--) x = x.sqr();
  return x;
}

// 1/2^log
template <class F>
F inverse_of_two_to(uint32_t log) {
  F half = F::one().dbl().inverse(), product = F::one();
  while (log--) product = product * half;
  return product;
}

template <class L>
struct NttPlan {
  using F = typename L::Field;
  using Constant = typename L::Constant;

  uint32_t log_n1, log_n2;
  BlockTwiddles<L> columns, rows;
  std::vector<F> start, step;              // the twist of each column
  std::vector<Constant> scale_in, scale_out;  // of each input row and each output row; empty: none
  std::vector<uint32_t> reversed;          // bit reversal of log_n2 bits

  uint64_t n1() const { return uint64_t(1) << log_n1; }
  uint64_t n2() const { return uint64_t(1) << log_n2; }
  // Where the block transform leaves output k of n1, and of n2.
  uint32_t column_output(uint64_t k) const { return reversed[k] >> (log_n2 - log_n1); }
  uint32_t row_output(uint64_t m) const { return reversed[m]; }

  explicit NttPlan(const NttRequest<F>& request) : log_n1(request.log_n / 2), log_n2(request.log_n - log_n1) {
    F z = request.inverse ? request.root.inverse() : request.root;
    columns = BlockTwiddles<L>(log_n1, power_of_two(z, log_n2));
    rows = BlockTwiddles<L>(log_n2, power_of_two(z, log_n1));
    F g = request.inverse ? request.shift.inverse() : request.shift;
    F first = request.inverse ? inverse_of_two_to<F>(request.log_n) : F::one();
    bool shift_in = request.has_shift && !request.inverse, shift_out = request.has_shift && request.inverse;
    start.resize(n2());
    step.resize(n2());
    F start_ratio = shift_in ? g : F::one(), s = first, t = shift_out ? g : F::one();
    for (uint64_t j = 0; j < n2(); j++, s = s * start_ratio, t = t * z) {
      start[j] = L::factor(s);
      step[j] = L::factor(t);
    }
    if (shift_in) scale_in = powers(power_of_two(g, log_n2), n1());
    if (shift_out) scale_out = powers(power_of_two(g, log_n1), n2());
    reversed.assign(n2(), 0);
    for (uint64_t k = 1; k < n2(); k++)
      reversed[k] = (reversed[k >> 1] >> 1) | (uint32_t(k & 1) << (log_n2 - 1));
  }

 private:
  static std::vector<Constant> powers(const F& x, uint64_t n) {
    std::vector<Constant> out;
    out.reserve(n);
    F power = F::one();
    for (uint64_t i = 0; i < n; i++, power = power * x) out.push_back(L::constant(power));
    return out;
  }
};

// The last few plans. Those of transforms beyond kLargest are rebuilt each time: against such a transform that costs
// nothing, and they would take megabytes each.
template <class L>
std::shared_ptr<const NttPlan<L>> ntt_plan(const NttRequest<typename L::Field>& request) {
  constexpr uint32_t kLargest = 22;
  constexpr size_t kKept = 12;
  struct Kept {
    NttRequest<typename L::Field> request;
    std::shared_ptr<const NttPlan<L>> plan;
  };
  static std::mutex mutex;
  // The most recently used last. Never destroyed: threads may still transform while the process exits.
  static auto& kept = *new std::vector<Kept>;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (size_t i = 0; i < kept.size(); i++)
      if (kept[i].request == request) {
        std::rotate(kept.begin() + i, kept.begin() + i + 1, kept.end());
        return kept.back().plan;
      }
  }
  auto plan = std::make_shared<const NttPlan<L>>(request);
  if (request.log_n <= kLargest) {
    std::lock_guard<std::mutex> lock(mutex);
    if (kept.size() == kKept) kept.erase(kept.begin());
    kept.push_back({request, plan});
  }
  return plan;
}

CZK_END
