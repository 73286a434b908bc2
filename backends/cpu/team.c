/* Teams of threads.  This is the only file with an OpenMP parallel region.

   The region lasts as long as the team.  A host thread of the team leads the region, so the driver
   thread is free between jobs.  A barrier of this file, and not the OpenMP runtime, decides how
   long an idle thread spins. */
#include "team.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A barrier that is used repeatedly.  The last thread that arrives begins the next phase. */
typedef struct barrier {
    unsigned n_threads;
    unsigned n_spins;
    _Alignas(64) atomic_uint n_arrived;
    _Alignas(64) atomic_uint phase;
    pthread_mutex_t mutex;
    pthread_cond_t opened;
    unsigned n_sleeping; /* protected by the mutex */
} barrier;

/* How often a thread checks the phase before it sleeps.  The time covers the imbalance within an
   operator and is far below a time slice of the scheduler. */
enum { SPINS_BOUND = 4000, SPINS_SHARED = 50 };

/* How many pieces of a thread's part are taken: from the front in the low half of the word, from
   the back in the high half.  One word serves phases of even number and one those of odd number.  A
   thread clears its word of the next phase when it ends a phase.  All threads have left the phase
   before by then, in which that word was in use. */
typedef struct counters {
    _Alignas(64) atomic_uint_fast64_t taken[2];
} counters;

struct dpt_cpu_team {
    barrier barrier;
    counters *counters; /* (n_threads) */
    dpt_cpu_team_args args;
    unsigned *cores;       /* a copy of args.cores */
    dpt_cpu_team_job *job; /* NULL: the team ends */
    const void *argument;
    unsigned n_given; /* threads that OpenMP gave, plus the driver thread */
    pthread_t host;
    bool has_host;
    bool has_saved;
    cpu_set_t *saved; /* the cores on which thread 0 could run before */
};

