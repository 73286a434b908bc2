/* The alternatives for one operator: algorithms, and tiles of one algorithm.  The fastest one on
   this device, for this description and number of samples, is found by measurement and remembered
   (tuning.h). */
#ifndef DPT_COMMON_ALTERNATIVES_H
#define DPT_COMMON_ALTERNATIVES_H

#include "operators.h"

typedef struct dpt_alternative {
    const char *name;       /* static, without spaces: "registers-8x32"; the plan's algorithm */
    const void *parameters; /* passed to prepare, as the tile; static */
    /* The measured time is multiplied by 1 + handicap.  With 0.1, the alternative is taken only if
       it is clearly faster than the others. */
    double handicap;
    /* Fills in op->plan, as dpt_op_prepare does.  DPT_E_UNSUPPORTED: the alternative does not apply
       to this description or device.  prepare must find this out cheaply, before it compiles a
       program. */
    dpt_status (*prepare)(dpt_op *op, const void *parameters);
} dpt_alternative;

/* The size of one of the operator's tensors: bytes for each sample, or bytes in all.  Both are 0 if
   the slot is unused. */
typedef struct dpt_extent {
    size_t sample_bytes, fixed_bytes;
} dpt_extent;

typedef struct dpt_alternatives {
    const dpt_alternative *items; /* the one that is probably the fastest comes first */
    size_t n_items;
    const char *key; /* the parts of the description that times depend on, without max_samples */
    double work;     /* operations of one sample: too few are not worth a measurement */
    dpt_extent in[DPT_MAX_INPUTS], out[DPT_MAX_OUTPUTS];
} dpt_alternatives;

/* Fills in op->plan with the best alternative.  The plan's algorithm is the alternative's name.

   - If op->wanted names an alternative, that one is taken, or the call fails with
     DPT_E_UNSUPPORTED.
   - Otherwise the alternatives that suit the device are considered (dpt_tuner).  If no alternative
     suits the device, the first one that applies is taken.
   - algorithm= of the device string is the beginning of a name.  Only alternatives with such a name
     are considered.  If none of them applies, the first alternative that applies is taken without a
     measurement.
   - algorithm=any measures nothing.  It takes one of the alternatives that apply, by the
     description and the number of samples alone, so that a test of many descriptions meets all
     alternatives.
   - If a measurement would take longer than the choice can save, the first alternative that applies
     is taken.

   The measurement uses scratch tensors of small finite numbers.  It times as many samples as show
   which alternative is faster, and fewer if the device has no memory for them.
   DPT_E_UNSUPPORTED, with the message of the last alternative, if none applies. */
DPT_CHECK_RESULT dpt_status dpt_prepare_best(dpt_op *op, const dpt_alternatives *choice);

#endif
