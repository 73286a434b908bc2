/* The processes of a job, and what they do together, by messages of a transport.

   One thread, the communication thread, opens the transport and makes all calls of it, as MPI
   requires.  A caller of these functions waits for that thread, except for collectives, which the
   thread works on beside everything else.  All processes make the same calls in the same order with
   the same sizes, and start the same collectives in the same order.  The callers see to that; it is
   the reason why no decision may depend on a clock or on what only one process has seen.

   After a failure of the transport every later call fails.  The job cannot go on, unless the
   transport survives failures and all processes that live call dpti_processes_mend. */
#ifndef DPTI_PROCESSES_H
#define DPTI_PROCESSES_H

#include "base/bytes.h"
#include "collective/collective.h"
#include "collective/link.h"
#include "collective/transport.h"

typedef struct dpti_processes dpti_processes; /* as context/context.h has it */

/* Joins the other processes.  `transport` lives as long as the process.  What this process receives
   is delayed by `delay` seconds (collective/link.h).  Fails as the transport's `open` does;
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_processes_start(const dpt_transport *transport, double delay,
                                                 dpti_processes **out, dpt_error *error);
/* Leaves.  It waits for the other processes, unless this process has given up or the transport has
   failed.  Accepts NULL. */
void dpti_processes_stop(dpti_processes *processes);

size_t dpti_processes_rank(const dpti_processes *processes);
size_t dpti_processes_count(const dpti_processes *processes);
const char *dpti_processes_transport(const dpti_processes *processes); /* its name */
/* Returns (count) the delay of what each process receives, in seconds; NULL if none has a delay.
   The delays of other processes are 0 until dpti_processes_tell_delays. */
const double *dpti_processes_delays(const dpti_processes *processes);
DPT_CHECK_RESULT dpt_status dpti_processes_tell_delays(dpti_processes *processes, dpt_error *error);
/* Writes a text for people: "mpi", "mpi, delayed by 5 ms", "mpi, delayed by 0 to 5 ms". */
void dpti_processes_words(const dpti_processes *processes, char *out, size_t n_bytes);

/* Says that this process has failed in a way that the others do not know of.  It does not wait for
   them any more, and its waiting calls return with a failure.  The others learn of it at once if
   the transport can tell them; otherwise its exit ends the job. */
void dpti_processes_give_up(dpti_processes *processes);
/* `agreed` returns whether every process knows of the failure that this process saw last: because
   dpti_processes_agree reported it, or because the failure follows from shared data, which
   dpti_processes_know says. */
bool dpti_processes_agreed(const dpti_processes *processes);
void dpti_processes_know(dpti_processes *processes);
/* Says that all processes have recovered: what was reported is no failure any more. */
void dpti_processes_go_on(dpti_processes *processes);

/* ---- Processes that die ---------------------------------------------------------------------- */

/* Returns whether the job goes on when a process has died.  It is the same in all processes. */
bool dpti_processes_survive(const dpti_processes *processes);
/* Returns for how many seconds a process may stand still before the others leave it behind; 0: for
   ever.  It is the same in all processes.  A process that is left behind ends (pulse.h). */
double dpti_processes_timeout(const dpti_processes *processes);
/* Returns whether the transport has failed, and was not mended. */
bool dpti_processes_cut_off(dpti_processes *processes);
/* Returns whether the transport has failed, so that dpti_processes_mend is to be called. */
bool dpti_processes_to_mend(dpti_processes *processes);
/* If the job goes on when a process has died: returns DPT_OK in all processes if all have called it
   and none has died; otherwise it fails in all of them as the transport does.  Else it returns
   DPT_OK. */
DPT_CHECK_RESULT dpt_status dpti_processes_settle(dpti_processes *processes, dpt_error *error);
/* After a failure of the transport, with no call and no collective under way: all processes that
   live call it, and the others are left behind.  Ranks and their number change.  Collectives travel
   as at first.  Processes that die meanwhile are left behind, too.  Fails as the transport does,
   and dpti_processes_to_mend is false then; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_processes_mend(dpti_processes *processes, dpt_error *error);
/* Returns the rank that process `rank` had at the start, which names it for as long as the job
   runs; and the number of processes at the start. */
size_t dpti_processes_first(const dpti_processes *processes, size_t rank);
size_t dpti_processes_first_count(const dpti_processes *processes);
/* Returns whether the process that had rank `first` at the start has not been left behind. */
bool dpti_processes_live(const dpti_processes *processes, size_t first);

/* ---- Processes that come (arrivals.h) -------------------------------------------------------- */

/* The link, whose numbers do not change while no call of `mend` is under way. */
const dpti_link *dpti_processes_link(const dpti_processes *processes);
/* Returns whether this process has come to a job that runs and is not let in yet.  Then
   dpti_processes_to_mend is true, and `mend` waits until the others let it in. */
