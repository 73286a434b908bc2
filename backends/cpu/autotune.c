#include "autotune.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The operations of a timed run for each thread, some fifty milliseconds at 200 GFLOP/s.  A run has
   max_samples samples, or as many as make this work.  The fixed cost of a call, as transforming the
   filters, then weighs as little as in training.  With 512 channels, the algorithm that is best for
   16 samples takes twice as long as another one for 128. */
static const double enough_work = 1e10;
/* A run of this many operations is long enough to be compared in few rounds. */
static const double long_work = 2e9;
enum { ROUNDS = 5, LONG_ROUNDS = 3 };
/* Runs are repeated until they take this long together. */
static const double least_seconds = 2e-4;
/* The times of all algorithms but the first are multiplied by this, so that the first one is taken
   unless another one is clearly faster. */
static const double handicap = 1.03;

struct dpt_cpu_autotune {
    dpt_device *device;
    dpt_op op;
    const dpt_cpu_plan *plans;
    size_t n_plans;
    size_t n_samples; /* samples of a timed run */
    size_t about;     /* n_samples rounded up to a power of two, so that shards of similar size
                         share a choice */
    bool is_set_up;
    float *tensors[4]; /* x, w, y, bias; of a product a, b, y */
    float *workspace;
};

static size_t samples_to_time(const dpt_op *op, double flops)
{
    size_t n = 1;
    while (n < op->max_samples && (double)n * flops < enough_work * (double)op->n_threads)
        n *= 2;
    return n;
}

dpt_status dpt_cpu_autotune_create(dpt_device *device, const dpt_cpu_autotune_args *args,
                                   dpt_cpu_autotune **out)
{
    const dpt_op *op = args->op;
    dpt_cpu_autotune *t = calloc(1, sizeof *t);
    if (!t) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for an operator");
    *t = (dpt_cpu_autotune){.device = device,
                            .op = *op,
                            .plans = args->plans,
                            .n_plans = args->n_plans,
                            .about = samples_to_time(op, args->plans[0].flops)};
    t->n_samples = t->about < op->max_samples ? t->about : op->max_samples;
    *out = t;
    return DPT_OK;
}

size_t dpt_cpu_autotune_rounds(const dpt_cpu_autotune *autotune)
{
    const double work = autotune->plans[0].flops * (double)autotune->n_samples;
    return work < long_work * (double)autotune->op.n_threads ? ROUNDS : LONG_ROUNDS;
}

void dpt_cpu_autotune_destroy(dpt_cpu_autotune *autotune)
{
    if (!autotune) return;
    for (size_t i = 0; i < sizeof autotune->tensors / sizeof *autotune->tensors; i++)
        free(autotune->tensors[i]);
    free(autotune->workspace);
    free(autotune);
}

static const char *pass_name(dpt_op_kind kind)
{
    switch (kind) {
    case DPT_OP_CONV2D_FORWARD:
    case DPT_OP_LINEAR_FORWARD: return "forward";
    case DPT_OP_CONV2D_BACKWARD_DATA:
    case DPT_OP_LINEAR_BACKWARD_DATA: return "backward-data";
    default: return "backward-weights";
    }
}

static bool is_linear(dpt_op_kind kind)
{
    return kind == DPT_OP_LINEAR_FORWARD || kind == DPT_OP_LINEAR_BACKWARD_DATA ||
           kind == DPT_OP_LINEAR_BACKWARD_WEIGHTS;
}

/* "60: 15,0,0,5,1", or "60 in all: ..." */
static void describe_operand(const dpt_matmul_operand *o, char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "%zu%s: %zu,%zu,%zu,%zu,%zu", o->elements,
             o->per_sample ? "" : " in all", o->batch_stride[0], o->batch_stride[1],
             o->batch_stride[2], o->row_stride, o->column_stride);
}

