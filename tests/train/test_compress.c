/* Tests compressed exchanges between processes: the sum that is applied over many steps equals the
   contributed sum minus the error feedback; replicas stay equal; a step that is not committed
   leaves no error feedback; and error feedback is stored in checkpoints. */
#include "context/context.h"
#include "harness.h"
#include "io/folder.h"
#include "train/exchange/exchange.h"
#include "train/flat.h"
#include "train/processes.h"
#include "train/recovery/recover.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 5, STEPS = 14, KEPT = 7 };

#define ONE "cpu:threads=1"

/* ---- Sums ------------------------------------------------------------------------------------ */

typedef struct sums_task {
    const dpti_packing *packing;
    size_t n, count, n_pieces, n_steps;
    bool varied; /* not everybody brings something to every sum, and cuts change */
    double *brought, *applied, *residual[MOST]; /* (count) */
    bool same, bounded;
    float *results[MOST];
} sums_task;

static bool contributes(const sums_task *task, size_t rank, size_t step)
{
    return !task->varied || (rank + step) % 3 != 0 || rank == step % task->n;
}

/* Every element is in (0.5, 1), where float32 has 24 bits and bfloat16 has 8. */
static float value_of(size_t rank, size_t step, size_t i)
{
    return 0.75f + 0.25f * (float)sin((double)(i * 7 + rank * 1009 + step * 31 + 1));
}

static dpt_status sum_once(dpt_context *context, const sums_task *task, size_t rank, size_t step,
                           float *data, dpti_feedback *feedback)
{
    dpt_error error = {.status = DPT_OK};
    const size_t n_pieces = task->n_pieces + (task->varied ? step % 3 : 0);
    bool who[MOST];
    for (size_t r = 0; r < task->n; r++)
        who[r] = contributes(task, r, step);
    for (size_t i = 0; i < task->count; i++)
        data[i] = who[rank] ? value_of(rank, step, i) : NAN;
    for (size_t k = n_pieces; k-- > 0;) {
        const size_t begin = task->count * k / n_pieces, end = task->count * (k + 1) / n_pieces;
        const dpti_collective reduction = {.data = data + begin,
                                           .count = end - begin,
                                           .contributes = who,
                                           .packing = task->packing,
                                           .residual = feedback->residual + begin,
                                           .owes = feedback->owes + begin};
        if (end > begin) dpti_processes_start_collective(context->processes, &reduction);
    }
    const dpt_status status = dpti_processes_finish_collectives(context->processes, &error);
    dpti_feedback_commit(feedback);
    return status;
}

static dpt_status sums_part(dpt_context *context, size_t rank, void *user)
{
    sums_task *task = user;
    dpti_feedback feedback;
    float *data = calloc(task->count + 1, sizeof *data);
    if (!data || !dpti_feedback_create(task->packing, task->count, &feedback))
        return DPT_E_NO_MEMORY;
    task->results[rank] = data;
    dpt_status status = DPT_OK;
    for (size_t step = 0; step < task->n_steps && status == DPT_OK; step++) {
        status = sum_once(context, task, rank, step, data, &feedback);
        for (size_t i = 0; i < task->count && rank == 0; i++)
            task->applied[i] += (double)data[i];
    }
    for (size_t i = 0; i < task->count; i++)
        task->residual[rank][i] = (double)feedback.residual[i];
    dpti_feedback_free(&feedback);
    return status;
}

