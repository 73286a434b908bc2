/* Vectors of floats, with the same names for all instruction sets: 16 lanes with AVX-512, 8 with
   AVX2, 4 with NEON and in portable code.  A half vector exists with AVX-512 only, and costs half
   as much as a whole one.  vec_fma rounds once if the instruction set has a fused operation, and
   twice in portable code, unless the build defines DPT_CPU_FUSED. */
#ifndef DPT_CPU_SIMD_H
#define DPT_CPU_SIMD_H

#include "namespace.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DPT_CPU_INLINE static inline __attribute__((always_inline))

/* Loops over constants that the compiler must unroll completely, so that arrays of vectors become
   registers. */
#if defined(__clang__)
#define DPT_CPU_UNROLL       _Pragma("clang loop unroll(full)")
#define DPT_CPU_UNROLL_TWICE _Pragma("clang loop unroll_count(2)")
#else
#define DPT_CPU_UNROLL       _Pragma("GCC unroll 16")
#define DPT_CPU_UNROLL_TWICE _Pragma("GCC unroll 2")
#endif

#if defined(__AVX512F__)

#include <immintrin.h>
enum { LANES = 16, HALF_LANES = 8 };
typedef __m512 vec;
typedef uint64_t vec_u64 __attribute__((vector_size(64)));
typedef __m256 half;

