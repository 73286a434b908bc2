/* Tests memory, streams and events: copies and fills to the bit at any offset, the order within
   and between streams, and times of events. */
#include "device/buffer.h"
#include "device/operator.h"
#include "device/stream.h"
#include "device_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 2048 };

static void fill_bytes(test_random *random, unsigned char *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)test_random_u64(random);
}

static dpt_location at(const dpti_buffer *buffer, size_t offset_bytes)
{
    return (dpt_location){.buffer = buffer->handle, .offset_bytes = offset_bytes};
}

/* ---- Transfers against a model of the memory on the host ------------------------------------- */

typedef struct mirror {
    dpti_buffer buffer;
    unsigned char *model, *back;
    size_t n_bytes;
} mirror;

static bool mirror_create(test *t, mirror *m, size_t n_bytes, test_random *random)
{
    *m = (mirror){.n_bytes = n_bytes, .model = malloc(n_bytes), .back = malloc(n_bytes)};
    if (!CHECK(m->model && m->back)) return false;
    fill_bytes(random, m->model, n_bytes);
    /* It changes from here on, and must not while it is read. */
    return CHECK_OK(dpti_alloc(suite_of(t)->device, n_bytes, &m->buffer)) &&
           CHECK_OK(dpti_upload(&m->buffer, 0, m->model, n_bytes)) &&
           CHECK_OK(dpti_sync(suite_of(t)->device));
}

static void mirror_destroy(mirror *m)
{
    dpti_free(&m->buffer);
    free(m->model);
    free(m->back);
}

static void mirror_check(test *t, mirror *m, const char *what, size_t n)
{
    memset(m->back, 0x5A, m->n_bytes);
    if (CHECK_OK(dpti_download(m->back, &m->buffer, 0, m->n_bytes)) &&
        CHECK_OK(dpti_sync(suite_of(t)->device)) &&
        !CHECK(memcmp(m->back, m->model, m->n_bytes) == 0))
        FAIL("%s of %zu bytes", what, n);
}

static void uploads(test *t)
{
    test_random random = {1};
    mirror m;
    unsigned char *host = malloc(ROOM);
    if (CHECK(host) && mirror_create(t, &m, ROOM, &random)) {
        for (size_t n = 0; n <= 300 && !conformance_enough(t); n++) {
            const size_t offset = test_random_below(&random, ROOM - n + 1);
            fill_bytes(&random, host, n);
            memcpy(m.model + offset, host, n);
            CHECK_OK(dpti_upload(&m.buffer, offset, host, n));
            mirror_check(t, &m, "upload", n);
        }
        mirror_destroy(&m);
    }
    free(host);
}

/* Every byte around the target on the host stays as it was. */
static void downloads(test *t)
{
    test_random random = {2};
    mirror m;
    unsigned char host[ROOM + 2], expected[ROOM + 2];
    if (!mirror_create(t, &m, ROOM, &random)) return;
    for (size_t n = 0; n <= 300 && !conformance_enough(t); n++) {
        const size_t offset = test_random_below(&random, ROOM - n + 1);
        fill_bytes(&random, host, sizeof host);
        memcpy(expected, host, sizeof host);
        memcpy(expected + 1, m.model + offset, n);
        CHECK_OK(dpti_download(host + 1, &m.buffer, offset, n));
        CHECK_OK(dpti_sync(suite_of(t)->device));
        if (!CHECK(memcmp(host, expected, sizeof host) == 0)) FAIL("download of %zu bytes", n);
    }
    mirror_destroy(&m);
}

static void fills(test *t)
{
    test_random random = {3};
    mirror m;
    if (!mirror_create(t, &m, ROOM, &random)) return;
    for (size_t n = 0; n <= 300 && !conformance_enough(t); n++) {
        const size_t n_bytes = 4 * n;
        const size_t offset = 4 * test_random_below(&random, (ROOM - n_bytes) / 4 + 1);
        const uint32_t pattern = (uint32_t)test_random_u64(&random);
        for (size_t i = 0; i < n; i++)
            memcpy(m.model + offset + 4 * i, &pattern, 4);
        CHECK_OK(dpti_fill(&m.buffer, offset, pattern, n_bytes));
        mirror_check(t, &m, "fill", n_bytes);
    }
    mirror_destroy(&m);
}

/* Within one buffer and between two. */
static void copies(test *t)
{
    test_random random = {4};
    dpti_device *device = suite_of(t)->device;
    const dpt_memory_ops *memory = device->base.backend->memory;
    mirror a = {.n_bytes = 0}, b = {.n_bytes = 0};
    if (mirror_create(t, &a, ROOM, &random) && mirror_create(t, &b, ROOM, &random)) {
        for (size_t n = 1; n <= 300 && !conformance_enough(t); n++) {
            const size_t from = test_random_below(&random, ROOM / 2 - n + 1);
            const size_t to = ROOM / 2 + test_random_below(&random, ROOM / 2 - n + 1);
            mirror *target = n % 2 == 0 ? &a : &b;
            memcpy(target->model + to, a.model + from, n);
            CHECK_OK(memory->copy(device->stream, at(&target->buffer, to), at(&a.buffer, from), n));
            mirror_check(t, target, "copy", n);
        }
    }
    mirror_destroy(&a);
    mirror_destroy(&b);
}

