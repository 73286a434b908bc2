/* Sums over the rows of a matrix, in an order that depends on the device and the matrix alone.
   Operators compute the gradients of biases with it. */
#ifndef DPT_COMMON_COLUMN_SUMS_H
#define DPT_COMMON_COLUMN_SUMS_H

#include "operators.h"

typedef struct dpt_column_sums {
    dpt_kernel *kernel; /* sums pieces of x */
    dpt_kernel *merge;  /* adds up the sums of the pieces, which are float32 */
    dpt_dtype type;     /* of x */
    unsigned lanes;
} dpt_column_sums;

typedef struct dpt_column_sums_args {
    size_t rows, columns; /* columns below 2^32 */
    dpt_location x;       /* (rows, columns) */
    size_t row;           /* elements from one row of x to the next, below 2^32 */
    dpt_location y;       /* (columns), float32 */
    bool accumulate;      /* the sums are added to y */
    dpt_location workspace;
} dpt_column_sums_args;

/* type: of x.  Fails as dpt_kernel_get does. */
DPT_CHECK_RESULT dpt_status dpt_column_sums_prepare(dpt_device *device, dpt_dtype type,
                                                    dpt_column_sums *out);
/* Bytes of workspace for up to this many rows. */
size_t dpt_column_sums_workspace(const dpt_device *device, size_t rows, size_t columns);
DPT_CHECK_RESULT dpt_status dpt_column_sums_run(const dpt_column_sums *sums, dpt_stream *stream,
                                                const dpt_column_sums_args *args);

#endif
