// A prime field on 32-bit limbs, Montgomery form, always reduced to [0, p): what the GPU's kernels are written on. The
// host compiles it too and tests it against host_field.hpp, which works on the same bytes.
//
// Multiplication keeps two accumulators, one for the products that begin at an even limb and one for those that begin
// at an odd limb. In each the products lie side by side, so a row is one carry chain of multiply-adds whose low and high
// halves the GPU does in one wide instruction; a single accumulator would need a second pass for the high halves.
#pragma once
#include "carry.cuh"
#include "params.cuh"
#include "portable.cuh"

CZK_BEGIN

// How a product is compiled: in line (hot loops), or as a call (everything else: kernels compile ten times faster).
enum class MulForm { kInline, kOutlined };
// The form for hot loops of kernels. A host compiler, which sees them only in tests, is spared the work.
constexpr MulForm kHotForm = CZK_ON_DEVICE ? MulForm::kInline : MulForm::kOutlined;

template <class P, MulForm kForm = MulForm::kInline>
struct Field {
  using Params = P;
  static constexpr int N = P::kLimbs32;
  static constexpr int kBits = P::kBits;
  static constexpr int kBytes = 4 * N;
  static_assert(N % 2 == 0, "limbs come in pairs");
  static_assert(kBits < 32 * N, "a row's carry needs a spare top bit");
  uint32_t v[N];

  struct Constants {
    uint32_t p[N];   // modulus
    uint32_t r[N];   // 2^(32N) mod p: one in Montgomery form
    uint32_t r2[N];  // 2^(64N) mod p
    uint32_t n0;     // -1/p mod 2^32
  };
  static CZK_CONST_FN Constants derive() {
    Constants c{};
    for (int i = 0; i < N; i++) c.p[i] = P::kModulus[i];
    uint32_t inverse = 1;
    for (int i = 0; i < 5; i++) inverse *= 2 - c.p[0] * inverse;
    c.n0 = 0 - inverse;
    uint32_t x[N] = {1};
    for (int step = 1; step <= 64 * N; step++) {  // x = 2^step mod p; there is a spare bit for the doubling
      uint32_t d[N] = {}, s[N] = {};
      uint64_t borrow = 0;
      for (int i = 0; i < N; i++) d[i] = (x[i] << 1) | (i ? x[i - 1] >> 31 : 0);
      for (int i = 0; i < N; i++) {
        uint64_t t = uint64_t(d[i]) - c.p[i] - borrow;
        s[i] = uint32_t(t);
        borrow = (t >> 32) & 1;
      }
      for (int i = 0; i < N; i++) x[i] = borrow ? d[i] : s[i];
      if (step == 32 * N)
        for (int i = 0; i < N; i++) c.r[i] = x[i];
    }
    for (int i = 0; i < N; i++) c.r2[i] = x[i];
    return c;
  }
  static constexpr Constants K = derive();
  static_assert(uint32_t(K.n0 * K.p[0] + 1) == 0, "n0 = -1/p modulo 2^32");

  static CZK_FN Field zero() { return Field{}; }
  static CZK_FN Field one() {
    Field o;
    CZK_UNROLL for (int i = 0; i < N; i++) o.v[i] = K.r[i];
    return o;
  }
  static CZK_FN Field r2() {
    Field o;
    CZK_UNROLL for (int i = 0; i < N; i++) o.v[i] = K.r2[i];
    return o;
  }
  static CZK_FN Field load(const void* src) {
    Field o;
    CZK_UNROLL for (int i = 0; i < N; i++) o.v[i] = load_word(src, i);
    return o;
  }
  CZK_FN void store(void* dst) const {
    CZK_UNROLL for (int i = 0; i < N; i++) store_word(dst, i, v[i]);
  }

