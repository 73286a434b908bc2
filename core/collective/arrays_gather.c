/* All-gather and broadcast over arrays.  A broadcast is an all-gather whose only part is the root's
   array.  The parts are collected in the host's view of one device's array, the keeper's.  The
   other devices then copy the whole from there. */
#include "collective/arrays.h"
#include "device/buffer.h"
#include "device/stream.h"

static dpti_seat *keeper_of(const dpti_arrays *call)
{
    return call->state;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Waits for the device's earlier work on its arrays, because other devices write the keeper's
 * array. */
static dpt_status look(dpti_seat *seat)
{
    DPT_TRY(dpti_sync(seat->array->device));
    seat->in_place = dpti_host_pointer(&seat->array->buffer) != NULL;
    return DPT_OK;
}

/* The root if it is known yet, which spares bringing; else one whose array the host sees. */
static dpti_seat *choose_keeper(const dpti_arrays *call)
{
    const size_t root = (size_t)call->terms[call->rank].root;
    if (call->kind == DPTI_ARRAYS_BROADCAST && !call->processes && root < call->n)
        return &call->seats[root];
    for (size_t i = 0; i < call->n; i++)
        if (call->seats[i].in_place) return &call->seats[i];
    return call->seats;
}

static dpt_status keep(dpti_seat *seat)
{
    if (seat != keeper_of(seat->call)) return DPT_OK;
    return dpti_view_open(&seat->array->buffer, seat->call->size, &seat->view);
}

static dpt_status open_seats(dpti_arrays *call)
{
    DPT_TRY(dpti_arrays_on_all(call, look));
    call->state = choose_keeper(call);
    return dpti_arrays_on_all(call, keep);
}

static dpt_status leave(dpti_seat *seat)
{
    dpti_view_close(&seat->view);
    return DPT_OK;
}

static void close_seats(dpti_arrays *call)
{
    (void)dpti_arrays_on_all(call, leave);
}

/* ---- Work ------------------------------------------------------------------------------------ */

static dpt_status contribute(dpti_seat *seat)
{
    const dpti_view *whole = &keeper_of(seat->call)->view;
    const dpt_array *part = seat->part;
    if (!part) return DPT_OK;
    DPT_TRY(dpti_seat_check(seat, part));
    if (&part->buffer == whole->buffer) return dpti_view_download(whole, seat->begin, seat->end);
    DPT_TRY(dpti_download(whole->host + seat->begin, &part->buffer, 0, part->size * sizeof(float)));
    return dpti_sync(part->device);
}

static dpt_status take(dpti_seat *seat)
{
    const dpti_view *whole = &keeper_of(seat->call)->view;
    dpt_array *array = seat->array;
    if (array == seat->part) return DPT_OK; /* the root's */
    if (&array->buffer == whole->buffer) {
        DPT_TRY(dpti_view_upload(whole, 0, array->size));
    } else {
        DPT_TRY(dpti_upload(&array->buffer, 0, whole->host, array->size * sizeof(float)));
        DPT_TRY(dpti_sync(array->device));
    }
    array->error.status = DPT_OK;
    return DPT_OK;
}

static dpt_status gather(dpti_arrays *call)
{
    dpt_status status = dpti_arrays_on_all(call, contribute);
    /* The other processes wait for this one, whatever its status. */
    const dpt_status exchanged =
        dpti_arrays_exchange(call, &(dpti_collective){.kind = DPTI_ALL_GATHER,
                                                      .data = keeper_of(call)->view.host,
                                                      .count = call->size,
                                                      .slices = call->slices});
    if (status == DPT_OK) status = exchanged;
    return status == DPT_OK ? dpti_arrays_on_all(call, take) : status;
}

static const dpti_arrays_steps steps = {.open = open_seats, .work = gather, .close = close_seats};

dpt_status dpt_all_gather(dpt_array *const *parts, dpt_array *const *arrays, size_t n_arrays)
{
    return dpti_arrays_run(&steps, &(dpti_arrays_request){.kind = DPTI_ARRAYS_ALL_GATHER,
                                                          .arrays = arrays,
                                                          .parts = parts,
                                                          .n = n_arrays});
}

dpt_status dpt_broadcast(dpt_array *const *arrays, size_t n_arrays, size_t root)
{
    return dpti_arrays_run(
        &steps, &(dpti_arrays_request){
                    .kind = DPTI_ARRAYS_BROADCAST, .arrays = arrays, .n = n_arrays, .root = root});
}
