/* Deterministic sums of batch-norm and layer-norm over the rows of all samples.

   Each sample is summed up by itself.  Its rows go to LANES_OF_ROWS lanes in turn: row r goes to
   lane r % LANES_OF_ROWS.  A lane is a sum in float32 in the order of its rows.  The lanes are
   added in double precision in their order, and so are the samples of a grain.  Statistics are
   merged as in batch_norm.c.  A thread takes a sample, or some channels of one. */
#include "kinds.h"
#include "norm.h"
#include "tree.h"

#include <math.h>
#include <string.h>

enum {
    LANES_OF_ROWS = 16,
    FACTORS = 4,       /* the most factors of a channel that a loop reads */
    PART_CHANNELS = 64 /* the fewest channels of a part of a sample */
};

/* ---- A sample -------------------------------------------------------------------------------- */

/* The rows of some channels of one sample.  Runs are what a loop adds at once: a row of some
   channels, or for all channels a row of each lane. */
typedef struct sample {
    const dpt_cpu_call *call;
    size_t index, rows, channels;
    dpt_cpu_range own; /* channels */
    size_t n_lanes;
    size_t run, step, n_runs, cycle; /* floats, floats to the next run, runs that are lanes */
    float *block;                    /* (2,n_lanes,own) the lanes */
    float *factors;                  /* (FACTORS,run) */
    double *sums;                    /* (2,channels) results of the sample */
} sample;

static size_t width_of(const sample *s)
{
    return s->own.end - s->own.begin;
}

/* Floats of run r: the last one may be shorter. */
static size_t run_length(const sample *s, size_t r)
{
    return norm_least(s->run, s->rows * width_of(s) - r * s->run);
}

static float *run_lane(const sample *s, size_t r)
{
    return s->block + r % s->cycle * s->run;
}

/* The first element of the sample's own channels. */
static const float *begin_of(const sample *s, unsigned input)
{
    return (const float *)s->call->in[input] + s->index * s->rows * s->channels + s->own.begin;
}

static float *factor_of(const sample *s, size_t k)
{
    return s->factors + k * s->run;
}

static void set_factor(const sample *s, size_t k, const float *from)
{
    float *to = factor_of(s, k);
    for (size_t at = 0; at < s->run; at += width_of(s))
        memcpy(to + at, from + s->own.begin, width_of(s) * sizeof *to);
}

/* The distance between the two halves of the block. */
static size_t half_of_block(const sample *s)
{
    return s->n_lanes * width_of(s);
}

/* Adds the lanes, writes the sums and clears the lanes. */
static void fold(const sample *s)
{
    const size_t n = width_of(s);
    for (size_t k = 0; k < 2; k++) {
        const float *block = s->block + k * half_of_block(s);
        double *restrict sums = s->sums + k * s->channels + s->own.begin;
        for (size_t c = 0; c < n; c++)
            sums[c] = (double)block[c];
        for (size_t lane = 1; lane < s->n_lanes; lane++)
            for (size_t c = 0; c < n; c++)
                sums[c] += (double)block[lane * n + c];
    }
    memset(s->block, 0, 2 * half_of_block(s) * sizeof *s->block);
}

/* ---- Batch-norm, forward --------------------------------------------------------------------- */

static void add_values(const sample *s)
{
    const float *from = begin_of(s, 0);
    for (size_t r = 0; r < s->n_runs; r++) {
        const float *restrict x = from + r * s->step;
        float *restrict sum = run_lane(s, r);
        for (size_t i = 0, n = run_length(s, r); i < n; i++)
            sum[i] += x[i];
    }
}

/* Adds the deviations from factor 0, and their squares. */
static void add_deviations(const sample *s)
{
    const float *from = begin_of(s, 0), *restrict mean = factor_of(s, 0);
    for (size_t r = 0; r < s->n_runs; r++) {
        const float *restrict x = from + r * s->step;
        float *restrict sum = run_lane(s, r), *restrict square = sum + half_of_block(s);
        for (size_t i = 0, n = run_length(s, r); i < n; i++) {
            const float deviation = x[i] - mean[i];
            sum[i] += deviation;
            square[i] += deviation * deviation;
        }
    }
}

