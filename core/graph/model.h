/* A network as it was built: nodes in topological order, parameters, shapes per sample.  Uses no
   device and has no batch dimension. */
#ifndef DPTI_MODEL_H
#define DPTI_MODEL_H

#include "backend.h"
#include "dptrain.h"
#include "graph/shape.h"
#include "io/kept_file.h"

enum { DPTI_NODE_INPUTS = 32 };

/* Prefixes of a parameter's name in a checkpoint with other training state of the parameter
   (checkpoint/tensors.h).  No layer's name may begin with a prefix. */
#define DPTI_VELOCITY_PREFIX "optimizer.velocity."
#define DPTI_SQUARES_PREFIX  "optimizer.squares."
#define DPTI_RESIDUAL_PREFIX "owed."
#define DPTI_OUTER_PREFIX    "optimizer.outer."
#define DPTI_FACTOR_PREFIX   "optimizer.factor."

typedef enum dpti_node_kind {
    DPTI_NODE_INPUT,
    DPTI_NODE_CONV2D, /* x; or x, its filters (out, h, w, in) as a value, and perhaps its bias */
    DPTI_NODE_LINEAR,
    DPTI_NODE_POOL2D,
    DPTI_NODE_ACTIVATE,
    DPTI_NODE_ADD,
    DPTI_NODE_FLATTEN,
    DPTI_NODE_BATCH_NORM,
    DPTI_NODE_LAYER_NORM,
    DPTI_NODE_DROPOUT,
    DPTI_NODE_ELEMENTWISE, /* a program over elements: MAP, or MAP_REDUCE */
    DPTI_NODE_VIEW,        /* its input's elements in another shape */
    DPTI_NODE_JOIN,        /* its inputs side by side in one tensor, and a fill value around them */
    DPTI_NODE_PARAMETER,   /* a parameter that other nodes read as a value */
    DPTI_NODE_CONSTANT,    /* numbers that never change */
    DPTI_NODE_EMBEDDING,   /* the rows of a parameter that ids name: TAKE */
    DPTI_NODE_PRODUCT,     /* the matrix product of two inputs: MATMUL */
    DPTI_NODE_SOFTMAX,     /* along the last axis: ROW_SOFTMAX */
    DPTI_NODE_CONV2D_TRANSPOSE, /* the gradient of a convolution's input, as a layer: x; or x and
                                   its filters as a value */
    DPTI_NODE_PROJECTION,       /* a linear layer whose weights are a value: x, w, bias */
    DPTI_NODE_RECURRENT,        /* a cell along a sequence: RECURRENT; x, then its other inputs */
    DPTI_NODE_ATTENTION,        /* ATTENTION: queries, keys and values in one input, or in three */
    DPTI_NODE_CALL,             /* an operator of the program's own (call.h) */
} dpti_node_kind;

/* The extents of a value for one sample.  A flat value has the extents (1, 1, n). */
typedef struct dpti_extent {
    size_t h, w, c;
    bool flat;
} dpti_extent;

/* How a parameter's layout in the flat buffer relates to its layout in a checkpoint. */
typedef enum dpti_layout {
    DPTI_LAYOUT_PLAIN,  /* both layouts are the same */
    DPTI_LAYOUT_CONV,   /* OHWI in the flat buffer, OIHW in the checkpoint */
    DPTI_LAYOUT_LINEAR, /* (rows, h*w*c) in the flat buffer, (rows, c*h*w) in the checkpoint: a
                           linear layer after a flatten */
} dpti_layout;

/* What a parameter is for.  The role determines its initial values and its place in the flat
   buffer. */
typedef enum dpti_role {
    DPTI_ROLE_WEIGHT,
    DPTI_ROLE_BIAS,
    DPTI_ROLE_NORM_WEIGHT,
    DPTI_ROLE_NORM_BIAS,
    DPTI_ROLE_RUNNING_MEAN, /* running statistics: averaged, not trained */
    DPTI_ROLE_RUNNING_VARIANCE,
    DPTI_ROLE_TENSOR, /* a weight that several layers share, or that is no weight of a convolution
                         or a linear layer: its gradient is complete only when the backward pass is
                       */
} dpti_role;