DPT_CPU_INLINE __mmask16 vec_mask(size_t n)
{
    return (__mmask16)((1u << n) - 1u);
}
DPT_CPU_INLINE __mmask8 half_mask(size_t n)
{
    return (__mmask8)((1u << n) - 1u);
}
DPT_CPU_INLINE vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}
DPT_CPU_INLINE vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
/* The first n lanes; the others are zero and their memory is not touched. */
DPT_CPU_INLINE vec vec_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(vec_mask(n), p);
}
DPT_CPU_INLINE void vec_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}
DPT_CPU_INLINE void vec_store_n(float *p, vec x, size_t n)
{
    _mm512_mask_storeu_ps(p, vec_mask(n), x);
}
DPT_CPU_INLINE vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}
DPT_CPU_INLINE vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}
DPT_CPU_INLINE vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}
DPT_CPU_INLINE vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}
/* The product of the lower halves of x with m; the upper halves do not matter. */
DPT_CPU_INLINE vec_u64 vec_mul_low(vec_u64 x, uint32_t m)
{
    return (vec_u64)_mm512_mul_epu32((__m512i)x, _mm512_set1_epi64(m));
}
/* x where m > 0, else 0 */
DPT_CPU_INLINE vec vec_where_positive(vec m, vec x)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(m, _mm512_setzero_ps(), _CMP_GT_OQ), x);
}
/* a > b ? a : b */
DPT_CPU_INLINE vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}
/* a < b ? a : b */
DPT_CPU_INLINE vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}
/* a < b ? x : y */
DPT_CPU_INLINE vec vec_where_less(vec a, vec b, vec x, vec y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
DPT_CPU_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
DPT_CPU_INLINE vec vec_relu(vec x) /* keeps NaN */
{
    return _mm512_max_ps(_mm512_setzero_ps(), x);
}
/* Row i, lane k becomes row k, lane i, of LANES rows. */
DPT_CPU_INLINE void vec_transpose(vec x[16])
{
    vec y[16];
    DPT_CPU_UNROLL
    for (int i = 0; i < 16; i += 4) { /* 4x4 within the quarters of four rows */
        const vec a = _mm512_unpacklo_ps(x[i], x[i + 1]), b = _mm512_unpackhi_ps(x[i], x[i + 1]);
        const vec c = _mm512_unpacklo_ps(x[i + 2], x[i + 3]);
        const vec d = _mm512_unpackhi_ps(x[i + 2], x[i + 3]);
        y[i] = _mm512_shuffle_ps(a, c, 0x44);
        y[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        y[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
        y[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    DPT_CPU_UNROLL
    for (int i = 0; i < 4; i++) { /* quarters, 4x4 */
        const vec a = _mm512_shuffle_f32x4(y[i], y[i + 4], 0x88);
        const vec b = _mm512_shuffle_f32x4(y[i], y[i + 4], 0xdd);
        const vec c = _mm512_shuffle_f32x4(y[i + 8], y[i + 12], 0x88);
        const vec d = _mm512_shuffle_f32x4(y[i + 8], y[i + 12], 0xdd);
        x[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        x[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
        x[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
        x[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}
DPT_CPU_INLINE half half_set(float x)
{
    return _mm256_set1_ps(x);
}
DPT_CPU_INLINE half half_of(vec x) /* the first lanes of x */
{
    return _mm512_castps512_ps256(x);
}
DPT_CPU_INLINE half half_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
DPT_CPU_INLINE half half_load_n(const float *p, size_t n)
{
    return _mm256_maskz_loadu_ps(half_mask(n), p);
}
DPT_CPU_INLINE void half_store_n(float *p, half x, size_t n)
{
    _mm256_mask_storeu_ps(p, half_mask(n), x);
}
DPT_CPU_INLINE half half_add(half a, half b)
{
    return _mm256_add_ps(a, b);
}
DPT_CPU_INLINE half half_fma(half a, half b, half c)
{
    return _mm256_fmadd_ps(a, b, c);
}
DPT_CPU_INLINE half half_relu(half x)
{
    return _mm256_max_ps(_mm256_setzero_ps(), x);
}

#elif defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>
enum { LANES = 8, HALF_LANES = 0 };
typedef __m256 vec;
typedef uint64_t vec_u64 __attribute__((vector_size(32)));

DPT_CPU_INLINE __m256i vec_mask(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
DPT_CPU_INLINE vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}
DPT_CPU_INLINE vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
DPT_CPU_INLINE vec vec_load_n(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, vec_mask(n));
}
DPT_CPU_INLINE void vec_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}
/* Stores in pieces, because masked stores are slow on some processors. */
DPT_CPU_INLINE void vec_store_n(float *p, vec x, size_t n)
{
    if (n >= LANES) {
        _mm256_storeu_ps(p, x);
        return;
    }
    __m128 rest = _mm256_castps256_ps128(x);
    if (n & 4) {
        _mm_storeu_ps(p, rest);
        rest = _mm256_extractf128_ps(x, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, rest);
        rest = _mm_movehl_ps(rest, rest);
        p += 2;
    }
    if (n & 1) _mm_store_ss(p, rest);
}
DPT_CPU_INLINE vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}
DPT_CPU_INLINE vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}
DPT_CPU_INLINE vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}
DPT_CPU_INLINE vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}
/* The product of the lower halves of x with m; the upper halves do not matter. */
DPT_CPU_INLINE vec_u64 vec_mul_low(vec_u64 x, uint32_t m)
{
    return (vec_u64)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x(m));
}
/* x where m > 0, else 0 */
DPT_CPU_INLINE vec vec_where_positive(vec m, vec x)
{
    return _mm256_and_ps(_mm256_cmp_ps(m, _mm256_setzero_ps(), _CMP_GT_OQ), x);
}
/* a > b ? a : b */
DPT_CPU_INLINE vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}
/* a < b ? a : b */
DPT_CPU_INLINE vec vec_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}
/* a < b ? x : y */
DPT_CPU_INLINE vec vec_where_less(vec a, vec b, vec x, vec y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
DPT_CPU_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
DPT_CPU_INLINE vec vec_relu(vec x)
{
    return _mm256_max_ps(_mm256_setzero_ps(), x);
}
/* Row i, lane k becomes row k, lane i, of LANES rows. */
DPT_CPU_INLINE void vec_transpose(vec x[8])
{
    vec y[8];
    DPT_CPU_UNROLL
    for (int i = 0; i < 8; i += 4) { /* 4x4 within the halves of four rows */
        const vec a = _mm256_unpacklo_ps(x[i], x[i + 1]), b = _mm256_unpackhi_ps(x[i], x[i + 1]);
        const vec c = _mm256_unpacklo_ps(x[i + 2], x[i + 3]);
        const vec d = _mm256_unpackhi_ps(x[i + 2], x[i + 3]);
        y[i] = _mm256_shuffle_ps(a, c, 0x44);
        y[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        y[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        y[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    DPT_CPU_UNROLL
    for (int i = 0; i < 4; i++) {
        x[i] = _mm256_permute2f128_ps(y[i], y[i + 4], 0x20);
        x[i + 4] = _mm256_permute2f128_ps(y[i], y[i + 4], 0x31);
    }
}

#else

enum { LANES = 4, HALF_LANES = 0 };
typedef uint64_t vec_u64 __attribute__((vector_size(16)));

/* ---- NEON: operations whose instructions compilers do not find by themselves ---- */
#if defined(DPT_CPU_NEON)

#include <arm_neon.h>
typedef float32x4_t vec;

DPT_CPU_INLINE vec vec_set(float x)
{
    return vdupq_n_f32(x);
}
/* The first n lanes, in pieces; the others are zero and their memory is not touched. */
DPT_CPU_INLINE vec vec_load_n(const float *p, size_t n)
{
    if (n >= LANES) return vld1q_f32(p);
    float32x2_t low = vdup_n_f32(0.0f), high = low;
    if (n & 2) {
        low = vld1_f32(p);
        if (n & 1) high = vld1_lane_f32(p + 2, high, 0);
    } else if (n & 1) {
        low = vld1_lane_f32(p, low, 0);
    }
    return vcombine_f32(low, high);
}
DPT_CPU_INLINE void vec_store_n(float *p, vec x, size_t n)
{
    if (n >= LANES) {
        vst1q_f32(p, x);
        return;
    }
    if (n & 2) {
        vst1_f32(p, vget_low_f32(x));
        if (n & 1) vst1q_lane_f32(p + 2, x, 2);
    } else if (n & 1) {
        vst1q_lane_f32(p, x, 0);
    }
}
DPT_CPU_INLINE vec_u64 vec_mul_low(vec_u64 x, uint32_t m)
{
    return (vec_u64)vmull_u32(vmovn_u64((uint64x2_t)x), vdup_n_u32(m));
}
DPT_CPU_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}
DPT_CPU_INLINE void vec_transpose(vec x[4])
{
    const float32x4x2_t a = vtrnq_f32(x[0], x[1]), b = vtrnq_f32(x[2], x[3]);
    x[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
    x[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
    x[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
    x[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

#else

typedef float vec __attribute__((vector_size(16)));

#if defined(DPT_CPU_FUSED)
/* a * b + c, rounded once: without an instruction, as exact_fma of kernels/exact.h does it. */
__attribute__((noinline, unused)) static vec vec_fused(vec a, vec b, vec c)
{
    vec y = {0};
    for (size_t i = 0; i < 4; i++) {
#if defined(__FMA__) || defined(__aarch64__)
        y[i] = __builtin_fmaf(a[i], b[i], c[i]);
#else
        const double product = (double)a[i] * (double)b[i], sum = product + (double)c[i];
        const double part = sum - product;
        const double error = (product - (sum - part)) + ((double)c[i] - part);
        uint64_t bits;
        double odd;
        memcpy(&bits, &sum, sizeof bits);
        /* Rounds the sum to odd: an inexact sum gets a last bit that is 1. */
        const uint64_t is_inexact = (uint64_t)(error < 0.0) | (uint64_t)(error > 0.0);
        const uint64_t is_nearer = (uint64_t)(error < 0.0) ^ bits >> 63;
        bits += (is_inexact & ~bits & 1) * (1 - 2 * is_nearer);
        memcpy(&odd, &bits, sizeof odd);
        y[i] = (float)odd;
#endif
    }
    return y;
}
#endif

DPT_CPU_INLINE vec vec_set(float x)
{
    return (vec){x, x, x, x};
}
/* The first n lanes; the others are zero and their memory is not touched. */
DPT_CPU_INLINE vec vec_load_n(const float *p, size_t n)
{
    vec x = {0};
    for (size_t i = 0; i < n; i++)
        x[i] = p[i];
    return x;
}
DPT_CPU_INLINE void vec_store_n(float *p, vec x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = x[i];
}
/* The product of the lower halves of x with m; the upper halves do not matter. */
DPT_CPU_INLINE vec_u64 vec_mul_low(vec_u64 x, uint32_t m)
{
    return (x & UINT32_MAX) * m;
}
DPT_CPU_INLINE vec vec_fma(vec a, vec b, vec c)
{
#if defined(DPT_CPU_FUSED)
    return vec_fused(a, b, c);
#else
    return a * b + c;
#endif
}
/* Row i, lane k becomes row k, lane i, of LANES rows. */
DPT_CPU_INLINE void vec_transpose(vec x[4])
{
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < i; k++) {
            const float held = x[i][k];
            x[i][k] = x[k][i];
            x[k][i] = held;
        }
    }
}

#endif

/* ---- Operations whose instructions compilers find ---- */

DPT_CPU_INLINE vec vec_load(const float *p)
{
    vec x;
    memcpy(&x, p, sizeof x);
    return x;
}
DPT_CPU_INLINE void vec_store(float *p, vec x)
{
    memcpy(p, &x, sizeof x);
}
DPT_CPU_INLINE vec vec_add(vec a, vec b)
{
    return a + b;
}
DPT_CPU_INLINE vec vec_sub(vec a, vec b)
{
    return a - b;
}
DPT_CPU_INLINE vec vec_mul(vec a, vec b)
{
    return a * b;
}
DPT_CPU_INLINE vec vec_div(vec a, vec b)
{
    return a / b;
}
typedef int32_t vec_bits __attribute__((vector_size(16)));
/* x where m > 0, else 0 */
DPT_CPU_INLINE vec vec_where_positive(vec m, vec x)
{
    const vec_bits positive = (vec_bits)(m > vec_set(0.0f));
    return (vec)(positive & (vec_bits)x);
}
/* a > b ? a : b */
DPT_CPU_INLINE vec vec_max(vec a, vec b)
{
    const vec_bits greater = (vec_bits)(a > b);
    return (vec)((greater & (vec_bits)a) | (~greater & (vec_bits)b));
}
/* a < b ? x : y */
DPT_CPU_INLINE vec vec_where_less(vec a, vec b, vec x, vec y)
{
    const vec_bits less = (vec_bits)(a < b);
    return (vec)((less & (vec_bits)x) | (~less & (vec_bits)y));
}
/* a < b ? a : b */
DPT_CPU_INLINE vec vec_min(vec a, vec b)
{
    return vec_where_less(a, b, a, b);
}
DPT_CPU_INLINE vec vec_relu(vec x) /* keeps NaN */
{
    return vec_max(vec_set(0.0f), x);
}

#endif

/* ---- Operations on the bits of floats, in the compilers' own words ---- */

typedef uint32_t vec_u32 __attribute__((vector_size(sizeof(vec))));

DPT_CPU_INLINE vec vec_negate(vec x)
{
    return (vec)((vec_u32)x ^ 0x80000000u);
}
DPT_CPU_INLINE vec vec_absolute(vec x)
{
    return (vec)((vec_u32)x & 0x7fffffffu);
}
/* x, which is not negative, with the sign of y */
DPT_CPU_INLINE vec vec_with_sign(vec x, vec y)
{
    return (vec)((vec_u32)x | ((vec_u32)y & 0x80000000u));
}
/* 2^i, where x is 1.5 * 2^23 + i, for i from -126 to 127 */
DPT_CPU_INLINE vec vec_power_of_two(vec x)
{
    return (vec)(((vec_u32)x << 23) + 0x3f800000u);
}

/* Without half vectors these names must exist, and no code that uses them is instantiated. */
#if !defined(__AVX512F__)
typedef vec half;
#define half_set     vec_set
#define half_of(x)   (x)
#define half_load    vec_load
#define half_load_n  vec_load_n
#define half_store_n vec_store_n
#define half_add     vec_add
#define half_fma     vec_fma
#define half_relu    vec_relu
#endif

#endif
