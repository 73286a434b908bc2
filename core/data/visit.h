/* Visits the images of a data set, whether they are in memory or read on demand. */
#ifndef DPTI_VISIT_H
#define DPTI_VISIT_H

#include "data/data.h"

typedef void dpti_visitor(void *user, size_t sample, const uint8_t *image);

/* Calls `visit` with the images of samples 0, stride, 2 * stride, ..., in this order.  Images that
   are not in memory are read.  Errors: those of reading (dpti_ahead_wait); DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_dataset_visit(const dpt_dataset *data, size_t stride,
                                               dpti_visitor *visit, void *user, dpt_error *error);

#endif