/* Megabytes, with a ragged end; nothing waits until the end, so the order is the stream's. */
static void order(test *t)
{
    enum { N_BYTES = 3 * 1024 * 1024 + 4 };
    test_random random = {5};
    dpti_device *device = suite_of(t)->device;
    const dpt_memory_ops *memory = device->base.backend->memory;
    mirror a = {.n_bytes = 0}, b = {.n_bytes = 0};
    if (mirror_create(t, &a, N_BYTES, &random) && mirror_create(t, &b, N_BYTES, &random)) {
        for (uint32_t i = 0; i < 8; i++) {
            const size_t offset = i * 1000;
            CHECK_OK(dpti_fill(&a.buffer, offset, i, N_BYTES - 8000));
            CHECK_OK(memory->copy(device->stream, at(&b.buffer, 4), at(&a.buffer, 0), N_BYTES - 4));
            CHECK_OK(memory->copy(device->stream, at(&a.buffer, 0), at(&b.buffer, 0), N_BYTES));
            for (size_t e = 0; e < N_BYTES - 8000; e += 4)
                memcpy(a.model + offset + e, &i, 4);
            memcpy(b.model + 4, a.model, N_BYTES - 4);
            memcpy(a.model, b.model, N_BYTES);
        }
        mirror_check(t, &a, "a sequence", N_BYTES);
        mirror_check(t, &b, "a sequence", N_BYTES);
    }
    mirror_destroy(&a);
    mirror_destroy(&b);
}

/* ---- Host memory ----------------------------------------------------------------------------- */

/* Read-only data: the same bytes on the device, and the host's unchanged. */
static void wrapped_data(test *t)
{
    enum { N = 1000 };
    static const size_t sizes[] = {1, 3, 64, 257, N};
    test_random random = {6};
    unsigned char *host = aligned_alloc(64, 1024), copy[N], back[N];
    REQUIRE(host);
    fill_bytes(&random, host, N);
    memcpy(copy, host, N);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        dpti_buffer buffer;
        memset(back, 0, sizeof back);
        if (!CHECK_OK(dpti_alloc_data(suite_of(t)->device, host, sizes[i], &buffer))) continue;
        CHECK_OK(dpti_download(back, &buffer, 0, sizes[i]));
        CHECK_OK(dpti_sync(suite_of(t)->device));
        CHECK(memcmp(back, copy, sizes[i]) == 0);
        dpti_free(&buffer);
    }
    CHECK(memcmp(host, copy, N) == 0);
    free(host);
}

static void host_memory(test *t)
{
    dpti_device *device = suite_of(t)->device;
    test_random random = {7};
    mirror m = {.n_bytes = 0};
    void *host = NULL;
    if (mirror_create(t, &m, ROOM, &random) && CHECK_OK(dpti_host_alloc(device, ROOM, &host))) {
        CHECK((uintptr_t)host % 64 == 0);
        fill_bytes(&random, m.model, ROOM);
        memcpy(host, m.model, ROOM);
        CHECK_OK(dpti_upload(&m.buffer, 0, host, ROOM));
        mirror_check(t, &m, "upload from host memory of the device", ROOM);
        const unsigned char *seen = dpti_host_pointer(&m.buffer);
        if (seen) {
            CHECK((uintptr_t)seen % 256 == 0);
            CHECK(memcmp(seen, m.model, ROOM) == 0);
        }
    }
    dpti_host_free(device, host);
    mirror_destroy(&m);
}

/* More than any machine has is refused, with a reason, and nothing is broken afterwards. */
static void too_much(test *t)
{
    dpti_device *device = suite_of(t)->device;
    dpti_buffer buffer;
    test_random random = {8};
    CHECK_STATUS(dpti_alloc(device, SIZE_MAX / 8, &buffer), DPT_E_NO_MEMORY);
    CHECK(device->base.error.message[0] != '\0');
    dpti_free(&buffer);
    mirror m;
    if (!mirror_create(t, &m, ROOM, &random)) return;
    mirror_check(t, &m, "upload after a refused allocation", ROOM);
    mirror_destroy(&m);
}

/* ---- The device itself ----------------------------------------------------------------------- */

static void information(test *t)
{
    const dpti_device *device = suite_of(t)->device;
    const dpt_device_properties *info = &device->info;
    CHECK(info->name[0] != '\0');
    CHECK(info->memory_bytes > 0);
    CHECK(info->alignment_bytes > 0 && info->alignment_bytes <= 256);
    CHECK((info->alignment_bytes & (info->alignment_bytes - 1)) == 0);
    CHECK(info->memory_domain[0] && info->compute_domain[0] && info->fault_domain[0]);
}