static void check_sums_of(test *t, sums_task task)
{
    char message[512] = "";
    const size_t n_doubles = task.count + 1;
    double *memory = calloc((2 + task.n) * n_doubles, sizeof *memory);
    REQUIRE(memory);
    task.brought = memory;
    task.applied = memory + n_doubles;
    for (size_t r = 0; r < task.n; r++)
        task.residual[r] = memory + (2 + r) * n_doubles;
    if (!CHECK_OK(stand_ins_run(task.n, sums_part, &task, message))) FAIL("%s", message);
    /* float32 rounds a part with what is owed of it, and sums, once each; below 8 in magnitude. */
    const double rounding = (double)(task.n_steps * 3 * task.n) * 8 * 0x1p-24;
    size_t n_lost = 0, n_too_much = 0, n_other = 0;
    for (size_t i = 0; i < task.count; i++) {
        double residual = 0;
        for (size_t s = 0; s < task.n_steps; s++)
            for (size_t r = 0; r < task.n; r++)
                if (contributes(&task, r, s)) task.brought[i] += (double)value_of(r, s, i);
        for (size_t r = 0; r < task.n; r++) {
            residual += task.residual[r][i];
            /* Half a unit of the last place of what was rounded, a part, or the sum of all, is
               1/256 of it; half a scale is 1/254 of the largest of a block, and a scale is rounded
               up. */
            n_too_much += !(fabs(task.residual[r][i]) <= (double)task.n * 1.1 / 254);
            n_other += task.results[r][i] != task.results[0][i];
        }
        n_lost += !(fabs(task.applied[i] + residual - task.brought[i]) <= rounding);
    }
    CHECK_SIZE(n_lost, 0);
    CHECK_SIZE(n_too_much, 0);
    CHECK_SIZE(n_other, 0);
    for (size_t r = 0; r < task.n; r++)
        free(task.results[r]);
    free(memory);
}

static void check_sums(test *t, sums_task task)
{
    task.packing = &dpti_packing_bf16;
    check_sums_of(t, task);
    task.packing = &dpti_packing_int8;
    check_sums_of(t, task);
}

static void nothing_is_lost(test *t)
{
    for (size_t n = 1; n <= MOST; n++) {
        check_sums(t, (sums_task){.n = n, .count = 1000, .n_pieces = 1, .n_steps = 60});
        check_sums(
            t, (sums_task){.n = n, .count = 1000, .n_pieces = 3, .n_steps = 60, .varied = true});
    }
    check_sums(t, (sums_task){.n = 3, .count = 17, .n_pieces = 1, .n_steps = 50, .varied = true});
    check_sums(t, (sums_task){.n = 2, .count = 1500003, .n_pieces = 2, .n_steps = 3}); /* chunks */
    check_sums(t,
               (sums_task){.n = 4, .count = 900001, .n_pieces = 1, .n_steps = 3, .varied = true});
}

/* ---- Training -------------------------------------------------------------------------------- */

/* What is left out arrives later: LeNet learns with matrices of rank 4. */
static void it_learns_with_low_ranks(test *t)
{
    enum { BATCH = 32, COUNT = 320, N_STEPS = 60 };
    image_set images;
    REQUIRE(images_create(COUNT, 5, &images));
    const run_options options = {.devices = ONE "|" ONE "," ONE "|" ONE,
                                 .split = "equal",
                                 .batch = BATCH,
                                 .steps = N_STEPS,
                                 .lr = 0.05f,
                                 .momentum = 0.9f,
                                 .compress = DPT_COMPRESS_LOWRANK};
    run_result r;
    train_run(&images, &options, &r);
    if (!CHECK_OK(r.status)) FAIL("%s", r.message);
    CHECK(r.replicas_agree);
    double first = 0, last = 0;
    for (size_t s = 0; s < 10; s++) {
        first += r.losses[s];
        last += r.losses[N_STEPS - 10 + s];
    }
    CHECK(last < 0.5 * first);
    run_free(&r);
    images_free(&images);
}

/* LeNet learns with 8 bits of each gradient as it does with 24. */
static void learns_the_same(test *t, dpt_compression compress)
{
    enum { BATCH = 32, COUNT = 320, N_STEPS = 60 };
    static const char *const devices[] = {ONE "|" ONE, ONE "|" ONE "," ONE "|" ONE "|" ONE};
    image_set images;
    REQUIRE(images_create(COUNT, 5, &images));
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        run_options options = {.devices = devices[i],
                               .split = "equal",
                               .batch = BATCH,
                               .steps = N_STEPS,
                               .lr = 0.05f,
                               .momentum = 0.9f};
        run_result plain, packed;
        train_run(&images, &options, &plain);
        options.compress = compress;
        train_run(&images, &options, &packed);
        if (!CHECK_OK(plain.status) || !CHECK_OK(packed.status)) FAIL("%s", packed.message);
        CHECK(packed.replicas_agree);
        double first = 0, last = 0, apart = 0;
        for (size_t s = 0; s < 10; s++) {
            first += plain.losses[s];
            last += plain.losses[N_STEPS - 10 + s];
            apart += fabs(plain.losses[s] - packed.losses[s]);
        }
        CHECK(last < 0.5 * first);
        /* Close, and not the same: else nothing was rounded. */
        CHECK(apart > 0 && apart < 1e-2 * first);
        double apart_last = 0;
        for (size_t s = N_STEPS - 10; s < N_STEPS; s++)
            apart_last += fabs(plain.losses[s] - packed.losses[s]);
        CHECK_NEAR(apart_last / last, 0, 0.2);
        run_free(&packed);
        run_free(&plain);
    }
    images_free(&images);
}

