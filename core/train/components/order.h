/* In which order the samples of a data set are taken: a pure function of seed and epoch.  The order
   of an epoch is kept in memory, except for more than DPTI_ORDER_KEPT samples: it is then computed
   batch by batch, because making it would take minutes. */
#ifndef DPTI_ORDER_H
#define DPTI_ORDER_H

#include "data/data.h"

enum { DPTI_ORDER_KEPT = 1 << 24 };

typedef struct dpti_order {
    const dpt_dataset *data;
    size_t batch_size;
    uint64_t seed;
    bool shuffle;
    uint32_t *records; /* (count), of `epoch`; or (batch_size) if there are more than are kept */
    size_t epoch;      /* 0: none made yet */
} dpti_order;

/* Where training stands: the next step takes samples from `position` of epoch `epoch` on. */
typedef struct dpti_cursor {
    size_t step;     /* steps done */
    size_t epoch;    /* from 1 */
    size_t position; /* samples of the epoch that are used up; below the count */
} dpti_cursor;

typedef struct dpti_order_options {
    size_t batch_size;
    uint64_t seed;
    bool shuffle;
} dpti_order_options;

/* Makes an order of the samples of these data.  Returns false if memory is short. */
DPT_CHECK_RESULT bool dpti_order_create(const dpt_dataset *data, const dpti_order_options *options,
                                        dpti_order *out);
void dpti_order_free(dpti_order *order);
/* The records of the batch at the cursor; valid until the next call. */
const uint32_t *dpti_order_batch(dpti_order *order, const dpti_cursor *cursor, size_t *n_samples);
/* The cursor behind that batch.  The last batch of an epoch holds the samples that are left,
   which may be fewer. */
dpti_cursor dpti_order_next(const dpti_order *order, dpti_cursor cursor);

#endif
