/* Tests collectives over processes: sums to the bit, agreement, arrays, and failures of a device
   or the transport. */
#include "base/clock.h"
#include "collective/launch.h"
#include "context/context.h"
#include "harness.h"
#include "train/processes.h"
#include "train/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 5 };

/* ---- Collectives ----------------------------------------------------------------------------- */

typedef struct collective_task {
    dpti_collective_kind kind;
    dpti_travel travel;
    size_t n, count, n_pieces;
    const size_t *slices;  /* NULL: about equal; of each piece, if it is one piece */
    unsigned contributing; /* bits */
    float *results[MOST];
} collective_task;

/* Different in every element and process, with different last bits. */
static float value_of(size_t rank, size_t i)
{
    const uint32_t mixed = ((uint32_t)i * 7 + (uint32_t)rank * 1000003 + 1) * 2654435761u;
    return (float)(int32_t)mixed / 3.0f;
}

/* From the end, with calls in between, which overtake. */
static void run_in_pieces(dpti_processes *p, const collective_task *task, float *data,
                          const bool *contributes)
{
    size_t end = task->count;
    for (size_t i = task->n_pieces; i-- > 0;) {
        const size_t begin = task->count * i / task->n_pieces;
        const dpti_collective piece = {.kind = task->kind,
                                       .data = data + begin,
                                       .count = end - begin,
                                       .slices = task->slices,
                                       .contributes = contributes};
        dpti_processes_start_collective(p, &piece);
        end = begin;
        dpt_error error;
        if (i % 3 == 1 && dpti_processes_agree(p, DPT_OK, &error) != DPT_OK) return;
    }
}

static dpt_status run_part(dpt_context *context, size_t rank, void *user)
{
    collective_task *task = user;
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
    DPT_TRY(dpti_processes_set_travel(context->processes, &task->travel, &error));
    run_in_pieces(context->processes, task, data, contributes);
    return dpti_processes_finish_collectives(context->processes, &error);
}

/* In the order of ranks, beginning with the first that contributes; 0 if none does. */
static float sum_of(const collective_task *task, size_t i)
{
    float sum = 0;
    bool any = false;
    for (size_t r = 0; r < task->n; r++) {
        if (!(task->contributing >> r & 1)) continue;
        sum = any ? sum + value_of(r, i) : value_of(r, i);
        any = true;
    }
    return sum;
}

/* Whose slice an element is in, of one piece. */
static size_t owner_of(const collective_task *task, size_t i)
{
    size_t r = 0;
    while (i >= task->slices[r + 1])
        r++;
    return r;
}

static size_t count_wrong(const collective_task *task)
{
    size_t n_wrong = 0;
    for (size_t i = 0; i < task->count; i++) {
        const size_t owner = task->slices ? owner_of(task, i) : 0;
        const bool gathers = task->kind == DPTI_ALL_GATHER;
        const float expected = gathers ? value_of(owner, i) : sum_of(task, i);
        for (size_t r = 0; r < task->n; r++)
            if (task->kind != DPTI_REDUCE_SCATTER || r == owner)
                n_wrong += task->results[r][i] != expected;
    }
    for (size_t r = 0; r < task->n; r++)
        n_wrong += task->results[r][task->count] != 7;
    return n_wrong;
}

static void check_collective(test *t, collective_task *task)
{
    char message[512] = "";
    if (!CHECK_OK(stand_ins_run(task->n, run_part, task, message)) ||
        !CHECK_SIZE(count_wrong(task), 0))
        FAIL("kind %d, route %d, window %zu, %zu processes, %zu elements in %zu pieces: %s",
             (int)task->kind, (int)task->travel.route, task->travel.window, task->n, task->count,
             task->n_pieces, message);
    for (size_t r = 0; r < task->n; r++)
        free(task->results[r]);
}

static void check_pieces(test *t, size_t n, size_t count, unsigned contributing, size_t n_pieces)
{
    static const dpti_travel travels[] = {{DPTI_ROUTE_DIRECT, DPTI_LEAST_WINDOW},
                                          {DPTI_ROUTE_DIRECT, DPTI_MOST_WINDOW},
                                          {DPTI_ROUTE_RING, DPTI_LEAST_WINDOW},
                                          {DPTI_ROUTE_RING, 5}};
    for (size_t i = 0; i < sizeof travels / sizeof *travels; i++) {
        collective_task task = {.travel = travels[i],
                                .n = n,
                                .count = count,
                                .contributing = contributing,
                                .n_pieces = n_pieces};
        check_collective(t, &task);
    }
}

static void check_reduce(test *t, size_t n, size_t count, unsigned contributing)
{
    check_pieces(t, n, count, contributing, 1);
}

/* Sums in the order of ranks, to the bit, wherever slices and chunks begin, and on every route. */
static void all_reduce(test *t)
{
    static const size_t counts[] = {0, 1, 15, 17, 255, 4097, 300000, 1000003};
    for (size_t n = 1; n <= MOST; n++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            check_reduce(t, n, counts[c], (1u << n) - 1);
    check_reduce(t, 3, 1000, 5);
    check_reduce(t, 3, 300000, 2);
    check_reduce(t, 4, 1000, 0);
    check_reduce(t, 4, 100000, 8);
    for (size_t n = 1; n <= MOST; n++) {
        check_pieces(t, n, 3000001, (1u << n) - 1, 7);
        check_pieces(t, n, 5000, (1u << n) - 1, 100); /* more than are under way at once */
    }
    check_pieces(t, 3, 3000001, 5, 4);
}

/* The other kinds with slices of any size, some empty, and one that is everything: a broadcast. */
static void slices(test *t)
{
    static const size_t cuts[][MOST + 1] = {{0, 0, 0, 0, 0, 0},
                                            {0, 1, 3, 3, 10, 11},
                                            {0, 70001, 70001, 300000, 300017, 400000},
                                            {0, 0, 200003, 200003, 200003, 200003},
                                            {0, 0, 0, 0, 0, 1000003}};
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++)
        for (size_t n = 1; n <= MOST; n++)
            for (int i = 0; i < 8; i++) {
                const bool gathers = i & 1;
                collective_task task = {
                    .kind = gathers ? DPTI_ALL_GATHER : DPTI_REDUCE_SCATTER,
                    .travel = {i & 2 ? DPTI_ROUTE_RING : DPTI_ROUTE_DIRECT, i & 4 ? 4 : 3},
                    .slices = cuts[c],
                    .n = n,
                    .count = cuts[c][n],
                    .n_pieces = 1,
                    .contributing = gathers || n < 3 ? (1u << n) - 1 : 6};
                check_collective(t, &task);
            }
}

