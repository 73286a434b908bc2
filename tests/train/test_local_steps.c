/* Tests local steps: processes that take steps by themselves and join what has changed.  They are
   compared with a reference that is written plainly here: one trainer in one process for each
   group, on the group's part of the data, whose tensors are joined by loops. */
#include "harness.h"
#include "train/flat.h"
#include "train/local.h"
#include "train/processes.h"

#include <stdlib.h>
#include <string.h>

/* ---- The reference --------------------------------------------------------------------------- */

typedef struct group {
    dpt_dataset *data;
    dpt_device_set *devices;
    dpt_model *model;
    dpt_trainer *trainer;
    size_t samples; /* of the round */
} group;

typedef struct reference {
    const local_course *c;
    dpt_context *context;
    size_t n; /* groups */
    group groups[LOCAL_MOST];
    size_t firsts[LOCAL_MOST + 1]; /* devices */
    float **beginning, **velocity; /* (parameters) each has the elements of one */
    float *now[LOCAL_MOST];        /* of each group: one parameter's */
} reference;

static size_t samples_of(const reference *f, size_t g, size_t step)
{
    size_t n = 0;
    for (size_t i = f->firsts[g]; i < f->firsts[g + 1]; i++)
        n += f->c->shards[step][i];
    return n;
}

/* What group g gets of an epoch: its part of each batch. */
static dpt_status open_part(const reference *f, size_t g, const dpt_dataset *whole,
                            dpt_dataset **out)
{
    static uint8_t images[FLAT_COUNT * FLAT_PIXELS], labels[FLAT_COUNT];
    const size_t batch = f->c->options.batch_size;
    size_t n = 0;
    for (size_t step = 0; step * batch < f->c->count; step++) {
        size_t at = step * batch;
        for (size_t before = 0; before < g; before++)
            at += samples_of(f, before, step);
        for (size_t i = 0; i < samples_of(f, g, step); i++, n++, at++) {
            memcpy(images + n * FLAT_PIXELS, (const uint8_t *)whole->images + at * FLAT_PIXELS,
                   FLAT_PIXELS);
            labels[n] = (uint8_t)whole->labels[at];
        }
    }
    return flat_data_of(f->context, &(flat_images){n, images, labels}, out);
}

static dpt_status open_group(reference *f, size_t g, const dpt_dataset *whole)
{
    group *it = &f->groups[g];
    char list[256];
    dpt_trainer_options options = f->c->options;
    options.local_steps = 0;
    options.outer_lr = options.outer_momentum = 0;
    options.no_outer_momentum = false;
    options.batch_size = samples_of(f, g, 0);
    options.split = dpt_split_from("equal");
    stand_ins_devices(f->c->devices, g, list);
    DPT_TRY(open_part(f, g, whole, &it->data));
    DPT_TRY(dpt_device_set_open(f->context, list, &it->devices));
    DPT_TRY(flat_residual(f->context, &it->model));
    DPT_TRY(dpt_trainer_create(it->devices, it->model, it->data, &options, &it->trainer));
    return DPT_OK;
}

static dpt_status get(const reference *f, size_t g, dpt_tensor_kind kind, const dpti_parameter *p)
{
    return dpt_trainer_get(f->groups[g].trainer, 0, kind, p->name, f->now[g], p->size);
}

static dpt_status set_all(const reference *f, dpt_tensor_kind kind, const dpti_parameter *p,
                          const float *values)
{
    for (size_t g = 0; g < f->n; g++)
        DPT_TRY(dpt_trainer_set(f->groups[g].trainer, kind, p->name, values, p->size));
    return DPT_OK;
}

/* The parts of the groups in a mean. */
static void find_parts(const reference *f, float *parts)
{
    size_t total = 0;
    for (size_t g = 0; g < f->n; g++)
        total += f->groups[g].samples;
    for (size_t g = 0; g < f->n; g++)
        parts[g] = (float)((double)f->groups[g].samples / (double)total);
}

static dpt_status join_parameter(const reference *f, size_t i, const float *parts)
{
    const dpti_parameter *p = &f->groups[0].model->parameters[i];
    const dpt_trainer_options *o = &f->c->options;
    const float lr = o->outer_lr > 0 ? o->outer_lr : 0.7f;
    const float mu = o->no_outer_momentum ? 0 : o->outer_momentum > 0 ? o->outer_momentum : 0.9f;
    for (size_t g = 0; g < f->n; g++)
        DPT_TRY(get(f, g, DPT_PARAMETER, p));
    for (size_t e = 0; e < p->size; e++) {
        float d = 0;
        for (size_t g = 0; g < f->n; g++)
            if (parts[g] > 0) d += parts[g] * (f->beginning[i][e] - f->now[g][e]);
        if (dpti_is_statistic(p->role)) {
            f->beginning[i][e] -= d;
        } else {
            f->velocity[i][e] = mu * f->velocity[i][e] + d;
            f->beginning[i][e] -= lr * (d + mu * f->velocity[i][e]);
        }
    }
    return set_all(f, DPT_PARAMETER, p, f->beginning[i]);
}

