/* A checksum of the weights that a trainer has. */
#ifndef DPTI_WEIGHTS_H
#define DPTI_WEIGHTS_H

#include "checkpoint/tensors.h"

/* Computes the SHA-256 of the bytes that dpt_trainer_save would write behind the header: weights,
   running statistics and counters of batches.  No step may be in flight.  Errors: as of
   dpt_trainer_save, without those of files. */
DPT_CHECK_RESULT dpt_status dpti_weights_sha256(dpt_trainer *trainer, char out[DPTI_SHA256_TEXT]);

#endif
