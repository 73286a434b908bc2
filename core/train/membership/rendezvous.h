/* All the places where driver threads wait for each other: the collectives of a step, the
   comparison of replicas, and the exchange of outcomes behind a step. */
#ifndef DPTI_RENDEZVOUSES_H
#define DPTI_RENDEZVOUSES_H

#include "dptrain.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether a worker takes part: driver threads wait for it. */
void dpti_trainer_set_present(dpt_trainer *trainer, size_t rank, bool present);
/* A device does not answer: turns every thread away that waits for it, until mend. */
void dpti_rendezvous_break_all(dpt_trainer *trainer);
void dpti_rendezvous_mend_all(dpt_trainer *trainer);

#endif
