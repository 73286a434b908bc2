/* What the parts of the import share. */
#ifndef DPTI_IMPORT_STATE_H
#define DPTI_IMPORT_STATE_H

#include "graph/given.h"
#include "onnx/infer.h"

/* What is known of an ONNX value. */
typedef struct dpti_imported {
    dpt_value value;  /* with the axes of the file; id 0: not made yet */
    dpt_value flat;   /* a flattened image, which `value` is made of if anything but a linear layer
                         wants it; id 0: none */
    size_t parameter; /* SIZE_MAX: none yet */
    size_t n_uses;    /* inputs of imported nodes that are this value */
    float factor;     /* by which the product of two values that reads this must multiply, because a
                         scaling of the value was left to the product; 0: none */
    double chance;    /* of 1, where the value is this number + uniform random numbers in [0, 1),
                         which only Floor takes; 0: the value is something else */
    size_t same;      /* the tensor of the file that this value is, or the value itself */
} dpti_imported;

typedef struct dpti_importer {
    const dpti_onnx_graph *graph;
    const dpti_onnx_node *node; /* the one that is imported */
    dpt_model *model;
    dpti_imported *values; /* (n_values of the ONNX model) */
    size_t output;         /* which output of the file the network computes */
    bool *imports;         /* (n_nodes of the graph) whether the output needs the node */
    size_t *inputs;        /* (the largest number of inputs of a node) of `node` */
    dpt_error *error;
} dpti_importer;

/* Imports im->node.  Errors: as dpti_import. */
typedef dpt_status dpti_import_rule(dpti_importer *im);
typedef struct dpti_import_operator {
    const char *name;
    dpti_import_rule *rule;
} dpti_import_operator;
/* Ended by a NULL name. */
extern const dpti_import_operator dpti_import_elementwise[], dpti_import_layouts[],
    dpti_import_layers[], dpti_import_windows[], dpti_import_norms[], dpti_import_enlargements[],
    dpti_import_reductions[], dpti_import_constants[], dpti_import_sequences[],
    dpti_import_recurrent[], dpti_import_picks[], dpti_import_randoms[],
    dpti_import_rearrangements[], dpti_import_cumulations[], dpti_import_einsums[],
    dpti_import_resizes[], dpti_import_indices[], dpti_import_orders[], dpti_import_losses[],
    dpti_import_pads[], dpti_import_slides[], dpti_import_attentions[], dpti_import_folds[];

/* Fails with the file and the node in front of the message. */
DPT_PRINTF(3, 4)
dpt_status dpti_import_refuse(const dpti_importer *im, dpt_status status, const char *format, ...);

/* ---- Inputs and outputs ---------------------------------------------------------------------- */

/* Whether the node has input i. */
bool dpti_import_has(const dpti_importer *im, size_t i);
/* The value of input i: computed, a parameter, or a constant. */
DPT_CHECK_RESULT dpt_status dpti_import_input(dpti_importer *im, size_t i, dpt_value *out);
/* What the reader knows of input i, or of output i. */
const dpti_onnx_fact *dpti_import_fact(const dpti_importer *im, size_t i);
const dpti_onnx_fact *dpti_import_result(const dpti_importer *im, size_t i);
/* The extents of a fact for a batch of 1. */
dpti_extents dpti_import_extents(const dpti_onnx_fact *fact);
/* Makes input i, which must be numbers of the file, a parameter like this.  Only the name, the
   shape and the initial values are the file's.  *out is the index. */
DPT_CHECK_RESULT dpt_status dpti_import_parameter(dpti_importer *im, size_t i, dpti_parameter like,
                                                  size_t *out);
/* Whether input i is a parameter of another layer that has the elements in another order than one
   like this.  dpti_import_input gives its value. */
bool dpti_import_differs(const dpti_importer *im, size_t i, const dpti_parameter *like);
/* Whether several nodes have input i, or one has it several times. */
bool dpti_import_is_shared(const dpti_importer *im, size_t i);
/* The integers of input i, or of the attribute of that name; n: at most DPT_MAX_RANK.  *given: they
   are there. */
typedef struct dpti_import_list {
    bool given;
    size_t n;
    int64_t items[2 * DPT_MAX_RANK];
} dpti_import_list;
DPT_CHECK_RESULT dpt_status dpti_import_integers(dpti_importer *im, size_t i, const char *attribute,
                                                 dpti_import_list *out);
