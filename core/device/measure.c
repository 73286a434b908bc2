/* Times a matrix product and copies.  Each is repeated until the host's clock can measure it, and
   the median of several such times counts, so that a disturbance by another program does not. */
#include "device/measure.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "context/context.h"
#include "context/sized.h"
#include "device/buffer.h"
#include "device/call_limit.h"
#include "device/operator.h"
#include "device/stream.h"

#include <stdlib.h>
#include <string.h>

/* ---- Timing ---------------------------------------------------------------------------------- */

enum { MAX_TIMES = 5, MAX_REPEATS = 1000 };

static const double span_seconds =
    0.01; /* the least duration of one measurement, if repeating can reach it */
static const double budget_seconds = 0.15; /* no further measurement begins after this time */

/* Work to be timed: `enqueue` enqueues it once. */
typedef struct work {
    dpti_device *device;
    dpt_status (*enqueue)(const void *argument);
    const void *argument;
} work;

/* Measures the seconds of one of n_repeats; the wait for the last one is shared among all. */
static dpt_status time_repeats(const work *w, size_t n_repeats, double *seconds)
{
    const double began = dpti_seconds();
    for (size_t i = 0; i < n_repeats; i++)
        DPT_TRY(w->enqueue(w->argument));
    DPT_TRY(dpti_sync(w->device));
    *seconds = (dpti_seconds() - began) / (double)n_repeats;
    return DPT_OK;
}

