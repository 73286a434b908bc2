/* What the files of the all-reduce share, and nobody else sees: allreduce.c has its life and its
   runs, allreduce_sums.c the sums that the host makes, allreduce_bring.c how ranks bring their
   data, by themselves or through their island. */
#ifndef DPTI_ALLREDUCE_STATE_H
#define DPTI_ALLREDUCE_STATE_H

#include "collective/contribution.h"
#include "collective/feedback.h"
#include "collective/island.h"
#include "collective/processes.h"
#include "collective/range.h"
#include "collective/rendezvous.h"
#include "collective/view.h"
#include "device/communicator.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    DPTI_LINE = 16,    /* elements: a cache line */
    DPTI_BUCKETS = 64, /* what is brought beyond waits for the run */
    DPTI_REST = 2,     /* what a run brings lies before the buckets and behind them */
};

typedef struct dpti_allreduce dpti_allreduce;

typedef struct dpti_member {
    dpti_view view; /* of its data */
    bool contributes;
    bool absent;
    bool hidden;                  /* another one shows its island's sum */
    dpti_island_slot island_slot; /* island NULL: it is in none */
    /* By its own driver: runs that it has been through; buckets of the one to come, which are
       elements [low, high), and where they are. */
    size_t n_runs, n_brought, low, high;
    dpti_range brought[DPTI_BUCKETS];
    size_t n_shown; /* of these, what is handed on to the host */
    dpti_blame blame;
    atomic_bool flawed; /* what it has brought to this run is not finite */
} dpti_member;

/* A run to come or under way.  Guarded by the mutex. */
typedef struct dpti_round {
    dpti_range buckets[DPTI_BUCKETS + DPTI_REST];
    size_t n_contributing[DPTI_BUCKETS + DPTI_REST]; /* ranks that have brought it */
    size_t n_complete;   /* the first so many have been brought by all */
    size_t bucket, next; /* the next piece: its bucket, and where it begins */
    size_t n_summing;    /* pieces that are being summed */
    size_t n_here;       /* ranks that have come to the run */
    bool all_here;
    bool not_finite; /* some sum is not, */
    size_t n_flawed; /* nor what so many ranks have brought to it */
    dpt_status verdict;
} dpti_round;

struct dpti_allreduce {
    size_t n_ranks, count;
    bool wants_finite;
    dpti_rendezvous *rendezvous;
    dpti_member *members;
    dpti_processes *processes; /* NULL: this one alone */
    dpti_feedback *feedback;   /* NULL: sums over processes are not packed */
    bool *all_contribute;      /* (processes) */
    size_t *nothing;           /* (processes + 1) zeros: a vote brings no more than itself */
    bool finite; /* sums over processes so far, where that is wanted; theirs while any is under way
                  */
    dpt_status *brought; /* (n_ranks) */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool broken;
    /* In turns: who comes to the next run has left this one, so that the run after it may have this
       one's place. */
    dpti_round rounds[2];
};

/* Of the ranks below `rank`. */
size_t dpti_allreduce_count_present(const dpti_allreduce *allreduce, size_t rank);
/* Whether nobody has anything to sum with it. */
bool dpti_allreduce_is_alone(const dpti_allreduce *allreduce);
/* Ranks that show the host what they hold, */
size_t dpti_allreduce_count_showing(const dpti_allreduce *allreduce);
/* such as this one. */
static inline bool dpti_shows(const dpti_member *member)
{
    return !member->absent && !member->hidden;
}
/* Whether the sum of this one's island is the whole one. */
bool dpti_allreduce_is_all(const dpti_allreduce *allreduce, const dpti_member *member);

/* ---- Sums (allreduce_sums.c) ---- */

/* Sums elements over the contributing members that show theirs, and writes the sum to each of them;
   to the first one only, if it is not the whole sum yet.  Whether the sum is finite, where that is
   wanted: it is looked at while it is in the cache.  *n_flawed: how many members' parts turned out
   not to be, that were so far. */
bool dpti_allreduce_reduce(dpti_allreduce *allreduce, dpti_range what, size_t *n_flawed);
/* Under the mutex, which it gives up meanwhile: sums the next piece of what is complete.  false:
   there is none now. */
bool dpti_allreduce_sum_piece(dpti_allreduce *allreduce, dpti_round *round);

/* ---- Bringing (allreduce_bring.c) ---- */

/* Of this process's sum: made already, or when it is sent. */
void dpti_allreduce_start_reduction(dpti_allreduce *allreduce, const dpti_contribution *who,
                                    dpti_range what, bool summed);
/* Under the mutex: one that shows has the next of what it brings. */
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
