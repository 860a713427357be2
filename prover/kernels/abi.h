/* The host library's C interface. Called through ctypes, without the GIL.
 *
 * Conventions
 * - Status: CZK_OK or an error; the text of the calling thread's last error is czk_last_error(). No exception crosses.
 * - curve: 0 BLS12-381, 1 BN254. group: 1 (coordinates in Fp) or 2 (in Fp2).
 *   field: 0 BLS12-381 Fp, 1 BLS12-381 Fr, 2 BN254 Fp, 3 BN254 Fr, 4 BLS12-381 Fp2, 5 BN254 Fp2.
 * - Elements are little-endian 64-bit limbs: 6 for BLS12-381 Fp, 4 otherwise; Fp2 is c0, c1. "Montgomery" means times 2^(64*limbs).
 * - Affine points are x, y in Montgomery form; infinity is all zero bytes (as in a zkey).
 * - Scalars are canonical (not Montgomery), 4 limbs, below r.
 * - Pointers may be unaligned (memory-mapped files); outputs must not overlap inputs unless said.
 * - threads >= 1 is the number of threads used, the caller's included.
 * - cancel may be NULL; when *cancel turns non-zero the call returns CZK_CANCELLED within some milliseconds.
 */
#ifndef CZK_ABI_H
#define CZK_ABI_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CZK_ABI_VERSION 1

enum { CZK_OK = 0, CZK_INVALID = 1, CZK_CANCELLED = 2, CZK_NO_MEMORY = 3, CZK_INTERNAL = 4 };

/* --- library (library.cpp) --- */
int32_t czk_abi_version(void);
const char* czk_source_digest(void);
const char* czk_last_error(void);
/* Which variant of the hot loops runs: "portable", "bmi2", "ifma". The environment CUZK_TOP_CPU may name a lower one. */
const char* czk_cpu_variant(void);
/* The variants that this processor can run, comma-separated; select one (tests): returns CZK_INVALID if it can't. */
const char* czk_cpu_variants(void);
int32_t czk_select_variant(const char* name);

/* --- fields (field_ops.cpp): element-wise over n elements --- */
enum { CZK_ADD, CZK_SUB, CZK_MUL, CZK_SQR, CZK_NEG, CZK_INV, CZK_TO_MONT, CZK_FROM_MONT };
/* b is ignored by unary operations. CZK_INV is batch inversion (Montgomery's trick), zero to zero. out may be a or b. */
int32_t czk_field_op(int32_t field, int32_t op, const void* a, const void* b, void* out, uint64_t n);
/* The same through the shared 32-bit header of the GPU (field.cuh), inversion one by one. */
int32_t czk_field_op_shared(int32_t field, int32_t op, const void* a, const void* b, void* out, uint64_t n);
/* *bad = index of the first element not below the modulus, or n. */
int32_t czk_field_check(int32_t field, const void* a, uint64_t n, uint64_t* bad);

/* --- groups (group_ops.cpp) --- */
enum { CZK_POINT_ADD, CZK_POINT_DBL, CZK_POINT_NEG };
int32_t czk_group_op(int32_t curve, int32_t group, int32_t op, const void* a, const void* b, void* out, uint64_t n);
/* out[i] = scalars[i] * points[i], affine. */
int32_t czk_group_mul(int32_t curve, int32_t group, const void* points, const void* scalars, void* out, uint64_t n,
                      int32_t threads, const volatile int32_t* cancel);
/* out[i] = scalars[i] * base, affine: window table of the one base, batch normalisation. */
int32_t czk_fixed_base_mul(int32_t curve, int32_t group, const void* base, const void* scalars, void* out, uint64_t n,
                           int32_t threads, const volatile int32_t* cancel);
enum { CZK_CHECK_CURVE = 1, CZK_CHECK_SUBGROUP = 2 };
/* Coordinates below the modulus, on the curve (infinity passes), and with CZK_CHECK_SUBGROUP each in the subgroup.
 * *bad = index of the first offender, or n; *why: 1 coordinate not reduced, 2 not on the curve, 3 not in the subgroup. */
int32_t czk_points_check(int32_t curve, int32_t group, const void* points, uint64_t n, int32_t checks, int32_t threads,
                         const volatile int32_t* cancel, uint64_t* bad, int32_t* why);
/* Random sums drawn from the 32-byte seed: *ok = 0 if one lies outside the subgroup (then some point does); a point
 * outside escapes with probability at most 2^-40. Points must be reduced and on the curve. */
int32_t czk_points_check_combined(int32_t curve, int32_t group, const void* points, uint64_t n, const uint8_t* seed,
                                  int32_t threads, const volatile int32_t* cancel, int32_t* ok);

/* --- multi-scalar multiplication (msm.cpp) --- */
/* out = sum scalars[i] * bases[i], affine. Any n, 0 included. */
int32_t czk_msm(int32_t curve, int32_t group, const void* bases, const void* scalars, uint64_t n, int32_t threads,
                const volatile int32_t* cancel, void* out);
