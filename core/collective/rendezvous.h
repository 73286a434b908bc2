/* Where the driver threads of a set of devices meet and vote.  Knows no device. */
#ifndef DPTI_RENDEZVOUS_H
#define DPTI_RENDEZVOUS_H

#include "dpt_types.h"

#include <stdbool.h>

typedef struct dpti_rendezvous dpti_rendezvous;

/* NULL without memory. */
dpti_rendezvous *dpti_rendezvous_create(size_t n_members);
void dpti_rendezvous_destroy(dpti_rendezvous *rendezvous); /* accepts NULL */

/* Waits until every member has come, and gives each the same answer: DPT_OK if all brought DPT_OK,
   else the first failure in the order of ranks.  What members wrote before is seen by all after. */
DPT_CHECK_RESULT dpt_status dpti_rendezvous_meet(dpti_rendezvous *rendezvous, size_t rank,
                                                 dpt_status mine);

/* The same in two halves, for a member that has something to do meanwhile: `come` waits for nobody,
   and `wait`, which each member that has come calls before it comes again, gives the answer. */
void dpti_rendezvous_come(dpti_rendezvous *rendezvous, size_t rank, dpt_status mine);
DPT_CHECK_RESULT dpt_status dpti_rendezvous_wait(dpti_rendezvous *rendezvous, size_t rank);

/* Whether a member takes part, as all do at first; between meetings only.  The others do not wait
   for one that does not, and what it brought does not count. */
void dpti_rendezvous_set_present(dpti_rendezvous *rendezvous, size_t rank, bool present);

/* A member will not come.  From any thread: whoever waits, or comes, is sent away at once with
   DPT_E_CANCELLED, until mend, which is for a time when nobody is there or on the way.  A meeting
   that was complete before stays so. */
void dpti_rendezvous_break(dpti_rendezvous *rendezvous);
void dpti_rendezvous_mend(dpti_rendezvous *rendezvous);

#endif
