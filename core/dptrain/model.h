/* Models: building a network layer by layer or from an ONNX file, and describing the network.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_MODEL_H
#define DPTRAIN_MODEL_H

#include "dptrain/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A network: a graph of layers.  A model is built once and belongs to no device.  Sizes are per
   sample; a model has no batch dimension.  A building function returns a value that later building
   functions take as input.  After the first failure of a building function all later building
   functions do nothing and return the value 0.  dpt_model_finish then reports the first failure and
   names the layer. */
typedef struct dpt_model dpt_model;

typedef struct dpt_value {
    uint32_t id; /* 0: none */
} dpt_value;

typedef struct dpt_conv2d_options {
    size_t size; /* sizeof(dpt_conv2d_options) */
    size_t out_channels;
    size_t kernel[2];   /* height, width */
    size_t stride[2];   /* default 1 */
    size_t padding[2];  /* default 0 */
    size_t dilation[2]; /* default 1 */
    size_t groups;      /* default 1 */
    bool no_bias;
    dpt_activation activation;
} dpt_conv2d_options;

typedef struct dpt_pool2d_options {
    size_t size; /* sizeof(dpt_pool2d_options) */
    dpt_pool_kind kind;
    size_t kernel[2];
    size_t stride[2]; /* default: the kernel */
    size_t padding[2];
} dpt_pool2d_options;

typedef struct dpt_linear_options {
    size_t size; /* sizeof(dpt_linear_options) */
    size_t out;
    bool no_bias;
    dpt_activation activation;
} dpt_linear_options;

typedef struct dpt_embedding_options {
    size_t size;     /* sizeof(dpt_embedding_options) */
    size_t rows;     /* of the table: ids are from 0 to rows - 1 */
    size_t width;    /* elements of a row */
    float deviation; /* of the normal numbers that the init "default" draws; default 1 */
} dpt_embedding_options;

typedef struct dpt_recurrent_options {
    size_t size;        /* sizeof(dpt_recurrent_options) */
    size_t hidden;      /* elements of the state */
    size_t layers;      /* layers on top of each other; default 1 */
    bool bidirectional; /* a second layer walks from the end, and both outputs are joined */
    bool no_bias;
    bool last; /* the output is the state at the end alone */
    bool relu; /* dpt_rnn: max(x, 0) in place of tanh */
} dpt_recurrent_options;

typedef struct dpt_attention_options {
    size_t size;      /* sizeof(dpt_attention_options) */
    size_t heads;     /* must divide the channels; default 1 */
    dpt_value memory; /* the sequence that is read; id 0: the input itself */
    bool causal;      /* each place reads itself and the places before it; without a memory only */
    bool no_bias;
} dpt_attention_options;

typedef struct dpt_norm_options {
    size_t size;    /* sizeof(dpt_norm_options) */
    float epsilon;  /* default 1e-5 */
    float momentum; /* of batch-norm's running statistics; default 0.1, as in PyTorch */
    dpt_activation activation;
} dpt_norm_options;

/* Creates an empty model.  The name of the model and the names of the layers appear in checkpoints
   and in messages.  Names are UTF-8 without control characters.  A layer's name has 1 to 120 bytes.
   A layer's name must not begin with "optimizer.velocity.", "optimizer.squares.",
   "optimizer.outer.", "optimizer.factor." or "owed.", because the names of a checkpoint's other
   tensors begin with these words.  The caller owns *out.
   Errors: DPT_E_INVALID if `name` is NULL, empty or not allowed; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_create(dpt_context *context, const char *name,
                                                     dpt_model **out);
/* Makes a finished model of an ONNX file, which begins with the weights of the file.  The name of
   the model is `path`.  docs/onnx.md lists what is taken.  Images of a data set must have the shape
   of the file's input: (height, width, channels) for an input of (N, channels, height, width), (1,
   1, n) for (N, n), (a, b, 1) for (N, a, b).  Large weights stay in the file, which stays open, and
   are read when a trainer or predictor is made: the file may be replaced or removed, but must not
   be written in place (DPT_E_IO then).  The caller owns *out.  Errors: DPT_E_INVALID if an argument
   is NULL; DPT_E_NOT_FOUND, DPT_E_IO; DPT_E_FORMAT for a damaged file; DPT_E_UNSUPPORTED for a
   network that cannot be trained, whose message names the node and its operator; DPT_E_NO_MEMORY.
 */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_from_onnx(dpt_context *context, const char *path,
                                                        dpt_model **out);
/* Destroys a model.  Accepts NULL.  Cannot fail. */
DPT_API void dpt_model_destroy(dpt_model *model);