static inline bool dpti_is_statistic(dpti_role role)
{
    return role == DPTI_ROLE_RUNNING_MEAN || role == DPTI_ROLE_RUNNING_VARIANCE;
}

/* How DPT_INIT_DEFAULT begins a weight or a bias that brings no values. */
typedef enum dpti_start {
    DPTI_START_UNIFORM, /* in +-1/sqrt(fan_in), as PyTorch's linear layers and convolutions */
    DPTI_START_NORMAL,  /* with the parameter's deviation */
    DPTI_START_ZERO,
} dpti_start;

typedef struct dpti_parameter {
    char *name;
    size_t shape[DPT_MAX_RANK]; /* in the checkpoint's layout */
    size_t rank;
    size_t size;   /* elements */
    size_t offset; /* in elements, from the start of the flat buffer; a multiple of 64 */
    size_t fan_in, fan_out;
    dpti_role role;
    float momentum; /* of a running statistic */
    dpti_layout layout;
    size_t h, w,
        c; /* LINEAR: the extent before flatten; CONV: kernel h, w and channels per group */
    /* The initial values, (size) float32 in the checkpoint's layout: `stored` in a file, or
       `initial` in memory; or drawn, if there are none. */
    float *initial;
    dpti_file_part stored;
    dpti_start start;
    float deviation; /* of DPTI_START_NORMAL */
    bool frozen;     /* a buffer of the module: not trained unless a group says so; or part of the
                        base of a model with adapters: never trained */
    bool is_adapter; /* of a model with adapters: all that is trained (lora.h) */
} dpti_parameter;

/* Where the inputs of a JOIN lie in its output. */
typedef struct dpti_join {
    size_t offset[DPTI_NODE_INPUTS]; /* the element of the output at which an input begins */
    int32_t step[DPT_MAX_RANK]; /* the output's stride along each axis, times the distance between
                                   two elements of an input */
    bool fills;                 /* the inputs leave gaps, which hold `fill` */
    float fill;
} dpti_join;

typedef struct dpti_node {
    dpti_node_kind kind;
    char *name; /* the layer's name, or a generated one */
    dpti_extent extent;
    size_t elements;                 /* elements of the output, per sample */
    size_t inputs[DPTI_NODE_INPUTS]; /* indices of nodes */
    size_t n_inputs;
    size_t weight, bias;   /* indices of parameters, SIZE_MAX if there is none */
    size_t mean, variance; /* BATCH_NORM: indices of the running statistics, which several nodes
                              may have: each updates them, in the order of the nodes */
    dpt_op_desc forward; /* the forward operator of kinds that compute; the compiler adds masks and
                            fused activations */
    dpti_extent before_flatten; /* FLATTEN, and nodes that keep its shape: the extent in memory */
    /* The value as a tensor of any rank, over the memory of its root, which has `size` elements.
       An image of (h, w, c) has the axes (c, h, w).  A flattened image keeps these axes here, since
       the order of its elements in memory is another one (`order_differs`). */
    dpti_shape shape;
    size_t size;
    bool has_shape; /* the shape was given; otherwise it follows from the extent */
    bool order_differs;
    bool unsampled; /* the same for all samples: parameters, constants, what is computed of these */
    bool integer;   /* the elements are int32 in memory: ids, and views and copies of them */
    size_t repeat;  /* the operator takes so many rows of a sample as samples of its own; 0: one */
    size_t constant; /* CONSTANT: the place of the first element in the model's constants.
                        BATCH_NORM without parameters: the place of its scale, ones, behind which
                        its shift is, zeros */
    dpti_join join;  /* JOIN */
    dpt_operator_function forward_function, backward_function; /* CALL */
    bool declared_deterministic; /* CALL: dpt_operator_options.deterministic */
    void *user;
    bool unused; /* of a model that is read in steps: no result depends on it */
} dpti_node;

enum { DPTI_PARAMETER_ALIGNMENT = 64 }; /* elements */

/* How the ONNX file that a model was made of describes the input or the output.  The export writes
   the same names and axes. */
