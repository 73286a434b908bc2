/* The part of a deterministic backward pass that has no samples.

   Devices compute gradients for their own samples, and the gradients of grains are added up along
   one tree (base/grains.h).  Each such sum has a place of its own in the flat buffer of the
   gradients.  What is computed from complete sums must wait for them: the gradients of what
   computes a value from parameters, such as the weights of a weight-norm, and the sum of several
   gradients of one parameter, such as a tied embedding.  So, in a deterministic program,

   - an instruction without samples is deferred: it runs in a segment of its own, behind the
     exchange of gradients and before the update, on every device, also on those without samples;
   - an instruction that sums over samples never adds to a gradient.  Its sum gets a place behind
   the gradients of parameters, and a deferred instruction adds it up;
   - the gradient of a value without samples lies there, too, if the sum over samples is its first
     part;
   - what computes the values without samples that deferred instructions read is repeated in front
   of them, because devices without samples have not computed them.

   Deferred instructions keep their order. */
#include "graph/compile.h"
#include "graph/grain_sums.h"

#include "base/grow.h"
#include "base/size.h"
#include "device/signature.h"

#include <stdlib.h>

struct dpti_deferral {
    bool begun;
    dpti_instruction *items; /* in their order */
    size_t n, capacity;
    size_t n_gradients; /* elements: of parameters, and of the places behind them */
};

dpti_deferral *dpti_deferral_create(const dpt_model *model)
{
    dpti_deferral *d = calloc(1, sizeof *d);
    if (d) d->n_gradients = model->flat_gradients;
    return d;
}

void dpti_deferral_destroy(dpti_deferral *deferral)
{
    if (!deferral) return;
    free(deferral->items);
    free(deferral);
}

void dpti_deferral_begin(const dpti_compiler *c)
{
    if (c->deferral) c->deferral->begun = true;
}

/* ---- Taking instructions --------------------------------------------------------------------- */

static dpt_status append(const dpti_compiler *c, const dpti_instruction *instruction)
{
    dpti_deferral *d = c->deferral;
    dpti_instruction *items = dpti_grow(d->items, d->n, &d->capacity, sizeof *items);
    if (!items)
        return DPT_FAIL(c->error, DPT_E_NO_MEMORY, "no memory to compile model %s", c->model->name);
    d->items = items;
    d->items[d->n++] = *instruction;
    return DPT_OK;
}

/* The place of n more elements behind the gradients. */
static size_t take_place(dpti_deferral *d, size_t n)
{
    const size_t at = d->n_gradients;
    d->n_gradients += dpti_round_up(n, DPTI_PARAMETER_ALIGNMENT);
    return at;
}

/* to += from, of n elements. */
static dpti_instruction sum_of(int to, int from, size_t n)
{
    dpti_instruction add = {
        .desc = {.kind = DPT_OP_ADD, .u.elementwise = {.count = n, .alpha = 1.0f, .beta = 1.0f}},
        .per_step = true};
    for (size_t s = 0; s < DPT_MAX_INPUTS; s++)
        add.in[s] = DPTI_NO_TENSOR;
    for (size_t s = 0; s < DPTI_INSTRUCTION_OUTPUTS; s++)
        add.out[s] = DPTI_NO_TENSOR;
    add.in[0] = add.out[0] = to;
    add.in[1] = from;
    return add;
}

/* Whether output s of an instruction is a sum over samples that other devices have a part of.  A
   batch-norm exchanges its parts itself. */
static bool is_sum(const dpti_compiler *c, const dpti_instruction *instruction,
                   const dpti_signature *signature, size_t s)
{
    const dpti_program_tensor *t = &c->program->tensors[instruction->out[s]];
    if (signature->out[s].per_sample > 0 || t->row_bytes > 0) return false;
    return t->home == DPTI_HOME_GRADIENTS ||
           (t->home == DPTI_HOME_ARENA &&
            dpt_op_family_of(instruction->desc.kind) != DPT_FAMILY_BATCH_NORM);
}

/* Gives sum s a place behind the gradients.  One that adds to a gradient is added up later. */
static dpt_status place_sum(const dpti_compiler *c, dpti_instruction *instruction, size_t s,
                            size_t n)
{
    const int to = instruction->out[s];
    dpti_program_tensor *t = &c->program->tensors[to];
    if (t->discarded) return DPT_OK;
    if (!(instruction->flags & DPT_RUN_ACCUMULATE)) {
        if (t->home == DPTI_HOME_GRADIENTS) return DPT_OK;
        *t = (dpti_program_tensor){
            .home = DPTI_HOME_GRADIENTS, .offset = take_place(c->deferral, n), .first = t->first};
        return DPT_OK;
    }
    DPT_TRY(
        dpti_add_view(c, DPTI_HOME_GRADIENTS, take_place(c->deferral, n), &instruction->out[s]));
    dpti_instruction add = sum_of(to, instruction->out[s], n);
    add.layer = instruction->layer;
    return append(c, &add);
}