static void it_learns_the_same(test *t)
{
    learns_the_same(t, DPT_COMPRESS_BF16);
    learns_the_same(t, DPT_COMPRESS_INT8);
}

typedef struct scene {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *model;
} scene;

/* Uneven and zero shares, several devices in a process, staged memory, buckets and none,
   batch-norm, several batches a step. */
static void replicas_stay_the_same(test *t)
{
    scene *s = t->user;
    static const struct {
        const char *devices, *split;
        size_t accumulate;
    } cases[] = {
        {ONE "|" ONE, "1:3", 0},
        {ONE "," ONE "|" ONE, "1:2:3", 0},
        {ONE "|" ONE "," ONE "|" ONE, "0:2:3:1", 0},
        {ONE "|faultstaged:threads=1", "0:1", 0},
        {ONE "|" ONE "|faultstaged:threads=1," ONE "|" ONE, "1:2:1:2:1", 2},
    };
    static const dpt_compression ways[] = {DPT_COMPRESS_BF16, DPT_COMPRESS_INT8,
                                           DPT_COMPRESS_LOWRANK};
    for (size_t i = 0; i < 6 * sizeof cases / sizeof *cases; i++) {
        const size_t k = i / 6;
        flat_outcome out = {.weights = NULL};
        const flat_task task = {.model = s->model,
                                .data = s->data,
                                .devices = cases[k].devices,
                                .split = cases[k].split,
                                .batch = FLAT_BATCH,
                                .accumulate = cases[k].accumulate,
                                .compress = ways[i / 2 % 3],
                                .compress_rank = i / 2 % 3 == 2 ? 2 : 0,
                                .no_overlap = i % 2 == 0,
                                .bucket_bytes = 1,
                                .steps = 6};
        if (!CHECK_OK(flat_run(s->context, &task, &out)) || !CHECK(out.replicas_agree))
            FAIL("%s: %s", task.devices, dpt_error_message(s->context));
        else
            CHECK(out.losses[5] < out.losses[0]);
        flat_free(&out);
    }
}

/* ---- Processes with trainers ----------------------------------------------------------------- */

/* What a process has in the end. */
typedef struct end {
    float *flats[DPTI_MAX_STATE_BUFFERS], *residual;
    char notices[512];
    size_t n_steps; /* of this part of the course */
} end;

typedef struct course {
    const scene *scene;
    const char *devices, *folder;
    dpt_compression compress;
    size_t stop_after, max_steps; /* stop: as by a signal */
    dpt_interval every;
    bool resume, fail; /* fail: steps that do not count are made in between */
    bool go_back;      /* to a state that was saved */
    bool fits;         /* through dpt_fit, else step by step */
    size_t flat_size;
    end ends[MOST];
} course;

typedef struct listener {
    const course *course;
    end *end;
} listener;

static int count_step(const dpt_fit_progress *progress, void *user)
{
    listener *l = user;
    if (progress->step) l->end->n_steps++;
    return l->course->stop_after > 0 && l->end->n_steps >= l->course->stop_after;
}

static void hear(dpt_notice kind, const char *text, void *user)
{
    listener *l = user;
    const size_t n = strlen(l->end->notices);
    (void)kind;
    snprintf(l->end->notices + n, sizeof l->end->notices - n, "%s\n", text);
}