static dpt_status join_moment(const reference *f, dpt_tensor_kind kind, const dpti_parameter *p,
                              const float *parts)
{
    for (size_t g = 0; g < f->n; g++)
        DPT_TRY(get(f, g, kind, p));
    for (size_t e = 0; e < p->size; e++) {
        float mean = 0;
        for (size_t g = 0; g < f->n; g++)
            if (parts[g] > 0) mean += parts[g] * f->now[g][e];
        f->now[0][e] = mean;
    }
    return set_all(f, kind, p, f->now[0]);
}

static dpt_status end_round(reference *f)
{
    const dpt_model *m = f->groups[0].model;
    float parts[LOCAL_MOST];
    find_parts(f, parts);
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        DPT_TRY(join_parameter(f, i, parts));
        if (dpti_is_statistic(p->role)) continue;
        DPT_TRY(join_moment(f, DPT_VELOCITY, p, parts));
        if (f->c->options.optimizer == DPT_OPTIMIZER_ADAMW)
            DPT_TRY(join_moment(f, DPT_SQUARES, p, parts));
    }
    for (size_t g = 0; g < f->n; g++)
        f->groups[g].samples = 0;
    return DPT_OK;
}

static dpt_status take_steps(reference *f)
{
    const size_t batch = f->c->options.batch_size, per_epoch = (f->c->count + batch - 1) / batch;
    dpt_step_metrics m = {.size = sizeof m};
    for (size_t step = 0; step < f->c->steps; step++) {
        const size_t of_epoch = step % per_epoch + 1;
        for (size_t g = 0; g < f->n; g++) {
            if (samples_of(f, g, step) == 0) continue;
            DPT_TRY(dpt_trainer_step(f->groups[g].trainer, &m));
            if (m.samples != samples_of(f, g, step)) return DPT_E_INTERNAL;
            f->groups[g].samples += m.samples;
        }
        if (of_epoch == per_epoch || of_epoch % f->c->options.local_steps == 0 ||
            step + 1 == f->c->steps)
            DPT_TRY(end_round(f));
    }
    return DPT_OK;
}

static dpt_status allocate(reference *f)
{
    const dpt_model *m = f->groups[0].model;
    f->beginning = calloc(m->n_parameters, sizeof *f->beginning);
    f->velocity = calloc(m->n_parameters, sizeof *f->velocity);
    for (size_t g = 0; g < f->n; g++) {
        f->now[g] = calloc(m->flat_size, sizeof(float));
        if (!f->now[g]) return DPT_E_NO_MEMORY;
    }
    for (size_t i = 0; f->beginning && f->velocity && i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        f->beginning[i] = calloc(p->size, sizeof(float));
        f->velocity[i] = calloc(p->size, sizeof(float));
        if (!f->beginning[i] || !f->velocity[i]) return DPT_E_NO_MEMORY;
        DPT_TRY(dpt_trainer_get(f->groups[0].trainer, 0, DPT_PARAMETER, p->name, f->beginning[i],
                                p->size));
    }
    return f->beginning && f->velocity ? DPT_OK : DPT_E_NO_MEMORY;
}

/* The devices of each group, which are counted before anybody's samples are. */
static void count_devices(reference *f)
{
    char list[256];
    for (size_t g = 0; g < f->n; g++) {
        f->firsts[g + 1] = f->firsts[g] + 1;
        stand_ins_devices(f->c->devices, g, list);
        for (const char *c = list; *c; c++)
            f->firsts[g + 1] += *c == ',';
    }
}

static dpt_status refer(reference *f, local_state *out)
{
    dpt_dataset *whole = NULL;
    count_devices(f);
    dpt_status status = flat_data(f->context, f->c->count, 0, &whole);
    for (size_t g = 0; status == DPT_OK && g < f->n; g++)
        status = open_group(f, g, whole);
    if (status == DPT_OK) status = allocate(f);
    if (status == DPT_OK) status = take_steps(f);
    if (status == DPT_OK) status = local_note_state(f->groups[0].trainer, out);
    dpt_dataset_destroy(whole);
    return status;
}

