/* The deterministic squared error: loss and, if asked for, the gradient of each sample.  The
   elements behind the last whole group of LANES are a sum of their own, to which the lanes are
   added. */
#define LANES 16u
#include "lanes.h"
#include "squared_error.h"

DEVICE double square_at(GLOBAL const float *y, GLOBAL const float *target, u32 i)
{
    const double difference = (double)(y[i] - target[i]);
    return difference * difference;
}

/* y, target (n,count) -> result (n,2), dy (n,count) */
KERNEL void dpt_squared_error_fixed(OUT(float, result), OUT(float, dy), IN(float, y),
                                    IN(float, target), IN(u32, step), const squared_error_params p)
{
    SHARED double shared[GROUP];
    TENSOR_OUT(float, result);
    TENSOR_IN(u32, step);
    const row r = row_of(p.n_samples, p.count);
    const u64 first = r.index * p.count;
    GLOBAL const float *const y = y_base + y_place + first;
    GLOBAL const float *const target = target_base + target_place + first;
    double own[OWN_LANES], rest = 0.0;
    FOR_OWN_LANES (k)
        own[k] = 0.0;
    for (u32 i = r.lane; i < r.whole; i += LANES)
        FOR_OWN_LANES (k)
            own[k] += square_at(y, target, i + k);
    for (u32 i = r.whole; i < r.n && r.lane == 0; i++)
        rest += square_at(y, target, i);
    const double sum = sum_of_lanes(shared, own, rest);
    if (r.n == 0) return;
    if (r.lane == 0) {
        result[2 * r.index] = (float)(sum / (double)p.count);
        result[2 * r.index + 1] = 0.0f;
    }
    if (!p.gradient) return;
    GLOBAL float *const dy = dy_base + dy_place + first;
    const float slope =
        (float)(2.0 / (double)p.count * (double)AS_FLOAT(step[STEP_INV_BATCH]));
    FOR_ROW (i, r)
        dy[i] = (y[i] - target[i]) * slope;
}
