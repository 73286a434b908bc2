/* MAP_REDUCE: the values of a program, combined along axes.

   The lanes of a tile lie along the last axis.  If the last axis is kept, a lane is an output.
   Otherwise all lanes belong to one output, and are combined at the end.  Sums and products are in
   double precision.  A sum over all samples is divided among the threads by axis 0: each thread
   writes its sums to the workspace, and the sums of all threads are added in their order.  In a
   deterministic operator the threads divide the outputs, so that no sum is divided. */
#include "map_tile.h"

#include <math.h>
#include <stdlib.h>

typedef struct reduction {
    dpt_map_plan plan;
    uint8_t how;                /* dpt_map_reduction */
    bool is_kept[DPT_MAP_AXES]; /* the output has this axis */
    bool sums_samples;          /* axis 0 is reduced, and an input has samples */
} reduction;

/* A thread's part of a call. */
typedef struct job {
    map_tile tile;
    const reduction *r;
    dpt_cpu_range rows; /* of axis 0, where it is reduced */
    double *sums;       /* where the thread leaves its sums; NULL: in the output */
    map_values *values;
    double lanes[MAP_TILE];
} job;

/* ---- Lanes ----------------------------------------------------------------------------------- */

static double neutral(uint8_t how)
{
    switch ((dpt_map_reduction)how) {
    case DPT_REDUCE_PRODUCT: return 1.0;
    case DPT_REDUCE_MAXIMUM: return -INFINITY;
    case DPT_REDUCE_MINIMUM: return INFINITY;
    case DPT_REDUCE_SUM: break;
    }
    return 0.0;
}

static double combine(uint8_t how, double all, double one)
{
    switch ((dpt_map_reduction)how) {
    case DPT_REDUCE_PRODUCT: return all * one;
    case DPT_REDUCE_MAXIMUM: return isnan(one) || one > all ? one : all;
    case DPT_REDUCE_MINIMUM: return isnan(one) || one < all ? one : all;
    case DPT_REDUCE_SUM: break;
    }
    return all + one;
}

static void combine_lanes(uint8_t how, double *restrict lanes, const float *restrict value,
                          size_t n)
{
    if (how == DPT_REDUCE_SUM) {
        for (size_t i = 0; i < n; i++)
            lanes[i] += (double)value[i];
        return;
    }
    for (size_t i = 0; i < n; i++)
        lanes[i] = combine(how, lanes[i], (double)value[i]);
}

static void clear_lanes(job *j)
{
    for (size_t i = 0; i < MAP_TILE; i++)
        j->lanes[i] = neutral(j->r->how);
}

/* ---- Indices --------------------------------------------------------------------------------- */

static dpt_cpu_range range_of(const job *j, size_t axis)
{
    if (axis == 0 && j->r->sums_samples) return j->rows;
    return (dpt_cpu_range){0, KERNEL(map_extent)(&j->tile, axis)};
}

static void move(const dpt_map_plan *plan, map_cursor *c, size_t axis, size_t to)
{
    for (unsigned k = 0; k < plan->n_operands; k++)
        c->element[k] += ((int64_t)to - (int64_t)c->at[axis]) * plan->stride[k][axis];
    c->at[axis] = to;
}

/* Goes to the next index of the reduced axes before `end`.  false, at the first index, after the
   last one. */
static bool next_reduced(const job *j, map_cursor *c, size_t end)
{
    for (size_t axis = end; axis-- > 0;) {
        const dpt_cpu_range range = range_of(j, axis);
        if (j->r->is_kept[axis]) continue;
        if (c->at[axis] + 1 < range.end) {
            move(&j->r->plan, c, axis, c->at[axis] + 1);
            return true;
        }
        move(&j->r->plan, c, axis, range.begin);
    }
    return false;
}

/* Combines, for n lanes from the cursor on, all indices of the reduced axes. */
static void reduce_lanes(job *j, map_cursor c, size_t n)
{
    const dpt_map_plan *plan = &j->r->plan;
    const size_t last = plan->rank - 1;
    const bool is_kept = j->r->is_kept[last];
    const dpt_cpu_range along = range_of(j, last);
    clear_lanes(j);
    if (j->r->sums_samples && j->rows.begin == j->rows.end) return;
    if (j->r->sums_samples) move(plan, &c, 0, j->rows.begin);
    do {
        const size_t begin = is_kept ? c.at[last] : along.begin;
        const size_t end = is_kept ? begin + n : along.end;
        map_cursor at = c;
        for (size_t i = begin; i < end; i += MAP_TILE) {
            const size_t lanes = end - i < MAP_TILE ? end - i : MAP_TILE;
            move(plan, &at, last, i);
            KERNEL(map_compute)(&j->tile, &at, lanes, j->values);
            combine_lanes(j->r->how, j->lanes, j->values->value[plan->result[0]], lanes);
        }
    } while (next_reduced(j, &c, last));
    if (is_kept) return;
    for (size_t i = 1; i < MAP_TILE; i++)
        j->lanes[0] = combine(j->r->how, j->lanes[0], j->lanes[i]);
}

/* ---- Outputs --------------------------------------------------------------------------------- */

