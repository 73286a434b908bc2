/* The softmax of each row of a matrix, or its logarithm, and the gradient.  A work item computes a
   short row, and a group computes a long one. */
#include "functions.h"
#include "reduce.h"
#include "row_softmax.h"

/* The greatest element among first, first + step, ... */
DEVICE float most_of(GLOBAL const act *x, u32 first, u32 step, u32 columns)
{
    float most = GET(x, 0);
    for (u32 i = first; i < columns; i += step)
        most = GET(x, i) > most ? GET(x, i) : most;
    return most;
}

DEVICE float sum_of_exponentials(GLOBAL const act *x, float most, u32 first, u32 step, u32 columns)
{
    float sum = 0.0f;
    for (u32 i = first; i < columns; i += step)
        sum += EXP(GET(x, i) - most);
    return sum;
}

DEVICE void put_softmax(GLOBAL act *y, GLOBAL const act *x, float most, float sum, u32 first,
                        u32 step, const row_softmax_params p)
{
    const float log_sum = LOG(sum), inverse = 1.0f / sum;
    for (u32 i = first; i < p.columns; i += step) {
        const float below = GET(x, i) - most;
        PUT(y, i, p.log_of ? below - log_sum : EXP(below) * inverse);
    }
}

/* x (n_rows,columns) -> y as x.  A work item for each row. */
KERNEL void dpt_row_softmax_few(OUT(act, y), IN(act, x), const row_softmax_params p)
{
    if (GLOBAL_ID >= p.n_rows) return;
    const u64 begin = GLOBAL_ID * p.columns;
    GLOBAL const act *const x = x_base + x_place + begin;
    GLOBAL act *const y = y_base + y_place + begin;
    const float most = most_of(x, 0, 1, p.columns);
    put_softmax(y, x, most, sum_of_exponentials(x, most, 0, 1, p.columns), 0, 1, p);
}

/* dpt_row_softmax_few with a group for each row. */
KERNEL void dpt_row_softmax_many(OUT(act, y), IN(act, x), const row_softmax_params p)
{
    SHARED float shared[GROUP];
    const u64 begin = (u64)GROUP_ID(0) * p.columns;
    GLOBAL const act *const x = x_base + x_place + begin;
    GLOBAL act *const y = y_base + y_place + begin;
    const float most = group_max(shared, most_of(x, LOCAL_ID, GROUP, p.columns));
    const float sum = group_sum(shared, sum_of_exponentials(x, most, LOCAL_ID, GROUP, p.columns));
    put_softmax(y, x, most, sum, LOCAL_ID, GROUP, p);
}

/* The sum of what BACKWARD subtracts a share of. */
DEVICE float sum_of_gradients(GLOBAL const act *dy, GLOBAL const act *y, u32 first, u32 step,
                              const row_softmax_params p)
{
    float sum = 0.0f;
    for (u32 i = first; i < p.columns; i += step)
        sum += p.log_of ? GET(dy, i) : GET(dy, i) * GET(y, i);
    return sum;
}

/* A row of dy and y -> dx. */
DEVICE void put_gradient(GLOBAL act *dx, GLOBAL const act *dy, GLOBAL const act *y, float sum,
                         u32 first, u32 step, const row_softmax_params p)
{
    for (u32 i = first; i < p.columns; i += step) {
        const float g = GET(dy, i), value = GET(y, i);
        const float before = p.accumulate ? GET(dx, i) : 0.0f;
        PUT(dx, i, before + (p.log_of ? g - EXP(value) * sum : value * (g - sum)));
    }
}

/* dy, y (n_rows,columns) -> dx as y.  A work item for each row. */
KERNEL void dpt_row_softmax_backward_few(OUT(act, dx), IN(act, dy), IN(act, y),
                                         const row_softmax_params p)
{
    if (GLOBAL_ID >= p.n_rows) return;
    const u64 begin = GLOBAL_ID * p.columns;
    GLOBAL const act *const dy = dy_base + dy_place + begin;
    GLOBAL const act *const y = y_base + y_place + begin;
    GLOBAL act *const dx = dx_base + dx_place + begin;
    put_gradient(dx, dy, y, sum_of_gradients(dy, y, 0, 1, p), 0, 1, p);
}

/* dpt_row_softmax_backward_few with a group for each row. */
KERNEL void dpt_row_softmax_backward_many(OUT(act, dx), IN(act, dy), IN(act, y),
                                          const row_softmax_params p)
{
    SHARED float shared[GROUP];
    const u64 begin = (u64)GROUP_ID(0) * p.columns;
    GLOBAL const act *const dy = dy_base + dy_place + begin;
    GLOBAL const act *const y = y_base + y_place + begin;
    GLOBAL act *const dx = dx_base + dx_place + begin;
    const float sum = group_sum(shared, sum_of_gradients(dy, y, LOCAL_ID, GROUP, p));
    put_gradient(dx, dy, y, sum, LOCAL_ID, GROUP, p);
}
