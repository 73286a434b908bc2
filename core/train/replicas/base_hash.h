/* The identity of the base of a model with adapters: files of adapters record it, and a file with
   that of another base is refused. */
#ifndef DPTI_BASE_HASH_H
#define DPTI_BASE_HASH_H

#include "dptrain.h"

typedef struct dpt_trainer dpt_trainer;

enum { DPTI_HASH_TEXT = 65 }; /* 64 hexadecimal digits and the end of the text */

/* The SHA-256 of the base in a flat buffer of a model that dpti_model_arrange has made for its
   adapters. */
void dpti_base_hash_of(const dpt_model *arranged, const float *flat, char out[DPTI_HASH_TEXT]);
/* *out: that of the trainer's base, which lives until the weights are written; NULL for a model
   without adapters.  It is computed once; nothing in flight.  Errors: as the device fails. */
DPT_CHECK_RESULT dpt_status dpti_base_hash(dpt_trainer *trainer, const char **out);
/* What dpti_base_hash has computed for the present base; "": nothing. */
const char *dpti_base_hash_known(const dpt_trainer *trainer);
/* Compares it with that which a file records, or NULL.  Errors: DPT_E_INVALID. */
DPT_CHECK_RESULT dpt_status dpti_base_check(dpt_trainer *trainer, const char *path,
                                            const char *recorded);

#endif