/* The mean and M2 of the sample. */
static void find_moments(const sample *s)
{
    const double inverse = 1.0 / (double)s->rows;
    double *means = s->sums + s->own.begin, *squares = means + s->channels;
    float *mean = factor_of(s, 0);
    add_values(s);
    fold(s);
    for (size_t c = 0; c < width_of(s); c++)
        mean[c] = (float)(means[c] * inverse);
    for (size_t at = width_of(s); at < s->run; at += width_of(s))
        memcpy(mean + at, mean, width_of(s) * sizeof *mean);
    add_deviations(s);
    fold(s);
    for (size_t c = 0; c < width_of(s); c++) {
        /* The sum of the deviations is the rounding error of the mean. */
        const double off = means[c] * inverse, m2 = squares[c] - off * means[c];
        means[c] = (double)mean[c] + off;
        squares[c] = m2 < 0.0 ? 0.0 : m2;
    }
}

/* ---- Batch-norm, backward -------------------------------------------------------------------- */

/* Adds dy and dy * (x - mean). */
static void add_products(const sample *s)
{
    const float *from_dy = begin_of(s, 0), *from_x = begin_of(s, 1);
    const float *restrict mean = factor_of(s, 0);
    for (size_t r = 0; r < s->n_runs; r++) {
        const float *restrict dy = from_dy + r * s->step, *restrict x = from_x + r * s->step;
        float *restrict sum = run_lane(s, r), *restrict product = sum + half_of_block(s);
        for (size_t i = 0, n = run_length(s, r); i < n; i++) {
            sum[i] += dy[i];
            product[i] += dy[i] * (x[i] - mean[i]);
        }
    }
}

/* The same of the gradient before a ReLU that follows (batch_norm_apply.c). */
static void add_masked(const sample *s)
{
    const float *from_dy = begin_of(s, 0), *from_x = begin_of(s, 1);
    const float *mean = factor_of(s, 0), *scale = factor_of(s, 1), *shift = factor_of(s, 2);
    for (size_t r = 0; r < s->n_runs; r++) {
        const float *dy = from_dy + r * s->step, *x = from_x + r * s->step;
        float *sum = run_lane(s, r), *product = sum + half_of_block(s);
        for (size_t i = 0, n = run_length(s, r); i < n; i++) {
            const float deviation = x[i] - mean[i];
            const float gradient =
                dy[i] * (fmaf(deviation, scale[i], shift[i]) > 0.0f ? 1.0f : 0.0f);
            sum[i] += gradient;
            product[i] += gradient * deviation;
        }
    }
}

static void find_products(const sample *s)
{
    const float *moments = s->call->in[2], *w = s->call->in[3], *b = s->call->in[4];
    set_factor(s, 0, moments);
    if (s->call->op->desc.u.batch_norm.output_activation == DPT_ACT_NONE) {
        add_products(s);
    } else {
        set_factor(s, 1, moments + s->channels);
        set_factor(s, 2, b);
        set_factor(s, 3, w);
        float *restrict scale = factor_of(s, 1);
        const float *restrict weight = factor_of(s, 3);
        for (size_t i = 0; i < s->run; i++)
            scale[i] *= weight[i];
        add_masked(s);
    }
    fold(s);
}

/* ---- Layer-norm, backward-weights ------------------------------------------------------------ */

/* Adds dy and dy * xhat. */
static void find_weights(const sample *s)
{
    const float *from_dy = begin_of(s, 0), *from_x = begin_of(s, 1);
    const float *moments = (const float *)s->call->in[2] + 2 * s->index * s->rows;
    const size_t n = width_of(s);
    for (size_t row = 0; row < s->rows; row++) {
        const float *restrict dy = from_dy + row * s->channels;
        const float *restrict x = from_x + row * s->channels;
        float *restrict sum = s->block + row % s->n_lanes * n;
        float *restrict product = sum + half_of_block(s);
        const float mean = moments[2 * row], inverse = moments[2 * row + 1];
        for (size_t c = 0; c < n; c++) {
            sum[c] += dy[c];
            product[c] += dy[c] * ((x[c] - mean) * inverse);
        }
    }
    fold(s);
}

/* ---- All samples ----------------------------------------------------------------------------- */

/* The sizes of an operator. */
typedef struct shape {
    size_t rows, channels;
} shape;

