/* Visits the images of a data set, whether they are in memory or read on demand. */
#ifndef DPTI_VISIT_H
#define DPTI_VISIT_H

#include "data/data.h"

typedef void dpti_visitor(void *user, size_t sample, const uint8_t *image);

/* Which samples are visited, and the function that is called for each of them. */
typedef struct dpti_visit {
    size_t stride; /* samples 0, stride, 2 * stride, ... */
    dpti_visitor *visit;
    void *user; /* for `visit` */
} dpti_visit;

/* Calls how->visit with the images of the samples in their order.  Images that
   are not in memory are read.  Errors: those of reading (dpti_ahead_wait); DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_dataset_visit(const dpt_dataset *data, const dpti_visit *how,
                                               dpt_error *error);

#endif
