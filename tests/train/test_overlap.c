/* Gradients that are exchanged while backward goes on: a bucket holds what is written when its
   segment ends and is not touched afterwards, and training is the same to the bit as with one
   exchange at the end. */
#include "dptrain_models.h"
#include "harness.h"
#include "train/flat.h"
#include "train/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scene {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *mlp, *residual;
} scene;

/* ---- Programs -------------------------------------------------------------------------------- */

static bool writes(const dpti_program *p, size_t instruction, size_t offset)
{
    for (size_t s = 0; s < DPT_MAX_OUTPUTS; s++) {
        const int out = p->instructions[instruction].out[s];
        if (out != DPTI_NO_TENSOR && p->tensors[out].home == DPTI_HOME_GRADIENTS &&
            p->tensors[out].offset == offset)
            return true;
    }
    return false;
}

/* The gradients of [begin, end) are written before instruction `at`, and none of them from there on
   up to the commit. */
static size_t count_misplaced(const dpt_model *m, const dpti_program *p, const dpti_segment *bucket)
{
    const size_t at = bucket->last, all = p->segments[p->n_segments - 1].first;
    size_t n = 0;
    for (size_t i = 0; i < m->n_parameters; i++) {
        const size_t offset = m->parameters[i].offset;
        size_t before = 0, after = 0;
        if (offset < bucket->begin || offset >= bucket->end) continue;
        for (size_t k = 0; k < all; k++) {
            before += k < at && writes(p, k, offset);
            after += k >= at && writes(p, k, offset);
        }
        n += before != 1 || after != 0;
    }
    return n;
}

/* How many buckets there are. */
static size_t check_program(test *t, const dpt_model *m, size_t n_parts, size_t least)
{
    dpti_program p;
    dpt_error error;
    dpt_dataset data = {.count = 1, .n_records = 1, .classes = 10, .stat_channels = 1};
    const dpti_program_options options = {
        .data = &data, .purpose = DPTI_PURPOSE_TRAIN, .n_parts = n_parts, .least_bucket = least};
    size_t n = 0, end = m->flat_weights;
    data.height = m->nodes[m->input].extent.h;
    data.width = m->nodes[m->input].extent.w;
    data.channels = m->nodes[m->input].extent.c;
    if (!CHECK_OK(dpti_compile(m, &options, &p, &error))) return 0;
    for (size_t i = 0; i < p.n_segments; i++) {
        const dpti_segment *s = &p.segments[i];
        if (s->exchange != DPTI_EXCHANGE_BUCKET) continue;
        CHECK_SIZE(s->end, end);
        CHECK(s->begin > 0 && s->end - s->begin >= least);
        if (!CHECK_SIZE(count_misplaced(m, &p, s), 0))
            FAIL("model %s, bucket %zu: not what is written then", m->name, n);
        end = s->begin;
        n++;
    }
    dpti_program_free(&p);
    return n;
}

static void buckets_hold_what_is_written(test *t)
{
    scene *s = t->user;
    const dpt_model_shape shape = {28, 28, 1, 10};
    size_t n, n_models = 0;
    for (const char *const *name = dpt_model_names(); *name; name++) {
        dpt_model *m = NULL;
        if (dpt_model_by_name(s->context, *name, &shape, &m) != DPT_OK)
            continue; /* larger images */
        n_models++;
        n = check_program(t, m, 1, 1);
        CHECK(strcmp(*name, "linear") == 0 ? n == 0 : n > 0);
        CHECK_SIZE(check_program(t, m, 3, 1), n);
        CHECK_SIZE(check_program(t, m, 1, 0), 0);
        n = check_program(t, m, 2, 65536);
        if (strcmp(*name, "resnet18") == 0) CHECK(n >= 4 && n <= 12);
        if (strcmp(*name, "lenet") == 0) CHECK(n <= 1);
        dpt_model_destroy(m);
    }
    CHECK(n_models >= 4);
    CHECK(check_program(t, s->residual, 2, 1) > 3);
}

