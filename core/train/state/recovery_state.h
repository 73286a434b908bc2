/* The fields of recovery: when lost devices are tried again, and how far a try is.

   Only files of core/train/recovery touch these fields.  Other concerns call the functions that
   readmit.h declares. */
#ifndef DPTI_RECOVERY_STATE_H
#define DPTI_RECOVERY_STATE_H

#include "train/components/data_store.h"

typedef struct dpti_trainer_recovery {
    double readmit_after; /* seconds before a lost device is tried again; 0: never */
    size_t returned_step; /* the first step, from 1, of the device that was readmitted last */
} dpti_trainer_recovery;

typedef enum dpti_readmission_phase {
    DPTI_READMISSION_NOT, /* in service, or lost and not to be tried */
    DPTI_READMISSION_WAITING,
    DPTI_READMISSION_RELEASING,
    DPTI_READMISSION_OPENING,
    DPTI_READMISSION_READY, /* to be readmitted as soon as nothing is in flight */
} dpti_readmission_phase;

/* Copies of training data, and of DPTI_TESTS data sets of evaluation. */
enum { DPTI_READMISSION_COPIES = 4 };

/* A worker's absence (readmit.c). */
typedef struct dpti_readmission {
    dpti_readmission_phase state;
    double since;    /* when it was lost */
    double wait;     /* seconds between the last failure and the next try; 0: it has not failed */
    double due;      /* when the next try is due */
    uint64_t ticket; /* of the job under way */
    bool released;   /* what the worker held is released */
    bool closes;     /* [job] the device is to be closed and opened anew */
    dpti_data_copy copies[DPTI_READMISSION_COPIES]; /* [job] to be freed */
    dpt_status status;                              /* [job] of the try */
} dpti_readmission;

typedef struct dpti_worker_recovery {
    dpti_readmission readmission; /* while the device is lost, and how it has failed before */
} dpti_worker_recovery;

#endif
