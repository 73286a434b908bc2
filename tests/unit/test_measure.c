/* Tests the measurement of devices on the fake backend, whose matrix product has a planted speed.
   The test does not depend on the speed of this machine: a loaded machine is slower than the
   planted speed, never faster. */
#include "context/context.h"
#include "context_create.h"
#include "device/measure.h"
#include "device/registry.h"
#include "harness.h"
#include "unit/fake_backend.h"

static struct {
    atomic_size_t largest, last; /* samples of any prepare; of the last run */
    atomic_int fail_prepare;
    atomic_size_t most_bytes; /* of an allocation; 0: no limit */
} plan;

static dpt_status prepare_linear(dpt_device *device, const dpt_op_request *request, dpt_op **out,
                                 dpt_op_info *info)
{
    const dpt_op_desc *desc = request->desc;
    const size_t max_samples = request->max_samples;
    if (desc->kind != DPT_OP_LINEAR_FORWARD) return DPT_E_UNSUPPORTED;
    if (atomic_load(&plan.fail_prepare))
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "no products");
    if (desc->u.linear.in != max_samples || desc->u.linear.out != max_samples)
        return DPT_E_INTERNAL;
    dpt_op *op = fake_new(sizeof *op);
    if (!op) return DPT_E_NO_MEMORY;
    op->desc = *desc;
    info->workspace_bytes = 64;
    if (atomic_load(&plan.largest) < max_samples) atomic_store(&plan.largest, max_samples);
    atomic_fetch_add(&fake_control.n_ops, 1);
    *out = op;
    return DPT_OK;
}

/* Takes its time, whatever the size. */
static dpt_status run_linear(dpt_stream *stream, dpt_op *op, size_t n_samples,
                             const dpt_op_args *args)
{
    (void)op;
    atomic_store(&plan.last, n_samples);
    atomic_fetch_add(&fake_control.n_runs, 1);
    if (!args->workspace.buffer) return DPT_E_INTERNAL;
    if (atomic_load(&fake_control.fail_run) > 0 && atomic_fetch_sub(&fake_control.fail_run, 1) == 1)
        return DPT_FAIL(&stream->device->error, DPT_E_DEVICE, "planted failure");
    usleep((useconds_t)atomic_load(&fake_control.sleep_us));
    return DPT_OK;
}

static dpt_status alloc_some(dpt_device *device, size_t n_bytes, dpt_buffer **out)
{
    const size_t most = atomic_load(&plan.most_bytes);
    if (most && n_bytes > most) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "full");
    return fake_alloc(device, n_bytes, out);
}

typedef struct bench {
    dpt_memory_ops memory;
    dpt_operator_ops operators;
    dpt_backend backend;
    dpt_context *context;
    dpt_device_set *set;
} bench;

static bool bench_open(test *t, bench *b, const char *list)
{
    memset(&fake_control, 0, sizeof fake_control);
    memset(&plan, 0, sizeof plan);
    *b = (bench){.memory = fake_memory_ops, .backend = fake_backend};
    b->memory.alloc = alloc_some;
    b->operators =
        (dpt_operator_ops){.prepare = prepare_linear, .release = fake_release, .run = run_linear};
    b->backend.memory = &b->memory;
    b->backend.operators = &b->operators;
    return CHECK_OK(dpti_context_create_empty(&b->context)) &&
           CHECK_OK(dpti_registry_add(b->context->registry, "fake", &b->backend)) &&
           CHECK_OK(dpt_device_set_open(b->context, list, &b->set));
}

static void bench_close(test *t, bench *b)
{
    CHECK(atomic_load(&fake_control.n_buffers) == 0);
    CHECK(atomic_load(&fake_control.n_ops) == 0);
    CHECK(atomic_load(&fake_control.foreign_calls) == 0);
    dpt_device_set_close(b->set);
    dpt_context_destroy(b->context);
}

enum { TRIES = 20 };

static void measures(test *t)
{
    bench b;
    dpt_device_rates rates = {.size = sizeof rates, .flops = -1};
    if (!bench_open(t, &b, "fake:1")) return;
    atomic_store(&fake_control.sleep_us, 2000);
    /* A fast device gets the largest size, unless another program has the processor while a small
       one is timed; and is not found faster than it is. */
    for (int i = 0; i < TRIES && atomic_load(&plan.largest) < 1024; i++)
        CHECK_OK(dpt_device_measure(dpt_device_set_get(b.set, 0), &rates));
    CHECK_SIZE(atomic_load(&plan.largest), 1024);
    CHECK(rates.flops > 0 && rates.flops <= 2.0 * 1024 * 1024 * 1024 / 2e-3);
    CHECK(rates.upload_bytes > 0 && rates.download_bytes > 0 && rates.copy_bytes > 0);
    CHECK(rates.host_memory);
    bench_close(t, &b);
}

static void spares_slow_devices(test *t)
{
    bench b;
    dpt_device_rates rates = {.size = sizeof rates};
    if (!bench_open(t, &b, "fake")) return;
    atomic_store(&fake_control.sleep_us, 100000);
    CHECK_OK(dpt_device_measure(dpt_device_set_get(b.set, 0), &rates));
    CHECK_SIZE(atomic_load(&plan.largest), 128);
    CHECK(atomic_load(&fake_control.n_runs) <= 5);
    CHECK(rates.flops > 0 && rates.flops <= 2.0 * 128 * 128 * 128 / 0.1);
    bench_close(t, &b);
}

static void lives_with_little_memory(test *t)
{
    bench b;
    dpt_device_rates rates = {.size = sizeof rates};
    if (!bench_open(t, &b, "fake:memory=1M")) return;
    b.memory.host_pointer = NULL;
    /* Three matrices of 256 KiB fit, with the smaller ones before them. */
    for (int i = 0; i < TRIES && atomic_load(&plan.last) < 256; i++)
        CHECK_OK(dpt_device_measure(dpt_device_set_get(b.set, 0), &rates));
    CHECK_SIZE(atomic_load(&plan.last), 256);
    CHECK(!rates.host_memory);
    /* Not even that. */
    atomic_store(&plan.most_bytes, 1024);
    CHECK_STATUS(dpt_device_measure(dpt_device_set_get(b.set, 0), &rates), DPT_E_NO_MEMORY);
    CHECK_CONTAINS(dpt_error_message(b.context), "device fake:memory=1M: full");
    bench_close(t, &b);
}

/* Every failure is told, and leaves nothing behind. */
static void reports_failures(test *t)
{
    bench b;
    dpt_device_rates rates = {.size = sizeof rates, .flops = -1};
    if (!bench_open(t, &b, "fake:1")) return;
    dpt_device *device = dpt_device_set_get(b.set, 0);
    for (int n = 1; n <= 4; n++) {
        atomic_store(&fake_control.fail_run, n);
        CHECK_STATUS(dpt_device_measure(device, &rates), DPT_E_DEVICE);
        CHECK_TEXT(dpt_error_message(b.context), "device fake:1: planted failure");
    }
    atomic_store(&plan.fail_prepare, 1);
    CHECK_STATUS(dpt_device_measure(device, &rates), DPT_E_UNSUPPORTED);
    CHECK_CONTAINS(dpt_error_message(b.context), "no products");
    CHECK(!(rates.flops > -1) && !(rates.flops < -1)); /* not written */
    atomic_store(&plan.fail_prepare, 0);
    CHECK_OK(dpt_device_measure(device, &rates));
    bench_close(t, &b);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"measures", measures},
        {"spares_slow_devices", spares_slow_devices},
        {"lives_with_little_memory", lives_with_little_memory},
        {"reports_failures", reports_failures},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