static dpt_status fit(const course *c, dpt_trainer *trainer, end *e)
{
    listener l = {.course = c, .end = e};
    dpt_fit_result result = {.size = sizeof result};
    const dpt_fit_options options = {.size = sizeof options,
                                     .max_steps = c->max_steps,
                                     .checkpoint = c->folder,
                                     .checkpoint_every = c->every,
                                     .checkpoint_keep = 100,
                                     .resume = c->resume,
                                     .progress = count_step,
                                     .notice = hear,
                                     .user = &l};
    return dpt_fit(trainer, &options, &result);
}

/* A step whose gradients are not finite, on every device, behind which all is as it was. */
static dpt_status fail_once(dpt_trainer *t)
{
    const size_t n = t->model->flat_size;
    float *flat = calloc(3 * n, sizeof *flat), *wild = flat + n, *residual = flat + 2 * n;
    dpt_step_metrics m = {.size = sizeof m};
    if (!flat) return DPT_E_NO_MEMORY;
    memcpy(residual, t->exchange.feedback.residual, t->exchange.feedback.count * sizeof *residual);
    dpt_status status = DPT_OK;
    for (size_t i = 0; i < t->n_workers && status == DPT_OK; i++)
        status = dpti_trainer_read(t, i, DPT_PARAMETER, flat);
    for (size_t i = 0; i < n; i++)
        wild[i] = 1e30f;
    for (size_t i = 0; i < t->n_workers && status == DPT_OK; i++)
        status = dpti_trainer_write(t, i, DPT_PARAMETER, wild);
    if (status == DPT_OK && dpt_trainer_step(t, &m) != DPT_E_NOT_FINITE) status = DPT_E_INTERNAL;
    for (size_t i = 0; i < t->n_workers && status == DPT_OK; i++)
        status = dpti_trainer_write(t, i, DPT_PARAMETER, flat);
    if (memcmp(residual, t->exchange.feedback.residual,
               t->exchange.feedback.count * sizeof *residual) != 0)
        status = DPT_E_INTERNAL;
    free(flat);
    return status;
}

/* Saved, some steps that are forgotten, loaded. */
static dpt_status go_back(dpt_trainer *trainer)
{
    dpt_step_metrics m = {.size = sizeof m};
    DPT_TRY(dpt_trainer_save_state(trainer, "state.safetensors"));
    DPT_TRY(dpt_trainer_step(trainer, &m));
    DPT_TRY(dpt_trainer_step(trainer, &m));
    if (dpt_trainer_load_state(trainer, "nothing.safetensors") == DPT_OK) return DPT_E_INTERNAL;
    return dpt_trainer_load_state(trainer, "state.safetensors");
}

static dpt_status make_steps(const course *c, dpt_trainer *trainer)
{
    dpt_step_metrics m = {.size = sizeof m};
    for (size_t i = 0; i < c->max_steps; i++) {
        if (c->fail && i % 3 == 2) DPT_TRY(fail_once(trainer));
        if (c->go_back && i == 4) DPT_TRY(go_back(trainer));
        DPT_TRY(dpt_trainer_step(trainer, &m));
    }
    return DPT_OK;
}

static dpt_status take_end(dpt_trainer *t, end *e)
{
    DPT_TRY(dpti_trainer_read_state_buffers(t, e->flats));
    e->residual = calloc(t->model->flat_size, sizeof *e->residual);
    if (!e->residual) return DPT_E_NO_MEMORY;
    if (dpti_packs(t))
        memcpy(e->residual, t->exchange.feedback.residual,
               t->exchange.feedback.count * sizeof *e->residual);
    return DPT_OK;
}

static dpt_status course_part(dpt_context *context, size_t rank, void *user)
{
    course *c = user;
    char list[256];
    dpt_device_set *devices = NULL;
    dpt_trainer *trainer = NULL;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = FLAT_BATCH,
                                         .split = {DPT_SPLIT_EQUAL, NULL},
                                         .lr = 0.02f,
                                         .momentum = 0.9f,
                                         .compress = c->compress,
                                         .bucket_bytes = 1,
                                         .seed = 3};
    stand_ins_devices(c->devices, rank, list);
    dpt_status status = dpt_device_set_open(context, list, &devices);
    if (status == DPT_OK)
        status = dpt_trainer_create(devices, c->scene->model, c->scene->data, &options, &trainer);
    if (status == DPT_OK)
        status = c->fits ? fit(c, trainer, &c->ends[rank]) : make_steps(c, trainer);
    if (status == DPT_OK) status = take_end(trainer, &c->ends[rank]);
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(devices);
    return status;
}

