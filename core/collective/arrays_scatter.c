/* The reduce-scatter over arrays: every device shows its array in host memory, and sums its own
   part over all of them.  Over processes each sums its arrays into memory of its own, from which
   its part of the processes' sum is dealt out. */
#include "base/base.h"
#include "collective/arrays.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096 }; /* elements that are summed at a time: 16 KiB, which stays in L1 */

/* Over processes. */
typedef struct exchange {
    float *sum; /* (size) of this process; then its slice is that of all */
    bool contributes[];
} exchange;

/* sum (count) of elements [begin, begin + count) of this process's arrays.  In the order of ranks,
   as the all-reduce's: float addition is not associative, and the bits are to be the same. */
static void add_up(const dpti_arrays *call, size_t begin, size_t count, float *sum)
{
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t n = count - done < BLOCK ? count - done : BLOCK;
        memcpy(sum + done, call->seats[0].view.host + begin + done, n * sizeof *sum);
        for (size_t k = 1; k < call->n; k++) {
            const float *from = call->seats[k].view.host + begin + done;
            for (size_t i = 0; i < n; i++)
                sum[done + i] += from[i];
        }
    }
}

/* ---- Opening --------------------------------------------------------------------------------- */

static dpt_status show(dpti_seat *seat)
{
    dpt_array *array = seat->array, *part = seat->part;
    DPT_TRY(dpti_seat_check(seat, array));
    DPT_TRY(dpti_sync(array->device)); /* others read the array, and the host writes the part */
    DPT_TRY(dpti_view_open(&array->buffer, array->size, &seat->view));
    if (part) DPT_TRY(dpti_view_open(&part->buffer, part->size, &seat->part_view));
    return dpti_view_download(&seat->view, 0, array->size);
}

static dpt_status prepare_exchange(dpti_arrays *call)
{
    exchange *e = calloc(1, sizeof *e + call->n_processes * sizeof *e->contributes);
    call->state = e;
    if (e) e->sum = dpti_alloc_aligned(call->size * sizeof *e->sum);
    if (!e || !e->sum) return dpti_arrays_fail(call, DPT_E_NO_MEMORY, "no memory");
    for (size_t r = 0; r < call->n_processes; r++)
        e->contributes[r] = true;
    return DPT_OK;
}

static dpt_status open_seats(dpti_arrays *call)
{
    if (call->processes) DPT_TRY(prepare_exchange(call));
    return dpti_arrays_on_all(call, show);
}

static dpt_status leave(dpti_seat *seat)
{
    dpti_view_close(&seat->part_view);
    dpti_view_close(&seat->view);
    return DPT_OK;
}

static void close_seats(dpti_arrays *call)
{
    exchange *e = call->state;
    (void)dpti_arrays_on_all(call, leave);
    if (e) free(e->sum);
    free(e);
}

/* ---- Work ------------------------------------------------------------------------------------ */

static void prepare_sum(void *user, float *data, size_t count)
{
    const dpti_arrays *call = user;
    const exchange *e = call->state;
    add_up(call, (size_t)(data - e->sum), count, data);
}

static dpt_status sum_over_processes(dpti_arrays *call)
{
    const exchange *e = call->state;
    if (!e) return DPT_OK;
    return dpti_arrays_exchange(call, &(dpti_collective){.kind = DPTI_REDUCE_SCATTER,
                                                         .data = e->sum,
                                                         .count = call->size,
                                                         .slices = call->slices,
                                                         .contributes = e->contributes,
                                                         .prepare = prepare_sum,
                                                         .user = call});
}

static dpt_status take(dpti_seat *seat)
{
    const exchange *e = seat->call->state;
    dpt_array *part = seat->part;
    if (!part) return DPT_OK;
    if (e)
        memcpy(seat->part_view.host, e->sum + seat->begin, part->size * sizeof *e->sum);
    else
        add_up(seat->call, seat->begin, part->size, seat->part_view.host);
    DPT_TRY(dpti_view_upload(&seat->part_view, 0, part->size));
    part->error.status = DPT_OK;
    return DPT_OK;
}

static dpt_status reduce_scatter(dpti_arrays *call)
{
    DPT_TRY(sum_over_processes(call));
    return dpti_arrays_on_all(call, take);
}

dpt_status dpt_reduce_scatter(dpt_array *const *arrays, dpt_array *const *parts, size_t n_arrays)
{
    static const dpti_arrays_steps steps = {
        .open = open_seats, .work = reduce_scatter, .close = close_seats};
    return dpti_arrays_run(&steps, &(dpti_arrays_request){.kind = DPTI_ARRAYS_REDUCE_SCATTER,
                                                          .arrays = arrays,
                                                          .parts = parts,
                                                          .n = n_arrays});
}
