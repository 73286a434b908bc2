/* Pooling.  The launch's dimensions are the elements of a sample, in which channels are the fastest
   axis, and the samples.

   If the window is a constant square (POOL_KERNEL, POOL_STRIDE, POOL_PAD), the loops of the program
   are unrolled, so that a CPU can vectorise over work items, and nothing is divided by a stride. */
#include "activation.h"
#include "pool2d.h"
#include "quad.h"
#include "span.h"

#ifdef POOL_KERNEL
#define POOL_KERNEL_H POOL_KERNEL
#define POOL_KERNEL_W POOL_KERNEL
#define POOL_STRIDE_H POOL_STRIDE
#define POOL_STRIDE_W POOL_STRIDE
#define POOL_PAD_H    POOL_PAD
#define POOL_PAD_W    POOL_PAD
#define POOL_LOOP     UNROLL
#else
#define POOL_KERNEL_H p.kernel_h
#define POOL_KERNEL_W p.kernel_w
#define POOL_STRIDE_H p.stride_h
#define POOL_STRIDE_W p.stride_w
#define POOL_PAD_H    p.pad_h
#define POOL_PAD_W    p.pad_w
#define POOL_LOOP
#endif

/* The most windows that hold one row or one column. */
#define POOL_WINDOWS_H ((POOL_KERNEL_H + POOL_STRIDE_H - 1) / POOL_STRIDE_H)
#define POOL_WINDOWS_W ((POOL_KERNEL_W + POOL_STRIDE_W - 1) / POOL_STRIDE_W)

/* The average of a window from its sum. */
DEVICE float average(float sum, const pool2d_params p)
{
#if DETERMINISTIC
    return DIVIDE(sum, (float)(POOL_KERNEL_H * POOL_KERNEL_W));
#else
    return sum * p.inverse;
#endif
}

/* An element of an image.  Rows and columns of inputs count from the first one of the padding. */
typedef struct element {
    u32 row, column, channel;
} element;

DEVICE element element_at(u32 i, divisor columns, const pool2d_params p)
{
    const u32 pixel = quotient(i, p.channels);
    element e;
    e.channel = rest(i, pixel, p.channels);
    e.row = quotient(pixel, columns);
    e.column = rest(pixel, e.row, columns);
    return e;
}

/* Whether an input lies in the image.  Without padding all inputs of all windows do. */
DEVICE u32 in_image(u32 row, u32 column, const pool2d_params p)
{
    const u32 row_is = POOL_PAD_H == 0 || row - POOL_PAD_H < p.in_h;
    const u32 column_is = POOL_PAD_W == 0 || column - POOL_PAD_W < p.in_w;
    return row_is & column_is;
}

/* The index in its sample of an input that lies in the image. */
DEVICE u32 place_in(u32 row, u32 column, u32 channel, const pool2d_params p)
{
    return ((row - POOL_PAD_H) * p.in_w + column - POOL_PAD_W) * p.channels.value + channel;
}

/* ---- Forward: x -> y ------------------------------------------------------------------------- */

KERNEL void dpt_average_pool2d_forward(OUT(act, y), IN(act, x), const pool2d_params p)
{
    if (IS_EXTRA_GROUP(p.n_samples)) return;
    GLOBAL const act *const x = x_base + x_place + (u64)GROUP_ID(1) * p.in_size;
    GLOBAL act *const y = y_base + y_place + (u64)GROUP_ID(1) * p.out_size;
    FOR_ELEMENTS (i, p.out_size) {
        const element e = element_at((u32)i, p.out_columns, p);
        float sum = 0.0f;
        POOL_LOOP
        for (u32 r = 0; r < POOL_KERNEL_H; r++) {
            POOL_LOOP
            for (u32 s = 0; s < POOL_KERNEL_W; s++) {
                const u32 row = e.row * POOL_STRIDE_H + r, column = e.column * POOL_STRIDE_W + s;
                if (in_image(row, column, p)) sum += GET(x, place_in(row, column, e.channel, p));
            }
        }
        PUT(y, i, average(sum, p));
    }
}

