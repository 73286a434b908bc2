/* Tests training in parts of devices of several processes, which are threads here (--shard
   optimizer, gradients, parameters): the same bits as without, what each device holds, limits of
   memory, failures of the transport and of devices, and what is refused. */
#include "train/components/checksum.h"
#include "train/exchange/exchange.h"
#include "train/parts.h"
#include "train/processes.h"
#include "train/progress/in_flight.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 3, DEVICES = 4, TEXT = 256 };

/* A training of several processes, and what has come of it. */
typedef struct job {
    parts_course course; /* without its model; devices: "A|B" */
    bool wide;           /* its model */
    bool other;          /* the last process has nothing in parts */
    size_t n_devices;
    dpti_state_part parts[DEVICES];
    size_t bytes[DEVICES];   /* of the optimizer's state that each device has */
    size_t told[DEVICES];    /* of it, as the first process tells */
    size_t sums[DEVICES];    /* bytes of the sums of gradients */
    size_t weights[DEVICES]; /* bytes of the parameters */
    dpt_shard on;            /* what is in parts */
    parts_state states[MOST];
    bool agree[MOST]; /* the devices of the process have the same */
    /* Hashes of the training state in host memory: at the end, and of process 0 behind each step.
     */
    uint64_t last[MOST], steps[PARTS_STEPS + 1];
    uint64_t owed, owes[PARTS_STEPS + 1]; /* the same of the error feedback of process 0 */
    size_t done[MOST];                    /* steps */
    dpt_status statuses[MOST];
    char messages[MOST][512];
} job;

/* ---- A process ------------------------------------------------------------------------------- */

static uint64_t hash_mirror(const dpt_trainer *trainer)
{
    uint64_t hash = 1;
    for (size_t k = 0; dpti_state_parts_on(trainer) && k < dpti_trainer_n_state_buffers(trainer);
         k++) {
        const dpt_tensor_kind kind = dpti_state_buffer_kind(k);
        const size_t n = dpti_state_elements(trainer, kind);
        float *flat = calloc(n, sizeof *flat);
        if (!flat) return 0;
        dpti_state_parts_read(trainer, kind, flat, n);
        hash = dpti_checksum(hash, flat, n * sizeof *flat);
        free(flat);
    }
    return hash;
}

static uint64_t hash_feedback(const dpt_trainer *trainer)
{
    size_t n = 0;
    const float *values = dpti_exchange_feedback(trainer, &n);
    return dpti_checksum(1, values, n * sizeof *values);
}

static void note_parts(job *j, dpt_trainer *trainer, size_t rank)
{
    for (size_t i = 0; i < trainer->n_workers; i++) {
        const dpti_worker *w = &trainer->workers[i];
        j->parts[trainer->first_device + i] = w->replicas.part;
        j->bytes[trainer->first_device + i] =
            w->replica.velocity.n_bytes + w->replica.squares.n_bytes;
        j->sums[trainer->first_device + i] = w->replica.sums.n_bytes;
        j->weights[trainer->first_device + i] = w->replica.parameters.n_bytes;
    }
    if (rank > 0) return;
    j->n_devices = trainer->n_devices;
    j->on = dpt_trainer_sharded(trainer);
    for (size_t i = 0; i < trainer->n_devices; i++) {
        dpt_device_plan plan = {.size = sizeof plan};
        j->told[i] = dpt_trainer_plan(trainer, i, &plan) == DPT_OK ? plan.optimizer_bytes : 0;
    }
}

/* Writes over the first tensor of the optimizer's state, which may be in several parts. */
static dpt_status set_velocity(dpt_trainer *trainer)
{
    dpt_parameter_info info = {.size = sizeof info};
    dpt_model_tensor(trainer->model, 0, &info);
    float *values = calloc(info.elements, sizeof *values);
    if (!values) return DPT_E_NO_MEMORY;
    for (size_t e = 0; e < info.elements; e++)
        values[e] = 1e-4f * (float)(e % 17);
    const dpt_status status =
        dpt_trainer_set(trainer, DPT_VELOCITY, info.name, values, info.elements);
    free(values);
    return status;
}

