/* Tests the checked dispatch: bounds, limits, bindings and the defaults of missing entries. */
#include "context/context.h"
#include "context_create.h"
#include "device/buffer.h"
#include "device/driver.h"
#include "device/operator.h"
#include "device/registry.h"
#include "device/rehearsal.h"
#include "device/set.h"
#include "device/stream.h"
#include "harness.h"
#include "unit/fake_backend.h"

/* Runs the checks on the driver of a device, where dispatch may be called. */
typedef struct on_driver {
    test *t;
    void (*run)(test *t, dpti_device *device);
} on_driver;

static void run_on_driver(dpti_device *device, void *argument)
{
    const on_driver *job = argument;
    job->run(job->t, device);
}

static void with_device(test *t, const dpt_backend *backend, const char *list,
                        void (*run)(test *t, dpti_device *device))
{
    dpt_context *context = NULL;
    dpt_device_set *set = NULL;
    memset(&fake_control, 0, sizeof fake_control);
    REQUIRE_OK(dpti_context_create_empty(&context));
    CHECK_OK(dpti_registry_add(context->registry, "fake", backend));
    if (CHECK_OK(dpt_device_set_open(context, list, &set))) {
        on_driver job = {.t = t, .run = run};
        dpti_driver_call(set->devices[0], run_on_driver, &job);
    }
    dpt_device_set_close(set);
    dpt_context_destroy(context);
    CHECK(atomic_load(&fake_control.n_buffers) == 0);
    CHECK(atomic_load(&fake_control.n_ops) == 0);
    CHECK(atomic_load(&fake_control.foreign_calls) == 0);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void check_memory(test *t, dpti_device *device)
{
    dpti_buffer a, b;
    REQUIRE_OK(dpti_alloc(device, 600, &a));
    CHECK_SIZE(atomic_load(&device->memory_used_bytes), 600);
    CHECK_STATUS(dpti_alloc(device, 401, &b), DPT_E_NO_MEMORY);
    CHECK(b.device == NULL && b.handle == NULL && b.n_bytes == 0);
    CHECK_CONTAINS(device->base.error.message, "401 bytes asked with 600 in use");
    CHECK_CONTAINS(device->base.error.message, "1000");
    CHECK_STATUS(dpti_alloc(device, SIZE_MAX, &b), DPT_E_NO_MEMORY);
    CHECK_STATUS(dpti_alloc(device, 0, &b), DPT_E_INTERNAL);
    CHECK_OK(dpti_alloc(device, 400, &b));
    dpti_free(&b);
    dpti_free(&b);
    dpti_free(&a);
    CHECK(a.device == NULL);
    CHECK_SIZE(atomic_load(&device->memory_used_bytes), 0);
}

static void limits_memory(test *t)
{
    with_device(t, &fake_backend, "fake:memory=1000", check_memory);
}

/* A rehearsal has a limit of its own.  What is made in it has no memory, also behind its end: under
   a sanitizer a transfer to it would be found. */
static void check_rehearsal(test *t, dpti_device *device)
{
    enum { LARGE = 1 << 24 };
    static unsigned char host[LARGE];
    dpti_buffer real, a, b;
    REQUIRE_OK(dpti_alloc(device, 600, &real));
    CHECK_SIZE(dpti_memory_capacity(device), 1000);
    dpti_rehearsal_begin(device, LARGE + 1000);
    CHECK_SIZE(dpti_memory_capacity(device), LARGE + 1000);
    CHECK_OK(dpti_alloc(device, LARGE, &a));
    CHECK_SIZE(atomic_load(&device->memory_used_bytes), LARGE + 600);
    CHECK_SIZE(dpti_rehearsal_needs(device), 0);
    CHECK_STATUS(dpti_alloc(device, 500, &b), DPT_E_NO_MEMORY);
    CHECK_STATUS(dpti_alloc(device, 401, &b), DPT_E_NO_MEMORY);
    CHECK_STATUS(dpti_alloc(device, 500, &b), DPT_E_NO_MEMORY);
    CHECK_SIZE(dpti_rehearsal_needs(device), LARGE + 1001);
    CHECK_OK(dpti_alloc(device, 400, &b));
    CHECK_OK(dpti_upload(&a, 0, host, LARGE));
    dpti_rehearsal_end(device);
    CHECK_SIZE(dpti_memory_capacity(device), 1000);
    CHECK_OK(dpti_upload(&a, 0, host, LARGE));
    CHECK_OK(dpti_download(host, &a, 0, LARGE));
    CHECK_OK(dpti_fill(&a, 0, 1, LARGE));
    CHECK_OK(dpti_copy(&a, 1024, &(dpti_slice){&real, 0, 600}));
    CHECK_OK(dpti_copy(&real, 0, &(dpti_slice){&a, 1024, 600}));
    CHECK_STATUS(dpti_upload(&a, 1, host, LARGE), DPT_E_INTERNAL);
    CHECK(dpti_host_pointer(&a) != NULL);
    CHECK_OK(dpti_sync(device));
    dpti_free(&b);
    dpti_free(&a);
    CHECK_SIZE(atomic_load(&device->memory_used_bytes), 600);
    dpti_free(&real);
}

static void rehearses(test *t)
{
    with_device(t, &fake_backend, "fake:memory=1000", check_rehearsal);
}

static void check_transfers(test *t, dpti_device *device)
{
    unsigned char host[16], back[16] = {0};
    memset(host, 7, sizeof host);
    dpti_buffer a;
    REQUIRE_OK(dpti_alloc(device, 16, &a));
    CHECK_OK(dpti_upload(&a, 0, host, 16));
    CHECK_OK(dpti_fill(&a, 4, 0x01010101u, 8));
    CHECK_OK(dpti_download(back, &a, 0, 16));
    CHECK_OK(dpti_sync(device));
    CHECK(back[3] == 7 && back[4] == 1 && back[11] == 1 && back[12] == 7);
    CHECK_STATUS(dpti_upload(&a, 1, host, 16), DPT_E_INTERNAL);
    CHECK_CONTAINS(device->base.error.message,
                   "an upload of 16 bytes at 1 leaves the buffer of 16");
    CHECK_STATUS(dpti_download(back, &a, 17, 0), DPT_E_INTERNAL);
    CHECK_STATUS(dpti_download(back, &a, 8, SIZE_MAX), DPT_E_INTERNAL);
    dpti_buffer b;
    REQUIRE_OK(dpti_alloc(device, 16, &b));
    CHECK_OK(dpti_copy(&b, 8, &(dpti_slice){&a, 2, 4}));
    CHECK_OK(dpti_copy(&b, 16, &(dpti_slice){&a, 16, 0}));
    CHECK_OK(dpti_download(back, &b, 0, 16));
    CHECK(back[8] == 7 && back[9] == 7 && back[10] == 1 && back[11] == 1);
    CHECK_STATUS(dpti_copy(&b, 13, &(dpti_slice){&a, 0, 4}), DPT_E_INTERNAL);
    CHECK_CONTAINS(device->base.error.message, "a copy of 4 bytes at 13 leaves the buffer of 16");
    CHECK_STATUS(dpti_copy(&b, 0, &(dpti_slice){&a, 13, 4}), DPT_E_INTERNAL);
    dpti_free(&b);
    CHECK_STATUS(dpti_fill(&a, 0, 0, 20), DPT_E_INTERNAL);
    CHECK_STATUS(dpti_fill(&a, 0, 0, 3), DPT_E_INTERNAL);
    CHECK_STATUS(dpti_fill(&a, 2, 0, 4), DPT_E_INTERNAL);
    CHECK_OK(dpti_upload(&a, 16, host, 0));
    dpti_free(&a);
}

static void checks_transfers(test *t)
{
    with_device(t, &fake_backend, "fake", check_transfers);
}

static void check_wrapped(test *t, dpti_device *device)
{
    unsigned char host[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    dpti_buffer data;
    REQUIRE_OK(dpti_alloc_data(device, host, sizeof host, &data));
    CHECK(dpti_host_pointer(&data) == host);
    CHECK_SIZE(atomic_load(&device->memory_used_bytes), 0);
    dpti_free(&data);
    void *staging = NULL;
    REQUIRE_OK(dpti_host_alloc(device, 100, &staging));
    CHECK((uintptr_t)staging % 64 == 0);
    dpti_host_free(device, staging);
    dpti_host_free(device, NULL);
}

static void check_copied(test *t, dpti_device *device)
{
    unsigned char host[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {0};
    dpti_buffer data;
    REQUIRE_OK(dpti_alloc_data(device, host, sizeof host, &data));
    CHECK(dpti_host_pointer(&data) == NULL);
    CHECK_SIZE(atomic_load(&device->memory_used_bytes), 8);
    CHECK_OK(dpti_download(back, &data, 0, sizeof back));
    CHECK_OK(dpti_sync(device));
    CHECK(memcmp(host, back, sizeof host) == 0);
    dpti_free(&data);
}

static dpt_status refuse_to_wrap(dpt_device *device, const void *host, size_t n_bytes,
                                 dpt_buffer **out)
{
    (void)host;
    (void)n_bytes;
    (void)out;
    return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "not this memory");
}

static dpt_status fail_to_wrap(dpt_device *device, const void *host, size_t n_bytes,
                               dpt_buffer **out)
{
    (void)host;
    (void)n_bytes;
    (void)out;
    return DPT_FAIL(&device->error, DPT_E_DEVICE, "broken");
}

static void check_broken_wrap(test *t, dpti_device *device)
{
    const unsigned char host[8] = {0};
    dpti_buffer data;
    CHECK_STATUS(dpti_alloc_data(device, host, sizeof host, &data), DPT_E_DEVICE);
    CHECK_TEXT(device->base.error.message, "broken");
    CHECK(data.device == NULL);
}

static void fills_in_what_is_left_out(test *t)
{
    dpt_memory_ops memory = fake_memory_ops;
    dpt_backend plain = fake_backend;
    plain.memory = &memory;
    with_device(t, &plain, "fake", check_wrapped);
    memory.host_pointer = NULL;
    memory.wrap_host = NULL;
    with_device(t, &plain, "fake", check_copied);
    memory.wrap_host = refuse_to_wrap;
    with_device(t, &plain, "fake", check_copied);
    /* Only "unsupported" may take another path. */
    memory.wrap_host = fail_to_wrap;
    with_device(t, &plain, "fake", check_broken_wrap);
}

/* ---- Operators ------------------------------------------------------------------------------- */

static const dpt_op_desc multiply = {.kind = DPT_OP_MULTIPLY, .u.elementwise = {.count = 4}};
static const dpt_op_desc affine = {.kind = DPT_OP_AFFINE,
                                   .u.elementwise = {.count = 4, .alpha = 2, .beta = 1}};

static void check_prepare(test *t, dpti_device *device)
{
    dpti_op op;
    dpt_op_desc bad = multiply;
    bad.u.elementwise.count = 0;
    CHECK_STATUS(dpti_prepare(device, &bad, 1, &op), DPT_E_INVALID);
    CHECK(op.device == NULL);
    CHECK_STATUS(dpti_prepare(device, &multiply, 0, &op), DPT_E_INVALID);
    CHECK_STATUS(dpti_prepare(device, &multiply, SIZE_MAX / 8, &op), DPT_E_INVALID);
    CHECK_CONTAINS(device->base.error.message, "larger than any memory");
    bad = (dpt_op_desc){.kind = DPT_OP_SGD, .u.sgd = {.count = 4}};
    CHECK_STATUS(dpti_prepare(device, &bad, 2, &op), DPT_E_INVALID);
    CHECK_STATUS(dpti_prepare(device, &bad, 1, &op), DPT_E_UNSUPPORTED);
    CHECK_TEXT(device->base.error.message, "elementwise operators only");
    CHECK_OK(dpti_prepare(device, &multiply, 3, &op));
    CHECK_TEXT(op.info.algorithm, "");
    dpti_release(&op);
    dpti_release(&op);
    CHECK(op.device == NULL);
}

/* Prepared as wanted or not at all, whether the backend says so or goes its own way. */
static void check_wanted(test *t, dpti_device *device)
{
    dpti_op op;
    const dpt_op_desc add = {.kind = DPT_OP_ADD, .u.elementwise = {.count = 4}};
    REQUIRE_OK(dpti_prepare(device, &affine, 1, &op));
    CHECK_TEXT(op.info.algorithm, "one");
    dpti_release(&op);
    dpt_op_request request = {.desc = &affine, .max_samples = 1, .wanted = "two"};
    REQUIRE_OK(dpti_prepare_as(device, &request, &op));
    CHECK_TEXT(op.info.algorithm, "two");
    dpti_release(&op);
    request.wanted = "three";
    CHECK_STATUS(dpti_prepare_as(device, &request, &op), DPT_E_UNSUPPORTED);
    CHECK(op.device == NULL);
    request.desc = &add;
    CHECK_STATUS(dpti_prepare_as(device, &request, &op), DPT_E_UNSUPPORTED);
    CHECK_CONTAINS(device->base.error.message, "by 'three' is wanted");
    CHECK_CONTAINS(device->base.error.message, "by 'one' now");
    CHECK(op.device == NULL);
    CHECK(atomic_load(&fake_control.n_ops) == 0);
}

static void prepares_as_wanted(test *t)
{
    with_device(t, &fake_backend, "fake", check_wanted);
}

static void prepares(test *t)
{
    with_device(t, &fake_backend, "fake", check_prepare);
}

typedef struct bound {
    dpti_op op;
    dpti_binding binding;
    dpt_op_args args;
} bound;

static void refuses(test *t, bound *b, size_t n_samples, const char *part)
{
    CHECK_STATUS(dpti_bind(&b->op, n_samples, &b->binding, &b->args), DPT_E_INTERNAL);
    CHECK_CONTAINS(b->op.device->base.error.message, part);
}

static void check_bind(test *t, dpti_device *device)
{
    dpti_buffer a, c;
    bound b = {.op = {.device = NULL}};
    CHECK_STATUS(dpti_bind(&b.op, 1, &b.binding, &b.args), DPT_E_INTERNAL);
    CHECK_STATUS(dpti_run(&b.op, 1, &b.args), DPT_E_INTERNAL);
    REQUIRE_OK(dpti_alloc(device, 64, &a));
    REQUIRE_OK(dpti_alloc(device, 48, &c));
    REQUIRE_OK(dpti_prepare(device, &multiply, 4, &b.op));
    const dpti_binding good = {.in = {{.buffer = &a}, {.buffer = &a, .offset_bytes = 16}},
                               .out = {{.buffer = &c}}};
    b.binding = good;
    CHECK_OK(dpti_bind(&b.op, 3, &b.binding, &b.args));
    CHECK(b.args.in[1].buffer == a.handle && b.args.in[1].offset_bytes == 16);
    CHECK(b.args.in[2].buffer == NULL && b.args.workspace.buffer == NULL);
    CHECK_OK(dpti_bind(&b.op, 0, &b.binding, &b.args));
    refuses(t, &b, 5, "5 samples, prepared for 4");
    refuses(t, &b, 4, "b of 64 bytes at 16 leaves the buffer of 64");
    b.binding.in[1].offset_bytes = 0;
    refuses(t, &b, 4, "c of 64 bytes");
    b.binding = good;
    b.binding.in[0].offset_bytes = 4;
    refuses(t, &b, 1, "a at 4 is not aligned to 16");
    b.binding = good;
    b.binding.out[0].buffer = NULL;
    refuses(t, &b, 1, "MULTIPLY: c is not bound");
    b.binding = good;
    b.binding.in[2].buffer = &a;
    refuses(t, &b, 1, "slot 2 is bound");
    b.binding = good;
    b.binding.flags = DPT_RUN_ACCUMULATE;
    refuses(t, &b, 1, "flags 0x1");
    dpti_device other = {.id = "fake:9", .base = {.backend = &fake_backend}};
    dpti_buffer elsewhere = a;
    elsewhere.device = &other;
    b.binding = good;
    b.binding.in[0].buffer = &elsewhere;
    refuses(t, &b, 1, "a lies on device fake:9");
    strcpy(device->info.memory_domain, "one");
    strcpy(other.info.memory_domain, "two");
    refuses(t, &b, 1, "a lies on device fake:9");
    strcpy(other.info.memory_domain, "one");
    CHECK_OK(dpti_bind(&b.op, 1, &b.binding, &b.args));
    other.base.backend = NULL;
    refuses(t, &b, 1, "a lies on device fake:9");
    b.binding = good;
    CHECK_OK(dpti_bind(&b.op, 2, &b.binding, &b.args));
    CHECK_STATUS(dpti_run(&b.op, 5, &b.args), DPT_E_INTERNAL);
    dpti_release(&b.op);
    dpti_free(&c);
    dpti_free(&a);
}

static void binds(test *t)
{
    with_device(t, &fake_backend, "fake", check_bind);
}

static void check_workspace(test *t, dpti_device *device)
{
    dpti_buffer a, workspace;
    bound b;
    REQUIRE_OK(dpti_alloc(device, 16, &a));
    REQUIRE_OK(dpti_alloc(device, 64, &workspace));
    REQUIRE_OK(dpti_prepare(device, &affine, 1, &b.op));
    b.binding = (dpti_binding){.in = {{.buffer = &a}}, .out = {{.buffer = &a}}};
    refuses(t, &b, 1, "workspace is not bound");
    b.binding.workspace.buffer = &a;
    refuses(t, &b, 1, "workspace of 64 bytes");
    b.binding.workspace.buffer = &workspace;
    CHECK_OK(dpti_bind(&b.op, 1, &b.binding, &b.args));
    float values[4] = {1, 2, 3, 4};
    CHECK_OK(dpti_upload(&a, 0, values, sizeof values));
    CHECK_OK(dpti_run(&b.op, 1, &b.args));
    CHECK_OK(dpti_download(values, &a, 0, sizeof values));
    CHECK_OK(dpti_sync(device));
    CHECK_NEAR(values[3], 9.0, 0.0);
    dpti_release(&b.op);
    dpti_free(&workspace);
    dpti_free(&a);
}

static void binds_workspace(test *t)
{
    with_device(t, &fake_backend, "fake", check_workspace);
}

/* ---- Events and recordings ------------------------------------------------------------------- */

static dpt_status fail_silently(dpt_event *event, dpt_stream *stream)
{
    (void)event;
    (void)stream;
    return DPT_E_DEVICE;
}

static dpt_status lose_device(dpt_event *event, dpt_stream *stream)
{
    (void)event;
    (void)stream;
    return DPT_E_DEVICE_LOST;
}

static void check_failed_event(test *t, dpti_device *device)
{
    double seconds;
    CHECK_STATUS(dpti_event_record(device, NULL), DPT_E_DEVICE);
    CHECK(device->base.error.status == DPT_E_DEVICE && !device->lost);
    CHECK_TEXT(device->base.error.message, "stream.event_record failed: device error");
    CHECK_STATUS(dpti_event_elapsed(device, NULL, NULL, &seconds), DPT_E_UNSUPPORTED);
    CHECK(device->base.error.status == DPT_E_UNSUPPORTED);
    CHECK(!dpti_can_record(device));
}

static void check_lost_event(test *t, dpti_device *device)
{
    dpt_event *event;
    double seconds;
    CHECK_STATUS(dpti_event_record(device, NULL), DPT_E_DEVICE_LOST);
    CHECK(device->lost && device->base.error.status == DPT_E_DEVICE_LOST);
    CHECK_STATUS(dpti_event_elapsed(device, NULL, NULL, &seconds), DPT_E_DEVICE_LOST);
    CHECK_STATUS(dpti_event_create(device, &event), DPT_E_DEVICE_LOST);
}

static void checks_events(test *t)
{
    dpt_stream_ops stream = fake_stream_ops;
    dpt_backend broken = fake_backend;
    broken.stream = &stream;
    stream.event_record = fail_silently;
    with_device(t, &broken, "fake", check_failed_event);
    stream.event_record = lose_device;
    with_device(t, &broken, "fake", check_lost_event);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"limits_memory", limits_memory},
        {"rehearsals take no memory", rehearses},
        {"checks_transfers", checks_transfers},
        {"fills_in_what_is_left_out", fills_in_what_is_left_out},
        {"prepares", prepares},
        {"prepares_as_wanted", prepares_as_wanted},
        {"binds", binds},
        {"binds_workspace", binds_workspace},
        {"checks_events", checks_events},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