/* The places of the matrices are part of the key as a hash, because their text is long. */
static void write_matmul_key(const dpt_cpu_autotune *autotune, char *out, size_t n_bytes)
{
    const dpt_matmul_desc *d = &autotune->op.desc.u.matmul;
    char a[112], b[112], y[112], places[448], digits[DPT_HASH_CHARS + 1];
    describe_operand(&d->a, a, sizeof a);
    describe_operand(&d->b, b, sizeof b);
    describe_operand(&d->y, y, sizeof y);
    snprintf(places, sizeof places, "%a; %s; %s; %s", (double)d->alpha, a, b, y);
    dpt_hash_print(dpt_hash_text(dpt_hash_begin(), places), digits);
    snprintf(out, n_bytes, "matmul %zux%zux%zu of %zux%zux%zu, places %.16s, n%zu, %u threads",
             d->batch[0], d->batch[1], d->batch[2], d->rows, d->columns, d->inner, digits,
             autotune->about, autotune->op.n_threads);
}

/* Bias and activation are not part of the key, because they cost all algorithms about the same. */
void dpt_cpu_autotune_key(const dpt_cpu_autotune *autotune, char *out, size_t n_bytes)
{
    const dpt_op_kind kind = autotune->op.desc.kind;
    if (kind == DPT_OP_MATMUL) {
        write_matmul_key(autotune, out, n_bytes);
        return;
    }
    if (is_linear(kind)) {
        const dpt_linear_desc *d = &autotune->op.desc.u.linear;
        char slice[32] = "";
        if (d->rows > 0) snprintf(slice, sizeof slice, ", %zu rows", d->rows);
        snprintf(out, n_bytes, "linear %s %zu to %zu%s, n%zu, %u threads", pass_name(kind), d->in,
                 d->out, slice, autotune->about, autotune->op.n_threads);
        return;
    }
    const dpt_conv2d_desc *d = &autotune->op.desc.u.conv2d;
    snprintf(out, n_bytes,
             "conv2d %s %zux%zux%zu to %zu, %zux%zu, stride %zux%zu, pad %zux%zu, n%zu, %u threads",
             pass_name(kind), d->in_h, d->in_w, d->in_channels, d->out_channels, d->kernel_h,
             d->kernel_w, d->stride_h, d->stride_w, d->pad_h, d->pad_w, autotune->about,
             autotune->op.n_threads);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Allocates a tensor and fills it with small finite numbers.  NULL without memory. */
static float *tensor(size_t n_bytes)
{
    const size_t rounded =
        n_bytes / DPT_CPU_ALIGNMENT_BYTES * DPT_CPU_ALIGNMENT_BYTES + DPT_CPU_ALIGNMENT_BYTES;
    float *data = n_bytes < SIZE_MAX / 2 ? aligned_alloc(DPT_CPU_ALIGNMENT_BYTES, rounded) : NULL;
    for (size_t i = 0; data && i < rounded / sizeof *data; i++)
        data[i] = 0.01f;
    return data;
}

static size_t most_workspace(const dpt_cpu_autotune *t)
{
    size_t most = 0;
    for (size_t i = 0; i < t->n_plans; i++)
        if (t->plans[i].workspace_bytes > most) most = t->plans[i].workspace_bytes;
    return most;
}

/* Floats of the tensors for n samples. */
typedef struct sizes {
    size_t x, w, y, bias;
} sizes;

static sizes matmul_sizes(const dpt_matmul_desc *d, size_t n)
{
    return (sizes){.x = dpt_cpu_mul(d->a.elements, d->a.per_sample ? n : 1),
                   .w = dpt_cpu_mul(d->b.elements, d->b.per_sample ? n : 1),
                   .y = dpt_cpu_mul(d->y.elements, n)};
}

static sizes sizes_of(const dpt_op *op, size_t n)
{
    if (op->desc.kind == DPT_OP_MATMUL) return matmul_sizes(&op->desc.u.matmul, n);
    if (is_linear(op->desc.kind)) {
        const dpt_linear_desc *d = &op->desc.u.linear;
        return (sizes){.x = dpt_cpu_mul(d->in, n),
                       .w = dpt_cpu_mul(d->in, d->out),
                       .y = dpt_cpu_mul(d->out, n),
                       .bias = d->out};
    }
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t filter = dpt_cpu_mul(d->kernel_h * d->kernel_w, d->in_channels) / d->groups;
    return (sizes){.x = dpt_cpu_mul(dpt_cpu_mul(d->in_h * d->in_w, d->in_channels), n),
                   .w = dpt_cpu_mul(filter, d->out_channels),
                   .y = dpt_cpu_mul(dpt_cpu_mul(d->out_h * d->out_w, d->out_channels), n),
                   .bias = d->out_channels};
}

static dpt_status set_up(dpt_cpu_autotune *t)
{
    const sizes of = sizes_of(&t->op, t->n_samples);
    const size_t counts[] = {of.x, of.w, of.y, of.bias};
    bool enough = true;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        t->tensors[i] = tensor(dpt_cpu_mul(counts[i], sizeof(float)));
        enough = enough && t->tensors[i];
    }
    t->workspace = tensor(most_workspace(t));
    if (!enough || !t->workspace)
        return DPT_FAIL(&t->device->error, DPT_E_NO_MEMORY,
                        "no memory to time an operator with %zu samples", t->n_samples);
    t->is_set_up = true;
    return DPT_OK;
}