/* The state of each device; *agree: all have the same. */
static dpt_status read_states(dpt_trainer *trainer, parts_state *out, bool *agree)
{
    *agree = true;
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(trainer); k++) {
        const dpt_tensor_kind kind = dpti_state_buffer_kind(k);
        const size_t n = dpti_state_elements(trainer, kind);
        float *other = calloc(n, sizeof *other);
        out->flats[k] = calloc(n, sizeof *other);
        out->n[k] = n;
        dpt_status status = other && out->flats[k] ? DPT_OK : DPT_E_NO_MEMORY;
        for (size_t i = 0; status == DPT_OK && i < trainer->n_workers; i++) {
            status = dpti_trainer_read(trainer, i, kind, i == 0 ? out->flats[k] : other);
            if (i > 0) *agree = *agree && memcmp(other, out->flats[k], n * sizeof *other) == 0;
        }
        free(other);
        DPT_TRY(status);
    }
    return DPT_OK;
}

static dpt_status take_steps(job *j, dpt_trainer *trainer, size_t rank)
{
    dpt_step_metrics m = {.size = sizeof m};
    note_parts(j, trainer, rank);
    for (size_t i = 0; i < PARTS_STEPS; i++) {
        if (i == PARTS_STEPS / 2 && j->course.sets) DPT_TRY(set_velocity(trainer));
        DPT_TRY(dpt_trainer_step(trainer, &m));
        if (rank > 0) continue;
        j->steps[i + 1] = hash_mirror(trainer);
        j->owes[i + 1] = hash_feedback(trainer);
    }
    return read_states(trainer, &j->states[rank], &j->agree[rank]);
}

static dpt_status train_in(job *j, dpt_context *context, size_t rank)
{
    char list[TEXT];
    parts_setting s;
    parts_course course = j->course;
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    stand_ins_devices(j->course.devices, rank, list);
    if (j->other && rank + 1 == dpt_process_count(context)) course.parts = DPT_SHARD_NONE;
    dpt_status status = parts_open(context, &s);
    course.model = j->wide ? s.wide : s.residual;
    if (status == DPT_OK) status = dpt_device_set_open(context, list, &set);
    if (status == DPT_OK) status = parts_create(&s, &course, set, &trainer);
    if (status == DPT_OK) status = take_steps(j, trainer, rank);
    if (trainer) j->last[rank] = hash_mirror(trainer);
    if (trainer && rank == 0) j->owed = hash_feedback(trainer);
    if (trainer) j->done[rank] = dpti_steps_done(trainer)->step;
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
    parts_close(&s);
    return status;
}

static dpt_status part(dpt_context *context, size_t rank, void *user)
{
    job *j = user;
    j->statuses[rank] = train_in(j, context, rank);
    snprintf(j->messages[rank], sizeof j->messages[rank], "%s", dpt_error_message(context));
    return j->statuses[rank];
}

/* ---- A job ----------------------------------------------------------------------------------- */

static void free_states(job *j)
{
    for (size_t r = 0; r < MOST; r++)
        parts_free(&j->states[r]);
    memset(j->states, 0, sizeof j->states);
}

static dpt_status run(job *j)
{
    char message[512];
    memset(j->states, 0, sizeof j->states);
    memset(j->done, 0, sizeof j->done);
    memset(j->last, 0, sizeof j->last);
    (void)alarm(120); /* nothing may wait for ever */
    const dpt_status status = stand_ins_run(stand_ins_count(j->course.devices), part, j, message);
    (void)alarm(0);
    return status;
}

static bool run_well(test *t, job *j)
{
    if (CHECK_OK(run(j))) return true;
    for (size_t r = 0; r < stand_ins_count(j->course.devices); r++)
        FAIL("%s: process %zu: %s", j->course.devices, r, j->messages[r]);
    free_states(j);
    return false;
}

