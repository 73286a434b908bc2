/* Vectors of WIDTH channels in memory.  The last vector of a row may have fewer channels. */
#ifndef DPT_KERNELS_WINOGRAD_VECTOR_H
#define DPT_KERNELS_WINOGRAD_VECTOR_H

#include "dialect.h"

#ifndef WIDTH
#define WIDTH 1
#endif

#if WIDTH == 1

typedef float vec;
#define LOAD(pointer)         (*(pointer))
#define STORE(value, pointer) (*(pointer) = (value))

DEVICE vec load_lanes(GLOBAL const float *from, u32 lanes)
{
    (void)lanes;
    return *from;
}

DEVICE void store_lanes(vec value, GLOBAL float *to, u32 lanes)
{
    (void)lanes;
    *to = value;
}

#else

#define JOIN_(a, b)           a##b
#define JOIN(a, b)            JOIN_(a, b)
typedef JOIN(float, WIDTH) vec;
#define LOAD(pointer)         JOIN(vload, WIDTH)(0, (pointer))
#define STORE(value, pointer) JOIN(vstore, WIDTH)((value), 0, (pointer))

/* Loads the first `lanes` channels, at most WIDTH; the others are zero. */
DEVICE vec load_lanes(GLOBAL const float *from, u32 lanes)
{
    if (lanes >= WIDTH) return LOAD(from);
    float lane[WIDTH];
    for (u32 l = 0; l < WIDTH; l++)
        lane[l] = l < lanes ? from[l] : 0.0f;
    return LOAD(lane);
}

DEVICE void store_lanes(vec value, GLOBAL float *to, u32 lanes)
{
    if (lanes >= WIDTH) {
        STORE(value, to);
        return;
    }
    float lane[WIDTH];
    STORE(value, lane);
    for (u32 l = 0; l < lanes; l++)
        to[l] = lane[l];
}

#endif

#endif
