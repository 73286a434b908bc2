/* Tests broadcast, reduce-scatter and all-gather over arrays, in one process and over several:
   values to the bit, refused calls, and failures of a device or the transport. */
#include "dptrain.h"
#include "harness.h"
#include "train/processes.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4, MOST_ARRAYS = 4 };

typedef enum collective { BROADCAST, REDUCE_SCATTER, ALL_GATHER, N_COLLECTIVES } collective;

typedef struct task {
    collective what;
    const char *devices; /* "a,b|c": those of two processes */
    size_t size, root;
    unsigned
        power;  /* of the place, in which parts grow: 1: about equal ones; 0: the last has all */
    bool again; /* after a failure everything once more, which is to succeed */
    /* Of the last process: */
    collective other_what;
    size_t other_size, other_root, other_part;
    bool differs;
    dpt_status statuses[MOST];
    char messages[MOST][512];
    bool right[MOST]; /* after success */
} task;

/* One process's part in it. */
typedef struct side {
    const task *task;
    collective what;
    size_t size, root, more; /* more: elements that its last part has too many */
    size_t first, n, n_all;  /* arrays before its own, its own, those of all */
    dpt_device_set *devices;
    dpt_array *arrays[MOST_ARRAYS], *parts[MOST_ARRAYS];
    float *values, *other; /* (size + more) */
} side;

/* Different in every element and array, with different last bits. */
static float value_of(size_t rank, size_t i)
{
    return (float)sin((double)(i * 7 + rank * 1000003 + 1)) / 3.0f;
}

static size_t count_devices(const char *list)
{
    size_t n = 1;
    for (; *list; list++)
        n += *list == ',';
    return n;
}

/* Where the part of array number k begins. */
static size_t begin_of(const side *s, size_t k)
{
    size_t begin = s->size, most = 1;
    if (s->task->power == 0) return k < s->n_all ? 0 : s->size;
    for (unsigned p = 0; p < s->task->power; p++) {
        begin *= k;
        most *= s->n_all;
    }
    return begin / most;
}

/* ---- One process ----------------------------------------------------------------------------- */

static dpt_status make_arrays(side *s)
{
    for (size_t i = 0; i < s->n; i++) {
        dpt_device *device = dpt_device_set_get(s->devices, i);
        size_t count = begin_of(s, s->first + i + 1) - begin_of(s, s->first + i);
        if (i + 1 == s->n) count += s->more;
        DPT_TRY(dpt_array_create(device, &s->size, 1, &s->arrays[i]));
        if (s->what != BROADCAST && count > 0)
            DPT_TRY(dpt_array_create(device, &count, 1, &s->parts[i]));
    }
    return DPT_OK;
}

/* From element `begin` on what array number k has. */
static dpt_status set(side *s, dpt_array *array, size_t k, size_t begin)
{
    if (!array) return DPT_OK;
    for (size_t i = 0; i < dpt_array_size(array); i++)
        s->values[i] = value_of(k, begin + i);
    return dpt_array_set(array, s->values);
}

static dpt_status set_all(side *s)
{
    for (size_t i = 0; i < s->n; i++) {
        DPT_TRY(set(s, s->arrays[i], s->first + i, 0));
        DPT_TRY(set(s, s->parts[i], 0, begin_of(s, s->first + i)));
    }
    return DPT_OK;
}

static dpt_status call(side *s)
{
    DPT_TRY(set_all(s));
    if (s->what == BROADCAST) return dpt_broadcast(s->arrays, s->n, s->root);
    return s->what == REDUCE_SCATTER ? dpt_reduce_scatter(s->arrays, s->parts, s->n)
                                     : dpt_all_gather(s->parts, s->arrays, s->n);
}

/* An array is that of `rank`, to the bit. */
static dpt_status look(side *s, dpt_array *array, size_t rank, bool *right)
{
    DPT_TRY(dpt_array_get(array, s->other));
    for (size_t i = 0; i < s->size; i++) {
        const float expected = value_of(rank, i);
        if (memcmp(&s->other[i], &expected, sizeof expected) != 0) *right = false;
    }
    return DPT_OK;
}

