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
    float *beginning; /* (flat_size) the parameters at the beginning of the round */
    float *velocity;  /* (flat_gradients) the outer momentum's; NULL: the outer step has none */
    /* (processes) samples in steps that were collected, and whether there are any: */
    size_t *samples, *since; /* of the round; since all processes had one state */
    bool *contributes, *contributed;
    /* With an outer delay: */
    bool in_flight;    /* what has changed in a round is exchanged while the next one goes on */
    bool finite;       /* what comes of that is */
    float *travelling; /* (flat_trained) what has changed; NULL: not made yet */
    float *noted;      /* (flat_trained) this process's parameters at the end of that round */
} dpti_rounds;

#endif
