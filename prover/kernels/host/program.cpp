// Runs a recorded witness program: a flat list of four-word instructions over registers in Montgomery form. The set is
// documented in prover/circuits/program.py; an instruction costs little more than its field multiplications.
#include <cstring>

#include "variant.hpp"

CZK_BEGIN
namespace {

enum Opcode : uint32_t {
  kInput,
  kConstant,
  kCopy,
  kAdd,
  kSubtract,
  kMultiply,
  kScale,
  kAccumulate,
  kOffset,
  kFifth,
  kBits,
  kInvert,
  kRequireEqual,
  kRequireBoolean,
  kOpcodes
};

constexpr uint64_t kCancelStride = 4096;  // instructions between two looks at the cancel flag: about 0.2 ms

template <class Fr>
class Machine {
 public:
  Machine(const void* constants, uint64_t n_constants, const void* inputs, uint64_t n_inputs, void* values,
          uint64_t n_values)
      : constants_(constants),
        n_constants_(n_constants),
        inputs_(inputs),
        n_inputs_(n_inputs),
        values_(values),
        n_values_(n_values) {}

  // Why the instruction can't be carried out, or null.
  CZK_FN const char* step(const uint32_t* word) {
    const uint32_t op = word[0], dst = word[1], a = word[2], b = word[3];
    if (dst >= n_values_) return "register out of range";
    switch (op) {
      case kInput: return input(dst, a, b);
      case kConstant:
        if (a >= n_constants_) return "constant out of range";
        set(dst, constant(a));
        return nullptr;
      case kBits: return bits(dst, a, b >> 16, b & 0xffff);
      default: break;
    }
    if (a >= n_values_) return "register out of range";
    switch (op) {
      case kCopy: set(dst, get(a)); return nullptr;
      case kFifth: return fifth(dst, a);
      case kInvert: set(dst, get(a).inverse()); return nullptr;
      case kRequireBoolean:
        return get(a).is_zero() || get(a) == Fr::one() ? nullptr : "the value is neither 0 nor 1";
      case kScale:
      case kAccumulate:
      case kOffset: {
        if (b >= n_constants_) return "constant out of range";
        const Fr x = get(a), c = constant(b);
        set(dst, op == kScale ? x * c : op == kOffset ? x + c : get(dst) + x * c);
        return nullptr;
      }
      default: break;
    }
    if (b >= n_values_) return "register out of range";
    switch (op) {
      case kAdd: set(dst, get(a) + get(b)); return nullptr;
      case kSubtract: set(dst, get(a) - get(b)); return nullptr;
      case kMultiply: set(dst, get(a) * get(b)); return nullptr;
      case kRequireEqual: return get(a) == get(b) ? nullptr : "the two values differ";
      default: return "unknown instruction";
    }
  }

  CZK_FN Fr get(uint64_t i) const { return Fr::load(at(static_cast<const void*>(values_), i, Fr::kBytes)); }
  CZK_FN void set(uint64_t i, const Fr& x) { x.store(at(values_, i, Fr::kBytes)); }

 private:
  CZK_FN Fr constant(uint64_t i) const { return Fr::load(at(constants_, i, Fr::kBytes)); }

  const char* input(uint64_t dst, uint64_t first, uint64_t count) {
    if (count > n_values_ - dst) return "register out of range";
    if (first > n_inputs_ || count > n_inputs_ - first) return "input out of range";
    for (uint64_t i = 0; i < count; i++) {
      const Fr x = Fr::load(at(inputs_, first + i, Fr::kBytes));
      if (!x.is_reduced()) return "an input is not below the modulus";
      set(dst + i, x.to_montgomery());
    }
    return nullptr;
  }

  // Square, fourth and fifth power: the three products of Poseidon's S-box.
  CZK_FN const char* fifth(uint64_t dst, uint64_t a) {
    if (n_values_ - dst < 3) return "register out of range";
    const Fr x = get(a), square = x.sqr(), fourth = square.sqr();
    set(dst, square);
    set(dst + 1, fourth);
    set(dst + 2, fourth * x);
    return nullptr;
  }

  const char* bits(uint64_t dst, uint64_t a, uint64_t first, uint64_t count) {
    if (a >= n_values_ || count > n_values_ - dst) return "register out of range";
    if (first + count > 64 * uint64_t(Fr::N)) return "bit out of range";
    const Fr x = get(a).from_montgomery(), zero = Fr::zero(), one = Fr::one();
    for (uint64_t i = 0; i < count; i++) {
      const uint64_t bit = first + i;
      set(dst + i, x.v[bit / 64] >> (bit % 64) & 1 ? one : zero);
    }
    return nullptr;
  }

  const void* constants_;
  const uint64_t n_constants_;
  const void* inputs_;
  const uint64_t n_inputs_;
  void* values_;
  const uint64_t n_values_;
};

template <class Fr>
int32_t run(const uint32_t* code, uint64_t n_instructions, Machine<Fr>& machine, void* values, uint64_t n_values,
            uint64_t n_variables, CzkCancel cancel, uint64_t* failed_at) {
  std::memset(values, 0, n_values * Fr::kBytes);
  machine.set(0, Fr::one());
  for (uint64_t i = 0; i < n_instructions; i++) {
    if (i % kCancelStride == 0 && cancelled(cancel)) return fail(CZK_CANCELLED, "cancelled");
    if (const char* why = machine.step(code + 4 * i)) {
      *failed_at = i;
      return fail(CZK_INVALID, "%s", why);
    }
  }
  for (uint64_t i = 0; i < n_variables; i++) machine.set(i, machine.get(i).from_montgomery());
  return CZK_OK;
}

}  // namespace
CZK_END

CZK_DEFINE(program_run)
(int32_t curve, const uint32_t* code, uint64_t n_instructions, const void* constants, uint64_t n_constants,
 const void* inputs, uint64_t n_inputs, void* values, uint64_t n_values, uint64_t n_variables, CzkCancel cancel,
 uint64_t* failed_at) {
  using namespace czk;
  return guarded([&] {
    if (n_values < 1 || n_variables > n_values || n_values > UINT32_MAX)
      return fail(CZK_INVALID, "%llu variables do not fit %llu registers", (unsigned long long)n_variables,
                  (unsigned long long)n_values);
    return with_curve(curve, [&](auto tag) {
      using Fr = typename decltype(tag)::type::Fr;
      Machine<Fr> machine(constants, n_constants, inputs, n_inputs, values, n_values);
      return run(code, n_instructions, machine, values, n_values, n_variables, cancel, failed_at);
    });
  });
}
