/* The island self-test: sums with known results, which a new island (collective/island.h) computes
   before it is used.  It runs in phases.  Between the phases the island's processes, if there are
   several, tell each other whether they have failed, so that no process waits for a sum to which
   another one does not come. */
#ifndef DPTI_ISLAND_TEST_H
#define DPTI_ISLAND_TEST_H

#include "collective/island.h"

typedef struct dpt_trainer dpt_trainer;

/* Workers ranks[i] are the island's members here; nothing in flight, and all of them take part in
   steps.  DPT_OK: sums are right, the same each time and the same at all members, and what members
   need is made.  Otherwise *error says why, in all of the island's processes alike, and the island
   has been aborted. */
DPT_CHECK_RESULT dpt_status dpti_island_test_run(dpt_trainer *trainer, dpti_island *island,
                                                 const size_t *ranks, dpt_error *error);

/* Of a wide island: the first failure in any process, which *error names unless all fail alike.  Of
   another island: `mine`, of which *error tells. */
DPT_CHECK_RESULT dpt_status dpti_island_test_agree(const dpt_trainer *trainer,
                                                   const dpti_island *island, dpt_status mine,
                                                   dpt_error *error);

#endif
