/* The kernel that applies bias, activation and mask to a product that a library has computed. */
#ifndef DPT_COMMON_FINISH_H
#define DPT_COMMON_FINISH_H

#include "launch.h"

/* y = activation([y +] product + bias) * slope, where slope is the derivative of mask_activation at
   the place where its output is `mask`.  A bfloat16 result is rounded once. */
typedef struct dpt_finish_args {
    size_t rows, columns;         /* columns at least 1, below 2^31 */
    dpt_dtype type, product_type; /* the types that the kernel was prepared for */
    dpt_location product;         /* (rows, columns) */
    dpt_location y;               /* (rows, columns); may be `product` if both have one type */
    bool accumulate;              /* the result is added to y */
    dpt_location bias;            /* (columns), or {NULL, 0} */
    dpt_activation activation;
    dpt_location mask; /* laid out as y; used unless mask_activation is NONE */
    dpt_activation mask_activation;
} dpt_finish_args;

/* type: of y and mask.  product_type: DPT_F32, or the same as type.  Fails as dpt_kernel_get does.
 */
DPT_CHECK_RESULT dpt_status dpt_finish_prepare(dpt_device *device, dpt_dtype type,
                                               dpt_dtype product_type, dpt_kernel **out);
/* Enqueues the kernel, or nothing if it would change nothing. */
DPT_CHECK_RESULT dpt_status dpt_finish_run(dpt_kernel *kernel, dpt_stream *stream,
                                           const dpt_finish_args *args);

#endif
