// Montgomery arithmetic on 4 and 6 limbs for processors with MULX. A row of products is summed in registers of its own
// on one carry chain and then added to the accumulator on another. On the cores that we measured this runs at the
// multiplier's limit (1.0 cycle a product), where interleaved ADCX/ADOX chains took 1.3; ADX is not needed.
//
// Operand scanning with interleaved reduction, as in host_field.hpp. The modulus leaves a spare top bit, so that a row's
// carry fits one limb. Everything lives in the fifteen general registers:
//   w0..wN  the accumulator: N limbs and the carry limb; each fold moves it one register further on
//   r1..    the row, but for its lowest and its highest limb
//   x       the low half of the last product        rdx  the multiplier, then the row's highest limb
//   q       the address of the row's factor
#pragma once
#include "../portable.cuh"

CZK_BEGIN

#define CZK_W(i) "%[w" #i "]"
#define CZK_R(i) "%[r" #i "]"
#define CZK_X "%[x]"
#define CZK_RDX "%%rdx"
#define CZK_OP2(op, source, target) op " " source ", " target "\n"
#define CZK_MULX(source, low, high) "mulxq " source ", " low ", " high "\n"

// Where limb j of a factor lies.
#define CZK_Q(j) "8*" #j "(%[q])"
#define CZK_P(j) "8*" #j "+%[p]"

#define CZK_POINT_AT(factor) CZK_OP2("movq", "%[" #factor "]", "%[q]")
#define CZK_MULTIPLIER(factor, i) CZK_OP2("movq", "%[" #factor "]", CZK_RDX) CZK_OP2("movq", "8*" #i "(%%rdx)", CZK_RDX)

// Columns 1..N-1 of rdx * factor, onto h1, which holds the high half of column 0. Leaves the carry flag clear.
#define CZK_COLUMNS_4(at, h1, h2, h3, h4)                  \
  CZK_MULX(at(1), CZK_X, h2) CZK_OP2("addq", CZK_X, h1)    \
  CZK_MULX(at(2), CZK_X, h3) CZK_OP2("adcq", CZK_X, h2)    \
  CZK_MULX(at(3), CZK_X, h4) CZK_OP2("adcq", CZK_X, h3)    \
  CZK_OP2("adcq", "$0", h4)
#define CZK_COLUMNS_6(at, h1, h2, h3, h4, h5, h6)          \
  CZK_MULX(at(1), CZK_X, h2) CZK_OP2("addq", CZK_X, h1)    \
  CZK_MULX(at(2), CZK_X, h3) CZK_OP2("adcq", CZK_X, h2)    \
  CZK_MULX(at(3), CZK_X, h4) CZK_OP2("adcq", CZK_X, h3)    \
  CZK_MULX(at(4), CZK_X, h5) CZK_OP2("adcq", CZK_X, h4)    \
  CZK_MULX(at(5), CZK_X, h6) CZK_OP2("adcq", CZK_X, h5)    \
  CZK_OP2("adcq", "$0", h6)
#define CZK_ROW_4(at) CZK_COLUMNS_4(at, CZK_R(1), CZK_R(2), CZK_R(3), CZK_RDX)
#define CZK_ROW_6(at) CZK_COLUMNS_6(at, CZK_R(1), CZK_R(2), CZK_R(3), CZK_R(4), CZK_R(5), CZK_RDX)
// The row is added to the accumulator, but for its lowest and highest limb.
#define CZK_ADD_ROW_4(t1, t2, t3) \
  CZK_OP2("adcq", CZK_R(1), t1) CZK_OP2("adcq", CZK_R(2), t2) CZK_OP2("adcq", CZK_R(3), t3)
#define CZK_ADD_ROW_6(t1, t2, t3, t4, t5) \
  CZK_ADD_ROW_4(t1, t2, t3) CZK_OP2("adcq", CZK_R(4), t4) CZK_OP2("adcq", CZK_R(5), t5)

// The first row, rdx * q, into a fresh accumulator.
#define CZK_FIRST_4 \
  CZK_MULX(CZK_Q(0), CZK_W(0), CZK_W(1)) CZK_COLUMNS_4(CZK_Q, CZK_W(1), CZK_W(2), CZK_W(3), CZK_W(4))