/* Releasing nothing is allowed. */
static void null_objects(test *t)
{
    dpt_device *device = &suite_of(t)->device->base;
    const dpt_backend *backend = device->backend;
    backend->memory->free(device, NULL);
    backend->stream->destroy(NULL);
    backend->stream->event_destroy(NULL);
    backend->operators->release(device, NULL);
    if (backend->capture) backend->capture->release(device, NULL);
    CHECK_OK(dpti_sync(suite_of(t)->device));
}

static void events(test *t)
{
    dpti_device *device = suite_of(t)->device;
    const dpt_stream_ops *ops = device->base.backend->stream;
    test_random random = {9};
    dpt_event *start = NULL, *end = NULL;
    mirror m = {.n_bytes = 0};
    if (mirror_create(t, &m, 1 << 20, &random) &&
        CHECK_OK(ops->event_create(&device->base, &start)) &&
        CHECK_OK(ops->event_create(&device->base, &end))) {
        for (uint32_t i = 0; i < 3; i++) { /* events are recorded again and again */
            bool done[2] = {false, false};
            double seconds = NAN;
            CHECK_OK(ops->event_record(start, device->stream));
            CHECK_OK(dpti_fill(&m.buffer, 0, i, 1 << 20));
            CHECK_OK(ops->event_record(end, device->stream));
            CHECK_OK(ops->event_sync(end));
            CHECK_OK(ops->event_query(start, &done[0]));
            CHECK_OK(ops->event_query(end, &done[1]));
            CHECK(done[0] && done[1]);
            CHECK_OK(ops->event_elapsed(start, end, &seconds));
            CHECK(isfinite(seconds) && seconds >= 0.0 && seconds < 60.0);
        }
    }
    ops->event_destroy(end);
    ops->event_destroy(start);
    mirror_destroy(&m);
}

/* What a second stream does behind an event sees what the first did before it. */
static void two_streams(test *t)
{
    dpti_device *device = suite_of(t)->device;
    const dpt_backend *backend = device->base.backend;
    test_random random = {10};
    dpt_stream *second = NULL;
    dpt_event *filled = NULL;
    mirror a = {.n_bytes = 0}, b = {.n_bytes = 0};
    if (mirror_create(t, &a, 1 << 20, &random) && mirror_create(t, &b, 1 << 20, &random) &&
        CHECK_OK(dpti_sync(device)) && CHECK_OK(backend->stream->create(&device->base, &second)) &&
        CHECK_OK(backend->stream->event_create(&device->base, &filled))) {
        for (uint32_t i = 0; i < 5; i++) {
            CHECK_OK(dpti_fill(&a.buffer, 0, i, 1 << 20));
            CHECK_OK(backend->stream->event_record(filled, device->stream));
            CHECK_OK(backend->stream->event_wait(second, filled));
            CHECK_OK(backend->memory->copy(second, at(&b.buffer, 0), at(&a.buffer, 0), 1 << 20));
            CHECK_OK(backend->memory->download(second, b.back, at(&b.buffer, 0), 1 << 20));
            CHECK_OK(backend->stream->sync(second));
            for (size_t e = 0; e < 1 << 20; e += 4)
                memcpy(b.model + e, &i, 4);
            if (!CHECK(memcmp(b.back, b.model, 1 << 20) == 0)) break;
        }
    }
    backend->stream->event_destroy(filled);
    backend->stream->destroy(second);
    mirror_destroy(&a);
    mirror_destroy(&b);
}

/* The suite would be blind if a description that makes no sense got through. */
static void senseless_descriptions(test *t)
{
    dpti_device *device = suite_of(t)->device;
    static const dpt_op_desc descs[] = {
        {.kind = DPT_OP_LINEAR_FORWARD, .u.linear = {.in = 0, .out = 3}},
        {.kind = DPT_OP_SOFTMAX_XENT, .u.softmax = {.classes = 0}},
        {.kind = DPT_OP_CONV2D_FORWARD,
         .u.conv2d = {.in_h = 4,
                      .in_w = 4,
                      .in_channels = 1,
                      .out_h = 9,
                      .out_w = 4,
                      .out_channels = 1,
                      .kernel_h = 1,
                      .kernel_w = 1,
                      .stride_h = 1,
                      .stride_w = 1,
                      .dilation_h = 1,
                      .dilation_w = 1,
                      .groups = 1}},
    };
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
        dpti_op op;
        CHECK_STATUS(dpti_prepare(device, &descs[i], 1, &op), DPT_E_INVALID);
        CHECK(device->base.error.message[0] != '\0');
        dpti_release(&op);
    }
}

const suite_case device_cases[] = {
    {"information", information},
    {"null_objects", null_objects},
    {"uploads", uploads},
    {"downloads", downloads},
    {"fills", fills},
    {"copies", copies},
    {"order", order},
    {"wrapped_data", wrapped_data},
    {"host_memory", host_memory},
    {"too_much", too_much},
    {"events", events},
    {"two_streams", two_streams},
    {"senseless_descriptions", senseless_descriptions},
    {"capture", conformance_capture},
    {"communicator", conformance_communicator},
    {"samples_of_matmul", conformance_matmul_samples},
};
const size_t n_device_cases = sizeof device_cases / sizeof *device_cases;
