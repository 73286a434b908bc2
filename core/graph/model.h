/* A network as it was built: nodes in topological order, parameters, shapes per sample.  Uses no
   device and has no batch dimension. */
#ifndef DPTI_MODEL_H
#define DPTI_MODEL_H

#include "backend.h"
#include "dptrain.h"

enum { DPTI_NODE_INPUTS = 2 };

/* What stands before a parameter's name in a checkpoint that has more of it than its value
   (checkpoint/tensors.h).  No layer's name begins so. */
#define DPTI_VELOCITY_PREFIX "optimizer.velocity."
#define DPTI_SQUARES_PREFIX  "optimizer.squares."
#define DPTI_RESIDUAL_PREFIX "owed."

typedef enum dpti_node_kind {
    DPTI_NODE_INPUT,
    DPTI_NODE_CONV2D,
    DPTI_NODE_LINEAR,
    DPTI_NODE_POOL2D,
    DPTI_NODE_ACTIVATE,
    DPTI_NODE_ADD,
    DPTI_NODE_FLATTEN,
    DPTI_NODE_BATCH_NORM,
    DPTI_NODE_LAYER_NORM,
    DPTI_NODE_DROPOUT,
} dpti_node_kind;

/* A value's extents for one sample; a flat one is (1, 1, n). */
typedef struct dpti_extent {
    size_t h, w, c;
    bool flat;
} dpti_extent;

/* How a parameter's internal layout, in the flat buffer, relates to the layout of a checkpoint. */
typedef enum dpti_layout {
    DPTI_LAYOUT_PLAIN,  /* the same */
    DPTI_LAYOUT_CONV,   /* OHWI inside, OIHW outside */
    DPTI_LAYOUT_LINEAR, /* (rows, h*w*c) inside, (rows, c*h*w) outside: a layer behind flatten */
} dpti_layout;

/* What a parameter is for: its first values, its place in the flat buffer. */
typedef enum dpti_role {
    DPTI_ROLE_WEIGHT,
    DPTI_ROLE_BIAS,
    DPTI_ROLE_NORM_WEIGHT,
    DPTI_ROLE_NORM_BIAS,
    DPTI_ROLE_RUNNING_MEAN, /* statistics: not trained, but averaged */
    DPTI_ROLE_RUNNING_VARIANCE,
} dpti_role;

static inline bool dpti_is_statistic(dpti_role role)
{
    return role == DPTI_ROLE_RUNNING_MEAN || role == DPTI_ROLE_RUNNING_VARIANCE;
}

typedef struct dpti_parameter {
    char *name;
    size_t shape[4]; /* of the checkpoint */
    size_t rank;
    size_t size;   /* elements */
    size_t offset; /* in elements, from the start of the flat buffer; a multiple of 64 */
    size_t fan_in, fan_out;
    dpti_role role;
    float momentum; /* of a running statistic */
    dpti_layout layout;
    size_t h, w,
        c; /* LINEAR: the extent before flatten; CONV: kernel h, w and channels per group */
} dpti_parameter;

typedef struct dpti_node {
    dpti_node_kind kind;
    char *name; /* of the layer, or a generated one */
    dpti_extent extent;
    size_t elements;                 /* of the output, a sample */
    size_t inputs[DPTI_NODE_INPUTS]; /* indices of nodes */
    size_t n_inputs;
    size_t weight, bias;   /* indices of parameters, SIZE_MAX if there is none */
    size_t mean, variance; /* BATCH_NORM: likewise, of its running statistics */
    dpt_op_desc
        forward; /* for kinds that compute; masks and fused activations are the compiler's */
    dpti_extent before_flatten; /* FLATTEN and what passes it on: the extent in memory */
} dpti_node;

enum { DPTI_PARAMETER_ALIGNMENT = 64 }; /* elements */

struct dpt_model {
    dpt_context *context;
    char *name;
    dpti_node *nodes;
    size_t n_nodes, nodes_capacity;
    dpti_parameter *parameters; /* in the order of the layers: a checkpoint's order */
    size_t n_parameters, parameters_capacity;
    size_t input, logits; /* nodes, SIZE_MAX until known */
    /* The flat buffer: weights, then biases and the parameters of norms, then running statistics,
       each in the order of the layers and padded to 64 elements, with zeros that stay zeros.  In a
       gradient buffer the place of a running statistic holds that of the batch. */
    size_t flat_size, flat_weights, flat_trained; /* elements: all, up to here weights, trained */
    size_t scalars;                               /* that are trained, without padding */
    size_t n_dropouts;
    dpt_status status; /* the first failure while building */
    dpt_error error;
    bool finished;
};

/* Converts one parameter between the flat buffer's layout and a checkpoint's. */
void dpti_parameter_export(const dpti_parameter *parameter, const float *inside, float *outside);
void dpti_parameter_import(const dpti_parameter *parameter, const float *outside, float *inside);
/* NULL if there is none of that name. */
const dpti_parameter *dpti_model_parameter(const dpt_model *model, const char *name);
bool dpti_model_has_batch_norm(const dpt_model *model);

/* Fills the flat buffer (flat_size elements, zeroed before) with initial weights: a pure function
   of the seed and the parameter's place, computed in the layout of a checkpoint. "default":
   PyTorch's, uniform in +-1/sqrt(fan_in) for weights and biases; "normal:STD", "xavier" (uniform,
   Glorot and Bengio 2010) and "he" (normal, fan_in, gain sqrt 2, He et al. 2015): biases 0.  Norms
   and their statistics begin as the identity.
   DPT_E_INVALID for another word. */
DPT_CHECK_RESULT dpt_status dpti_initialize(const dpt_model *model, const char *init, uint64_t seed,
                                            float *flat, dpt_error *error);

#endif
