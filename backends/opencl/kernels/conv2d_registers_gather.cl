/* Convolution for CPUs: forward and backward-data.  A work item computes some consecutive pixels of a
   panel of channels, tile by tile.  The inputs are read in place.  With CHECKED, taps outside a sample
   read zeros.  Without CHECKED, the samples are in frames of zeros.

   In a program of deterministic operators a sum is one chain, which begins with 0.  What was there is
   added behind it. */
#include "activation.h"
#include "conv2d_registers.h"
#include "conv2d_registers_tile.h"

/* The addresses of a tile's rows: the inputs of the first tap, and the results. */
typedef struct places {
    GLOBAL const float *in[ROWS];
    GLOBAL float *out[ROWS];
    i32 row[ROWS], column[ROWS]; /* of the first tap */
} places;

/* Runs through the pixels of a grid. */
typedef struct cursor {
    u64 left; /* pixels after this one */
    u64 sample;
    u32 row, column;
} cursor;

DEVICE void cursor_set(cursor *c, const conv_gather_params *p, u64 pixel, u64 end)
{
    const u64 row = pixel / p->grid_w;
    c->left = end - pixel - 1;
    c->column = (u32)(pixel % p->grid_w);
    c->row = (u32)(row % p->grid_h);
    c->sample = row / p->grid_h;
}

/* The next pixel.  Behind the last pixel it stays, and spare rows of a tile compute it once more. */
DEVICE void cursor_next(cursor *c, const conv_gather_params *p)
{
    if (c->left == 0) return;
    c->left--;
    if (++c->column < p->grid_w) return;
    c->column = 0;
    if (++c->row < p->grid_h) return;
    c->row = 0;
    c->sample++;
}

/* Loads sums.  If n < LANES, a row has only the lanes 0 .. n-1. */
#define LOAD_SUMS(sum, n)                                                                          \
    if ((n) == LANES) {                                                                            \
        EACH_ROW EACH_UNIT sum[i][u] = VEC_LOAD(at.out[i] + u * V);                                \
    } else {                                                                                       \
        for (int i = 0; i < ROWS; i++) {                                                           \
            for (u32 lane = 0; lane < (n); lane++)                                                 \
                spill[i * LANES + lane] = at.out[i][lane];                                         \
            for (u32 lane = (n); lane < LANES; lane++)                                             \
                spill[i * LANES + lane] = 0.0f;                                                    \
        }                                                                                          \
        EACH_ROW EACH_UNIT sum[i][u] = VEC_LOAD(spill + i * LANES + u * V);                        \
    }

/* Applies bias, activation, accumulation and mask to the lanes first .. n-1 of all rows, one by one. */
DEVICE void finish(const conv_gather_params *p, const places *at, const float *spill,
                   GLOBAL const float *y, GLOBAL const float *mask, u32 first, u32 n)
{
    for (int i = 0; i < ROWS; i++) {
        GLOBAL float *to = at->out[i];
        const float *from = spill + i * LANES;
        if (p->mask != ACTIVATION_NONE) {
            GLOBAL const float *m = mask + (to - y);
            for (u32 lane = first; lane < n; lane++)
                to[lane] = with_slope(p->mask, m[lane], from[lane]);
        } else {
            for (u32 lane = first; lane < n; lane++)
                to[lane] = activate(p->activation, from[lane]);
        }
    }
}