/* Whether all outputs of an instruction are such sums. */
static bool are_sums(const dpti_compiler *c, const dpti_instruction *instruction,
                     const dpti_signature *signature)
{
    for (size_t s = 0; s < signature->n_out; s++)
        if (!is_sum(c, instruction, signature, s)) return false;
    return true;
}

dpt_status dpti_defer(const dpti_compiler *c, dpti_instruction *instruction, bool *defers)
{
    dpti_signature signature;
    *defers = false;
    if (!c->deferral || !c->deferral->begun || instruction->call.kind != DPTI_CALL_NONE)
        return DPT_OK;
    *defers = instruction->per_step;
    if (*defers) return append(c, instruction);
    DPT_TRY(dpti_op_signature(&instruction->desc, &signature, c->error));
    /* One that also adds to something else stays, and is refused (grain_sums.h). */
    if ((instruction->flags & DPT_RUN_ACCUMULATE) && !are_sums(c, instruction, &signature))
        return DPT_OK;
    for (size_t s = 0; s < signature.n_out; s++) {
        if (!is_sum(c, instruction, &signature, s)) continue;
        if (!dpti_writes_all(&instruction->desc, &signature, s)) instruction->clears = true;
        DPT_TRY(place_sum(c, instruction, s, signature.out[s].fixed));
    }
    if (are_sums(c, instruction, &signature)) instruction->flags &= ~(uint32_t)DPT_RUN_ACCUMULATE;
    return DPT_OK;
}

/* ---- Appending them -------------------------------------------------------------------------- */

/* The tensors that are read and must be computed before. */
typedef struct needs {
    bool *tensor;      /* (n_tensors) */
    bool *instruction; /* (n) of the program so far: it is repeated */
    size_t n;
} needs;

static void need_inputs(const needs *of, const dpti_instruction *instruction)
{
    for (size_t s = 0; s < DPT_MAX_INPUTS; s++)
        if (instruction->in[s] != DPTI_NO_TENSOR) of->tensor[instruction->in[s]] = true;
}

/* Finds the instructions without samples whose results deferred ones read, directly or not. */
static void find_repeated(const dpti_compiler *c, const needs *of)
{
    const dpti_program *p = c->program;
    for (size_t i = 0; i < c->deferral->n; i++)
        need_inputs(of, &c->deferral->items[i]);
    for (size_t i = of->n; i-- > 0;) {
        const dpti_instruction *instruction = &p->instructions[i];
        if (!instruction->per_step) continue;
        for (size_t s = 0; s < DPTI_INSTRUCTION_OUTPUTS; s++)
            if (instruction->out[s] != DPTI_NO_TENSOR && of->tensor[instruction->out[s]] &&
                p->tensors[instruction->out[s]].home == DPTI_HOME_ARENA)
                of->instruction[i] = true;
        if (of->instruction[i]) need_inputs(of, instruction);
    }
}

static dpt_status emit_again(const dpti_compiler *c, const dpti_instruction *instruction)
{
    return dpti_emit(c, *instruction, (dpti_tensor_ids){instruction->in, DPT_MAX_INPUTS},
                     (dpti_tensor_ids){instruction->out, DPTI_INSTRUCTION_OUTPUTS});
}

static dpt_status emit_all(const dpti_compiler *c, const needs *of)
{
    for (size_t i = 0; i < of->n; i++) {
        const dpti_instruction again = c->program->instructions[i]; /* the array may move */
        if (of->instruction[i]) DPT_TRY(emit_again(c, &again));
    }
    for (size_t i = 0; i < c->deferral->n; i++)
        DPT_TRY(emit_again(c, &c->deferral->items[i]));
    return dpti_end_segment(c, (dpti_segment){.commits = true});
}

dpt_status dpti_emit_deferred(const dpti_compiler *c)
{
    dpti_deferral *d = c->deferral;
    dpti_program *p = c->program;
    p->n_gradients = d ? d->n_gradients : c->model->flat_gradients;
    if (d) d->begun = false;
    if (!d || d->n == 0) return DPT_OK;
    const needs of = {.tensor = calloc(p->n_tensors, sizeof *of.tensor),
                      .instruction = calloc(p->n_instructions + 1, sizeof *of.instruction),
                      .n = p->n_instructions};
    dpt_status status =
        of.tensor && of.instruction
            ? DPT_OK
            : DPT_FAIL(c->error, DPT_E_NO_MEMORY, "no memory to compile model %s", c->model->name);
    if (status == DPT_OK) {
        find_repeated(c, &of);
        status = emit_all(c, &of);
    }
    free(of.tensor);
    free(of.instruction);
    return status;
}