/* Adds the input of the network: images of height, width, channels.  dpt_inputs adds
   several inputs.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY).
 */
DPT_API dpt_value dpt_input(dpt_model *model, size_t height, size_t width, size_t channels);
/* Ids are below this number. */
enum { DPT_MAX_VOCABULARY = 1 << 24 };
/* Adds the input of a network that reads ids, such as those of the tokens of a text, instead of
   dpt_input: `count` integers a sample.  The data set must have dtype DPT_I32, height 1, width 1
   and `count` channels, and a vocabulary that is not larger than the smallest table of an
   embedding. dpt_embedding and dpt_elementwise take the ids; no other layer does.  A failure sticks
   to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_input_ids(dpt_model *model, size_t count);
/* One of several inputs of a network. */
typedef struct dpt_input_options {
    const char *name;               /* data sets of arrays have the array of this name */
    size_t height, width, channels; /* of an input of real numbers */
    size_t ids; /* of an input of ids: their number; height, width and channels are then 0 */
} dpt_input_options;
/* Adds all inputs of a network that has several.  `values` (n_inputs) receives an image for each
   input of real numbers, as from dpt_input, and ids for the others, as from dpt_input_ids.  A
   sample is one record, which holds the inputs one after another.  The data set must be one of
   arrays, in the order of dpt_dataset_arrange.  At most 16 inputs.  A failure sticks to the model
   (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API void dpt_inputs(dpt_model *model, const dpt_input_options *inputs, size_t n_inputs,
                        dpt_value *values);
/* Add layers.  `name` is the prefix of the layer's parameters in a checkpoint: "conv1" gives
   conv1.weight and conv1.bias.  No two layers of a model may have the same name.  dpt_model_finish
   reports the failures of these functions.  A failure sticks to the model (DPT_E_INVALID,
   DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_conv2d(dpt_model *model, dpt_value x, const char *name,
                             const dpt_conv2d_options *options);
/* A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_linear(dpt_model *model, dpt_value x, const char *name,
                             const dpt_linear_options *options);
/* Adds batch normalisation (Ioffe and Szegedy 2015).  The layer normalises each channel over the
   batch and the image, and each element of a flat value over the batch.  The parameters are
   NAME.weight and NAME.bias.  The running statistics are NAME.running_mean and NAME.running_var;
   evaluation normalises by the running statistics.  `options` may be NULL: all defaults.  A failure
   sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_batch_norm(dpt_model *model, dpt_value x, const char *name,
                                 const dpt_norm_options *options);
/* Adds layer normalisation (Ba, Kiros, Hinton 2016).  The layer normalises the channels of each
   pixel, or a flat value as a whole.  `options` may be NULL: all defaults.  A failure sticks to the
   model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_layer_norm(dpt_model *model, dpt_value x, const char *name,
                                 const dpt_norm_options *options);
/* Adds an embedding: each id becomes a row of the parameter NAME.weight (rows, width).  `ids` is
   the value of dpt_input_ids.  The output is an image of height 1 whose pixels are the rows, in the
   order of the ids: a convolution with a kernel of 1x1 is a linear layer for each of them.  With
   the init "default" the table begins with normal numbers, of deviation 1 as in PyTorch.  A failure
   sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_embedding(dpt_model *model, dpt_value ids, const char *name,
                                const dpt_embedding_options *options);
/* Adds recurrent layers along a sequence: an LSTM (Hochreiter and Schmidhuber 1997), a GRU (Cho et
   al. 2014, with the reset gate behind the product, as in PyTorch) or a plain RNN.

   x         An image of height 1, (1, length, channels): its pixels are the places of the sequence.
             dpt_embedding gives such an image.
   options   They must not be NULL, and `hidden` is at least 1.

   The output is (1, length, hidden), or (1, length, 2 * hidden) if the layers are bidirectional:
   the states of the walk from the begin come first.  With `last` the output is (1, 1, hidden) or
   (1, 1, 2 * hidden): the state behind the last place that was walked, which is the first place of
   the sequence for the walk from the end.  States begin as zeros.

   The parameters have PyTorch's names and shapes, for each layer N from 0 on: NAME.weight_ih_lN
   (gates * hidden, channels), NAME.weight_hh_lN (gates * hidden, hidden), NAME.bias_ih_lN and
   NAME.bias_hh_lN (gates * hidden), and the same with _reverse behind the name.  The gates are in
   PyTorch's order: input, forget, cell, output for an LSTM; reset, update, new for a GRU.

   A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_lstm(dpt_model *model, dpt_value x, const char *name,
                           const dpt_recurrent_options *options);
/* As dpt_lstm.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_gru(dpt_model *model, dpt_value x, const char *name,
                          const dpt_recurrent_options *options);
/* As dpt_lstm.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_rnn(dpt_model *model, dpt_value x, const char *name,
                          const dpt_recurrent_options *options);
/* Adds scaled dot-product attention with several heads (Vaswani et al. 2017), as PyTorch's
   nn.MultiheadAttention without dropout.

   x         An image of height 1, (1, length, channels), as dpt_lstm takes it: the queries are
             computed of it.  The keys and values are computed of `memory`, which has as many
             channels and any length, or of x itself.
   options   May be NULL: all defaults.

   The output is (1, length, channels).  There is no sum with x: dpt_add adds a shortcut.

   The parameters have PyTorch's names and shapes: NAME.in_proj_weight (3 * channels, channels) and
   NAME.in_proj_bias (3 * channels), whose parts are those of queries, keys and values;
   NAME.out_proj.weight (channels, channels) and NAME.out_proj.bias (channels).  With the init
   "default" all of them are uniform in +-1/sqrt(channels).

   A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_attention(dpt_model *model, dpt_value x, const char *name,
                                const dpt_attention_options *options);
/* Adds max or average pooling.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or
   DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_pool2d(dpt_model *model, dpt_value x, const dpt_pool2d_options *options);
/* Adds a layer that takes the mean of each channel over the image.  The output is (1, 1, c).  A
   failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_global_average_pool(dpt_model *model, dpt_value x);
/* Adds dropout (Srivastava et al. 2014).  In training the layer sets each element to zero with
   probability p and divides the other elements by 1 - p.  In evaluation the layer changes nothing.
   0 <= p < 1.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_dropout(dpt_model *model, dpt_value x, float p);
/* Adds an activation function, applied to every element.  A failure sticks to the model
   (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_activate(dpt_model *model, dpt_value x, dpt_activation kind);
/* Adds the element-wise sum of two values of equal shape.  A failure sticks to the model
   (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_add(dpt_model *model, dpt_value a, dpt_value b);
/* Adds a layer that computes a formula for every element of one to four values.  The whole formula
   is one operation on every device, and its derivative is found from the formula:

       dpt_elementwise(model, "a * sigmoid(a)", &x, 1);                      SiLU
       dpt_elementwise(model, "a * b", (dpt_value[]){image, gate}, 2);       a gate for each channel

   formula   Numbers, the inputs a, b, c and d, the operators + - * / and parentheses, and the
             functions abs, ceil, cos, erf, exp, floor, log, round, sigmoid, sign, sin, softplus,
   sqrt and tanh of one argument; max, min and pow of two; the comparisons equal, less and
             less_equal, and and, or and not, which are 1 or 0; select(condition, x, y).  A formula,
             and its derivative, has at most 32 operations.  floor, ceil, round, sign and
   comparisons have the derivative 0.  As in PyTorch, both branches of select are computed: a branch
             whose derivative is infinite makes the derivative NaN, also where it is not selected.
   inputs    (n_inputs), all of which the formula reads.  On each axis all inputs have the same
             extent, or some have 1 and are broadcast.  A vector of c elements (a linear layer's
             output, or a flattened 1x1 image) counts as an image of 1x1 pixels with c channels.

   The output has the largest extents.  It is a vector if all inputs are vectors.

   If an input is the result of a function of dptrain/tensor.h, all inputs are values with the axes
   that tensor.h describes, and are broadcast as in PyTorch: aligned at the last axis.  A failure
   sticks to the model: DPT_E_INVALID, with the place in the formula; DPT_E_STATE; DPT_E_NO_MEMORY.
 */
