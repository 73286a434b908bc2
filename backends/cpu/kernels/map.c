/* MAP: a program over elements. */
#include "map_tile.h"

#include <stdlib.h>

/* One run along the last axis. */
typedef struct store_run {
    float *to; /* the first element; outputs of other types go through map_put */
    int64_t stride;
    const float *from;
    size_t n;
} store_run;

static void store_floats(const store_run *r, bool accumulate)
{
    float *to = r->to;
    if (r->stride != 1) {
        for (size_t i = 0; i < r->n; i++, to += r->stride)
            *to = accumulate ? *to + r->from[i] : r->from[i];
    } else if (accumulate) {
        for (size_t i = 0; i < r->n; i++)
            to[i] += r->from[i];
    } else {
        for (size_t i = 0; i < r->n; i++)
            to[i] = r->from[i];
    }
}

/* Stores the values of n indices in an output. */
static void store(const map_tile *tile, const map_cursor *from, unsigned output,
                  const map_values *v, size_t n)
{
    const dpt_map_plan *p = tile->plan;
    const size_t last = p->rank - 1, extent = KERNEL(map_extent)(tile, last);
    const unsigned operand = p->n_in + output;
    const int64_t stride = p->stride[operand][last];
    const float *value = v->value[p->result[output]];
    map_cursor c = *from;
    for (size_t done = 0; done < n;) {
        const size_t left = extent - c.at[last], run = left < n - done ? left : n - done;
        void *const base = tile->call->out[output];
        if (p->type[operand] == DPT_F32)
            store_floats(&(store_run){.to = (float *)base + c.element[operand],
                                      .stride = stride,
                                      .from = value + done,
                                      .n = run},
                         tile->call->accumulate);
        else
            for (size_t i = 0; i < run; i++)
                KERNEL(map_put)
        (base, p->type[operand], c.element[operand] + (int64_t)i * stride, (double)value[done + i]);
        done += run;
        if (done < n) KERNEL(map_advance)(tile, &c, run);
    }
}

static size_t count_indices(const dpt_map_plan *plan, size_t n_rows)
{
    size_t count = n_rows;
    for (size_t axis = 1; axis < plan->rank; axis++)
        count *= plan->extent[axis];
    return count;
}

/* Lets instructions write outputs that are float32 and side by side.  memory[i]: where output i is
   written in place, or NULL. */
static void aim(const map_tile *tile, const map_cursor *cursor, size_t n, map_values *v,
                float *memory[DPT_MAX_OUTPUTS])
{
    const dpt_map_plan *p = tile->plan;
    const unsigned n_out = p->n_operands - p->n_in;
    for (unsigned i = 0; i < n_out; i++)
        v->target[p->result[i]] = v->own + p->result[i] * v->size;
    for (unsigned i = 0; i < n_out; i++) {
        memory[i] =
            tile->call->accumulate ? NULL : KERNEL(map_in_place)(tile, cursor, p->n_in + i, n);
        if (memory[i]) v->target[p->result[i]] = memory[i];
    }
}

/* A program of one instruction waits for memory only, and the processor itself reads ahead. */
static void look_ahead(const map_tile *tile, const map_cursor *cursor, size_t n, map_values *v)
{
    v->n_ahead = 0;
    for (unsigned i = 0; i < tile->plan->n_operands && v->n_calls > 1; i++) {
        const float *memory = KERNEL(map_in_place)(tile, cursor, i, n);
        if (memory) v->ahead[v->n_ahead++] = memory + n;
    }
}

static void map_one(const map_tile *tile, const map_cursor *cursor, size_t n, map_values *v)
{
    const dpt_map_plan *p = tile->plan;
    float *memory[DPT_MAX_OUTPUTS];
    aim(tile, cursor, n, v, memory);
    look_ahead(tile, cursor, n, v);
    KERNEL(map_compute)(tile, cursor, n, v);
    /* An input or a constant that is an output is elsewhere, and so is a second output of one
       value. */
    for (unsigned i = 0; i + p->n_in < p->n_operands; i++)
        if (!memory[i] || v->value[p->result[i]] != memory[i]) store(tile, cursor, i, v, n);
}

/* A larger tile begins fewer loops.  All places, and the parts of the operands of this tile and the
   next one, must fit into a first-level cache. */
static size_t tile_size(const dpt_map_plan *plan)
{
    enum { CACHED_FLOATS = 4096, MOST = 512 };
    size_t size = MOST;
    while (size > MAP_TILE && size * plan->n_places > CACHED_FLOATS)
        size /= 2;
    return size;
}

static void map(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_map_plan *plan = call->op->plan.state;
    const map_tile tile = {plan, call, call->n_samples * plan->extent[0]};
    const size_t last = plan->rank - 1, extent = KERNEL(map_extent)(&tile, last);
    const dpt_cpu_range part =
        dpt_cpu_split(count_indices(plan, tile.n_rows), 16, thread, n_threads);
    if (part.begin == part.end) return;
    map_values values;
    KERNEL(map_begin)(plan, tile_size(plan), &values);
    map_cursor cursor = KERNEL(map_cursor_at)(&tile, part.begin);
    for (size_t i = part.begin; i < part.end;) {
        const size_t left = part.end - i, n = left < values.size ? left : values.size;
        map_one(&tile, &cursor, n, &values);
        i += n;
        if (cursor.at[last] + n <= extent)
            KERNEL(map_advance)(&tile, &cursor, n);
        else
            cursor = KERNEL(map_cursor_at)(&tile, i);
    }
}

dpt_status KERNEL(prepare_map)(dpt_op *op, dpt_error *error)
{
    dpt_map_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a program");
    dpt_map_plan_make(&op->desc, plan);
    KERNEL(map_adapt)(plan);
    op->plan.state = plan;
    op->plan.kernel = map;
    op->plan.work = 20.0 + plan->cost * (double)count_indices(plan, plan->extent[0]);
    op->plan.exact = plan->is_exact;
    op->plan.algorithm = "tiles";
    return DPT_OK;
}
