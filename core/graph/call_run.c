/* Runs instructions that call functions of the program (call.h). */
#include "graph/call.h"

#include "base/size.h"
#include "device/buffer.h"
#include "device/stream.h"
#include "dpt_error.h"
#include "graph/replica.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

/* The bytes of a tensor of real numbers or of integers, for this many samples. */
static size_t tensor_bytes(const dpti_executable *x, int tensor, size_t n_samples)
{
    return tensor == DPTI_NO_TENSOR ? 0 : x->program.tensors[tensor].per_sample_bytes * n_samples;
}

static const dpti_buffer *arena_of(const dpti_executable *x)
{
    return x->arena.handle ? &x->arena : &x->replica->arena;
}

static bool has_calls(const dpti_executable *x)
{
    for (size_t i = 0; i < x->program.n_instructions; i++)
        if (x->program.instructions[i].call.kind != DPTI_CALL_NONE) return true;
    return false;
}

/* The bytes of the copies of an instruction's tensors. */
static size_t copied_bytes(const dpti_executable *x, const dpti_instruction *instruction)
{
    const size_t n = x->replica->capacity;
    size_t sum = 0;
    for (size_t s = 0; s < DPT_MAX_INPUTS; s++)
        sum += dpti_round_up(tensor_bytes(x, instruction->in[s], n), ALIGNMENT);
    for (size_t s = 0; s < DPTI_INSTRUCTION_OUTPUTS; s++)
        sum += dpti_round_up(tensor_bytes(x, instruction->out[s], n), ALIGNMENT);
    return sum;
}

dpt_status dpti_calls_create(dpti_executable *executable, const dpti_plan *plan, dpt_error *error)
{
    dpti_executable *x = executable;
    size_t n_bytes = 0;
    void *copies = NULL;
    if (!has_calls(x) || x->replica->capacity == 0) return DPT_OK;
    if (!dpti_host_pointer(arena_of(x)))
        for (size_t i = 0; i < x->program.n_instructions; i++) {
            if (x->program.instructions[i].call.kind == DPTI_CALL_NONE) continue;
            const size_t needed = copied_bytes(x, &x->program.instructions[i]);
            if (needed > n_bytes) n_bytes = needed;
        }
    const size_t n = x->program.n_tensors;
    x->calls.copies_bytes = n_bytes;
    x->calls.offsets = malloc(n * sizeof *x->calls.offsets);
    x->calls.scores = calloc(2 * x->replica->capacity, sizeof(float));
    if (!x->calls.scores || !x->calls.offsets)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for functions of the program");
    memcpy(x->calls.offsets, plan->tensor_offsets, n * sizeof *x->calls.offsets);
    if (n_bytes == 0) return DPT_OK;
    const dpt_status status = dpti_host_alloc(x->replica->device, n_bytes, &copies);
    if (status != DPT_OK) *error = x->replica->device->base.error;
    x->calls.copies = copies;
    return status;
}

void dpti_calls_destroy(dpti_executable *executable)
{
    dpti_executable *x = executable;
    uint8_t *copies = x->calls.copies;
    x->calls.copies = NULL;
    if (copies) dpti_host_free(x->replica->device, copies);
    free(x->calls.scores);
    free(x->calls.offsets);
    x->calls = (dpti_calls){.offsets = NULL};
}

/* ---- Running --------------------------------------------------------------------------------- */

/* The tensors of an instruction in host memory. */
typedef struct hosted {
    dpti_executable *x;
    const dpti_instruction *instruction;
    size_t n; /* samples */
    void *in[DPT_MAX_INPUTS], *out[DPTI_INSTRUCTION_OUTPUTS];
    char why[DPT_CALLBACK_WHY_BYTES];
} hosted;

/* Every tensor of a call is in the arena. */
static size_t offset_of(const dpti_executable *x, int tensor)
{
    return x->calls.offsets[tensor];
}

/* Finds the places of the tensors, and copies the inputs if they are not in host memory. */
static dpt_status fetch(hosted *h)
{
    const dpti_executable *x = h->x;
    uint8_t *memory = dpti_host_pointer(arena_of(x)), *next = x->calls.copies;
    const dpti_instruction *instruction = h->instruction;
    for (size_t s = 0; s < DPT_MAX_INPUTS; s++) {
        const int tensor = instruction->in[s];
        const size_t n_bytes = tensor_bytes(x, tensor, h->n);
        h->in[s] = NULL;
        if (tensor == DPTI_NO_TENSOR) continue;
        h->in[s] = memory ? memory + offset_of(x, tensor) : next;
        if (memory) continue;
        DPT_TRY(dpti_download(next, arena_of(x), offset_of(x, tensor), n_bytes));
        next += dpti_round_up(n_bytes, ALIGNMENT);
    }
    for (size_t s = 0; s < DPTI_INSTRUCTION_OUTPUTS; s++) {
        const int tensor = instruction->out[s];
        h->out[s] = NULL;
        if (tensor == DPTI_NO_TENSOR) continue;
        h->out[s] = memory ? memory + offset_of(x, tensor) : next;
        if (!memory) next += dpti_round_up(tensor_bytes(x, tensor, h->n), ALIGNMENT);
    }
    return dpti_sync(x->replica->device);
}