/* Arrays are as they were, and parts are those of their sum, which the all-reduce makes. */
static dpt_status look_at_sums(side *s, bool *right)
{
    for (size_t i = 0; i < s->n; i++)
        DPT_TRY(look(s, s->arrays[i], s->first + i, right));
    DPT_TRY(dpt_all_reduce(s->arrays, s->n));
    for (size_t i = 0; i < s->n; i++) {
        if (!s->parts[i]) continue;
        DPT_TRY(dpt_array_get(s->arrays[i], s->values));
        DPT_TRY(dpt_array_get(s->parts[i], s->other));
        if (memcmp(s->values + begin_of(s, s->first + i), s->other,
                   dpt_array_size(s->parts[i]) * sizeof(float)) != 0)
            *right = false;
    }
    return DPT_OK;
}

static dpt_status look_at_all(side *s, bool *right)
{
    *right = true;
    if (s->what == REDUCE_SCATTER) return look_at_sums(s, right);
    for (size_t i = 0; i < s->n; i++)
        DPT_TRY(look(s, s->arrays[i], s->what == BROADCAST ? s->root : 0, right));
    return DPT_OK;
}

static void describe(task *t, size_t rank, side *out)
{
    const bool differs = t->differs && rank + 1 == stand_ins_count(t->devices);
    char list[256];
    *out = (side){.task = t, .what = t->what, .size = t->size, .root = t->root};
    if (differs) {
        out->what = t->other_what;
        out->size = t->other_size;
        out->root = t->other_root;
        out->more = t->other_part;
    }
    for (size_t r = 0; r < stand_ins_count(t->devices); r++) {
        stand_ins_devices(t->devices, r, list);
        if (r == rank) out->n = count_devices(list);
        if (r < rank) out->first += count_devices(list);
        out->n_all += count_devices(list);
    }
}

static dpt_status play(dpt_context *context, size_t rank, void *user)
{
    task *t = user;
    char list[256];
    side s;
    describe(t, rank, &s);
    stand_ins_devices(t->devices, rank, list);
    t->statuses[rank] = DPT_E_STATE; /* it does not come to the call */
    s.values = malloc((s.size + s.more) * sizeof *s.values);
    s.other = malloc((s.size + s.more) * sizeof *s.other);
    dpt_status status = s.values && s.other ? DPT_OK : DPT_E_NO_MEMORY;
    if (status == DPT_OK) status = dpt_device_set_open(context, list, &s.devices);
    if (status == DPT_OK) status = make_arrays(&s);
    if (status == DPT_OK) {
        status = call(&s);
        t->statuses[rank] = status;
        snprintf(t->messages[rank], sizeof t->messages[rank], "%s", dpt_error_message(context));
        if (status != DPT_OK && t->again) status = call(&s);
        if (status == DPT_OK) status = look_at_all(&s, &t->right[rank]);
    }
    for (size_t i = 0; i < s.n; i++) {
        dpt_array_destroy(s.parts[i]);
        dpt_array_destroy(s.arrays[i]);
    }
    dpt_device_set_close(s.devices);
    free(s.other);
    free(s.values);
    return status;
}

static dpt_status play_alone(task *t)
{
    dpt_context *context;
    DPT_TRY(dpt_context_create(&context));
    const dpt_status status = play(context, 0, t);
    dpt_context_destroy(context);
    return status;
}

