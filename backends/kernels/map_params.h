/* Parameters of map.cl and map_reduce.cl, and the numbers of instructions. */
#ifndef DPT_KERNELS_MAP_PARAMS_H
#define DPT_KERNELS_MAP_PARAMS_H

#include "dialect.h"

/* dpt_map_code (core/backend/map_list.h). */
#define MAP_LOAD       0u
#define MAP_CONSTANT   1u
#define MAP_ADD        2u
#define MAP_SUBTRACT   3u
#define MAP_MULTIPLY   4u
#define MAP_DIVIDE     5u
#define MAP_MINIMUM    6u
#define MAP_MAXIMUM    7u
#define MAP_POWER      8u
#define MAP_NEGATE     9u
#define MAP_ABSOLUTE   10u
#define MAP_SIGN       11u
#define MAP_FLOOR      12u
#define MAP_CEILING    13u
#define MAP_ROUND      14u
#define MAP_RECIPROCAL 15u
#define MAP_SQRT       16u
#define MAP_EXP        17u
#define MAP_LOG        18u
#define MAP_SINE       19u
#define MAP_COSINE     20u
#define MAP_TANH       21u
#define MAP_ERF        22u
#define MAP_SIGMOID    23u
#define MAP_SOFTPLUS   24u
#define MAP_LESS       25u
#define MAP_LESS_EQUAL 26u
#define MAP_EQUAL      27u
#define MAP_AND        28u
#define MAP_OR         29u
#define MAP_NOT        30u
#define MAP_SELECT     31u

/* dpt_map_reduction. */
#define REDUCE_SUM     0u
#define REDUCE_PRODUCT 1u
#define REDUCE_MAXIMUM 2u
#define REDUCE_MINIMUM 3u

/* dpt_dtype. */
#define MAP_F32      0u
#define MAP_U8       1u
#define MAP_I32      2u
#define MAP_BF16     4u

#define MAP_AXES     9
#define MAP_INPUTS   6
#define MAP_OPERANDS 9
#define MAP_STEPS    32

/* An instruction in one word: code, place of the value, places of the operands. */
#define MAP_STEP(code, to, a, b, c)                                                                \
    ((u32)(code) | (u32)(to) << 8 | (u32)(a) << 13 | (u32)(b) << 18 | (u32)(c) << 23)
#define MAP_CODE(step) ((step)&255u)
#define MAP_TO(step)   ((step) >> 8 & 31u)
#define MAP_A(step)    ((step) >> 13 & 31u)
#define MAP_B(step)    ((step) >> 18 & 31u)
#define MAP_C(step)    ((step) >> 23 & 31u)

/* A dpt_map_plan.  The operands are MAP_INPUTS inputs, then the outputs; those that there are none
   of are unused. */
typedef struct map_params {
    u64 count;  /* indices of all samples; MAP_REDUCE: of the reduced axes */
    u32 n_rows; /* the extent of axis 0, for all samples */
    u32 rank, n_outputs, n_steps;
    u32 accumulate;
    u32 extent[MAP_AXES];
    i32 stride[MAP_OPERANDS][MAP_AXES];
    u32 offset[MAP_OPERANDS];
    u32 type[MAP_OPERANDS];
    u32 step[MAP_STEPS];
    float number[MAP_STEPS]; /* of the step of the same index */
    u32 result[3];           /* the place of each output's value */
    /* MAP_REDUCE */
    u32 how;      /* the reduction */
    u32 kept;     /* bit i: the output has axis i */
    u32 n_kept;   /* outputs, for all samples */
    u32 n_pieces; /* the reduced indices are divided into so many pieces of piece_length */
    u32 piece_length;
    u32 n_tiles; /* tiles of outputs */
} map_params;

#endif
