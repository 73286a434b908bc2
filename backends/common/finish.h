/* What follows a product that a library has computed: bias, activation, mask. */
#ifndef DPT_COMMON_FINISH_H
#define DPT_COMMON_FINISH_H

#include "launch.h"

/* y = activation([y +] product + bias) * slope of mask_activation where its output is `mask`; what
   is stored as bfloat16 is rounded once. */
typedef struct dpt_finish_args {
    size_t rows, columns;         /* columns from 1, below 2^31 */
    dpt_dtype type, product_type; /* as what the kernel was prepared for */
    dpt_location product;         /* (rows, columns) */
    dpt_location y;               /* (rows, columns); may be product where both are of one type */
    bool accumulate;              /* y is added to */
    dpt_location bias;            /* (columns), or {NULL, 0} */
    dpt_activation activation;
    dpt_location mask; /* as y; used unless mask_activation is NONE */
    dpt_activation mask_activation;
} dpt_finish_args;

/* type: of y and mask; product_type: DPT_F32, or type. */
DPT_CHECK_RESULT dpt_status dpt_finish_prepare(dpt_device *device, dpt_dtype type,
                                               dpt_dtype product_type, dpt_kernel **out);
/* Enqueues it, or nothing where there is nothing to do. */
DPT_CHECK_RESULT dpt_status dpt_finish_run(dpt_kernel *kernel, dpt_stream *stream,
                                           const dpt_finish_args *args);

#endif
