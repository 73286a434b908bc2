/* What every program must hold that a model was compiled into: operators that the dispatch takes,
   tensors as large as their slots, inputs that were written, and a plan of the memory. */
#ifndef DPT_FUZZ_PROGRAM_H
#define DPT_FUZZ_PROGRAM_H

#include "device/signature.h"
#include "fuzz.h"
#include "graph/program.h"

#include <stdlib.h>

static inline bool fuzz_is_arena(const dpti_program *p, int tensor)
{
    return tensor != DPTI_NO_TENSOR && p->tensors[tensor].home == DPTI_HOME_ARENA;
}

static inline void fuzz_check_slot(const dpti_program *p, const dpti_instruction *ins, int tensor,
                                   const dpti_slot *slot)
{
    const size_t bytes = dpt_dtype_bytes(slot->dtype), rows = ins->repeat ? ins->repeat : 1;
    require(tensor != DPTI_NO_TENSOR && (size_t)tensor < p->n_tensors);
    if (!fuzz_is_arena(p, tensor)) return;
    /* What has no samples runs once, as one sample. */
    const size_t each = ins->per_step ? 0 : slot->per_sample * rows;
    const size_t all = slot->fixed + (ins->per_step ? slot->per_sample * rows : 0);
    require(p->tensors[tensor].per_sample_bytes == each * bytes);
    require(p->tensors[tensor].fixed_bytes == all * bytes);
}

/* Parts are gathered behind the last instruction of a segment. */
static inline void fuzz_gather(const dpti_program *p, size_t behind, bool *written)
{
    for (size_t s = 0; s < p->n_segments; s++)
        for (size_t i = 0; p->segments[s].last == behind && i < p->segments[s].n_parts; i++)
            if (p->segments[s].exchange == DPTI_EXCHANGE_TAKE)
                written[p->segments[s].parts[i].parts] = true;
}

static inline void fuzz_check_instructions(const dpti_program *p)
{
    bool *written = calloc(p->n_tensors, sizeof *written);
    for (size_t i = 0; written && i < p->n_instructions; i++) {
        const dpti_instruction *ins = &p->instructions[i];
        dpti_signature signature;
        fuzz_gather(p, i, written);
        require(dpti_op_signature(&ins->desc, &signature, NULL) == DPT_OK);
        for (size_t s = 0; s < signature.n_in; s++) {
            fuzz_check_slot(p, ins, ins->in[s], &signature.in[s]);
            require(!fuzz_is_arena(p, ins->in[s]) || written[ins->in[s]]);
        }
        for (size_t s = 0; s < signature.n_out; s++) {
            fuzz_check_slot(p, ins, ins->out[s], &signature.out[s]);
            if ((ins->flags & DPT_RUN_ACCUMULATE) && signature.out[s].accumulates)
                require(!fuzz_is_arena(p, ins->out[s]) || written[ins->out[s]]);
            written[ins->out[s]] = true;
        }
    }
    free(written);
}

/* Compiles for one purpose, and plans the memory of three samples. */
static inline void fuzz_compile(const dpt_model *model, const dpti_program_options *options)
{
    enum { SAMPLES = 3 };
    dpt_error error = {.status = DPT_OK};
    dpti_program program = {0};
    dpti_plan plan = {0};
    if (dpti_compile(model, options, &program, &error) != DPT_OK) {
        require(error.status == DPT_E_NO_MEMORY);
        return;
    }
    fuzz_check_instructions(&program);
    size_t *workspace = calloc(program.n_instructions, sizeof *workspace);
    const dpti_plan_request request = {&program, SAMPLES, workspace};
    const dpt_status status =
        workspace ? dpti_plan_memory(&request, &plan, &error) : DPT_E_NO_MEMORY;
    require(status == DPT_OK || status == DPT_E_NO_MEMORY);
    for (size_t i = 0; status == DPT_OK && i < program.n_tensors; i++)
        if (program.tensors[i].home == DPTI_HOME_ARENA)
            require(plan.tensor_offsets[i] + SAMPLES * program.tensors[i].per_sample_bytes +
                        program.tensors[i].fixed_bytes <=
                    plan.arena_bytes);
    free(workspace);
    dpti_plan_free(&plan);
    dpti_program_free(&program);
}

/* A model is compiled for prediction, and for training on one device and on three, on records of
   its own size. */
static inline void fuzz_compile_all(const dpt_model *model)
{
    const dpt_dataset data = {.count = 4,
                              .n_records = 4,
                              .height = 1,
                              .width = 1,
                              .channels = model->nodes[model->input].elements,
                              .classes = dpt_model_outputs(model),
                              .dtype = DPT_F32,
                              .stat_channels = 1,
                              .scale = {1}};
    dpti_program_options options = {.data = &data, .purpose = DPTI_PURPOSE_PREDICT};
    fuzz_compile(model, &options);
    options.purpose = DPTI_PURPOSE_TRAIN;
    options.optimizer.momentum = 0.9f;
    fuzz_compile(model, &options);
    options.n_parts = 3;
    options.holds_filters = true;
    options.accumulate = true;
    options.type = DPT_BF16;
    fuzz_compile(model, &options);
}

#endif
