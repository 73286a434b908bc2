/* A barrier at which the driver threads of a set of devices meet and vote. */
#ifndef DPTI_RENDEZVOUS_H
#define DPTI_RENDEZVOUS_H

#include "dpt_types.h"

#include <stdbool.h>

typedef struct dpti_rendezvous dpti_rendezvous;

/* Returns NULL if memory is short. */
dpti_rendezvous *dpti_rendezvous_create(size_t n_members);
void dpti_rendezvous_destroy(dpti_rendezvous *rendezvous); /* accepts NULL */

/* Waits until every member has come, and returns the same verdict to all of them: DPT_OK if all
   came with DPT_OK, else the first failure in the order of ranks.  Every member then sees what the
   others wrote before they came. */
DPT_CHECK_RESULT dpt_status dpti_rendezvous_meet(dpti_rendezvous *rendezvous, size_t rank,
                                                 dpt_status mine);

/* The same in two halves, for a member that has work to do in between.  `come` waits for nobody.
   `wait` returns the verdict; a member that has come calls it before it comes again. */
void dpti_rendezvous_come(dpti_rendezvous *rendezvous, size_t rank, dpt_status mine);
DPT_CHECK_RESULT dpt_status dpti_rendezvous_wait(dpti_rendezvous *rendezvous, size_t rank);

/* Sets whether a member takes part, between meetings only.  All take part at first.  The others do
   not wait for an absent member, and its status does not count. */
void dpti_rendezvous_set_present(dpti_rendezvous *rendezvous, size_t rank, bool present);

/* `break` says that a member will not come.  Any thread may call it.  Members that wait or come
   then get DPT_E_CANCELLED at once, until `mend`, which is called while no member is waiting or
   coming.  A meeting that was complete before stays complete. */
void dpti_rendezvous_break(dpti_rendezvous *rendezvous);
void dpti_rendezvous_mend(dpti_rendezvous *rendezvous);

#endif
