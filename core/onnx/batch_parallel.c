/* One rule for each kind of operator; a rule finds where the samples are in the results. */
#include "onnx/batch_parallel.h"

#include "onnx/equation.h"
#include "onnx/infer_state.h"

#include <string.h>

typedef struct proof {
    dpti_onnx_inference in;
    dpti_onnx_samples *samples; /* of every value of the model */
} proof;

typedef dpt_status rule(proof *p, dpt_error *error);

/* ---- Inputs and outputs ---------------------------------------------------------------------- */

/* The samples of an input that is there. */
static const dpti_onnx_samples *samples_of(const proof *p, size_t i)
{
    return &p->samples[p->in.node->inputs[i]];
}

/* Whether input i is there and differs from sample to sample. */
static bool has_batch(const proof *p, size_t i)
{
    const dpti_onnx_fact *x = dpti_onnx_input(&p->in, i);
    return x && samples_of(p, i)->axis < x->shape.rank;
}

static bool on_axis(const proof *p, size_t i, size_t axis)
{
    return has_batch(p, i) && samples_of(p, i)->axis == axis;
}

/* Refuses the node; `why` says how it mixes samples. */
static dpt_status mixes(const proof *p, const char *why, dpt_error *error)
{
    return dpti_onnx_refuse(&p->in, DPT_E_UNSUPPORTED, error,
                            "it mixes the samples of a batch: %s; data parallelism needs each "
                            "sample to be computed alone",
                            why);
}

/* Gives all outputs one order of samples. */
static void give(proof *p, int64_t outer)
{
    for (size_t k = 0; k < p->in.node->n_outputs; k++) {
        const size_t v = p->in.node->outputs[k];
        if (v == DPTI_ONNX_NONE) continue;
        const dpti_onnx_shape *shape = &p->in.graph->facts[v].shape;
        const size_t axis = dpti_onnx_batch_axis(shape);
        const bool one = axis < shape->rank && shape->dims[axis].size == 1;
        p->samples[v] = (dpti_onnx_samples){axis, one ? 1 : outer, false};
    }
}

/* The order that all inputs with a batch have in common; 0 if none of them fixes it. */
static dpt_status common_order(const proof *p, int64_t *outer, dpt_error *error)
{
    *outer = 0;
    for (size_t i = 0; i < p->in.node->n_inputs; i++) {
        if (!has_batch(p, i) || samples_of(p, i)->outer == 0) continue;
        if (*outer && *outer != samples_of(p, i)->outer)
            return mixes(p, "its inputs have the samples in different orders", error);
        *outer = samples_of(p, i)->outer;
    }
    return DPT_OK;
}

/* Gives the outputs the common order of the inputs. */
static dpt_status keep_order(proof *p, dpt_error *error)
{
    int64_t outer = 0;
    DPT_TRY(common_order(p, &outer, error));
    give(p, outer);
    return DPT_OK;
}

/* Refuses a batch in one of the inputs from `first` on, which hold parameters. */
static dpt_status no_batch_from(const proof *p, size_t first, dpt_error *error)
{
    for (size_t i = first; i < p->in.node->n_inputs; i++)
        if (has_batch(p, i)) return mixes(p, "a parameter of it depends on the sample", error);
    return DPT_OK;
}