typedef struct dpti_port {
    char *name;           /* NULL: the model was not made of a file */
    dpti_extents extents; /* the axes of the file, with 1 for the batch */
    size_t batch_axis;
    bool narrow; /* ids of the input are int32, not int64 */
} dpti_port;

enum { DPTI_MODEL_INPUTS = 16 };

/* One of the inputs of a network: a part of the record of a sample. */
typedef struct dpti_model_input {
    char *name;
    bool ids;
    size_t vocabulary; /* ids: the rows of the smallest table that takes them */
    dpti_shape shape;  /* the places of the elements in the record */
    size_t node;       /* the value of the input */
} dpti_model_input;

/* Rows that a model keeps from step to step. */
typedef struct dpti_kept {
    size_t parameter; /* (context, width), or (1, width) */
    size_t width;
    bool by_place;   /* each place has a row; else there is one row, behind the last place */
    dpt_value fresh; /* (length, width), or (1, width): what the step adds, or the row behind it */
} dpti_kept;

/* Of a model that reads a sequence step by step (steps.h). */
typedef struct dpti_steps {
    size_t context;   /* places whose keys and values are kept */
    size_t length;    /* places of a step */
    dpt_value places; /* (length): the numbers of the places, which are integers */
    dpti_kept *kept;  /* (n_kept) in the order of the result */
    size_t n_kept, capacity;
    /* The table of dpt_rotary that was made last: (context, 4 * half) of this base. */
    size_t angles, half;
    double base;
} dpti_steps;

/* How the layers of a language model are added once more. */
typedef struct dpti_recipe {
    dpt_sequence_builder *build;
    void *how; /* a copy that the model frees; or NULL */
    size_t context;
} dpti_recipe;

typedef struct dpti_lora dpti_lora; /* the adapters of a model (lora.h) */

struct dpt_model {
    dpt_context *context;
    char *name;
    dpti_node *nodes;
    size_t n_nodes, nodes_capacity;
    dpti_parameter *parameters; /* in the order of the layers, which is the order of a checkpoint */
    size_t n_parameters, parameters_capacity;
    size_t input, logits; /* indices of nodes, SIZE_MAX until they are known */
    size_t n_labels;      /* of a sample: the logits are (n_labels, classes) */
    size_t output; /* the node that was named as the output, whose value the logits are in an order
                      of their own; SIZE_MAX until it is known */
    dpti_port file_input, file_output;
    size_t ids; /* the node of the same record as integers, if `input` is real numbers and some of
                   the inputs are ids; otherwise SIZE_MAX */
    dpti_model_input inputs[DPTI_MODEL_INPUTS];
    size_t n_inputs;
    /* The flat buffer has the weights, then biases and the parameters of norms, then running
       statistics, each in the order of the layers and padded to 64 elements.  The padding is zero
       and stays zero.  In a gradient buffer the place of a running statistic holds the statistic
       of the batch. */
    size_t flat_size, flat_weights, flat_trained; /* elements: of the whole buffer, of the weights,
                                                     of everything that is trained */
    /* Elements of a buffer of gradients, or of optimizer state.  It ends with the running
       statistics.  Behind it the flat buffer of the parameters has those that are frozen
       (dpti_model_arrange), which are not counted in flat_weights and flat_trained. */
    size_t flat_gradients;
    size_t all_weights; /* elements of all weights, of the frozen ones, too */
    size_t scalars;     /* scalars that are trained, without padding */
    size_t n_dropouts;
    size_t vocabulary; /* an input is ids: embeddings take those below this number, which is the
                          smallest of all inputs; 0: none is */
    /* The elements of all constants, each padded to 64 elements.  Every replica has a copy. */
    float *constants;
    size_t n_constants, constants_capacity;
    char *config;       /* dpt_model_set_config; or NULL */
    dpti_steps *steps;  /* the model reads a sequence step by step (steps.h); or NULL */
    dpti_recipe recipe; /* dpt_model_set_recipe; build is NULL without one */
    dpti_lora *lora;    /* NULL: no layer has adapters */
    char **remarks;     /* (n_remarks) what dpt_model_remark tells */
    size_t n_remarks;
    dpt_status status; /* the first failure while building */
    dpt_error error;
    bool gives_loss; /* the output is the loss of a sample */
    bool finished;
};

