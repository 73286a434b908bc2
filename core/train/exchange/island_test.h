/* Trying a new island (collective/island.h) before anybody relies on it: on sums that are known, in
   phases between which its processes, if they are several, ask each other how they fare, so that
   nobody waits for a sum to which one will not come. */
#ifndef DPTI_ISLAND_TEST_H
#define DPTI_ISLAND_TEST_H

#include "collective/island.h"

typedef struct dpt_trainer dpt_trainer;

/* Workers ranks[i] are its members here: nothing in flight, all there.  DPT_OK: sums are right, the
   same each time, the same at all members; and what members need is there.  Else *error says why,
   in all of its processes alike, and the island has been aborted. */
DPT_CHECK_RESULT dpt_status dpti_island_test_run(dpt_trainer *trainer, dpti_island *island,
                                                 const size_t *ranks, dpt_error *error);

/* The first failure in any process of a wide island, that process named in *error unless all fail
   alike; of another island, `mine`, of which *error tells. */
DPT_CHECK_RESULT dpt_status dpti_island_test_agree(const dpt_trainer *trainer,
                                                   const dpti_island *island, dpt_status mine,
                                                   dpt_error *error);

#endif