/* The axis of an attribute. */
static size_t axis_of(const proof *p, int64_t otherwise)
{
    return dpti_onnx_axis(dpti_onnx_int(p->in.node, "axis", otherwise),
                          dpti_onnx_input(&p->in, 0)->shape.rank);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* In memory sample n keeps its distance from sample n + 1, which decides where N is in the new
   extent. */
static dpt_status reshaped(proof *p, dpt_error *error)
{
    if (!has_batch(p, 0) || p->in.node->outputs[0] == DPTI_ONNX_NONE) return keep_order(p, error);
    const dpti_onnx_shape *x = &dpti_onnx_input(&p->in, 0)->shape;
    const dpti_onnx_shape *y = &p->in.graph->facts[p->in.node->outputs[0]].shape;
    const dpti_onnx_samples *from = samples_of(p, 0);
    const size_t axis = dpti_onnx_batch_axis(y);
    int64_t distance = x->dims[from->axis].size / (from->outer ? from->outer : 1), behind = 1;
    for (size_t d = from->axis + 1; d < x->rank; d++)
        distance *= x->dims[d].size;
    for (size_t d = axis + 1; d < y->rank; d++)
        behind *= y->dims[d].size;
    const int64_t inner = behind > 0 && distance % behind == 0 ? distance / behind : 0;
    if (axis == y->rank || inner == 0 || y->dims[axis].size % inner)
        return mixes(p, "the new shape cuts across samples", error);
    give(p, y->dims[axis].size / inner);
    return DPT_OK;
}

static dpt_status tiled(proof *p, dpt_error *error)
{
    dpti_onnx_list list;
    DPT_TRY(dpti_onnx_read_list(&p->in, 1, &list, error));
    if (!has_batch(p, 0)) {
        give(p, 1);
        return DPT_OK;
    }
    const dpti_onnx_samples *from = samples_of(p, 0);
    give(p, from->outer * list.cells[from->axis].fixed);
    return DPT_OK;
}

/* An axis of the attribute must not be the batch. */
static dpt_status along_axis(proof *p, int64_t otherwise, const char *why, dpt_error *error)
{
    const size_t axis = axis_of(p, otherwise);
    for (size_t i = 0; i < p->in.node->n_inputs; i++)
        if (on_axis(p, i, axis)) return mixes(p, why, error);
    return keep_order(p, error);
}

/* The elements of a sample that follow one another along the batch axis of an input; 0 if all
   elements are alike. */
static int64_t run_of(const proof *p, size_t i)
{
    const dpti_onnx_samples *s = samples_of(p, i);
    return s->outer ? dpti_onnx_input(&p->in, i)->shape.dims[s->axis].size / s->outer : 0;
}

/* Batches that are joined along the batch axis have the same runs, which then follow those of the
   batch in front. */
static dpt_status joined(proof *p, dpt_error *error)
{
    const size_t axis = axis_of(p, 0);
    int64_t run = 0, size = 0;
    if (!on_axis(p, 0, axis))
        return along_axis(p, 0, "it joins batches along the batch axis", error);
    for (size_t i = 0; i < p->in.node->n_inputs; i++) {
        const int64_t own = run_of(p, i);
        if (own && run && own != run)
            return mixes(p, "its inputs have the samples in different orders", error);
        if (own) run = own;
    }
    for (size_t i = 0; i < p->in.node->n_inputs; i++) {
        const int64_t each = dpti_onnx_input(&p->in, i)->shape.dims[axis].size;
        if (run && each % run) return mixes(p, "it joins parts of samples", error);
        size += each;
    }
    give(p, run ? size / run : size);
    return DPT_OK;
}

/* Whether the elements [begin, begin + size) * N along the batch axis of input 0 are as many of
   each sample.  *outer: their order. */
static bool cuts_all_samples(const proof *p, int64_t begin, int64_t size, int64_t *outer)
{
    const int64_t run = run_of(p, 0);
    *outer = run ? size / run : 0;
    return !run || (begin % run == 0 && size % run == 0);
}

static const char *const takes_part = "it takes a part of the samples";

static dpt_status split(proof *p, dpt_error *error)
{
    int64_t begin = 0, outer;
    const size_t axis = axis_of(p, 0);
    if (!on_axis(p, 0, axis)) return keep_order(p, error);
    for (size_t k = 0; k < p->in.node->n_outputs; k++) {
        const size_t v = p->in.node->outputs[k];
        if (v == DPTI_ONNX_NONE) return mixes(p, "a part has no name", error);
        const dpti_onnx_dim *part = &p->in.graph->facts[v].shape.dims[axis];
        if (!cuts_all_samples(p, begin, part->size, &outer)) return mixes(p, takes_part, error);
        p->samples[v] = (dpti_onnx_samples){axis, part->size == 1 ? 1 : outer, false};
        begin += part->size;
    }
    return DPT_OK;
}

static dpt_status sliced(proof *p, dpt_error *error)
{
    dpti_onnx_slice s;
    int64_t outer;
    if (!has_batch(p, 0)) return keep_order(p, error);
    const size_t axis = samples_of(p, 0)->axis;
    DPT_TRY(dpti_onnx_read_slice(&p->in, &s, error));
    if (!cuts_all_samples(p, s.start[axis], s.shape.dims[axis].size, &outer))
        return mixes(p, takes_part, error);
    give(p, outer);
    return DPT_OK;
}

/* ---- Indices --------------------------------------------------------------------------------- */

static dpt_status gathered(proof *p, dpt_error *error)
{
    if (dpti_onnx_reads_own(p->in.graph, p->in.node) && samples_of(p, 0)->outer == 1) {
        give(p, 1);
        return DPT_OK;
    }
    if (on_axis(p, 0, axis_of(p, 0))) return mixes(p, "it picks samples out of the batch", error);
    return keep_order(p, error);
}

/* The indices name places on the axes of the data behind the common ones. */
static dpt_status gathered_parts(proof *p, dpt_error *error)
{
    const dpti_onnx_shape *at = &dpti_onnx_input(&p->in, 1)->shape;
    const int64_t common = dpti_onnx_int(p->in.node, "batch_dims", 0);
    if (dpti_onnx_counts_samples(p->in.graph, p->in.node) && on_axis(p, 0, 0) &&
        on_axis(p, 1, dpti_onnx_batch_axis(at))) {
        give(p, 1);
        return DPT_OK;
    }
    if (has_batch(p, 0)) {
        const int64_t axis = (int64_t)samples_of(p, 0)->axis;
        if (axis >= common && axis < common + at->dims[at->rank - 1].size)
            return mixes(p, "it picks samples out of the batch", error);
    }
    return keep_order(p, error);
}

/* The index of an element is that of its result, but on one axis.  So the batch of both must be the
   same axis, or the axis that is indexed if the data have none. */
static dpt_status by_element(proof *p, dpt_error *error)
{
    const size_t axis = axis_of(p, 0);
    bool alone = has_batch(p, 0) ? !on_axis(p, 0, axis) : !has_batch(p, 1) || on_axis(p, 1, axis);
    for (size_t i = 1; has_batch(p, 0) && i < p->in.node->n_inputs; i++)
        alone = alone && on_axis(p, i, samples_of(p, 0)->axis);
    if (!alone) return mixes(p, "it picks elements of other samples", error);
    return keep_order(p, error);
}

/* As by_element; without a batch in the data there must be none in the indices either. */
static dpt_status scattered(proof *p, dpt_error *error)
{
    if (!has_batch(p, 0)) DPT_TRY(no_batch_from(p, 1, error));
    return by_element(p, error);
}

/* The rows of indices name places on the first axes of the data, which are no batch, or count the
   samples. */
static dpt_status scattered_parts(proof *p, dpt_error *error)
{
    const dpti_onnx_shape *at = &dpti_onnx_input(&p->in, 1)->shape;
    const size_t n = (size_t)at->dims[at->rank - 1].size;
    if (dpti_onnx_counts_samples(p->in.graph, p->in.node)) {
        if (!on_axis(p, 0, 0) || !on_axis(p, 2, dpti_onnx_batch_axis(at)))
            return mixes(p, "its updates are not those of its samples", error);
        give(p, 1);
        return DPT_OK;
    }
    bool alone = !has_batch(p, 1);
    if (has_batch(p, 0)) {
        const size_t axis = samples_of(p, 0)->axis;
        alone = alone && axis >= n && on_axis(p, 2, axis - n + at->rank - 1);
    } else {
        alone = alone && !has_batch(p, 2);
    }
    if (!alone) return mixes(p, "its indices reach every sample", error);
    return keep_order(p, error);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* Whether an output has one element, which is the same for all samples. */
static bool gives_number(const proof *p, size_t k)
{
    const size_t v = p->in.node->outputs[k];
    if (v == DPTI_ONNX_NONE) return false;
    const dpti_onnx_shape *y = &p->in.graph->facts[v].shape;
    for (size_t d = 0; d < y->rank; d++)
        if (y->dims[d].batch || y->dims[d].size != 1) return false;
    return true;
}

static dpt_status give_mean(proof *p)
{
    const size_t v = p->in.node->outputs[0];
    if (v != DPTI_ONNX_NONE) p->samples[v].mean = true;
    return DPT_OK;
}

static bool is_mean(const proof *p, size_t i)
{
    return dpti_onnx_input(&p->in, i) && samples_of(p, i)->mean;
}

static size_t count_means(const proof *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->in.node->n_inputs; i++)
        n += is_mean(p, i);
    return n;
}

/* A node that reads a mean over the batch.  The same node with a sample in place of the batch must
   give a number whose mean over the samples is the node's result. */
static dpt_status of_mean(proof *p, dpt_error *error)
{
    static const char *const linear[] = {"Add",       "Cast",    "Div", "Flatten", "Identity",
                                         "Mean",      "Mul",     "Neg", "Reshape", "ReduceMean",
                                         "ReduceSum", "Squeeze", "Sub", "Sum",     "Unsqueeze"};
    const dpti_onnx_node *node = p->in.node;
    const size_t v = node->outputs[0];
    bool known = false;
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++)
        known = known || strcmp(linear[i], node->op) == 0;
    if (strcmp(node->op, "Mul") == 0) known = count_means(p) == 1;
    if (strcmp(node->op, "Div") == 0) known = count_means(p) == 1 && is_mean(p, 0);
    if (strcmp(node->op, "Cast") == 0)
        known = v != DPTI_ONNX_NONE && p->in.graph->facts[v].type == DPTI_ONNX_FLOAT;
    for (size_t i = 0; i < node->n_inputs; i++)
        known = known && !has_batch(p, i);
    if (!known || !gives_number(p, 0))
        return mixes(p,
                     "it computes with a mean over the batch, which can only be added to other "
                     "such means, or multiplied by a number, to become the loss",
                     error);
    return give_mean(p);
}

