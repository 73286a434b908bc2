/* Programs of evaluation, which stay bound to the data sets that were evaluated last, and the
   copies of these data. */
#ifndef DPTI_BOUND_H
#define DPTI_BOUND_H

#include "train/state/programs_state.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* The i-th bound data set, and a worker's program for it, i < DPTI_TESTS. */
dpti_test *dpti_evaluation_test(dpt_trainer *trainer, size_t i);
dpti_worker_test *dpti_evaluation_program(dpti_worker *worker, size_t i);
/* Notes that the i-th bound data set is used now. */
void dpti_evaluation_note_use(dpt_trainer *trainer, size_t i);
/* Nothing in flight: forgets the programs of one data set, slot < DPTI_TESTS. */
void dpti_evaluation_unbind(dpt_trainer *trainer, size_t slot);
/* Nothing in flight: forgets all programs of evaluation, on every device. */
void dpti_trainer_unbind_tests(dpt_trainer *trainer);
/* Copies of the i-th bound data set, i < DPTI_TESTS. */
dpti_data_store *dpti_evaluation_store(dpt_trainer *trainer, size_t i);
/* A device is in a call that may never return: the data that it reads stay. */
void dpti_evaluation_leave(dpt_trainer *trainer, size_t rank);
/* [driver] Destroys a worker's programs of evaluation; and how much device memory they take. */
void dpti_evaluation_destroy_programs(dpti_worker *worker);
size_t dpti_evaluation_bytes(const dpti_worker *worker);
/* At the trainer's end, when the programs are destroyed: frees the copies of data. */
void dpti_evaluation_destroy(dpt_trainer *trainer);

#endif
