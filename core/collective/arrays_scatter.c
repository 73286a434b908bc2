/* The reduce-scatter over arrays.  Every device shows its array in host memory and sums its own
   part over all arrays.  With several processes, each process sums its arrays into memory of its
   own, where the sum over processes is then made.  This happens in rounds, each over a piece of
   every process's slice: memory for a whole array would have to come from the system anew with
   every call, which takes longer than the sums. */
#include "base/floats.h"
#include "base/memory.h"
#include "base/range.h"
#include "collective/arrays.h"
#include "device/stream.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 4096,            /* elements that are summed at a time: 16 KiB, which stays in L1 */
    ROUND = 4 * 1024 * 1024, /* elements, and up to one more a process */
};

/* Over processes. */
typedef struct exchange {
    float *sum; /* of this process; then its slice is that of all */
    bool *contributes;
    size_t *slices; /* of the round */
    size_t round, n_rounds;
} exchange;

/* sum (count) of elements [begin, begin + count) of this process's arrays.  In the order of ranks,
   as the all-reduce's: float addition is not associative, and the bits are to be the same. */
static void add_up(const dpti_arrays *call, size_t begin, size_t count, float *sum)
{
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t n = count - done < BLOCK ? count - done : BLOCK;
        for (size_t k = 0; k < call->n; k++)
            dpti_add_up(sum + done, call->seats[k].view.host + begin + done, n, k == 0);
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
    const size_t n = call->n_processes;
    const size_t room = call->size < ROUND + n ? call->size : ROUND + n;
    exchange *e = calloc(1, sizeof *e);
    call->state = e;
    if (e) {
        e->n_rounds = (call->size - 1) / ROUND + 1;
        e->sum = dpti_alloc_aligned(room * sizeof *e->sum);
        e->contributes = calloc(n, sizeof *e->contributes);
        e->slices = calloc(n + 1, sizeof *e->slices);
    }
    if (!e || !e->sum || !e->contributes || !e->slices)
        return dpti_arrays_fail(call, DPT_E_NO_MEMORY, "no memory");
    for (size_t r = 0; r < n; r++)
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
    if (!e) return;
    free(e->slices);
    free(e->contributes);
    free(e->sum);
    free(e);
}

/* ---- Over processes -------------------------------------------------------------------------- */

/* Where in the whole the piece of process r begins in a round; in that behind the last one, where
   its slice ends. */
static size_t piece_begin(const dpti_arrays *call, size_t r, size_t round)
{
    const exchange *e = call->state;
    const size_t count = call->slices[r + 1] - call->slices[r];
    const size_t step = (count + e->n_rounds - 1) / e->n_rounds;
    return call->slices[r] + (round * step < count ? round * step : count);
}

/* The sum over this process of elements of the round that are about to be sent. */
static void prepare_sum(void *user, float *data, size_t count)
{
    const dpti_arrays *call = user;
    const exchange *e = call->state;
    const size_t first = (size_t)(data - e->sum);
    const dpti_range wanted = {first, first + count};
    for (size_t r = 0; r < call->n_processes; r++) {
        const dpti_range his =
            dpti_range_common(wanted, (dpti_range){e->slices[r], e->slices[r + 1]});
        add_up(call, piece_begin(call, r, e->round) + his.begin - e->slices[r],
               dpti_range_size(his), e->sum + his.begin);
    }
}

/* Brings this process's piece to the parts that it is of. */
static void deal_out(const dpti_arrays *call)
{
    const exchange *e = call->state;
    const dpti_range piece = {piece_begin(call, call->rank, e->round),
                              piece_begin(call, call->rank, e->round + 1)};
    const float *sum = e->sum + e->slices[call->rank];
    for (size_t i = 0; i < call->n; i++) {
        const dpti_seat *seat = &call->seats[i];
        const dpti_range own = dpti_range_common(piece, (dpti_range){seat->begin, seat->end});
        if (dpti_range_size(own) > 0)
            memcpy(seat->part_view.host + (own.begin - seat->begin),
                   sum + (own.begin - piece.begin), dpti_range_size(own) * sizeof *sum);
    }
}

static dpt_status sum_over_processes(dpti_arrays *call)
{
    exchange *e = call->state;
    for (e->round = 0; e->round < e->n_rounds; e->round++) {
        for (size_t r = 0; r < call->n_processes; r++)
            e->slices[r + 1] =
                e->slices[r] + piece_begin(call, r, e->round + 1) - piece_begin(call, r, e->round);
        const dpti_collective what = {.kind = DPTI_REDUCE_SCATTER,
                                      .data = e->sum,
                                      .count = e->slices[call->n_processes],
                                      .slices = e->slices,
                                      .contributes = e->contributes,
                                      .prepare = prepare_sum,
                                      .user = call};
        DPT_TRY(dpti_arrays_exchange(call, &what));
        deal_out(call);
    }
    return DPT_OK;
}

/* ---- Work ------------------------------------------------------------------------------------ */

static dpt_status take(dpti_seat *seat)
{
    dpt_array *part = seat->part;
    if (!part) return DPT_OK;
    if (!seat->call->processes) add_up(seat->call, seat->begin, part->size, seat->part_view.host);
    DPT_TRY(dpti_view_upload(&seat->part_view, 0, part->size));
    part->error.status = DPT_OK;
    return DPT_OK;
}

static dpt_status reduce_scatter(dpti_arrays *call)
{
    if (call->processes) DPT_TRY(sum_over_processes(call));
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