static void run_course(test *t, course *c)
{
    char message[512] = "";
    const scene *s = t->user;
    c->scene = s;
    c->flat_size = s->model->flat_size;
    if (!CHECK_OK(stand_ins_run(stand_ins_count(c->devices), course_part, c, message)))
        FAIL("%s: %s", c->devices, message);
}

static void free_course(course *c)
{
    for (size_t r = 0; r < MOST; r++) {
        dpti_trainer_free_state_buffers(c->ends[r].flats);
        free(c->ends[r].residual);
        c->ends[r] = (end){.residual = NULL};
    }
}

/* To the bit, in every process: weights, the optimizer's state, what is owed. */
static void check_same(test *t, const course *a, const course *b)
{
    const size_t n_bytes = a->flat_size * sizeof(float);
    for (size_t r = 0; r < stand_ins_count(a->devices); r++) {
        const end *x = &a->ends[r], *y = &b->ends[r];
        REQUIRE(x->residual && y->residual);
        CHECK(memcmp(x->residual, y->residual, n_bytes) == 0);
        for (size_t k = 0; k < 2; k++)
            CHECK(memcmp(x->flats[k], y->flats[k], n_bytes) == 0);
    }
}

static size_t count_residuals(const course *c, size_t rank)
{
    size_t n = 0;
    for (size_t i = 0; i < c->flat_size; i++)
        n += c->ends[rank].residual[i] != 0;
    return n;
}

/* Statistics travel as they are, and everything else owes something. */
static void residuals_are_kept(test *t)
{
    const scene *s = t->user;
    course c = {.devices = ONE "|" ONE "|" ONE, .compress = DPT_COMPRESS_BF16, .max_steps = 3};
    run_course(t, &c);
    for (size_t r = 0; r < 3; r++) {
        CHECK(count_residuals(&c, r) > s->model->flat_trained / 2);
        for (size_t i = s->model->flat_trained; i < s->model->flat_size; i++)
            CHECK(c.ends[r].residual[i] == 0);
    }
    free_course(&c);
    c.compress = DPT_COMPRESS_NONE;
    run_course(t, &c);
    CHECK_SIZE(count_residuals(&c, 0), 0);
    free_course(&c);
}

static void owes_nothing_with(test *t, dpt_compression compress)
{
    course plain = {.devices = ONE "|" ONE "," ONE "|" ONE, .compress = compress, .max_steps = 9};
    course disturbed = plain;
    disturbed.fail = true;
    run_course(t, &plain);
    run_course(t, &disturbed);
    check_same(t, &plain, &disturbed);
    free_course(&disturbed);
    disturbed.fail = false;
    disturbed.go_back = true;
    run_course(t, &disturbed);
    check_same(t, &plain, &disturbed);
    free_course(&disturbed);
    free_course(&plain);
}

