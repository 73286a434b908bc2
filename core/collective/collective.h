/* What a collective over processes is, and by which route it travels. */
#ifndef DPTI_COLLECTIVE_H
#define DPTI_COLLECTIVE_H

#include "base/grains.h"
#include "collective/packing.h"

#include <stdbool.h>
#include <stddef.h>

/* A collective over processes.  It works in place on `count` float32 that every process has.  The
   array is divided into slices, one for each process: elements [slices[r], slices[r + 1]) are the
   slice of process r.

   ALL_REDUCE      every process gets the sum of the arrays of the processes that contribute
   REDUCE_SCATTER  every process gets its slice of that sum; the rest of its array has any values
   ALL_GATHER      every process contributes its slice and gets the whole array; a broadcast is an
                   all-gather in which the slice of one process is the whole array

   Each sum is made once, in the order of ranks, and is sent to the other processes as it is.  So
   all processes have the same bits, which depend neither on the route nor on how an array is cut
   into several collectives.

   A packed all-reduce sends parts and sums in a format of fewer bits (packing.h), rounded to
   nearest, with error feedback: what rounding drops in this process is kept as its residual and
   added to what this process rounds next.  A process rounds its parts of the slices of the others,
   and the sum of its own slice, to which it adds its own part unrounded.  Over many sums, what all
   processes have received is therefore what all have contributed, less the residuals, but for the
   rounding of float32 itself. A process that does not contribute keeps its residual.  All processes
   still have the same bits, which now depend on the cuts.  The route is the direct one. */
typedef enum dpti_collective_kind {
    DPTI_ALL_REDUCE,
    DPTI_REDUCE_SCATTER,
    DPTI_ALL_GATHER,
} dpti_collective_kind;

/* The nodes of grains (base/grains.h) whose sums the processes have, from left to right: process p
   has nodes [firsts[p], firsts[p + 1]). */
typedef struct dpti_collective_tree {
    size_t n_grains, n_nodes;
    dpti_grain_node nodes[DPTI_GRAINS];
    size_t *firsts; /* (count of processes + 1) */
} dpti_collective_tree;

typedef struct dpti_collective {
    dpti_collective_kind kind;
    float *data;
    size_t count;
    /* (count of processes + 1), from 0 to count, the same in all processes.  NULL: slices of about
       one size, in whole cache lines. */
    const size_t *slices;
    const bool *contributes; /* (count of processes); an all-gather ignores it */
    /* Of an all-reduce only.  If it is not NULL, in all processes or in none, what is summed is not
       `data` but the nodes' sums, along the tree.  own[k] (count) is the sum of this process's node
       k, and has any values behind the all-reduce; own[0] may be `data`.  The route is the direct
       one. */
    const dpti_collective_tree *tree;
    float *own[DPTI_GRAIN_HELD];
    /* May be NULL.  The communication thread calls it, if this process contributes, with one run of
       the data after another, until the runs have covered the whole: it writes this process's part
       of the sum there, or its nodes' sums. */
    void (*prepare)(void *user, float *data, size_t count);
    /* May be NULL.  The communication thread calls it when the collective is over, in each process.
     */
    void (*finish)(void *user);
    void *user;
    /* Of an all-reduce only.  It is packed if `packing` is not NULL, in all processes or in none.
       (count) each: the residual before, NULL for zeros, and the residual after, which is written
       completely; NULL: what rounding drops is not kept. */
    const dpti_packing *packing;
    const float *residual;
    float *owes;
    /* May be NULL.  Of an all-reduce only.  Becomes false, before the all-reduce is over, if the
       sum is not finite.  All processes have the same bits, so this happens in all of them or in
       none.
     */
    bool *finite;
} dpti_collective;

/* The route of the messages of a collective, which is cut into chunks.

   DIRECT: every process sends every other process its part of that process's slice; the owner sums
   the slice and sends the sum to all.  Each of P processes sends 2 (P - 1) / P of the array, in two
   messages to each other process.

   RING: from neighbour to neighbour.  Sums begin at process 0 and grow on the way to the last
   process, from where they come back; slices that are gathered go round.  Every process sends up to
   twice the array, to its neighbours only: of several processes on one host only the first and the
   last use its network link.  (In a reduce-scatter the last process sends every owner its slice.)
 */
typedef enum dpti_route { DPTI_ROUTE_DIRECT, DPTI_ROUTE_RING } dpti_route;

enum { DPTI_LEAST_WINDOW = 3, DPTI_MOST_WINDOW = 16 };

typedef struct dpti_travel {
    dpti_route route;
    size_t window; /* chunks in flight at the same time, from DPTI_LEAST_WINDOW to DPTI_MOST_WINDOW;
                      more if messages have a long latency */
} dpti_travel;

#endif
