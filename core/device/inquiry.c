/* Asks one backend: loads its plug-in, counts and describes its devices, on a thread that may never
   return.  Calls of the backend write to memory of the inquiry only, which is left to a thread that
   hangs. */
#include "device/inquiry.h"
#include "base/processors.h"
#include "base/text.h"
#include "device/call_limit.h"
#include "device/descriptor.h"
#include "device/dispatch.h"
#include "device/driver.h"
#include "device/plugin.h"
#include "device/signals.h"

#include <stdlib.h>
#include <string.h>

/* ---- [driver] What is asked ------------------------------------------------------------------ */

static dpt_status failed(dpt_status status, dpt_error *error)
{
    if (error->message[0] == '\0') DPT_FAIL(error, status, "%s", dpt_status_words(status));
    return status;
}

static dpt_status load(dpti_inquiry *q)
{
    if (!q->path) return DPT_OK;
    dpti_enter_call(&q->asked);
    const dpt_status status = dpti_plugin_load(q->path, &q->backend, &q->answer.error);
    dpti_leave_call(&q->asked);
    return status;
}

/* DPT_E_ABSENT if there is none. */
static dpt_status probe(dpti_inquiry *q)
{
    dpti_enter_call(&q->asked);
    const dpt_status status = q->backend->device->probe(&q->n_found, &q->answer.error);
    dpti_leave_call(&q->asked);
    if (status != DPT_OK) return failed(status, &q->answer.error);
    if (q->n_found == 0) return DPT_FAIL(&q->answer.error, DPT_E_ABSENT, "there is no device");
    return DPT_OK;
}

/* Checks the answer against the contract of backend.h. */
static dpt_status check(dpti_answer *answer, size_t index)
{
    dpt_device_properties *info = &answer->info;
    const size_t n = dpti_processors();
    info->group[sizeof info->group - 1] = '\0';
    /* A control group may let this process run fewer threads than there are cores. */
    if (info->flags & DPT_DEVICE_IS_HOST_CPU && info->n_threads > n) {
        info->cache_bytes = info->cache_bytes / info->n_threads * n;
        info->n_threads = (unsigned)n;
    }
    if (info->group[0] && !dpti_group_name_valid(info->group))
        return DPT_FAIL(&answer->error, DPT_E_INTERNAL,
                        "the backend puts device %zu into a group whose name is none", index);
    return DPT_OK;
}

static void describe(dpti_inquiry *q, size_t index)
{
    dpti_answer *answer = &q->answer;
    *answer = (dpti_answer){.status = DPT_OK};
    dpti_enter_call(&q->asked);
    const dpt_status status = q->backend->device->describe(index, &answer->info, &answer->error);
    dpti_leave_call(&q->asked);
    answer->status = status == DPT_OK ? check(answer, index) : failed(status, &answer->error);
    q->answers[index] = *answer;
    q->n_answers = index + 1;
}

static dpt_status count(dpti_inquiry *q)
{
    DPT_TRY(load(q));
    DPT_TRY(dpti_descriptor_check(q->asked.id, q->backend, &q->answer.error));
    DPT_TRY(probe(q));
    const size_t most = DPTI_MAX_DEVICES_PER_BACKEND;
    const size_t n = q->n_found < most ? q->n_found : most;
    q->answers = calloc(n, sizeof *q->answers);
    if (!q->answers)
        return DPT_FAIL(&q->answer.error, DPT_E_NO_MEMORY, "no memory for %zu devices", n);
    q->n_devices = n;
    return DPT_OK;
}

/* Restores the thread's signal stack at the end, because a library may have replaced it. */
static void run_inquiry(dpti_device *device, void *argument)
{
    dpti_inquiry *q = argument;
    stack_t own;
    (void)device;
    dpti_signal_stack_save(&own);
    if (count(q) != DPT_OK) q->error = q->answer.error;
    for (size_t i = 0; i < q->n_devices; i++)
        describe(q, i);
    dpti_signal_stack_restore(&own);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static void ask(dpti_inquiry *q, dpt_context *context)
{
    const dpti_limit limit = dpti_preparing_limit(context, "when it was asked for its devices");
    dpti_signals signals;
    dpti_signals_save(&signals);
    q->hung = !dpti_driver_call_within(&q->asked, run_inquiry, q, &limit);
    dpti_signals_restore(&signals);
    if (q->hung) q->error = q->asked.given_up;
}

dpt_status dpti_inquire(dpt_context *context, const dpti_asked *asked, dpti_inquiry **out)
{
    dpti_inquiry *q = calloc(1, sizeof *q);
    if (!q) return DPT_E_NO_MEMORY;
    q->asked.context = context;
    q->backend = asked->backend;
    q->path = asked->path ? dpti_strdup(asked->path) : NULL;
    snprintf(q->asked.id, sizeof q->asked.id, "%s", asked->name);
    if ((asked->path && !q->path) || dpti_driver_start(&q->asked, &q->error) == DPT_E_NO_MEMORY) {
        dpti_inquiry_destroy(q);
        return DPT_E_NO_MEMORY;
    }
    if (q->asked.driver) ask(q, context);
    *out = q;
    return DPT_OK;
}

void dpti_inquiry_destroy(dpti_inquiry *inquiry)
{
    if (!inquiry) return;
    if (inquiry->hung) {
        dpti_driver_leave(&inquiry->asked);
        return;
    }
    dpti_driver_stop(&inquiry->asked);
    free(inquiry->answers);
    free(inquiry->path);
    free(inquiry);
}
