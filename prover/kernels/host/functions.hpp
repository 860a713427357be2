// The per-variant functions of abi.h, listed once: name, parameters, arguments. library.cpp builds the dispatch tables
// from this list, variant.hpp the declarations that each variant's files are checked against.
#pragma once
#include <cstdint>

using CzkCancel = const volatile int32_t*;

// clang-format off
#define CZK_FUNCTIONS(X)                                                                                               \
  X(field_op, (int32_t field, int32_t op, const void* a, const void* b, void* out, uint64_t n),                        \
    (field, op, a, b, out, n))                                                                                         \
  X(field_check, (int32_t field, const void* a, uint64_t n, uint64_t* bad), (field, a, n, bad))                        \
  X(group_op, (int32_t curve, int32_t group, int32_t op, const void* a, const void* b, void* out, uint64_t n),         \
    (curve, group, op, a, b, out, n))                                                                                  \
  X(group_mul, (int32_t curve, int32_t group, const void* points, const void* scalars, void* out, uint64_t n,          \
                int32_t threads, CzkCancel cancel),                                                                    \
    (curve, group, points, scalars, out, n, threads, cancel))                                                          \
  X(fixed_base_mul, (int32_t curve, int32_t group, const void* base, const void* scalars, void* out, uint64_t n,       \
                     int32_t threads, CzkCancel cancel),                                                               \
    (curve, group, base, scalars, out, n, threads, cancel))                                                            \
  X(points_check, (int32_t curve, int32_t group, const void* points, uint64_t n, int32_t checks, int32_t threads,      \
                   CzkCancel cancel, uint64_t* bad, int32_t* why),                                                     \
    (curve, group, points, n, checks, threads, cancel, bad, why))                                                      \
  X(points_check_combined, (int32_t curve, int32_t group, const void* points, uint64_t n, const uint8_t* seed,         \
                            int32_t threads, CzkCancel cancel, int32_t* ok),                                           \
    (curve, group, points, n, seed, threads, cancel, ok))                                                              \
  X(msm, (int32_t curve, int32_t group, const void* bases, const void* scalars, uint64_t n, int32_t threads,           \
          CzkCancel cancel, void* out),                                                                                \
    (curve, group, bases, scalars, n, threads, cancel, out))                                                           \
  X(msm_combine, (int32_t curve, int32_t group, const void* points, const uint32_t* positions, uint64_t n, void* out),   \
    (curve, group, points, positions, n, out))                                                                         \
  X(ntt, (int32_t curve, void* data, uint32_t log_n, int32_t direction, const void* root, const void* shift,           \
          int32_t threads, CzkCancel cancel),                                                                          \
    (curve, data, log_n, direction, root, shift, threads, cancel))                                                     \
  X(mul_sub, (int32_t curve, const void* a, const void* b, const void* c, void* out, uint64_t n,                       \
              int32_t canonical_out, int32_t threads, CzkCancel cancel),                                               \
    (curve, a, b, c, out, n, canonical_out, threads, cancel))                                                          \
  X(spmv, (int32_t curve, uint64_t rows, const uint64_t* row_ptr, const uint32_t* col, const uint32_t* coef,           \
           const void* table, uint64_t table_len, const void* w, uint64_t w_len, void* out, int32_t threads,           \
           CzkCancel cancel),                                                                                          \
    (curve, rows, row_ptr, col, coef, table, table_len, w, w_len, out, threads, cancel))                               \
  X(first_unsatisfied, (int32_t curve, const void* a, const void* b, const void* c, uint64_t n, uint64_t* bad),        \
    (curve, a, b, c, n, bad))                                                                                          \
  X(program_run, (int32_t curve, const uint32_t* code, uint64_t n_instructions, const void* constants,                 \
                  uint64_t n_constants, const void* inputs, uint64_t n_inputs, void* values, uint64_t n_values,        \
                  uint64_t n_variables, CzkCancel cancel, uint64_t* failed_at),                                        \
    (curve, code, n_instructions, constants, n_constants, inputs, n_inputs, values, n_values, n_variables, cancel,     \
     failed_at))                                                                                                       \
  X(zkey_matrices, (int32_t curve, const void* entries, uint64_t n, uint64_t columns, uint64_t constraints,            \
                    uint64_t inputs, uint64_t rows, uint64_t* row_ptr_a, uint64_t* row_ptr_b, uint32_t* col,           \
                    uint32_t* coef, void* table, uint64_t* table_len, uint64_t* bad, int32_t* why),                    \
    (curve, entries, n, columns, constraints, inputs, rows, row_ptr_a, row_ptr_b, col, coef, table, table_len, bad,    \
     why))                                                                                                             \
  X(pairing_check, (int32_t curve, const void* g1, const void* g2, uint64_t n, int32_t threads, int32_t* ok),          \
    (curve, g1, g2, n, threads, ok))                                                                                   \
  X(pairing, (int32_t curve, const void* g1, const void* g2, uint64_t n, void* out), (curve, g1, g2, n, out))
// clang-format on
