/* An array: float32 on one device. */
#ifndef DPTI_ARRAY_H
#define DPTI_ARRAY_H

#include "device/buffer.h"
#include "device/device.h"
#include "device/operator.h"

/* An element-wise operator, prepared for the size of the array that it writes. */
typedef struct dpti_array_op {
    dpti_op op; /* zeroed: not prepared yet */
    dpti_buffer workspace;
} dpti_array_op;

struct dpt_array {
    dpti_device *device;
    size_t shape[4], rank;
    size_t size;        /* elements; buffer holds 4 bytes for each */
    dpti_buffer buffer; /* [driver] */
    /* [driver] The deferred failure that made the contents invalid; status DPT_OK: they are valid.
       Arrays that are computed from this array get the same failure.  Every wait and get returns
       it. It ends when the array is set, by the caller or by a collective that writes it. */
    dpt_error error;
    dpti_array_op multiply, add, affine; /* [driver] operators that write this array */
    bool stays; /* a call that may never return may read it, so it is never released */
};

/* [driver] Records that work on an array failed: copies *error into the array and, if it is the
   device's first failure, into the device. */
void dpti_array_fail(dpt_array *array, const dpt_error *error);

/* Copies *error into the context, with the name of the array's device, and returns its status. */
dpt_status dpti_array_report(const dpt_array *array, const dpt_error *error);

#endif