/* The number in input i; `otherwise` if it is left out. */
DPT_CHECK_RESULT dpt_status dpti_import_number(dpti_importer *im, size_t i, double otherwise,
                                               double *out);
/* An axis from -rank to rank - 1. */
size_t dpti_import_axis(int64_t axis, size_t rank);
/* Whether output i is needed. */
bool dpti_import_wants(const dpti_importer *im, size_t i);
/* Output i of the node is this value. */
void dpti_import_give(dpti_importer *im, size_t i, dpt_value value);
/* Imports a product of two inputs (product.c). */
DPT_CHECK_RESULT dpt_status dpti_import_product(dpti_importer *im);
/* The product of matrices (..., m, k) and (..., k, n), of at most DPT_MAX_RANK - 1 axes. */
dpt_value dpti_import_multiply(dpti_importer *im, dpt_value a, dpt_value b);
/* n_out elements along an axis take the place of the n_in that are there: element o is the sum of
   weights[o * n_in + i] times element i. */
typedef struct dpti_combination {
    size_t axis, n_out;
    const float *weights; /* (n_out, n_in) */
} dpti_combination;
DPT_CHECK_RESULT dpt_status dpti_import_combine(dpti_importer *im, const dpti_combination *c,
                                                dpt_value *x);
/* x with one more axis, of extent 1, in front of the axis `at`; without an axis of extent 1
   (sum.c). */
dpt_value dpti_import_insert_axis(dpti_importer *im, dpt_value x, size_t at);
dpt_value dpti_import_drop_axis(dpti_importer *im, dpt_value x, size_t axis);
/* The numbers 0 ... n - 1 along an axis; the other axes have the extent 1. */
dpt_value dpti_import_count(dpti_importer *im, size_t rank, size_t axis, size_t n);
/* Stores the result of a program as int32.  It then has no gradient. */
dpt_value dpti_import_as_integers(dpti_importer *im, dpt_value x);
/* The sum of a formula over n values along an axis, which is then dropped. */
typedef struct dpti_sum {
    const char *formula;
    dpt_value inputs[DPTI_FORMULA_INPUTS];
    size_t n, axis;
    bool keeps_axis; /* with the extent 1 */
    bool integer;    /* the result is stored as int32 */
} dpti_sum;
dpt_value dpti_import_sum(dpti_importer *im, const dpti_sum *sum);
/* The root of a norm.  Its derivative at 0 is 0, as PyTorch has it, and not infinite. */
#define DPTI_IMPORT_ROOT "select(equal(a, 0), 0, sqrt(select(equal(a, 0), 1, a)))"
/* Reduces x along the axes, which keep the extent 1 (reduce.c). */
dpt_value dpti_import_reduce(dpti_importer *im, dpt_value x, uint32_t axes,
                             dpt_map_reduction reduction);
/* The product of the elements along an axis, which is dropped (cumulate.c). */
dpt_value dpti_import_multiply_along(dpti_importer *im, dpt_value x, size_t axis);
/* Along an axis, element k of the result is the element of x that index k of `at` names.  Both have
   the same rank, and on other axes the same extent or 1 (index.c). */
dpt_value dpti_import_read_along(dpti_importer *im, dpt_value x, dpt_value at, size_t axis);
/* A Gather along an axis by computed indices (index.c). */
DPT_CHECK_RESULT dpt_status dpti_import_gather_computed(dpti_importer *im, size_t axis);
/* A GatherND by any indices. */
DPT_CHECK_RESULT dpt_status dpti_import_gather_rows(dpti_importer *im, size_t batch_dims);
/* The axes over which the node reduces, as bits: those of input 1, of the attribute `axes`, or all
   (reduce.c). */
DPT_CHECK_RESULT dpt_status dpti_import_reduced_axes(dpti_importer *im, size_t rank,
                                                     uint32_t *axes);
/* Makes the only input, a value whose type is an integer, ids with these extents (embedding.c). */
DPT_CHECK_RESULT dpt_status dpti_import_ids(dpti_importer *im, size_t value,
                                            const dpti_extents *extents);
/* A layer-norm whose scale or bias is no parameter of this layer alone (norms.c). */
DPT_CHECK_RESULT dpt_status dpti_import_norm_apart(dpti_importer *im);
/* A batch-norm of x whose statistics are computed, as of filters that have the mean 0 and the
   variance 1 (norms.c). */
DPT_CHECK_RESULT dpt_status dpti_import_norm_by_values(dpti_importer *im, dpt_value x);
/* A gather along the first axis of a parameter: an embedding.  *done: it was one, and its output is
   given. */