ITEM_KERNEL void dpt_conv2d_gather(OUT(float, y), IN(float, x), IN(float, packed), IN(float, bias),
                                   IN(float, mask), const conv_gather_params p)
{
    TENSOR_OUT(float, y);
    TENSOR_IN(float, x);
    TENSOR_IN(float, packed);
    TENSOR_IN(float, bias);
    TENSOR_IN(float, mask);
    const u64 begin = (u64)(p.panels_first ? GROUP_ID(1) : GROUP_ID(0)) * p.item_pixels;
    const u64 end = min(begin + p.item_pixels, p.n_pixels);
    const u32 panel = p.panels_first ? GROUP_ID(0) : GROUP_ID(1), group = panel / p.n_panels;
    const u32 lane = panel % p.n_panels * LANES;
    const u32 n = min(p.group_channels - lane, (u32)LANES);
    GLOBAL const float *const sources = x + group * p.group_in;
    GLOBAL float *const results = y + p.out_first + group * p.group_channels + lane;
    GLOBAL const float *const zeros = packed + p.zeros;
    const u32 n_segments = p.taps_h * p.taps_w;
    GLOBAL const float *filters = packed + (u64)panel * n_segments * p.run * LANES;
    const bool simple = p.activation <= ACTIVATION_RELU && p.mask <= ACTIVATION_RELU;
    float spill[ROWS * LANES];

    u32 first = 0;
    do {
        const u32 last = min(first + p.block, n_segments);
        cursor c;
        cursor_set(&c, &p, begin, end);
        for (u64 pixel = begin; pixel < end; pixel += ROWS) {
            places at;
            i32 highest = INT_MAX, lowest = INT_MIN; /* the extreme rows of the first taps */
            EACH_ROW
            {
                at.row[i] = p.first_h + (i32)(c.row * p.step_h);
                at.column[i] = p.first_w + (i32)(c.column * p.step_w);
                at.in[i] = sources + c.sample * p.in_sample +
                           ((long)at.row[i] * p.in_row + (long)at.column[i] * p.in_pixel);
                at.out[i] =
                    results + c.sample * p.out_sample + c.row * p.out_row + c.column * p.out_pixel;
                highest = min(highest, at.row[i]);
                lowest = max(lowest, at.row[i]);
                cursor_next(&c, &p);
            }
            vec sum[ROWS][UNITS];
            if (first > 0 || (p.accumulate && !DETERMINISTIC)) {
                LOAD_SUMS(sum, n)
            } else {
                EACH_ROW EACH_UNIT sum[i][u] = 0.0f;
            }

            GLOBAL const float *b = filters;
            u32 tap_row = first / max(p.taps_w, 1u), tap_column = first % max(p.taps_w, 1u);
            for (u32 s = first; s < last; s++) {
                const u32 down = tap_row * p.tap_h, right = tap_column * p.tap_w;
                const u64 on = (u64)down * p.in_row + right * p.in_pixel;
                const bool some =
                    highest + (i32)down < p.inside_end && lowest + (i32)down >= p.inside_first;
                if (++tap_column == p.taps_w) {
                    tap_column = 0;
                    tap_row++;
                }
                if (!some) { /* the tap row is above or below the sample for all pixels */
                    b += (u64)p.run * LANES;
                    continue;
                }
                GLOBAL const float *a[ROWS];
#if CHECKED
                EACH_ROW
                {
                    const bool inside = (u32)(at.row[i] + (i32)down) < p.in_h &&
                                        (u32)(at.column[i] + (i32)right) < p.in_w;
                    a[i] = inside ? at.in[i] + on : zeros;
                }
#else
                EACH_ROW a[i] = at.in[i] + on;
#endif
                for (u32 k = 0; k < p.run; k++) {
                    vec row[UNITS];
                    EACH_UNIT row[u] = VEC_LOAD(b + u * V);
                    EACH_ROW
                    {
                        const vec value = a[i][k];
                        EACH_UNIT sum[i][u] = MULTIPLY_ADD(value, row[u], sum[i][u]);
                    }
                    b += LANES;
                }
            }

            if (last < n_segments) {
                if (n == LANES) {
                    EACH_ROW EACH_UNIT VEC_STORE(sum[i][u], at.out[i] + u * V);
                } else {
                    EACH_ROW EACH_UNIT VEC_STORE(sum[i][u], spill + i * LANES + u * V);
                    for (int i = 0; i < ROWS; i++)
                        for (u32 l = 0; l < n; l++)
                            at.out[i][l] = spill[i * LANES + l];
                }
                continue;
            }
#if DETERMINISTIC
            EACH_ROW EACH_UNIT sum[i][u] += p.end;
            if (p.accumulate) {
                vec before[ROWS][UNITS];
                LOAD_SUMS(before, n)
                EACH_ROW EACH_UNIT sum[i][u] += before[i][u];
            }
#endif
            if (p.has_bias) EACH_ROW EACH_UNIT sum[i][u] += VEC_LOAD(bias + panel * LANES + u * V);
            /* If there is at most a ReLU, whole vectors are finished at once, the rest one by one. */
            const u32 whole = simple ? n / V : 0;
            if (n < LANES || !simple) {
                EACH_ROW EACH_UNIT if (u >= whole) VEC_STORE(sum[i][u], spill + i * LANES + u * V);
            }
            if (p.activation == ACTIVATION_RELU)
                EACH_ROW EACH_UNIT sum[i][u] = sum[i][u] < 0.0f ? (vec)0.0f : sum[i][u];
            if (p.mask == ACTIVATION_RELU)
                EACH_ROW EACH_UNIT if (u < whole) sum[i][u] =
                    VEC_LOAD(mask + (at.out[i] - y) + u * V) > 0.0f ? sum[i][u] : (vec)0.0f;
            EACH_ROW EACH_UNIT if (u < whole) VEC_STORE(sum[i][u], at.out[i] + u * V);
            if (whole * V < n) finish(&p, &at, spill, y, mask, whole * V, n);
        }
        filters += (u64)(last - first) * p.run * LANES;
        first = last;
    } while (first < n_segments);
}