/* Every device holds its part, and the parts are all there is. */
static void check_parts(test *t, const job *j, size_t n_trained)
{
    const parts_setting *s = t->user;
    const dpt_model *m = j->wide ? s->wide : s->residual;
    size_t at = 0, n_holding = 0;
    const dpt_trainer_options *o = &j->course.options;
    const size_t n_kinds = o->optimizer == DPT_OPTIMIZER_ADAMW ? 2 : o->momentum != 0;
    CHECK(j->on == j->course.parts);
    for (size_t i = 0; i < j->n_devices; i++) {
        const size_t n = j->parts[i].end - j->parts[i].begin;
        CHECK_SIZE(j->parts[i].begin, at);
        CHECK_SIZE(j->bytes[i], n * n_kinds * sizeof(float));
        CHECK_SIZE(j->told[i], j->bytes[i]);
        if (j->on >= DPT_SHARD_GRADIENTS)
            CHECK_SIZE(j->sums[i], (n + m->flat_gradients - m->flat_trained) * sizeof(float));
        if (j->on < DPT_SHARD_PARAMETERS)
            CHECK_SIZE(j->weights[i], m->flat_size * sizeof(float));
        else
            CHECK(n == n_trained || j->weights[i] < m->flat_size * sizeof(float));
        n_holding += n > 0;
        at = j->parts[i].end;
    }
    CHECK_SIZE(at, n_trained);
    CHECK(n_holding > 1);
}

static void compare(test *t, const job *j, const parts_state *right)
{
    const parts_setting *s = t->user;
    parts_course named = j->course;
    named.model = j->wide ? s->wide : s->residual;
    for (size_t r = 0; r < stand_ins_count(j->course.devices); r++) {
        CHECK(j->agree[r]);
        CHECK(j->last[r] == j->last[0]);
        CHECK(j->last[r] == j->steps[PARTS_STEPS]);
        parts_compare(t, &named, right, &j->states[r]);
    }
}

/* ---- The same bits --------------------------------------------------------------------------- */

/* Two and three processes, with a device that has no samples, one that gets no part, memory that
   the host does not see, and an island within a process. */
static const mix mixes[] = {
    {"cpu:threads=1|cpu:threads=1", "13:2"},
    {"cpu:threads=1:memory=9M,cpu:threads=1:memory=30M|cpu:threads=1:memory=14M", "2:0:3"},
    {"cpu:threads=1|cpu:threads=1:memory=4M,cpu:threads=1|cpu:threads=2:memory=3G", "5:2:1:1"},
    {"cpu:threads=1|cpu:threads=1|cpu:threads=1:memory=4M", "1:2:1"},
    {"faultstaged:threads=1|cpu:threads=1,faultstaged:threads=1", "1:2:1"},
    {"fault:threads=1:island=1,fault:threads=1:island=1|cpu:threads=1", "2:3:1"},
};

static bool is_frozen(const dpt_trainer_options *o)
{
    return o->n_groups > 0 && o->groups[0].frozen;
}

/* What the same training gives without parts: of one device, or of the same processes. */
static bool find_right(test *t, const job *like, parts_state *out)
{
    const parts_setting *s = t->user;
    if (like->course.deterministic) {
        parts_course plain = like->course;
        plain.model = like->wide ? s->wide : s->residual;
        plain.parts = DPT_SHARD_NONE;
        plain.devices = "cpu:threads=1";
        plain.split = NULL;
        return parts_train(t, &plain, NULL, out);
    }
    job plain = *like;
    plain.course.parts = DPT_SHARD_NONE;
    if (!run_well(t, &plain)) return false;
    CHECK(plain.on == DPT_SHARD_NONE);
    *out = plain.states[0];
    plain.states[0] = (parts_state){.n = {0}};
    free_states(&plain);
    return true;
}

static void compare_to_plain(test *t, job *j, dpt_shard parts)
{
    parts_state right = {.n = {0}};
    if (find_right(t, j, &right)) {
        j->course.parts = parts;
        if (run_well(t, j)) {
            compare(t, j, &right);
            if (!is_frozen(&j->course.options)) check_parts(t, j, j->parts[j->n_devices - 1].end);
        }
        free_states(j);
    }
    parts_free(&right);
}

