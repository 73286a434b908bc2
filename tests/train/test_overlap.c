/* Tests the exchange of gradients during the backward pass: a bucket holds gradients that are
   complete when its segment ends and are not changed afterwards, the slices of a layer's gradient
   make up all of it, and training is the same to the bit as with one exchange at the end. */
#include "device/signature.h"
#include "dptrain_models.h"
#include "harness.h"
#include "train/flat.h"
#include "train/processes.h"
#include "train/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scene {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *mlp, *residual, *uneven;
} scene;

/* ---- Programs -------------------------------------------------------------------------------- */

/* What instructions [first, last) write of gradients [begin, end), one count an element, added to
   `count` (end - begin). */
static void count_written(const dpti_program *p, size_t first, size_t last,
                          const dpti_segment *bucket, unsigned char *count)
{
    for (size_t k = first; k < last; k++) {
        const dpti_instruction *i = &p->instructions[k];
        dpti_signature signature = {.n_out = 0};
        if (dpti_op_signature(&i->desc, &signature, NULL) != DPT_OK) continue;
        for (size_t s = 0; s < signature.n_out; s++) {
            const dpti_program_tensor *out = &p->tensors[i->out[s]];
            const size_t begin = out->offset, end = begin + signature.out[s].fixed;
            if (out->home != DPTI_HOME_GRADIENTS) continue;
            for (size_t e = begin < bucket->begin ? bucket->begin : begin;
                 e < end && e < bucket->end; e++)
                count[e - bucket->begin]++;
        }
    }
}

/* Parameters of which something in [begin, end) is not written once before the segment's end, and
   never from there on up to the commit. */
static size_t count_misplaced(const dpt_model *m, const dpti_program *p, const dpti_segment *bucket)
{
    const size_t at = bucket->last, all = p->segments[p->n_segments - 1].first;
    const size_t size = bucket->end - bucket->begin;
    unsigned char *before = calloc(size, 1), *after = calloc(size, 1);
    size_t n = 0;
    if (!before || !after) abort();
    count_written(p, 0, at, bucket, before);
    count_written(p, at, all, bucket, after);
    for (size_t i = 0; i < m->n_parameters; i++) {
        const size_t offset = m->parameters[i].offset;
        size_t wrong = 0;
        for (size_t e = offset; e < offset + m->parameters[i].size; e++)
            wrong += e >= bucket->begin && e < bucket->end &&
                     (before[e - bucket->begin] != 1 || after[e - bucket->begin] != 0);
        n += wrong > 0;
    }
    free(before);
    free(after);
    return n;
}

static bool compile(test *t, const dpt_model *m, dpti_program_options options, dpti_program *p)
{
    dpt_error error;
    dpt_dataset data = {.count = 1, .n_records = 1, .classes = 10, .stat_channels = 1};
    data.height = m->nodes[m->input].extent.h;
    data.width = m->nodes[m->input].extent.w;
    data.channels = m->nodes[m->input].extent.c;
    options.data = &data;
    options.purpose = DPTI_PURPOSE_TRAIN;
    return CHECK_OK(dpti_compile(m, &options, p, &error));
}