static void close_reference(reference *f)
{
    const size_t n = f->groups[0].model ? f->groups[0].model->n_parameters : 0;
    for (size_t i = 0; i < n; i++) {
        if (f->beginning) free(f->beginning[i]);
        if (f->velocity) free(f->velocity[i]);
    }
    free(f->beginning);
    free(f->velocity);
    for (size_t g = 0; g < f->n; g++) {
        free(f->now[g]);
        dpt_trainer_destroy(f->groups[g].trainer);
        dpt_model_destroy(f->groups[g].model);
        dpt_device_set_close(f->groups[g].devices);
        dpt_dataset_destroy(f->groups[g].data);
    }
    dpt_context_destroy(f->context);
}

/* Trains, and compares all processes with the reference, to the bit. */
static void check_refers(test *t, local_course c)
{
    local_state wanted = {.velocity = NULL};
    reference f = {.c = &c, .n = stand_ins_count(c.devices)};
    if (local_trains(t, &c) && CHECK_OK(dpt_context_create(&f.context))) {
        if (!CHECK_OK(refer(&f, &wanted))) FAIL("%s", dpt_error_message(f.context));
        local_check_processes_agree(t, &c);
        free(c.states[0].velocity); /* the reference has it tensor by tensor */
        c.states[0].velocity = NULL;
        local_check_same(t, &c.states[0], &wanted);
    }
    close_reference(&f);
    local_forget_state(&wanted);
    local_forget(&c);
}

static void as_reference(test *t)
{
    for (size_t h = 1; h <= 5; h += 2) {
        check_refers(t, local_with(LOCAL_TWO, h));
        check_refers(t, local_with(LOCAL_UNEQUAL, h));
    }
}

static void as_reference_adamw(test *t)
{
    local_course c = local_with(LOCAL_TWO, 4);
    c.split = "3:1";
    c.options.optimizer = DPT_OPTIMIZER_ADAMW;
    c.options.lr = 1e-3f;
    c.options.momentum = 0;
    c.options.clip_norm = 0.5f;
    check_refers(t, c);
    c.options.outer_lr = 1;
    c.options.no_outer_momentum = true;
    check_refers(t, c);
}

/* A process without samples in a step keeps its weights in this step, the last of an epoch, which
   is in a round with another one. */
static void without_samples(test *t)
{
    local_course c = local_with(LOCAL_TWO, 3);
    c.count = 4 * FLAT_BATCH + 1;
    c.options.outer_momentum = 0.5f;
    check_refers(t, c);
}

static void with_statistics_of_each_device(test *t)
{
    local_course c = local_with(LOCAL_UNEQUAL, 3);
    c.options.batch_norm = DPT_BATCH_NORM_LOCAL;
    check_refers(t, c);
}

/* ---- One step -------------------------------------------------------------------------------- */

static void one_step_is_synchronous(test *t)
{
    local_course a = local_with(LOCAL_UNEQUAL, 0), b = local_with(LOCAL_UNEQUAL, 1),
                 c = local_with(LOCAL_UNEQUAL, 1);
    b.options.outer_lr = c.options.outer_lr = 1;
    b.options.no_outer_momentum = true;
    if (local_trains(t, &a) && local_trains(t, &b) && local_trains(t, &c)) {
        local_check_same(t, &a.states[0], &b.states[0]);
        local_check_same(t, &a.states[1], &b.states[1]);
        CHECK(memcmp(a.losses, b.losses, sizeof a.losses) == 0);
        CHECK(local_count_differences(&a.states[0], &c.states[0]) > 0);
    }
    local_forget(&a);
    local_forget(&b);
    local_forget(&c);
}

/* The end of a round takes time, which is told with its last step and no other. */
static void rounds_are_told(test *t)
{
    local_course c = local_with(LOCAL_TWO, 3);
    if (local_trains(t, &c))
        for (size_t s = 0; s < c.steps; s++) {
            const size_t of_epoch = s % LOCAL_PER_EPOCH + 1;
            CHECK((c.round_seconds[s] > 0) == (of_epoch % 3 == 0 || of_epoch == LOCAL_PER_EPOCH));
        }
    local_forget(&c);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"as the reference", as_reference},
        {"as the reference, with AdamW", as_reference_adamw},
        {"as the reference, a process without samples", without_samples},
        {"as the reference, statistics of each device", with_statistics_of_each_device},
        {"one step is synchronous", one_step_is_synchronous},
        {"rounds are told", rounds_are_told},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
