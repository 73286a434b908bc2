/* The processes of a job, and what they do together, by messages of a transport.

   One thread, the communication thread, opens the transport and makes all of its calls, as MPI
   wants it; whoever calls here waits for it, but for collectives, which it works on beside
   everything else.  All processes make the same calls in the same order with the same sizes, and
   start the same collectives in the same order: that is the caller's business, and the reason why
   nothing may depend on a clock or on what one process alone has seen.

   After a failure of the transport every further call fails: the job is at its end. */
#ifndef DPTI_PROCESSES_H
#define DPTI_PROCESSES_H

#include "collective/collective.h"
#include "collective/transport.h"

typedef struct dpti_processes dpti_processes; /* as context/context.h has it */

/* Joins.  `transport` lives as long as the process.  What this process receives arrives `delay`
   seconds later than it does (collective/link.h); 0: when it does. */
DPT_CHECK_RESULT dpt_status dpti_processes_start(const dpt_transport *transport, double delay,
                                                 dpti_processes **out, dpt_error *error);
/* Leaves: in good order, waiting for the others, unless this process has given up or the transport
   has failed.  Accepts NULL. */
void dpti_processes_stop(dpti_processes *processes);

size_t dpti_processes_rank(const dpti_processes *processes);
size_t dpti_processes_count(const dpti_processes *processes);
const char *dpti_processes_transport(const dpti_processes *processes); /* its name */
/* (count) by how much what each receives is delayed, in seconds; NULL if nobody's is.  Those of
   others are 0 until all have told each other. */
const double *dpti_processes_delays(const dpti_processes *processes);
DPT_CHECK_RESULT dpt_status dpti_processes_tell_delays(dpti_processes *processes, dpt_error *error);
/* For a person: "mpi", "mpi, delayed by 5 ms", "mpi, delayed by 0 to 5 ms". */
void dpti_processes_words(const dpti_processes *processes, char *out, size_t n_bytes);

/* This process has failed in a way that the others do not know of: it will not wait for them, who
   waits is sent away, and its exit is what ends the job. */
void dpti_processes_give_up(dpti_processes *processes);
/* Whether every process knows of the failure that this one saw last: by dpti_processes_agree, or
   since it came out of what was shared, which is said here. */
bool dpti_processes_agreed(const dpti_processes *processes);
void dpti_processes_know(dpti_processes *processes);
/* They have found another way, all of them: it was no failure. */
void dpti_processes_go_on(dpti_processes *processes);

/* What was gathered: bytes [begins[r], begins[r + 1]) of data are those of process r. */
typedef struct dpti_gathered {
    size_t *begins; /* (count + 1) */
    uint8_t *data;
} dpti_gathered;

void dpti_gathered_free(dpti_gathered *gathered); /* accepts a zeroed one; zeroes it */

/* Gathers what each brings, of whatever size.  *out, which may be NULL, is to be freed. */
DPT_CHECK_RESULT dpt_status dpti_processes_gather(dpti_processes *processes, const void *mine,
                                                  size_t n_bytes, dpti_gathered *out,
                                                  dpt_error *error);
/* The same, and each tells how it fares: `mine`, and the message of *error if it is no success.  If
   any has failed all get the first failure in the order of ranks, with its process named unless
   all fail alike, in *error, and nothing is gathered.  Nor is it where `out` is NULL. */
DPT_CHECK_RESULT dpt_status dpti_processes_agree(dpti_processes *processes, dpt_status mine,
                                                 const void *data, size_t n_bytes,
                                                 dpti_gathered *out, dpt_error *error);

/* All-gather in place: process r brings bytes [begins[r], begins[r + 1]) of `table`; and a vote.
   *verdict is the first of the statuses brought, in the order of ranks, that is no success; the
   table is valid if it is DPT_OK.  The result is a failure of the transport alone. */
typedef struct dpti_table {
    void *data;
    const size_t *begins; /* (count + 1) */
} dpti_table;

DPT_CHECK_RESULT dpt_status dpti_processes_share(dpti_processes *processes, const dpti_table *table,
                                                 dpt_status mine, dpt_status *verdict,
                                                 dpt_error *error);

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

/* What is under way at most; who starts more waits. */
enum { DPTI_MOST_COLLECTIVES = 64 };

/* Starts one and returns.  Data, and what it points to, stay until it is over. */
void dpti_processes_start_collective(dpti_processes *processes, const dpti_collective *collective);
/* Waits until all that were started are over; DPT_OK at once if there are none. */
DPT_CHECK_RESULT dpt_status dpti_processes_finish_collectives(dpti_processes *processes,
                                                              dpt_error *error);

/* In all processes, or in none if any has no memory, while no collective is under way.  *travel
   becomes how they do travel: where processes are many a window has fewer chunks, as staging is to
   take no more than 64 MiB.  At first they go directly, by the least window. */
DPT_CHECK_RESULT dpt_status dpti_processes_set_travel(dpti_processes *processes,
                                                      dpti_travel *travel, dpt_error *error);

#endif
