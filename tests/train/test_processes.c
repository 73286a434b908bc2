/* What processes do together, beyond training the same (test_mix.c, test_batch_norm.c): collectives
   by themselves, what must be the same in all, failures that all hear of, evaluation. */
#include "base/base.h"
#include "collective/processes.h"
#include "device/device.h"
#include "harness.h"
#include "train/processes.h"
#include "train/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 5, BATCH = 24, COUNT = 100 };

/* ---- Collectives ----------------------------------------------------------------------------- */

typedef struct reduce_task {
    size_t n, count, n_pieces;
    unsigned contributing; /* bits */
    float *results[MOST];
} reduce_task;

/* Different in every element and process, with different last bits. */
static float value_of(size_t rank, size_t i)
{
    return (float)sin((double)(i * 7 + rank * 1000003 + 1)) / 3.0f;
}

/* From the end, with calls in between, which overtake. */
static void reduce_in_pieces(dpti_processes *p, const reduce_task *task, float *data,
                             const bool *contributes)
{
    size_t end = task->count;
    for (size_t i = task->n_pieces; i-- > 0;) {
        const size_t begin = task->count * i / task->n_pieces;
        const dpti_reduction reduction = {
            .data = data + begin, .count = end - begin, .contributes = contributes};
        dpti_processes_start_reduction(p, &reduction);
        end = begin;
        dpt_error error;
        if (i % 3 == 1 && dpti_processes_agree(p, DPT_OK, NULL, 0, NULL, &error) != DPT_OK) return;
    }
}

static dpt_status reduce_part(dpt_context *context, size_t rank, void *user)
{
    reduce_task *task = user;
    dpt_error error = {.status = DPT_OK};
    bool contributes[MOST];
    float *data = malloc((task->count + 1) * sizeof *data);
    if (!data) return DPT_E_NO_MEMORY;
    for (size_t r = 0; r < task->n; r++)
        contributes[r] = task->contributing >> r & 1;
    for (size_t i = 0; i < task->count; i++)
        data[i] = contributes[rank] ? value_of(rank, i) : NAN;
    data[task->count] = 7; /* nobody's */
    task->results[rank] = data;
    reduce_in_pieces(context->processes, task, data, contributes);
    return dpti_processes_finish_reductions(context->processes, &error);
}

static void check_pieces(test *t, size_t n, size_t count, unsigned contributing, size_t n_pieces)
{
    reduce_task task = {.n = n, .count = count, .contributing = contributing, .n_pieces = n_pieces};
    char message[512] = "";
    if (!CHECK_OK(stand_ins_run(n, reduce_part, &task, message)))
        FAIL("%zu processes, %zu elements: %s", n, count, message);
    size_t n_wrong = 0;
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        bool any = false;
        for (size_t r = 0; r < n; r++) {
            if (!(contributing >> r & 1)) continue;
            sum = any ? sum + value_of(r, i) : value_of(r, i);
            any = true;
        }
        for (size_t r = 0; r < n; r++)
            n_wrong += task.results[r][i] != sum;
    }
    CHECK_SIZE(n_wrong, 0);
    for (size_t r = 0; r < n; r++) {
        CHECK(task.results[r][count] == 7);
        free(task.results[r]);
    }
}

static void check_reduce(test *t, size_t n, size_t count, unsigned contributing)
{
    check_pieces(t, n, count, contributing, 1);
}

