/* Tests local steps: processes that take steps by themselves and join what has changed.  They are
   compared with a reference that is written plainly here: one trainer in one process for each
   group, on the group's part of the data, whose tensors are joined by loops. */
#include "harness.h"
#include "train/flat.h"
#include "train/local.h"
#include "train/processes.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"

#include <stdlib.h>
#include <string.h>

/* ---- The reference --------------------------------------------------------------------------- */

enum { MOST_FRAGMENTS = 5 };

typedef struct group {
    dpt_dataset *data;
    dpt_device_set *devices;
    dpt_model *model;
    dpt_trainer *trainer;
    size_t samples[MOST_FRAGMENTS]; /* since each fragment was exchanged */
    size_t since;                   /* since all groups had one state */
} group;

typedef struct reference {
    const local_course *c;
    dpt_context *context;
    size_t n; /* groups */
    group groups[LOCAL_MOST];
    size_t firsts[LOCAL_MOST + 1]; /* devices */
    /* (flat_size) each: */
    float *beginning, *velocity, *mean;
    float *now[LOCAL_MOST], *residual[LOCAL_MOST]; /* of each group */
    /* With an outer delay: the mean that travels, and what each group had when it left. */
    bool in_flight;
    size_t fragment, left; /* which; behind which step of the epoch */
    float *travelling, *noted[LOCAL_MOST];
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
    options.compress = DPT_COMPRESS_NONE;
    options.outer_lr = options.outer_momentum = 0;
    options.outer_delay = options.outer_fragments = 0;
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

static size_t count_fragments(const reference *f)
{
    const size_t n = f->c->options.outer_fragments;
    return n > 1 ? n : 1;
}

/* The elements [begin, end) of fragment k. */
typedef struct elements {
    size_t begin, end;
} elements;

static elements find_fragment(const reference *f, size_t k)
{
    const size_t n = f->groups[0].model->flat_trained, each = n / count_fragments(f);
    const size_t begin = each * k / 64 * 64, end = each * (k + 1) / 64 * 64;
    return (elements){begin, k + 1 == count_fragments(f) ? n : end};
}

/* The parts of the groups in a mean, by these samples of each.  False: there are none. */
static bool find_parts(const reference *f, const size_t samples[LOCAL_MOST], float *parts)
{
    size_t total = 0;
    for (size_t g = 0; g < f->n; g++)
        total += samples[g];
    for (size_t g = 0; total > 0 && g < f->n; g++)
        parts[g] = (float)((double)samples[g] / (double)total);
    return total > 0;
}

static bool find_fragment_parts(const reference *f, size_t k, float *parts)
{
    size_t samples[LOCAL_MOST];
    for (size_t g = 0; g < f->n; g++)
        samples[g] = f->groups[g].samples[k];
    return find_parts(f, samples, parts);
}

/* What group g contributes of elements [begin, end) as the others get it.  `owed` is NULL if
   nothing is kept of what rounding drops. */
static void round_part(const dpti_packing *packing, float *part, float *owed, size_t n)
{
    packing->pack(part, owed, owed, n);
    packing->unpack(part, n);
}

/* A slice of these elements of the mean is summed by group `owner`; `packing` NULL: as float32. */
static void sum_slice(const reference *f, elements of, const float *parts,
                      const dpti_packing *packing, bool keeps, size_t owner)
{
    const size_t lines = (of.end - of.begin + 15) / 16;
    const size_t begin = of.begin + lines * owner / f->n * 16;
    const size_t all = of.begin + lines * (owner + 1) / f->n * 16;
    const size_t end = all < of.end ? all : of.end;
    memset(f->mean + begin, 0, (end - begin) * sizeof *f->mean);
    for (size_t g = 0; g < f->n; g++) {
        if (parts[g] == 0) continue;
        float *owed = keeps ? f->residual[g] + begin : NULL;
        if (packing && g != owner) round_part(packing, f->now[g] + begin, owed, end - begin);
        for (size_t i = begin; i < end; i++)
            f->mean[i] += f->now[g][i];
    }
    if (packing)
        round_part(packing, f->mean + begin, keeps ? f->residual[owner] + begin : NULL,
                   end - begin);
}

/* The mean of what has changed in a fragment. */
static dpt_status find_mean_of_changes(const reference *f, size_t k, const float *parts)
{
    const elements of = find_fragment(f, k);
    for (size_t g = 0; g < f->n; g++) {
        DPT_TRY(dpti_trainer_read(f->groups[g].trainer, 0, DPT_PARAMETER, f->now[g]));
        for (size_t i = of.begin; i < of.end; i++)
            f->now[g][i] = parts[g] * (f->beginning[i] - f->now[g][i]);
    }
    for (size_t owner = 0; owner < f->n; owner++)
        sum_slice(f, of, parts, dpti_packing_of(f->c->options.compress), true, owner);
    return DPT_OK;
}

/* The mean of a buffer of the optimizer. */
static dpt_status find_mean(const reference *f, dpt_tensor_kind kind, const float *parts)
{
    const dpt_model *m = f->groups[0].model;
    const elements all = {0, m->flat_trained};
    const bool packs = f->c->options.compress != DPT_COMPRESS_NONE;
    for (size_t g = 0; g < f->n; g++) {
        DPT_TRY(dpti_trainer_read(f->groups[g].trainer, 0, kind, f->now[g]));
        for (size_t i = 0; i < m->flat_size; i++)
            f->now[g][i] *= parts[g];
    }
    for (size_t owner = 0; owner < f->n; owner++)
        sum_slice(f, all, parts, packs ? &dpti_packing_bf16 : NULL, false, owner);
    for (size_t i = m->flat_trained; i < m->flat_size; i++) {
        f->mean[i] = 0;
        for (size_t g = 0; g < f->n; g++)
            if (parts[g] > 0) f->mean[i] += f->now[g][i];
    }
    return DPT_OK;
}

/* Replaces the running statistics in the mean. */
static dpt_status find_mean_of_statistics(const reference *f, const float *parts)
{
    const dpt_model *m = f->groups[0].model;
    memset(f->mean + m->flat_trained, 0, (m->flat_size - m->flat_trained) * sizeof *f->mean);
    for (size_t g = 0; g < f->n; g++) {
        DPT_TRY(dpti_trainer_read(f->groups[g].trainer, 0, DPT_PARAMETER, f->now[g]));
        for (size_t i = m->flat_trained; parts[g] > 0 && i < m->flat_size; i++)
            f->mean[i] += parts[g] * (f->beginning[i] - f->now[g][i]);
    }
    return DPT_OK;
}

static dpt_status set_all(const reference *f, dpt_tensor_kind kind, const float *values)
{
    for (size_t g = 0; g < f->n; g++)
        DPT_TRY(dpti_trainer_write_all(f->groups[g].trainer, kind, values));
    return DPT_OK;
}

static void join_elements(const reference *f, elements of, const float *mean)
{
    const dpt_trainer_options *o = &f->c->options;
    const float lr = o->outer_lr > 0 ? o->outer_lr : 0.7f;
    const float mu = o->no_outer_momentum ? 0 : o->outer_momentum > 0 ? o->outer_momentum : 0.9f;
    for (size_t e = of.begin; e < of.end; e++) {
        f->velocity[e] = mu * f->velocity[e] + mean[e];
        f->beginning[e] -= lr * (mean[e] + mu * f->velocity[e]);
    }
}

static dpt_status join_moments(const reference *f, dpt_tensor_kind kind, const float *parts)
{
    DPT_TRY(find_mean(f, kind, parts));
    return set_all(f, kind, f->mean);
}

/* A fragment is exchanged while steps go on. */
static dpt_status leave(reference *f, size_t k, size_t of_epoch)
{
    const dpt_model *m = f->groups[0].model;
    float parts[LOCAL_MOST];
    if (!find_fragment_parts(f, k, parts)) return DPT_E_INTERNAL;
    for (size_t g = 0; g < f->n; g++) {
        DPT_TRY(dpti_trainer_read(f->groups[g].trainer, 0, DPT_PARAMETER, f->noted[g]));
        f->groups[g].samples[k] = 0;
    }
    DPT_TRY(find_mean_of_changes(f, k, parts));
    memcpy(f->travelling, f->mean, m->flat_size * sizeof *f->mean);
    f->in_flight = true;
    f->fragment = k;
    f->left = of_epoch;
    return DPT_OK;
}

static dpt_status arrive(reference *f)
{
    const elements of = find_fragment(f, f->fragment);
    f->in_flight = false;
    join_elements(f, of, f->travelling);
    for (size_t g = 0; g < f->n; g++) {
        DPT_TRY(dpti_trainer_read(f->groups[g].trainer, 0, DPT_PARAMETER, f->now[g]));
        for (size_t e = of.begin; e < of.end; e++)
            f->now[g][e] = f->beginning[e] + (f->now[g][e] - f->noted[g][e]);
        DPT_TRY(dpti_trainer_write_all(f->groups[g].trainer, DPT_PARAMETER, f->now[g]));
    }
    return DPT_OK;
}

static void forget_samples(group *of)
{
    memset(of->samples, 0, sizeof of->samples);
    of->since = 0;
}

static dpt_status end_round(reference *f)
{
    const dpt_model *m = f->groups[0].model;
    float parts[LOCAL_MOST];
    size_t since[LOCAL_MOST];
    for (size_t k = 0; k < count_fragments(f); k++) {
        if (!find_fragment_parts(f, k, parts)) continue; /* it was exchanged behind this step */
        DPT_TRY(find_mean_of_changes(f, k, parts));
        join_elements(f, find_fragment(f, k), f->mean);
    }
    for (size_t g = 0; g < f->n; g++)
        since[g] = f->groups[g].since;
    (void)find_parts(f, since, parts);
    DPT_TRY(find_mean_of_statistics(f, parts));
    for (size_t e = m->flat_trained; e < m->flat_size; e++)
        f->beginning[e] -= f->mean[e];
    DPT_TRY(set_all(f, DPT_PARAMETER, f->beginning));
    DPT_TRY(join_moments(f, DPT_VELOCITY, parts));
    if (f->c->options.optimizer == DPT_OPTIMIZER_ADAMW)
        DPT_TRY(join_moments(f, DPT_SQUARES, parts));
    for (size_t g = 0; g < f->n; g++)
        forget_samples(&f->groups[g]);
    return DPT_OK;
}

/* Behind a step of an epoch, from 1; `last`: of the epoch or of the training. */
static dpt_status behind_step(reference *f, size_t of_epoch, bool last)
{
    const size_t h = f->c->options.local_steps, delay = f->c->options.outer_delay;
    const size_t n = count_fragments(f), of_round = (of_epoch - 1) % h + 1;
    if (f->in_flight && (last || of_epoch == f->left + delay)) DPT_TRY(arrive(f));
    if (last || (of_epoch % h == 0 && delay == 0)) return end_round(f);
    for (size_t k = 0; k < n; k++)
        if (of_round == (k + 1) * h / n) return leave(f, k, of_epoch);
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
            for (size_t k = 0; k < count_fragments(f); k++)
                f->groups[g].samples[k] += m.samples;
            f->groups[g].since += m.samples;
        }
        DPT_TRY(behind_step(f, of_epoch, of_epoch == per_epoch || step + 1 == f->c->steps));
    }
    return DPT_OK;
}