/* The maximum of a window is NaN only if the first input of the window is NaN. */
KERNEL void dpt_max_pool2d_forward(OUT(act, y), IN(act, x), const pool2d_params p)
{
    if (IS_EXTRA_GROUP(p.n_samples)) return;
    GLOBAL const act *const x = x_base + x_place + (u64)GROUP_ID(1) * p.in_size;
    GLOBAL act *const y = y_base + y_place + (u64)GROUP_ID(1) * p.out_size;
    FOR_ELEMENTS (i, p.out_size) {
        const element e = element_at((u32)i, p.out_columns, p);
        float most = 0.0f;
        u32 found = 0;
        POOL_LOOP
        for (u32 r = 0; r < POOL_KERNEL_H; r++) {
            POOL_LOOP
            for (u32 s = 0; s < POOL_KERNEL_W; s++) {
                const u32 row = e.row * POOL_STRIDE_H + r, column = e.column * POOL_STRIDE_W + s;
                if (in_image(row, column, p)) {
                    const float value = GET(x, place_in(row, column, e.channel, p));
                    most = !found || value > most ? value : most;
                    found = 1;
                }
            }
        }
        PUT(y, i, most);
    }
}

/* ---- Backward: dy, x -> dx ------------------------------------------------------------------- */

/* An input sums over the windows that hold it, in their order: the windows whose first row is less than
   a kernel above the input's row.  A row above the first one wraps around to a huge number. */

/* Writes a gradient, after the mask. */
DEVICE void finish(GLOBAL act *dx, GLOBAL const act *x, u64 i, float whole, const pool2d_params p)
{
    PUT(dx, i, p.mask == ACTIVATION_NONE ? whole : with_slope(p.mask, GET(x, i), whole));
}

/* The sum of the gradients of the windows that hold an input. */
DEVICE float sum_at(GLOBAL const act *dy, u64 i, const pool2d_params p)
{
    const element e = element_at((u32)i, p.in_columns, p);
    const u32 row = e.row + POOL_PAD_H, column = e.column + POOL_PAD_W;
    float sum = 0.0f;
    POOL_LOOP
    for (u32 a = 0; a < POOL_WINDOWS_H; a++) {
        POOL_LOOP
        for (u32 b = 0; b < POOL_WINDOWS_W; b++) {
            const u32 oh = row / POOL_STRIDE_H + a + 1 - POOL_WINDOWS_H;
            const u32 ow = column / POOL_STRIDE_W + b + 1 - POOL_WINDOWS_W;
            if (oh < p.out_h && row - oh * POOL_STRIDE_H < POOL_KERNEL_H && ow < p.out_w &&
                column - ow * POOL_STRIDE_W < POOL_KERNEL_W)
                sum += GET(dy, (oh * p.out_w + ow) * p.channels.value + e.channel);
        }
    }
    return sum;
}

KERNEL void dpt_average_pool2d_backward(OUT(act, dx), IN(act, dy), IN(act, x),
                                        const pool2d_params p)
{
    if (IS_EXTRA_GROUP(p.n_samples)) return;
    GLOBAL act *const dx = dx_base + dx_place + (u64)GROUP_ID(1) * p.in_size;
    GLOBAL const act *const x = x_base + x_place + (u64)GROUP_ID(1) * p.in_size;
    GLOBAL const act *const dy = dy_base + dy_place + (u64)GROUP_ID(1) * p.out_size;
    FOR_ELEMENTS (i, p.in_size) {
        const float own = average(sum_at(dy, i, p), p);
        finish(dx, x, i, p.accumulate ? GET(dx, i) + own : own, p);
    }
}

/* The gradients of a quad, after the mask. */
DEVICE quad_act finished(const float *whole, quad_act x, const pool2d_params p)
{
    const float4 y = QUAD_VALUES(x);
    const float mask[4] = {y.x, y.y, y.z, y.w};
    float value[4];
    UNROLL
    for (u32 j = 0; j < 4; j++)
        value[j] = p.mask == ACTIVATION_NONE ? whole[j] : with_slope(p.mask, mask[j], whole[j]);
    return QUAD_STORED(FLOAT4(value[0], value[1], value[2], value[3]));
}

/* finished of averages, from the sums of windows and what was there. */
DEVICE quad_act finished_average(const float *sum, quad_act before, quad_act x,
                                 const pool2d_params p)
{
    const float4 old = QUAD_VALUES(before);
    const float add[4] = {old.x, old.y, old.z, old.w};
    float whole[4];
    UNROLL
    for (u32 j = 0; j < 4; j++) {
        const float own = average(sum[j], p);
        whole[j] = p.accumulate ? add[j] + own : own;
    }
    return finished(whole, x, p);
}