#define CZK_FIRST_6                       \
  CZK_MULX(CZK_Q(0), CZK_W(0), CZK_W(1)) \
  CZK_COLUMNS_6(CZK_Q, CZK_W(1), CZK_W(2), CZK_W(3), CZK_W(4), CZK_W(5), CZK_W(6))
// t + rdx * q; the carry limb s is fresh.
#define CZK_NEXT(N, s, t0, ...)                                                                           \
  CZK_MULX(CZK_Q(0), s, CZK_R(1)) CZK_ROW_##N(CZK_Q) CZK_OP2("addq", s, t0) CZK_ADD_ROW_##N(__VA_ARGS__)  \
  CZK_OP2("adcq", "$0", CZK_RDX) CZK_OP2("movq", CZK_RDX, s)
// t + s*2^(64N) + rdx * q
#define CZK_MORE(N, s, t0, ...)                                                                              \
  CZK_MULX(CZK_Q(0), CZK_X, CZK_R(1)) CZK_OP2("addq", CZK_X, t0) CZK_OP2("adcq", "$0", CZK_R(1))             \
  CZK_ROW_##N(CZK_Q) CZK_ADD_ROW_##N(__VA_ARGS__) CZK_OP2("adcq", CZK_RDX, s)
// (t + s*2^(64N) + m*p) / 2^64 with m = -t0/p mod 2^64: in t1, ..., s. The lowest limb of the sum is zero, its carry
// is one unless t0 was zero.
#define CZK_FOLD(N, s, t0, ...)                                                                               \
  CZK_OP2("movq", "%[n0]", CZK_RDX) CZK_OP2("imulq", t0, CZK_RDX) CZK_MULX(CZK_P(0), CZK_X, CZK_R(1))         \
  CZK_ROW_##N(CZK_P) "negq " t0 "\n" CZK_ADD_ROW_##N(__VA_ARGS__) CZK_OP2("adcq", CZK_RDX, s)

// step(i, s, t0, ..., t(N-1)) for i = 0..N-1, with the registers in their places.
#define CZK_STEP_0_4(step, N) step(N, 0, CZK_W(4), CZK_W(0), CZK_W(1), CZK_W(2), CZK_W(3))
#define CZK_STEPS_4(step, N)                                       \
  step(N, 1, CZK_W(0), CZK_W(1), CZK_W(2), CZK_W(3), CZK_W(4))    \
  step(N, 2, CZK_W(1), CZK_W(2), CZK_W(3), CZK_W(4), CZK_W(0))    \
  step(N, 3, CZK_W(2), CZK_W(3), CZK_W(4), CZK_W(0), CZK_W(1))
#define CZK_STEP_0_6(step, N) step(N, 0, CZK_W(6), CZK_W(0), CZK_W(1), CZK_W(2), CZK_W(3), CZK_W(4), CZK_W(5))
#define CZK_STEPS_6(step, N)                                                             \
  step(N, 1, CZK_W(0), CZK_W(1), CZK_W(2), CZK_W(3), CZK_W(4), CZK_W(5), CZK_W(6))      \
  step(N, 2, CZK_W(1), CZK_W(2), CZK_W(3), CZK_W(4), CZK_W(5), CZK_W(6), CZK_W(0))      \
  step(N, 3, CZK_W(2), CZK_W(3), CZK_W(4), CZK_W(5), CZK_W(6), CZK_W(0), CZK_W(1))      \
  step(N, 4, CZK_W(3), CZK_W(4), CZK_W(5), CZK_W(6), CZK_W(0), CZK_W(1), CZK_W(2))      \
  step(N, 5, CZK_W(4), CZK_W(5), CZK_W(6), CZK_W(0), CZK_W(1), CZK_W(2), CZK_W(3))

#define CZK_JUST_FOLD(N, i, ...) CZK_FOLD(N, __VA_ARGS__)
#define CZK_PRODUCT_STEP(N, i, ...) CZK_MULTIPLIER(a, i) CZK_NEXT(N, __VA_ARGS__) CZK_FOLD(N, __VA_ARGS__)
#define CZK_PRODUCT(N) \
  CZK_POINT_AT(b) CZK_MULTIPLIER(a, 0) CZK_FIRST_##N CZK_STEP_0_##N(CZK_JUST_FOLD, N) CZK_STEPS_##N(CZK_PRODUCT_STEP, N)
