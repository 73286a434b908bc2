/* What a context remembers: the last failure, and the settings that every device and trainer of the
   context follows.  The context owns the registry of backends and the processes, but this header
   does not know what these are. */
#ifndef DPTI_CONTEXT_H
#define DPTI_CONTEXT_H

#include "dpt_error.h"
#include "dptrain.h"

typedef struct dpti_registry dpti_registry;
typedef struct dpti_processes dpti_processes;

enum { DPTI_HOST_BYTES = 256 };

/* Which process this is, for device lists that have a part for each process. */
typedef struct dpti_process_name {
    size_t rank;
    bool rank_known; /* false: several were started, and the launcher does not say which this is */
    char host[DPTI_HOST_BYTES];
} dpti_process_name;

/* What a call keeps for a later one, with the function that frees it; NULL: nothing. */
typedef struct dpti_carried_object {
    void *object;
    void (*destroy)(void *object);
} dpti_carried_object;

/* How many devices each process has that was there at the start.  0: not known, because the process
   died before it told. */
typedef struct dpti_device_counts {
    size_t n;
    size_t *of; /* (n); NULL: no process has told */
} dpti_device_counts;

enum { DPTI_PURPOSE_BYTES = 64, DPTI_TOLD_HEADERS = 2 };

struct dpt_context {
    dpt_error error;           /* the last failure of a public call */
    dpti_registry *registry;   /* the backends and their devices (device/registry.h) */
    dpti_processes *processes; /* the processes that train together (collective/processes.h); NULL:
                                  this process trains alone */
    dpti_process_name process_name;
    dpti_device_counts counts; /* if training goes on when a process dies */
    dpti_carried_object
        carried;           /* the training state, after a process has died (fit/fit_carried.c) */
    bool goes_on;          /* the next dpt_fit goes on from such a state, which some process has */
    bool begun;            /* a step was submitted, or there can be no such state */
    char *precision;       /* of devices that are opened from now on; NULL: their own */
    double device_timeout; /* of dpt_context_options */
    char purpose[DPTI_PURPOSE_BYTES];      /* of dpt_processes_join_for, cut */
    char *invitation;                      /* of dpt_process_invite; NULL: no process may come */
    char *told_headers[DPTI_TOLD_HEADERS]; /* of dpti_arrivals_note; NULL: nothing yet */
    size_t n_abandoned;          /* driver threads that were abandoned and have not returned */
    dpt_notice_function *notice; /* of dpt_context_notices; NULL: notices are dropped */
    void *notice_user;
};

/* Copies an error record into the context and returns its status.  `prefix`, such as
   "device cuda:0", is put in front of the message; NULL: nothing is put there. */
dpt_status dpti_context_fail(dpt_context *context, const char *prefix, const dpt_error *error);

/* Gives the program's function a line (dpt_context_notices), which is cut if it is too long.  Only
   the thread of a public call may do so.  Cannot fail. */
DPT_PRINTF(2, 3) void dpti_context_notice(const dpt_context *context, const char *format, ...);

#endif