/* Sums in the order of ranks, to the bit, wherever slices and chunks begin. */
static void all_reduce(test *t)
{
    static const size_t counts[] = {0, 1, 15, 17, 255, 4097, 300000, 1000003};
    for (size_t n = 1; n <= MOST; n++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            check_reduce(t, n, counts[c], (1u << n) - 1);
    check_reduce(t, 3, 1000, 5);
    check_reduce(t, 3, 300000, 2);
    check_reduce(t, 4, 1000, 0);
    for (size_t n = 1; n <= MOST; n++) {
        check_pieces(t, n, 3000001, (1u << n) - 1, 7);
        check_pieces(t, n, 5000, (1u << n) - 1, 100); /* more than are under way at once */
    }
    check_pieces(t, 3, 3000001, 5, 4);
}

typedef struct agree_task {
    size_t failing; /* SIZE_MAX: none */
    dpt_status verdicts[MOST];
    char messages[MOST][512];
    bool right[MOST];
} agree_task;

/* Process r brings r * 3 bytes of value r. */
static dpt_status agree_part(dpt_context *context, size_t rank, void *user)
{
    agree_task *task = user;
    dpti_gathered all = {.data = NULL};
    dpt_error error = {.status = DPT_OK};
    uint8_t mine[3 * MOST];
    memset(mine, (int)rank, sizeof mine);
    dpt_status status = DPT_OK;
    if (rank == task->failing) status = DPT_FAIL(&error, DPT_E_FORMAT, "planted");
    status = dpti_processes_agree(context->processes, status, mine, 3 * rank, &all, &error);
    task->verdicts[rank] = status;
    memcpy(task->messages[rank], error.message, sizeof error.message);
    task->right[rank] = status == DPT_OK;
    for (size_t r = 0; status == DPT_OK && r < dpti_processes_count(context->processes); r++) {
        if (all.begins[r + 1] - all.begins[r] != 3 * r) task->right[rank] = false;
        for (size_t i = all.begins[r]; i < all.begins[r + 1]; i++)
            if (all.data[i] != r) task->right[rank] = false;
    }
    dpti_gathered_free(&all);
    return DPT_OK;
}

static void agreement(test *t)
{
    char message[512];
    agree_task task = {.failing = SIZE_MAX};
    CHECK_OK(stand_ins_run(4, agree_part, &task, message));
    for (size_t r = 0; r < 4; r++)
        CHECK(task.verdicts[r] == DPT_OK && task.right[r]);
    task.failing = 2;
    CHECK_OK(stand_ins_run(4, agree_part, &task, message));
    for (size_t r = 0; r < 4; r++) {
        CHECK(task.verdicts[r] == DPT_E_FORMAT);
        CHECK(strcmp(task.messages[r], "process 2: planted") == 0);
    }
}

typedef struct introduction {
    const char *version, *purpose; /* of the last; of the others 1 and "train" */
    char messages[MOST][512];
} introduction;

static dpt_status introduce_part(dpt_context *context, size_t rank, void *user)
{
    introduction *task = user;
    dpti_processes *p = context->processes;
    dpt_error error = {.status = DPT_OK};
    const bool last = rank + 1 == dpti_processes_count(p);
    const dpt_status status = dpti_processes_introduce(p, last ? task->version : "1",
                                                       last ? task->purpose : "train", &error);
    snprintf(task->messages[rank], sizeof task->messages[rank], "%s", error.message);
    if (dpti_processes_agreed(p) != (status != DPT_OK)) return DPT_E_INTERNAL;
    return status;
}

static void check_introduction(test *t, const char *version, const char *purpose, const char *words)
{
    introduction task = {.version = version, .purpose = purpose};
    char message[512] = "";
    CHECK_STATUS(stand_ins_run(3, introduce_part, &task, message), *words ? DPT_E_INVALID : DPT_OK);
    for (size_t r = 0; r < 3; r++)
        if (!CHECK(strstr(task.messages[r], words))) FAIL("%s", task.messages[r]);
}

static void introductions(test *t)
{
    check_introduction(t, "1", "train", "");
    check_introduction(t, "2", "train",
                       "process 0 is dptrain 1 train, process 2 is dptrain 2 train");
    check_introduction(t, "1", "bench allreduce",
                       "process 0 is dptrain 1 train, process 2 is dptrain 1 bench allreduce");
    check_introduction(t, "1", "", "process 0 is dptrain 1 train, process 2 is dptrain 1;");
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

enum { MOST_ARRAYS = 3, ELEMENTS = 100 };

typedef struct sum_task {
    const char *devices;
    size_t other_size; /* of the last process's arrays, if not 0 */
    bool again;        /* after a failure everything once more, which is to succeed */
    dpt_status statuses[MOST];
    char messages[MOST][512];
    bool right[MOST]; /* after success */
} sum_task;

static dpt_status set_and_sum(dpt_array **arrays, size_t n, size_t rank)
{
    float values[2 * ELEMENTS];
    for (size_t i = 0; i < dpt_array_size(arrays[0]); i++)
        values[i] = (float)(i * (rank + 1));
    for (size_t i = 0; i < n; i++)
        DPT_TRY(dpt_array_set(arrays[i], values));
    return dpt_all_reduce(arrays, n);
}

/* Every device of process r has brought (r + 1) times i. */
static dpt_status read_sums(const sum_task *task, dpt_array **arrays, size_t n, bool *right)
{
    float sums[ELEMENTS];
    size_t factor = 0;
    char list[256];
    for (size_t r = 0; r < stand_ins_count(task->devices); r++) {
        stand_ins_devices(task->devices, r, list);
        factor += r + 1;
        for (const char *c = list; *c; c++)
            factor += *c == ',' ? r + 1 : 0;
    }
    *right = true;
    for (size_t i = 0; i < n; i++) {
        DPT_TRY(dpt_array_get(arrays[i], sums));
        for (size_t k = 0; k < ELEMENTS; k++)
            *right = *right && sums[k] == (float)(k * factor);
    }
    return DPT_OK;
}

static dpt_status sum_in(sum_task *task, dpt_context *context, size_t rank, dpt_array **arrays,
                         size_t n)
{
    dpt_status status = set_and_sum(arrays, n, rank);
    task->statuses[rank] = status;
    snprintf(task->messages[rank], sizeof task->messages[rank], "%s", dpt_error_message(context));
    if (status != DPT_OK && task->again) status = set_and_sum(arrays, n, rank);
    return status == DPT_OK ? read_sums(task, arrays, n, &task->right[rank]) : status;
}

static dpt_status sum_part(dpt_context *context, size_t rank, void *user)
{
    sum_task *task = user;
    const bool other = task->other_size && rank + 1 == dpt_process_count(context);
    const size_t shape[] = {other ? task->other_size : ELEMENTS};
    char list[256];
    dpt_device_set *devices = NULL;
    dpt_array *arrays[MOST_ARRAYS] = {NULL};
    size_t n = 0;
    stand_ins_devices(task->devices, rank, list);
    task->statuses[rank] = DPT_E_STATE; /* it does not come to the call */
    dpt_status status = dpt_devices_open(context, list, &devices);
    if (status == DPT_OK) n = dpt_devices_count(devices);
    for (size_t i = 0; status == DPT_OK && i < n; i++)
        status = dpt_array_create(dpt_devices_get(devices, i), shape, 1, &arrays[i]);
    if (status == DPT_OK) status = sum_in(task, context, rank, arrays, n);
    for (size_t i = 0; i < n; i++)
        dpt_array_destroy(arrays[i]);
    dpt_devices_close(devices);
    return status;
}

static dpt_status run_sums(sum_task *task)
{
    char message[512] = "";
    (void)alarm(60); /* nothing may hang */
    const dpt_status status =
        stand_ins_run(stand_ins_count(task->devices), sum_part, task, message);
    (void)alarm(0);
    return status;
}

/* All or none have sums, and who has them has the right ones. */
static void check_alike(test *t, const sum_task *task)
{
    for (size_t r = 0; r < stand_ins_count(task->devices); r++) {
        if (!CHECK(task->statuses[r] == task->statuses[0]) ||
            !CHECK(strcmp(task->messages[r], task->messages[0]) == 0))
            FAIL("%s: process %zu: %s", task->devices, r, task->messages[r]);
        CHECK(task->right[r]);
    }
}

static void sums_of_other_sizes(test *t)
{
    sum_task task = {.devices = "cpu:threads=1|cpu:threads=1,cpu:threads=1|cpu:threads=1"};
    CHECK_OK(run_sums(&task));
    check_alike(t, &task);
    for (size_t size = ELEMENTS - 1; size <= ELEMENTS + 1; size += 2) {
        task = (sum_task){.devices = "cpu:threads=1|cpu:threads=1", .other_size = size};
        CHECK(run_sums(&task) == DPT_E_INVALID);
        CHECK_CONTAINS(task.messages[0], "arrays of process 1 have");
        CHECK(strcmp(task.messages[0], task.messages[1]) == 0);
    }
}

/* Whatever call of a device fails, and with it the sum: all hear of it, and may go on. */
static void sums_fail(test *t)
{
    static const char *const plugins[] = {"fault", "faultstaged"};
    size_t n_failed = 0;
    for (size_t k = 0; k < sizeof plugins / sizeof *plugins; k++)
        for (size_t call = 1;; call++) {
            char devices[128];
            sum_task task = {.devices = devices, .again = true};
            snprintf(devices, sizeof devices,
                     "cpu:threads=1|%s:threads=1:fail=%zu,cpu:threads=1|cpu:threads=1", plugins[k],
                     call);
            const dpt_status status = run_sums(&task);
            if (task.statuses[1] == DPT_OK && status == DPT_OK && call > 20) break;
            if (task.statuses[1] == DPT_OK || status != DPT_OK) continue; /* before it, or behind */
            check_alike(t, &task);
            CHECK_CONTAINS(task.messages[0], "process 1: device ");
            n_failed++;
        }
    CHECK(n_failed > 3);
}

/* Whoever has a sum all the same has the right one. */
static void sums_are_cut(test *t)
{
    size_t n_failed = 0;
    for (size_t after = 0;; after++) {
        sum_task task = {.devices = "cpu:threads=1|cpu:threads=1"};
        stand_ins_fail(1, after);
        const dpt_status status = run_sums(&task);
        stand_ins_fail(0, SIZE_MAX);
        if (status == DPT_OK) break;
        n_failed++;
        for (size_t r = 0; r < 2; r++)
            CHECK(task.statuses[r] != DPT_OK || task.right[r]);
        CHECK(task.statuses[1] != DPT_OK);
    }
    CHECK(n_failed > 3);
}

/* ---- Trainers -------------------------------------------------------------------------------- */

typedef struct setting {
    image_set data, other_data;
    /* Of one task. */
    const char *devices;
    size_t n_steps;
    uint64_t other_seed; /* of the last process, if not 0 */
    bool other_images;   /* likewise */
    bool evaluate;
    bool compress;
    bool load_late;    /* the last process changes its weights before dpt_fit */
    bool no_fit;       /* there is none: weights are only evaluated, */
    size_t fewer_data; /* by the last process on so many images less */
    /* What the last process has of another course: more steps, a schedule, other test data. */
    size_t other_steps, other_warmup;
    bool other_test;
    dpt_status statuses[MOST];
    char messages[MOST][512];
    size_t steps[MOST];
    dpt_evaluation evaluations[MOST];
    float outputs[MOST][COUNT * 10];
    bool finite[MOST]; /* its weights, at the end */
} setting;

static dpt_status open_some(dpt_context *context, const image_set *images, size_t count,
                            dpt_dataset **out)
{
    const dpt_dataset_memory memory = {.count = count,
                                       .height = 28,
                                       .width = 28,
                                       .channels = 1,
                                       .classes = 10,
                                       .dtype = DPT_U8,
                                       .images = images->pixels,
                                       .labels = images->labels};
    return dpt_dataset_from_memory(context, &memory, out);
}

static dpt_status open_data(dpt_context *context, const image_set *images, dpt_dataset **out)
{
    return open_some(context, images, images->count, out);
}

/* Trains with tests, if there is any other course. */
static dpt_status fit(setting *s, dpt_context *context, bool last, dpt_trainer *trainer)
{
    const bool tests = s->other_test || s->other_steps > 0 || s->other_warmup > 0;
    dpt_fit_options options = {.max_steps = s->n_steps};
    dpt_fit_result result;
    dpt_dataset *data = NULL;
    if (last) {
        options.max_steps += s->other_steps;
        options.schedule.warmup_steps = s->other_warmup;
    }
    if (tests)
        DPT_TRY(open_data(context, last && s->other_test ? &s->other_data : &s->data, &data));
    options.test = data;
    const dpt_status status = dpt_fit(trainer, &options, &result);
    dpt_dataset_destroy(data);
    return status;
}

static bool has_finite_weights(dpt_trainer *trainer, size_t rank)
{
    dpt_device_description d = {.process = SIZE_MAX};
    size_t own = 0;
    while (dpt_trainer_device(trainer, own, &d) == DPT_OK && d.process != rank)
        own++;
    static const char *const names[] = {"conv1.weight", "fc2.bias"};
    static const size_t sizes[] = {180, 10};
    float values[180];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (dpt_trainer_get(trainer, own, DPT_PARAMETER, names[i], values, sizes[i]) != DPT_OK ||
            !dpti_all_finite(values, sizes[i]))
            return false;
    return true;
}

static dpt_status evaluate_some(setting *s, dpt_context *context, size_t rank, bool last,
                                dpt_trainer *trainer)
{
    dpt_dataset *data = NULL;
    DPT_TRY(open_some(context, &s->data, COUNT - (last ? s->fewer_data : 0), &data));
    dpt_status status = DPT_OK;
    for (size_t i = 0; status == DPT_OK && i < 2; i++)
        status = dpt_trainer_evaluate(trainer, data, &s->evaluations[rank]);
    if (status == DPT_OK) status = dpt_trainer_predict(trainer, data, 0, COUNT, s->outputs[rank]);
    dpt_dataset_destroy(data);
    return status;
}

static dpt_status use(setting *s, dpt_context *context, size_t rank, bool last,
                      dpt_trainer *trainer, const dpt_dataset *data)
{
    float bias[10] = {1, 2, 3};
    if (s->load_late && last)
        DPT_TRY(dpt_trainer_set(trainer, DPT_PARAMETER, "fc2.bias", bias, 10));
    if (s->no_fit) return evaluate_some(s, context, rank, last, trainer);
    const dpt_status status = fit(s, context, last, trainer);
    s->steps[rank] = dpt_trainer_steps(trainer);
    if (status == DPT_E_NOT_FINITE) {
        snprintf(s->messages[rank], sizeof s->messages[rank], "%s", dpt_error_message(context));
        s->finite[rank] = has_finite_weights(trainer, rank);
        return status;
    }
    DPT_TRY(status);
    if (!s->evaluate) return DPT_OK;
    DPT_TRY(dpt_trainer_evaluate(trainer, data, &s->evaluations[rank]));
    return dpt_trainer_predict(trainer, data, 0, data ? COUNT : 0, s->outputs[rank]);
}

static dpt_status train_in(setting *s, dpt_context *context, size_t rank)
{
    const bool last = rank + 1 == dpt_process_count(context);
    const dpt_model_shape shape = {28, 28, 1, 10};
    const dpt_trainer_options options = {
        .batch_size = BATCH,
        .split = "equal",
        .compress = s->compress ? DPT_COMPRESS_BF16 : DPT_COMPRESS_NONE,
        .seed = last && s->other_seed ? s->other_seed : 1,
    };
    char list[256];
    dpt_dataset *data = NULL;
    dpt_device_set *devices = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    stand_ins_devices(s->devices, rank, list);
    dpt_status status =
        open_data(context, last && s->other_images ? &s->other_data : &s->data, &data);
    if (status == DPT_OK) status = dpt_devices_open(context, list, &devices);
    if (status == DPT_OK) status = dpt_model_by_name(context, "lenet", &shape, &model);
    if (status == DPT_OK) status = dpt_trainer_create(devices, model, data, &options, &trainer);
    if (status == DPT_OK) status = use(s, context, rank, last, trainer, data);
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_devices_close(devices);
    dpt_dataset_destroy(data);
    return status;
}

static dpt_status train_part(dpt_context *context, size_t rank, void *user)
{
    setting *s = user;
    s->statuses[rank] = train_in(s, context, rank);
    if (s->statuses[rank] != DPT_E_NOT_FINITE)
        snprintf(s->messages[rank], sizeof s->messages[rank], "%s", dpt_error_message(context));
    return s->statuses[rank];
}

static setting *begin(test *t, const char *devices, size_t n_steps)
{
    setting *s = t->user;
    s->devices = devices;
    s->n_steps = n_steps;
    s->other_seed = 0;
    s->other_images = s->evaluate = s->compress = s->load_late = s->other_test = false;
    s->no_fit = false;
    s->other_steps = s->other_warmup = s->fewer_data = 0;
    return s;
}

/* All processes fail alike, with these words. */
static void check_all_fail(test *t, setting *s, dpt_status status, const char *words)
{
    char message[512] = "";
    const size_t n = stand_ins_count(s->devices);
    CHECK(stand_ins_run(n, train_part, s, message) == status);
    for (size_t r = 0; r < n; r++)
        if (!CHECK(s->statuses[r] == status) || !CHECK(strstr(s->messages[r], words)))
            FAIL("process %zu: %s", r, s->messages[r]);
}

static void what_must_be_the_same(test *t)
{
    setting *s = begin(t, "cpu:threads=1|cpu:threads=1|cpu:threads=1", 2);
    s->other_seed = 2;
    check_all_fail(t, s, DPT_E_INVALID, "seed differs: process 0 has 1, process 2 has 2");
    s = begin(t, "cpu:threads=1|cpu:threads=1", 2);
    s->other_images = true;
    check_all_fail(t, s, DPT_E_INVALID, "checksum of the data differs");
    s = begin(t, "cpu:threads=1|cpu:threads=1", 2);
    s->load_late = true;
    check_all_fail(t, s, DPT_E_INVALID, "process 1 begins with other weights than process 0");
    s = begin(t, "cpu:threads=1|cpu:threads=1", 2);
    s->other_test = true;
    check_all_fail(t, s, DPT_E_INVALID, "checksum of the test data differs");
    s = begin(t, "cpu:threads=1|cpu:threads=1|cpu:threads=1", 2);
    s->other_steps = 3;
    check_all_fail(t, s, DPT_E_INVALID,
                   "number of steps differs: process 0 has 2, process 2 has 5");
    s = begin(t, "cpu:threads=1|cpu:threads=1", 2);
    s->other_warmup = 1;
    check_all_fail(t, s, DPT_E_INVALID,
                   "warm-up differs: process 0 has 0 steps, process 1 has 1 steps");
}

static void what_evaluation_compares(test *t)
{
    char message[512] = "";
    setting *s = begin(t, "cpu:threads=1|cpu:threads=1,cpu:threads=1", 0);
    s->no_fit = true;
    if (!CHECK_OK(stand_ins_run(2, train_part, s, message))) FAIL("%s", message);
    s->load_late = true;
    check_all_fail(t, s, DPT_E_INVALID, "process 1 begins with other weights than process 0");
    s->load_late = false;
    s->fewer_data = 1;
    check_all_fail(t, s, DPT_E_INVALID, "process 1 evaluates 99 samples, and process 0 100");
}

/* A device of one process fails, at whatever call: that process tells it, and the others the same,
   unless it was before they trained together. */
static void a_device_fails(test *t)
{
    setting *s = begin(t, NULL, 3);
    size_t n_alike = 0, call = 1;
    for (;; call += call < 60 ? 1 : 17) {
        char devices[128], message[512] = "";
        snprintf(devices, sizeof devices,
                 "cpu:threads=1|cpu:threads=1,fault:threads=1:fail=%zu|cpu:threads=1", call);
        s->devices = devices;
        if (stand_ins_run(3, train_part, s, message) == DPT_OK) break;
        for (size_t r = 0; r < 3; r++) {
            const bool told = strstr(s->messages[r], "fault:threads=1:fail") != NULL;
            const bool cut = strstr(s->messages[r], "is cut") != NULL;
            if (!CHECK(s->statuses[r] != DPT_OK) || !CHECK(told || (r != 1 && cut)))
                FAIL("call %zu, process %zu: %s", call, r, s->messages[r]);
            CHECK_SIZE(s->steps[r], s->steps[0]);
        }
        n_alike += strcmp(s->messages[0], s->messages[1]) == 0 &&
                   strncmp(s->messages[0], "process 1", 9) == 0;
    }
    CHECK(call > 100);
    CHECK(n_alike > 20);
}

/* Numbers that are not finite, of one device or of the sum alone: all say the same, and the step
   has changed nothing. */
static void not_finite(test *t)
{
    static const struct {
        const char *devices, *words;
    } cases[] = {
        {"fault:threads=1:huge=2|fault:threads=1:huge=2",
         "the gradients of step 2 are not finite: training diverges"},
        {"cpu:threads=1,fault:threads=1:huge=2|cpu:threads=1|fault:threads=1:huge=2",
         "the gradients of step 2 are not finite: training diverges"},
        {"fault:threads=1:poison=2|fault:threads=1:poison=2",
         "the gradients of step 2 are not finite: training diverges"},
        {"cpu:threads=1|cpu:threads=1,fault:threads=1:poison=2",
         "device fault:threads=1:poison=2 of process 1 ("},
        {"fault:threads=1:poison=2|cpu:threads=1|fault:threads=1:poison=2",
         "devices fault:threads=1:poison=2 of process 0 ("},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t compress = 0; compress < 2; compress++) {
            setting *s = begin(t, cases[i].devices, 3);
            s->compress = compress;
            check_all_fail(t, s, DPT_E_NOT_FINITE, cases[i].words);
            for (size_t r = 0; r < stand_ins_count(s->devices); r++) {
                CHECK_SIZE(s->steps[r], 1);
                CHECK(s->finite[r]);
                CHECK(strcmp(s->messages[r], s->messages[0]) == 0);
            }
        }
}

/* Whenever the transport of one process fails, every process ends with a failure. */
static void the_transport_fails(test *t)
{
    size_t n_failed = 0;
    for (size_t after = 0; after < 200; after += after < 40 ? 1 : 13) {
        setting *s = begin(t, "cpu:threads=1|cpu:threads=1,cpu:threads=1", 3);
        char message[512] = "";
        s->evaluate = true;
        stand_ins_fail(1, after);
        const dpt_status status = stand_ins_run(2, train_part, s, message);
        stand_ins_fail(0, SIZE_MAX);
        if (status == DPT_OK) break;
        n_failed++;
        for (size_t r = 0; r < 2; r++)
            if (!CHECK(s->statuses[r] != DPT_OK) || !CHECK(strstr(s->messages[r], "is cut")))
                FAIL("after %zu, process %zu: %s", after, r, s->messages[r]);
    }
    CHECK(n_failed > 20);
}

static void evaluation(test *t)
{
    char message[512] = "";
    setting *s = begin(t, "cpu:threads=1", 3);
    s->evaluate = true;
    CHECK_OK(stand_ins_run(1, train_part, s, message));
    const dpt_evaluation one = s->evaluations[0];
    float *alone = malloc(sizeof s->outputs[0]);
    REQUIRE(alone);
    memcpy(alone, s->outputs[0], sizeof s->outputs[0]);
    s->devices = "cpu:threads=1|cpu:threads=1,cpu:threads=1|cpu:threads=1";
    if (!CHECK_OK(stand_ins_run(3, train_part, s, message))) FAIL("%s", message);
    for (size_t r = 0; r < 3; r++) {
        const dpt_evaluation *e = &s->evaluations[r];
        CHECK_SIZE(e->samples, one.samples);
        CHECK_NEAR(e->loss, one.loss, 1e-5);
        CHECK(e->loss == s->evaluations[0].loss && e->hits == s->evaluations[0].hits);
        CHECK(memcmp(s->outputs[r], s->outputs[0], sizeof s->outputs[0]) == 0);
        for (size_t i = 0; i < COUNT * 10; i++)
            CHECK_NEAR((double)s->outputs[r][i], (double)alone[i], 1e-4);
    }
    free(alone);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"sums are those of the ranks in order, to the bit", all_reduce},
        {"all agree, or hear who does not", agreement},
        {"arrays of all processes are summed, if of one size", sums_of_other_sizes},
        {"a device of one process fails while arrays are summed", sums_fail},
        {"the transport fails while arrays are summed", sums_are_cut},
        {"other versions, other purposes", introductions},
        {"what must be the same in all processes", what_must_be_the_same},
        {"what must be the same where weights are evaluated", what_evaluation_compares},
        {"a device of one process fails", a_device_fails},
        {"numbers that are not finite", not_finite},
        {"the transport fails", the_transport_fails},
        {"evaluation and prediction", evaluation},
    };
    static setting s;
    add_fault_plugins();
    if (!images_create(COUNT, 7, &s.data) || !images_create(COUNT, 8, &s.other_data)) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    images_free(&s.data);
    images_free(&s.other_data);
    return code;
}
