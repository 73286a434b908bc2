/* What the files of the all-reduce share and other files do not include: allreduce.c creates it and
   runs it, allreduce_sums.c computes the sums in host memory, and allreduce_contribute.c has the
   contributions of ranks and islands. */
#ifndef DPTI_ALLREDUCE_STATE_H
#define DPTI_ALLREDUCE_STATE_H

#include "base/node_places.h"
#include "base/range.h"
#include "collective/contribution.h"
#include "collective/feedback.h"
#include "collective/island.h"
#include "collective/node_sums.h"
#include "collective/processes.h"
#include "collective/rendezvous.h"
#include "collective/view.h"
#include "device/communicator.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    DPTI_LINE = 16,                   /* elements: a cache line */
    DPTI_BUCKETS = DPTI_NODE_BUCKETS, /* further contributions wait for the run */
    DPTI_REST = 2, /* a run itself contributes the elements before and after the buckets */
};

typedef struct dpti_allreduce dpti_allreduce;

typedef struct dpti_member {
    dpti_view view;                            /* of the member's data */
    dpti_view node_views[DPTI_GRAIN_HELD - 1]; /* of the nodes behind the first, */
    const dpti_node_places *places; /* in which elements have these places; also in a window */
    bool windowed;                  /* `view` is a window, and the sums go to: */
    dpti_view sums; /* elements `own`, then those from `shared` on; not open: none */
    dpti_range own;
    size_t shared;
    size_t n_grains; /* of this run; 0: it has no nodes */
    dpti_grain_list nodes;
    bool contributes;
    bool absent;
    bool hidden;                  /* another member shows the sum of its island */
    dpti_island_slot island_slot; /* island NULL: in no island */
    /* Used by the member's own driver thread: the number of its runs so far, and the buckets
       contributed to the next run, which together are the elements [low, high). */
    size_t n_runs, n_brought, low, high;
    dpti_range brought[DPTI_BUCKETS];
    size_t n_shown; /* the first so many buckets are shown in host memory */
    dpti_blame blame;
    atomic_bool flawed; /* its contribution to this run is not finite */
} dpti_member;

/* Sums of consecutive elements. */
typedef struct dpti_sums {
    const float *values;
    size_t n;
} dpti_sums;

/* The next run or the present run.  Guarded by the mutex. */
typedef struct dpti_round {
    dpti_range buckets[DPTI_BUCKETS + DPTI_REST];
    size_t n_contributing[DPTI_BUCKETS + DPTI_REST]; /* ranks that have contributed the bucket */
    size_t n_summed[DPTI_BUCKETS + DPTI_REST];       /* elements of the bucket, in one process */
    size_t n_started[DPTI_BUCKETS + DPTI_REST];      /* collectives ever, up to the bucket's */
    size_t n_complete;   /* all ranks have contributed the first so many buckets */
    size_t bucket, next; /* the next piece to sum: its bucket, and its first element */
    size_t n_summing;    /* pieces that are being summed */
    size_t n_here;       /* ranks that have come to the run */
    bool all_here;
    bool not_finite; /* some sum is not finite */
    size_t n_flawed; /* ranks whose contributions to it are not finite */
    dpt_status verdict;
} dpti_round;

enum { DPTI_CLIP_BLOCK = 4096 }; /* elements whose squares are added up for themselves */

/* How the sums of windows are clipped (windows.c). */
typedef struct dpti_clipping {
    size_t count;
    float max_norm;  /* 0: they are not */
    double *squares; /* of each block */
    /* With several processes: each adds up the squares of the blocks that begin in its part. */
    size_t *begins;    /* (processes + 1) bytes of their squares */
    dpti_range blocks; /* of this process */
    size_t tail;       /* where its part ends; the sums behind it in its last block: */
    float behind[DPTI_CLIP_BLOCK];
} dpti_clipping;

/* A reduction over processes that is in flight, of these elements. */
typedef struct dpti_reduction {
    dpti_allreduce *allreduce;
    dpti_range what;
    float *data; /* of the first member */
} dpti_reduction;

struct dpti_allreduce {
    size_t n_ranks, count;
    dpti_clipping clipping;
    bool wants_finite;
    dpti_rendezvous *rendezvous;
    dpti_member *members;
    dpti_processes *processes; /* NULL: this process is alone */
    dpti_feedback *feedback;   /* NULL: sums over processes are not packed */
    bool divided;              /* dpti_allreduce_divide was called: the caller commits feedback */
    bool *all_contribute;      /* (processes) */
    dpti_collective_tree tree; /* of a run over processes; n_grains is 0 between runs */
    size_t *nothing;           /* (processes + 1) zeros: the table of a vote without data */
    bool finite; /* whether all sums over processes so far are finite; the communication thread
                    writes it while a sum is in flight */
    /* Those of two runs at most, each in one part or two. */
    dpti_reduction reductions[2 * 2 * (DPTI_BUCKETS + DPTI_REST)];
    size_t n_reductions; /* ever */
    dpt_status *brought; /* (n_ranks) */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool broken;
    /* Used in turns.  A rank that comes to the next run has left this run, so the run after the
       next may use the record of this run again. */
    dpti_round rounds[2];
};

