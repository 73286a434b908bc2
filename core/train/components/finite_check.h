/* A device's check whether some of its gradients are finite. */
#ifndef DPTI_FINITE_CHECK_H
#define DPTI_FINITE_CHECK_H

#include "graph/replica.h"

/* A device's check of some of its gradients. */
typedef struct dpti_finite {
    bool looks; /* the fields below are made */
    dpti_op op;
    dpt_op_args args;
    dpti_buffer found; /* one float32 on the device; not 0 if any gradient is not finite */
    float *host;       /* host memory to which that is downloaded */
} dpti_finite;

/* [driver] Makes a check of the replica's gradients [begin, end).  On failure *out holds what was
   made: destroy it. */
DPT_CHECK_RESULT dpt_status dpti_finite_create(const dpti_replica *replica, size_t begin,
                                               size_t end, dpti_finite *out);
void dpti_finite_destroy(dpti_finite *finite); /* [driver] accepts a zeroed one; zeroes it */
/* [driver] Enqueues the check. */
DPT_CHECK_RESULT dpt_status dpti_finite_enqueue(const dpti_finite *finite);
/* Behind a sync: whether all were finite. */
bool dpti_finite_all(const dpti_finite *finite);

#endif
