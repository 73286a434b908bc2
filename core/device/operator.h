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

/* [driver] Prepares an operator for at most max_samples samples.  DPT_E_UNSUPPORTED if the device
   does not have it; otherwise fails as the backend does. */
DPT_CHECK_RESULT dpt_status dpti_prepare(dpti_device *device, const dpt_op_desc *desc,
                                         size_t max_samples, dpti_op *out);
/* [driver] The same with a particular algorithm (dpt_op_request).  DPT_E_UNSUPPORTED if the device
   has only other algorithms. */
DPT_CHECK_RESULT dpt_status dpti_prepare_as(dpti_device *device, const dpt_op_request *request,
                                            dpti_op *out);
void dpti_release(dpti_op *op); /* [driver] accepts a zeroed struct; zeroes it */

/* A tensor's place, for binding. */
typedef struct dpti_place {
    const dpti_buffer *buffer; /* NULL: the slot is not used */
    size_t offset_bytes;
} dpti_place;

typedef struct dpti_binding {
    dpti_place in[DPT_MAX_INPUTS];
    dpti_place out[DPT_MAX_OUTPUTS];
    dpti_place workspace, step;
    dpti_place halt; /* {NULL, 0}: none */
    uint32_t flags;
} dpti_binding;

/* Checks that every slot of the signature is bound, aligned, and large enough for n_samples, and
   makes the arguments of `run`.  DPT_E_INTERNAL with the slot in the device's record; so the caller
   is the driver thread, or the device is idle. */
DPT_CHECK_RESULT dpt_status dpti_bind(const dpti_op *op, size_t n_samples,
                                      const dpti_binding *binding, dpt_op_args *out);
/* [driver] Enqueues the operator on the main stream, for at most as many samples as were bound.
   Fails as the backend does. */
DPT_CHECK_RESULT dpt_status dpti_run(const dpti_op *op, size_t n_samples, const dpt_op_args *args);

#endif