static dpt_status run(task *t)
{
    char message[512] = "";
    const size_t n = stand_ins_count(t->devices);
    (void)alarm(60); /* nothing may hang */
    const dpt_status status = n == 1 ? play_alone(t) : stand_ins_run(n, play, t, message);
    (void)alarm(0);
    return status;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void check_right(test *t, task *what)
{
    if (!CHECK_OK(run(what)))
        FAIL("collective %d on %s, %zu elements: %s", (int)what->what, what->devices, what->size,
             what->messages[0]);
    for (size_t r = 0; r < stand_ins_count(what->devices); r++)
        if (!CHECK(what->right[r]))
            FAIL("collective %d on %s, %zu elements, process %zu", (int)what->what, what->devices,
                 what->size, r);
}

static void check_values(test *t, const char *devices, size_t n)
{
    static const size_t sizes[] = {1, 17, 257, 100003};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (size_t root = 0; root < n; root++)
            check_right(
                t, &(task){.what = BROADCAST, .devices = devices, .size = sizes[k], .root = root});
        for (collective what = REDUCE_SCATTER; what <= ALL_GATHER; what++)
            for (unsigned power = 0; power <= 2; power++)
                check_right(
                    t, &(task){.what = what, .devices = devices, .size = sizes[k], .power = power});
    }
}

#define ONE   "cpu:threads=1"
#define OTHER "faultstaged:threads=1"

static void values(test *t)
{
    check_values(t, ONE, 1);
    check_values(t, OTHER, 1);
    check_values(t, ONE "," ONE "," ONE, 3);
    check_values(t, OTHER "," OTHER "," OTHER, 3);
    check_values(t, OTHER "," ONE "," OTHER "," ONE, 4);
}

static void values_over_processes(test *t)
{
    check_values(t, ONE "|" ONE, 2);
    check_values(t, OTHER "|" OTHER "," OTHER, 3);
    check_values(t, ONE "|" OTHER "," ONE "|" ONE, 4);
    check_values(t, ONE "," OTHER "," ONE "|" ONE, 4);
    /* More than is exchanged at once. */
    check_right(t, &(task){.what = REDUCE_SCATTER,
                           .devices = ONE "," OTHER "|" ONE,
                           .size = 9000001,
                           .power = 2});
}

/* ---- What is refused ------------------------------------------------------------------------- */

static dpt_array *make(test *t, dpt_device *device, size_t size)
{
    dpt_array *array = NULL;
    CHECK_OK(dpt_array_create(device, &size, 1, &array));
    return array;
}

/* Of what refuses looks at. */
typedef struct bench {
    dpt_context *context;
    dpt_device_set *devices;
    dpt_array *x[2], *y[2], *longer; /* 4 elements on either device, 2; 5 on the second */
} bench;

static bool set_up(test *t, bench *b)
{
    *b = (bench){.context = NULL};
    if (!CHECK_OK(dpt_context_create(&b->context))) return false;
    if (!CHECK_OK(dpt_device_set_open(b->context, ONE "," ONE, &b->devices))) return false;
    for (size_t i = 0; i < 2; i++) {
        b->x[i] = make(t, dpt_device_set_get(b->devices, i), 4);
        b->y[i] = make(t, dpt_device_set_get(b->devices, i), 2);
    }
    b->longer = make(t, dpt_device_set_get(b->devices, 1), 5);
    return b->x[0] && b->x[1] && b->y[0] && b->y[1] && b->longer;
}

static void tear_down(bench *b)
{
    dpt_array_destroy(b->longer);
    for (size_t i = 0; i < 2; i++) {
        dpt_array_destroy(b->y[i]);
        dpt_array_destroy(b->x[i]);
    }
    dpt_device_set_close(b->devices);
    dpt_context_destroy(b->context);
}

static void check_refused(test *t, const bench *b, dpt_status status, const char *words)
{
    CHECK_STATUS(status, DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(b->context), words);
}

