/* Prepared operators: prepared once, bound to their tensors once, run in every step. */
#ifndef DPTI_OPERATOR_H
#define DPTI_OPERATOR_H

#include "device/buffer.h"
#include "device/device.h"
#include "device/signature.h"

/* A prepared operator. */
typedef struct dpti_op {
    dpti_device *device;
    dpt_op *handle;
    dpt_op_desc desc;
    dpti_signature signature;
    dpt_op_info info;
    size_t max_samples;
} dpti_op;

/* [driver] */
DPT_CHECK_RESULT dpt_status dpti_prepare(dpti_device *device, const dpt_op_desc *desc,
                                         size_t max_samples, dpti_op *out);
/* [driver] The same with an algorithm to take (dpt_op_request).  DPT_E_UNSUPPORTED if the device
   does it otherwise only, whatever the backend says. */
DPT_CHECK_RESULT dpt_status dpti_prepare_as(dpti_device *device, const dpt_op_request *request,
                                            dpti_op *out);
void dpti_release(dpti_op *op); /* [driver] accepts a zeroed one; zeroes it */

/* A tensor's place, for binding. */
typedef struct dpti_place {
    const dpti_buffer *buffer; /* NULL: slot not used */
    size_t offset_bytes;
} dpti_place;

typedef struct dpti_binding {
    dpti_place in[DPT_MAX_INPUTS];
    dpti_place out[DPT_MAX_OUTPUTS];
    dpti_place workspace, step;
    dpti_place halt; /* or {NULL, 0} */
    uint32_t flags;
} dpti_binding;

/* Checks once that every slot that the signature names is bound, aligned, and large enough for
   n_samples, and makes the arguments of run from it.  DPT_E_INTERNAL names the slot, in the
   device's record: so from the driver, or while the device is idle. */
DPT_CHECK_RESULT dpt_status dpti_bind(const dpti_op *op, size_t n_samples,
                                      const dpti_binding *binding, dpt_op_args *out);
/* [driver] Enqueues on the main stream; n_samples at most what was bound. */
DPT_CHECK_RESULT dpt_status dpti_run(const dpti_op *op, size_t n_samples, const dpt_op_args *args);

#endif