/* sum_at of four channels of an input. */
DEVICE void sum_quad(float *sum, GLOBAL const act *dy, u64 i, const pool2d_params p)
{
    const element e = element_at((u32)(4 * i), p.in_columns, p);
    const u32 row = e.row + POOL_PAD_H, column = e.column + POOL_PAD_W;
    UNROLL
    for (u32 j = 0; j < 4; j++)
        sum[j] = 0.0f;
    POOL_LOOP
    for (u32 a = 0; a < POOL_WINDOWS_H; a++) {
        POOL_LOOP
        for (u32 b = 0; b < POOL_WINDOWS_W; b++) {
            const u32 oh = row / POOL_STRIDE_H + a + 1 - POOL_WINDOWS_H;
            const u32 ow = column / POOL_STRIDE_W + b + 1 - POOL_WINDOWS_W;
            if (oh < p.out_h && row - oh * POOL_STRIDE_H < POOL_KERNEL_H && ow < p.out_w &&
                column - ow * POOL_STRIDE_W < POOL_KERNEL_W) {
                const u32 at = (oh * p.out_w + ow) * p.channels.value + e.channel;
                const float4 of = QUAD_VALUES(QUAD(act, dy, at / 4));
                sum[0] += of.x;
                sum[1] += of.y;
                sum[2] += of.z;
                sum[3] += of.w;
            }
        }
    }
}

/* For samples whose elements are a multiple of four.  If the channels are no multiple of four, a quad
   may hold channels of two inputs. */
KERNEL void dpt_average_pool2d_backward_quads(OUT(act, dx), IN(act, dy), IN(act, x),
                                              const pool2d_params p)
{
    if (IS_EXTRA_GROUP(p.n_samples)) return;
    GLOBAL act *const dx = dx_base + dx_place + (u64)GROUP_ID(1) * p.in_size;
    GLOBAL const act *const x = x_base + x_place + (u64)GROUP_ID(1) * p.in_size;
    GLOBAL const act *const dy = dy_base + dy_place + (u64)GROUP_ID(1) * p.out_size;
    const u32 n = p.in_size / 4;
    FOR_QUADS (first, n) {
        quad_act before[QUADS], masking[QUADS];
        float sum[QUADS][4];
        UNROLL
        for (u32 k = 0; k < QUADS; k++) {
            const u64 i = QUAD_AT(first, k, n);
            before[k] = masking[k] = quad_of_zeros();
            if (p.accumulate) before[k] = QUAD(act, dx, i);
            if (p.mask != ACTIVATION_NONE) masking[k] = QUAD(act, x, i);
        }
        UNROLL
        for (u32 j = 0; j < 4 * QUADS; j++) {
            const u64 i = QUAD_AT(first, j / 4, n);
            if (p.channels.value % 4 != 0) sum[j / 4][j % 4] = sum_at(dy, 4 * i + j % 4, p);
            else if (j % 4 == 0) sum_quad(sum[j / 4], dy, i, p);
        }
        UNROLL
        for (u32 k = 0; k < QUADS; k++)
            if (HAS_QUAD(first, k, n))
                QUAD_OUT(act, dx, first + k * GROUP) =
                    finished_average(sum[k], before[k], masking[k], p);
    }
}

/* Whether `own`, at tap (r, s), is the first maximum of the window at (oh, ow). */
DEVICE u32 is_first_maximum(GLOBAL const act *x, float own, u32 r, u32 s, u32 oh, u32 ow,
                            u32 channel, const pool2d_params p)
{
    u32 is = 1;
    POOL_LOOP
    for (u32 i = 0; i < POOL_KERNEL_H; i++) {
        POOL_LOOP
        for (u32 j = 0; j < POOL_KERNEL_W; j++) {
            const u32 row = oh * POOL_STRIDE_H + i, column = ow * POOL_STRIDE_W + j;
            if (in_image(row, column, p)) {
                const float other = GET(x, place_in(row, column, channel, p));
                const u32 earlier = i < r || (i == r && j < s);
                is = is && (earlier ? own > other : !(other > own));
            }
        }
    }
    return is;
}

KERNEL void dpt_max_pool2d_backward(OUT(act, dx), IN(act, dy), IN(act, x), const pool2d_params p)
{
    if (IS_EXTRA_GROUP(p.n_samples)) return;
    GLOBAL act *const dx = dx_base + dx_place + (u64)GROUP_ID(1) * p.in_size;
    GLOBAL const act *const x = x_base + x_place + (u64)GROUP_ID(1) * p.in_size;
    GLOBAL const act *const dy = dy_base + dy_place + (u64)GROUP_ID(1) * p.out_size;
    FOR_ELEMENTS (i, p.in_size) {
        const element e = element_at((u32)i, p.in_columns, p);
        const u32 row = e.row + POOL_PAD_H, column = e.column + POOL_PAD_W;
        const float own = GET(x, i);
        float sum = p.accumulate ? GET(dx, i) : 0.0f;
        POOL_LOOP
        for (u32 a = 0; a < POOL_WINDOWS_H; a++) {
            POOL_LOOP
            for (u32 b = 0; b < POOL_WINDOWS_W; b++) {
                const u32 oh = row / POOL_STRIDE_H + a + 1 - POOL_WINDOWS_H;
                const u32 ow = column / POOL_STRIDE_W + b + 1 - POOL_WINDOWS_W;
                const u32 r = row - oh * POOL_STRIDE_H, s = column - ow * POOL_STRIDE_W;
                if (oh < p.out_h && r < POOL_KERNEL_H && ow < p.out_w && s < POOL_KERNEL_W) {
                    if (is_first_maximum(x, own, r, s, oh, ow, e.channel, p))
                        sum += GET(dy, (oh * p.out_w + ow) * p.channels.value + e.channel);
                }
            }
        }
        finish(dx, x, i, sum, p);
    }
}

