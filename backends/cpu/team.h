/* The team of a device: its driver, which is thread 0, and n_threads - 1 OpenMP threads that wait
   between jobs.  Waiting spins briefly and then sleeps, so that a team at rest, or one that shares
   its cores, takes nothing from others. */
#ifndef DPT_CPU_TEAM_H
#define DPT_CPU_TEAM_H

#include "backend.h"

typedef struct dpt_cpu_team dpt_cpu_team;

typedef void dpt_cpu_team_job(const void *argument, unsigned thread, unsigned n_threads);

typedef struct dpt_cpu_team_args {
    unsigned n_threads;
    const unsigned *cores;               /* n_threads of them, one a thread; NULL: not bound */
    void (*enter)(const void *argument); /* called once on every thread, the caller's included */
    const void *argument;
} dpt_cpu_team_args;

/* Makes the calling thread thread 0 of a new team, bound to its core until destroy.
   DPT_E_NO_MEMORY, DPT_E_DEVICE if the system gives fewer threads. */
DPT_CHECK_RESULT dpt_status dpt_cpu_team_create(const dpt_cpu_team_args *args, dpt_cpu_team **out,
                                                dpt_error *error);
/* Called by thread 0; accepts NULL. */
void dpt_cpu_team_destroy(dpt_cpu_team *team);

/* Called by thread 0: every thread runs the job; returns when all have. */
void dpt_cpu_team_run(dpt_cpu_team *team, dpt_cpu_team_job *job, const void *argument);

/* Within a job: waits until all n_threads are here.  thread and n_threads are what the kernel was
   given: 1 is a kernel that runs on thread 0 alone, for which there is nobody to wait for. */
void dpt_cpu_barrier(dpt_cpu_team *team, unsigned thread, unsigned n_threads);

/* ---- Parts ----------------------------------------------------------------------------------- */

typedef struct dpt_cpu_range {
    size_t begin, end;
} dpt_cpu_range;

/* One of several parts of 0 .. total-1, in whole grains: parts differ by one grain. */
static inline dpt_cpu_range dpt_cpu_split(size_t total, size_t grain, size_t part, size_t n_parts)
{
    const size_t n_grains = total / grain + (total % grain != 0);
    const size_t each = n_grains / n_parts;
    const size_t more = n_grains % n_parts;
    const size_t begin = (each * part + (part < more ? part : more)) * grain;
    const size_t end = begin + (each + (part < more)) * grain;
    return (dpt_cpu_range){begin < total ? begin : total, end < total ? end : total};
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Work in pieces, 0 .. n_pieces-1, that it makes no difference who does: every thread begins with
   its own part, front to back, and then helps the others, back to front.  So a core that is slower,
   or has other things to do, does not keep the others waiting.

       dpt_cpu_pieces pieces = dpt_cpu_pieces_of(call->team, n, thread, n_threads);
       for (size_t i; dpt_cpu_take(&pieces, &i);) ...

   All threads of a job come with the same n_pieces, which is below 2^31; each piece is given to one
   of them, once.  Pieces are counted from one barrier to the next, or the ends of the job: between
   two of them there is one set of pieces at most. */
typedef struct dpt_cpu_pieces {
    dpt_cpu_team *team;
    size_t n_pieces;
    unsigned thread, n_threads;
    unsigned helped; /* whose pieces are taken: thread's own at first */
    unsigned phase;  /* which of the counters */
    size_t next;     /* of n_threads 1 */
} dpt_cpu_pieces;

dpt_cpu_pieces dpt_cpu_pieces_of(dpt_cpu_team *team, size_t n_pieces, unsigned thread,
                                 unsigned n_threads);
bool dpt_cpu_take(dpt_cpu_pieces *pieces, size_t *piece);

#endif