#define CZK_PAIR_END(N, i, ...) CZK_POINT_AT(d) CZK_MULTIPLIER(c, i) CZK_MORE(N, __VA_ARGS__) CZK_FOLD(N, __VA_ARGS__)
#define CZK_PAIR_STEP(N, i, ...) \
  CZK_POINT_AT(b) CZK_MULTIPLIER(a, i) CZK_NEXT(N, __VA_ARGS__) CZK_PAIR_END(N, i, __VA_ARGS__)
#define CZK_PAIR(N) \
  CZK_POINT_AT(b) CZK_MULTIPLIER(a, 0) CZK_FIRST_##N CZK_STEP_0_##N(CZK_PAIR_END, N) CZK_STEPS_##N(CZK_PAIR_STEP, N)

// t += b, t -= b, t -= p unless t < p: limbs t in registers, s spare ones.
#define CZK_T(j) "%[t" #j "]"
#define CZK_EACH_4(macro) macro(0) macro(1) macro(2) macro(3)
#define CZK_EACH_6(macro) CZK_EACH_4(macro) macro(4) macro(5)
#define CZK_REST_4(macro) macro(1) macro(2) macro(3)
#define CZK_REST_6(macro) CZK_REST_4(macro) macro(4) macro(5)
#define CZK_ADD_LIMB(j) CZK_OP2("adcq", "%[b" #j "]", CZK_T(j))
#define CZK_SUB_LIMB(j) CZK_OP2("sbbq", "%[b" #j "]", CZK_T(j))
#define CZK_COPY_LIMB(j) CZK_OP2("movq", CZK_T(j), "%[s" #j "]")
#define CZK_LESS_P(j) CZK_OP2("sbbq", CZK_P(j), "%[s" #j "]")
#define CZK_IF_NOT_LESS(j) CZK_OP2("cmovncq", "%[s" #j "]", CZK_T(j))
#define CZK_ZERO_LIMB(j) "xorl %k[s" #j "], %k[s" #j "]\n"
#define CZK_P_IF_BORROW(j) CZK_OP2("cmovcq", CZK_P(j), "%[s" #j "]")
#define CZK_ADD_BACK(j) CZK_OP2("adcq", "%[s" #j "]", CZK_T(j))
#define CZK_REDUCE_ONCE(N) \
  CZK_EACH_##N(CZK_COPY_LIMB) "subq %[p], %[s0]\n" CZK_REST_##N(CZK_LESS_P) CZK_EACH_##N(CZK_IF_NOT_LESS)
#define CZK_SUM(N) "addq %[b0], %[t0]\n" CZK_REST_##N(CZK_ADD_LIMB)
#define CZK_DIFFERENCE(N)                                                                                  \
  CZK_EACH_##N(CZK_ZERO_LIMB) "subq %[b0], %[t0]\n" CZK_REST_##N(CZK_SUB_LIMB) CZK_EACH_##N(CZK_P_IF_BORROW) \
  "addq %[s0], %[t0]\n" CZK_REST_##N(CZK_ADD_BACK)

// Operands.
#define CZK_OUT(name, variable) [name] "=&r"(variable)
#define CZK_ACCUMULATOR_4 CZK_OUT(w0, w[0]), CZK_OUT(w1, w[1]), CZK_OUT(w2, w[2]), CZK_OUT(w3, w[3]), CZK_OUT(w4, w[4])
#define CZK_ACCUMULATOR_6 CZK_ACCUMULATOR_4, CZK_OUT(w5, w[5]), CZK_OUT(w6, w[6])
#define CZK_ROW_LIMBS_4 CZK_OUT(r1, r[1]), CZK_OUT(r2, r[2]), CZK_OUT(r3, r[3]), CZK_OUT(x, r[0]), CZK_OUT(q, q)
#define CZK_ROW_LIMBS_6 CZK_ROW_LIMBS_4, CZK_OUT(r4, r[4]), CZK_OUT(r5, r[5])
#define CZK_LIMBS_4 [t0] "+&r"(t[0]), [t1] "+&r"(t[1]), [t2] "+&r"(t[2]), [t3] "+&r"(t[3])
#define CZK_LIMBS_6 CZK_LIMBS_4, [t4] "+&r"(t[4]), [t5] "+&r"(t[5])
#define CZK_SPARE_4 CZK_OUT(s0, s[0]), CZK_OUT(s1, s[1]), CZK_OUT(s2, s[2]), CZK_OUT(s3, s[3])
#define CZK_SPARE_6 CZK_SPARE_4, CZK_OUT(s4, s[4]), CZK_OUT(s5, s[5])
#define CZK_TERM_4 [b0] "m"(b[0]), [b1] "m"(b[1]), [b2] "m"(b[2]), [b3] "m"(b[3])
#define CZK_TERM_6 CZK_TERM_4, [b4] "m"(b[4]), [b5] "m"(b[5])
#define CZK_MODULUS [p] "m"(p), [n0] "m"(n0)