/* Copies the outputs to the device. */
static dpt_status deliver(const hosted *h)
{
    const dpti_executable *x = h->x;
    if (dpti_host_pointer(arena_of(x))) return DPT_OK;
    for (size_t s = 0; s < DPTI_INSTRUCTION_OUTPUTS; s++) {
        const int tensor = h->instruction->out[s];
        if (tensor == DPTI_NO_TENSOR) continue;
        DPT_TRY(dpti_upload(arena_of(x), offset_of(x, tensor), h->out[s],
                            tensor_bytes(x, tensor, h->n)));
    }
    return DPT_OK;
}

static dpt_status operate(hosted *h)
{
    const dpti_call *call = &h->instruction->call;
    const void *inputs[DPT_OPERATOR_INPUTS];
    float *gradients[DPT_OPERATOR_INPUTS];
    size_t slot = 0;
    for (size_t i = 0; i < DPT_OPERATOR_INPUTS; i++) {
        inputs[i] = i < call->n_inputs ? h->in[i] : NULL;
        gradients[i] = call->wanted[i] ? h->out[slot++] : NULL;
    }
    const bool forward = call->kind == DPTI_CALL_FORWARD;
    const dpt_operator_call given = {.size = sizeof given,
                                     .user = call->user,
                                     .n_samples = h->n,
                                     .training = call->training,
                                     .inputs = inputs,
                                     .output = forward ? h->out[0] : NULL,
                                     .output_gradient = forward ? NULL : h->in[call->n_inputs],
                                     .input_gradients = forward ? NULL : gradients,
                                     .why = h->why};
    return call->operate(&given);
}

/* Hits that are no number of labels are the function's mistake, and count as far as they can. */
static float plausible(float hits, size_t n_labels)
{
    if (!(hits > 0)) return 0;
    return hits < (float)n_labels ? hits : (float)n_labels;
}

/* The library's means are over the global batch, so the gradients are divided here. */
static dpt_status lose(hosted *h)
{
    const dpti_call *call = &h->instruction->call;
    const size_t n = h->n;
    const float scale = h->x->replica->inv_labels;
    float *result = h->out[0], *gradients = h->out[1];
    float *losses = h->x->calls.scores, *hits = losses + n;
    memset(losses, 0, 2 * n * sizeof *losses);
    const dpt_loss_call given = {.size = sizeof given,
                                 .user = call->user,
                                 .n_samples = n,
                                 .training = call->training,
                                 .outputs = h->in[0],
                                 .targets = call->targets ? h->in[1] : NULL,
                                 .labels = call->targets ? NULL : h->in[1],
                                 .losses = losses,
                                 .gradients = gradients,
                                 .hits = hits,
                                 .why = h->why};
    DPT_TRY(call->lose(&given));
    for (size_t i = 0; i < n; i++) {
        result[2 * i] = losses[i];
        result[2 * i + 1] = plausible(hits[i], call->n_labels);
    }
    for (size_t i = 0; gradients && i < n * call->count; i++)
        gradients[i] *= scale;
    return DPT_OK;
}

static dpt_status refuse(const hosted *h, dpt_status status)
{
    static const char *const names[] = {[DPTI_CALL_FORWARD] = "forward function",
                                        [DPTI_CALL_BACKWARD] = "backward function",
                                        [DPTI_CALL_LOSS] = "function"};
    char why[DPT_CALLBACK_WHY_BYTES];
    memcpy(why, h->why, sizeof why);
    why[sizeof why - 1] = '\0';
    return DPT_FAIL(
        &h->x->replica->device->base.error, DPT_E_CALLBACK,
        "layer %s: its %s failed: %s; nothing has changed, and the call may be repeated",
        h->instruction->layer, names[h->instruction->call.kind],
        why[0] ? why : dpt_status_words(status));
}

dpt_status dpti_calls_run(dpti_executable *executable, size_t i, size_t n_samples)
{
    hosted h = {
        .x = executable, .instruction = &executable->program.instructions[i], .n = n_samples};
    DPT_TRY(fetch(&h));
    const dpt_status status = h.instruction->call.kind == DPTI_CALL_LOSS ? lose(&h) : operate(&h);
    return status == DPT_OK ? deliver(&h) : refuse(&h, status);
}