DPT_API dpt_value dpt_elementwise(dpt_model *model, const char *formula, const dpt_value *inputs,
                                  size_t n_inputs);
/* Adds a layer that turns (h, w, c) into one vector.  The logical order of the elements is c, h, w,
   as in PyTorch.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_flatten(dpt_model *model, dpt_value x);

/* Ends the building of a model.  `logits` are the scores of the classes, or the predictions of a
   regression (see dpt_loss).  Errors: the first failure of a building function; DPT_E_STATE if the
   model is already finished; DPT_E_INVALID if `model` is NULL, `logits` is no value of the model,
   `logits` is an image, a layer does not lead to `logits`, or the model has no parameters;
   DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_finish(dpt_model *model, dpt_value logits);

/* Ends the building of a model that scores every pixel of an image, or every token: `logits` is an
   image, or the value of an embedding and of layers over it, whose channels are the scores of the
   classes.  Each pixel has a label; the labels of a sample are in the order of its pixels, row by
   row. Loss and accuracy are means over the labels.  Such a model is trained by
   DPT_LOSS_CROSS_ENTROPY only.  Errors: as dpt_model_finish; DPT_E_INVALID if `logits` is no image.
 */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_finish_per_pixel(dpt_model *model, dpt_value logits);

/* Gives a model the text of config.json, the description of the network for other programs, which
   dpt_fit writes beside model.safetensors.  The text is copied.  Errors: DPT_E_INVALID if an
   argument is NULL; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_model_set_config(dpt_model *model, const char *text);

/* Returns remark i about a model of an ONNX file, or NULL if there are not so many: one line of
   text that says what of the file is left out, or looks as if the exporter had changed it.  The
   model owns the string.  Cannot fail. */
