/* Programs of evaluation and the data that they are bound to (bound.h). */
#include "train/evaluation/bound.h"

#include "train/feeding/data_store.h"
#include "train/feeding/feed.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/trainer.h"

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
        if (!dpti_trainer_release(t, i, run_unbind, &w->evaluation.tests[slot]))
            dpti_data_store_leave(&t->evaluation.tests[slot].store, i);
    }
    dpti_data_store_destroy(&t->evaluation.tests[slot].store);
    t->evaluation.tests[slot] = (dpti_test){.data = NULL};
}

void dpti_trainer_unbind_tests(dpt_trainer *trainer)
{
    for (size_t i = 0; i < DPTI_TESTS; i++)
        dpti_evaluation_unbind(trainer, i);
}

dpti_data_store *dpti_evaluation_store(dpt_trainer *trainer, size_t i)
{
    return &trainer->evaluation.tests[i].store;
}

void dpti_evaluation_leave(dpt_trainer *trainer, size_t rank)
{
    for (size_t i = 0; i < DPTI_TESTS; i++) {
        dpti_test *test = &trainer->evaluation.tests[i];
        if (test->data) dpti_dataset_leave(test->data);
        dpti_data_store_leave(&test->store, rank);
    }
}

void dpti_evaluation_destroy_programs(dpti_worker *worker)
{
    for (size_t i = 0; i < DPTI_TESTS; i++) {
        dpti_worker_test *test = &worker->evaluation.tests[i];
        dpti_executable_destroy(&test->evaluate);
        dpti_feed_destroy(&test->own_feed);
    }
}

size_t dpti_evaluation_bytes(const dpti_worker *worker)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < DPTI_TESTS; i++) {
        const dpti_worker_test *test = &worker->evaluation.tests[i];
        n_bytes += test->evaluate.arena.n_bytes + dpti_feed_bytes(&test->own_feed);
    }
    return n_bytes;
}

void dpti_evaluation_destroy(dpt_trainer *trainer)
{
    for (size_t i = 0; i < DPTI_TESTS; i++)
        dpti_data_store_destroy(&trainer->evaluation.tests[i].store);
}