static void refuses_arrays(test *t)
{
    bench b, other;
    if (!set_up(t, &b)) return;
    dpt_array *const *x = b.x, *const *y = b.y;
    CHECK_STATUS(dpt_broadcast(NULL, 1, 0), DPT_E_INVALID);
    CHECK_STATUS(dpt_broadcast(x, 0, 0), DPT_E_INVALID);
    CHECK_STATUS(dpt_broadcast((dpt_array *[]){NULL, NULL}, 2, 0), DPT_E_INVALID);
    CHECK_STATUS(dpt_reduce_scatter(x, NULL, 2), DPT_E_INVALID);
    CHECK_STATUS(dpt_all_gather(NULL, x, 2), DPT_E_INVALID);
    CHECK_STATUS(dpt_all_gather(y, NULL, 2), DPT_E_INVALID);
    check_refused(t, &b, dpt_broadcast((dpt_array *[]){NULL, x[1]}, 2, 1),
                  "broadcast: array 0 is NULL");
    check_refused(t, &b, dpt_broadcast((dpt_array *[]){x[0], b.longer}, 2, 0),
                  "broadcast: array 1 has 5 elements, but array 0 has 4");
    check_refused(t, &b, dpt_reduce_scatter((dpt_array *[]){x[0], x[0]}, y, 2),
                  "reduce-scatter: arrays 0 and 1 are on one device");
    check_refused(t, &b, dpt_broadcast(x, 2, 2), "broadcast: there is no array 2 of 2");
    check_refused(t, &b, dpt_broadcast(x, 2, SIZE_MAX), "broadcast: there is no array");
    if (set_up(t, &other)) {
        check_refused(t, &b, dpt_all_gather(y, (dpt_array *[]){x[0], other.x[1]}, 2),
                      "all-gather: arrays 0 and 1 belong to different contexts");
        check_refused(t, &b, dpt_all_gather((dpt_array *[]){y[0], other.y[1]}, x, 2),
                      "all-gather: part 1 is not on the device of array 1");
    }
    tear_down(&other);
    CHECK_OK(dpt_broadcast(x, 2, 0));
    tear_down(&b);
}

static void refuses_parts(test *t)
{
    bench b;
    if (!set_up(t, &b)) return;
    dpt_array *const *x = b.x, *const *y = b.y;
    check_refused(t, &b, dpt_reduce_scatter(x, (dpt_array *[]){y[1], y[0]}, 2),
                  "reduce-scatter: part 0 is not on the device of array 0");
    check_refused(t, &b, dpt_reduce_scatter(x, (dpt_array *[]){x[0], NULL}, 2),
                  "reduce-scatter: array 0 is its own part");
    check_refused(t, &b, dpt_reduce_scatter(x, (dpt_array *[]){y[0], b.longer}, 2),
                  "reduce-scatter: parts have 7 elements together, but an array has 4");
    check_refused(t, &b, dpt_all_gather((dpt_array *[]){NULL, y[1]}, x, 2),
                  "all-gather: parts have 2 elements together, but an array has 4");
    check_refused(t, &b, dpt_all_gather((dpt_array *[]){NULL, NULL}, x, 2),
                  "all-gather: parts have 0 elements together, but an array has 4");
    CHECK_OK(dpt_reduce_scatter(x, y, 2));
    CHECK_OK(dpt_all_gather(y, x, 2));
    tear_down(&b);
}

static void check_all_refuse(test *t, task *what, const char *words)
{
    what->differs = true;
    CHECK_STATUS(run(what), DPT_E_INVALID);
    check_all_failed(t, stand_ins_count(what->devices), what->statuses, what->messages,
                     DPT_E_INVALID, words);
}