static void a_failed_step_owes_nothing(test *t)
{
    owes_nothing_with(t, DPT_COMPRESS_BF16);
    owes_nothing_with(t, DPT_COMPRESS_LOWRANK);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

static course make_course(const char *devices, const char *folder, dpt_compression compress)
{
    return (course){.devices = devices,
                    .folder = folder,
                    .compress = compress,
                    .fits = true,
                    .max_steps = STEPS,
                    .every = {.steps = 3}};
}

/* Stopped, or killed behind its last checkpoint, and resumed: as if nothing had been. */
static void goes_on_exactly_with(test *t, dpt_compression compress)
{
    static const char *const devices[] = {ONE "|" ONE, ONE "|" ONE "," ONE "|" ONE "|" ONE};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        course whole = make_course(devices[i], NULL, compress);
        run_course(t, &whole);
        CHECK_SIZE(whole.ends[0].n_steps, STEPS);
        for (size_t k = 0; k < 3; k++) {
            course cut = make_course(devices[i], "cut", compress);
            (void)forget_checkpoints(t, "cut", 0);
            cut.stop_after = KEPT + k;
            if (k == 2) cut.every = (dpt_interval){.seconds = 1e-9}; /* whenever the disk allows */
            run_course(t, &cut);
            free_course(&cut);
            CHECK(forget_checkpoints(t, "cut", k == 1 ? KEPT : STEPS) > 0);
            cut.stop_after = 0;
            cut.resume = true;
            run_course(t, &cut);
            CHECK_CONTAINS(cut.ends[0].notices, "resuming from cut/checkpoint-");
            CHECK(strstr(cut.ends[0].notices, "error feedback") == NULL);
            CHECK(cut.ends[1].n_steps > 0 && cut.ends[1].n_steps < STEPS);
            check_same(t, &whole, &cut);
            free_course(&cut);
        }
        free_course(&whole);
    }
}

static void it_goes_on_exactly(test *t)
{
    goes_on_exactly_with(t, DPT_COMPRESS_BF16);
    goes_on_exactly_with(t, DPT_COMPRESS_LOWRANK);
}

/* Whatever call a device fails in, of a step or of a checkpoint: all processes end, and what is
   resumed gives the same bits. */
static void a_device_fails_with(test *t, dpt_compression compress)
{
    static const char *const places[] = {"fault:threads=1:fail=%zu|" ONE "|" ONE,
                                         ONE "|" ONE ","
                                             "fault:threads=1:fail=%zu|" ONE};
    size_t n_failed = 0, n_resumed = 0;
    REQUIRE(has_fault_plugins(t));
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *sound = i == 0 ? ONE "|" ONE "|" ONE : ONE "|" ONE "," ONE "|" ONE;
        course whole = make_course(sound, NULL, compress);
        run_course(t, &whole);
        for (size_t call = 40;; call += 311) {
            char devices[128], message[512] = "";
            snprintf(devices, sizeof devices, places[i], call);
            course cut = make_course(devices, "failed", compress);
            (void)forget_checkpoints(t, "failed", 0);
            cut.scene = t->user;
            const dpt_status status = stand_ins_run(3, course_part, &cut, message);
            free_course(&cut);
            if (status == DPT_OK) break;
            n_failed++;
            n_resumed += forget_checkpoints(t, "failed", STEPS) > 0;
            cut.devices = sound;
            cut.resume = true;
            run_course(t, &cut);
            check_same(t, &whole, &cut);
            free_course(&cut);
        }
        free_course(&whole);
    }
    CHECK(n_failed > 5 && n_resumed > 3);
}

static void a_device_fails(test *t)
{
    a_device_fails_with(t, DPT_COMPRESS_BF16);
    a_device_fails_with(t, DPT_COMPRESS_LOWRANK);
}

/* Resumed at its very end: what is owed then is what was. */
static void take(test *t, const char *devices, dpt_compression compress, course *out)
{
    *out = make_course(devices, "moved", compress);
    out->resume = true;
    out->max_steps = KEPT;
    run_course(t, out);
}

static void sum_residuals(const course *c, double *sums)
{
    for (size_t r = 0; r < stand_ins_count(c->devices); r++)
        for (size_t i = 0; i < c->flat_size; i++)
            sums[i] += (double)c->ends[r].residual[i];
}

