/* Asynchronous work on a device.  A call puts an operation into the device's queue and returns. The
   thread waits only when it reads a result.  The program computes c = a * b + 2 twice: on a small
   array, whose numbers it prints, and on large arrays, to show how long enqueueing and waiting
   take.

       async [DEVICES]        default: cpu */
#include <dptrain.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 20, LARGE = 1 << 22 };

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Three arrays of n ones. */
static dpt_status create(dpt_device *device, size_t n, dpt_array *out[3])
{
    float *ones = malloc(n * sizeof *ones);
    if (!ones) return DPT_E_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        ones[i] = 1;
    dpt_status status = DPT_OK;
    for (int i = 0; i < 3 && status == DPT_OK; i++) {
        status = dpt_array_create(device, (const size_t[]){1, n}, 2, &out[i]);
        if (status == DPT_OK) status = dpt_array_set(out[i], ones);
    }
    free(ones);
    return status;
}

/* Puts the operations of c = a * b + 2 into the queue, and returns at once. */
static dpt_status enqueue(dpt_array *x[3])
{
    DPT_TRY(dpt_array_multiply(x[0], x[1], x[2]));
    return dpt_array_affine(x[2], 1, 2, x[2]);
}

static dpt_status small(dpt_device *device)
{
    dpt_array *x[3] = {NULL};
    float c[2];
    dpt_status status = create(device, 2, x);
    if (status == DPT_OK) status = enqueue(x);
    if (status == DPT_OK) status = dpt_array_get(x[2], c); /* waits */
    if (status == DPT_OK) printf("c = a * b + 2 = [%g %g]\n", (double)c[0], (double)c[1]);
    for (int i = 0; i < 3; i++)
        dpt_array_destroy(x[i]);
    return status;
}

static dpt_status large(dpt_device_set *devices)
{
    dpt_array *x[3] = {NULL};
    float *c = malloc(LARGE * sizeof *c);
    dpt_status status = c ? create(dpt_device_set_get(devices, 0), LARGE, x) : DPT_E_NO_MEMORY;
    const double start = now();
    for (int i = 0; i < ROUNDS && status == DPT_OK; i++)
        status = enqueue(x);
    const double enqueued = now();
    if (status == DPT_OK) status = dpt_array_wait(x[2]); /* for the work on one array */
    const double waited = now();
    if (status == DPT_OK) status = dpt_device_set_wait(devices); /* for the work on all devices */
    if (status == DPT_OK) status = dpt_array_get(x[2], c);
    if (status == DPT_OK) {
        printf("enqueued %d operations in %.1f ms, waited %.1f ms for the result %g\n", 2 * ROUNDS,
               1e3 * (enqueued - start), 1e3 * (waited - enqueued), (double)c[LARGE - 1]);
        printf("the thread %s\n", enqueued - start < waited - enqueued
                                      ? "went on while the device worked"
                                      : "waited: the queue was full");
    }
    for (int i = 0; i < 3; i++)
        dpt_array_destroy(x[i]);
    free(c);
    return status;
}

int main(int argc, char **argv)
{
    dpt_context *context;
    dpt_device_set *devices = NULL;
    if (dpt_context_create(&context) != DPT_OK) return 1;
    dpt_status status = dpt_device_set_open(context, argc > 1 ? argv[1] : "cpu", &devices);
    if (status == DPT_OK) status = small(dpt_device_set_get(devices, 0));
    if (status == DPT_OK) status = large(devices);
    if (status != DPT_OK) fprintf(stderr, "async: %s\n", dpt_error_message(context));
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
    return status == DPT_OK ? 0 : 1;
}
