/* Language models by name against `transformers` and PyTorch: the same weights and batches, 30
   steps of AdamW, labels that are ignored at other places of each sample. tests/golden/make_text.py
   has made the losses and the logits, and computes weights and samples as this program does.

   Any devices compute what one device computes, by two measures:
   (a) After one step every gradient is as near to that of one device as 8 times the distance by
       which it changes if the samples of the batch stand in another order, or a millionth of it.
   (b) The losses of all steps are PyTorch's within 1e-4. */
#include "dptrain.h"
#include "dptrain_models.h"
#include "harness.h"
#include "train/mixes.h"
#include "train/session.h"
#include "train/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 48, BATCH = 16, STEPS = 30, TENSORS = 64 };

typedef struct golden {
    const char *name, *model;
    float lr;
    float clip_norm;   /* 0: none */
    size_t accumulate; /* BATCH samples of a step are so many batches; 0: one */
} golden;

static const golden runs[] = {
    {"gpt", "gpt:4:4:32:24", 2e-3f, 0, 0},
    {"gpt-clipped", "gpt:4:4:32:24", 2e-3f, 0.3f, 2},
    {"llama", "llama:4:4:2:32:24:61:88", 2e-3f, 0, 0},
    {"llama-tied", "llama-tied:4:4:2:32:24:61:88", 2e-3f, 0, 0},
    {"lstm", "lstm:2:32:24:61", 1e-2f, 0, 0},
};
enum { N_RUNS = sizeof runs / sizeof *runs };

static const mix cpu_mixes[] = {{"cpu:threads=2", NULL},
                                {"cpu:threads=1,cpu:threads=1", "3:1"},
                                {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1"}};
enum { N_MIXES = sizeof cpu_mixes / sizeof *cpu_mixes };

/* ---- Training -------------------------------------------------------------------------------- */

typedef struct samples {
    int32_t ids[COUNT][LENGTH], labels[COUNT][LENGTH];
} samples;

typedef struct task {
    const golden *run;
    mix where;
    bool reversed; /* the samples of each batch */
    bool deterministic;
    size_t logit_rows;
    dpt_recompute recompute;
    size_t micro_batch;
} task;

static dpt_status set_weights(const session *s)
{
    static float values[1 << 14];
    dpt_status status = DPT_OK;
    for (size_t i = 0; status == DPT_OK && i < dpt_model_tensor_count(s->model); i++) {
        dpt_parameter_info p = {.size = sizeof p};
        dpt_model_tensor(s->model, i, &p);
        if (p.elements > sizeof values / sizeof *values) return DPT_E_INTERNAL;
        make_text_weights(&p, values);
        status = dpt_trainer_set(s->trainer, DPT_PARAMETER, p.name, values, p.elements);
    }
    return status;
}

static dpt_status create_data(session *s, bool reversed)
{
    static samples all;
    for (size_t i = 0; i < COUNT; i++) {
        const size_t at = reversed ? i / BATCH * BATCH + BATCH - 1 - i % BATCH : i;
        make_text_sample(i, all.ids[at], all.labels[at]);
    }
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = 1,
                                       .width = 1,
                                       .channels = LENGTH,
                                       .outputs = VOCABULARY,
                                       .dtype = DPT_I32,
                                       .images = all.ids,
                                       .labels = all.labels,
                                       .label_dtype = DPT_I32,
                                       .vocabulary = VOCABULARY,
                                       .labels_per_sample = LENGTH};
    return dpt_dataset_from_memory(s->context, &memory, &s->data);
}

static dpt_status begin(session *s, const task *of)
{
    const dpt_model_shape shape = {1, 1, LENGTH, VOCABULARY};
    const size_t n_batches = of->run->accumulate;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH / (n_batches ? n_batches : 1),
                                         .accumulate = n_batches,
                                         .clip_norm = of->run->clip_norm,
                                         .split = dpt_split_from(of->where.split),
                                         .optimizer = DPT_OPTIMIZER_ADAMW,
                                         .lr = of->run->lr,
                                         .weight_decay = 0.1f,
                                         .no_bias_decay = true,
                                         .no_shuffle = true,
                                         .deterministic = of->deterministic,
                                         .recompute = of->recompute,
                                         .micro_batch = of->micro_batch,
                                         .logit_rows = of->logit_rows};
    DPT_TRY(dpt_context_create(&s->context));
    DPT_TRY(create_data(s, of->reversed));
    DPT_TRY(dpt_device_set_open(s->context, of->where.devices, &s->devices));
    DPT_TRY(dpt_model_by_name(s->context, of->run->model, &shape, &s->model));
    DPT_TRY(dpt_trainer_create(s->devices, s->model, s->data, &options, &s->trainer));
    return set_weights(s);
}

static bool may_begin(test *t, session *s, const task *of)
{
    *s = (session){0};
    if (CHECK_OK(begin(s, of))) return true;
    FAIL("%s on %s: %s", of->run->model, of->where.devices, dpt_error_message(s->context));
    session_end(s);
    return false;
}

