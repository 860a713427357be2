// Number-theoretic transforms over Fr: two passes over memory, each of many small transforms that stay in cache, eight
// side by side (ntt_plan.hpp has the decomposition, ntt_block.hpp the small transform).
#include "ntt_plan.hpp"
#include "variant.hpp"
#if CZK_VARIANT_ifma
#include "ntt_lanes_ifma.hpp"
#else
#include "ntt_lanes.hpp"
#endif

CZK_BEGIN
namespace {

#if CZK_VARIANT_ifma
template <class F>
using Lanes = IfmaLanes<F>;
#else
template <class F>
using Lanes = ScalarLanes<F>;
#endif

// Below this many elements a thread's share is not worth starting it.
constexpr uint64_t kElementsPerThread = 1 << 12;

// Whether root has order exactly 2^log_n.
template <class F>
bool is_primitive_root(const F& root, uint32_t log_n) {
  if (log_n == 0) return root == F::one();
  return power_of_two(root, log_n - 1) == F::one().neg();
}

// Largest s with 2^s dividing p - 1.
template <class F>
constexpr uint32_t two_adicity() {
  uint32_t s = 0;
  while (s < 64 && ((F::K.p[0] - 1) >> s) % 2 == 0) s++;
  return s;
}

// Sizes too small for eight columns and rows: Cooley-Tukey (1965), one level at a time.
template <class F>
void transform_small(void* data, const NttRequest<F>& request) {
  uint64_t n = uint64_t(1) << request.log_n;
  F x[uint64_t(1) << kLogPlanned];
  F scale = F::one();
  for (uint64_t i = 0; i < n; i++) {
    uint64_t reversed = 0;
    for (uint32_t bit = 0; bit < request.log_n; bit++) reversed |= (i >> bit & 1) << (request.log_n - 1 - bit);
    x[reversed] = F::load(at(data, i, F::kBytes));
    if (!request.inverse && request.has_shift) {
      x[reversed] = x[reversed] * scale;
      scale = scale * request.shift;
    }
  }
  F root = request.inverse ? request.root.inverse() : request.root;
  for (uint32_t level = 1; level <= request.log_n; level++) {
    uint64_t h = uint64_t(1) << (level - 1);
    F z = power_of_two(root, request.log_n - level), w = F::one();
    for (uint64_t k = 0; k < h; k++, w = w * z)
      for (uint64_t i = k; i < n; i += 2 * h) {
        F t = x[i + h] * w;
        x[i + h] = x[i] - t;
        x[i] = x[i] + t;
      }
  }
  scale = request.inverse ? inverse_of_two_to<F>(request.log_n) : F::one();
  F ratio = request.inverse && request.has_shift ? request.shift.inverse() : F::one();
  for (uint64_t i = 0; i < n; i++, scale = scale * ratio)
    (request.inverse ? x[i] * scale : x[i]).store(at(data, i, F::kBytes));
}

template <class L>
class Transform {
  using F = typename L::Field;
  using Block = typename L::Block;

 public:
  Transform(const NttPlan<L>& plan, void* data, int32_t threads)
      : plan_(plan), data_(static_cast<char*>(data)), between_(plan.n1() * plan.n2()), work_(threads * plan.n2()) {}

  int32_t run(int32_t threads, CzkCancel cancel) {
    int32_t status = parallel_for(plan_.n2() / L::kLanes, threads, cancel,
                                  [&](uint64_t task, int32_t worker) { columns(task * L::kLanes, work(worker)); });
    if (status != CZK_OK) return status;
    return parallel_for(plan_.n1() / L::kLanes, threads, cancel,
                        [&](uint64_t task, int32_t worker) { rows(task * L::kLanes, work(worker)); });
  }

 private:
  Block* work(int32_t worker) { return work_.data() + worker * plan_.n2(); }
  char* between(uint64_t row, uint64_t column) {
    return reinterpret_cast<char*>(between_.data() + row * plan_.n2() + column);
  }