static void same_bits(test *t, bool deterministic, dpt_shard parts)
{
    for (size_t o = parts == DPT_SHARD_OPTIMIZER; o < PARTS_OPTIMIZERS; o++)
        for (size_t i = 0; i < sizeof mixes / sizeof *mixes && t->n_failures == 0; i++) {
            /* Limits are for the smaller network. */
            const bool wide = (o + i) % 2 == 1 && !strstr(mixes[i].devices, "memory=4M");
            job j = {.wide = wide,
                     .course = {.options = parts_optimizers[o],
                                .deterministic = deterministic,
                                .sets = !deterministic && o > 0 &&
                                        !is_frozen(&parts_optimizers[o]), /* such have none */
                                .devices = mixes[i].devices,
                                .split = mixes[i].split}};
            compare_to_plain(t, &j, parts);
        }
}

static void deterministic(test *t)
{
    same_bits(t, true, DPT_SHARD_OPTIMIZER);
}

static void by_default(test *t)
{
    same_bits(t, false, DPT_SHARD_OPTIMIZER);
}

static void gradients_deterministic(test *t)
{
    same_bits(t, true, DPT_SHARD_GRADIENTS);
}

static void gradients_by_default(test *t)
{
    same_bits(t, false, DPT_SHARD_GRADIENTS);
}

static void parameters_deterministic(test *t)
{
    same_bits(t, true, DPT_SHARD_PARAMETERS);
}

static void parameters_by_default(test *t)
{
    same_bits(t, false, DPT_SHARD_PARAMETERS);
}

/* Micro-batches, batches that are accumulated, compressed sums, and samples that all devices of a
   process lack. */
