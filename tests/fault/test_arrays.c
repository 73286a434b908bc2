/* Tests work on arrays with every call failing in turn.

   test-fault-arrays fault|faultstaged [CASE...] */
#include "fault/plant.h"

#include <stdio.h>

enum { ROWS = 4, COLUMNS = 5, CELLS = ROWS * COLUMNS };

typedef struct array_work {
    dpt_array *a, *b, *c, *parts[2];
} array_work;

static dpt_status compute(run *r, array_work *w)
{
    const size_t shape[] = {ROWS, COLUMNS};
    dpt_device *device = dpt_device_set_get(r->set, 1 - r->survivor);
    float values[CELLS];
    for (size_t i = 0; i < CELLS; i++)
        values[i] = (float)i;
    DPT_TRY(dpt_array_create(device, shape, 2, &w->a));
    DPT_TRY(dpt_array_create(device, shape, 2, &w->b));
    DPT_TRY(dpt_array_create(device, shape, 2, &w->c));
    DPT_TRY(dpt_array_set(w->a, values));
    DPT_TRY(dpt_array_set(w->b, values));
    DPT_TRY(dpt_array_multiply(w->a, w->b, w->c));
    DPT_TRY(dpt_array_affine(w->c, 2.0f, 1.0f, w->c));
    DPT_TRY(dpt_array_add(w->c, w->a, w->c));
    DPT_TRY(dpt_array_wait(w->c));
    return dpt_array_get(w->c, values);
}

static dpt_status reduce(run *r, array_work *w, float *sum)
{
    const size_t rows[] = {2, 2};
    float values[CELLS];
    for (size_t i = 0; i < CELLS; i++)
        values[i] = (float)i;
    DPT_TRY(dpt_scatter(r->set, values, ROWS, COLUMNS, rows, w->parts));
    DPT_TRY(dpt_all_reduce(w->parts, 2));
    DPT_TRY(dpt_array_get(w->parts[1 - r->survivor], sum));
    return dpt_device_set_wait(r->set);
}

static void array_body(run *r)
{
    test *t = r->t;
    array_work w = {.a = NULL};
    float values[CELLS], sum[CELLS] = {0};
    if (plant_succeeded(r, compute(r, &w), "computing with arrays") &&
        plant_succeeded(r, reduce(r, &w, sum), "reducing arrays") &&
        plant_succeeded(r, dpt_array_get(w.c, values), "dpt_array_get")) {
        for (size_t i = 0; i < CELLS; i++)
            CHECK_NEAR((double)values[i], (double)(2 * i * i + 1 + i), 0.0);
        for (size_t i = 0; i < CELLS / 2; i++)
            CHECK_NEAR((double)sum[i], (double)(i + i + CELLS / 2), 0.0);
    }
    dpt_array_destroy(w.parts[0]);
    dpt_array_destroy(w.parts[1]);
    dpt_array_destroy(w.c);
    dpt_array_destroy(w.b);
    dpt_array_destroy(w.a);
}

static void arrays_fail(test *t)
{
    plant_everywhere(t, &(plant_list){"%s:threads=1:fail=%zu,cpu:threads=1", 1}, array_body);
}

static void arrays_fail_second(test *t)
{
    plant_everywhere(t, &(plant_list){"cpu:threads=1,%s:threads=1:fail=%zu", 0}, array_body);
}

static void arrays_lost(test *t)
{
    plant_everywhere(t, &(plant_list){"%s:threads=1:lost=%zu,cpu:threads=1", 1}, array_body);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"arrays_fail", arrays_fail},
        {"arrays_fail_second", arrays_fail_second},
        {"arrays_lost", arrays_lost},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-arrays fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