/* ---- PyTorch --------------------------------------------------------------------------------- */

static bool read_expected(test *t, const golden *run, text_golden *out)
{
    char path[128];
    snprintf(path, sizeof path, "golden/text-%s.txt", run->name);
    return read_text_golden(t, path, STEPS, out);
}

/* The logits of the last place of sample 0, with the weights that a file has. */
static void check_logits(test *t, const session *s, const char *weights, const text_golden *e)
{
    static float logits[LENGTH * VOCABULARY];
    char why[DPT_WHY_BYTES] = "";
    dpt_predictor *predictor = NULL;
    const dpt_predictor_options options = {
        .size = sizeof options, .weights = weights, .like = s->data, .logits = true};
    CHECK_OK(dpt_predictor_create(s->devices, s->model, &options, &predictor));
    if (!predictor) FAIL("%s", dpt_error_message(s->context));
    if (predictor && CHECK_OK(dpt_predictor_run_data(predictor, s->data, 0, 1, logits, why)))
        for (size_t i = 0; i < VOCABULARY; i++)
            CHECK_NEAR((double)logits[(LENGTH - 1) * VOCABULARY + i], e->logits[i], 1e-4);
    dpt_predictor_destroy(predictor);
}

static void logits(test *t)
{
    static const char path[] = "text-models.safetensors";
    for (size_t i = 0; i < N_RUNS; i++) {
        const task of = {.run = &runs[i], .where = {"cpu", NULL}};
        session s;
        text_golden e;
        if (!read_expected(t, of.run, &e) || !may_begin(t, &s, &of)) continue;
        if (CHECK_OK(dpt_trainer_save(s.trainer, path))) check_logits(t, &s, path, &e);
        remove(path);
        session_end(&s);
    }
}

static void losses(test *t)
{
    const mix_list mixes = tested_mixes(cpu_mixes, N_MIXES);
    for (size_t i = 0; i < N_RUNS; i++)
        for (size_t k = 0; k < mixes.n; k++) {
            const task of = {.run = &runs[i], .where = mixes.items[k]};
            double found[STEPS];
            session s;
            text_golden e;
            if (!read_expected(t, of.run, &e) || !may_begin(t, &s, &of)) continue;
            if (session_train(t, &s, STEPS, found))
                for (size_t step = 0; step < STEPS; step++)
                    if (!CHECK_NEAR(found[step], e.losses[step], 1e-4))
                        FAIL("%s on %s, step %zu", of.run->model, of.where.devices, step);
            session_end(&s);
        }
}

/* ---- Any devices ----------------------------------------------------------------------------- */

/* The gradients after one step, tensor behind tensor. */
typedef struct gradients {
    size_t n_tensors, size[TENSORS];
    float *values;
} gradients;

static bool find_gradients(test *t, const task *of, gradients *out)
{
    session s;
    size_t n = 0;
    *out = (gradients){.values = NULL};
    if (!may_begin(t, &s, of)) return false;
    out->n_tensors = dpt_model_tensor_count(s.model);
    out->values = calloc(dpt_model_parameter_count(s.model), sizeof *out->values);
    bool right =
        CHECK(out->values) && CHECK(out->n_tensors <= TENSORS) && session_train(t, &s, 1, NULL);
    for (size_t i = 0; right && i < out->n_tensors; i++) {
        dpt_parameter_info p = {.size = sizeof p};
        dpt_model_tensor(s.model, i, &p);
        out->size[i] = p.elements;
        right = CHECK_OK(
            dpt_trainer_get(s.trainer, 0, DPT_GRADIENT, p.name, out->values + n, p.elements));
        n += p.elements;
    }
    session_end(&s);
    return right;
}