/* The first measurement is dropped, because programs may be built or memory mapped in it. */
static dpt_status time_second(const work *w, double *seconds)
{
    DPT_TRY(time_repeats(w, 1, seconds));
    return time_repeats(w, 1, seconds);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Measures the median.  The work took `seconds` before. */
static dpt_status time_median(const work *w, double *seconds)
{
    double times[MAX_TIMES], spent = 0;
    const double wanted = *seconds > 0 ? span_seconds / *seconds : MAX_REPEATS;
    const size_t n_repeats = wanted < 1 ? 1 : wanted >= MAX_REPEATS ? MAX_REPEATS : (size_t)wanted;
    size_t n = 0;
    while (n < MAX_TIMES && spent < budget_seconds) {
        DPT_TRY(time_repeats(w, n_repeats, &times[n]));
        spent += times[n++] * (double)n_repeats;
    }
    qsort(times, n, sizeof *times, compare);
    *seconds = times[n / 2];
    return DPT_OK;
}

/* Avoids an infinite rate if the clock did not move. */
static double rate(double amount, double seconds)
{
    return amount / (seconds > 1e-9 ? seconds : 1e-9);
}

/* ---- The product ----------------------------------------------------------------------------- */

/* Sizes n of an (n, n) by (n, n) product: as large as once_seconds allow. */
enum { SMALLEST = 128, LARGEST = 1024 };

static const double once_seconds = 0.06;

typedef struct product {
    dpti_op op;
    dpti_buffer x, w, y, workspace;
    dpt_op_args args;
} product;

static void product_destroy(product *p)
{
    dpti_free(&p->workspace);
    dpti_free(&p->y);
    dpti_free(&p->w);
    dpti_free(&p->x);
    dpti_release(&p->op);
}

/* Random numbers: some processors multiply zeros faster than data. */
static dpt_status upload_random(const dpti_buffer *to, uint64_t index)
{
    float *values = dpti_alloc_aligned(to->n_bytes);
    if (!values)
        return DPT_FAIL(&to->device->base.error, DPT_E_NO_MEMORY, "no memory for %zu bytes",
                        to->n_bytes);
    dpti_random random;
    dpti_random_init(&random, 0, DPTI_RANDOM_DATA, index);
    for (size_t i = 0; i < to->n_bytes / sizeof *values; i++)
        values[i] = 2.0f * dpti_random_uniform(&random) - 1.0f;
    dpt_status status = dpti_upload(to, 0, values, to->n_bytes);
    if (status == DPT_OK) status = dpti_sync(to->device);
    free(values);
    return status;
}

/* After a failure *p holds what was created; the caller destroys it. */
static dpt_status product_fill(dpti_device *device, size_t n, product *p)
{
    const dpt_op_desc desc = {.kind = DPT_OP_LINEAR_FORWARD, .u.linear = {.in = n, .out = n}};
    const size_t n_bytes = n * n * sizeof(float);
    DPT_TRY(dpti_prepare(device, &desc, n, &p->op));
    DPT_TRY(dpti_alloc(device, n_bytes, &p->x));
    DPT_TRY(dpti_alloc(device, n_bytes, &p->w));
    DPT_TRY(dpti_alloc(device, n_bytes, &p->y));
    if (p->op.info.workspace_bytes)
        DPT_TRY(dpti_alloc(device, p->op.info.workspace_bytes, &p->workspace));
    DPT_TRY(upload_random(&p->x, 0));
    DPT_TRY(upload_random(&p->w, 1));
    const dpti_binding binding = {
        .in = {{.buffer = &p->x}, {.buffer = &p->w}},
        .out = {{.buffer = &p->y}},
        .workspace = {.buffer = &p->workspace},
    };
    return dpti_bind(&p->op, n, &binding, &p->args);
}

static dpt_status product_create(dpti_device *device, size_t n, product *out)
{
    *out = (product){.args = {.flags = 0}};
    const dpt_status status = product_fill(device, n, out);
    if (status != DPT_OK) product_destroy(out);
    return status;
}

static dpt_status product_enqueue(const void *argument)
{
    const product *p = argument;
    return dpti_run(&p->op, p->op.max_samples, &p->args);
}

static double product_flops(size_t n)
{
    return 2.0 * (double)n * (double)n * (double)n;
}

/* Returns the largest size that is expected to take at most once_seconds, if size n took `seconds`.
 */
static size_t better_size(size_t n, double seconds)
{
    size_t better = n;
    while (better < LARGEST &&
           seconds * product_flops(2 * better) <= once_seconds * product_flops(n))
        better *= 2;
    return better;
}

/* Goes up from the smallest size, as a small product says too little of how fast a large one is.
 *p is a product to destroy, whatever is returned. */
static dpt_status find_size(dpti_device *device, product *p, double *seconds)
{
    DPT_TRY(product_create(device, SMALLEST, p));
    const work w = {.device = device, .enqueue = product_enqueue, .argument = p};
    for (size_t n = SMALLEST;;) {
        DPT_TRY(time_second(&w, seconds));
        size_t better = better_size(n, *seconds);
        product larger;
        dpt_status status = DPT_E_NO_MEMORY;
        for (; better > n; better /= 2) {
            status = product_create(device, better, &larger);
            if (status != DPT_E_NO_MEMORY) break;
        }
        if (better == n) return DPT_OK;
        DPT_TRY(status);
        product_destroy(p);
        *p = larger;
        n = better;
    }
}

static dpt_status measure_product(dpti_device *device, double *flops)
{
    product p = {.args = {.flags = 0}};
    const work w = {.device = device, .enqueue = product_enqueue, .argument = &p};
    double seconds;
    dpt_status status = find_size(device, &p, &seconds);
    if (status == DPT_OK) status = time_median(&w, &seconds);
    if (status == DPT_OK) *flops = rate(product_flops(p.op.max_samples), seconds);
    product_destroy(&p);
    return status;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

/* Larger than caches, unless the device has less memory. */
enum { MOST_BYTES = 64 << 20, LEAST_BYTES = 64 << 10 };

typedef struct transfer {
    dpti_buffer a, b;
    void *host;
    size_t n_bytes;
} transfer;

static void transfer_destroy(dpti_device *device, transfer *x)
{
    dpti_host_free(device, x->host);
    dpti_free(&x->b);
    dpti_free(&x->a);
    *x = (transfer){.host = NULL};
}

/* After a failure *x holds what was created; the caller destroys it. */
static dpt_status transfer_create(dpti_device *device, size_t n_bytes, transfer *x)
{
    *x = (transfer){.n_bytes = n_bytes};
    DPT_TRY(dpti_alloc(device, n_bytes, &x->a));
    DPT_TRY(dpti_alloc(device, n_bytes, &x->b));
    DPT_TRY(dpti_host_alloc(device, n_bytes, &x->host));
    memset(x->host, 1, n_bytes);
    return DPT_OK;
}

static dpt_status enqueue_upload(const void *argument)
{
    const transfer *x = argument;
    return dpti_upload(&x->a, 0, x->host, x->n_bytes);
}

static dpt_status enqueue_download(const void *argument)
{
    const transfer *x = argument;
    return dpti_download(x->host, &x->a, 0, x->n_bytes);
}

static dpt_status enqueue_copy(const void *argument)
{
    const transfer *x = argument;
    const dpti_slice from = {.buffer = &x->a, .n_bytes = x->n_bytes};
    return dpti_copy(&x->b, 0, &from);
}

static dpt_status measure_one(const transfer *x, dpt_status (*enqueue)(const void *argument),
                              double *out)
{
    const work w = {.device = x->a.device, .enqueue = enqueue, .argument = x};
    double seconds;
    DPT_TRY(time_second(&w, &seconds));
    DPT_TRY(time_median(&w, &seconds));
    *out = rate((double)x->n_bytes, seconds);
    return DPT_OK;
}

static dpt_status measure_copies(dpti_device *device, dpt_device_rates *rates)
{
    transfer x;
    size_t n_bytes = MOST_BYTES;
    dpt_status status = transfer_create(device, n_bytes, &x);
    while (status == DPT_E_NO_MEMORY && n_bytes > LEAST_BYTES) {
        transfer_destroy(device, &x);
        n_bytes /= 2;
        status = transfer_create(device, n_bytes, &x);
    }
    if (status == DPT_OK) {
        rates->host_memory =
            (device->info.flags & DPT_DEVICE_IS_HOST_CPU) || dpti_host_pointer(&x.a) != NULL;
        status = measure_one(&x, enqueue_upload, &rates->upload_bytes);
    }
    if (status == DPT_OK) status = measure_one(&x, enqueue_download, &rates->download_bytes);
    if (status == DPT_OK) status = measure_one(&x, enqueue_copy, &rates->copy_bytes);
    transfer_destroy(device, &x);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

dpt_status dpti_measure(dpti_device *device, dpt_device_rates *out)
{
    dpt_device_rates rates = {.size = sizeof rates};
    DPT_TRY(dpti_sync(device));
    DPT_TRY(measure_product(device, &rates.flops));
    DPT_TRY(measure_copies(device, &rates));
    *out = rates;
    return DPT_OK;
}

typedef struct measure_job {
    dpt_device_rates *out;
    dpt_error error; /* status DPT_OK: it succeeded */
} measure_job;

static void run_measure(dpti_device *device, void *argument)
{
    measure_job *job = argument;
    const dpt_status status = dpti_measure(device, job->out);
    if (status == DPT_OK) return;
    job->error = *dpti_device_error(device);
    job->error.status = status;
}

dpt_status dpt_device_measure(dpt_device *device, dpt_device_rates *out)
{
    dpti_device *d = dpti_device_of(device);
    dpt_device_rates rates;
    measure_job job = {.out = &rates};
    DPT_TRY(dpti_check_sized(d->context, "dpt_device_rates", out));
    const dpti_limit limit = dpti_preparing_limit(d->context, "while it was measured");
    if (!dpti_driver_call_within(d, run_measure, &job, &limit)) job.error = d->given_up;
    if (job.error.status == DPT_OK) {
        (void)dpti_give_sized(&rates, sizeof rates, out);
        return DPT_OK;
    }
    char prefix[DPTI_ID_BYTES + 8];
    snprintf(prefix, sizeof prefix, "device %s", d->id);
    return dpti_context_fail(d->context, prefix, &job.error);
}
