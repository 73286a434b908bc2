/* Exchanges of several processes, of which some are killed in the middle of an exchange; the others
   go on (tests/cli/survive.sh).

     survive MICROSECONDS RANK...   joins the processes that mpirun has started.  Process RANK is
                                    killed so many microseconds after the first exchange, the next
                                    one in the list as long after the others have gone on.

   The exit status of a process that lives is 0 if all results are right, 77 if this MPI does not go
   on without a process that has died. */
#include "base/parse.h"
#include "collective/launch.h"
#include "collective/processes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { COUNT = 300007, ROUNDS_AFTER = 20, TEXT_BYTES = 5000, SKIPPED = 77 };

typedef struct job {
    dpti_processes *processes;
    float *data; /* (COUNT) */
    bool contributes[64];
} job;

static void die(int signal_number)
{
    (void)signal_number;
    (void)raise(SIGKILL);
}

static void die_in(long microseconds)
{
    const struct itimerval when = {
        .it_value = {.tv_sec = microseconds / 1000000, .tv_usec = microseconds % 1000000}};
    (void)signal(SIGALRM, die);
    (void)setitimer(ITIMER_REAL, &when, NULL);
}

/* A gather whose parts have different sizes, while a sum is under way. */
static dpt_status exchange(job *j, size_t round, dpt_error *error)
{
    dpti_processes *p = j->processes;
    const size_t n = dpti_processes_count(p), rank = dpti_processes_rank(p);
    char text[TEXT_BYTES];
    dpti_gathered all = {.data = NULL};
    for (size_t i = 0; i < COUNT; i++)
        j->data[i] = (float)((i + round) % 16 + rank);
    dpti_processes_start_collective(p, &(dpti_collective){.kind = DPTI_ALL_REDUCE,
                                                          .data = j->data,
                                                          .count = COUNT,
                                                          .contributes = j->contributes});
    memset(text, (int)('a' + rank), sizeof text);
    const size_t mine = 1 + (round * 977 + rank * 13) % TEXT_BYTES;
    DPT_TRY(dpti_processes_gather(p, (dpti_bytes){text, mine}, &all, error));
    bool right = true;
    for (size_t r = 0; r < n; r++) {
        right =
            right && all.begins[r + 1] - all.begins[r] == 1 + (round * 977 + r * 13) % TEXT_BYTES;
        for (size_t i = all.begins[r]; i < all.begins[r + 1]; i++)
            right = right && all.data[i] == 'a' + r;
    }
    dpti_gathered_free(&all);
    DPT_TRY(dpti_processes_finish_collectives(p, error));
    for (size_t i = 0; i < COUNT; i++)
        right = right && j->data[i] == (float)(n * ((i + round) % 16) + n * (n - 1) / 2);
    return right ? DPT_OK : DPT_FAIL(error, DPT_E_INTERNAL, "round %zu has a wrong result", round);
}

/* Exchanges until a process dies, and goes on without it. */
static dpt_status lose(job *j, size_t victim, long microseconds, dpt_error *error)
{
    dpti_processes *p = j->processes;
    const size_t first = dpti_processes_first(p, dpti_processes_rank(p)),
                 of_victim = dpti_processes_first(p, victim);
    const size_t n = dpti_processes_count(p), rank = dpti_processes_rank(p);
    dpt_status status = exchange(j, 0, error);
    if (status == DPT_OK && rank == victim) die_in(microseconds);
    for (size_t round = 1; status == DPT_OK; round++)
        status = exchange(j, round, error);
    if (!dpti_processes_to_mend(p)) return status;
    DPT_TRY(dpti_processes_mend(p, error));
    dpti_processes_know(p);
    const size_t now = dpti_processes_rank(p);
    if (dpti_processes_count(p) != n - 1 || now != rank - (rank > victim ? 1 : 0) ||
        dpti_processes_first(p, now) != first || dpti_processes_live(p, of_victim))
        return DPT_FAIL(error, DPT_E_INTERNAL, "process %zu became %zu of %zu", rank, now,
                        dpti_processes_count(p));
    return DPT_OK;
}

static dpt_status run(job *j, int n_victims, char **words, dpt_error *error)
{
    size_t microseconds = 0, victim = 0;
    for (size_t r = 0; r < sizeof j->contributes / sizeof *j->contributes; r++)
        j->contributes[r] = true;
    if (!dpti_parse_size(words[0], 0, 10000000, &microseconds))
        return DPT_FAIL(error, DPT_E_INVALID, "%s is no time", words[0]);
    for (int i = 1; i <= n_victims; i++) {
        if (!dpti_parse_size(words[i], 0, 63, &victim))
            return DPT_FAIL(error, DPT_E_INVALID, "%s is no rank", words[i]);
        DPT_TRY(lose(j, victim, (long)microseconds + 1, error));
    }
    for (size_t round = 0; round < ROUNDS_AFTER; round++)
        DPT_TRY(exchange(j, round, error));
    return dpti_processes_settle(j->processes, error);
}

int main(int argc, char **argv)
{
    dpt_error error = {.status = DPT_OK};
    const dpt_transport *transport = NULL;
    job j = {.data = calloc(COUNT, sizeof *j.data)};
    if (argc < 3 || !j.data) return 2;
    dpt_status status = dpti_transport_load("mpi", &transport, &error);
    if (status == DPT_OK) status = dpti_processes_start(transport, 0, &j.processes, &error);
    if (status == DPT_OK && !dpti_processes_survive(j.processes)) {
        dpti_processes_stop(j.processes);
        return SKIPPED;
    }
    if (status == DPT_OK) status = run(&j, argc - 2, argv + 1, &error);
    if (status == DPT_OK)
        printf("process %zu of %zu is right\n", dpti_processes_rank(j.processes),
               dpti_processes_count(j.processes));
    else
        (void)fprintf(stderr, "FAIL: %s\n", error.message);
    (void)fflush(stdout);
    dpti_processes_stop(j.processes);
    free(j.data);
    return status == DPT_OK ? 0 : 1;
}
