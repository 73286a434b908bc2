/* Choices that are measured once and remembered: which tile, which algorithm.

   - A choice is identified by its key and the names of its candidates.  The key is a line of text
     with everything that the choice depends on ("conv2d forward 28x28x64 3x3/1 64 n256").
   - A choice is first looked up among the choices of this process, then in the cache file of this
     kind of device.  If neither holds the choice, the candidates are timed.
   - The times are stored with the choice, for people to read.
   - One device of the process measures at a time, because devices that compute on the same cores
     would disturb each other's times.  A second device of the same kind finds what the first one
   has measured, so both choose alike.
   - If several processes measure the same choice at once, the first one that writes the cache file
     decides for all. */
#ifndef DPT_COMMON_CHOICES_H
#define DPT_COMMON_CHOICES_H

#include "cache.h"

/* The choices of one kind of device.  They outlive the devices, so a device that is opened again
   chooses alike. */
typedef struct dpt_choices dpt_choices;

/* The choices of a cache file ("opencl/tuning.txt").  NULL if there is no memory.  Never freed. */
dpt_choices *dpt_choices_get(const char *file);

/* Times a candidate once.  DPT_E_UNSUPPORTED, DPT_E_NO_MEMORY or DPT_E_DEVICE: the candidate is
   left out; if all candidates are left out, the choice fails with the first such failure.  Any
   other failure ends the choice. */
typedef dpt_status dpt_choice_time(void *argument, const char *candidate, double *seconds);

/* The size of a line that lists the times of candidates. */
enum { DPT_MEASURED_BYTES = 160 };

typedef struct dpt_choice {
    const char *key;               /* has no line break and no tabulator */
    const char *const *candidates; /* names without spaces, which outlive the call */
    size_t n_candidates;           /* at least 1; a single one is taken without a measurement */
    dpt_choice_time *time;
    void *argument;
    /* How often each candidate is timed; 0 means once.  Each round times all candidates in turn, so
       that a busy moment of the machine falls on all of them.  The shortest time of a candidate
       counts.  A candidate that is far slower than the best after two rounds is left out of the
       following rounds. */
    size_t n_rounds;
    /* NULL, or DPT_MEASURED_BYTES that receive the times, as "winograd4 38 ms, direct 54.2 ms": the
       fastest first, as many as fit.  Empty if nothing was measured. */
    char *measured;
} dpt_choice;

/* *out: the index of the fastest candidate. */
DPT_CHECK_RESULT dpt_status dpt_choices_find(dpt_choices *of, const dpt_choice *choice,
                                             dpt_error *error, size_t *out);

#endif