static dpt_status allocate(reference *f)
{
    dpt_trainer *t = f->groups[0].trainer;
    bool complete = (f->beginning = dpti_trainer_make_flat(t)) != NULL;
    complete = (f->velocity = dpti_trainer_make_flat(t)) != NULL && complete;
    complete = (f->mean = dpti_trainer_make_flat(t)) != NULL && complete;
    complete = (f->travelling = dpti_trainer_make_flat(t)) != NULL && complete;
    for (size_t g = 0; g < f->n; g++) {
        complete = (f->now[g] = dpti_trainer_make_flat(t)) != NULL && complete;
        complete = (f->residual[g] = dpti_trainer_make_flat(t)) != NULL && complete;
        complete = (f->noted[g] = dpti_trainer_make_flat(t)) != NULL && complete;
    }
    return complete ? dpti_trainer_read(t, 0, DPT_PARAMETER, f->beginning) : DPT_E_NO_MEMORY;
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
    free(f->beginning);
    free(f->velocity);
    free(f->mean);
    free(f->travelling);
    for (size_t g = 0; g < f->n; g++) {
        free(f->now[g]);
        free(f->residual[g]);
        free(f->noted[g]);
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
        if (c.states[0].velocity) {
            wanted.velocity = f.velocity; /* the reference has it */
            f.velocity = NULL;
        }
        local_check_same(t, &c.states[0], &wanted);
        for (size_t g = 0; c.options.compress != DPT_COMPRESS_NONE && g < f.n; g++)
            local_check_same(t, &(local_state){.flats = {c.states[g].residual}},
                             &(local_state){.flats = {f.residual[g]}});
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

/* What a process does not send yet is kept, also by one that has no samples in a round. */
static void compressed(test *t)
{
    for (size_t h = 1; h <= 3; h += 2)
        for (size_t i = 0; i < 2; i++) {
            local_course c = local_with(LOCAL_UNEQUAL, h);
            c.options.compress = i == 0 ? DPT_COMPRESS_BF16 : DPT_COMPRESS_INT8;
            check_refers(t, c);
            c = local_with(LOCAL_TWO, h);
            c.count = 4 * FLAT_BATCH + 1;
            c.options.compress = i == 0 ? DPT_COMPRESS_BF16 : DPT_COMPRESS_INT8;
            check_refers(t, c);
            c.count = FLAT_COUNT;
            c.split = "3:1";
            c.options.optimizer = DPT_OPTIMIZER_ADAMW;
            c.options.lr = 1e-3f;
            c.options.momentum = 0;
            check_refers(t, c);
        }
}

/* The exchange of a round runs beside the next one. */
static void delayed(test *t)
{
    static const struct {
        size_t local_steps, delay;
        dpt_compression compress;
    } cases[] = {{3, 1, DPT_COMPRESS_NONE}, {3, 2, DPT_COMPRESS_NONE}, {2, 1, DPT_COMPRESS_INT8},
                 {5, 4, DPT_COMPRESS_BF16}, {4, 2, DPT_COMPRESS_NONE}, {7, 1, DPT_COMPRESS_INT8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        local_course c = local_with(i % 2 == 0 ? LOCAL_UNEQUAL : LOCAL_TWO, cases[i].local_steps);
        c.options.outer_delay = cases[i].delay;
        c.options.compress = cases[i].compress;
        check_refers(t, c);
        c.options.no_outer_momentum = true;
        c.options.outer_lr = 1;
        c.split = i % 2 == 0 ? "1:1:3" : "3:1";
        check_refers(t, c);
    }
    local_course c = local_with(LOCAL_TWO, 3);
    c.options.outer_delay = 1;
    c.options.optimizer = DPT_OPTIMIZER_ADAMW;
    c.options.lr = 1e-3f;
    c.options.momentum = 0;
    check_refers(t, c);
    c = local_with(LOCAL_TWO, 2);
    c.options.outer_delay = 1;
    c.count = 4 * FLAT_BATCH + 1; /* a process without samples in a step */
    check_refers(t, c);
}

/* Parameters are exchanged in fragments. */
static void in_fragments(test *t)
{
    static const struct {
        size_t local_steps, delay, fragments;
        dpt_compression compress;
    } cases[] = {{4, 1, 2, DPT_COMPRESS_NONE},
                 {7, 1, 3, DPT_COMPRESS_INT8},
                 {6, 2, 2, DPT_COMPRESS_BF16},
                 {8, 1, 4, DPT_COMPRESS_INT8}, /* the last one at the end of the epoch */
                 {10, 1, 5, DPT_COMPRESS_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        local_course c = local_with(i % 2 == 0 ? LOCAL_UNEQUAL : LOCAL_TWO, cases[i].local_steps);
        c.options.outer_delay = cases[i].delay;
        c.options.outer_fragments = cases[i].fragments;
        c.options.compress = cases[i].compress;
        check_refers(t, c);
        c.split = i % 2 == 0 ? "1:1:3" : "3:1";
        check_refers(t, c);
    }
    local_course c = local_with(LOCAL_TWO, 4);
    c.options.outer_delay = 1;
    c.options.outer_fragments = 2;
    c.options.optimizer = DPT_OPTIMIZER_ADAMW;
    c.options.lr = 1e-3f;
    c.options.momentum = 0;
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
        {"as the reference, compressed", compressed},
        {"as the reference, delayed", delayed},
        {"as the reference, in fragments", in_fragments},
        {"as the reference, statistics of each device", with_statistics_of_each_device},
        {"one step is synchronous", one_step_is_synchronous},
        {"rounds are told", rounds_are_told},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
