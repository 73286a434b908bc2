/* Convolutions of images with few channels, as a network's first layer.  An output has so few
   products that the tiles of a matrix product would be mostly empty.

   A group treats a band of a sample's output.  It copies the band's input with its padding to local
   memory.  A work item treats four filters, and pixels of the band at a fixed distance.  It keeps the
   taps of the filters (forward) or the sums of their gradients (backward-weights) in registers.
   Neighbouring items access neighbouring channels of a pixel.

   Options of a program:
     KERNEL_SIZE  rows and columns of a filter
     CHANNELS     of the input, all of them in one group */
#include "activation.h"
#include "conv2d_few.h"
#include "quad.h"

#define TAPS (KERNEL_SIZE * KERNEL_SIZE * CHANNELS)

/* An item's place in its group. */
typedef struct few_item {
    u32 quad, n_quads; /* the four filters of the item, and how many fours there are */
    u32 lane, n_lanes; /* its pixels are lane, lane + n_lanes, ...; none if lane >= n_lanes */
} few_item;

DEVICE few_item own_few_item(const conv2d_few_params *p)
{
    few_item item;
    item.n_quads = p->out_channels / FEW_FILTER;
    item.n_lanes = GROUP / item.n_quads;
    item.lane = LOCAL_ID / item.n_quads;
    item.quad = LOCAL_ID - item.lane * item.n_quads;
    return item;
}

typedef struct few_band {
    u64 sample;
    u32 first, n_rows; /* of the output */
    u32 n_pixels;
} few_band;

DEVICE few_band find_band(const conv2d_few_params *p, u64 index)
{
    few_band band;
    band.sample = index / p->bands;
    band.first = (u32)(index - band.sample * p->bands) * p->rows;
    band.n_rows = p->out_h - band.first < p->rows ? p->out_h - band.first : p->rows;
    band.n_pixels = band.n_rows * p->out_w;
    return band;
}

/* Copies a band's input to local memory; the whole group calls it.  x: of the sample. */
DEVICE void fetch_band(LOCAL float *to, GLOBAL const act *x, const conv2d_few_params *p,
                       few_band band)
{
    const u32 n = ((band.n_rows - 1) * p->stride_h + KERNEL_SIZE) * p->line;
    const u32 row = p->in_w * CHANNELS;
    for (u32 i = LOCAL_ID; i < n; i += GROUP) {
        const u32 line = i / p->line;
        const u32 h = band.first * p->stride_h + line - p->pad_h; /* wraps around if negative */
        const u32 at = i - line * p->line - p->pad_w * CHANNELS;
        to[i] = h < p->in_h && at < row ? GET(x, h * row + at) : 0.0f;
    }
}

/* A pixel of a band. */
typedef struct few_pixel {
    u32 row, column;
} few_pixel;

DEVICE few_pixel next_pixel(few_pixel pixel, u32 step, u32 width)
{
    pixel.column += step;
    while (pixel.column >= width) {
        pixel.column -= width;
        pixel.row++;
    }
    return pixel;
}

DEVICE few_pixel first_pixel(u32 lane, u32 width)
{
    few_pixel pixel;
    pixel.row = lane / width;
    pixel.column = lane - pixel.row * width;
    return pixel;
}

DEVICE LOCAL const float *window_of(LOCAL const float *band, few_pixel pixel,
                                    const conv2d_few_params *p)
{
    return band + pixel.row * p->stride_h * p->line + pixel.column * p->stride_w * CHANNELS;
}

/* x (n,in_h,in_w,CHANNELS), w (O,KERNEL_SIZE,KERNEL_SIZE,CHANNELS), bias (O)
   -> y (n,out_h,out_w,O) */
KERNEL void dpt_conv2d_few_forward(OUT(act, y), IN(act, x), IN(float, w), IN(float, bias),
                                   const conv2d_few_params p)
{
    SHARED float input[FEW_BAND];
    TENSOR_OUT(act, y);
    TENSOR_IN(act, x);
    TENSOR_IN(float, w);
    TENSOR_IN(float, bias);
    const few_item item = own_few_item(&p);
    float taps[TAPS][FEW_FILTER], offset[FEW_FILTER];
    UNROLL for (u32 e = 0; e < FEW_FILTER; e++) {
        const u32 filter = item.quad * FEW_FILTER + e;
        offset[e] = p.has_bias ? bias[filter] : 0.0f;
        UNROLL for (u32 tap = 0; tap < TAPS; tap++) taps[tap][e] = w[filter * TAPS + tap];
    }
    for (u64 i = GROUP_ID(0) * p.each; i < p.n_bands && i < (GROUP_ID(0) + 1) * p.each; i++) {
        const few_band band = find_band(&p, i);
        const u64 n_quads = item.n_quads, of_sample = (u64)p.out_h * p.out_w;
        const u64 first = (band.sample * of_sample + (u64)band.first * p.out_w) * n_quads;
        fetch_band(input, x + band.sample * p.in_h * p.in_w * CHANNELS, &p, band);
        BARRIER();
        few_pixel pixel = first_pixel(item.lane, p.out_w);
        const u32 end = item.lane < item.n_lanes ? band.n_pixels : 0;
        for (u32 at = item.lane; at < end; at += item.n_lanes) {
            LOCAL const float *window = window_of(input, pixel, &p);
            float sums[FEW_FILTER];
            UNROLL for (u32 e = 0; e < FEW_FILTER; e++) sums[e] = 0.0f;
            UNROLL for (u32 r = 0; r < KERNEL_SIZE; r++) {
                UNROLL for (u32 c = 0; c < KERNEL_SIZE * CHANNELS; c++) {
                    const float value = window[r * p.line + c];
                    UNROLL for (u32 e = 0; e < FEW_FILTER; e++)
                        sums[e] = FMA(value, taps[r * KERNEL_SIZE * CHANNELS + c][e], sums[e]);
                }
            }
            UNROLL for (u32 e = 0; e < FEW_FILTER; e++)
                sums[e] = activate(p.activation, sums[e] + offset[e]);
            QUAD_OUT(act, y, first + at * n_quads + item.quad) =
                QUAD_STORED(FLOAT4(sums[0], sums[1], sums[2], sums[3]));
            pixel = next_pixel(pixel, item.n_lanes, p.out_w);
        }
        BARRIER(); /* before the next band lies there */
    }
}