/* How many buckets there are, none of which is smaller than `least`. */
static size_t check_cuts(test *t, const dpt_model *m, const dpti_program_options *options,
                         size_t least)
{
    dpti_program p;
    size_t n = 0, end = m->flat_weights;
    if (!compile(t, m, *options, &p)) return 0;
    const dpti_segment everything = {
        .begin = 0, .end = m->flat_trained, .last = p.segments[p.n_segments - 1].first};
    CHECK_SIZE(count_misplaced(m, &p, &everything), 0);
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

static size_t check_program(test *t, const dpt_model *m, size_t n_parts, size_t least)
{
    const dpti_program_options options = {
        .n_parts = n_parts, .holds_filters = true, .least_bucket = least};
    return check_cuts(t, m, &options, least);
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

/* Of these sizes, elements, whatever slices are made by. */
static size_t count_chosen(test *t, const dpt_model *m, size_t first, size_t others)
{
    const dpti_program_options options = {.least_bucket = 65536, .buckets = {first, others}};
    return check_cuts(t, m, &options, first / 2);
}

static void buckets_have_the_sizes_chosen(test *t)
{
    scene *s = t->user;
    const dpt_model_shape shape = {28, 28, 1, 10};
    dpt_model *m = NULL;
    if (!CHECK_OK(dpt_model_by_name(s->context, "resnet18", &shape, &m))) return;
    const size_t whole = m->flat_weights;
    const size_t few = count_chosen(t, m, whole / 2, whole / 2);
    const size_t some = count_chosen(t, m, 65536, whole / 4);
    const size_t many = count_chosen(t, m, 16384, whole / 32);
    CHECK(few >= 1 && few <= 2 && some >= 4 && many > some && many <= 40);
    CHECK_SIZE(count_chosen(t, m, 2 * whole, 2 * whole), 0);
    dpt_model_destroy(m);
    /* fc2 has four slices and fc1 two, of which the last has nothing behind it: each a bucket; or
       the first, then two, then one, which is as near to the 196 608 weights of fc1 as it gets. */
    CHECK_SIZE(count_chosen(t, s->mlp, 16384, 16384), 5);
    CHECK_SIZE(count_chosen(t, s->mlp, 16384, 2 * 1024 * 256), 4);
}

/* ---- Slices ---------------------------------------------------------------------------------- */

/* Sizes that slices do not divide, and a layer without bias. */
static dpt_status make_uneven(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "uneven", out));
    dpt_model *m = *out;
    const dpt_linear_options few = {.size = sizeof few, .out = 400, .activation = DPT_ACT_RELU};
    const dpt_linear_options many = {
        .size = sizeof many, .out = 1000, .no_bias = true, .activation = DPT_ACT_RELU};
    dpt_value x = dpt_flatten(m, dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS));
    x = dpt_linear(m, dpt_linear(m, x, "few", &few), "many", &many);
    return dpt_model_finish(m, dpt_linear(m, x, "last",
                                          &(dpt_linear_options){.size = sizeof(dpt_linear_options),
                                                                .out = FLAT_CLASSES}));
}

/* In how many instructions a layer's weights' gradient is computed; CHECKs that each begins at an
   aligned row, and that the last rows come first. */
static size_t count_slices(test *t, const dpti_program *p, const char *layer)
{
    size_t n = 0, last = SIZE_MAX;
    for (size_t i = 0; i < p->n_instructions; i++) {
        const dpti_instruction *k = &p->instructions[i];
        if (k->desc.kind != DPT_OP_LINEAR_BACKWARD_WEIGHTS || strcmp(k->layer, layer) != 0)
            continue;
        CHECK(k->desc.u.linear.first < last && k->desc.u.linear.first % 64 == 0);
        CHECK(k->desc.u.linear.rows == 0 || dpt_linear_rows(&k->desc.u.linear) >= 100);
        last = k->desc.u.linear.first;
        n++;
    }
    return n;
}