bool dpti_processes_come(const dpti_processes *processes);
/* Lets the process in that waits: every call fails from now on, until `mend`, and to_mend is true.
   All processes call it with nothing in flight. */
void dpti_processes_let_in(dpti_processes *processes);
/* Returns whether process `rank` was let in and dpti_processes_have_arrived was not called since.
   The result is the same in all processes. */
bool dpti_processes_is_new(const dpti_processes *processes, size_t rank);
/* If this process is new, and `mine` is a failure and the transport has not failed: this process
   gives up instead of telling the others, so that they go on without it.  Every later call returns
   the failure then, with the message of *why.  Returns whether it does. */
bool dpti_processes_end_alone(dpti_processes *processes, dpt_status mine, const dpt_error *why);
/* All processes call it: the process that came last is one of them. */
void dpti_processes_have_arrived(dpti_processes *processes);

/* Gathered data: bytes [begins[r], begins[r + 1]) of `data` are from process r. */
typedef struct dpti_gathered {
    size_t *begins; /* (count + 1) */
    uint8_t *data;
} dpti_gathered;

void dpti_gathered_free(dpti_gathered *gathered); /* accepts a zeroed struct; zeroes it */

/* Gathers the data of all processes, which may differ in size.  The caller frees *out; `out` may be
   NULL.  Fails as the transport does. */
DPT_CHECK_RESULT dpt_status dpti_processes_gather(dpti_processes *processes, dpti_bytes mine,
                                                  dpti_gathered *out, dpt_error *error);
/* Each process reports its status `mine`, with the message of *error if it has failed.  If any
   process has failed, the call returns the first failure in the order of ranks in every process,
   and *error records it.  The message names the process unless all fail alike. */
DPT_CHECK_RESULT dpt_status dpti_processes_agree(dpti_processes *processes, dpt_status mine,
                                                 dpt_error *error);

/* An all-gather in place, with a vote.  Process r contributes bytes [begins[r], begins[r + 1]) of
   the table.  *verdict is the status of this process before the call.  The call sets *verdict to
   the first failure among the processes' statuses, in the order of ranks.  The table is valid if
   *verdict is DPT_OK then.  The function itself fails only as the transport
   does. */
typedef struct dpti_table {
    void *data;
    const size_t *begins; /* (count + 1) */
} dpti_table;

DPT_CHECK_RESULT dpt_status dpti_processes_share(dpti_processes *processes, const dpti_table *table,
                                                 dpt_status *verdict, dpt_error *error);

/* The memory of a rooted collective. */
typedef struct dpti_rooted {
    void *mine; /* (n_bytes) */
    void *all;  /* (count, n_bytes) in process 0; unused elsewhere */
    size_t n_bytes;
} dpti_rooted;

/* Process 0 gets `mine` of every process in `all`, in the order of ranks.  Fails as the transport
   does. */
DPT_CHECK_RESULT dpt_status dpti_processes_collect(dpti_processes *processes,
                                                   const dpti_rooted *what, dpt_error *error);
/* Every process gets in `mine` its part of `all` of process 0.  Fails as the transport does. */
DPT_CHECK_RESULT dpt_status dpti_processes_deal(dpti_processes *processes, const dpti_rooted *what,
                                                dpt_error *error);

/* The most collectives that can be in flight; a caller that starts more waits. */
enum { DPTI_MOST_COLLECTIVES = 64 };

/* Starts a collective and returns.  The data, and everything that *collective points to, stay until
   the collective is over. */
void dpti_processes_start_collective(dpti_processes *processes, const dpti_collective *collective);
/* Returns how many collectives were ever started. */
size_t dpti_processes_count_collectives(dpti_processes *processes);
/* Waits until the first n collectives that were ever started are over.  Fails as the transport
 * does.
 */
DPT_CHECK_RESULT dpt_status dpti_processes_await_collectives(dpti_processes *processes, size_t n,
                                                             dpt_error *error);
/* Waits until all collectives that were started are over; returns DPT_OK at once if there are none.
   Fails as the transport does. */
DPT_CHECK_RESULT dpt_status dpti_processes_finish_collectives(dpti_processes *processes,
                                                              dpt_error *error);

/* Sets how collectives travel, in all processes, or in none if memory is short in any
   (DPT_E_NO_MEMORY).  No collective is in flight.  *travel becomes what is used: with many
   processes the window has fewer chunks, because staging memory is limited to 64 MiB.  At first
   collectives travel directly, with the least window. */
DPT_CHECK_RESULT dpt_status dpti_processes_set_travel(dpti_processes *processes,
                                                      dpti_travel *travel, dpt_error *error);

#endif