  CZK_FN bool is_zero() const {
    uint32_t any = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) any |= v[i];
    return any == 0;
  }
  CZK_FN bool operator==(const Field& o) const {
    uint32_t any = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) any |= v[i] ^ o.v[i];
    return any == 0;
  }
  // Whether the limbs are below the modulus.
  CZK_FN bool is_reduced() const {
    Field unused;
    return minus_p(unused);
  }

  friend CZK_FN Field operator+(const Field& a, const Field& b) {
    Field s;
    CarryChain c;
    s.v[0] = c.add_cc(a.v[0], b.v[0]);
    CZK_UNROLL for (int i = 1; i < N - 1; i++) s.v[i] = c.addc_cc(a.v[i], b.v[i]);
    s.v[N - 1] = c.addc(a.v[N - 1], b.v[N - 1]);
    return s.reduce_once();
  }
  friend CZK_FN Field operator-(const Field& a, const Field& b) {
    Field d;
    CarryChain c;
    d.v[0] = c.sub_cc(a.v[0], b.v[0]);
    CZK_UNROLL for (int i = 1; i < N; i++) d.v[i] = c.subc_cc(a.v[i], b.v[i]);
    uint32_t borrow = c.subc(0, 0);  // all ones or zero
    CarryChain back;
    d.v[0] = back.add_cc(d.v[0], K.p[0] & borrow);
    CZK_UNROLL for (int i = 1; i < N - 1; i++) d.v[i] = back.addc_cc(d.v[i], K.p[i] & borrow);
    d.v[N - 1] = back.addc(d.v[N - 1], K.p[N - 1] & borrow);
    return d;
  }
  CZK_FN Field neg() const { return zero() - *this; }
  CZK_FN Field dbl() const { return *this + *this; }
  friend CZK_FN Field operator*(const Field& a, const Field& b) {
    if constexpr (kForm == MulForm::kInline)
      return product(a, b);
    else
      return product_call(a, b);
  }
  CZK_FN Field sqr() const {
    if constexpr (kForm == MulForm::kInline && kBits < 32 * N - 1)
      return square(*this);
    else
      return *this * *this;
  }
  // Two products with one reduction: three quarters of the work, but all four factors in registers at a time. An Fp2
  // product of two such sums costs what Karatsuba's three products do, so Fp2 keeps to the latter.
  static constexpr bool kFusesProducts = false;
  static CZK_FN Field product_sum(const Field& a, const Field& b, const Field& c, const Field& d) {
    if constexpr (kBits > 32 * N - 2)
      return a * b + c * d;  // three moduli do not fit
    else if constexpr (kForm == MulForm::kInline)
      return two_products(a, b, c, d);
    else
      return two_products_call(a, b, c, d);
  }
  static CZK_FN Field product_difference(const Field& a, const Field& b, const Field& c, const Field& d) {
    return product_sum(a, b, c.neg(), d);
  }
  CZK_FN Field to_montgomery() const { return *this * r2(); }
  CZK_FN Field from_montgomery() const {
    Field one_raw{};
    one_raw.v[0] = 1;
    return *this * one_raw;
  }
  // Fermat: this^(p-2); the inverse of zero is zero.
  CZK_OUTLINED Field inverse() const {
    Field acc = one();
    uint32_t exponent[N];
    CarryChain c;
    exponent[0] = c.sub_cc(K.p[0], 2);
    CZK_UNROLL for (int i = 1; i < N; i++) exponent[i] = c.subc_cc(K.p[i], 0);
    for (int i = 32 * N - 1; i >= 0; i--) {
      acc = product_call(acc, acc);
      if ((exponent[i / 32] >> (i % 32)) & 1) acc = product_call(acc, *this);
    }
    return acc;
  }

 private:
  // d = this - p; whether that was negative.
  CZK_FN bool minus_p(Field& d) const {
    CarryChain c;
    d.v[0] = c.sub_cc(v[0], K.p[0]);
    CZK_UNROLL for (int i = 1; i < N; i++) d.v[i] = c.subc_cc(v[i], K.p[i]);
    return c.subc(0, 0);
  }
  CZK_FN Field reduce_once() const {
    Field d;
    bool keep = minus_p(d);
    CZK_UNROLL for (int i = 0; i < N; i++) d.v[i] = keep ? v[i] : d.v[i];
    return d;
  }

  // acc += a0*k + a2*k*2^64 + a4*k*2^128 ..., one chain; a begins at an even or at an odd limb of its number.
  static CZK_FN void add_row(CarryChain& c, uint32_t* acc, const uint32_t* a, uint32_t k) {
    acc[0] = c.mad_lo_cc(a[0], k, acc[0]);
    acc[1] = c.madc_hi_cc(a[0], k, acc[1]);
    add_products(c, acc, a, k);
  }
  // The row but for its first product.
  static CZK_FN void add_products(CarryChain& c, uint32_t* acc, const uint32_t* a, uint32_t k) {
    CZK_UNROLL for (int j = 2; j < N; j += 2) {
      acc[j] = c.madc_lo_cc(a[j], k, acc[j]);
      acc[j + 1] = c.madc_hi_cc(a[j], k, acc[j + 1]);
    }
  }
  // The accumulator is even + odd*2^32. Adds a*k to it. What leaves the even chain belongs to the odd one's top limb;
  // nothing leaves that one, because even + odd*2^32 stays below 2^(32(N+1)).
  static CZK_FN void add_multiple(uint32_t* even, uint32_t* odd, const uint32_t* a, uint32_t k) {
    CarryChain o, e;
    add_row(o, odd, a + 1, k);
    add_row(e, even, a, k);
    odd[N - 1] = e.addc(odd[N - 1], 0);
  }
  // Adds m*p with the m that clears the lowest limb, even[0].
  static CZK_FN void fold(uint32_t* even, uint32_t* odd) {
    if constexpr (kGoldenEnd)
      fold_golden(even, odd);
    else
      add_multiple(even, odd, K.p, even[0] * K.n0);
  }
  // The same where p ends in 2^64 - 2^32 + 1, as BLS12-381's Fr does: m is -even[0], and its products with the two lowest
  // limbs are m and m*2^32 - m. Written as products they would also keep the GPU's compiler from joining the halves of
  // the others.
  static constexpr bool kGoldenEnd = P::kModulus[0] == 1 && P::kModulus[1] == 0xffffffffu;
  static CZK_FN void fold_golden(uint32_t* even, uint32_t* odd) {
    CarryChain negation, o, e;
    uint32_t m = negation.sub_cc(0, even[0]);
    uint32_t high = negation.subc(m, 0);
    odd[0] = o.add_cc(odd[0], even[0]);  // -m is even[0]
    odd[1] = o.addc_cc(odd[1], high);
    add_products(o, odd, K.p + 1, m);
    even[0] = e.add_cc(even[0], m);
    even[1] = e.addc_cc(even[1], 0);
    add_products(e, even, K.p, m);
    odd[N - 1] = e.addc(odd[N - 1], 0);
  }
  // One row after the lowest limb is gone: what was odd is even now, what was even is odd and two limbs lower, and its
  // limb 1 belongs to the new even one's limb 0, with a carry into the odd chain.
  static CZK_FN void next_row(uint32_t* even, uint32_t* odd, const Field& a, uint32_t k) {
    CarryChain o;
    even[0] = o.add_cc(even[0], odd[1]);
    shifted_row(o, even, odd, a.v, k);
  }
  // The rest of it: adds a*k, with the carry of even[0] in o.
  static CZK_FN void shifted_row(CarryChain& o, uint32_t* even, uint32_t* odd, const uint32_t* a, uint32_t k) {
    CarryChain e;
    CZK_UNROLL for (int j = 0; j < N - 2; j += 2) {
      odd[j] = o.madc_lo_cc(a[j + 1], k, odd[j + 2]);
      odd[j + 1] = o.madc_hi_cc(a[j + 1], k, odd[j + 3]);
    }
    odd[N - 2] = o.madc_lo_cc(a[N - 1], k, 0);
    odd[N - 1] = o.madc_hi(a[N - 1], k, 0);
    add_row(e, even, a, k);
    odd[N - 1] = e.addc(odd[N - 1], 0);
  }
  static CZK_FN void first_row(uint32_t* even, uint32_t* odd, const Field& a, uint32_t k) {
    CZK_UNROLL for (int j = 0; j < N; j += 2) {
      even[j] = a.v[j] * k;
      even[j + 1] = high_half(a.v[j], k);
      odd[j] = a.v[j + 1] * k;
      odd[j + 1] = high_half(a.v[j + 1], k);
    }
  }
  static CZK_FN Field product(const Field& a, const Field& b) {
    uint32_t x[N], y[N];
    first_row(x, y, a, b.v[0]);
    fold(x, y);
    CZK_UNROLL for (int i = 1; i < N; i += 2) {
      next_row(y, x, a, b.v[i]);
      fold(y, x);
      if (i + 1 == N) break;
      next_row(x, y, a, b.v[i + 1]);
      fold(x, y);
    }
    return last_shift(x, y);
  }
  // a*b + c*d. The accumulator stays below 3p*2^32, the sum below p + 2p^2/2^(32N) < 2p: the modulus has two spare bits.
  static CZK_FN Field two_products(const Field& a, const Field& b, const Field& c, const Field& d) {
    static_assert(kBits <= 32 * N - 2, "three moduli fit");
    uint32_t x[N], y[N];
    first_row(x, y, a, b.v[0]);
    add_multiple(x, y, c.v, d.v[0]);
    fold(x, y);
    CZK_UNROLL for (int i = 1; i < N; i += 2) {
      next_row(y, x, a, b.v[i]);
      add_multiple(y, x, c.v, d.v[i]);
      fold(y, x);
      if (i + 1 == N) break;
      next_row(x, y, a, b.v[i + 1]);
      add_multiple(x, y, c.v, d.v[i + 1]);
      fold(x, y);
    }
    return last_shift(x, y);
  }
  // a^2: the products of two different limbs are taken once and doubled, 222 wide products for twelve limbs where a*a takes
  // 288. Row i holds a[i] times a[i] and twice the limbs above it; doubled[j] has the bit that limb j-1 loses, which is
  // no part of row j-1. The square is summed up whole, then reduced from its lower half as if by empty rows of a product.
  static CZK_FN Field square(const Field& a) {
    uint32_t doubled[N], even[2 * N], odd[2 * N];
    CZK_UNROLL for (int j = 1; j < N; j++) doubled[j] = a.v[j] << 1 | a.v[j - 1] >> 31;
    CZK_UNROLL for (int j = 0; j < 2 * N; j++) even[j] = odd[j] = 0;
    CZK_UNROLL for (int i = 0; i < N; i++) {
      CarryChain e, o;
      // At the places 2i, 2i + 2, ...: pairs of `even`; at 2i + 1, 2i + 3, ...: pairs of `odd`, which lies one limb on.
      even[2 * i] = e.mad_lo_cc(a.v[i], a.v[i], even[2 * i]);
      even[2 * i + 1] = e.madc_hi_cc(a.v[i], a.v[i], even[2 * i + 1]);
      CZK_UNROLL for (int j = i + 2; j < N; j += 2) {
        even[i + j] = e.madc_lo_cc(doubled[j], a.v[i], even[i + j]);
        even[i + j + 1] = e.madc_hi_cc(doubled[j], a.v[i], even[i + j + 1]);
      }
      const int even_end = i + N + (N - i) % 2;
      if (even_end < 2 * N) even[even_end] = e.addc(even[even_end], 0);
      if (i + 1 == N) break;
      const uint32_t next = doubled[i + 1] & ~uint32_t(1);
      odd[2 * i] = o.mad_lo_cc(next, a.v[i], odd[2 * i]);
      odd[2 * i + 1] = o.madc_hi_cc(next, a.v[i], odd[2 * i + 1]);
      CZK_UNROLL for (int j = i + 3; j < N; j += 2) {
        odd[i + j - 1] = o.madc_lo_cc(doubled[j], a.v[i], odd[i + j - 1]);
        odd[i + j] = o.madc_hi_cc(doubled[j], a.v[i], odd[i + j]);
      }
      const int odd_end = i + N - 1 + (N - i - 1) % 2;
      if (odd_end < 2 * N) odd[odd_end] = o.addc(odd[odd_end], 0);
    }
    CarryChain sum;
    even[1] = sum.add_cc(even[1], odd[0]);
    CZK_UNROLL for (int j = 2; j < 2 * N - 1; j++) even[j] = sum.addc_cc(even[j], odd[j - 1]);
    even[2 * N - 1] = sum.addc(even[2 * N - 1], odd[2 * N - 2]);

    uint32_t x[N], y[N];
    CZK_UNROLL for (int j = 0; j < N; j++) x[j] = even[j], y[j] = 0;
    fold(x, y);
    CZK_UNROLL for (int i = 1; i < N; i += 2) {
      fold_next(y, x);
      if (i + 1 == N) break;
      fold_next(x, y);
    }
    CarryChain high;
    x[0] = high.add_cc(x[0], even[N]);
    CZK_UNROLL for (int j = 1; j < N - 1; j++) x[j] = high.addc_cc(x[j], even[N + j]);
    x[N - 1] = high.addc(x[N - 1], even[2 * N - 1]);
    return last_shift(x, y);
  }
  // next_row and fold with nothing to add.
  static CZK_FN void fold_next(uint32_t* even, uint32_t* odd) {
    CarryChain o;
    even[0] = o.add_cc(even[0], odd[1]);
    shifted_row(o, even, odd, K.p, even[0] * K.n0);
  }
  // x + y/2^32, reduced.
  static CZK_FN Field last_shift(const uint32_t* x, const uint32_t* y) {
    Field t;
    CarryChain c;
    t.v[0] = c.add_cc(x[0], y[1]);
    CZK_UNROLL for (int i = 1; i < N - 1; i++) t.v[i] = c.addc_cc(x[i], y[i + 1]);
    t.v[N - 1] = c.addc(x[N - 1], 0);
    return t.reduce_once();
  }
  static CZK_OUTLINED Field product_call(Field a, Field b) { return product(a, b); }
  static CZK_OUTLINED Field two_products_call(Field a, Field b, Field c, Field d) { return two_products(a, b, c, d); }
  static CZK_FN uint32_t high_half(uint32_t a, uint32_t b) { return uint32_t((uint64_t(a) * b) >> 32); }
};

CZK_END