static void other_ways(test *t)
{
    static const struct {
        size_t micro_batch, accumulate;
        dpt_compression compress;
        const char *split;
    } ways[] = {{3, 0, DPT_COMPRESS_NONE, "2:0:3"},
                {0, 3, DPT_COMPRESS_NONE, "5:2:1"},
                {2, 2, DPT_COMPRESS_BF16, "27:1:1"},
                {0, 0, DPT_COMPRESS_INT8, "1:1:0"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (size_t k = 0; k < 6; k++) {
            job j = {.wide = k % 2 == 1,
                     .course = {.options = parts_optimizers[2 + k % 2],
                                .micro_batch = ways[i].micro_batch,
                                .accumulate = ways[i].accumulate,
                                .devices = "cpu:threads=1,faultstaged:threads=1|cpu:threads=2",
                                .split = ways[i].split}};
            j.course.options.compress = ways[i].compress;
            compare_to_plain(t, &j, (dpt_shard)(DPT_SHARD_OPTIMIZER + (int)k / 2));
        }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* No device holds the training alone, and with the state in parts all do: parts go by what memory
   is left in all processes. */
static void limits(test *t)
{
    static const size_t percents[][DEVICES] = {
        {70, 95, 80, 75}, {80, 90, 71, 97}, {74, 75, 73, 72}, {54, 72, 55, 73}};
    const parts_setting *s = t->user;
    const size_t all = 4 * s->wide->flat_size * sizeof(float);
    parts_state right = {.n = {0}};
    job plain = {.wide = true,
                 .course = {.options = parts_optimizers[3],
                            .micro_batch = 1, /* the same sums, whatever memory is left */
                            .split = "1:1:1:1",
                            .devices = "cpu:threads=1,cpu:threads=1|cpu:threads=1|cpu:threads=1"}};
    if (!find_right(t, &plain, &right)) return;
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        char devices[TEXT];
        job j = plain;
        snprintf(devices, sizeof devices,
                 "cpu:threads=1:memory=%zu,cpu:threads=1:memory=%zu|cpu:threads=1:memory=%zu|"
                 "cpu:threads=1:memory=%zu",
                 percents[i][0] * all / 100, percents[i][1] * all / 100, percents[i][2] * all / 100,
                 percents[i][3] * all / 100);
        j.course.devices = devices;
        CHECK(run(&j) == DPT_E_NO_MEMORY);
        check_all_failed(t, 3, j.statuses, j.messages, DPT_E_NO_MEMORY,
                         "fits with --shard optimizer");
        j.course.parts = DPT_SHARD_OPTIMIZER;
        if (!run_well(t, &j)) continue;
        compare(t, &j, &right);
        check_parts(t, &j, s->wide->flat_trained);
        free_states(&j);
    }
    parts_free(&right);
}

/* Nothing helps, and all processes say so. */
static void too_small(test *t)
{
    const parts_setting *s = t->user;
    const size_t limit = 52 * 4 * s->wide->flat_size * sizeof(float) / 100;
    char devices[TEXT];
    snprintf(devices, sizeof devices, "cpu:threads=1:memory=%zu|cpu:threads=1:memory=%zu", limit,
             limit);
    for (int parts = DPT_SHARD_NONE; parts <= DPT_SHARD_OPTIMIZER; parts++) {
        job j = {.wide = true,
                 .course = {.options = parts_optimizers[3],
                            .parts = (dpt_shard)parts,
                            .devices = devices,
                            .split = "1:1"}};
        CHECK(run(&j) == DPT_E_NO_MEMORY);
        for (size_t r = 0; r < 2; r++) {
            CHECK(j.statuses[r] == DPT_E_NO_MEMORY);
            CHECK(!strstr(j.messages[r], "--shard"));
        }
    }
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* The mirror of each process is that of the steps that it has done. */
static void check_mirrors(test *t, const job *right, const job *j, const char *what, size_t n)
{
    for (size_t r = 0; r < stand_ins_count(j->course.devices); r++)
        if (j->done[r] > 0 && !CHECK(j->last[r] == right->steps[j->done[r]]))
            FAIL("%s %zu: process %zu has another state than that of step %zu", what, n, r,
                 j->done[r]);
    if (j->done[0] > 0 && !CHECK(j->owed == right->owes[j->done[0]]))
        FAIL("%s %zu: another feedback than that of step %zu", what, n, j->done[0]);
}

static job failing_job(const char *devices, dpt_shard parts)
{
    return (job){.course = {.options = parts_optimizers[3],
                            .deterministic = true,
                            .parts = parts,
                            .devices = devices,
                            .split = "2:1:3"}};
}

/* Wherever the transport of a process fails, all processes end, and each has the state of a step.
 */
static void fail_transport(test *t, const job *right, size_t rank, size_t first)
{
    bool fails = true;
    size_t n_in_steps = 0;
    for (size_t after = first; fails && CHECK(after < 5000); after += 7 * test_stride()) {
        job j = failing_job(right->course.devices, right->course.parts);
        stand_ins_fail(rank, after);
        fails = run(&j) != DPT_OK;
        for (size_t r = 0; fails && r < MOST; r++)
            if (!CHECK(j.statuses[r] == DPT_E_IO))
                FAIL("behind %zu: process %zu: %s", after, r, j.messages[r]);
        check_mirrors(t, right, &j, "behind request", after);
        n_in_steps += fails && j.done[0] > 0;
        free_states(&j);
    }
    stand_ins_fail(0, SIZE_MAX);
    CHECK(n_in_steps > 3);
}

static void the_transport_fails(test *t)
{
    for (int parts = DPT_SHARD_OPTIMIZER; parts <= DPT_SHARD_PARAMETERS; parts++) {
        job right = failing_job("cpu:threads=1|cpu:threads=1|cpu:threads=1", (dpt_shard)parts);
        if (!run_well(t, &right)) return;
        for (size_t rank = 0; rank < MOST; rank++)
            fail_transport(t, &right, rank, rank + (size_t)parts);
        free_states(&right);
    }
}

/* Sums are compressed, or those of deterministic training. */
static void take_mode(job *j, dpt_compression compress)
{
    j->course.options.compress = compress;
    j->course.deterministic = compress == DPT_COMPRESS_NONE;
}

/* Whatever call of a device fails, all processes name it, and have the state of the same step. */
static void fail_device(test *t, const job *right, const char *backend, size_t first)
{
    bool fails = true;
    size_t n_failed = 0;
    for (size_t call = first; fails && CHECK(call < 5000); call += 29 * test_stride()) {
        char devices[TEXT];
        snprintf(devices, sizeof devices,
                 "cpu:threads=1|%s:threads=1:after=2:fail=%zu,cpu:threads=1", backend, call);
        job j = failing_job(devices, right->course.parts);
        take_mode(&j, right->course.options.compress);
        fails = run(&j) != DPT_OK;
        for (size_t r = 0; fails && r < 2; r++)
            if (!CHECK(j.statuses[r] == DPT_E_DEVICE) || !CHECK(j.done[r] == j.done[0]) ||
                !CHECK(strstr(j.messages[r], "process 1")) ||
                !CHECK(strstr(j.messages[r], backend)))
                FAIL("call %zu: process %zu, step %zu: %s", call, r, j.done[r], j.messages[r]);
        check_mirrors(t, right, &j, "call", call);
        n_failed += fails;
        free_states(&j);
    }
    CHECK(n_failed > 10 / test_stride());
}

static void a_device_fails(test *t)
{
    static const char *const backends[] = {"fault", "faultstaged"};
    for (int parts = DPT_SHARD_OPTIMIZER; parts <= DPT_SHARD_PARAMETERS; parts++)
        for (size_t b = 0; b < 2; b++) {
            char devices[TEXT];
            snprintf(devices, sizeof devices, "cpu:threads=1|%s:threads=1,cpu:threads=1",
                     backends[b]);
            job right = failing_job(devices, (dpt_shard)parts);
            take_mode(&right, b == 0 ? DPT_COMPRESS_NONE : DPT_COMPRESS_BF16);
            if (!run_well(t, &right)) return;
            fail_device(t, &right, backends[b], 2 * (size_t)parts + b);
            free_states(&right);
        }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refusals(test *t)
{
    static const struct {
        const char *message;
        dpt_shard parts;
        bool offload, other;
        size_t local_steps;
    } ways[] = {{"leave offload out", DPT_SHARD_OPTIMIZER, true, 0, 0},
                {"parts differs: process 0 has optimizer, process 1 has none", DPT_SHARD_OPTIMIZER,
                 0, true, 0},
                {"local steps cannot be combined with shard", DPT_SHARD_OPTIMIZER, 0, 0, 4}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        job j = {.other = ways[i].other,
                 .course = {.options = parts_optimizers[3],
                            .parts = ways[i].parts,
                            .offload = ways[i].offload,
                            .devices = "cpu:threads=1|cpu:threads=1",
                            .split = "1:1"}};
        j.course.options.local_steps = ways[i].local_steps;
        CHECK(run(&j) == DPT_E_INVALID);
        check_all_failed(t, 2, j.statuses, j.messages, DPT_E_INVALID, ways[i].message);
    }
}

/* SGD without momentum has no state. */
static void nothing_to_divide(test *t)
{
    job j = {.course = {.options = parts_optimizers[0],
                        .parts = DPT_SHARD_OPTIMIZER,
                        .devices = "cpu:threads=1|cpu:threads=1",
                        .split = "1:1"}};
    if (run_well(t, &j)) CHECK(j.on == DPT_SHARD_NONE);
    free_states(&j);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"deterministic", deterministic},
                                      {"by default", by_default},
                                      {"gradients deterministic", gradients_deterministic},
                                      {"gradients by default", gradients_by_default},
                                      {"parameters deterministic", parameters_deterministic},
                                      {"parameters by default", parameters_by_default},
                                      {"other ways", other_ways},
                                      {"limits", limits},
                                      {"too small", too_small},
                                      {"the transport fails", the_transport_fails},
                                      {"a device fails", a_device_fails},
                                      {"refusals", refusals},
                                      {"nothing to divide", nothing_to_divide}};
    return parts_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