// The products leave no register to the compiler: the functions that hold them must not be inlined, and their operands
// are passed by address, hence the memory clobber. Factors may overlap the result.
template <int N>
struct MulxMultiplier;

#define CZK_MULX_MULTIPLIER(N)                                                                                     \
  template <>                                                                                                      \
  struct MulxMultiplier<N> {                                                                                       \
    using Limbs = uint64_t[N];                                                                                     \
    static CZK_FN void reduce_once(Limbs& t, const Limbs& p) {                                                     \
      Limbs s;                                                                                                     \
      __asm__(CZK_REDUCE_ONCE(N) : CZK_LIMBS_##N, CZK_SPARE_##N : [p] "m"(p) : "cc");                              \
    }                                                                                                              \
    static CZK_FN void add(Limbs& t, const Limbs& b, const Limbs& p) {                                             \
      __asm__(CZK_SUM(N) : CZK_LIMBS_##N : CZK_TERM_##N : "cc");                                                   \
      reduce_once(t, p);                                                                                           \
    }                                                                                                              \
    static CZK_FN void sub(Limbs& t, const Limbs& b, const Limbs& p) {                                             \
      Limbs s;                                                                                                     \
      __asm__(CZK_DIFFERENCE(N) : CZK_LIMBS_##N, CZK_SPARE_##N : CZK_TERM_##N, [p] "m"(p) : "cc");                 \
    }                                                                                                              \
    /* out = a*b/R */                                                                                              \
    static CZK_FN void mul(uint64_t* out, const uint64_t* a, const uint64_t* b, const Limbs& p, const uint64_t& n0) { \
      uint64_t w[N + 1], r[N], q;                                                                                  \
      __asm__ volatile(CZK_PRODUCT(N)                                                                              \
                       : CZK_ACCUMULATOR_##N, CZK_ROW_LIMBS_##N                                                    \
                       : [a] "rm"(a), [b] "rm"(b), CZK_MODULUS                                                       \
                       : "rdx", "cc", "memory");                                                                   \
      finish(out, w, p);                                                                                           \
    }                                                                                                              \
    /* out = (a*b + c*d)/R; the modulus needs two spare bits. */                                                   \
    static CZK_FN void mul_pair(uint64_t* out, const uint64_t* a, const uint64_t* b, const uint64_t* c,            \
                                const uint64_t* d, const Limbs& p, const uint64_t& n0) {                           \
      uint64_t w[N + 1], r[N], q;                                                                                  \
      __asm__ volatile(CZK_PAIR(N)                                                                                 \
                       : CZK_ACCUMULATOR_##N, CZK_ROW_LIMBS_##N                                                    \
                       : [a] "rm"(a), [b] "rm"(b), [c] "rm"(c), [d] "rm"(d), CZK_MODULUS                               \
                       : "rdx", "cc", "memory");                                                                   \
      finish(out, w, p);                                                                                           \
    }                                                                                                              \
                                                                                                                   \
   private:                                                                                                        \
    /* N folds have moved limb i into register N + i modulo N + 1. */                                              \
    static CZK_FN void finish(uint64_t* out, const uint64_t (&w)[N + 1], const Limbs& p) {                         \
      Limbs t;                                                                                                     \
      CZK_UNROLL for (int i = 0; i < N; i++) t[i] = w[(N + i) % (N + 1)];                                          \
      reduce_once(t, p);                                                                                           \
      CZK_UNROLL for (int i = 0; i < N; i++) out[i] = t[i];                                                        \
    }                                                                                                              \
  };
CZK_MULX_MULTIPLIER(4)
CZK_MULX_MULTIPLIER(6)
#undef CZK_MULX_MULTIPLIER

CZK_END