static void check_slices(test *t, const dpt_model *m, const char *layer, size_t expected)
{
    const dpti_program_options cases[] = {
        {.least_bucket = 1},
        {.least_bucket = 1, .exchange_at_end = true},
        {.least_bucket = 1, .buckets = {1, 1}},
        {.least_bucket = 1, .buckets = {SIZE_MAX / 8, SIZE_MAX / 8}},
        {.least_bucket = SIZE_MAX / 8},
        {.least_bucket = 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpti_program p;
        if (!compile(t, m, cases[i], &p)) return;
        if (!CHECK_SIZE(count_slices(t, &p, layer), i < 4 ? expected : 1))
            FAIL("model %s, layer %s, case %zu", m->name, layer, i);
        dpti_program_free(&p);
    }
}

/* Only what is larger than the least size, only where there is an exchange, whenever and in however
   large buckets that is. */
static void large_layers_are_sliced(test *t)
{
    scene *s = t->user;
    check_slices(t, s->mlp, "fc2", 4);
    check_slices(t, s->mlp, "fc1", 2);
    check_slices(t, s->mlp, "fc3", 1);
    check_slices(t, s->uneven, "many", 4);
    check_slices(t, s->uneven, "few", 2);
    check_slices(t, s->uneven, "last", 1);
}

/* Programs with slices compute what those without do: in double precision, to the bit. */
static void slices_make_the_whole(test *t)
{
    scene *s = t->user;
    const dpt_model *models[] = {s->mlp, s->uneven};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const flat_task task = {.model = models[i], .data = s->data, .batch = 5};
        interpreter whole = {.model = NULL}, sliced = {.model = NULL};
        const size_t shards[] = {3, 2};
        REQUIRE(flat_interpret(&task, 2, shards, &whole));
        flat_task other = task;
        other.bucket_bytes = 1;
        REQUIRE(flat_interpret(&other, 2, shards, &sliced));
        CHECK(sliced.program.n_instructions > whole.program.n_instructions + 3);
        CHECK(memcmp(whole.gradients, sliced.gradients,
                     models[i]->flat_size * sizeof *whole.gradients) == 0);
        interpreter_free(&sliced);
        interpreter_free(&whole);
    }
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
        {ONE "," ONE, "3:1", 4}, /* in micro-batches: several for the first, two for the second */
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

/* Buckets of sizes that were measured against those that were asked for. */
static void sizes_change_no_bits(test *t)
{
    scene *s = t->user;
    static const struct {
        const char *devices, *split;
        bool measured;
    } cases[] = {
        {ONE "," ONE, "1:2", false}, /* nothing travels */
        {ONE "|" ONE, "1:2", true},
        {ONE "," ONE "|" ONE "|" ONE, "1:2:0:3", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flat_task task = {.model = s->mlp,
                          .data = s->data,
                          .devices = cases[i].devices,
                          .split = cases[i].split,
                          .batch = FLAT_BATCH,
                          .steps = 3};
        const size_t n_bytes = task.model->flat_size * sizeof(float);
        flat_outcome chosen = {.weights = NULL}, given = {.weights = NULL};
        const bool first = run(t, s, &task, &chosen);
        task.bucket_bytes = 256 * 1024;
        if (first && run(t, s, &task, &given)) {
            CHECK(chosen.link_probe.done == cases[i].measured &&
                  given.link_probe.done == cases[i].measured);
            CHECK(chosen.choices_agree && chosen.replicas_agree && given.buckets.first == 0);
            CHECK((chosen.buckets.first >= 16384) == cases[i].measured);
            CHECK(chosen.buckets.others >= chosen.buckets.first);
            if (!CHECK(memcmp(chosen.weights, given.weights, n_bytes) == 0) ||
                !CHECK(memcmp(chosen.losses, given.losses, sizeof given.losses) == 0))
                FAIL("%s", task.devices);
        }
        flat_free(&given);
        flat_free(&chosen);
    }
}

/* One that compresses has bits that cuts change: sizes are those that the model alone tells, and a
   model without anything to cut is not held up. */
static void sizes_are_left_alone(test *t)
{
    scene *s = t->user;
    flat_outcome out = {.weights = NULL};
    flat_task task = {.model = s->mlp,
                      .data = s->data,
                      .devices = ONE "|" ONE,
                      .compress = DPT_COMPRESS_BF16,
                      .batch = FLAT_BATCH,
                      .steps = 1};
    if (run(t, s, &task, &out)) CHECK(out.link_probe.done && out.buckets.first == 0);
    flat_free(&out);
    task.compress = DPT_COMPRESS_NONE;
    task.no_overlap = true;
    if (run(t, s, &task, &out)) CHECK(out.link_probe.done && out.buckets.first == 0);
    flat_free(&out);
    task.no_overlap = false;
    task.model = s->residual;
    if (run(t, s, &task, &out)) CHECK(!out.link_probe.done && out.buckets.first == 0);
    flat_free(&out);
}

/* Creating a trainer ends in every process, and says why, whenever it happens. */
static void the_transport_fails_meanwhile(test *t)
{
    scene *s = t->user;
    size_t n_failed = 0;
    const flat_task task = {
        .model = s->mlp, .data = s->data, .devices = ONE "|" ONE "|" ONE, .batch = FLAT_BATCH};
    for (size_t after = 0; after < 300; after++) {
        flat_outcome out;
        stand_ins_fail(1, after);
        const dpt_status status = flat_run(s->context, &task, &out);
        stand_ins_fail(0, SIZE_MAX);
        flat_free(&out);
        if (status == DPT_OK) break;
        n_failed++;
        if (!CHECK(strstr(dpt_error_message(s->context), "is cut")))
            FAIL("after %zu: %s", after, dpt_error_message(s->context));
    }
    /* Seven sums of several messages, and votes; more where sums are fast, which are repeated. */
    CHECK(n_failed > 20 && n_failed < 300);
}

/* One step, whose gradients are computed in slices, against one device alone, whose are not: as
   test_mix.c has it. */
static void slices_are_within_rounding(test *t)
{
    enum { MAX_PARAMETERS = 8 };
    scene *s = t->user;
    static const struct {
        const char *devices, *split;
        size_t micro_batch;
    } cases[] = {
        {ONE "," ONE, "5:1", 0},
        {ONE ",cpu:threads=2", "1:2", 0},
        {ONE "," ONE "," ONE, "0:0:1", 0},
        {ONE ",faultstaged:threads=1", "2:3", 4},
        {ONE "|" ONE, "3:1", 0},
        {ONE "," ONE "|" ONE, "1:2:3", 5},
        {"cpu:threads=1:algorithm=packed|cpu:threads=1:algorithm=blas", "1:2", 0},
    };
    const dpt_model *models[] = {s->mlp, s->uneven};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        double errors[MAX_PARAMETERS];
        interpreter reference = {.model = NULL};
        flat_outcome one = {.weights = NULL};
        flat_task task = {
            .model = models[m], .data = s->data, .devices = ONE, .batch = FLAT_BATCH, .steps = 1};
        REQUIRE(flat_interpret(&task, 1, (const size_t[]){FLAT_BATCH}, &reference));
        if (run(t, s, &task, &one))
            flat_errors(models[m], one.gradients, reference.gradients, errors);
        flat_free(&one);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            flat_outcome all = {.weights = NULL};
            const char *worst = "";
            task.devices = cases[i].devices;
            task.split = cases[i].split;
            task.micro_batch = cases[i].micro_batch;
            if (run(t, s, &task, &all) &&
                (!CHECK(flat_gradients_agree(models[m], all.gradients, reference.gradients, errors,
                                             &worst)) ||
                 !CHECK(all.replicas_agree)))
                FAIL("model %s on %s split %s: %s", models[m]->name, task.devices, task.split,
                     worst);
            flat_free(&all);
        }
        interpreter_free(&reference);
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
        {"buckets have the sizes chosen", buckets_have_the_sizes_chosen},
        {"large layers are sliced", large_layers_are_sliced},
        {"slices make the whole", slices_make_the_whole},
        {"training is the same to the bit", the_same_to_the_bit},
        {"sizes change no bits", sizes_change_no_bits},
        {"sizes are left alone", sizes_are_left_alone},
        {"the transport fails meanwhile", the_transport_fails_meanwhile},
        {"slices are within rounding", slices_are_within_rounding},
    };
    scene s = {.context = NULL};
    int code = 1;
    add_fault_plugins();
    if (dpt_context_create(&s.context) == DPT_OK &&
        flat_data(s.context, FLAT_COUNT, 0, &s.data) == DPT_OK &&
        make_mlp(s.context, &s.mlp) == DPT_OK && make_uneven(s.context, &s.uneven) == DPT_OK &&
        flat_residual(s.context, &s.residual) == DPT_OK)
        code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    dpt_model_destroy(s.residual);
    dpt_model_destroy(s.uneven);
    dpt_model_destroy(s.mlp);
    dpt_dataset_destroy(s.data);
    dpt_context_destroy(s.context);
    return code;
}