/* Whenever a connection is cut, everybody hears of it or is done. */
static void collectives_are_cut(test *t)
{
    for (int route = DPTI_ROUTE_DIRECT; route <= DPTI_ROUTE_RING; route++) {
        size_t n_failed = 0;
        for (size_t after = 0;; after++) {
            char message[512] = "";
            collective_task task = {.travel = {(dpti_route)route, DPTI_LEAST_WINDOW},
                                    .n = 3,
                                    .count = 300000,
                                    .contributing = 7,
                                    .n_pieces = 2};
            stand_ins_fail(1, after);
            (void)alarm(60); /* nothing may hang */
            const dpt_status status = stand_ins_run(task.n, run_part, &task, message);
            (void)alarm(0);
            stand_ins_fail(0, SIZE_MAX);
            for (size_t r = 0; r < task.n; r++)
                free(task.results[r]);
            if (status == DPT_OK) break;
            CHECK(status == DPT_E_IO);
            n_failed++;
        }
        CHECK(n_failed > 3);
    }
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
    status = dpti_processes_agree(context->processes, status, &error);
    if (status == DPT_OK)
        status =
            dpti_processes_gather(context->processes, (dpti_bytes){mine, 3 * rank}, &all, &error);
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

/* ---- Delays ---------------------------------------------------------------------------------- */

static const double late = 0.003;

typedef struct wait_task {
    double seconds[MOST]; /* of an agreement */
    size_t n_told[MOST];  /* processes whose delay each has heard of */
    char words[MOST][128];
} wait_task;

static dpt_status wait_part(dpt_context *context, size_t rank, void *user)
{
    wait_task *task = user;
    dpti_processes *p = context->processes;
    dpt_error error = {.status = DPT_OK};
    DPT_TRY(dpti_processes_tell_delays(p, &error));
    const double *delays = dpti_processes_delays(p);
    for (size_t r = 0; delays && r < dpti_processes_count(p); r++)
        task->n_told[rank] += delays[r] == late;
    dpti_processes_words(p, task->words[rank], sizeof task->words[rank]);
    const double began = dpti_seconds();
    DPT_TRY(dpti_processes_agree(p, DPT_OK, &error));
    task->seconds[rank] = dpti_seconds() - began;
    return DPT_OK;
}

/* Two all-gathers, one of sizes and one of reports, are two delays. */
static void agreement_is_late(test *t)
{
    char message[512];
    wait_task task = {.seconds = {0}};
    stand_ins_delay(late);
    CHECK_OK(stand_ins_run(3, wait_part, &task, message));
    stand_ins_delay(0);
    for (size_t r = 0; r < 3; r++) {
        CHECK(task.seconds[r] >= 2 * late);
        CHECK_SIZE(task.n_told[r], 3);
        CHECK_TEXT(task.words[r], "stand-in, delayed by 3 ms");
    }
    CHECK_OK(stand_ins_run(3, wait_part, &task, message));
    CHECK_TEXT(task.words[0], "stand-in");
}

static void sums_are_late(test *t)
{
    static const size_t counts[] = {0, 1, 4097, 300000};
    stand_ins_delay(late);
    for (size_t n = 1; n <= 3; n++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            check_reduce(t, n, counts[c], (1u << n) - 1);
    check_reduce(t, 3, 300000, 5);
    check_pieces(t, 3, 300001, 7, 7);
    stand_ins_delay(0);
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
    dpt_status status = dpt_device_set_open(context, list, &devices);
    if (status == DPT_OK) n = dpt_device_set_count(devices);
    for (size_t i = 0; status == DPT_OK && i < n; i++)
        status = dpt_array_create(dpt_device_set_get(devices, i), shape, 1, &arrays[i]);
    if (status == DPT_OK) status = sum_in(task, context, rank, arrays, n);
    for (size_t i = 0; i < n; i++)
        dpt_array_destroy(arrays[i]);
    dpt_device_set_close(devices);
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
    REQUIRE(has_fault_plugins(t));
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

static void sums_are_cut_late(test *t)
{
    stand_ins_delay(late);
    sums_are_cut(t);
    stand_ins_delay(0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"sums are those of the ranks in order, to the bit", all_reduce},
        {"sums and gathers in slices of any size", slices},
        {"the transport fails while collectives are under way", collectives_are_cut},
        {"all agree, or hear who does not", agreement},
        {"arrays of all processes are summed, if of one size", sums_of_other_sizes},
        {"a device of one process fails while arrays are summed", sums_fail},
        {"the transport fails while arrays are summed", sums_are_cut},
        {"with a delay all agree later", agreement_is_late},
        {"with a delay sums are the same", sums_are_late},
        {"the transport fails while there is a delay", sums_are_cut_late},
        {"other versions, other purposes", introductions},
    };
    add_fault_plugins();
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
