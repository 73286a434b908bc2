/* All the places where driver threads wait for each other: the collectives of a step, the
   comparison of replicas, and the exchange of outcomes behind a step.

   The concerns that own these places are above membership.  The creation of a trainer, which knows
   all concerns, therefore gives membership a table of functions (core/train/rendezvous_table.c),
   and membership calls these functions when a device comes, goes or does not answer. */
#ifndef DPTI_RENDEZVOUSES_H
#define DPTI_RENDEZVOUSES_H

#include "dptrain.h"

#include <stdbool.h>
#include <stddef.h>

/* What is done at all of these places.  All functions run on the caller's thread. */
typedef struct dpti_rendezvous_table {
    /* The functions below, at every place. */
    void (*set_present)(dpt_trainer *trainer, size_t rank, bool present);
    void (*break_all)(dpt_trainer *trainer);
    void (*mend_all)(dpt_trainer *trainer);
    /* A driver thread will not come: its island's collectives end.  And: the caller's thread has
       waited so many seconds, so that islands can see who does not answer. */
    void (*abort_islands)(const dpt_trainer *trainer);
    void (*watch_islands)(const dpt_trainer *trainer, double seconds);
} dpti_rendezvous_table;

/* Before any other call: the table, which must outlive the trainer. */
void dpti_rendezvous_set_table(dpt_trainer *trainer, const dpti_rendezvous_table *table);

/* Whether a worker takes part: driver threads wait for it. */
void dpti_trainer_set_present(dpt_trainer *trainer, size_t rank, bool present);
/* A device does not answer: turns every thread away that waits for it, until mend. */
void dpti_rendezvous_break_all(dpt_trainer *trainer);
void dpti_rendezvous_mend_all(dpt_trainer *trainer);
void dpti_rendezvous_abort_islands(const dpt_trainer *trainer);
void dpti_rendezvous_watch_islands(const dpt_trainer *trainer, double seconds);

#endif
