/* Measures the rounding errors of convolutions against the double-precision reference, for each
   pass and each algorithm:

       bench-errors [DEVICE:algorithm=]...    e.g.  bench-errors cpu:algorithm=direct

   Inputs have a normal distribution of deviation 1, filters one of deviation sqrt(2 / taps). Errors
   are relative to the deviation of the true results: the root of the mean square, and the maximum.
   Convolutions that the algorithm does not support are left out. */
#include "device/buffer.h"
#include "device/device.h"
#include "device/driver.h"
#include "device/operator.h"
#include "device/set.h"
#include "device/signature.h"
#include "device/stream.h"
#include "reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Of a normal distribution, from a counter. */
static float normal(uint64_t *state)
{
    double sum = 0.0;
    for (int i = 0; i < 12; i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        sum += (double)(*state >> 11) * 0x1p-53;
    }
    return (float)(sum - 6.0);
}

/* ---- A call ---------------------------------------------------------------------------------- */

typedef struct measurement {
    dpt_op_desc desc;
    size_t n_samples;
    double rms, largest; /* of errors */
    const char *algorithm;
    dpt_status status;
} measurement;

typedef struct tensor {
    dpti_buffer buffer;
    size_t n;
    float *values;
    double *wide;
} tensor;

static dpt_status make(dpti_device *device, const dpti_slot *slot, size_t n_samples, double scale,
                       uint64_t *state, tensor *t)
{
    t->n = slot->per_sample ? slot->per_sample * n_samples : slot->fixed;
    t->values = malloc(t->n * sizeof *t->values);
    t->wide = malloc(t->n * sizeof *t->wide);
    if (!t->values || !t->wide) return DPT_E_NO_MEMORY;
    for (size_t i = 0; i < t->n; i++) {
        t->values[i] = (float)scale * normal(state);
        t->wide[i] = (double)t->values[i];
    }
    DPT_TRY(dpti_alloc(device, t->n * sizeof *t->values, &t->buffer));
    return dpti_upload(&t->buffer, 0, t->values, t->n * sizeof *t->values);
}

static void drop(tensor *t)
{
    dpti_free(&t->buffer);
    free(t->values);
    free(t->wide);
}

static void compare(measurement *m, const tensor *out)
{
    double error = 0.0, size = 0.0, largest = 0.0;
    for (size_t i = 0; i < out->n; i++) {
        const double e = fabs((double)out->values[i] - out->wide[i]);
        error += e * e;
        size += out->wide[i] * out->wide[i];
        if (!(e <= largest)) largest = e;
    }
    m->rms = sqrt(error / size);
    m->largest = largest / sqrt(size / (double)out->n);
}

typedef struct setting {
    dpti_op op;
    tensor in[2], out;
    dpti_buffer workspace;
} setting;

static dpt_status compute(dpti_device *device, measurement *m, setting *s)
{
    const dpt_conv2d_desc *d = &m->desc.u.conv2d;
    const double filter_scale = sqrt(2.0 / (double)(d->kernel_h * d->kernel_w * d->in_channels));
    const bool has_filter = m->desc.kind != DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    uint64_t state = 1;
    dpti_binding binding = {0};
    dpt_op_args args;
    DPT_TRY(dpti_prepare(device, &m->desc, m->n_samples, &s->op));
    const dpti_signature *sig = &s->op.signature;
    DPT_TRY(make(device, &sig->in[0], m->n_samples, 1.0, &state, &s->in[0]));
    DPT_TRY(make(device, &sig->in[1], m->n_samples, has_filter ? filter_scale : 1.0, &state,
                 &s->in[1]));
    DPT_TRY(make(device, &sig->out[0], m->n_samples, 1.0, &state, &s->out));
    if (s->op.info.workspace_bytes)
        DPT_TRY(dpti_alloc(device, s->op.info.workspace_bytes, &s->workspace));
    for (size_t i = 0; i < 2; i++)
        binding.in[i] = (dpti_place){&s->in[i].buffer, 0};
    binding.out[0] = (dpti_place){&s->out.buffer, 0};
    if (s->op.info.workspace_bytes) binding.workspace = (dpti_place){&s->workspace, 0};
    DPT_TRY(dpti_bind(&s->op, m->n_samples, &binding, &args));
    DPT_TRY(dpti_run(&s->op, m->n_samples, &args));
    DPT_TRY(dpti_download(s->out.values, &s->out.buffer, 0, s->out.n * sizeof *s->out.values));
    DPT_TRY(dpti_sync(device));
    m->algorithm = s->op.info.algorithm;
    const reference_args reference = {.in = {s->in[0].wide, s->in[1].wide}, .out = {s->out.wide}};
    reference_run(&m->desc, m->n_samples, &reference);
    compare(m, &s->out);
    return DPT_OK;
}

