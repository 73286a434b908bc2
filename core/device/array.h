/* Arrays as the rest of core sees them. */
#ifndef DPTI_ARRAY_H
#define DPTI_ARRAY_H

#include "device/buffer.h"
#include "device/device.h"
#include "device/operator.h"

/* An elementwise operator, prepared for the size of the array that it writes. */
typedef struct dpti_array_op {
    dpti_op op; /* zeroed: not yet */
    dpti_buffer workspace;
} dpti_array_op;

struct dpt_array {
    dpti_device *device;
    size_t shape[4], rank;
    size_t size;        /* elements; buffer holds 4 bytes for each */
    dpti_buffer buffer; /* [driver] */
    /* [driver] The deferred failure because of which the contents are not valid; status DPT_OK:
       they are.  It passes on to what is computed from the array, comes back from every wait and
       get, and ends when the array is set, by the caller or by a collective that writes it. */
    dpt_error error;
    dpti_array_op multiply, add, affine; /* [driver] that write this array */
    bool stays; /* a call that may never return can read it: it is never released */
};

/* [driver] Notes that work on an array failed, in the array and, if it is the first, in the device;
   a copy of *error. */
void dpti_array_fail(dpt_array *array, const dpt_error *error);

/* Makes *error the context's, with the array's device named; returns its status. */
dpt_status dpti_array_report(const dpt_array *array, const dpt_error *error);

#endif
