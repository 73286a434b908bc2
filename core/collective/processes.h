/* The processes of a job, and what they do together, by messages of a transport.

   One thread, the communication thread, opens the transport and makes all of its calls, as MPI
   wants it; whoever calls here waits for it, but for collectives, which it works on beside
   everything else.  All processes make the same calls in the same order with the same sizes, and
   start the same collectives in the same order: that is the caller's business, and the reason why
   nothing may depend on a clock or on what one process alone has seen.

   After a failure of the transport every further call fails: the job is at its end. */
#ifndef DPTI_PROCESSES_H
#define DPTI_PROCESSES_H

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

/* Rooted: the first process gets, in the order of ranks, n_bytes of each; or each gets its part of
   what the first one has.  `all` is (count, n_bytes) there and unused elsewhere. */
DPT_CHECK_RESULT dpt_status dpti_processes_collect(dpti_processes *processes, const void *mine,
                                                   size_t n_bytes, void *all, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_processes_deal(dpti_processes *processes, const void *all,
                                                size_t n_bytes, void *mine, dpt_error *error);

/* A collective, in place, over `count` float32 that every process has.  The array is divided into
   slices, one a process: elements [slices[r], slices[r + 1]) are those of process r.

   ALL_REDUCE      every process gets the sum of what those that contribute have brought
   REDUCE_SCATTER  every process gets its slice of that sum; the rest of its array is left as
                   anything
   ALL_GATHER      every process brings its slice and gets the whole array; a broadcast, where one
                   process has all of it

   Sums are made once, in the order of ranks, and travel to the others as they are: so all have the
   same bits, which depend neither on how an array is cut into several collectives nor on the route.

   Packed, parts and sums travel as bfloat16, rounded to nearest, with error feedback: what rounding
   drops here is owed, and added to what is rounded here next.  That is this process's part of the
   others' slices; and of its own slice, of which it brings its part unrounded, the sum.  So what
   all processes have got over many sums is what they have brought, less what all still owe, but for
   the rounding of float32 itself.  A process that does not contribute keeps owing.  All still have
   the same bits, which now depend on the cuts; the route is the direct one. */
typedef enum dpti_collective_kind {
    DPTI_ALL_REDUCE,
    DPTI_REDUCE_SCATTER,
    DPTI_ALL_GATHER,
} dpti_collective_kind;

typedef struct dpti_collective {
    dpti_collective_kind kind;
    float *data;
    size_t count;
    /* (count of processes + 1), from 0 to count, the same in all of them.  NULL: of about one size,
       in whole cache lines. */
    const size_t *slices;
    const bool *contributes; /* (count of processes); of no account to an all-gather */
    /* May be NULL.  Called by the communication thread, if this process contributes, once for all
       runs of the data that together are the whole: writes this process's part of the sum there. */
    void (*prepare)(void *user, float *data, size_t count);
    void *user;
    /* All-reduce alone: packed if `owes` is not NULL, in all processes or in none: (count) each,
       what this process owed before, NULL for nothing, and what it will owe, all of which is
       written. */
    const float *residual;
    float *owes;
    /* May be NULL; all-reduce alone.  Becomes false, before it is over, if the sum is not finite:
       as all processes have the same bits, it does so in all of them or in none. */
    bool *finite;
} dpti_collective;

/* What is under way at most; who starts more waits. */
enum { DPTI_MOST_COLLECTIVES = 64 };

/* Starts one and returns.  Data, and what it points to, stay until it is over. */
void dpti_processes_start_collective(dpti_processes *processes, const dpti_collective *collective);
/* Waits until all that were started are over; DPT_OK at once if there are none. */
DPT_CHECK_RESULT dpt_status dpti_processes_finish_collectives(dpti_processes *processes,
                                                              dpt_error *error);

/* The route that collectives take, in chunks.

   DIRECT: every process sends every other its part of that one's slice; the owner sums the slice
   and sends it to all.  P processes send 2 (P - 1) / P of the array each, in two messages to each
   of the others.

   RING: from neighbour to neighbour.  Sums begin at process 0 and grow on the way to the last one,
   from where they come back; slices that are gathered go round.  Every process sends up to twice
   the array, to its neighbours alone: where several of them are on one host only the first and the
   last of these use its link.  (Of a reduce-scatter the last one sends every owner its slice.) */
typedef enum dpti_route { DPTI_ROUTE_DIRECT, DPTI_ROUTE_RING } dpti_route;

enum { DPTI_LEAST_WINDOW = 3, DPTI_MOST_WINDOW = 16 };

typedef struct dpti_travel {
    dpti_route route;
    size_t window; /* chunks under way at the same time, from DPTI_LEAST_WINDOW to
                      DPTI_MOST_WINDOW: more, where messages are long on their way */
} dpti_travel;

/* In all processes, or in none if any has no memory, while no collective is under way.  *travel
   becomes how they do travel: where processes are many a window has fewer chunks, as staging is to
   take no more than 64 MiB.  At first they go directly, by the least window. */
DPT_CHECK_RESULT dpt_status dpti_processes_set_travel(dpti_processes *processes,
                                                      dpti_travel *travel, dpt_error *error);

/* ---- Finding them (launch.c) ----------------------------------------------------------------- */

/* *n: how many processes a launcher says that it started with this one; 1 if none says so.  *which
   is the variable that told, or NULL.  DPT_E_INVALID: one is set and is no number. */
DPT_CHECK_RESULT dpt_status dpti_launched(size_t *n, const char **which, dpt_error *error);
/* The rank that the launcher gives this process; 0 if none has started it.  False: several were
   started, and no variable tells which of them this one is. */
bool dpti_launched_rank(size_t *rank);
/* The first that processes exchange: DPT_E_INVALID, in all of them, if they do not have the same
   version or are there for different purposes. */
DPT_CHECK_RESULT dpt_status dpti_processes_introduce(dpti_processes *processes, const char *version,
                                                     const char *purpose, dpt_error *error);
/* The delay that DPTRAIN_TRANSPORT_DELAY asks for; 0 if it is not set.  DPT_E_INVALID says what to
   give. */
DPT_CHECK_RESULT dpt_status dpti_delay_wanted(double *out, dpt_error *error);
/* Opens the plug-in of a transport.  DPT_E_ABSENT: there is none, or its library is missing. */
DPT_CHECK_RESULT dpt_status dpti_transport_load(const char *name, const dpt_transport **out,
                                                dpt_error *error);

#endif
