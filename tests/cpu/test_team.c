/* Tests teams (backends/cpu/team.h): each piece of work is done exactly once, by any thread that
   is free. */
#include "cpu/team.h"
#include "harness.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { N_THREADS = 5, MOST_PIECES = 257, ROUNDS = 40 };

static const size_t counts[] = {0, 1, 4, 5, 17, MOST_PIECES};
enum { N_COUNTS = sizeof counts / sizeof *counts };

/* What a job and the test share. */
typedef struct shared {
    dpt_cpu_team *team;
    size_t n_pieces;
    atomic_uint done[MOST_PIECES];   /* how often each piece was, */
    atomic_uint again[MOST_PIECES];  /* of a second set */
    atomic_uint by[MOST_PIECES];     /* whom */
    atomic_uint n_finished, n_wrong; /* threads; rounds */
} shared;

static dpt_cpu_team *team_of(test *t, unsigned n_threads)
{
    dpt_error error;
    dpt_cpu_team *team = NULL;
    const dpt_cpu_team_args args = {.n_threads = n_threads};
    if (!CHECK_OK(dpt_cpu_team_create(&args, &team, &error))) return NULL;
    return team;
}

static void do_piece(shared *s, size_t piece, unsigned thread)
{
    atomic_fetch_add(&s->done[piece], 1);
    atomic_store(&s->by[piece], thread);
}

/* ---- Each once ------------------------------------------------------------------------------- */

/* Were the first n_pieces done once, and none behind them?  None is done then. */
static void check_and_clear(shared *s, atomic_uint done[MOST_PIECES], size_t n_pieces)
{
    for (size_t i = 0; i < MOST_PIECES; i++)
        if (atomic_exchange(&done[i], 0) != (i < n_pieces)) atomic_fetch_add(&s->n_wrong, 1);
}

/* Two sets of pieces with a barrier between them, again and again, and every time another thread
   comes late: so there are sets in two phases that follow each other. */
static void take_rounds(const void *argument, unsigned thread, unsigned n_threads)
{
    shared *s = *(shared *const *)argument;
    for (size_t round = 0; round < ROUNDS; round++) {
        const size_t n = counts[round % N_COUNTS];
        for (unsigned i = 0; round % n_threads == thread && i < 20; i++)
            sched_yield();
        dpt_cpu_pieces pieces = dpt_cpu_pieces_of(s->team, n, thread, n_threads);
        for (size_t piece; dpt_cpu_take(&pieces, &piece);)
            do_piece(s, piece, thread);
        dpt_cpu_barrier(s->team, thread, n_threads);
        dpt_cpu_pieces others = dpt_cpu_pieces_of(s->team, MOST_PIECES - n, thread, n_threads);
        for (size_t piece; dpt_cpu_take(&others, &piece);)
            atomic_fetch_add(&s->again[piece], 1);
        dpt_cpu_barrier(s->team, thread, n_threads);
        if (thread == 0) {
            check_and_clear(s, s->done, n);
            check_and_clear(s, s->again, MOST_PIECES - n);
        }
        dpt_cpu_barrier(s->team, thread, n_threads);
    }
}

static void each_once(test *t)
{
    shared *s = calloc(1, sizeof *s);
    REQUIRE(s != NULL);
    s->team = team_of(t, N_THREADS);
    for (size_t job = 0; s->team && job < 20; job++)
        dpt_cpu_team_run(s->team, take_rounds, &s);
    CHECK_SIZE(atomic_load(&s->n_wrong), 0);
    dpt_cpu_team_destroy(s->team);
    free(s);
}

/* ---- Whose ----------------------------------------------------------------------------------- */

/* Thread 0 comes when the others have finished. */
static void leave_to_others(const void *argument, unsigned thread, unsigned n_threads)
{
    shared *s = *(shared *const *)argument;
    while (thread == 0 && atomic_load(&s->n_finished) < n_threads - 1)
        sched_yield();
    dpt_cpu_pieces pieces = dpt_cpu_pieces_of(s->team, s->n_pieces, thread, n_threads);
    for (size_t piece; dpt_cpu_take(&pieces, &piece);)
        do_piece(s, piece, thread);
    atomic_fetch_add(&s->n_finished, 1);
}

static void late_ones_are_helped(test *t)
{
    shared *s = calloc(1, sizeof *s);
    REQUIRE(s != NULL);
    s->team = team_of(t, N_THREADS);
    s->n_pieces = MOST_PIECES;
    if (s->team) dpt_cpu_team_run(s->team, leave_to_others, &s);
    CHECK_SIZE(atomic_load(&s->n_finished), N_THREADS);
    for (size_t i = 0; i < MOST_PIECES; i++)
        CHECK(atomic_load(&s->done[i]) == 1 && atomic_load(&s->by[i]) != 0);
    dpt_cpu_team_destroy(s->team);
    free(s);
}

/* Each takes no more than its part has. */
static void take_own(const void *argument, unsigned thread, unsigned n_threads)
{
    shared *s = *(shared *const *)argument;
    const dpt_cpu_range part = dpt_cpu_split(s->n_pieces, 1, thread, n_threads);
    dpt_cpu_pieces pieces = dpt_cpu_pieces_of(s->team, s->n_pieces, thread, n_threads);
    for (size_t i = part.begin, piece; i < part.end; i++) {
        if (!dpt_cpu_take(&pieces, &piece)) continue;
        if (piece != i) atomic_fetch_add(&s->n_wrong, 1);
        do_piece(s, piece, thread);
    }
}

static void own_ones_come_first_and_in_order(test *t)
{
    shared *s = calloc(1, sizeof *s);
    REQUIRE(s != NULL);
    s->team = team_of(t, N_THREADS);
    s->n_pieces = 23;
    for (size_t job = 0; s->team && job < 50; job++) {
        dpt_cpu_team_run(s->team, take_own, &s);
        check_and_clear(s, s->done, s->n_pieces);
    }
    CHECK_SIZE(atomic_load(&s->n_wrong), 0);
    dpt_cpu_team_destroy(s->team);
    free(s);
}

/* A kernel that runs on one thread, be it of a team of several. */
static void alone(test *t)
{
    dpt_cpu_team *team = team_of(t, N_THREADS);
    REQUIRE(team != NULL);
    for (size_t i = 0; i < N_COUNTS; i++) {
        dpt_cpu_pieces pieces = dpt_cpu_pieces_of(team, counts[i], 0, 1);
        size_t n = 0;
        for (size_t piece; dpt_cpu_take(&pieces, &piece); n++)
            CHECK_SIZE(piece, n);
        CHECK_SIZE(n, counts[i]);
    }
    dpt_cpu_team_destroy(team);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"each piece is done once", each_once},
        {"the pieces of a late thread are done by others", late_ones_are_helped},
        {"a thread's own pieces come first, in order", own_ones_come_first_and_in_order},
        {"one thread alone", alone},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
