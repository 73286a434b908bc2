/* Programs of evaluation and the data that they are bound to (bound.h). */
#include "train/programs/bound.h"

#include "train/components/data_store.h"
#include "train/components/feed.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/state/trainer.h"

static void run_unbind(dpti_device *device, void *argument)
{
    dpti_worker_test *test = argument;
    (void)device;
    dpti_executable_destroy(&test->evaluate);
    dpti_feed_destroy(&test->own_feed);
    test->feed = NULL;
}

void dpti_evaluation_unbind(dpt_trainer *trainer, size_t slot)
{
    dpt_trainer *t = trainer;
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        if (!dpti_is_hung(w) && dpti_is_lost(w)) continue;
        if (!dpti_trainer_release(t, i, run_unbind, &w->programs.tests[slot]))
            dpti_data_store_leave(&t->programs.tests[slot].store, i);
    }
    dpti_data_store_destroy(&t->programs.tests[slot].store);
    t->programs.tests[slot] = (dpti_test){.data = NULL};
}

void dpti_trainer_unbind_tests(dpt_trainer *trainer)
{
    for (size_t i = 0; i < DPTI_TESTS; i++)
        dpti_evaluation_unbind(trainer, i);
}

dpti_test *dpti_evaluation_test(dpt_trainer *trainer, size_t i)
{
    return &trainer->programs.tests[i];
}

dpti_worker_test *dpti_evaluation_program(dpti_worker *worker, size_t i)
{
    return &worker->programs.tests[i];
}

void dpti_evaluation_note_use(dpt_trainer *trainer, size_t i)
{
    trainer->programs.tests[i].used = ++trainer->programs.clock;
}

dpti_data_store *dpti_evaluation_store(dpt_trainer *trainer, size_t i)
{
    return &trainer->programs.tests[i].store;
}

void dpti_evaluation_leave(dpt_trainer *trainer, size_t rank)
{
    for (size_t i = 0; i < DPTI_TESTS; i++) {
        dpti_test *test = &trainer->programs.tests[i];
        if (test->data) dpti_dataset_leave(test->data);
        dpti_data_store_leave(&test->store, rank);
    }
}

void dpti_evaluation_destroy_programs(dpti_worker *worker)
{
    for (size_t i = 0; i < DPTI_TESTS; i++) {
        dpti_worker_test *test = &worker->programs.tests[i];
        dpti_executable_destroy(&test->evaluate);
        dpti_feed_destroy(&test->own_feed);
    }
}

size_t dpti_evaluation_bytes(const dpti_worker *worker)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < DPTI_TESTS; i++) {
        const dpti_worker_test *test = &worker->programs.tests[i];
        n_bytes += test->evaluate.arena.n_bytes + dpti_feed_bytes(&test->own_feed);
    }
    return n_bytes;
}

void dpti_evaluation_destroy(dpt_trainer *trainer)
{
    for (size_t i = 0; i < DPTI_TESTS; i++)
        dpti_data_store_destroy(&trainer->programs.tests[i].store);
}