static void measure(dpti_device *device, void *argument)
{
    measurement *m = argument;
    setting s = {0};
    m->status = compute(device, m, &s);
    drop(&s.in[0]);
    drop(&s.in[1]);
    drop(&s.out);
    dpti_free(&s.workspace);
    dpti_release(&s.op);
}

/* ---- The table ------------------------------------------------------------------------------- */

static const struct {
    dpt_op_kind kind;
    const char *name;
} passes[] = {{DPT_OP_CONV2D_FORWARD, "forward"},
              {DPT_OP_CONV2D_BACKWARD_DATA, "backward data"},
              {DPT_OP_CONV2D_BACKWARD_WEIGHTS, "backward weights"}};

static const struct {
    size_t extent, in_channels, out_channels, kernel, pad, n_samples;
} shapes[] = {
    {28, 64, 64, 3, 1, 2}, {14, 128, 128, 3, 1, 2}, {7, 256, 256, 3, 1, 2}, {4, 512, 512, 3, 1, 2},
    {13, 20, 50, 5, 0, 4}, {28, 64, 64, 5, 2, 2},   {13, 96, 256, 5, 2, 2},
};

static measurement shape_at(size_t shape, size_t pass)
{
    const size_t kernel = shapes[shape].kernel, pad = shapes[shape].pad;
    const size_t in = shapes[shape].extent, out = in + 2 * pad - kernel + 1;
    return (measurement){.desc = {.kind = passes[pass].kind,
                                  .u.conv2d = {.in_h = in,
                                               .in_w = in,
                                               .in_channels = shapes[shape].in_channels,
                                               .out_h = out,
                                               .out_w = out,
                                               .out_channels = shapes[shape].out_channels,
                                               .kernel_h = kernel,
                                               .kernel_w = kernel,
                                               .stride_h = 1,
                                               .stride_w = 1,
                                               .pad_h = pad,
                                               .pad_w = pad,
                                               .dilation_h = 1,
                                               .dilation_w = 1,
                                               .groups = 1}},
                         .n_samples = shapes[shape].n_samples};
}

static void print(const measurement *m, const char *pass, const dpti_device *device)
{
    const dpt_conv2d_desc *d = &m->desc.u.conv2d;
    printf("| %zux%zux%zu %zux%zu to %zu %s | ", d->in_h, d->in_w, d->in_channels, d->kernel_h,
           d->kernel_w, d->out_channels, pass);
    if (m->status == DPT_OK)
        printf("%s | %.2g | %.2g |\n", m->algorithm, m->rms, m->largest);
    else
        printf("%s | | |\n", device->base.error.message);
    fflush(stdout);
}

/* `algorithm` may be NULL. */
static int report(dpti_device *device, const char *algorithm)
{
    int failures = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (size_t p = 0; p < sizeof passes / sizeof *passes; p++) {
            measurement m = shape_at(i, p);
            dpti_driver_call(device, measure, &m);
            failures += m.status != DPT_OK;
            if (m.status != DPT_OK || !algorithm ||
                strncmp(m.algorithm, algorithm, strlen(algorithm)) == 0)
                print(&m, passes[p].name, device);
        }
    }
    return failures;
}

static int report_on(dpt_context *context, const char *list)
{
    dpt_device_set *devices = NULL;
    if (dpt_device_set_open(context, list, &devices) != DPT_OK) {
        fprintf(stderr, "bench-errors: %s\n", dpt_error_message(context));
        return 1;
    }
    const char *algorithm = strstr(list, "algorithm=");
    const int failures =
        report(devices->devices[0], algorithm ? algorithm + strlen("algorithm=") : NULL);
    dpt_device_set_close(devices);
    return failures;
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"cpu:algorithm=direct", "cpu:algorithm=winograd2",
                                       "cpu:algorithm=winograd3", "cpu:algorithm=winograd4"};
    const size_t n = argc > 1 ? (size_t)argc - 1 : sizeof ways / sizeof *ways;
    dpt_context *context = NULL;
    int failures = 0;
    if (dpt_context_create(&context) != DPT_OK) return 1;
    printf("| convolution | way | rms error | largest error |\n|---|---|--:|--:|\n");
    for (size_t i = 0; i < n; i++)
        failures += report_on(context, argc > 1 ? argv[i + 1] : ways[i]);
    dpt_context_destroy(context);
    return failures ? 1 : 0;
}