/* The losses of classes.  The divisor of a mean must be the number of samples. */
static dpt_status class_loss(proof *p, dpt_error *error)
{
    const char *reduction = dpti_onnx_string(p->in.node, "reduction", "mean");
    DPT_TRY(no_batch_from(p, 2, error));
    if (on_axis(p, 0, 1)) return mixes(p, "its classes are samples", error);
    if (strcmp(reduction, "none") == 0 || (!has_batch(p, 0) && !has_batch(p, 1)))
        return keep_order(p, error);
    if (!on_axis(p, 0, 0) || !on_axis(p, 1, 0))
        return mixes(p, "the batch is not its axis 0", error);
    DPT_TRY(keep_order(p, error));
    if (strcmp(reduction, "mean") != 0)
        return mixes(p,
                     "it sums over the batch; a loss is trained as a mean: export it with "
                     "reduction='mean'",
                     error);
    if (dpti_onnx_input(&p->in, 2) || dpti_onnx_int(p->in.node, "ignore_index", -1) >= 0)
        return mixes(p,
                     "with class weights or ignored labels its divisor is not the number of "
                     "samples; give the loss as an option of dptrain instead",
                     error);
    return give_mean(p);
}

/* ---- Axes ------------------------------------------------------------------------------------ */

static dpt_status reduced(proof *p, dpt_error *error)
{
    dpti_onnx_axes axes = {.rank = dpti_onnx_input(&p->in, 0)->shape.rank};
    DPT_TRY(dpti_onnx_read_axes(&p->in, 1, &axes, error));
    bool any = false;
    for (size_t d = 0; d < axes.rank; d++)
        any = any || axes.used[d];
    const bool nothing = !any && dpti_onnx_int(p->in.node, "noop_with_empty_axes", 0) != 0;
    if (has_batch(p, 0) && !nothing && (!any || axes.used[samples_of(p, 0)->axis])) {
        if (!gives_number(p, 0)) return mixes(p, "it reduces over the batch axis", error);
        if (strcmp(p->in.node->op, "ReduceMean") == 0) return give_mean(p);
        return mixes(
            p, "it reduces over the batch axis; a loss is trained as a mean over the batch", error);
    }
    return keep_order(p, error);
}

