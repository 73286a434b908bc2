/* The fields of rounds: where a round of local steps stands, and what its end needs.

   Only files of core/train/rounds touch these fields.  Other concerns call the functions that
   rounds.h declares. */
#ifndef DPTI_ROUNDS_STATE_H
#define DPTI_ROUNDS_STATE_H

#include <stdbool.h>
#include <stddef.h>

/* The caller's thread alone reads and writes it.  Without local steps everything is zero. */
typedef struct dpti_rounds {
    bool open;        /* a step of the round was submitted, and the round has not ended */
    float *beginning; /* (flat_size) the parameters at the beginning of the round; with fragments
                         each fragment's, when it was exchanged last */
    float *velocity;  /* (flat_gradients) the outer momentum's; NULL: the outer step has none */
    /* Samples in steps that were collected, and whether there are any: */
    size_t *samples, *since;         /* (fragments, processes) since the exchange of each fragment;
                                        (processes) since all processes had one state */
    bool *contributes, *contributed; /* likewise */
    bool finite;                     /* what the sums of an exchange bring */
    /* With an outer delay: */
    bool in_flight;    /* what has changed in a fragment is exchanged while steps go on */
    size_t fragment;   /* which */
    float *travelling; /* (largest fragment) what has changed; NULL: not made yet */
    float *noted;      /* (largest fragment) this process's parameters when the exchange began */
} dpti_rounds;

#endif