  // Transforms columns j .. j+7 of the data and leaves them, twisted, in the array between the passes.
  void columns(uint64_t j, Block* x) {
    uint64_t n1 = plan_.n1(), pitch = plan_.n2() * F::kBytes;
    const char* src = data_ + j * F::kBytes;
    if (plan_.scale_in.empty())
      for (uint64_t i = 0; i < n1; i++) L::load(x[i], src + i * pitch, F::kBytes);
    else
      for (uint64_t i = 0; i < n1; i++) L::load_scaled(x[i], src + i * pitch, F::kBytes, plan_.scale_in[i]);
    transform_block<L>(x, plan_.columns);
    // Two factors in flight: even outputs and odd ones.
    auto step = L::load_factors(&plan_.step[j]), even = L::load_factors(&plan_.start[j]), odd = even;
    L::multiply(odd, step);
    L::multiply(step, step);
    for (uint64_t k = 0; k < n1; k += 2) {
      L::store_twisted(x[plan_.column_output(k)], even, between(k, j));
      L::store_twisted(x[plan_.column_output(k + 1)], odd, between(k + 1, j));
      L::multiply(even, step);
      L::multiply(odd, step);
    }
  }

  // Transforms rows k .. k+7 between the passes: the outputs k .. k+7 modulo n1.
  void rows(uint64_t k, Block* x) {
    uint64_t n2 = plan_.n2(), pitch = plan_.n1() * F::kBytes;
    for (uint64_t j = 0; j < n2; j++) L::load(x[j], between(k, j), n2 * F::kBytes);
    transform_block<L>(x, plan_.rows);
    char* dst = data_ + k * F::kBytes;
    if (plan_.scale_out.empty())
      for (uint64_t m = 0; m < n2; m++) L::store(x[plan_.row_output(m)], dst + m * pitch);
    else
      for (uint64_t m = 0; m < n2; m++)
        L::store_scaled(x[plan_.row_output(m)], plan_.scale_out[m], dst + m * pitch);
  }

  const NttPlan<L>& plan_;
  char* data_;
  Buffer<F> between_;
  Buffer<Block> work_;  // one block a worker
};

template <class F>
int32_t transform(void* data, uint32_t log_n, int32_t direction, const void* root, const void* shift, int32_t threads,
                  CzkCancel cancel) {
  if (log_n > two_adicity<F>())
    return fail(CZK_INVALID, "a transform of 2^%u elements: the field has roots of unity up to 2^%u", log_n,
                two_adicity<F>());
  if (direction != CZK_NTT_FORWARD && direction != CZK_NTT_INVERSE)
    return fail(CZK_INVALID, "unknown direction %d of a transform", direction);
  if (threads < 1) return fail(CZK_INVALID, "threads must be at least 1, not %d", threads);
  NttRequest<F> request{log_n, direction == CZK_NTT_INVERSE, shift != nullptr, F::load(root),
                        shift ? F::load(shift) : F::one()};
  if (!is_primitive_root(request.root, log_n))
    return fail(CZK_INVALID, "the root given for a transform of 2^%u elements is not of that order", log_n);
  if (request.shift.is_zero()) return fail(CZK_INVALID, "the coset shift of a transform is zero");
  if (log_n < kLogPlanned) {
    transform_small(data, request);
    return CZK_OK;
  }
  auto plan = ntt_plan<Lanes<F>>(request);
  uint64_t useful = std::max<uint64_t>(1, (uint64_t(1) << log_n) / kElementsPerThread);
  threads = int32_t(std::min<uint64_t>(uint64_t(threads), useful));
  return Transform<Lanes<F>>(*plan, data, threads).run(threads, cancel);
}

}  // namespace
CZK_END

CZK_DEFINE(ntt)(int32_t curve, void* data, uint32_t log_n, int32_t direction, const void* root, const void* shift,
                int32_t threads, CzkCancel cancel) {
  using namespace czk;
  return guarded([&] {
    return with_curve(curve, [&](auto tag) {
      return transform<typename decltype(tag)::type::Fr>(data, log_n, direction, root, shift, threads, cancel);
    });
  });
}