static void barrier_wait(barrier *b)
{
    const unsigned phase = atomic_load_explicit(&b->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&b->n_arrived, 1, memory_order_acq_rel) + 1 == b->n_threads) {
        atomic_store_explicit(&b->n_arrived, 0, memory_order_relaxed);
        pthread_mutex_lock(&b->mutex);
        atomic_store_explicit(&b->phase, phase + 1, memory_order_release);
        if (b->n_sleeping > 0) pthread_cond_broadcast(&b->opened);
        pthread_mutex_unlock(&b->mutex);
        return;
    }
    for (unsigned i = 0; i < b->n_spins; i++) {
        if (atomic_load_explicit(&b->phase, memory_order_acquire) != phase) return;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    pthread_mutex_lock(&b->mutex);
    b->n_sleeping++;
    while (atomic_load_explicit(&b->phase, memory_order_acquire) == phase)
        pthread_cond_wait(&b->opened, &b->mutex);
    b->n_sleeping--;
    pthread_mutex_unlock(&b->mutex);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* The number of the phase.  It stays the same until this thread has arrived at the next barrier. */
static unsigned phase_of(const dpt_cpu_team *team)
{
    return atomic_load_explicit(&team->barrier.phase, memory_order_relaxed);
}

/* Ends a phase: each of the team's threads calls it. */
static void end_phase(dpt_cpu_team *team, unsigned thread)
{
    const unsigned next = (phase_of(team) + 1) % 2;
    atomic_store_explicit(&team->counters[thread].taken[next], 0, memory_order_relaxed);
    barrier_wait(&team->barrier);
}

void dpt_cpu_barrier(dpt_cpu_team *team, unsigned thread, unsigned n_threads)
{
    if (n_threads > 1) end_phase(team, thread);
}

dpt_cpu_pieces dpt_cpu_pieces_of(dpt_cpu_team *team, size_t n_pieces, unsigned thread,
                                 unsigned n_threads)
{
    return (dpt_cpu_pieces){.team = team,
                            .n_pieces = n_pieces,
                            .thread = thread,
                            .n_threads = n_threads,
                            .helped = thread,
                            .phase = n_threads > 1 ? phase_of(team) % 2 : 0};
}

/* Takes a piece of a thread's part.  false: no piece is left. */
static bool take_from(const dpt_cpu_pieces *p, unsigned thread, size_t *piece)
{
    const uint64_t back = (uint64_t)1 << 32;
    const dpt_cpu_range part = dpt_cpu_split(p->n_pieces, 1, thread, p->n_threads);
    const bool own = thread == p->thread;
    const uint64_t taken = atomic_fetch_add_explicit(&p->team->counters[thread].taken[p->phase],
                                                     own ? 1 : back, memory_order_relaxed);
    const size_t n_front = taken % back, n_back = taken / back;
    if (n_front + n_back >= part.end - part.begin) return false;
    *piece = own ? part.begin + n_front : part.end - 1 - n_back;
    return true;
}

bool dpt_cpu_take(dpt_cpu_pieces *p, size_t *piece)
{
    if (p->n_threads == 1) {
        *piece = p->next++;
        return *piece < p->n_pieces;
    }
    for (unsigned i = 0; i < p->n_threads; i++) {
        if (take_from(p, p->helped, piece)) return true;
        p->helped = (p->helped + 1) % p->n_threads;
    }
    return false;
}

/* ---- Binding --------------------------------------------------------------------------------- */

enum { MAX_CORES = 4096 };

static void bind_to(unsigned core)
{
    cpu_set_t *set = CPU_ALLOC(MAX_CORES);
    if (!set) return; /* an unbound thread is slower and computes the same */
    const size_t n_bytes = CPU_ALLOC_SIZE(MAX_CORES);
    CPU_ZERO_S(n_bytes, set);
    CPU_SET_S(core, n_bytes, set);
    (void)pthread_setaffinity_np(pthread_self(), n_bytes, set);
    CPU_FREE(set);
}

static void save_binding(dpt_cpu_team *team)
{
    const size_t n_bytes = CPU_ALLOC_SIZE(MAX_CORES);
    team->saved = CPU_ALLOC(MAX_CORES);
    team->has_saved =
        team->saved && pthread_getaffinity_np(pthread_self(), n_bytes, team->saved) == 0;
}

static void restore_binding(dpt_cpu_team *team)
{
    if (team->has_saved)
        (void)pthread_setaffinity_np(pthread_self(), CPU_ALLOC_SIZE(MAX_CORES), team->saved);
    if (team->saved) CPU_FREE(team->saved);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void enter(const dpt_cpu_team *team, unsigned thread)
{
    if (team->cores) bind_to(team->cores[thread]);
    if (team->args.enter) team->args.enter(team->args.argument);
}

static void work(dpt_cpu_team *team, unsigned thread)
{
    enter(team, thread);
    for (;;) {
        end_phase(team, thread); /* the job begins */
        if (!team->job) return;
        team->job(team->argument, thread, team->args.n_threads);
        end_phase(team, thread); /* the job ends */
    }
}

/* Tells the driver thread how many threads the team has. */
static void report(dpt_cpu_team *team, unsigned n_given)
{
    pthread_mutex_lock(&team->barrier.mutex);
    team->n_given = n_given;
    pthread_cond_broadcast(&team->barrier.opened);
    pthread_mutex_unlock(&team->barrier.mutex);
}

static unsigned await_report(dpt_cpu_team *team)
{
    pthread_mutex_lock(&team->barrier.mutex);
    while (team->n_given == 0)
        pthread_cond_wait(&team->barrier.opened, &team->barrier.mutex);
    const unsigned n_given = team->n_given;
    pthread_mutex_unlock(&team->barrier.mutex);
    return n_given;
}

static void *host(void *argument)
{
    dpt_cpu_team *team = argument;
    const int n_workers = (int)team->args.n_threads - 1;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(n_workers)
    {
        const int n_given = omp_get_num_threads();
        const int thread = omp_get_thread_num();
        if (thread == 0) report(team, (unsigned)n_given + 1);
        /* If threads are missing, the others would wait for them for ever.  No thread begins then.
         */
        if (n_given == n_workers) work(team, (unsigned)thread + 1);
    }
    return NULL;
}

static dpt_status start_workers(dpt_cpu_team *team, dpt_error *error)
{
    const unsigned n_threads = team->args.n_threads;
    if (n_threads == 1) return DPT_OK;
    const int code = pthread_create(&team->host, NULL, host, team);
    if (code != 0)
        return DPT_FAIL_NATIVE(error, DPT_E_DEVICE, code,
                               "cannot start a thread; ask for fewer with threads=N");
    const unsigned n_given = await_report(team);
    if (n_given != n_threads) {
        pthread_join(team->host, NULL);
        return DPT_FAIL(error, DPT_E_DEVICE,
                        "OpenMP gives %u threads where %u are wanted; raise OMP_THREAD_LIMIT or "
                        "ask for fewer with threads=N",
                        n_given, n_threads);
    }
    team->has_host = true;
    return DPT_OK;
}

static dpt_status allocate(dpt_cpu_team *team, dpt_error *error)
{
    const unsigned n = team->args.n_threads;
    team->counters = aligned_alloc(64, n * sizeof *team->counters);
    team->cores = team->args.cores ? calloc(n, sizeof *team->cores) : NULL;
    if (!team->counters || (team->args.cores && !team->cores))
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a team of threads");
    for (unsigned i = 0; i < n; i++) {
        if (team->cores) team->cores[i] = team->args.cores[i];
        atomic_init(&team->counters[i].taken[0], 0);
        atomic_init(&team->counters[i].taken[1], 0);
    }
    return DPT_OK;
}

dpt_status dpt_cpu_team_create(const dpt_cpu_team_args *args, dpt_cpu_team **out, dpt_error *error)
{
    dpt_cpu_team *team = aligned_alloc(64, (sizeof *team + 63) / 64 * 64);
    if (!team) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a team of threads");
    *team = (dpt_cpu_team){.args = *args};
    team->barrier.n_threads = args->n_threads;
    team->barrier.n_spins = args->cores ? SPINS_BOUND : SPINS_SHARED;
    pthread_mutex_init(&team->barrier.mutex, NULL);
    pthread_cond_init(&team->barrier.opened, NULL);

    dpt_status status = allocate(team, error);
    /* Start the workers before thread 0 is bound: they inherit the caller's cores until they bind
       themselves. */
    if (status == DPT_OK) status = start_workers(team, error);
    if (status != DPT_OK) {
        dpt_cpu_team_destroy(team);
        return status;
    }
    save_binding(team);
    enter(team, 0);
    *out = team;
    return DPT_OK;
}

void dpt_cpu_team_destroy(dpt_cpu_team *team)
{
    if (!team) return;
    if (team->has_host) {
        team->job = NULL;
        barrier_wait(&team->barrier);
        pthread_join(team->host, NULL);
    }
    restore_binding(team);
    pthread_cond_destroy(&team->barrier.opened);
    pthread_mutex_destroy(&team->barrier.mutex);
    free(team->cores);
    free(team->counters);
    free(team);
}

void dpt_cpu_team_run(dpt_cpu_team *team, dpt_cpu_team_job *job, const void *argument)
{
    if (!team->has_host) {
        job(argument, 0, 1);
        return;
    }
    team->job = job;
    team->argument = argument;
    end_phase(team, 0);
    job(argument, 0, team->args.n_threads);
    end_phase(team, 0);
}