/* Adds a pixel's gradients times its window, and for the bias the gradients alone. */
DEVICE void add_gradients(float sums[TAPS + 1][FEW_FILTER], float4 own, LOCAL const float *window,
                          u32 line)
{
    const float gradient[FEW_FILTER] = {own.x, own.y, own.z, own.w};
    UNROLL for (u32 r = 0; r < KERNEL_SIZE; r++) {
        UNROLL for (u32 c = 0; c < KERNEL_SIZE * CHANNELS; c++) {
            const u32 tap = r * KERNEL_SIZE * CHANNELS + c;
            const float value = window[r * line + c];
            UNROLL for (u32 e = 0; e < FEW_FILTER; e++)
                sums[tap][e] = FMA(gradient[e], value, sums[tap][e]);
        }
    }
    UNROLL for (u32 e = 0; e < FEW_FILTER; e++) sums[TAPS][e] += gradient[e];
}

/* The sum over all lanes of an entry, in their order. */
DEVICE float4 add_lanes(LOCAL const float4 *sums, few_item item, u32 quad)
{
    float4 all = FLOAT4(0.0f, 0.0f, 0.0f, 0.0f);
    for (u32 lane = 0; lane < item.n_lanes; lane++) {
        const float4 own = sums[lane * item.n_quads + quad];
        all.x += own.x;
        all.y += own.y;
        all.z += own.z;
        all.w += own.w;
    }
    return all;
}

/* dy (n,out_h,out_w,O), x (n,in_h,in_w,CHANNELS) -> parts, one for each group, part_size elements
   apart: dw (O,KERNEL_SIZE,KERNEL_SIZE,CHANNELS), and behind it dbias (O) */
KERNEL void dpt_conv2d_few_weights(OUT(float, dw), IN(act, dy), IN(act, x),
                                   const conv2d_few_params p)
{
    SHARED float input[FEW_BAND];
    SHARED float4 shared[FEW_ROUND * GROUP];
    TENSOR_OUT(float, dw);
    TENSOR_IN(act, dy);
    TENSOR_IN(act, x);
    const few_item item = own_few_item(&p);
    float sums[TAPS + 1][FEW_FILTER]; /* the last ones are those of the bias */
    UNROLL for (u32 i = 0; i <= TAPS; i++) {
        UNROLL for (u32 e = 0; e < FEW_FILTER; e++) sums[i][e] = 0.0f;
    }
    for (u64 i = GROUP_ID(0) * p.each; i < p.n_bands && i < (GROUP_ID(0) + 1) * p.each; i++) {
        const few_band band = find_band(&p, i);
        const u64 n_quads = item.n_quads, of_sample = (u64)p.out_h * p.out_w;
        const u64 first = (band.sample * of_sample + (u64)band.first * p.out_w) * n_quads;
        fetch_band(input, x + band.sample * p.in_h * p.in_w * CHANNELS, &p, band);
        BARRIER();
        few_pixel pixel = first_pixel(item.lane, p.out_w);
        const u32 end = item.lane < item.n_lanes ? band.n_pixels : 0, step = item.n_lanes;
        for (u32 at = item.lane; at < end; at += FEW_AHEAD * step) {
            quad_act own[FEW_AHEAD];
            UNROLL for (u32 k = 0; k < FEW_AHEAD; k++) {
                const u32 other = at + k * step < end ? at + k * step : at;
                own[k] = QUAD(act, dy, first + other * n_quads + item.quad);
            }
            UNROLL for (u32 k = 0; k < FEW_AHEAD; k++) {
                if (at + k * step < end)
                    add_gradients(sums, QUAD_VALUES(own[k]), window_of(input, pixel, &p), p.line);
                pixel = next_pixel(pixel, step, p.out_w);
            }
        }
        BARRIER(); /* before the next band lies there */
    }
    GLOBAL float *part = dw + GROUP_ID(0) * p.part_size;
    UNROLL for (u32 first = 0; first <= TAPS; first += FEW_ROUND) {
        UNROLL for (u32 k = 0; k < FEW_ROUND; k++) {
            const u32 i = first + k <= TAPS ? first + k : TAPS;
            shared[k * GROUP + LOCAL_ID] =
                FLOAT4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
        }
        BARRIER();
        for (u32 j = LOCAL_ID; j < FEW_ROUND * item.n_quads; j += GROUP) {
            const u32 k = j / item.n_quads, quad = j - k * item.n_quads, tap = first + k;
            const u32 filter = quad * FEW_FILTER;
            if (tap > TAPS) break;
            const float4 all = add_lanes(shared + k * GROUP, item, quad);
            const float four[FEW_FILTER] = {all.x, all.y, all.z, all.w};
            for (u32 e = 0; e < FEW_FILTER; e++) {
                if (tap < TAPS)
                    part[(filter + e) * TAPS + tap] = four[e];
                else if (p.has_bias)
                    part[p.out_channels * TAPS + filter + e] = four[e];
            }
        }
        BARRIER();
    }
}