static void refuses_over_processes(test *t)
{
    static const char devices[] = ONE "|" ONE "," ONE "|" ONE;
    const task plain = {.devices = devices,
                        .what = BROADCAST,
                        .size = 8,
                        .power = 1,
                        .other_what = BROADCAST,
                        .other_size = 8};
    task what = plain;
    what.other_size = 7;
    check_all_refuse(
        t, &what, "broadcast: arrays of process 2 have 7 elements, but those of process 0 have 8");
    what = plain;
    what.other_root = 1;
    check_all_refuse(t, &what, "process 2 takes array 1 for the root, but process 0 array 0");
    what = plain;
    what.root = what.other_root = 4;
    check_all_refuse(t, &what, "broadcast: there is no array 4 of 4");
    what = plain;
    what.other_what = ALL_GATHER;
    check_all_refuse(t, &what, "process 2 calls for all-gather, but process 0 for broadcast");
    for (collective k = REDUCE_SCATTER; k <= ALL_GATHER; k++) {
        what = plain;
        what.what = what.other_what = k;
        what.other_part = 3;
        check_all_refuse(t, &what, "parts have 11 elements together, but an array has 8");
    }
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* All or none have succeeded, and who has, at last, has the right values. */
static void check_alike(test *t, const task *what)
{
    for (size_t r = 0; r < stand_ins_count(what->devices); r++) {
        if (!CHECK(what->statuses[r] == what->statuses[0]) ||
            !CHECK(strcmp(what->messages[r], what->messages[0]) == 0))
            FAIL("%s: process %zu: %s", what->devices, r, what->messages[r]);
        if (!CHECK(what->right[r]))
            FAIL("collective %d on %s: process %zu", (int)what->what, what->devices, r);
    }
}

typedef struct sweep {
    const char *list; /* "%" stands for the device that fails */
    const char *plugin;
    size_t process; /* that has it */
    collective what;
    size_t root;
} sweep;

/* Whatever call of a device fails: all hear of it, and may go on. */
static void check_sweep(test *t, const sweep *s)
{
    const size_t at = strcspn(s->list, "%");
    size_t n_failed = 0;
    for (size_t call = 1; call < 1000; call++) {
        char devices[160];
        task planted = {.what = s->what,
                        .devices = devices,
                        .size = 100,
                        .root = s->root,
                        .power = 2,
                        .again = true};
        snprintf(devices, sizeof devices, "%.*s%s:threads=1:fail=%zu%s", (int)at, s->list,
                 s->plugin, call, s->list + at + 1);
        const dpt_status status = run(&planted), its = planted.statuses[s->process];
        if (its == DPT_OK && status == DPT_OK && call > 20) break;
        if (its == DPT_OK || status != DPT_OK) continue; /* before the call, or behind it */
        check_alike(t, &planted);
        CHECK_CONTAINS(planted.messages[0], "device ");
        n_failed++;
    }
    CHECK(n_failed > 0);
}

static void check_sweeps(test *t, sweep s)
{
    for (s.what = 0; s.what < N_COLLECTIVES; s.what++)
        for (s.root = 0; s.root < (s.what == BROADCAST ? 2 : 1); s.root++)
            check_sweep(t, &s);
}

static void devices_fail(test *t)
{
    check_sweeps(t, (sweep){.list = ONE ",%," ONE, .plugin = "fault"});
    check_sweeps(t, (sweep){.list = ONE ",%," ONE, .plugin = "faultstaged"});
    check_sweeps(t, (sweep){.list = OTHER ",%", .plugin = "faultstaged"});
}

static void devices_fail_over_processes(test *t)
{
    check_sweeps(t, (sweep){.list = ONE "|%," ONE "|" ONE, .plugin = "fault", .process = 1});
    check_sweeps(t, (sweep){.list = ONE "|%," ONE "|" ONE, .plugin = "faultstaged", .process = 1});
    check_sweeps(t, (sweep){.list = ONE "|%|" OTHER, .plugin = "faultstaged", .process = 1});
}

/* Whoever has values all the same has the right ones. */
static void transport_fails(test *t)
{
    for (collective what = 0; what < N_COLLECTIVES; what++) {
        size_t n_failed = 0;
        for (size_t after = 0;; after++) {
            task cut = {.what = what, .devices = ONE "|" ONE, .size = 100, .power = 1};
            stand_ins_fail(1, after);
            const dpt_status status = run(&cut);
            stand_ins_fail(0, SIZE_MAX);
            if (status == DPT_OK) break;
            n_failed++;
            for (size_t r = 0; r < 2; r++)
                CHECK(cut.statuses[r] != DPT_OK || cut.right[r]);
        }
        CHECK(n_failed > 2);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"values in one process", values},
        {"values over processes", values_over_processes},
        {"arrays that do not fit are refused", refuses_arrays},
        {"parts that do not fit are refused", refuses_parts},
        {"processes that do not fit are refused", refuses_over_processes},
        {"a device fails", devices_fail},
        {"a device of one process fails", devices_fail_over_processes},
        {"the transport fails", transport_fails},
    };
    add_fault_plugins();
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