static dpt_status arg_reduced(proof *p, dpt_error *error)
{
    return along_axis(p, 0, "it reduces over the batch axis", error);
}

static dpt_status normalised_along(proof *p, dpt_error *error)
{
    return along_axis(p, -1, "it computes over the batch axis", error);
}

/* The axis of CumSum is an input. */
static dpt_status summed_along(proof *p, dpt_error *error)
{
    dpti_onnx_list list;
    DPT_TRY(dpti_onnx_read_list(&p->in, 1, &list, error));
    const size_t rank = dpti_onnx_input(&p->in, 0)->shape.rank;
    if (list.n != 1 || on_axis(p, 0, dpti_onnx_axis(list.cells[0].fixed, rank)))
        return mixes(p, "it sums along the batch axis", error);
    return keep_order(p, error);
}

static dpt_status triangle(proof *p, dpt_error *error)
{
    const size_t rank = dpti_onnx_input(&p->in, 0)->shape.rank;
    if (has_batch(p, 0) && samples_of(p, 0)->axis + 2 >= rank)
        return mixes(p, "its rows or columns are samples", error);
    return keep_order(p, error);
}

/* Over all axes from one on. */
static dpt_status layer_normalised(proof *p, dpt_error *error)
{
    DPT_TRY(no_batch_from(p, 1, error));
    if (has_batch(p, 0) && samples_of(p, 0)->axis >= axis_of(p, -1))
        return mixes(p, "it normalises over the batch axis", error);
    return keep_order(p, error);
}