/* How many batch-norms from this node on update a running statistic. */
size_t dpti_count_updates(const dpt_model *model, size_t statistic, size_t from);
/* Convert one parameter between the layout of the flat buffer and that of a checkpoint. */
void dpti_parameter_export(const dpti_parameter *parameter, const float *inside, float *outside);
void dpti_parameter_import(const dpti_parameter *parameter, const float *outside, float *inside);
/* Returns NULL if there is no parameter of that name. */
const dpti_parameter *dpti_model_parameter(const dpt_model *model, const char *name);
bool dpti_model_has_batch_norm(const dpt_model *model);
/* Whether the gradient of a finished model's output reaches a parameter.  It does not if the output
   is integers, such as the places of the largest scores. */
bool dpti_model_has_gradient(const dpt_model *model);
/* Adds a remark, one line of text that the model frees.  NULL stands for a lack of memory. Errors:
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_model_add_remark(dpt_model *model, char *text);

/* How weights begin: the distribution and the seed. */
typedef struct dpti_initial {
    dpt_init init;
    uint64_t seed;
} dpti_initial;

/* Fills the flat buffer (flat_size elements, zeroed before) with initial weights.  They are a
   function of the seed and the parameter's place, and are computed in the layout of a checkpoint.
   DPT_INIT_DEFAULT: as PyTorch, uniform in +-1/sqrt(fan_in) for weights and biases, unless the
   parameter says otherwise (dpti_start).
   DPT_INIT_NORMAL, DPT_INIT_XAVIER (uniform) and DPT_INIT_HE (normal, fan_in, gain sqrt 2): biases
   are 0.  Norms, with their statistics, begin as the identity.  A parameter that brings initial
   values takes them, whatever `init` says.  Errors: DPT_E_INVALID for another kind, or a deviation
   that is not allowed; DPT_E_IO if a file of initial values cannot be read; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_initialize(const dpt_model *model, const dpti_initial *initial,
                                            float *flat, dpt_error *error);

/* Takes n elements of the flat buffer from element `offset` on. */
typedef struct dpti_flat_sink {
    dpt_status (*take)(void *user, size_t offset, const float *values, size_t n);
    void *user;
} dpti_flat_sink;

/* As dpti_initialize, but hands the values over in pieces of some MB, so that no second buffer of
   all weights is needed.  The elements between two
   parameters are zeros or left out.  Errors: as
   dpti_initialize; DPT_E_IO, DPT_E_NO_MEMORY; as the sink fails. */
DPT_CHECK_RESULT dpt_status dpti_initialize_pieces(const dpt_model *model,
                                                   const dpti_initial *initial,
                                                   const dpti_flat_sink *sink, dpt_error *error);
/* Checks what dpti_initialize would refuse.  Errors: DPT_E_INVALID. */
DPT_CHECK_RESULT dpt_status dpti_check_initial(const dpti_initial *initial, dpt_error *error);

/* Returns a copy of a finished model whose frozen parameters lie behind all others in the flat
   buffer; frozen[i] tells whether parameter i is one.  Running statistics stay in front of them.
   The copy shares everything but the places of the parameters and config.json with the model, which
   outlives it; the caller frees it with dpti_model_free_arranged.  NULL: no memory. */
dpt_model *dpti_model_arrange(const dpt_model *model, const bool *frozen);
void dpti_model_free_arranged(dpt_model *arranged); /* accepts NULL */
/* Whether a parameter has a place in the buffers of gradients and of optimizer state. */
static inline bool dpti_has_gradient_place(const dpt_model *model, const dpti_parameter *parameter)
{
    return parameter->offset < model->flat_gradients;
}

/* For qsort of pointers to parameters: as they lie in the flat buffer. */
int dpti_by_offset(const void *a, const void *b);
/* Whether a parameter brings its initial values. */
static inline bool dpti_has_initial(const dpti_parameter *parameter)
{
    return parameter->initial || parameter->stored.file;
}

#endif
