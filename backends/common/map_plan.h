/* What every backend does with the description of a MAP before it runs: sorts and merges axes, and
   gives the values of the program few places. */
#ifndef DPT_COMMON_MAP_PLAN_H
#define DPT_COMMON_MAP_PLAN_H

#include "backend.h"

/* The axes of a plan: the samples, then those of a sample. */
enum { DPT_MAP_AXES = DPT_MAX_RANK + 1 };

/* One instruction, whose operands and value are places. */
typedef struct dpt_map_step {
    uint8_t code; /* dpt_map_code; of LOAD, `a` is the input; of CONSTANT, `constant` counts */
    uint8_t to, a, b, c;
    float constant;
} dpt_map_step;

/* A space whose axes are in the order of memory, and in which neighbouring axes are one axis
   wherever all operands allow it.  Axis 0 has the samples: its extent is n_samples * extent[0], so
   that it may have merged with the axis behind it. The operands are the inputs, then the outputs.
 */
typedef struct dpt_map_plan {
    size_t rank;                                    /* at least 1 */
    size_t extent[DPT_MAP_AXES];                    /* in axis 0: for each sample */
    int64_t stride[DPT_MAP_OPERANDS][DPT_MAP_AXES]; /* in elements */
    size_t offset[DPT_MAP_OPERANDS];
    dpt_dtype type[DPT_MAP_OPERANDS];
    unsigned n_in, n_operands;
    unsigned n_steps, n_places;
    dpt_map_step steps[DPT_MAP_LENGTH]; /* those that an output needs */
    uint8_t result[DPT_MAX_OUTPUTS];    /* the place of each output's value */
    bool is_exact; /* small integers stay exact, unless they are large numbers by then */
    double cost;   /* of one index, in about nanoseconds on one core */
} dpt_map_plan;

/* Makes the plan of a description that core has checked.  Cannot fail. */
void dpt_map_plan_make(const dpt_op_desc *desc, dpt_map_plan *out);

#endif