/* Over everything but samples and channels: the batch must be axis 0. */
static dpt_status plane(proof *p, dpt_error *error)
{
    DPT_TRY(no_batch_from(p, 1, error));
    if (has_batch(p, 0) && samples_of(p, 0)->axis != 0)
        return mixes(p, "the batch is not its axis 0", error);
    return keep_order(p, error);
}

/* Each channel of each sample alone: the batch may be either axis. */
static dpt_status pooled(proof *p, dpt_error *error)
{
    if (has_batch(p, 0) && samples_of(p, 0)->axis > 1)
        return mixes(p, "its window moves over the batch axis", error);
    return keep_order(p, error);
}

static dpt_status batch_normalised(proof *p, dpt_error *error)
{
    DPT_TRY(no_batch_from(p, 1, error));
    if (on_axis(p, 0, 1)) return mixes(p, "its channels are samples", error);
    return keep_order(p, error);
}

/* The inputs behind the first are bounds or rates. */
static dpt_status one_by_one(proof *p, dpt_error *error)
{
    DPT_TRY(no_batch_from(p, 1, error));
    return keep_order(p, error);
}

/* ---- Products -------------------------------------------------------------------------------- */

static dpt_status multiplied(proof *p, dpt_error *error)
{
    const size_t ra = dpti_onnx_input(&p->in, 0)->shape.rank;
    const size_t rb = dpti_onnx_input(&p->in, 1)->shape.rank;
    if (on_axis(p, 0, ra - 1) || on_axis(p, 1, rb == 1 ? 0 : rb - 2))
        return mixes(p, "it sums over the batch axis", error);
    return keep_order(p, error);
}

static dpt_status gemm(proof *p, dpt_error *error)
{
    const bool ta = dpti_onnx_int(p->in.node, "transA", 0) != 0;
    const bool tb = dpti_onnx_int(p->in.node, "transB", 0) != 0;
    if (on_axis(p, 0, !ta) || on_axis(p, 1, tb))
        return mixes(p, "it sums over the batch axis", error);
    return keep_order(p, error);
}