static shape shape_of(const dpt_op *op)
{
    const dpt_batch_norm_desc *b = &op->desc.u.batch_norm;
    const dpt_layer_norm_desc *l = &op->desc.u.layer_norm;
    return op->desc.kind == DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS ? (shape){l->rows, l->channels}
                                                               : (shape){b->area, b->channels};
}

/* Floats of a half of a block. */
static size_t block_size(shape of)
{
    return dpt_cpu_mul(norm_least(of.rows, LANES_OF_ROWS), of.channels);
}

/* Floats of the results of a sample. */
static size_t sums_size(shape of)
{
    return dpt_cpu_round(dpt_cpu_mul(of.channels, 2 * sizeof(double) / sizeof(float)));
}

static size_t scratch_size(shape of)
{
    return dpt_cpu_round(dpt_cpu_mul(block_size(of), 2 + FACTORS));
}

static const double *sums_of(const dpt_cpu_call *call, shape of, size_t index)
{
    return (const void *)(call->workspace + index * sums_size(of));
}

static sample sample_at(const dpt_cpu_call *call, size_t index, dpt_cpu_range own, float *scratch)
{
    const shape of = shape_of(call->op);
    const size_t n = own.end - own.begin, n_lanes = norm_least(of.rows, LANES_OF_ROWS);
    const bool whole = n == of.channels;
    sample s = {.call = call,
                .index = index,
                .rows = of.rows,
                .channels = of.channels,
                .own = own,
                .n_lanes = n_lanes,
                .run = whole ? n_lanes * n : n,
                .step = whole ? n_lanes * n : of.channels,
                .n_runs = whole ? dpt_cpu_ceil_div(of.rows, n_lanes) : of.rows,
                .cycle = whole ? 1 : n_lanes,
                .block = scratch,
                .factors = scratch + 2 * block_size(of),
                .sums = (void *)(call->workspace + index * sums_size(of))};
    memset(s.block, 0, 2 * half_of_block(&s) * sizeof *s.block);
    return s;
}

/* Sums up every sample.  Returns this thread's channels, when all samples are done. */
static dpt_cpu_range each_sample(const dpt_cpu_call *call, void (*sum_up)(const sample *s),
                                 unsigned thread, unsigned n_threads)
{
    const shape of = shape_of(call->op);
    const size_t n = call->n_samples, n_most = dpt_cpu_ceil_div(of.channels, PART_CHANNELS);
    float *scratch =
        call->workspace + call->op->max_samples * sums_size(of) + thread * scratch_size(of);
    const size_t n_parts =
        n > 0 && n < n_threads ? norm_least(dpt_cpu_ceil_div(n_threads, n), n_most) : 1;
    dpt_cpu_pieces pieces = dpt_cpu_pieces_of(call->team, n * n_parts, thread, n_threads);
    for (size_t i; dpt_cpu_take(&pieces, &i);) {
        const sample s = sample_at(call, i / n_parts,
                                   dpt_cpu_split(of.channels, 16, i % n_parts, n_parts), scratch);
        if (width_of(&s) > 0) sum_up(&s);
    }
    dpt_cpu_barrier(call->team, thread, n_threads);
    return dpt_cpu_split(of.channels, 16, thread, n_threads);
}

/* Grains of the call; at least one. */
static size_t grains_of(const dpt_cpu_call *call)
{
    const bool several = call->grain > 0 && call->n_samples > 0;
    return several ? dpt_cpu_ceil_div(call->n_samples, call->grain) : 1;
}

static dpt_cpu_range samples_of(const dpt_cpu_call *call, size_t grain)
{
    const size_t begin = grain * call->grain, left = call->n_samples - begin;
    return (dpt_cpu_range){begin, begin + (call->grain > 0 ? norm_least(call->grain, left) : left)};
}

/* The sum of a channel over some samples. */
static double total(const dpt_cpu_call *call, shape of, dpt_cpu_range samples, size_t at)
{
    double sum = 0.0;
    for (size_t i = samples.begin; i < samples.end; i++)
        sum += sums_of(call, of, i)[at];
    return sum;
}

/* What the two sums of a channel are added to, and what they are multiplied with. */
typedef struct channel {
    float *first, *second;
    double factor; /* of the second one */
    float *rows;   /* where the sums of the first grain go; NULL: nowhere */
} channel;