/* A call with the scratch tensors in the slots of DPT_OP_LIST (backend/op_list.h). */
static dpt_cpu_call call_of(const dpt_cpu_autotune *t, const dpt_op *op)
{
    float *x = t->tensors[0], *w = t->tensors[1], *y = t->tensors[2], *bias = t->tensors[3];
    dpt_cpu_call call = {.op = op,
                         .team = dpt_cpu_device_of(t->device)->team,
                         .n_samples = t->n_samples,
                         .workspace = t->workspace};
    switch (op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD:
    case DPT_OP_LINEAR_FORWARD:
    case DPT_OP_MATMUL:
        call.in[0] = x;
        call.in[1] = w;
        call.in[2] = bias;
        call.out[0] = y;
        break;
    case DPT_OP_CONV2D_BACKWARD_DATA:
    case DPT_OP_LINEAR_BACKWARD_DATA:
        /* The mask has the size of x. */
        call.in[0] = y;
        call.in[1] = w;
        call.in[2] = x;
        call.out[0] = x;
        break;
    default:
        call.in[0] = y;
        call.in[1] = x;
        call.out[0] = w;
        call.out[1] = bias;
    }
    return call;
}

/* ---- Time ------------------------------------------------------------------------------------ */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double run_some(const dpt_cpu_autotune *t, const dpt_cpu_plan *plan)
{
    dpt_op op = t->op;
    op.plan = *plan;
    const dpt_cpu_work work = {.kernel = plan->kernel, .call = call_of(t, &op)};
    const double began = now();
    double elapsed = 0.0;
    size_t n_runs = 0;
    while (elapsed < least_seconds) {
        dpt_cpu_team_do(work.call.team, &work, 1);
        n_runs++;
        elapsed = now() - began;
    }
    return elapsed / (double)n_runs;
}

dpt_status dpt_cpu_autotune_time(void *argument, const char *candidate, double *seconds)
{
    dpt_cpu_autotune *t = argument;
    if (!t->is_set_up) DPT_TRY(set_up(t));
    for (size_t i = 0; i < t->n_plans; i++) {
        if (strcmp(t->plans[i].algorithm, candidate) != 0) continue;
        const double once = run_some(t, &t->plans[i]);
        *seconds = i > 0 ? handicap * once : once;
        return DPT_OK;
    }
    return DPT_FAIL(&t->device->error, DPT_E_INTERNAL, "no algorithm %s", candidate);
}
