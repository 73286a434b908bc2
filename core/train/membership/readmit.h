/* Lost devices that may come back: tried again with growing pauses, opened anew, and taken in with
   the weights of the others.

   Everything that may take long or hang happens on the lost device's own driver while training goes
   on: what it held is released, it is closed, opened and tried.  All that are lost with one fault
   domain are closed before one of them is opened.  Only then, with nothing in flight, its worker is
   made on the caller's thread, as at the beginning, and gets what lasts. */
#ifndef DPTI_READMIT_H
#define DPTI_READMIT_H

#include "train/feeding/data_store.h"

typedef struct dpt_trainer dpt_trainer;

typedef enum dpti_readmission_phase {
    DPTI_READMISSION_NOT, /* in service, or lost and not to be tried */
    DPTI_READMISSION_WAITING,
    DPTI_READMISSION_RELEASING,
    DPTI_READMISSION_OPENING,
    DPTI_READMISSION_READY, /* to be taken in */
} dpti_readmission_phase;

enum { DPTI_READMISSION_COPIES = 3 }; /* of training data, and of tests */

/* A worker's absence. */
typedef struct dpti_readmission {
    dpti_readmission_phase state;
    double since;    /* when it was lost */
    double wait;     /* seconds between the last failure and the next try; 0: it has not failed */
    double due;      /* when that is */
    uint64_t ticket; /* of the job under way */
    bool released;   /* what it held is */
    bool closes;     /* [job] it is to be closed and opened anew */
    dpti_data_copy copies[DPTI_READMISSION_COPIES]; /* [job] to be freed */
    dpt_status status;                              /* [job] of the try */
} dpti_readmission;

/* Pauses double up to so many of the first. */
enum { DPTI_READMIT_MOST = 64 };

/* A device is lost: its first try, or the next after one more failure, is set. */
void dpti_readmit_begin(dpt_trainer *trainer, size_t rank);
/* At any time: starts what is due and looks at what is under way; does not wait. */
void dpti_readmit_poll(dpt_trainer *trainer);
/* Whether a device is to be taken in as soon as nothing is in flight. */
bool dpti_readmit_waits(const dpt_trainer *trainer);
/* Whether a device is being released or opened. */
bool dpti_readmit_tries(const dpt_trainer *trainer);
/* Nothing in flight: takes in those that are ready.  One that fails is lost again and no failure of
   the call; DPT_E_NO_MEMORY of the host, or the loss of the last device, is. */
DPT_CHECK_RESULT dpt_status dpti_readmit_admit(dpt_trainer *trainer);
/* Waits for tries under way: the trainer ends. */
void dpti_readmit_end(dpt_trainer *trainer);

#endif
