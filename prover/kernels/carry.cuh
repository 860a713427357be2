// Carry chains of 32-bit words: ten primitives, each one instruction on the GPU, with an explicit flag on the host. What
// is written on them is the same code on both, so the tests on the host cover it.
//
// The names are PTX's: `_cc` puts the carry or borrow out into the flag, `addc`, `subc` and `madc` take it in. A chain is
// an object with a flag of its own on the host, but on the GPU all share the processor's: finish one before the next.
#pragma once
#include "portable.cuh"

CZK_BEGIN

#if CZK_ON_DEVICE

class CarryChain {
 public:
#define CZK_PTX2(name, ptx)                                                    \
  CZK_FN uint32_t name(uint32_t a, uint32_t b) {                               \
    uint32_t r;                                                                \
    asm volatile(ptx " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));               \
    return r;                                                                  \
  }
#define CZK_PTX3(name, ptx)                                                    \
  CZK_FN uint32_t name(uint32_t a, uint32_t b, uint32_t c) {                   \
    uint32_t r;                                                                \
    asm volatile(ptx " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));   \
    return r;                                                                  \
  }
  CZK_PTX2(add_cc, "add.cc.u32")
  CZK_PTX2(addc_cc, "addc.cc.u32")
  CZK_PTX2(addc, "addc.u32")
  CZK_PTX2(sub_cc, "sub.cc.u32")
  CZK_PTX2(subc_cc, "subc.cc.u32")
  CZK_PTX2(subc, "subc.u32")
  CZK_PTX3(mad_lo_cc, "mad.lo.cc.u32")
  CZK_PTX3(madc_lo_cc, "madc.lo.cc.u32")
  CZK_PTX3(madc_hi_cc, "madc.hi.cc.u32")
  CZK_PTX3(madc_hi, "madc.hi.u32")
#undef CZK_PTX2
#undef CZK_PTX3
};

#else

class CarryChain {
 public:
  CZK_FN uint32_t add_cc(uint32_t a, uint32_t b) { return up(uint64_t(a) + b); }
  CZK_FN uint32_t addc_cc(uint32_t a, uint32_t b) { return up(uint64_t(a) + b + flag_); }
  CZK_FN uint32_t addc(uint32_t a, uint32_t b) { return uint32_t(uint64_t(a) + b + flag_); }
  CZK_FN uint32_t sub_cc(uint32_t a, uint32_t b) { return down(uint64_t(a) - b); }
  CZK_FN uint32_t subc_cc(uint32_t a, uint32_t b) { return down(uint64_t(a) - b - flag_); }
  CZK_FN uint32_t subc(uint32_t a, uint32_t b) { return uint32_t(uint64_t(a) - b - flag_); }
  // The low or high half of a*b is added to c.
  CZK_FN uint32_t mad_lo_cc(uint32_t a, uint32_t b, uint32_t c) { return up(uint64_t(low(a, b)) + c); }
  CZK_FN uint32_t madc_lo_cc(uint32_t a, uint32_t b, uint32_t c) { return up(uint64_t(low(a, b)) + c + flag_); }
  CZK_FN uint32_t madc_hi_cc(uint32_t a, uint32_t b, uint32_t c) { return up(uint64_t(high(a, b)) + c + flag_); }
  CZK_FN uint32_t madc_hi(uint32_t a, uint32_t b, uint32_t c) { return uint32_t(uint64_t(high(a, b)) + c + flag_); }

 private:
  static CZK_FN uint32_t low(uint32_t a, uint32_t b) { return uint32_t(uint64_t(a) * b); }
  static CZK_FN uint32_t high(uint32_t a, uint32_t b) { return uint32_t((uint64_t(a) * b) >> 32); }
  CZK_FN uint32_t up(uint64_t sum) {
    flag_ = uint32_t(sum >> 32);
    return uint32_t(sum);
  }
  CZK_FN uint32_t down(uint64_t difference) {
    flag_ = uint32_t(difference >> 32) & 1;
    return uint32_t(difference);
  }
  uint32_t flag_ = 0;
};

#endif

CZK_END