/* A letter that names the batch must be in the result. */
static dpt_status einsum(proof *p, dpt_error *error)
{
    bool batch = false;
    for (size_t i = 0; i < p->in.node->n_inputs; i++)
        batch = batch || has_batch(p, i);
    const size_t v = p->in.node->outputs[0];
    if (v == DPTI_ONNX_NONE) return DPT_OK;
    const dpti_onnx_shape *y = &p->in.graph->facts[v].shape;
    if (batch && dpti_onnx_batch_axis(y) == y->rank)
        return mixes(p, "it sums over the batch axis", error);
    size_t ranks[DPTI_ONNX_MAX_OPERANDS];
    dpti_onnx_equation e;
    char letter = 0;
    for (size_t i = 0; i < p->in.node->n_inputs; i++)
        ranks[i] = dpti_onnx_input(&p->in, i)->shape.rank;
    if (!dpti_onnx_read_equation(dpti_onnx_string(p->in.node, "equation", ""), p->in.node->n_inputs,
                                 ranks, &e))
        return dpti_onnx_refuse(&p->in, DPT_E_FORMAT, error,
                                "its equation does not fit its inputs");
    for (size_t i = 0; i < e.n; i++)
        for (size_t d = 0; d < ranks[i]; d++) {
            if (!on_axis(p, i, d)) continue;
            if (letter && letter != e.term[i][d])
                return mixes(p, "it pairs samples with one another", error);
            letter = e.term[i][d];
        }
    return keep_order(p, error);
}

static dpt_status recurrent(proof *p, dpt_error *error)
{
    const bool batch_first = dpti_onnx_int(p->in.node, "layout", 0) != 0;
    if (on_axis(p, 0, batch_first) || on_axis(p, 0, 2))
        return mixes(p, "it takes the batch for time or for channels", error);
    for (size_t i = 1; i < p->in.node->n_inputs; i++) {
        const bool state = i == 5 || i == 6;
        if (has_batch(p, i) && !(i == 4 && has_batch(p, 0) && on_axis(p, i, 0)) &&
            !(state && has_batch(p, 0) && on_axis(p, i, !batch_first)))
            return mixes(p, "a parameter of it depends on the sample", error);
    }
    return keep_order(p, error);
}

/* The mask is broadcast to (N, heads, queries, keys). */
static dpt_status attention(proof *p, dpt_error *error)
{
    const dpti_onnx_fact *mask = dpti_onnx_input(&p->in, 3);
    for (size_t i = 0; i < 3; i++)
        if (has_batch(p, i) && !on_axis(p, i, 0))
            return mixes(p, "the batch is not its axis 0", error);
    if (mask && has_batch(p, 3) && (mask->shape.rank != 4 || !on_axis(p, 3, 0) || !has_batch(p, 0)))
        return mixes(p, "its mask pairs samples with one another", error);
    for (size_t i = 4; i < p->in.node->n_inputs; i++)
        if (has_batch(p, i) && (!on_axis(p, i, 0) || !has_batch(p, 0)))
            return mixes(p, "its cache pairs samples with one another", error);
    return keep_order(p, error);
}

