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

/* Within a job: waits until all n_threads are here.  n_threads is what the kernel was given: 1 is a
   kernel that runs on thread 0 alone, for which there is nobody to wait for. */
void dpt_cpu_barrier(dpt_cpu_team *team, unsigned n_threads);

#endif
