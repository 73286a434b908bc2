/* What all collectives over arrays share. */
#include "collective/arrays.h"
#include "base/left_behind.h"
#include "context/context.h"
#include "device/call_limit.h"
#include "device/driver.h"
#include "dpt_error.h"

#include <stdarg.h>
#include <stdlib.h>

static const struct {
    const char *name;
    bool has_parts;
} kinds[] = {
    [DPTI_ARRAYS_ALL_REDUCE] = {"all-reduce", false},
    [DPTI_ARRAYS_BROADCAST] = {"broadcast", false},
    [DPTI_ARRAYS_REDUCE_SCATTER] = {"reduce-scatter", true},
    [DPTI_ARRAYS_ALL_GATHER] = {"all-gather", true},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

dpt_status dpti_arrays_fail(dpti_arrays *call, dpt_status status, const char *format, ...)
{
    char message[sizeof call->context->error.message];
    va_list values;
    va_start(values, format);
    (void)vsnprintf(message, sizeof message, format, values);
    va_end(values);
    return dpt_fail(call->context, status, "%s: %s", kinds[call->kind].name, message);
}

/* ---- Jobs on devices ------------------------------------------------------------------------- */

static void run_job(dpti_device *device, void *argument)
{
    dpti_seat *seat = argument;
    seat->error.status = DPT_OK;
    const dpt_status status = seat->job(seat);
    if (status != DPT_OK && seat->error.status == DPT_OK) seat->error = *dpti_device_error(device);
    seat->error.status = status;
}

/* Keeps arrays open whose host memory a hanging call may read at any time. */
static void leave_all(const dpti_arrays *call)
{
    for (size_t i = 0; i < call->n; i++) {
        const dpti_seat *seat = &call->seats[i];
        seat->array->stays = seat->array->device->stays = true;
        if (seat->part) seat->part->stays = true;
    }
}

/* Looks at all devices after a pause: one that hangs is given up, and those that may wait for it
   are sent away. */
static void look(dpti_arrays *call, const dpti_limit *limit)
{
    for (size_t i = 0; i < call->n; i++) {
        dpti_seat *seat = &call->seats[i];
        dpti_device *device = seat->array->device;
        if (!dpti_driver_look(device, limit, dpti_limit_pause(limit), &seat->watch)) continue;
        call->hung = true;
        leave_all(call);
        if (call->processes && call->works) dpti_processes_give_up(call->processes);
        if (call->steps->cancel) call->steps->cancel(call);
    }
}

static void await(dpti_arrays *call, dpti_seat *seat, const dpti_limit *limit)
{
    dpti_device *device = seat->array->device;
    while (!dpti_driver_wait_for(device, seat->ticket, dpti_limit_pause(limit)) &&
           dpti_driver_is_running(device))
        look(call, limit);
}

/* What has kept the others from going on. */
static dpt_status report_hung(const dpti_arrays *call)
{
    for (size_t i = 0; i < call->n; i++) {
        const dpt_array *array = call->seats[i].array;
        if (!dpti_driver_is_running(array->device))
            return dpti_array_report(array, &array->device->given_up);
    }
    return DPT_E_DEVICE_LOST;
}

dpt_status dpti_arrays_on_all(dpti_arrays *call, dpti_seat_job *job)
{
    const dpti_limit limit = dpti_call_limit(call->context);
    dpt_status status = DPT_OK;
    for (size_t i = 0; i < call->n; i++) {
        dpti_seat *seat = &call->seats[i];
        seat->job = job;
        seat->ticket = dpti_driver_post(seat->array->device, run_job, seat);
    }
    for (size_t i = 0; i < call->n; i++)
        await(call, &call->seats[i], &limit);
    if (call->hung) return report_hung(call);
    for (size_t i = 0; i < call->n; i++) {
        const dpti_seat *seat = &call->seats[i];
        if (seat->error.status != DPT_OK && status == DPT_OK)
            status = dpti_array_report(seat->array, &seat->error);
    }
    return status;
}

dpt_status dpti_seat_check(dpti_seat *seat, const dpt_array *array)
{
    seat->error = array->error;
    return array->error.status;
}

/* ---- Who takes part -------------------------------------------------------------------------- */

static dpt_status check_array(dpti_arrays *a, const dpti_arrays_request *r, size_t i)
{
    const dpt_array *array = r->arrays[i];
    if (array->size != r->arrays[0]->size)
        return dpti_arrays_fail(a, DPT_E_INVALID, "array %zu has %zu elements, but array 0 has %zu",
                                i, array->size, r->arrays[0]->size);
    if (array->device->context != a->context)
        return dpti_arrays_fail(a, DPT_E_INVALID, "arrays 0 and %zu belong to different contexts",
                                i);
    for (size_t k = 0; k < i; k++)
        if (array->device == r->arrays[k]->device)
            return dpti_arrays_fail(
                a, DPT_E_INVALID, "arrays %zu and %zu are on one device; give each its own", k, i);
    return DPT_OK;
}

static dpt_status check_part(dpti_arrays *a, const dpti_arrays_request *r, size_t i)
{
    const dpt_array *array = r->arrays[i], *part = r->parts[i];
    if (!part) return DPT_OK;
    if (part == array)
        return dpti_arrays_fail(a, DPT_E_INVALID, "array %zu is its own part; give it another one",
                                i);
    if (part->device != array->device)
        return dpti_arrays_fail(a, DPT_E_INVALID, "part %zu is not on the device of array %zu", i,
                                i);
    return DPT_OK;
}

static dpt_status check(dpti_arrays *a, const dpti_arrays_request *r)
{
    if (kinds[r->kind].has_parts && !r->parts)
        return dpti_arrays_fail(a, DPT_E_INVALID, "there are no parts; give a list of them");
    for (size_t i = 0; i < r->n; i++)
        if (!r->arrays[i])
            return dpti_arrays_fail(a, DPT_E_INVALID,
                                    "array %zu is NULL; leave out devices without one", i);
    for (size_t i = 0; i < r->n; i++) {
        DPT_TRY(check_array(a, r, i));
        if (kinds[r->kind].has_parts) DPT_TRY(check_part(a, r, i));
    }
    return DPT_OK;
}

/* What was checked. */
static void take_seats(dpti_arrays *a, const dpti_arrays_request *r)
{
    dpti_arrays_terms *terms = &a->terms[a->rank];
    a->size = r->arrays[0]->size;
    *terms = (dpti_arrays_terms){.kind = r->kind, .n = r->n, .size = a->size, .root = r->root};
    for (size_t i = 0; i < r->n; i++) {
        dpt_array *part = kinds[r->kind].has_parts ? r->parts[i] : NULL;
        a->seats[i] = (dpti_seat){.call = a, .rank = i, .array = r->arrays[i], .part = part};
        terms->part_size += part ? part->size : 0;
    }
}

/* ---- Over processes -------------------------------------------------------------------------- */

/* Reports the first failure in every process. */
static dpt_status fail_alike(const dpti_arrays *a, dpt_status mine)
{
    dpt_error error = a->context->error;
    const dpt_status status = dpti_processes_agree(a->processes, mine, &error);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(a->context, NULL, &error);
}

/* How all fare: all processes get the same; and so many bytes of each one's terms. */
static dpt_status vote(const dpti_arrays *a, dpt_status mine, size_t n_bytes)
{
    dpt_status verdict = mine;
    dpt_error error = {.status = DPT_OK};
    if (!a->processes) return mine;
    for (size_t r = 0; r <= a->n_processes; r++)
        a->begins[r] = r * n_bytes;
    if (dpti_processes_share(a->processes, &(dpti_table){a->terms, a->begins}, &verdict, &error) !=
        DPT_OK)
        return dpti_context_fail(a->context, NULL, &error);
    return verdict == DPT_OK ? DPT_OK : fail_alike(a, mine);
}

static dpt_status compare_terms(dpti_arrays *a, size_t r)
{
    const dpti_arrays_terms *first = &a->terms[0], *other = &a->terms[r];
    if (other->kind != first->kind)
        return dpt_fail(a->context, DPT_E_INVALID,
                        "process %zu calls for %s, but process 0 for %s: all make the same calls",
                        r, kinds[other->kind % N_KINDS].name, kinds[first->kind % N_KINDS].name);
    if (other->size != first->size)
        return dpti_arrays_fail(a, DPT_E_INVALID,
                                "arrays of process %zu have %zu elements, but those of process 0 "
                                "have %zu",
                                r, (size_t)other->size, (size_t)first->size);
    if (other->root != first->root)
        return dpti_arrays_fail(a, DPT_E_INVALID,
                                "process %zu takes array %zu for the root, but process 0 array %zu",
                                r, (size_t)other->root, (size_t)first->root);
    return DPT_OK;
}

/* The same in all processes. */
static dpt_status check_terms(dpti_arrays *a)
{
    size_t n = 0, part_size = 0;
    for (size_t r = 0; r < a->n_processes; r++) {
        DPT_TRY(compare_terms(a, r));
        n += a->terms[r].n;
        part_size += a->terms[r].part_size;
    }
    if (kinds[a->kind].has_parts && part_size != a->size)
        return dpti_arrays_fail(a, DPT_E_INVALID,
                                "parts have %zu elements together, but an array has %zu", part_size,
                                a->size);
    if (a->kind == DPTI_ARRAYS_BROADCAST && a->terms[0].root >= n)
        return dpti_arrays_fail(a, DPT_E_INVALID, "there is no array %zu of %zu, counted from 0",
                                (size_t)a->terms[0].root, n);
    return DPT_OK;
}

/* The whole, by processes and by this one's seats. */
static void divide(dpti_arrays *a)
{
    const size_t root = (size_t)a->terms[0].root;
    size_t first = 0, at = 0;
    for (size_t r = 0; r < a->n_processes; r++) {
        const size_t n = (size_t)a->terms[r].n;
        const bool has_root = a->kind == DPTI_ARRAYS_BROADCAST && root >= first && root - first < n;
        if (has_root && r == a->rank) a->seats[root - first].part = a->seats[root - first].array;
        a->slices[r] = at;
        at += has_root ? a->size : (size_t)a->terms[r].part_size;
        first += n;
    }
    a->slices[a->n_processes] = at;
    at = a->slices[a->rank];
    for (size_t i = 0; i < a->n; i++) {
        a->seats[i].begin = at;
        at += a->seats[i].part ? a->seats[i].part->size : 0;
        a->seats[i].end = at;
    }
}

/* All processes agree on the call. */
static dpt_status agree(dpti_arrays *a, dpt_status mine)
{
    DPT_TRY(vote(a, mine, sizeof *a->terms));
    const dpt_status status = check_terms(a);
    if (status == DPT_OK)
        divide(a);
    else if (a->processes)
        dpti_processes_know(a->processes);
    return status;
}

dpt_status dpti_arrays_exchange(dpti_arrays *call, const dpti_collective *what)
{
    dpt_error error = {.status = DPT_OK};
    if (!call->processes) return DPT_OK;
    dpti_processes_start_collective(call->processes, what);
    const dpt_status status = dpti_processes_finish_collectives(call->processes, &error);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(call->context, NULL, &error);
}

/* ---- The call -------------------------------------------------------------------------------- */

static dpt_status run(dpti_arrays *a, const dpti_arrays_request *request)
{
    const dpti_arrays_steps *steps = a->steps;
    dpt_status status =
        a->seats ? check(a, request) : dpti_arrays_fail(a, DPT_E_NO_MEMORY, "no memory");
    const bool opens = status == DPT_OK;
    if (opens) {
        take_seats(a, request);
        status = steps->open(a);
    }
    status = agree(a, status);
    a->works = status == DPT_OK;
    if (a->works) status = steps->work(a);
    if (a->works && !a->hung) status = vote(a, status, 0); /* otherwise this process has given up */
    if (status == DPT_OK && steps->judge) status = steps->judge(a);
    if (opens && !a->hung) steps->close(a);
    return status;
}

/* NULL if no array tells. */
static dpt_context *context_of(const dpti_arrays_request *request)
{
    for (size_t i = 0; request->arrays && i < request->n; i++)
        if (request->arrays[i]) return request->arrays[i]->device->context;
    return NULL;
}

dpt_status dpti_arrays_run(const dpti_arrays_steps *steps, const dpti_arrays_request *request)
{
    dpt_context *context = context_of(request);
    if (!context) return DPT_E_INVALID;
    dpti_processes *p = context->processes;
    const size_t n = p ? dpti_processes_count(p) : 1;
    if (p) dpti_processes_go_on(p);
    dpti_arrays call = {.kind = request->kind,
                        .steps = steps,
                        .context = context,
                        .processes = p,
                        .n = request->n,
                        .seats = calloc(request->n, sizeof *call.seats),
                        .n_processes = n,
                        .rank = p ? dpti_processes_rank(p) : 0,
                        .terms = calloc(n, sizeof *call.terms),
                        .slices = calloc(n + 1, sizeof *call.slices),
                        .begins = calloc(n + 1, sizeof *call.begins)};
    dpt_status status;
    if (call.terms && call.slices && call.begins) {
        status = run(&call, request);
    } else {
        status = dpti_arrays_fail(&call, DPT_E_NO_MEMORY, "no memory");
        if (p) dpti_processes_give_up(p);
    }
    free(call.begins);
    free(call.slices);
    free(call.terms);
    if (call.hung) { /* a call that has not returned may use this memory */
        dpti_leave_behind(call.state);
        dpti_leave_behind(call.seats);
        return status;
    }
    free(call.seats);
    return status;
}