static double distance(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (b ? (double)b[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

static void compare_gradients(test *t, const task *of, const gradients *g, const gradients *one,
                              const gradients *reversed)
{
    size_t at = 0;
    for (size_t i = 0; i < g->n_tensors; at += g->size[i++]) {
        const double norm = distance(one->values + at, NULL, g->size[i]),
                     moved = distance(reversed->values + at, one->values + at, g->size[i]),
                     off = distance(g->values + at, one->values + at, g->size[i]);
        if (!CHECK(off <= 8 * moved + 1e-6 * norm))
            FAIL("%s on %s split %s: gradient %zu is off by %g of %g, and by %g in another order",
                 of->run->model, of->where.devices, of->where.split, i, off, norm, moved);
    }
}

static void same_gradients(test *t)
{
    const mix_list mixes = tested_mixes(cpu_mixes, N_MIXES);
    for (size_t i = 0; i < N_RUNS; i++) {
        gradients one, reversed, g;
        task of = {.run = &runs[i], .where = {"cpu", NULL}};
        const task other = {.run = &runs[i], .where = of.where, .reversed = true};
        const bool right = find_gradients(t, &of, &one);
        if (find_gradients(t, &other, &reversed) && right)
            for (size_t k = 0; k < mixes.n; k++) {
                of.where = mixes.items[k];
                if (find_gradients(t, &of, &g)) compare_gradients(t, &of, &g, &one, &reversed);
                free(g.values);
            }
        free(one.values);
        free(reversed.values);
    }
}

static bool train(test *t, const task *of, double *losses)
{
    session s;
    if (!may_begin(t, &s, of)) return false;
    const bool trained = session_train(t, &s, STEPS, losses);
    session_end(&s);
    return trained;
}

/* Losses of deterministic runs, which have the same bits on any devices, with chunks of a grain,
   and if activations are computed again. */
static void same_bits(test *t)
{
    const mix_list mixes = tested_mixes(cpu_mixes, N_MIXES);
    for (size_t i = 0; i < N_RUNS; i++) {
        double first[STEPS], other[STEPS];
        task of = {.run = &runs[i], .where = mixes.items[0], .deterministic = true};
        if (!train(t, &of, first)) continue;
        for (size_t k = 0; k < 2 * mixes.n; k++) {
            of.where = mixes.items[k / 2];
            of.logit_rows = k % 2 ? 1 : 0;
            of.recompute = k % 2 ? DPT_RECOMPUTE_ON : DPT_RECOMPUTE_OFF;
            if (train(t, &of, other) && !CHECK(memcmp(first, other, sizeof first) == 0))
                FAIL("%s on %s split %s, %zu rows of logits", of.run->model, of.where.devices,
                     of.where.split, of.logit_rows);
        }
    }
}

/* The losses of few rows of logits at a time are those of all at once, within rounding; those of
   recomputation have the same bits. */
static void chunks_and_recomputation(test *t)
{
    static const size_t rows[] = {1, 20, 255};
    for (size_t i = 0; i < N_RUNS; i++) {
        double first[STEPS], other[STEPS];
        task of = {.run = &runs[i], .where = {"cpu", NULL}};
        if (!train(t, &of, first)) continue;
        of.recompute = DPT_RECOMPUTE_ON;
        if (train(t, &of, other) && !CHECK(memcmp(first, other, sizeof first) == 0))
            FAIL("%s, computed again", of.run->model);
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            of.logit_rows = rows[k];
            if (!train(t, &of, other)) continue;
            for (size_t step = 0; step < STEPS; step++)
                if (!CHECK_NEAR(other[step], first[step], 1e-4))
                    FAIL("%s, %zu rows of logits, step %zu", of.run->model, rows[k], step);
        }
    }
}

/* Each multiplication by a matrix is counted for each token: forward, and twice in backward. */
static void counts_operations(test *t)
{
    const task of = {.run = &runs[0], .where = {"cpu:threads=1", NULL}};
    const double matrices = 4 * 12 * 32 * 32 + 61 * 32, tokens = BATCH * LENGTH;
    dpt_device_plan plan = {.size = sizeof plan};
    session s;
    if (!may_begin(t, &s, &of)) return;
    if (CHECK_OK(dpt_trainer_plan(s.trainer, 0, &plan)))
        CHECK(plan.flops >= 6 * matrices * tokens && plan.flops < 9 * matrices * tokens);
    session_end(&s);
}

/* The bytes of the device; 0 after a failure, whose status is *status. */
static size_t bytes_of(const task *of, dpt_status *status)
{
    session s = {0};
    *status = begin(&s, of);
    const size_t n = *status == DPT_OK ? dpt_trainer_device_bytes(s.trainer, 0) : 0;
    session_end(&s);
    return n;
}

/* A device that does not hold one sample computes activations again, unless that is off. */
static void recomputes_by_memory(test *t)
{
    char devices[64];
    dpt_status status;
    task of = {.run = &runs[0], .where = {"cpu:threads=1", NULL}, .micro_batch = 1};
    of.recompute = DPT_RECOMPUTE_ON;
    const size_t least = bytes_of(&of, &status);
    of.recompute = DPT_RECOMPUTE_AUTO;
    const size_t whole = bytes_of(&of, &status);
    if (!CHECK(least > 0 && least < whole)) return;
    snprintf(devices, sizeof devices, "cpu:threads=1:memory=%zu", least + (whole - least) / 4);
    of.where.devices = devices;
    CHECK_SIZE(bytes_of(&of, &status), least);
    CHECK_STATUS(status, DPT_OK);
    of.recompute = DPT_RECOMPUTE_OFF;
    (void)bytes_of(&of, &status);
    CHECK_STATUS(status, DPT_E_NO_MEMORY);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"logits are PyTorch's", logits},
        {"losses are PyTorch's on any devices", losses},
        {"gradients are those of one device", same_gradients},
        {"deterministic runs have the same bits on any devices", same_bits},
        {"chunks and recomputation change no result", chunks_and_recomputation},
        {"activations are computed again by memory", recomputes_by_memory},
        {"operations are counted for each token", counts_operations},
    };
    const int missing = tested_backend_missing();
    if (missing) return missing;
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
