#include "trial.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MORE_RUNS = 2 };

/* Operations of one timed run for each thread, some ten milliseconds: enough samples that what is
   done once a call, as transforming the filters, counts about as it does in training. */
static const double enough_work = 1e9;
/* A run that took so many times as long as the best so far is not repeated. */
static const double hopeless = 1.3;
/* Directly is preferred if others are faster by less than this. */
static const double handicap = 1.05;

struct dpt_cpu_trial {
    dpt_device *device;
    dpt_op op;
    const dpt_cpu_plan *plans;
    size_t n_plans;
    size_t n_samples; /* that are timed */
    size_t about;     /* rounded up to a power of two, so that shares of about one size share a
                         choice */
    double best;      /* seconds, 0: none yet */
    bool is_set_up;
    float *tensors[4]; /* x, w, y, bias */
    float *workspace;
};

static size_t samples_to_time(const dpt_op *op, double flops)
{
    size_t n = 1;
    while (n < op->max_samples && (double)n * flops < enough_work * (double)op->n_threads)
        n *= 2;
    return n;
}

dpt_status dpt_cpu_trial_create(dpt_device *device, const dpt_op *op, const dpt_cpu_plan *plans,
                                size_t n_plans, dpt_cpu_trial **out)
{
    dpt_cpu_trial *t = calloc(1, sizeof *t);
    if (!t) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for an operator");
    *t = (dpt_cpu_trial){.device = device,
                         .op = *op,
                         .plans = plans,
                         .n_plans = n_plans,
                         .about = samples_to_time(op, plans[0].flops)};
    t->n_samples = t->about < op->max_samples ? t->about : op->max_samples;
    *out = t;
    return DPT_OK;
}

void dpt_cpu_trial_destroy(dpt_cpu_trial *trial)
{
    if (!trial) return;
    for (size_t i = 0; i < sizeof trial->tensors / sizeof *trial->tensors; i++)
        free(trial->tensors[i]);
    free(trial->workspace);
    free(trial);
}

static const char *pass_name(dpt_op_kind kind)
{
    switch (kind) {
    case DPT_OP_CONV2D_FORWARD: return "forward";
    case DPT_OP_CONV2D_BACKWARD_DATA: return "backward-data";
    default: return "backward-weights";
    }
}

/* Bias and activation cost all ways alike. */
void dpt_cpu_trial_key(const dpt_cpu_trial *trial, char *out, size_t n_bytes)
{
    const dpt_conv2d_desc *d = &trial->op.desc.u.conv2d;
    snprintf(out, n_bytes,
             "conv2d %s %zux%zux%zu to %zu, %zux%zu, stride %zux%zu, pad %zux%zu, n%zu, %u threads",
             pass_name(trial->op.desc.kind), d->in_h, d->in_w, d->in_channels, d->out_channels,
             d->kernel_h, d->kernel_w, d->stride_h, d->stride_w, d->pad_h, d->pad_w, trial->about,
             trial->op.n_threads);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Filled with small finite numbers. */
static float *tensor(size_t n_bytes)
{
    const size_t rounded =
        n_bytes / DPT_CPU_ALIGNMENT_BYTES * DPT_CPU_ALIGNMENT_BYTES + DPT_CPU_ALIGNMENT_BYTES;
    float *data = n_bytes < SIZE_MAX / 2 ? aligned_alloc(DPT_CPU_ALIGNMENT_BYTES, rounded) : NULL;
    for (size_t i = 0; data && i < rounded / sizeof *data; i++)
        data[i] = 0.01f;
    return data;
}

static size_t most_workspace(const dpt_cpu_trial *t)
{
    size_t most = 0;
    for (size_t i = 0; i < t->n_plans; i++)
        if (t->plans[i].workspace_bytes > most) most = t->plans[i].workspace_bytes;
    return most;
}

static dpt_status set_up(dpt_cpu_trial *t)
{
    const dpt_conv2d_desc *d = &t->op.desc.u.conv2d;
    const size_t x = dpt_cpu_mul(d->in_h * d->in_w, d->in_channels);
    const size_t y = dpt_cpu_mul(d->out_h * d->out_w, d->out_channels);
    const size_t w = dpt_cpu_mul(d->kernel_h * d->kernel_w, d->in_channels) / d->groups;
    const size_t counts[] = {dpt_cpu_mul(x, t->n_samples), dpt_cpu_mul(w, d->out_channels),
                             dpt_cpu_mul(y, t->n_samples), d->out_channels};
    bool enough = true;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        t->tensors[i] = tensor(dpt_cpu_mul(counts[i], sizeof(float)));
        enough = enough && t->tensors[i];
    }
    t->workspace = tensor(most_workspace(t));
    if (!enough || !t->workspace)
        return DPT_FAIL(&t->device->error, DPT_E_NO_MEMORY,
                        "no memory to time a convolution with %zu samples", t->n_samples);
    t->is_set_up = true;
    return DPT_OK;
}

/* The tensors of the operator table in backend.h. */
static dpt_cpu_call call_of(const dpt_cpu_trial *t, const dpt_op *op)
{
    float *x = t->tensors[0], *w = t->tensors[1], *y = t->tensors[2], *bias = t->tensors[3];
    dpt_cpu_call call = {.op = op,
                         .team = dpt_cpu_device_of(t->device)->team,
                         .n_samples = t->n_samples,
                         .workspace = t->workspace};
    switch (op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD:
        call.in[0] = x;
        call.in[1] = w;
        call.in[2] = bias;
        call.out[0] = y;
        break;
    case DPT_OP_CONV2D_BACKWARD_DATA:
        /* The mask is a tensor of the size of x. */
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

static double run_once(const dpt_cpu_trial *t, const dpt_cpu_plan *plan)
{
    dpt_op op = t->op;
    op.plan = *plan;
    const dpt_cpu_work work = {.kernel = plan->kernel, .call = call_of(t, &op)};
    const double began = now();
    dpt_cpu_team_do(work.call.team, &work, 1);
    return now() - began;
}

static double run_some(const dpt_cpu_trial *t, const dpt_cpu_plan *plan)
{
    double least = run_once(t, plan);
    if (t->best > 0.0 && least > hopeless * t->best) return least;
    for (int i = 0; i < MORE_RUNS; i++) {
        const double seconds = run_once(t, plan);
        if (seconds < least) least = seconds;
    }
    return least;
}

dpt_status dpt_cpu_trial_time(void *argument, const char *candidate, double *seconds)
{
    dpt_cpu_trial *t = argument;
    if (!t->is_set_up) DPT_TRY(set_up(t));
    for (size_t i = 0; i < t->n_plans; i++) {
        if (strcmp(t->plans[i].algorithm, candidate) != 0) continue;
        const double least = run_some(t, &t->plans[i]);
        if (!(t->best > 0.0) || least < t->best) t->best = least;
        *seconds = i > 0 ? handicap * least : least;
        return DPT_OK;
    }
    return DPT_FAIL(&t->device->error, DPT_E_INTERNAL, "no way %s", candidate);
}