DPT_API const char *dpt_model_remark(const dpt_model *model, size_t i);
/* Returns the name of a model.  The model owns the string.  Cannot fail. */
DPT_API const char *dpt_model_name(const dpt_model *model);
/* Returns the number of scalars that are trained; 0 before dpt_model_finish.  Cannot fail. */
DPT_API size_t dpt_model_parameter_count(const dpt_model *model);
/* Returns the number of outputs of a label: the classes, or the predictions of a regression; 0
   before dpt_model_finish.  Cannot fail. */
DPT_API size_t dpt_model_outputs(const dpt_model *model);
/* Returns the number of labels of a sample: 1, or the number of pixels if every pixel has a label;
   0 before dpt_model_finish.  Cannot fail. */
DPT_API size_t dpt_model_labels(const dpt_model *model);

/* Returns whether the output is the loss of a sample (DPT_LOSS_OUTPUT), as in an ONNX file whose
   output is a mean over the batch; false before the model is finished.  Cannot fail. */
DPT_API bool dpt_model_gives_loss(const dpt_model *model);
/* Returns whether the gradient of the output reaches a parameter; false before the model is
   finished.  It does not if the output is integers, as of ArgMax: such a model predicts these
   integers, and cannot be trained.  Cannot fail. */
DPT_API bool dpt_model_has_gradient(const dpt_model *model);

/* A tensor as a checkpoint stores it, with PyTorch's name, shape and layout.  Tensors are
   parameters, and the running statistics of batch-norm. */
typedef struct dpt_parameter_info {
    size_t size; /* sizeof(dpt_parameter_info), to be set before the call */
    const char *name;
    size_t shape[8];
    size_t rank;
    size_t elements;
    bool trained; /* false: a running statistic, or a buffer of a module in an ONNX file */
} dpt_parameter_info;

/* Returns the number of tensors: parameters and running statistics.  Cannot fail. */
DPT_API size_t dpt_model_tensor_count(const dpt_model *model);
/* Describes tensor i.  *out is all zero if i is not below the count.  The model owns the name.
   Cannot fail. */
DPT_API void dpt_model_tensor(const dpt_model *model, size_t i, dpt_parameter_info *out);

/* An input of a network.  The model owns the name. */
typedef struct dpt_input_info {
    size_t size;       /* sizeof(dpt_input_info), to be set before the call */
    const char *name;  /* of the ONNX file, or as given; "input" for dpt_input and dpt_input_ids */
    size_t elements;   /* of a sample */
    size_t vocabulary; /* ids: the rows of the smallest table that takes them, or DPT_MAX_VOCABULARY
                          if none does; 0: real numbers */
} dpt_input_info;

/* Returns the number of inputs.  Cannot fail. */
DPT_API size_t dpt_model_input_count(const dpt_model *model);
/* Describes input i.  *out is all zero if i is not below the count.  Cannot fail. */
DPT_API void dpt_model_input(const dpt_model *model, size_t i, dpt_input_info *out);

/* A layer.  Layers are numbered in the order of computation, the input first. */
typedef struct dpt_layer_info {
    size_t size;                    /* sizeof(dpt_layer_info), to be set before the call */
    const char *name;               /* "conv1"; layers without parameters have a generated name */
    const char *kind;               /* "conv2d" */
    size_t height, width, channels; /* of the output of one sample */
    size_t parameters;              /* scalars that are trained */
    double multiply_adds; /* per sample in the forward pass; convolutions and linear layers */
} dpt_layer_info;

/* Returns the number of layers, the input included.  Cannot fail. */
DPT_API size_t dpt_model_layer_count(const dpt_model *model);
/* Describes layer i.  *out is all zero if i is not below the count.  The model owns the name.
   Cannot fail. */
DPT_API void dpt_model_layer(const dpt_model *model, size_t i, dpt_layer_info *out);

#ifdef __cplusplus
}
#endif

#endif
