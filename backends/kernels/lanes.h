/* Rows that are summed up in lanes, for deterministic operators.  A sum has LANES lanes, a power of
   two, which a file defines before it includes this header.  docs/reproducibility.md says which
   term goes to which lane.  Lanes are added in their order, in double precision.

   On a GPU a team of LANES work items treats a row, and an item has one lane.  On a CPU, and where
   groups have fewer items, an item has all lanes of a row.  dpt_launch_rows launches such
   kernels. */
#ifndef DPT_KERNELS_LANES_H
#define DPT_KERNELS_LANES_H

#include "functions.h"
#include "span.h"

#if DEVICE_IS_CPU || GROUP < LANES
#define OWN_LANES LANES
#else
#define OWN_LANES 1u
#endif

/* The work items of a row. */
#define TEAM (LANES / OWN_LANES)

/* A loop over an item's lanes: k is 0 for the first one. */
#define FOR_OWN_LANES(k) UNROLL for (u32 k = 0; k < OWN_LANES; k++)

/* A loop over elements of a row, which the items of its team share. */
#if DEVICE_IS_CPU
#define FOR_ROW(i, r) SPAN_INDEPENDENT for (u64 i = 0; i < (r).n; i++)
#else
#define FOR_ROW(i, r) for (u32 i = (r).lane; i < (r).n; i += TEAM)
#endif

/* The row of a work item. */
typedef struct row {
    u64 index;
    u32 n;     /* elements; 0 if there is no such row */
    u32 whole; /* elements in whole groups of LANES */
    u32 lane;  /* the item's first lane */
} row;

/* n_rows rows of n elements */
DEVICE row row_of(u64 n_rows, u32 n)
{
    row r;
    r.index = GLOBAL_ID / TEAM;
    r.n = r.index < n_rows ? n : 0;
    r.whole = r.n / LANES * LANES;
    r.lane = LOCAL_ID % TEAM;
    return r;
}

/* Gives the values of all lanes of a row, in their order, to every item of the row.  Every item of
   the group calls it.  all: LANES numbers.  shared: GROUP numbers, which may be written again after
   the return. */
DEVICE void gather_lanes(LOCAL double *shared, const double *own, double *all)
{
#if OWN_LANES == 1
    LOCAL const double *const of_row = shared + (LOCAL_ID - LOCAL_ID % TEAM);
    shared[LOCAL_ID] = own[0];
    BARRIER();
    UNROLL for (u32 k = 0; k < LANES; k++) all[k] = of_row[k];
    BARRIER();
#else
    UNROLL for (u32 k = 0; k < LANES; k++) all[k] = own[k];
#endif
}

/* The sum of `begin`, of this item, and of all lanes of its row, as gather_lanes. */
DEVICE double sum_of_lanes(LOCAL double *shared, const double *own, double begin)
{
    double all[LANES], sum = begin;
    gather_lanes(shared, own, all);
    UNROLL for (u32 k = 0; k < LANES; k++) sum += all[k];
    return sum;
}

#endif