/* ---- Which ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    rule *apply;
} rules[] = {
    {"ArgMax", arg_reduced},
    {"ArgMin", arg_reduced},
    {"Attention", attention},
    {"AveragePool", pooled},
    {"BatchNormalization", batch_normalised},
    {"Clip", one_by_one},
    {"Col2Im", plane},
    {"Concat", joined},
    {"Constant", keep_order},
    {"ConstantOfShape", keep_order},
    {"Conv", plane},
    {"ConvTranspose", plane},
    {"CumSum", summed_along},
    {"DepthToSpace", plane},
    {"Dropout", one_by_one},
    {"Einsum", einsum},
    {"Expand", keep_order},
    {"EyeLike", keep_order},
    {"Flatten", reshaped},
    {"GRU", recurrent},
    {"Gather", gathered},
    {"GatherElements", by_element},
    {"GatherND", gathered_parts},
    {"Gemm", gemm},
    {"GlobalAveragePool", pooled},
    {"GlobalLpPool", pooled},
    {"GlobalMaxPool", pooled},
    {"GroupNormalization", plane},
    {"Hardmax", normalised_along},
    {"InstanceNormalization", plane},
    {"LRN", plane},
    {"LSTM", recurrent},
    {"LayerNormalization", layer_normalised},
    {"LogSoftmax", normalised_along},
    {"LpNormalization", normalised_along},
    {"LpPool", pooled},
    {"MatMul", multiplied},
    {"MaxPool", pooled},
    {"NegativeLogLikelihoodLoss", class_loss},
    {"NonZero", keep_order},
    {"OneHot", one_by_one},
    {"Pad", keep_order},
    {"RMSNormalization", layer_normalised},
    {"RNN", recurrent},
    {"Range", keep_order},
    {"ReduceL1", reduced},
    {"ReduceL2", reduced},
    {"ReduceLogSum", reduced},
    {"ReduceLogSumExp", reduced},
    {"ReduceMax", reduced},
    {"ReduceMean", reduced},
    {"ReduceMin", reduced},
    {"ReduceProd", reduced},
    {"ReduceSum", reduced},
    {"ReduceSumSquare", reduced},
    {"Reshape", reshaped},
    {"Resize", one_by_one},
    {"ScatterElements", scattered},
    {"ScatterND", scattered_parts},
    {"SequenceAt", keep_order},
    {"Shape", keep_order},
    {"Size", keep_order},
    {"Slice", sliced},
    {"Softmax", normalised_along},
    {"SoftmaxCrossEntropyLoss", class_loss},
    {"SpaceToDepth", plane},
    {"Split", split},
    {"SplitToSequence", split},
    {"Squeeze", keep_order},
    {"Tile", tiled},
    {"TopK", normalised_along},
    {"Transpose", keep_order},
    {"Trilu", triangle},
    {"Unsqueeze", keep_order},
};

static rule *find_rule(const char *name)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, name) == 0) return rules[i].apply;
    for (const dpti_onnx_operator *op = dpti_onnx_elementwise; op->name; op++)
        if (strcmp(op->name, name) == 0) return keep_order;
    return NULL;
}

static dpt_status prove_node(proof *p, dpt_error *error)
{
    rule *apply = find_rule(p->in.node->op);
    if (count_means(p) > 0) return of_mean(p, error);
    if (!apply)
        return dpti_onnx_refuse(&p->in, DPT_E_UNSUPPORTED, error,
                                "it is not known whether the operator mixes samples");
    return apply(p, error);
}

static dpt_status check_outputs(const proof *p, dpt_error *error)
{
    const dpti_onnx_model *model = p->in.graph->model;
    for (size_t i = 0; i < model->n_outputs; i++) {
        const size_t v = model->outputs[i].value;
        const dpti_onnx_samples *s = &p->samples[v];
        if (s->axis < p->in.graph->facts[v].shape.rank && s->outer > 1)
            return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                                  "%s: the output \"%.80s\" does not have the elements of a sample "
                                  "one after another along its batch axis; transpose it in the "
                                  "model",
                                  model->path, model->values[v].name);
    }
    return DPT_OK;
}

dpt_status dpti_onnx_prove(dpti_onnx_graph *graph, const dpti_onnx_samples **out, dpt_error *error)
{
    const dpti_onnx_model *model = graph->model;
    proof p = {.in = {.graph = graph}};
    p.samples = dpti_onnx_take(&graph->arena, model->n_values, sizeof *p.samples);
    if (!p.samples) return dpti_onnx_no_memory(error);
    for (size_t v = 0; v < model->n_values; v++)
        p.samples[v] = (dpti_onnx_samples){dpti_onnx_batch_axis(&graph->facts[v].shape), 1, false};
    for (size_t i = 0; i < graph->n_nodes; i++) {
        p.in.node = graph->nodes[i];
        DPT_TRY(prove_node(&p, error));
    }
    if (out) *out = p.samples;
    graph->gives_loss = model->n_outputs > 0 &&
                        p.samples[model->outputs[dpti_onnx_trained_output(graph)].value].mean;
    return check_outputs(&p, error);
}