/* is_first_maximum of four channels from `channel` on.  is[c]: the answer for channel + c. */
DEVICE void are_first_maxima(u32 *is, GLOBAL const act *x, const float *own, u32 r, u32 s, u32 oh,
                             u32 ow, u32 channel, const pool2d_params p)
{
    UNROLL
    for (u32 c = 0; c < 4; c++)
        is[c] = 1;
    POOL_LOOP
    for (u32 i = 0; i < POOL_KERNEL_H; i++) {
        POOL_LOOP
        for (u32 j = 0; j < POOL_KERNEL_W; j++) {
            const u32 row = oh * POOL_STRIDE_H + i, column = ow * POOL_STRIDE_W + j;
            if (in_image(row, column, p)) {
                const u32 at = place_in(row, column, channel, p);
                const float4 tap = QUAD_VALUES(QUAD(act, x, at / 4));
                const float other[4] = {tap.x, tap.y, tap.z, tap.w};
                const u32 earlier = i < r || (i == r && j < s);
                UNROLL
                for (u32 c = 0; c < 4; c++)
                    is[c] &= (u32)(earlier ? own[c] > other[c] : !(other[c] > own[c]));
            }
        }
    }
}

/* For channels that are a multiple of four. */
KERNEL void dpt_max_pool2d_backward_quads(OUT(act, dx), IN(act, dy), IN(act, x),
                                          const pool2d_params p)
{
    if (IS_EXTRA_GROUP(p.n_samples)) return;
    GLOBAL act *const dx = dx_base + dx_place + (u64)GROUP_ID(1) * p.in_size;
    GLOBAL const act *const x = x_base + x_place + (u64)GROUP_ID(1) * p.in_size;
    GLOBAL const act *const dy = dy_base + dy_place + (u64)GROUP_ID(1) * p.out_size;
    const u32 n = p.in_size / 4;
    FOR_QUADS (first, n) {
        for (u32 k = 0; k < QUADS && HAS_QUAD(first, k, n); k++) {
            const u64 i = first + k * GROUP;
            const element e = element_at((u32)(4 * i), p.in_columns, p);
            const u32 row = e.row + POOL_PAD_H, column = e.column + POOL_PAD_W;
            const quad_act stored = QUAD(act, x, i);
            const float4 values = QUAD_VALUES(stored);
            const float own[4] = {values.x, values.y, values.z, values.w};
            quad_act before = quad_of_zeros();
            if (p.accumulate) before = QUAD(act, dx, i);
            const float4 old = QUAD_VALUES(before);
            float sum[4] = {old.x, old.y, old.z, old.w};
            POOL_LOOP
            for (u32 a = 0; a < POOL_WINDOWS_H; a++) {
                POOL_LOOP
                for (u32 b = 0; b < POOL_WINDOWS_W; b++) {
                    const u32 oh = row / POOL_STRIDE_H + a + 1 - POOL_WINDOWS_H;
                    const u32 ow = column / POOL_STRIDE_W + b + 1 - POOL_WINDOWS_W;
                    const u32 r = row - oh * POOL_STRIDE_H, s = column - ow * POOL_STRIDE_W;
                    if (oh < p.out_h && r < POOL_KERNEL_H && ow < p.out_w && s < POOL_KERNEL_W) {
                        const u32 at = (oh * p.out_w + ow) * p.channels.value + e.channel;
                        const float4 of = QUAD_VALUES(QUAD(act, dy, at / 4));
                        u32 is[4];
                        are_first_maxima(is, x, own, r, s, oh, ow, e.channel, p);
                        if (is[0]) sum[0] += of.x;
                        if (is[1]) sum[1] += of.y;
                        if (is[2]) sum[2] += of.z;
                        if (is[3]) sum[3] += of.w;
                    }
                }
            }
            QUAD_OUT(act, dx, i) = finished(sum, stored, p);
        }
    }
}