/* Adds up the sums of channel c. */
static void add_up(const dpt_cpu_call *call, shape of, size_t c, const channel *to)
{
    float first[TREE_LEVELS], second[TREE_LEVELS], sum = 0.0f, product = 0.0f;
    for (size_t g = 0, n = grains_of(call); g < n; g++) {
        const dpt_cpu_range samples = samples_of(call, g);
        sum = (float)total(call, of, samples, c);
        product = (float)(total(call, of, samples, of.channels + c) * to->factor);
        if (to->rows) {
            to->rows[2 * g * of.channels] = sum;
            to->rows[(2 * g + 1) * of.channels] = product;
        }
        sum = tree_add_one(first, sum, g, g + 1 == n);
        product = tree_add_one(second, product, g, g + 1 == n);
    }
    *to->first = call->accumulate ? *to->first + sum : sum;
    *to->second = call->accumulate ? *to->second + product : product;
}

/* The moments of some channels and samples, to part (3,c). */
static void merge_samples(const dpt_cpu_call *call, dpt_cpu_range samples, dpt_cpu_range own,
                          float *part)
{
    const shape of = shape_of(call->op);
    const double rows = (double)of.rows;
    for (size_t c = own.begin; c < own.end; c++) {
        double mean = 0.0, m2 = 0.0;
        for (size_t i = samples.begin; i < samples.end; i++) {
            const double *sums = sums_of(call, of, i);
            norm_merge(&mean, &m2, sums[c], sums[of.channels + c],
                       norm_merging_of((double)(i - samples.begin) * rows, rows));
        }
        part[c] = (float)((samples.end - samples.begin) * of.rows);
        part[of.channels + c] = (float)mean;
        part[2 * of.channels + c] = (float)m2;
    }
}

/* x (n,area,c) -> part (n_grains,3,c) */
static void partial(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_cpu_range own = each_sample(call, find_moments, thread, n_threads);
    float *part = call->out[0];
    for (size_t g = 0, n = grains_of(call); g < n; g++)
        merge_samples(call, samples_of(call, g), own, part + g * 3 * shape_of(call->op).channels);
}

/* dy, x (n,area,c), moments (3,c), [w (c), b (c)] -> part (n_grains,2,c), dw (c), db (c) */
static void backward_partial(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_cpu_range own = each_sample(call, find_products, thread, n_threads);
    const shape of = shape_of(call->op);
    const float *inverse = (const float *)call->in[2] + of.channels;
    float *part = call->out[0], *dw = call->out[1], *db = call->out[2];
    for (size_t c = own.begin; c < own.end; c++)
        add_up(
            call, of, c,
            &(channel){
                .first = db + c, .second = dw + c, .factor = (double)inverse[c], .rows = part + c});
}

/* dy, x (n,rows,c), moments (n,rows,2) -> dw (c), db (c) */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_cpu_range own = each_sample(call, find_weights, thread, n_threads);
    const shape of = shape_of(call->op);
    float *dw = call->out[0], *db = call->out[1];
    for (size_t c = own.begin; c < own.end; c++)
        add_up(call, of, c, &(channel){.first = db + c, .second = dw + c, .factor = 1.0});
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static dpt_status prepare(dpt_op *op, dpt_cpu_kernel *kernel)
{
    const shape of = shape_of(op);
    const size_t sums = dpt_cpu_mul(op->max_samples, sums_size(of));
    const size_t scratch = dpt_cpu_mul(op->n_threads, scratch_size(of));
    op->plan.kernel = kernel;
    op->plan.workspace_bytes = dpt_cpu_mul(dpt_cpu_add(sums, scratch), sizeof(float));
    op->plan.work = (double)of.rows * (double)of.channels * 0.3;
    op->plan.exact = kernel != partial;
    op->plan.has_grains = true;
    return DPT_OK;
}

dpt_status KERNEL(prepare_fixed_batch_norm_partial)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, partial);
}

dpt_status KERNEL(prepare_fixed_batch_norm_backward_partial)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, backward_partial);
}

dpt_status KERNEL(prepare_fixed_layer_norm_backward_weights)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, backward_weights);
}