DPT_CHECK_RESULT dpt_status dpti_import_embedding(dpti_importer *im, bool *done);
/* Whether the node is a transpose of a weight that only products take, which take the weight itself
   (weights.c). */
bool dpti_import_skips_transpose(dpti_importer *im);
/* The weight of which input i is such a transpose; DPTI_ONNX_NONE if it is none. */
size_t dpti_import_transposed(const dpti_importer *im, size_t i);
/* Whether a value is the transpose of a weight. */
bool dpti_import_transposes(const dpti_importer *im, size_t value);
/* Whether a tensor has the name that constants have in files of dptrain.  "val_1" may be a weight
   that PyTorch's exporter has named. */
bool dpti_import_is_constant(const dpti_onnx_tensor *tensor);
/* Whether input i is numbers of the file that are trained. */
bool dpti_import_trains(const dpti_importer *im, size_t i);
/* An addition of a bias to a product with a weight becomes the bias of that layer (absorb.c).
 *done: it did, and the output is given. */
DPT_CHECK_RESULT dpt_status dpti_import_take_bias(dpti_importer *im, bool *done);
/* A multiplication or division by a constant number becomes part of the product of two values
   before it, or of the one after it.  *done: it did, and the output is given. */
DPT_CHECK_RESULT dpt_status dpti_import_scale(dpti_importer *im, bool *done);
/* The Sigmoid whose result the node, a Log, takes; NULL: another operator computes it.  The
   logarithm of a sigmoid is computed as one function, because the sigmoid of -100 is 0 in float32.
 */
const dpti_onnx_node *dpti_import_sigmoid_of(const dpti_importer *im);
/* Whether the node is a Sigmoid that nothing but such logarithms reads. */
bool dpti_import_skips_sigmoid(dpti_importer *im);
/* The product of the node's two inputs, multiplied by what scalings before it left to it. */
dpt_value dpti_import_scaled(dpti_importer *im, dpt_value product);
/* Whether the node gives filters fewer axes, for convolutions that take the filters themselves. */
bool dpti_import_skips_filters(dpti_importer *im);
/* Indices along an axis. */
typedef struct dpti_picks {
    int64_t *items;
    size_t n;
} dpti_picks;
/* Indices first, first + step, ...  A step of 0 repeats one index. */
typedef struct dpti_run {
    int64_t first, step;
    size_t count;
} dpti_run;
enum { DPTI_MOST_RUNS = 4095 };
typedef struct dpti_runs {
    dpti_run *items;
    size_t n;
} dpti_runs;
/* *x = its elements along the axis that the runs name one after another, which are indices of it.
   More than DPTI_MOST_RUNS are refused. */
DPT_CHECK_RESULT dpt_status dpti_import_take_runs(dpti_importer *im, dpt_value *x, size_t axis,
                                                  dpti_runs runs);
/* *x = its elements along the axis that `picks` names; negative indices become positive. */
DPT_CHECK_RESULT dpt_status dpti_import_take(dpti_importer *im, dpt_value *x, size_t axis,
                                             dpti_picks picks);
/* *x = its elements along the axis that the constant integers of input 1 name (pick.c). */
DPT_CHECK_RESULT dpt_status dpti_import_pick(dpti_importer *im, dpt_value *x, size_t axis);
/* A comparison of uniform random numbers with a constant (random.c).  *done: it was one, and its
   output is given. */
DPT_CHECK_RESULT dpt_status dpti_import_choice(dpti_importer *im, bool *done);
/* A sum of uniform random numbers and a constant.  *done: it was one.  Floor makes the choice. */
DPT_CHECK_RESULT dpt_status dpti_import_raised(dpti_importer *im, bool *done);
/* Floor of such a sum: 1 with the probability of the constant, else 0.  *done: it was one, and its
   output is given. */
DPT_CHECK_RESULT dpt_status dpti_import_floor(dpti_importer *im, bool *done);
/* Finds im->imports, im->inputs and what is known of every value before the import (select.c).
   Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_import_select(dpti_importer *im);
/* The node with tensors of the file in place of values that are the same; its inputs are
   im->inputs. */
dpti_onnx_node dpti_import_rename(const dpti_importer *im, const dpti_onnx_node *node);
/* Adds the remarks about the file to the model (remarks.c).  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_import_remark(dpti_importer *im);
/* Checks that the model has not failed. */
DPT_CHECK_RESULT dpt_status dpti_import_check(const dpti_importer *im);

#endif