static size_t count_kept(const job *j)
{
    size_t count = 1;
    for (size_t axis = 0; axis < j->r->plan.rank; axis++)
        if (j->r->is_kept[axis]) count *= KERNEL(map_extent)(&j->tile, axis);
    return count;
}

/* The cursor at an output, with the first index of every reduced axis. */
static map_cursor cursor_of(const job *j, size_t output)
{
    const dpt_map_plan *plan = &j->r->plan;
    map_cursor c = KERNEL(map_cursor_at)(&j->tile, 0);
    for (size_t axis = plan->rank; axis-- > 0;) {
        const size_t extent = KERNEL(map_extent)(&j->tile, axis);
        if (!j->r->is_kept[axis]) continue;
        move(plan, &c, axis, output % extent);
        output /= extent;
    }
    return c;
}

static void write_output(const job *j, int64_t element, double value)
{
    const dpt_map_plan *plan = &j->r->plan;
    void *const out = j->tile.call->out[0];
    if (j->tile.call->accumulate) {
        if (j->tile.call->op->deterministic) value = (double)(float)value;
        value += (double)map_old(out, element);
    }
    KERNEL(map_put)(out, plan->type[plan->n_in], element, value);
}

/* The outputs from `first` on, at most `n`, that are computed together: how many. */
static size_t reduce_outputs(job *j, size_t first, size_t n)
{
    const dpt_map_plan *plan = &j->r->plan;
    const size_t last = plan->rank - 1;
    const map_cursor c = cursor_of(j, first);
    size_t lanes = 1;
    if (j->r->is_kept[last]) {
        const size_t left = KERNEL(map_extent)(&j->tile, last) - c.at[last];
        lanes = left < n ? left : n;
        if (lanes > MAP_TILE) lanes = MAP_TILE;
    }
    reduce_lanes(j, c, lanes);
    for (size_t i = 0; i < lanes; i++) {
        if (j->sums)
            j->sums[first + i] = j->lanes[i];
        else
            write_output(j, c.element[plan->n_in] + (int64_t)i * plan->stride[plan->n_in][last],
                         j->lanes[i]);
    }
    return lanes;
}

static void add_sums(const job *j, const double *all, dpt_cpu_range outputs, unsigned n_threads)
{
    const size_t n_outputs = count_kept(j);
    for (size_t i = outputs.begin; i < outputs.end; i++) {
        double sum = 0.0;
        for (unsigned thread = 0; thread < n_threads; thread++)
            sum += all[thread * n_outputs + i];
        write_output(j, cursor_of(j, i).element[j->r->plan.n_in], sum);
    }
}

static void map_reduce(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const reduction *r = call->op->plan.state;
    const size_t n_rows = call->n_samples * r->plan.extent[0];
    map_values values;
    job j = {.tile = {&r->plan, call, n_rows}, .r = r, .values = &values};
    KERNEL(map_begin)(&r->plan, MAP_TILE, &values);
    const size_t n_outputs = count_kept(&j);
    dpt_cpu_range outputs = dpt_cpu_split(n_outputs, 16, thread, n_threads);
    double *const all = (void *)call->workspace;
    const bool divides = r->sums_samples && !call->op->deterministic;
    j.rows = (dpt_cpu_range){0, n_rows};
    if (divides) {
        j.rows = dpt_cpu_split(n_rows, 1, thread, n_threads);
        j.sums = all + thread * n_outputs;
        outputs = (dpt_cpu_range){0, n_outputs};
    }
    for (size_t i = outputs.begin; i < outputs.end;)
        i += reduce_outputs(&j, i, outputs.end - i);
    if (!divides) return;
    dpt_cpu_barrier(call->team, thread, n_threads);
    add_sums(&j, all, dpt_cpu_split(n_outputs, 16, thread, n_threads), n_threads);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static reduction *reduction_of(const dpt_op_desc *desc)
{
    reduction *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    dpt_map_plan *plan = &r->plan;
    dpt_map_plan_make(desc, plan);
    KERNEL(map_adapt)(plan);
    r->how = desc->u.map.reduction;
    for (size_t axis = 0; axis < plan->rank; axis++)
        r->is_kept[axis] = plan->stride[plan->n_in][axis] != 0;
    for (unsigned i = 0; i < plan->n_in && !r->is_kept[0]; i++)
        r->sums_samples = r->sums_samples || plan->stride[i][0] != 0;
    return r;
}

dpt_status KERNEL(prepare_map_reduce)(dpt_op *op, dpt_error *error)
{
    reduction *r = reduction_of(&op->desc);
    if (!r) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a reduction");
    size_t n_indices = 1, n_outputs = 1;
    for (size_t axis = 0; axis < r->plan.rank; axis++) {
        n_indices *= r->plan.extent[axis];
        if (r->is_kept[axis]) n_outputs *= r->plan.extent[axis];
    }
    op->plan.state = r;
    op->plan.kernel = map_reduce;
    op->plan.work = 20.0 + (r->plan.cost + 0.3) * (double)n_indices;
    if (r->sums_samples) op->plan.workspace_bytes = op->n_threads * n_outputs * sizeof(double);
    op->plan.exact = r->plan.is_exact;
    op->plan.algorithm = "tiles, sums in double precision";
    return DPT_OK;
}
