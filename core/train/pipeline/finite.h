/* Gradients that are not finite are found before anything lasting changes, and where they come from
   is told.

   Where devices sum on the host, the sum is looked at while it is in the cache, and whose part it
   comes from only if it is not finite; over processes each part, before their vote
   (collective/allreduce.h).  A device that sums with nobody looks at its own part itself, and so
   does one in an island, where nobody sees the parts, before it brings each.  A step that is
   one piece of work has a look in it (graph/program.h, `whole`). */
#ifndef DPTI_FINITE_H
#define DPTI_FINITE_H

#include "device/buffer.h"
#include "device/operator.h"
#include "graph/replica.h"

typedef struct dpti_worker dpti_worker;

typedef struct dpti_finite {
    bool looks;
    dpti_op op;
    dpt_op_args args;
    dpti_buffer found; /* one float32, not 0 if any is not finite; */
    float *host;       /* there it is downloaded to */
} dpti_finite;

/* [driver] For the replica's gradients [begin, end).  On failure *out holds what was made: destroy
   it. */
DPT_CHECK_RESULT dpt_status dpti_finite_create(const dpti_replica *replica, size_t begin,
                                               size_t end, dpti_finite *out);
void dpti_finite_destroy(dpti_finite *finite); /* [driver] accepts a zeroed one; zeroes it */
/* [driver] Enqueues the look. */
DPT_CHECK_RESULT dpt_status dpti_finite_enqueue(const dpti_finite *finite);
/* Behind a sync: whether all were finite. */
bool dpti_finite_all(const dpti_finite *finite);

/* What a device in an island looks at: for each segment of the program of training that ends in an
   exchange of gradients, those that it brings then, which may lie in two places. */
enum { DPTI_LOOK_PLACES = 2 };

typedef struct dpti_looks {
    dpti_finite (*segments)[DPTI_LOOK_PLACES]; /* NULL: there are none */
    size_t n_segments;
} dpti_looks;

/* [driver] As those above; nothing if the worker has them. */
DPT_CHECK_RESULT dpt_status dpti_looks_create(dpti_worker *worker);
void dpti_looks_destroy(dpti_looks *looks);

/* [driver] Enqueues the look that this device takes itself behind a segment of training, if it
   takes one; and behind a sync, whether it saw finite numbers. */
DPT_CHECK_RESULT dpt_status dpti_worker_look(const dpti_worker *worker, size_t segment);
bool dpti_worker_saw_finite(const dpti_worker *worker, size_t segment);

#endif