static void with_other_processes(test *t)
{
    static const struct {
        const char *devices, *words;
        dpt_compression compress;
    } others[] = {
        {ONE "|" ONE, "of 3 processes goes on with the first of 2", DPT_COMPRESS_BF16},
        {ONE "|" ONE "|" ONE "|" ONE, "of 3 processes goes on with the first of 4",
         DPT_COMPRESS_BF16},
        {ONE "|" ONE, "of 3 processes goes on with the first of 2", DPT_COMPRESS_LOWRANK},
        {ONE "|" ONE, "of 3 processes is dropped", DPT_COMPRESS_NONE},
    };
    course from = make_course(ONE "|" ONE "|" ONE, "moved", DPT_COMPRESS_BF16), to;
    const scene *s = t->user;
    double *before = calloc(2 * s->model->flat_size, sizeof *before);
    double *after = before + s->model->flat_size;
    REQUIRE(before);
    from.max_steps = KEPT;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t n_lost = 0;
        (void)forget_checkpoints(t, "moved", 0);
        run_course(t, &from);
        memset(before, 0, 2 * s->model->flat_size * sizeof *before);
        sum_residuals(&from, before);
        take(t, others[i].devices, others[i].compress, &to);
        CHECK_CONTAINS(to.ends[0].notices, others[i].words);
        sum_residuals(&to, after);
        const double kept = others[i].compress == DPT_COMPRESS_NONE ? 0 : 1;
        for (size_t e = 0; e < s->model->flat_size; e++)
            n_lost += !(fabs(after[e] - kept * before[e]) <= 1e-6 * fabs(before[e]) + 1e-12);
        CHECK_SIZE(n_lost, 0);
        CHECK_SIZE(count_residuals(&to, 1), 0);
        CHECK(memcmp(to.ends[0].flats[0], from.ends[0].flats[0],
                     s->model->flat_size * sizeof(float)) == 0);
        free_course(&to);
        /* And it trains. */
        to.max_steps = STEPS;
        run_course(t, &to);
        CHECK_SIZE(to.ends[0].n_steps, STEPS - KEPT);
        free_course(&to);
        free_course(&from);
    }
    free(before);
}

static void from_one_that_did_not_compress(test *t)
{
    course from = make_course(ONE "|" ONE, "plain", DPT_COMPRESS_NONE), to;
    (void)forget_checkpoints(t, "plain", 0);
    from.max_steps = KEPT;
    run_course(t, &from);
    free_course(&from);
    to = make_course(ONE "|" ONE, "plain", DPT_COMPRESS_BF16);
    to.resume = true;
    run_course(t, &to);
    CHECK_CONTAINS(to.ends[0].notices, "error feedback begins with zeros");
    CHECK(count_residuals(&to, 1) > 0);
    free_course(&to);
}

/* One process alone says that it does nothing. */
static void one_process(test *t)
{
    const scene *s = t->user;
    dpt_device_set *devices = NULL;
    dpt_trainer *trainer = NULL;
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = FLAT_BATCH, .compress = DPT_COMPRESS_BF16};
    course c = make_course(ONE, NULL, DPT_COMPRESS_BF16);
    end e = {.residual = NULL};
    c.max_steps = 2;
    if (CHECK_OK(dpt_device_set_open(s->context, ONE, &devices)) &&
        CHECK_OK(dpt_trainer_create(devices, s->model, s->data, &options, &trainer))) {
        CHECK_OK(fit(&c, trainer, &e));
        CHECK_CONTAINS(e.notices, "nothing is compressed");
        CHECK_SIZE(dpt_trainer_feedback_bytes(trainer), 2 * s->model->flat_trained * sizeof(float));
    }
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(devices);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"over many sums nothing is lost", nothing_is_lost},
        {"it learns the same", it_learns_the_same},
        {"it learns with low ranks", it_learns_with_low_ranks},
        {"replicas stay the same", replicas_stay_the_same},
        {"what is owed", residuals_are_kept},
        {"a failed step, or one that is forgotten, owes nothing", a_failed_step_owes_nothing},
        {"it goes on exactly", it_goes_on_exactly},
        {"a device fails", a_device_fails},
        {"with another number of processes, or without compression", with_other_processes},
        {"from a checkpoint that did not compress", from_one_that_did_not_compress},
        {"one process alone", one_process},
    };
    scene s = {.context = NULL};
    int code = 1;
    add_fault_plugins();
    if (dpt_context_create(&s.context) == DPT_OK &&
        flat_data(s.context, FLAT_COUNT, 0, &s.data) == DPT_OK &&
        flat_residual(s.context, &s.model) == DPT_OK)
        code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    dpt_model_destroy(s.model);
    dpt_dataset_destroy(s.data);
    dpt_context_destroy(s.context);
    return code;
}
