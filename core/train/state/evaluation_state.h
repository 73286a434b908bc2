/* The fields of evaluation: whom an evaluation asks whether it is to go on.

   Only files of core/train/evaluation touch these fields. */
#ifndef DPTI_EVALUATION_STATE_H
#define DPTI_EVALUATION_STATE_H

#include <stdbool.h>

/* The caller's thread alone reads and writes it. */
typedef struct dpti_trainer_evaluation {
    bool (*ends)(void *listener); /* NULL: nobody is asked */
    void *listener;
    bool ended; /* the evaluation of now was ended by a listener */
} dpti_trainer_evaluation;

#endif
