/* Deterministic softmax of each row of a matrix, or its logarithm, and the gradient.  The elements
   behind the last whole group of LANES go to lane 0. */
#define LANES 8u
#include "lanes.h"
#include "row_softmax.h"

/* Sums up a row: TERM(i) is the term of element i. */
#define ADD_UP(own, r, TERM)                                                                       \
    do {                                                                                           \
        FOR_OWN_LANES (k)                                                                              \
            (own)[k] = 0.0;                                                                        \
        for (u32 i = (r).lane; i < (r).whole; i += LANES)                                          \
            FOR_OWN_LANES (k)                                                                          \
                (own)[k] += TERM(i + k);                                                           \
        for (u32 i = (r).whole; i < (r).n && (r).lane == 0; i++)                                   \
            (own)[0] += TERM(i);                                                                   \
    } while (0)

DEVICE float greatest(LOCAL double *shared, GLOBAL const float *x, const row r)
{
    double own[OWN_LANES], all[LANES];
    float most = r.n > 0 ? x[0] : 0.0f;
    FOR_ROW (i, r)
        most = x[i] > most ? x[i] : most;
    FOR_OWN_LANES (k)
        own[k] = (double)most;
    gather_lanes(shared, own, all);
    for (u32 k = 0; k < LANES; k++)
        most = (float)all[k] > most ? (float)all[k] : most;
    return most;
}

/* x (n_rows,columns) -> y as x */
KERNEL void dpt_row_softmax_fixed(OUT(float, y), IN(float, x), const row_softmax_params p)
{
    SHARED double shared[GROUP];
    const row r = row_of(p.n_rows, p.columns);
    GLOBAL const float *const x = x_base + x_place + r.index * p.columns;
    GLOBAL float *const y = y_base + y_place + r.index * p.columns;
    const float most = greatest(shared, x, r);
    double own[OWN_LANES];
#if OWN_LANES == 1 /* an item does not read what another one has written */
#define EXPONENTIAL(i) EXP(x[i] - most)
#else
#define EXPONENTIAL(i) y[i]
    FOR_ROW (i, r)
        y[i] = EXP(x[i] - most);
#endif
#define TERM(i) (double)EXPONENTIAL(i)
    ADD_UP(own, r, TERM);
#undef TERM
    const double sum = sum_of_lanes(shared, own, 0.0);
    if (p.log_of) {
        const float log_sum = LOG((float)sum);
        FOR_ROW (i, r)
            y[i] = x[i] - most - log_sum;
    } else {
        const float inverse = (float)(1.0 / sum);
        FOR_ROW (i, r)
            y[i] = EXPONENTIAL(i) * inverse;
    }
#undef EXPONENTIAL
}

/* dy, y (n_rows,columns) -> dx as y */
KERNEL void dpt_row_softmax_backward_fixed(OUT(float, dx), IN(float, dy), IN(float, y),
                                           const row_softmax_params p)
{
    SHARED double shared[GROUP];
    const row r = row_of(p.n_rows, p.columns);
    GLOBAL const float *const dy = dy_base + dy_place + r.index * p.columns;
    GLOBAL const float *const y = y_base + y_place + r.index * p.columns;
    GLOBAL float *const dx = dx_base + dx_place + r.index * p.columns;
    double own[OWN_LANES];
#define TERM(i) (double)dy[i]
#define PRODUCT(i) (double)dy[i] * (double)y[i]
    if (p.log_of)
        ADD_UP(own, r, TERM);
    else
        ADD_UP(own, r, PRODUCT);
#undef TERM
#undef PRODUCT
    const float sum = (float)sum_of_lanes(shared, own, 0.0);
    FOR_ROW (i, r) {
        const float value = p.log_of ? dy[i] - EXP(y[i]) * sum : y[i] * (dy[i] - sum);
        dx[i] = p.accumulate ? dx[i] + value : value;
    }
}
