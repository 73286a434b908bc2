/* Tests that a sample's product has the same bits alone and among other samples. */
#include "device/buffer.h"
#include "device/operator.h"
#include "device/stream.h"
#include "device_cases.h"

#include <stdlib.h>
#include <string.h>

enum {
    N = 7, /* samples */
    SAMPLE_BYTES = 65536,
    BYTES = N * SAMPLE_BYTES,
};

/* The tensors of a call: a and b are full of numbers. */
typedef struct tensors {
    dpti_buffer a, b, y, workspace;
    unsigned char *numbers, *together, *alone;
} tensors;

/* A product of 3 heads within rows, b transposed, with samples of SAMPLE_BYTES. */
static dpt_op_desc product(dpt_dtype type, size_t rows, size_t inner)
{
    const size_t elements = SAMPLE_BYTES / dpt_dtype_bytes(type);
    return (dpt_op_desc){.kind = DPT_OP_MATMUL,
                         .type = type,
                         .u.matmul = {.batch = {3, 1, 1},
                                      .rows = rows,
                                      .columns = rows,
                                      .inner = inner,
                                      .alpha = 0.3f,
                                      .a = {.elements = elements,
                                            .batch_stride = {inner},
                                            .row_stride = 3 * inner,
                                            .column_stride = 1,
                                            .per_sample = true},
                                      .b = {.elements = elements,
                                            .batch_stride = {inner},
                                            .row_stride = 1,
                                            .column_stride = 3 * inner,
                                            .per_sample = true},
                                      .y = {.elements = elements,
                                            .batch_stride = {rows * rows},
                                            .row_stride = rows,
                                            .column_stride = 1,
                                            .per_sample = true}}};
}

/* Normal numbers; of bfloat16 those of the words' upper halves. */
static void fill(tensors *s, dpt_dtype type)
{
    test_random random = {1};
    float *values = (float *)(void *)s->numbers;
    test_fill_normal(&random, values, BYTES / sizeof(float));
    for (size_t i = 0; i < BYTES / 2 && type == DPT_BF16; i += 2)
        memcpy(s->numbers + 2 * i, s->numbers + 2 * i + 2, 2);
}

static dpt_status create(tensors *s, dpti_device *device, size_t workspace_bytes)
{
    DPT_TRY(dpti_alloc(device, BYTES, &s->a));
    DPT_TRY(dpti_alloc(device, BYTES, &s->b));
    DPT_TRY(dpti_alloc(device, BYTES, &s->y));
    DPT_TRY(dpti_alloc(device, workspace_bytes + 256, &s->workspace));
    DPT_TRY(dpti_upload(&s->a, 0, s->numbers, BYTES));
    DPT_TRY(dpti_upload(&s->b, 0, s->numbers, BYTES));
    return dpti_sync(device);
}

static void destroy(tensors *s)
{
    dpti_free(&s->a);
    dpti_free(&s->b);
    dpti_free(&s->y);
    dpti_free(&s->workspace);
}

/* Computes the samples in calls of `each`, and reads all of y. */
static dpt_status run(const dpti_op *op, const tensors *s, size_t each, unsigned char *out)
{
    DPT_TRY(dpti_fill(&s->y, 0, 0, BYTES));
    for (size_t first = 0; first < N; first += each) {
        const size_t at = first * SAMPLE_BYTES;
        const dpti_binding binding = {.in = {{&s->a, at}, {&s->b, at}},
                                      .out = {{&s->y, at}},
                                      .workspace = {.buffer = &s->workspace}};
        dpt_op_args args;
        DPT_TRY(dpti_bind(op, each, &binding, &args));
        DPT_TRY(dpti_run(op, each, &args));
    }
    DPT_TRY(dpti_download(out, &s->y, 0, BYTES));
    return dpti_sync(op->device);
}

static void compare(test *t, const dpti_op *op, const tensors *s)
{
    unsigned char none[64] = {0};
    REQUIRE_OK(run(op, s, N, s->together));
    REQUIRE_OK(run(op, s, 1, s->alone));
    CHECK(memcmp(s->together, s->alone, BYTES) == 0);
    CHECK(memcmp(s->together, none, sizeof none) != 0);
    CHECK(memcmp(s->together, s->together + SAMPLE_BYTES, SAMPLE_BYTES) != 0);
}

void conformance_matmul_samples(test *t)
{
    static const size_t shapes[][2] = {{65, 33}, {17, 48}, {1, 64}, {70, 3}};
    dpti_device *device = suite_of(t)->device;
    const dpt_dtype type = device->info.activations;
    tensors s = {
        .numbers = calloc(1, BYTES), .together = calloc(1, BYTES), .alone = calloc(1, BYTES)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const dpt_op_desc desc = product(type, shapes[i][0], shapes[i][1]);
        dpti_op op = {.device = NULL};
        if (!CHECK(s.numbers && s.together && s.alone)) break;
        fill(&s, type);
        if (!CHECK_OK(dpti_prepare(device, &desc, N, &op))) break;
        if (CHECK_OK(create(&s, device, op.info.workspace_bytes))) compare(t, &op, &s);
        dpti_release(&op);
        destroy(&s);
    }
    free(s.numbers);
    free(s.together);
    free(s.alone);
}