/* Returns how many of the ranks below `rank` are present. */
size_t dpti_allreduce_count_present(const dpti_allreduce *allreduce, size_t rank);
/* Returns whether there is only one rank in all processes. */
bool dpti_allreduce_is_alone(const dpti_allreduce *allreduce);
/* Returns how many members show data in host memory. */
size_t dpti_allreduce_count_showing(const dpti_allreduce *allreduce);
/* Returns whether this member does. */
static inline bool dpti_shows(const dpti_member *member)
{
    return !member->absent && !member->hidden;
}
/* Returns whether the sum of the member's island is the sum of all. */
bool dpti_allreduce_is_all(const dpti_allreduce *allreduce, const dpti_member *member);

/* ---- Windows (windows.c) ---- */

/* Where the member shows its data of an element, or of the first node of grains. */
float *dpti_member_data(const dpti_member *member, size_t element);
/* Writes n sums, from element `begin` on, to a member with a window, as far as it takes them. */
void dpti_window_write(const dpti_allreduce *allreduce, const dpti_member *member, size_t begin,
                       dpti_sums what);
/* The same for all members, when the sums over processes of a range have arrived in the first
   member's data. */
void dpti_windows_take(dpti_allreduce *allreduce, dpti_range what, const float *sums);
/* How many sums it takes. */
size_t dpti_window_count(const dpti_allreduce *allreduce, const dpti_member *member);
/* [driver] Behind all sums of a run: clips those that the rank takes.  All ranks call it; fails if
   a device does not answer. */
DPT_CHECK_RESULT dpt_status dpti_windows_clip(const dpti_allreduce *allreduce,
                                              dpti_exchange_context *exchange);
/* Ends the present span and meets the other members (allreduce.c). */
DPT_CHECK_RESULT dpt_status dpti_allreduce_meet(const dpti_allreduce *allreduce,
                                                dpti_exchange_context *exchange, dpt_status mine);

/* ---- Sums (allreduce_sums.c) ---- */

/* Whether a member's contribution is finite, in a range that is in host memory. */
bool dpti_allreduce_is_finite(const dpti_member *member, dpti_range what);
/* Sums a range over the contributing members that show their data, and writes the sum to each
   member that shows; with several processes, to the data of the first member only.  Returns whether
   the sum is finite, if that is wanted; it is checked while it is in the cache.  *n_flawed becomes
   the number of members whose contributions are found not to be finite for the first time. */
bool dpti_allreduce_reduce(dpti_allreduce *allreduce, dpti_range what, size_t *n_flawed);
/* Called with the mutex locked, which is unlocked while a piece is summed.  Sums the next piece of
   the complete buckets.  Returns false if there is none now. */
bool dpti_allreduce_sum_piece(dpti_allreduce *allreduce, dpti_round *round);

/* Whether the members' data are nodes of the tree of grains. */
bool dpti_allreduce_has_nodes(const dpti_contribution *who);
/* Finds the nodes of this process in a range, which all ranks have contributed: those of its
   members as far as they are not halves of others.  If `adds` is set, halves are added up in place,
   as is done once for each element. */
void dpti_allreduce_join_members(const dpti_allreduce *allreduce, dpti_range what, bool adds,
                                 dpti_node_sums *out);

/* ---- Contributions (allreduce_contribute.c) ---- */

/* Starts the reduction over processes of this process's sum of a range.  If `summed` is false, the
   communication thread computes this process's sum, or its nodes, when it sends them.  Returns how
   many collectives have been started by then. */
size_t dpti_allreduce_start_reduction(dpti_allreduce *allreduce, const dpti_contribution *who,
                                      dpti_range what, bool summed);
/* Called with the mutex locked.  A member that shows its data has its next range in host memory. */
void dpti_allreduce_hand_on(dpti_allreduce *allreduce, const dpti_contribution *who,
                            dpti_range what);
/* [driver] What a run begins with: the remaining ranges go into host memory, or to the island.  If
   other ranks are to see an island's sums, they have then arrived, unless the island is wide.
   remaining[] becomes these ranges. */
void dpti_allreduce_contribute_remaining(dpti_allreduce *allreduce, dpti_exchange_context *exchange,
                                         dpti_range remaining[DPTI_REST]);
/* [driver] Waits for the sums of the rank's island, and has them checked if they are the sums of
   all. */
void dpti_allreduce_await_island(dpti_allreduce *allreduce, dpti_exchange_context *exchange);

#endif
