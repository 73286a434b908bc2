/* Readmission.  A lost device is tried again with growing pauses, opened anew, and given the
   training state.

   Everything that may take long or hang happens on the lost device's own driver thread while
   training goes on: what the device held is released, and the device is closed, opened and tried.
   All devices that are lost with one fault domain are closed before one of them is opened.  Then,
   with nothing in flight, the device's worker is made on the caller's thread as at the beginning,
   and gets the training state. */
#ifndef DPTI_READMIT_H
#define DPTI_READMIT_H

#include "dptrain.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dpti_worker dpti_worker;

/* Pauses double up to so many times the first. */
enum { DPTI_READMIT_MOST = 64 };

/* Lost devices are tried again this many seconds after the loss; 0: never. */
void dpti_readmit_after(dpt_trainer *trainer, double seconds);
/* A device is lost: sets when it is tried. */
void dpti_readmit_begin(dpt_trainer *trainer, size_t rank);
/* At any time: starts tries that are due and looks at those under way; does not wait. */
void dpti_readmit_poll(dpt_trainer *trainer);
/* Whether a device is to be readmitted as soon as nothing is in flight. */
bool dpti_readmit_waits(const dpt_trainer *trainer);
/* Whether a device is being released or opened. */
bool dpti_readmit_tries(const dpt_trainer *trainer);
/* A try has failed: sets when the next is due. */
void dpti_readmit_postpone(dpti_worker *worker);
/* A device is readmitted, and takes part in steps from this one on, from 1. */
void dpti_readmit_note_admitted(dpti_worker *worker, size_t step);
/* Whether a step, from 1, is the first of a device that was readmitted. */
bool dpti_readmit_returned_at(const dpt_trainer *trainer, size_t step);
/* Waits for tries under way: the trainer ends. */
void dpti_readmit_end(dpt_trainer *trainer);

#endif