/* out = sum 2^positions[i] * points[i], affine. points: X, Y, ZZ, ZZZ with x = X/ZZ, y = Y/ZZZ, ZZ = 0 at infinity.
 * positions must not fall and stay within 256: the windows of a multiplication, lowest first. */
int32_t czk_msm_combine(int32_t curve, int32_t group, const void* points, const uint32_t* positions, uint64_t n,
                        void* out);

/* --- NTT (ntt.cpp), over Fr of the curve, Montgomery form, in place, natural order in and out --- */
enum { CZK_NTT_FORWARD = 0, CZK_NTT_INVERSE = 1 };
/* root: primitive 2^log_n-th root (Montgomery, 4 limbs). shift: NULL or the coset shift g (Montgomery): forward evaluates
 * at g*w^i, inverse interpolates from these values. The inverse includes the factor 1/n. */
int32_t czk_ntt(int32_t curve, void* data, uint32_t log_n, int32_t direction, const void* root, const void* shift,
                int32_t threads, const volatile int32_t* cancel);

/* --- vectors over Fr (vector_ops.cpp) --- */
/* out = a*b - c element-wise (Montgomery in); if canonical_out, out leaves Montgomery form. out may be a, b or c. */
int32_t czk_mul_sub(int32_t curve, const void* a, const void* b, const void* c, void* out, uint64_t n,
                    int32_t canonical_out, int32_t threads, const volatile int32_t* cancel);
/* Sparse matrix times vector: out[row] = sum over k in [row_ptr[row], row_ptr[row+1]) of table[coef[k]] * w[col[k]],
 * Montgomery form out. w canonical, table entries are value * R^2 (a zkey's form), so one Montgomery product each.
 * row_ptr: u64[rows+1]; col, coef: u32[nnz]; table: Fr[table_len]; coef 0 and 1 must be +1 and -1 (fast paths). */
int32_t czk_spmv(int32_t curve, uint64_t rows, const uint64_t* row_ptr, const uint32_t* col, const uint32_t* coef,
                 const void* table, uint64_t table_len, const void* w, uint64_t w_len, void* out, int32_t threads,
                 const volatile int32_t* cancel);
/* *bad = first row where a*b != c (Montgomery), or n. */
int32_t czk_first_unsatisfied(int32_t curve, const void* a, const void* b, const void* c, uint64_t n, uint64_t* bad);

/* --- proving key files (zkey_coefficients.cpp) --- */
/* The n 44-byte entries of a zkey's section 4 (u32 matrix, u32 constraint, u32 column, value * R^2) as CSR matrices A and
 * B of `rows` rows with one table, in the form of czk_spmv. The last `inputs` entries must be the input rows (A, row
 * constraints + s, column s, coefficient 1). row_ptr: u64[rows + 1] each; col, coef: u32[n], those of A first; table:
 * room for n + 2 elements, *table_len of them are used. *bad = index of the first entry refused, or n; *why: 1 matrix,
 * 2 constraint or 3 column out of range, 4 value not reduced, 5 not its input's row. */
int32_t czk_zkey_matrices(int32_t curve, const void* entries, uint64_t n, uint64_t columns, uint64_t constraints,
                          uint64_t inputs, uint64_t rows, uint64_t* row_ptr_a, uint64_t* row_ptr_b, uint32_t* col,
                          uint32_t* coef, void* table, uint64_t* table_len, uint64_t* bad, int32_t* why);

/* --- witness program (program.cpp) --- see prover/circuits/program.py for the instruction set */
/* Runs n_instructions of four words each over the registers values[0..n_values), which are scratch: their contents on entry
 * do not matter. On CZK_OK the first n_variables hold the witness, canonical, values[0] = 1. constants: Montgomery;
 * inputs: canonical. On CZK_INVALID *failed_at is the instruction that failed and czk_last_error() says why. */
int32_t czk_program_run(int32_t curve, const uint32_t* code, uint64_t n_instructions, const void* constants,
                        uint64_t n_constants, const void* inputs, uint64_t n_inputs, void* values, uint64_t n_values,
                        uint64_t n_variables, const volatile int32_t* cancel, uint64_t* failed_at);

/* --- pairing (pairing.cpp) --- */
/* *ok = product over i of e(g1[i], g2[i]) == 1. Points must be on the curve and in the subgroup (not checked). */
int32_t czk_pairing_check(int32_t curve, const void* g1, const void* g2, uint64_t n, int32_t threads, int32_t* ok);
/* out = final exponentiation of the Miller product, 12 Fp elements, Montgomery, tower order of pairing.cpp (tests). */
int32_t czk_pairing(int32_t curve, const void* g1, const void* g2, uint64_t n, void* out);

#ifdef __cplusplus
}
#endif
#endif
