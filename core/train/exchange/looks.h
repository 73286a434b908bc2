/* The checks that a device in an island makes of its gradients before it contributes them: the host
   does not see what each member contributes to the island's sum. */
#ifndef DPTI_LOOKS_H
#define DPTI_LOOKS_H

#include "train/components/finite_check.h"

typedef struct dpti_worker dpti_worker;

/* [driver] Makes the checks; nothing if the worker has them, or computes no samples.
   DPT_E_NO_MEMORY, or the device's failure; destroy frees what was made. */
DPT_CHECK_RESULT dpt_status dpti_looks_create(dpti_worker *worker);
void dpti_looks_destroy(dpti_worker *worker); /* [driver] */
/* The checks (DPTI_LOOK_PLACES) of the gradients that the worker contributes behind a segment of
   its training program; NULL if none are made. */
const dpti_finite *dpti_looks_at(const dpti_worker *worker, size_t segment);

#endif
