/* Small functions over the structs of abi.h and operators.h that core and backends share.

   A backend includes backend.h, which includes this header. */
#ifndef DPT_BACKEND_HELPERS_H
#define DPT_BACKEND_HELPERS_H

#include "backend/operators.h"

#include <string.h>

/* ---- Parameters ------------------------------------------------------------------------------ */

/* Returns the parameter of this key, or NULL if the entry has none.  Cannot fail. */
static inline const dpt_param *dpt_param_find(const dpt_device_request *request, const char *key)
{
    for (size_t i = 0; i < request->n_params; i++)
        if (strcmp(request->params[i].key, key) == 0) return &request->params[i];
    return NULL;
}

/* ---- Operators ------------------------------------------------------------------------------- */

/* What DPT_OP_LIST says of a kind besides its slots. */
typedef struct dpt_op_traits {
    const char *name; /* "CONV2D_FORWARD" */
    dpt_op_family family;
    unsigned in_place; /* the first so many inputs may be the same tensor as the first output */
    uint32_t marks;    /* DPT_MARK_ values */
} dpt_op_traits;

/* Returns the traits of a kind.  A kind that is not in DPT_OP_LIST has the name "unknown operator"
   and the family DPT_FAMILY_COUNT.  Cannot fail. */
static inline dpt_op_traits dpt_op_traits_of(dpt_op_kind kind)
{
    static const dpt_op_traits traits[DPT_OP_COUNT] = {
#define DPT_TRAITS(KIND, name, FAMILY, in_place, marks, slots)                                     \
    [DPT_OP_##KIND] = {#KIND, DPT_FAMILY_##FAMILY, in_place, marks},
        DPT_OP_LIST(DPT_TRAITS)
#undef DPT_TRAITS
    };
    const dpt_op_traits unknown = {"unknown operator", DPT_FAMILY_COUNT, 0, DPT_MARK_NONE};
    return (unsigned)kind < DPT_OP_COUNT ? traits[kind] : unknown;
}

/* Returns the name of a kind for messages, as in DPT_OP_LIST.  Cannot fail. */
static inline const char *dpt_op_name(dpt_op_kind kind)
{
    return dpt_op_traits_of(kind).name;
}

/* Returns the family of a kind, or DPT_FAMILY_COUNT.  Cannot fail. */
static inline dpt_op_family dpt_op_family_of(dpt_op_kind kind)
{
    return dpt_op_traits_of(kind).family;
}

/* Returns the number of values that an instruction of a MAP reads.  `code` is below DPT_MAP_COUNT.
   Cannot fail. */
static inline unsigned dpt_map_operands(unsigned code)
{
    static const unsigned char n_operands[DPT_MAP_COUNT] = {
#define DPT_MAP_OPERANDS_OF(name, n, rounds, value) [DPT_MAP_##name] = n,
        DPT_MAP_LIST(DPT_MAP_OPERANDS_OF)
#undef DPT_MAP_OPERANDS_OF
    };
    return n_operands[code];
}

/* ---- Activations ----------------------------------------------------------------------------- */

/* Returns the name of an activation as in DPT_ACTIVATION_LIST.
   Returns NULL if the list has no such kind. */
static inline const char *dpt_activation_name(dpt_activation kind)
{
    switch (kind) {
#define DPT_ACTIVATION_NAME(name, value, derivative, formula)                                      \
    case DPT_ACT_##name: return #name;
        DPT_ACTIVATION_LIST(DPT_ACTIVATION_NAME)
#undef DPT_ACTIVATION_NAME
    }
    return NULL;
}

/* Returns whether the derivative of an activation is a function of its output.  Another operator
   can then apply the activation and its derivative.  Cannot fail. */
static inline bool dpt_activation_fuses(dpt_activation kind)
{
    enum { DPT_DERIVATIVE_INPUT, DPT_DERIVATIVE_OUTPUT };
    switch (kind) {
#define DPT_ACTIVATION_FUSES(name, value, derivative, formula)                                     \
    case DPT_ACT_##name: return DPT_DERIVATIVE_##derivative == DPT_DERIVATIVE_OUTPUT;
        DPT_ACTIVATION_LIST(DPT_ACTIVATION_FUSES)
#undef DPT_ACTIVATION_FUSES
    }
    return false;
}

/* ---- Descriptions ---------------------------------------------------------------------------- */

/* Returns whether GATHER changes the colours of images.  Cannot fail. */
static inline bool dpt_jitters(const dpt_augment *augment)
{
    return augment->brightness != 0.0f || augment->contrast != 0.0f ||
           augment->saturation != 0.0f || augment->hue != 0.0f;
}

/* Returns whether GATHER changes images.  GATHER then has a third input.  Cannot fail. */
static inline bool dpt_augments(const dpt_augment *augment)
{
    return augment->pad > 0 || augment->flip || augment->erase != 0.0f || augment->rotate != 0.0f ||
           augment->ops > 0 || dpt_jitters(augment);
}

/* Returns the number of rows of dw that LINEAR_BACKWARD_WEIGHTS computes.  Cannot fail. */
static inline size_t dpt_linear_rows(const dpt_linear_desc *desc)
{
    return desc->rows > 0 ? desc->rows : desc->out;
}

/* Returns the number of gates of a recurrent cell: the blocks of x and of the bias.  Cannot fail.
 */
static inline size_t dpt_recurrent_gates(dpt_recurrent_cell cell)
{
    return cell == DPT_CELL_RNN ? 1 : cell == DPT_CELL_LSTM ? 4 : 3;
}

/* Returns the number of gates whose rows w has.  Cannot fail. */
static inline size_t dpt_recurrent_rows(dpt_recurrent_cell cell)
{
    return cell == DPT_CELL_GRU_BEFORE ? 2 : dpt_recurrent_gates(cell);
}

/* Returns the number of values that a cell saves for BACKWARD in `gates`, for each element of the
   state.  Cannot fail. */
static inline size_t dpt_recurrent_saved(dpt_recurrent_cell cell)
{
    return cell == DPT_CELL_RNN ? 0 : cell == DPT_CELL_GRU_BEFORE ? 3 : 4;
}

#endif