/* ---- Training -------------------------------------------------------------------------------- */

static bool run(test *t, scene *s, const flat_task *task, flat_outcome *out)
{
    if (CHECK_OK(flat_run(s->context, task, out))) return true;
    FAIL("%s split %s: %s", task->devices, task->split, dpt_error_message(s->context));
    return false;
}

static void check_same(test *t, scene *s, flat_task task)
{
    const size_t n_bytes = task.model->flat_size * sizeof(float);
    flat_outcome off = {.weights = NULL}, on = {.weights = NULL};
    task.no_overlap = true;
    const bool first = run(t, s, &task, &off);
    task.no_overlap = false;
    task.bucket_bytes = 1;
    if (first && run(t, s, &task, &on)) {
        const bool same = memcmp(off.weights, on.weights, n_bytes) == 0 &&
                          memcmp(off.gradients, on.gradients, n_bytes) == 0 &&
                          memcmp(off.losses, on.losses, sizeof off.losses) == 0;
        if (!CHECK(same) || !CHECK(on.replicas_agree))
            FAIL("model %s on %s split %s", task.model->name, task.devices, task.split);
    }
    flat_free(&off);
    flat_free(&on);
}

#define ONE "cpu:threads=1"

static void the_same_to_the_bit(test *t)
{
    scene *s = t->user;
    static const struct {
        const char *devices, *split;
        size_t micro_batch;
    } cases[] = {
        {ONE "," ONE, "equal", 0},
        {"cpu:threads=2," ONE, "5:1", 0},
        {ONE "," ONE "," ONE, "3:0:2", 0},
        {ONE "," ONE "," ONE, "0:0:1", 0},
        {ONE ",cpu:threads=1:throttle=3", "1:1", 0}, /* one waits for the other in every bucket */
        {ONE ",faultstaged:threads=1", "2:3", 0},
        {"faultstaged:threads=1,faultstaged:threads=1", "1:0", 0},
        {ONE "," ONE, "3:1", 4}, /* in passes: several for the first, two for the second */
        {ONE "|" ONE, "equal", 0},
        {ONE "," ONE "|" ONE, "1:2:3", 0},
        {ONE "|" ONE "," ONE "|" ONE, "0:2:3:1", 0},
        {ONE "|faultstaged:threads=1", "0:1", 0},
        {ONE "," ONE "|" ONE, "3:1:1", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flat_task task = {.model = s->residual,
                          .data = s->data,
                          .devices = cases[i].devices,
                          .split = cases[i].split,
                          .batch = FLAT_BATCH,
                          .micro_batch = cases[i].micro_batch,
                          .steps = 4};
        check_same(t, s, task);
        task.mode = DPT_BATCH_NORM_LOCAL;
        check_same(t, s, task);
        task.model = s->mlp;
        check_same(t, s, task);
    }
}

/* ---- Setting up ------------------------------------------------------------------------------ */

static dpt_status make_mlp(dpt_context *context, dpt_model **out)
{
    const dpt_model_shape shape = {FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS, FLAT_CLASSES};
    return dpt_model_by_name(context, "mlp", &shape, out);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a bucket holds what is written", buckets_hold_what_is_written},
        {"training is the same to the bit", the_same_to_the_bit},
    };
    scene s = {.context = NULL};
    int code = 1;
    add_fault_plugins();
    if (dpt_context_create(&s.context) == DPT_OK &&
        flat_data(s.context, FLAT_COUNT, 0, &s.data) == DPT_OK &&
        make_mlp(s.context, &s.mlp) == DPT_OK && flat_residual(s.context, &s.residual) == DPT_OK)
        code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    dpt_model_destroy(s.residual);
    dpt_model_destroy(s.mlp);
    dpt_dataset_destroy(s.data);
    dpt_context_destroy(s.context);
    return code;
}
