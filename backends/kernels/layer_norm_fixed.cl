/* Deterministic layer-norm, forward and backward to the data.  The sums of a row are in float32
   lanes.  A row is read from memory once, and then from the cache. */
#define LANES 16u
#include "activation.h"
#include "lanes.h"
#include "layer_norm.h"

#ifndef ACTIVATION
#define ACTIVATION p.activation
#endif

/* The lanes of two sums of a row. */
typedef struct two_lanes {
    float first[OWN_LANES], second[OWN_LANES];
} two_lanes;

/* Sums up two terms of each element of a row.  TERMS(i, k) adds those of element i to lane k. */
#define ADD_UP(s, r, TERMS)                                                                        \
    do {                                                                                           \
        FOR_OWN_LANES (k)                                                                              \
            (s).first[k] = (s).second[k] = 0.0f;                                                   \
        for (u32 i = (r).lane; i < (r).whole; i += LANES)                                          \
            FOR_OWN_LANES (k) {                                                                        \
                TERMS((s), i + k, k);                                                              \
            }                                                                                      \
        for (u32 k = 0; (r).whole + (r).lane + k < (r).n && k < OWN_LANES; k++) {                  \
            TERMS((s), (r).whole + (r).lane + k, k);                                               \
        }                                                                                          \
    } while (0)

/* The mean of the terms in the lanes, for every item of the row. */
DEVICE double mean_of(LOCAL double *shared, const float *lanes, u32 n)
{
    double own[OWN_LANES];
    FOR_OWN_LANES (k)
        own[k] = (double)lanes[k];
    return sum_of_lanes(shared, own, 0.0) / (double)n;
}

/* x (n_rows,channels), w, b -> y as x, moments (n_rows,2) */
KERNEL void dpt_layer_norm_forward(OUT(float, y), OUT(float, moments), IN(float, x),
                                         IN(float, w), IN(float, b), const layer_norm_params p)
{
    SHARED double shared[GROUP];
    TENSOR_IN(float, w);
    TENSOR_IN(float, b);
    const row r = row_of(p.n_rows, p.channels);
    GLOBAL const float *const x = x_base + x_place + r.index * p.channels;
    GLOBAL float *const y = y_base + y_place + r.index * p.channels;
    GLOBAL float *const moments = moments_base + moments_place + 2 * r.index;
    two_lanes s;
#define TERMS(s, i, k) (s).first[k] += x[i]
    ADD_UP(s, r, TERMS);
#undef TERMS
    const float center = (float)mean_of(shared, s.first, p.channels);
#define TERMS(s, i, k)                                                                             \
    const float deviation = x[i] - center;                                                         \
    (s).first[k] += deviation;                                                                     \
    (s).second[k] += deviation * deviation
    ADD_UP(s, r, TERMS);
#undef TERMS
    const double off = mean_of(shared, s.first, p.channels); /* the rounding error of the mean */
    const double variance = mean_of(shared, s.second, p.channels) - off * off;
    const double positive = variance < 0.0 ? 0.0 : variance;
    const float mean = (float)((double)center + off);
    const float inverse = (float)(1.0 / sqrt(positive + (double)p.epsilon));
    FOR_ROW (i, r)
        y[i] = (x[i] - mean) * inverse * w[i] + b[i];
    if (r.lane == 0 && r.n > 0) {
        moments[0] = mean;
        moments[1] = inverse;
    }
}

/* dy, x (n_rows,channels), moments (n_rows,2), w -> dx as x */
KERNEL void dpt_layer_norm_backward_data(OUT(float, dx), IN(float, dy), IN(float, x),
                                               IN(float, moments), IN(float, w),
                                               const layer_norm_params p)
{
    SHARED double shared[GROUP];
    TENSOR_IN(float, moments);
    TENSOR_IN(float, w);
    const row r = row_of(p.n_rows, p.channels);
    GLOBAL const float *const dy = dy_base + dy_place + r.index * p.channels;
    GLOBAL const float *const x = x_base + x_place + r.index * p.channels;
    GLOBAL float *const dx = dx_base + dx_place + r.index * p.channels;
    const float mean = r.n > 0 ? moments[2 * r.index] : 0.0f;
    const float inverse = r.n > 0 ? moments[2 * r.index + 1] : 0.0f;
    two_lanes s;
#define TERMS(s, i, k)                                                                             \
    const float g = dy[i] * w[i];                                                                  \
    (s).first[k] += g;                                                                             \
    (s).second[k] += g * (x[i] - mean)
    ADD_UP(s, r, TERMS);
#undef TERMS
    const float offset = (float)mean_of(shared, s.first, p.channels);
    const double mean_product = mean_of(shared, s.second, p.channels);
    const float slope = (float)(mean_product * ((double)inverse * (double)inverse));
    FOR_ROW (i, r) {
        const float value = (dy[i] * w[i] - offset - (x[i] - mean) * slope) * inverse;
        dx[i] = with_slope(ACTIVATION, x[i], p.accumulate ? dx[i] + value : value);
    }
}
