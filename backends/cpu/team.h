/* The team of a device: the driver thread, which is thread 0, and n_threads - 1 OpenMP threads.  A
   thread that waits spins briefly and then sleeps, so an idle team, or one that shares its cores,
   takes no time from other programs. */
#ifndef DPT_CPU_TEAM_H
#define DPT_CPU_TEAM_H

#include "backend.h"

typedef struct dpt_cpu_team dpt_cpu_team;

typedef void dpt_cpu_team_job(const void *argument, unsigned thread, unsigned n_threads);

typedef struct dpt_cpu_team_args {
    unsigned n_threads;
    const unsigned *cores;               /* (n_threads), the core of each thread; NULL: not bound */
    void (*enter)(const void *argument); /* called once on every thread, also the caller's */
    const void *argument;
} dpt_cpu_team_args;

/* Creates a team whose thread 0 is the calling thread.  That thread is bound to its core until
   dpt_cpu_team_destroy.  DPT_E_NO_MEMORY; DPT_E_DEVICE if the system gives fewer threads. */
DPT_CHECK_RESULT dpt_status dpt_cpu_team_create(const dpt_cpu_team_args *args, dpt_cpu_team **out,
                                                dpt_error *error);
/* Called by thread 0; accepts NULL. */
void dpt_cpu_team_destroy(dpt_cpu_team *team);

/* Called by thread 0.  Every thread runs the job; the call returns when all threads are done. */
void dpt_cpu_team_run(dpt_cpu_team *team, dpt_cpu_team_job *job, const void *argument);

/* Called within a job: waits until all n_threads have called it.  thread and n_threads are those
   that the kernel was given.  With n_threads 1, a kernel runs on thread 0 alone and does not wait.
 */
void dpt_cpu_barrier(dpt_cpu_team *team, unsigned thread, unsigned n_threads);

/* ---- Parts ----------------------------------------------------------------------------------- */

typedef struct dpt_cpu_range {
    size_t begin, end;
} dpt_cpu_range;

/* Part `part` of n_parts of the range 0 .. total-1.  Parts consist of whole grains, except at the
   end of the range, and differ by at most one grain. */
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

/* Work in pieces, 0 .. n_pieces-1, whose result does not depend on the thread that does a piece.
   Every thread first takes the pieces of its own part, front to back, and then pieces of other
   threads, back to front.  The other threads therefore wait little for a core that is slower or
   busy.

       dpt_cpu_pieces pieces = dpt_cpu_pieces_of(call->team, n, thread, n_threads);
       for (size_t i; dpt_cpu_take(&pieces, &i);) ...

   All threads of a job pass the same n_pieces, which is below 2^31.  Each piece is given to one
   thread, once.  Between two barriers, or a barrier and an end of the job, there is at most one set
   of pieces. */
typedef struct dpt_cpu_pieces {
    dpt_cpu_team *team;
    size_t n_pieces;
    unsigned thread, n_threads;
    unsigned helped; /* the thread whose pieces are taken next; at first `thread` itself */
    unsigned phase;  /* index of the counters in use */
    size_t next;     /* the next piece, if n_threads is 1 */
} dpt_cpu_pieces;

dpt_cpu_pieces dpt_cpu_pieces_of(dpt_cpu_team *team, size_t n_pieces, unsigned thread,
                                 unsigned n_threads);
/* *piece: the next piece.  false: no piece is left. */
bool dpt_cpu_take(dpt_cpu_pieces *pieces, size_t *piece);

#endif
