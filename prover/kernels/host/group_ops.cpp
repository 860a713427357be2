// Group operations point by point.
#include "msm_batch.hpp"
#include "scalar.hpp"

CZK_BEGIN
namespace {

template <class G>
int32_t group_op(int32_t op, const void* a, const void* b, void* out, uint64_t n) {
  using F = typename G::F;
  using V = msm::HostLane<F>;
  constexpr uint64_t size = G::kPointBytes, batch = msm::PairAdder<V>::kPairs;
  if (op < CZK_POINT_ADD || op > CZK_POINT_NEG) return fail(CZK_INVALID, "unknown group operation %d", op);
  if (op == CZK_POINT_NEG) {
    for (uint64_t i = 0; i < n; i++) store_point(load_point<F>(at(a, i, size)).neg(), at(out, i, size));
    return CZK_OK;
  }
  const uint64_t most = std::min(n, batch);
  Buffer<msm::Lanes<V>> sum(most), addend(most);
  Buffer<typename msm::PairAdder<V>::Pair> pair(most);
  for (uint64_t i = 0; i < most; i++) pair[i] = {&sum[i], &addend[i]};
  msm::PairAdder<V> adder;
  for (uint64_t begin = 0; begin < n; begin += batch) {
    const uint32_t count = uint32_t(std::min(batch, n - begin));
    auto load = [&](const void* points, msm::Lanes<V>* to) {
      for (uint32_t i = 0; i < count; i++) {
        const Affine<F> p = load_point<F>(at(points, begin + i, size));
        to[i] = {{p.x}, {p.y}};
      }
    };
    load(a, sum.data());
    load(op == CZK_POINT_ADD ? b : a, addend.data());
    adder.add(pair.data(), count);
    for (uint32_t i = 0; i < count; i++) store_point<F>(V::to_affine(sum[i], 0), at(out, begin + i, size));
  }
  return CZK_OK;
}

// out[i] = in[i] in affine coordinates, with one inversion for all. scratch holds n elements.
template <class F>
void batch_to_affine(const Xyzz<F>* in, Affine<F>* out, uint64_t n, F* scratch) {
  F product = F::one();
  for (uint64_t i = 0; i < n; i++) {
    scratch[i] = product;
    if (!in[i].is_infinity()) product = product * in[i].zzz;
  }
  F inverse = product.inverse();
  for (uint64_t i = n; i-- > 0;) {
    if (in[i].is_infinity()) {
      out[i] = Affine<F>::infinity();
      continue;
    }
    const F inv_zzz = inverse * scratch[i];
    inverse = inverse * in[i].zzz;
    const F inv_z = inv_zzz * in[i].zz;
    out[i] = {in[i].x * inv_z.sqr(), in[i].y * inv_zzz};
  }
}

// Signed windows of four bits over the multiples 1..8 of the point.
template <class F>
Xyzz<F> multiply(const Affine<F>& p, const Scalar& s) {
  constexpr uint32_t width = 4, windows = 64;
  int32_t digit[windows];
  uint32_t carry = 0;
  for (uint32_t j = 0; j < windows; j++) digit[j] = s.digit(j * width, width, carry);
  Xyzz<F> multiple[9];
  multiple[0] = Xyzz<F>::infinity();
  for (int i = 1; i <= 8; i++) {
    multiple[i] = multiple[i - 1];
    multiple[i].add(p);
  }
  Xyzz<F> acc = Xyzz<F>::infinity();
  for (uint32_t j = windows; j-- > 0;) {
    for (uint32_t i = 0; i < width; i++) acc = acc.dbl();
    acc.add(digit[j] < 0 ? multiple[-digit[j]].neg() : multiple[digit[j]]);
  }
  return acc;
}

template <class G>
int32_t group_mul(const void* points, const void* scalars, void* out, uint64_t n, int32_t threads, CzkCancel cancel) {
  using F = typename G::F;
  constexpr uint64_t size = G::kPointBytes, batch = 32;
  return parallel_ranges(n, batch, threads, cancel, [&](uint64_t begin, uint64_t end, int32_t) -> int32_t {
    Xyzz<F> product[batch];
    Affine<F> affine[batch];
    F scratch[batch];
    for (uint64_t i = begin; i < end; i++) {
      Scalar s;
      if (!load_scalar<typename G::Fr>(at(scalars, i, G::Fr::kBytes), s)) return bad_scalar(i);
      product[i - begin] = multiply(load_point<F>(at(points, i, size)), s);
    }
    batch_to_affine(product, affine, end - begin, scratch);
    for (uint64_t i = begin; i < end; i++) store_point(affine[i - begin], at(out, i, size));
    return CZK_OK;
  });
}

template <class G>
int32_t combine(const void* points, const uint32_t* positions, uint64_t n, void* out) {
  using F = typename G::F;
  constexpr uint64_t kCoordinate = element_bytes<F>();
  typename G::Accumulator sum = G::Accumulator::infinity();
  for (uint64_t i = n; i-- > 0;) {
    const char* p = at(points, i, 4 * kCoordinate);
    sum.add(typename G::Accumulator{load_element<F>(p), load_element<F>(p + kCoordinate),
                                    load_element<F>(p + 2 * kCoordinate), load_element<F>(p + 3 * kCoordinate)});
    const uint32_t below = i > 0 ? positions[i - 1] : 0;
    if (positions[i] < below || positions[i] > 256)
      return fail(CZK_INVALID, "position %u of point %llu must be from %u to 256", positions[i],
                  static_cast<unsigned long long>(i), below);
    for (uint32_t k = below; k < positions[i]; k++) sum = sum.dbl();
  }
  store_point<F>(sum.to_affine(), out);
  return CZK_OK;
}

}  // namespace
CZK_END

CZK_DEFINE(group_op)(int32_t curve, int32_t group, int32_t op, const void* a, const void* b, void* out, uint64_t n) {
  using namespace czk;
  return guarded([&] {
    return with_group(curve, group,
                      [&](auto tag) { return group_op<typename decltype(tag)::type>(op, a, b, out, n); });
  });
}

CZK_DEFINE(group_mul)(int32_t curve, int32_t group, const void* points, const void* scalars, void* out, uint64_t n,
                      int32_t threads, CzkCancel cancel) {
  using namespace czk;
  return guarded([&] {
    return with_group(curve, group, [&](auto tag) {
      return group_mul<typename decltype(tag)::type>(points, scalars, out, n, threads, cancel);
    });
  });
}

CZK_DEFINE(msm_combine)(int32_t curve, int32_t group, const void* points, const uint32_t* positions, uint64_t n,
                        void* out) {
  using namespace czk;
  return guarded([&] {
    return with_group(curve, group, [&](auto tag) {
      return combine<typename decltype(tag)::type>(points, positions, n, out);
    });
  });
}
