/* Choices that are measured once and remembered: which tile, which algorithm.

   A choice is found by its key, a line of text that says all that it depends on ("conv2d forward
   28x28x64 3x3/1 64 n256"), and by the names of the candidates.  It is looked up in what this
   process has chosen, then in a cache file of devices of one kind, and measured if neither has it.
   What was measured is remembered with it, for people to read.
   Measuring is serialised over all devices of the process, because two that compute on the same
   cores would spoil each other's times; a second device of the same kind finds what the first has
   measured, so that both choose alike.  Of processes that measure the same at once, the first to
   write it down decides for all. */
#ifndef DPT_COMMON_CHOICES_H
#define DPT_COMMON_CHOICES_H

#include "cache.h"

/* What is known of one kind of device.  It outlives its devices: one that is opened again chooses
   alike. */
typedef struct dpt_choices dpt_choices;

/* Those of a cache file ("opencl/tuning.txt"); NULL without memory.  Never freed. */
dpt_choices *dpt_choices_get(const char *file);

/* The seconds of a candidate, this time.  DPT_E_UNSUPPORTED, DPT_E_NO_MEMORY or DPT_E_DEVICE: not a
   candidate here; the first of them is told if none is left.  Other failures end the choice. */
typedef dpt_status dpt_choice_time(void *argument, const char *candidate, double *seconds);

/* Of a line that says what candidates took. */
enum { DPT_MEASURED_BYTES = 160 };

typedef struct dpt_choice {
    const char *key;               /* without line breaks and tabulators */
    const char *const *candidates; /* names without spaces; static strings or outliving the call */
    size_t n_candidates;           /* at least 1; a single one is taken without measuring */
    dpt_choice_time *time;
    void *argument;
    /* How often each is timed, 0 is once: all of them in turn, so that a moment in which the
       machine was busy falls on every candidate alike, and the least counts.  What is hopelessly
       slow after two rounds is left out of the others. */
    size_t n_rounds;
    /* NULL, or DPT_MEASURED_BYTES that become "winograd4 38 ms, direct 54.2 ms", the fastest first
       and as many as there is room for; empty where nothing was measured. */
    char *measured;
} dpt_choice;

/* *out: the index of the fastest candidate. */
DPT_CHECK_RESULT dpt_status dpt_choices_find(dpt_choices *of, const dpt_choice *choice,
                                             dpt_error *error, size_t *out);

#endif
