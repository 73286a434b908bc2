/* What the workers of all processes can do. */
#ifndef DPTI_CAPACITIES_H
#define DPTI_CAPACITIES_H

#include "dptrain.h"

typedef struct dpt_trainer dpt_trainer;

/* When workers have been made, or not (`mine`): tells all processes what each device can do. */
DPT_CHECK_RESULT dpt_status dpti_peers_share_capacities(dpt_trainer *trainer, dpt_status mine);
/* Notes what a worker can do, with one process. */
void dpti_peers_note(dpt_trainer *trainer, size_t rank);

#endif
