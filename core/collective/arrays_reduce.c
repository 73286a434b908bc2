/* The all-reduce over arrays: every device takes part in one run (allreduce.h). */
#include "collective/allreduce.h"
#include "collective/arrays.h"
#include "device/stream.h"

/* All devices join before any of them runs. */
static dpt_status join(dpti_seat *seat)
{
    DPT_TRY(dpti_seat_check(seat, seat->array));
    DPT_TRY(dpti_sync(seat->array->device));
    return dpti_allreduce_join(seat->call->state, seat->rank, &seat->array->buffer);
}

static dpt_status take_part(dpti_seat *seat)
{
    const dpti_contribution who = {.rank = seat->rank, .contributes = true};
    dpt_status mine = DPT_OK;
    dpti_exchange_context exchange = {.who = &who, .mine = &mine};
    seat->verdict = dpti_allreduce_run(seat->call->state, &exchange);
    return mine;
}

static dpt_status leave(dpti_seat *seat)
{
    dpti_allreduce_leave(seat->call->state, seat->rank);
    return DPT_OK;
}

static dpt_status open_seats(dpti_arrays *call)
{
    call->state = dpti_allreduce_create(call->n, call->size, call->processes);
    if (!call->state) return dpti_arrays_fail(call, DPT_E_NO_MEMORY, "no memory");
    return dpti_arrays_on_all(call, join);
}

static dpt_status reduce(dpti_arrays *call)
{
    return dpti_arrays_on_all(call, take_part);
}

/* Returns the verdict of a run in which no device of any process has failed. */
static dpt_status judge(dpti_arrays *call)
{
    for (size_t i = 0; i < call->n; i++)
        if (call->seats[i].verdict != DPT_OK)
            return dpti_arrays_fail(call, call->seats[i].verdict, "%s",
                                    dpt_status_words(call->seats[i].verdict));
    return DPT_OK;
}

static void cancel(dpti_arrays *call)
{
    dpti_allreduce_break(call->state);
}

static void close_seats(dpti_arrays *call)
{
    if (call->state) (void)dpti_arrays_on_all(call, leave);
    dpti_allreduce_destroy(call->state);
}

dpt_status dpt_all_reduce(dpt_array *const *arrays, size_t n_arrays)
{
    static const dpti_arrays_steps steps = {
        .open = open_seats, .work = reduce, .judge = judge, .cancel = cancel, .close = close_seats};
    return dpti_arrays_run(
        &steps,
        &(dpti_arrays_request){.kind = DPTI_ARRAYS_ALL_REDUCE, .arrays = arrays, .n = n_arrays});
}
