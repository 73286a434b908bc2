/* Several processes as threads of this one.  A transport through memory replaces MPI, so that work
   over processes is tested without MPI. */
#ifndef DPT_TEST_PROCESSES_H
#define DPT_TEST_PROCESSES_H

#include "dptrain.h"
#include "harness.h"

enum { MOST_STAND_INS = 8 };

/* What each of them does, in a context of its own that has joined the others'. */
typedef dpt_status stand_in(dpt_context *context, size_t rank, void *user);

/* Runs `part` in n threads.  The first failure in the order of ranks, and its message. */
dpt_status stand_ins_run(size_t n, stand_in *part, void *user, char message[512]);
/* From then on the transport of process `rank` fails when it has started so many requests;
   SIZE_MAX: never. */
void stand_ins_fail(size_t rank, size_t after);

/* From then on the job survives deaths, as MPI with ULFM does: the process that had rank r at the
   start dies in call calls[r] of its transport (starts of messages, `settle`, `mend`), counted from
   0; SIZE_MAX: never.  A process whose `part` fails has died, too.  `calls` stays; NULL: as at
   first. */
void stand_ins_die(const size_t *calls);

/* From then on the job survives deaths, as MPI with ULFM does: the process that had rank r at the
   start dies in call calls[r] of its transport (starts of messages, `settle`, `mend`), counted from
   0; SIZE_MAX: never.  A process whose `part` fails has died, too.  `calls` stays; NULL: as at
   first. */
void stand_ins_die(const size_t *calls);

/* From then on what they receive arrives so many seconds later than it does. */
void stand_ins_delay(double seconds);

/* All of n processes have failed with this status, each with these words. */
void check_all_failed(test *t, size_t n, const dpt_status *statuses, char messages[][512],
                      dpt_status status, const char *words);

/* "cpu|cpu,cpu" lists the devices of two processes: how many there are, and the list of one. */
size_t stand_ins_count(const char *devices);
void stand_ins_devices(const char *devices, size_t rank, char out[256]);

#endif
