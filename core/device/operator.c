/* Prepared operators.  They are checked once, when they are bound to their tensors, and then run
   without further checks. */
#include "device/operator.h"
#include "device/device.h"

#include "base/size.h"
#include "device/dispatch.h"

#include <stdlib.h>
#include <string.h>

static const dpt_operator_ops *operators_of(const dpti_device *device)
{
    return device->base.backend->operators;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Returns the elements of a slot.  The signature has checked that max_samples do not overflow. */
static size_t slot_elements(const dpti_slot *slot, size_t n_samples)
{
    return slot->per_sample ? slot->per_sample * n_samples : slot->fixed;
}

static bool slots_fit(const dpti_slot *slots, size_t n_slots, size_t max_samples)
{
    for (size_t i = 0; i < n_slots; i++) {
        size_t n_bytes;
        if (!dpti_multiply(slots[i].per_sample, max_samples, &n_bytes) ||
            !dpti_multiply(n_bytes, dpt_dtype_bytes(slots[i].dtype), &n_bytes) ||
            n_bytes > PTRDIFF_MAX)
            return false;
    }
    return true;
}

static dpt_status check_samples(dpti_device *device, const dpt_op_desc *desc,
                                const dpti_signature *signature, size_t max_samples)
{
    if (max_samples == 0 || (signature->per_step && max_samples != 1))
        return DPT_FAIL(&device->base.error, DPT_E_INVALID, "%s cannot be prepared for %zu samples",
                        dpti_op_name(desc->kind), max_samples);
    if (!slots_fit(signature->in, signature->n_in, max_samples) ||
        !slots_fit(signature->out, signature->n_out, max_samples))
        return DPT_FAIL(&device->base.error, DPT_E_INVALID,
                        "%s with %zu samples is larger than any memory", dpti_op_name(desc->kind),
                        max_samples);
    return DPT_OK;
}

static dpt_status check_deterministic(dpti_device *device, const dpt_op_request *request)
{
    if (!request->deterministic || (device->info.flags & DPT_DEVICE_DETERMINISTIC) != 0)
        return DPT_OK;
    return DPT_FAIL(&device->base.error, DPT_E_UNSUPPORTED,
                    "devices of the backend %s do not compute %s with the same bits as others",
                    device->base.backend->name, dpti_op_name(request->desc->kind));
}

static dpt_status check_algorithm(const dpti_op *op, const char *wanted)
{
    const char *has = op->info.algorithm;
    if (!wanted || strcmp(wanted, has) == 0) return DPT_OK;
    return DPT_FAIL(&op->device->base.error, DPT_E_UNSUPPORTED,
                    "%s by '%s' is wanted, but this device does it by '%s' now",
                    dpti_op_name(op->desc.kind), wanted, has);
}

dpt_status dpti_prepare_as(dpti_device *device, const dpt_op_request *request, dpti_op *out)
{
    const dpt_op_desc *desc = request->desc;
    const char *kind = dpti_op_name(desc->kind);
    *out = (dpti_op){.device = NULL};
    DPT_TRY(dpti_begin_call(device));
    dpti_op op = {.device = device, .desc = *desc, .max_samples = request->max_samples};
    DPT_TRY(dpti_op_signature(desc, &op.signature, &device->base.error));
    DPT_TRY(check_samples(device, desc, &op.signature, request->max_samples));
    DPT_TRY(check_deterministic(device, request));
    DPT_TRY(DPTI_CALL(
        device, operators_of(device)->prepare(&device->base, request, &op.handle, &op.info), kind));
    if (!op.info.algorithm) op.info.algorithm = "";
    if (!op.info.measured) op.info.measured = "";
    const dpt_status status = check_algorithm(&op, request->wanted);
    if (status == DPT_OK)
        *out = op;
    else
        DPTI_RELEASE(device, operators_of(device)->release(&device->base, op.handle));
    return status;
}

dpt_status dpti_prepare(dpti_device *device, const dpt_op_desc *desc, size_t max_samples,
                        dpti_op *out)
{
    const dpt_op_request request = {.desc = desc, .max_samples = max_samples};
    return dpti_prepare_as(device, &request, out);
}

void dpti_release(dpti_op *op)
{
    dpti_device *device = op->device;
    if (!device) return;
    dpt_op *handle = op->handle;
    *op = (dpti_op){.device = NULL};
    if (!device->lost) DPTI_RELEASE(device, operators_of(device)->release(&device->base, handle));
}

/* ---- Binding --------------------------------------------------------------------------------- */

/* The slot that a place is checked against. */
typedef struct wanted_place {
    const char *name;
    size_t n_bytes;
} wanted_place;

/* Checks one place and writes its location. */
static dpt_status bind_place(const dpti_op *op, const dpti_place *place, wanted_place wanted,
                             dpt_location *out)
{
    dpt_error *error = &op->device->base.error;
    const char *name = wanted.name;
    const size_t n_bytes = wanted.n_bytes;
    const char *kind = dpti_op_name(op->desc.kind);
    const dpti_buffer *buffer = place->buffer;
    if (!buffer || !buffer->device)
        return DPT_FAIL(error, DPT_E_INTERNAL, "%s: %s is not bound", kind, name);
    if (!dpti_shards_memory(buffer->device, op->device))
        return DPT_FAIL(error, DPT_E_INTERNAL, "%s: %s lies on device %s", kind, name,
                        buffer->device->id);
    if (place->offset_bytes % op->device->info.alignment_bytes != 0)
        return DPT_FAIL(error, DPT_E_INTERNAL, "%s: %s at %zu is not aligned to %zu bytes", kind,
                        name, place->offset_bytes, op->device->info.alignment_bytes);
    if (place->offset_bytes > buffer->n_bytes || n_bytes > buffer->n_bytes - place->offset_bytes)
        return DPT_FAIL(error, DPT_E_INTERNAL,
                        "%s: %s of %zu bytes at %zu leaves the buffer of %zu", kind, name, n_bytes,
                        place->offset_bytes, buffer->n_bytes);
    *out = (dpt_location){.buffer = buffer->handle, .offset_bytes = place->offset_bytes};
    return DPT_OK;
}

typedef struct slot_row {
    const dpti_slot *slots;
    size_t n_slots, n_places;
    const dpti_place *places;
    dpt_location *out;
} slot_row;

static dpt_status bind_row(const dpti_op *op, const slot_row *row, size_t n_samples)
{
    for (size_t i = 0; i < row->n_slots; i++) {
        const dpti_slot *slot = &row->slots[i];
        const wanted_place wanted = {
            .name = slot->name,
            .n_bytes = slot_elements(slot, n_samples) * dpt_dtype_bytes(slot->dtype),
        };
        DPT_TRY(bind_place(op, &row->places[i], wanted, &row->out[i]));
    }
    for (size_t i = row->n_slots; i < row->n_places; i++)
        if (row->places[i].buffer)
            return DPT_FAIL(&op->device->base.error, DPT_E_INTERNAL,
                            "%s: slot %zu is bound, but this description has only %zu",
                            dpti_op_name(op->desc.kind), i, row->n_slots);
    return DPT_OK;
}

static dpt_status check_call(const dpti_op *op, size_t n_samples, uint32_t flags)
{
    dpt_error *error = &op->device->base.error;
    const char *kind = dpti_op_name(op->desc.kind);
    if (n_samples > op->max_samples)
        return DPT_FAIL(error, DPT_E_INTERNAL, "%s: %zu samples, prepared for %zu", kind, n_samples,
                        op->max_samples);
    const uint32_t allowed = op->signature.may_accumulate ? DPT_RUN_ACCUMULATE : 0;
    if (flags & ~allowed)
        return DPT_FAIL(error, DPT_E_INTERNAL, "%s: flags %#x are not for it", kind, flags);
    return DPT_OK;
}

static dpt_status check_grains(const dpti_op *op, size_t n_samples, size_t grain)
{
    const bool fits = grain == 0 || (n_samples + grain - 1) / grain <= DPT_MOST_GRAINS;
    if (fits && (grain == 0 || op->info.has_grains)) return DPT_OK;
    return DPT_FAIL(&op->device->base.error, DPT_E_INTERNAL,
                    "%s: grains of %zu of %zu samples are not for it", dpti_op_name(op->desc.kind),
                    grain, n_samples);
}

dpt_status dpti_bind(const dpti_op *op, size_t n_samples, const dpti_binding *binding,
                     dpt_op_args *out)
{
    if (!op->device) return DPT_E_INTERNAL;
    DPT_TRY(check_call(op, n_samples, binding->flags));
    const dpti_signature *signature = &op->signature;
    dpt_op_args args = {.flags = binding->flags};
    const slot_row in = {
        .slots = signature->in,
        .n_slots = signature->n_in,
        .n_places = DPT_MAX_INPUTS,
        .places = binding->in,
        .out = args.in,
    };
    const slot_row outs = {
        .slots = signature->out,
        .n_slots = signature->n_out,
        .n_places = DPT_MAX_OUTPUTS,
        .places = binding->out,
        .out = args.out,
    };
    const wanted_place workspace = {.name = "workspace", .n_bytes = op->info.workspace_bytes};
    const wanted_place step = {.name = "step", .n_bytes = sizeof(dpt_step_block)};
    const wanted_place halt = {.name = "halt", .n_bytes = sizeof(float)};
    DPT_TRY(bind_row(op, &in, n_samples));
    DPT_TRY(bind_row(op, &outs, n_samples));
    if (workspace.n_bytes > 0)
        DPT_TRY(bind_place(op, &binding->workspace, workspace, &args.workspace));
    if (signature->reads_step) DPT_TRY(bind_place(op, &binding->step, step, &args.step));
    if (binding->halt.buffer && !signature->may_halt)
        return DPT_FAIL(&op->device->base.error, DPT_E_INTERNAL, "%s does not halt",
                        dpti_op_name(op->desc.kind));
    if (binding->halt.buffer) DPT_TRY(bind_place(op, &binding->halt, halt, &args.halt));
    *out = args;
    return DPT_OK;
}

dpt_status dpti_run(const dpti_op *op, size_t n_samples, const dpt_op_args *args)
{
    dpti_device *device = op->device;
    if (!device) return DPT_E_INTERNAL;
    DPT_TRY(dpti_begin_call(device));
    DPT_TRY(check_call(op, n_samples, args->flags));
    DPT_TRY(check_grains(op, n_samples, args->grain));
    device->unsynced = true;
    return DPTI_CALL(device, operators_of(device)->run(device->stream, op->handle, n_samples, args),
                     dpti_op_name(op->desc.kind));
}
