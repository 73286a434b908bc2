/* Tests the compiler's differentiation, fusion and cutting into segments, for small networks
   (nets.h).  For each network, in double precision (interpreter.h): gradients against central
   differences of the loss; several virtual devices and several micro-batches against one.  Then
   the library's own steps and predictions, on one device and on three, against the interpreter. */
#include "gradient/gradient.h"
#include "graph/loss.h"
#include "reference/reference.h"
#include "train/interpreter.h"
#include "train/nets.h"
#include "train/replicas/state.h"
#include "train/state/trainer.h"
#include "train/support.h"

#include <string.h>

enum {
    COUNT = 6,
    PIXELS = NET_SIDE * NET_SIDE * NET_CHANNELS,
    MOST_LABELS = NET_SIDE * NET_SIDE,
    DEVICES = 3
};

typedef struct setting {
    const net *net;
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *model;
    float *parameters; /* (flat_size) */
    dpti_program_options options;
} setting;

static const uint64_t seed = UINT64_C(0x123456789abcdef);
static const uint32_t records[COUNT] = {0, 1, 2, 3, 4, 5};

/* ---- Setting up ------------------------------------------------------------------------------ */

/* If a sample has several labels, some of them are ignored, and their number differs by sample. */
static void make_labels(size_t n_labels, int32_t *out)
{
    const size_t each = n_labels ? n_labels : 1;
    for (size_t i = 0; i < COUNT * each; i++)
        out[i] = each > 1 && i * i % 11 < 4 ? DPT_IGNORED_LABEL : (int32_t)(i % NET_CLASSES);
}

/* Ids from 0 to NET_VOCABULARY - 1, most of them several times. */
static dpt_status make_ids(dpt_context *context, size_t n_labels, dpt_dataset **out)
{
    int32_t ids[COUNT * NET_IDS], labels[COUNT * MOST_LABELS];
    for (size_t i = 0; i < COUNT * NET_IDS; i++)
        ids[i] = (int32_t)(i * i + i / 5) % NET_VOCABULARY;
    make_labels(n_labels, labels);
    return dpt_dataset_from_memory(context,
                                   &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                                         .count = COUNT,
                                                         .height = 1,
                                                         .width = 1,
                                                         .channels = NET_IDS,
                                                         .outputs = NET_CLASSES,
                                                         .dtype = DPT_I32,
                                                         .images = ids,
                                                         .labels = labels,
                                                         .label_dtype = DPT_I32,
                                                         .labels_per_sample = n_labels,
                                                         .vocabulary = NET_VOCABULARY},
                                   out);
}

static dpt_status make_data(dpt_context *context, const net *n, dpt_dataset **out)
{
    const bool targets = dpti_loss_has_targets(n->loss);
    if (n->ids) return make_ids(context, n->n_labels, out);

    test_random random = {5};
    float images[COUNT * PIXELS], values[COUNT * NET_CLASSES];
    int32_t labels[COUNT * MOST_LABELS];
    make_labels(n->n_labels, labels);
    test_fill_normal(&random, images, COUNT * PIXELS);
    test_fill_normal(&random, values, COUNT * NET_CLASSES);
    return dpt_dataset_from_memory(context,
                                   &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                                         .count = COUNT,
                                                         .height = NET_SIDE,
                                                         .width = NET_SIDE,
                                                         .channels = NET_CHANNELS,
                                                         .outputs = NET_CLASSES,
                                                         .dtype = DPT_F32,
                                                         .images = images,
                                                         .labels = targets ? NULL : labels,
                                                         .label_dtype = DPT_I32,
                                                         .labels_per_sample = n->n_labels,
                                                         .targets = targets ? values : NULL,
                                                         .mean = {0.5f, -0.25f},
                                                         .deviation = {2, 0.5f}},
                                   out);
}

static float draw(test_random *random, dpti_role role)
{
    const double u = test_random_uniform(random);
    switch (role) {
    case DPTI_ROLE_NORM_WEIGHT:
    case DPTI_ROLE_RUNNING_VARIANCE: return (float)(0.5 + u);
    case DPTI_ROLE_TENSOR:
    case DPTI_ROLE_WEIGHT:
    case DPTI_ROLE_BIAS:
    case DPTI_ROLE_NORM_BIAS:
    case DPTI_ROLE_RUNNING_MEAN: break;
    }
    return (float)(u - 0.5);
}

static bool draw_parameters(setting *s)
{
    test_random random = {9};
    s->parameters = calloc(s->model->flat_size, sizeof *s->parameters);
    if (!s->parameters) return false;
    for (size_t i = 0; i < s->model->n_parameters; i++) {
        const dpti_parameter *p = &s->model->parameters[i];
        for (size_t e = 0; e < p->size; e++)
            s->parameters[p->offset + e] = draw(&random, p->role);
    }
    return true;
}

/* Every second network takes AdamW. */
static dpti_optimizer optimizer_of(const net *n)
{
    if ((n - nets) % 2 == 0)
        return (dpti_optimizer){.momentum = 0.9f, .nesterov = true, .weight_decay = 0.1f};
    return (dpti_optimizer){.kind = DPT_OPTIMIZER_ADAMW,
                            .no_bias_decay = true,
                            .weight_decay = 0.1f,
                            .beta1 = 0.9f,
                            .beta2 = 0.999f,
                            .epsilon = 1e-8f,
                            .clip_norm = 0.25f};
}

/* Every third network sees changed images. */
static dpt_augment_options augment_of(const net *n)
{
    if ((n - nets) % 3 != 0 || n->ids) return (dpt_augment_options){.flip = false};
    return (dpt_augment_options){.crop_padding = 1, .flip = true, .erase = 0.5f};
}

static bool set_up(test *t, const net *n, setting *s)
{
    *s = (setting){.net = n};
    const bool made = CHECK_OK(dpt_context_create(&s->context)) &&
                      CHECK_OK(make_data(s->context, n, &s->data)) &&
                      CHECK_OK(net_create(s->context, n, &s->model)) && CHECK(draw_parameters(s));
    if (!made) FAIL("%s: %s", n->name, s->context ? dpt_error_message(s->context) : "");
    s->options = (dpti_program_options){.data = s->data,
                                        .purpose = DPTI_PURPOSE_TRAIN,
                                        .loss = n->loss,
                                        .huber_delta = n->delta,
                                        .class_weights = n->class_weights,
                                        .label_smoothing = n->smoothing,
                                        .augment = augment_of(n),
                                        .rotate = augment_of(n).flip ? 40.0f : 0.0f,
                                        .optimizer = optimizer_of(n)};
    return made;
}

static void tear_down(setting *s)
{
    free(s->parameters);
    dpt_model_destroy(s->model);
    dpt_dataset_destroy(s->data);
    dpt_context_destroy(s->context);
}

static void with_nets(test *t, void (*check)(test *t, setting *s))
{
    for (size_t i = 0; i < n_nets; i++) {
        setting s;
        const size_t before = t->n_failures;
        if (set_up(t, &nets[i], &s)) check(t, &s);
        if (t->n_failures > before) FAIL("net: %s", nets[i].name);
        tear_down(&s);
    }
}

static bool interpret(test *t, const setting *s, const dpti_program_options *options,
                      size_t n_devices, interpreter *out)
{
    if (!CHECK(interpreter_create(s->model, options, n_devices, out))) return false;
    for (size_t i = 0; i < s->model->flat_size; i++)
        out->parameters[i] = (double)s->parameters[i];
    out->seed = seed;
    out->lr = 0.125;
    out->adam_scale_m = 1 / (1 - (double)0.9f);
    out->adam_scale_v = 1 / sqrt(1 - (double)0.999f);
    return true;
}

/* ---- Gradients by central differences -------------------------------------------------------- */

static double loss_of(void *argument)
{
    return interpreter_compute(argument, records, (const size_t[]){COUNT}, 1.0 / COUNT);
}

static void differences(test *t, setting *s)
{
    interpreter it;
    if (interpret(t, s, &s->options, 1, &it)) {
        double *analytic = values(s->model->flat_size), *numeric = values(s->model->flat_size);
        CHECK(isfinite(loss_of(&it)));
        memcpy(analytic, it.gradients, s->model->flat_size * sizeof *analytic);
        for (size_t i = 0; i < s->model->n_parameters; i++) {
            const dpti_parameter *p = &s->model->parameters[i];
            if (dpti_is_statistic(p->role)) continue;
            central_differences(loss_of, &it, 1e-5, it.parameters + p->offset, p->size, numeric);
            const double error = worst(analytic + p->offset, numeric, p->size);
            if (!CHECK(error <= 1e-8)) FAIL("%s: off by %g", p->name, error);
        }
        free(analytic);
        free(numeric);
    }
    interpreter_free(&it);
}

static void gradients_are_those_of_the_loss(test *t)
{
    with_nets(t, differences);
}

/* ---- Fusion ---------------------------------------------------------------------------------- */

static void count_unfused(test *t, setting *s)
{
    interpreter it;
    size_t n = 0;
    if (interpret(t, s, &s->options, 1, &it)) {
        for (size_t i = 0; i < it.program.n_instructions; i++) {
            const dpt_op_kind kind = it.program.instructions[i].desc.kind;
            if (kind == DPT_OP_SOFTMAX_XENT_GRADIENT || kind == DPT_OP_SQUARED_ERROR_GRADIENT)
                break;
            n += kind == DPT_OP_ACTIVATION_FORWARD || kind == DPT_OP_ADD;
        }
        CHECK_SIZE(n, s->net->n_unfused);
    }
    interpreter_free(&it);
}

static void neighbours_are_fused(test *t)
{
    with_nets(t, count_unfused);
}

/* ---- What is computed, node by node ---------------------------------------------------------- */

static const double *parameter_of(const setting *s, const interpreter *it, size_t parameter)
{
    return parameter == SIZE_MAX ? NULL : it->parameters + s->model->parameters[parameter].offset;
}

static void normalize(const dpti_node *node, reference_args args)
{
    enum { MOST = NET_SIDE * NET_SIDE * NET_CHANNELS };
    double part[3 * MOST], moments[3 * MOST], unused[2 * MOST];
    dpt_op_desc desc = node->forward;
    desc.kind = DPT_OP_BATCH_NORM_PARTIAL;
    reference_run(&desc, COUNT, &(reference_args){.in = {args.in[0]}, .out = {part}});
    desc.kind = DPT_OP_BATCH_NORM_MERGE;
    reference_run(
        &desc, COUNT,
        &(reference_args){.in = {part}, .out = {moments, unused, unused + MOST}, .inv_batch = 1});
    args.in[3] = args.in[2];
    args.in[2] = args.in[1];
    args.in[1] = moments;
    reference_run(&node->forward, COUNT, &args);
}

/* A JOIN of all samples, element by element. */
static void join(const dpt_model *m, const dpti_node *node, double **value, double *out)
{
    const size_t n = node->unsampled ? 1 : COUNT;
    for (size_t e = 0; e < n * node->size; e++)
        out[e] = (double)node->join.fill;
    for (size_t k = 0; k < node->n_inputs; k++) {
        const dpti_node *from = &m->nodes[node->inputs[k]];
        for (size_t e = 0; e < n * from->elements; e++) {
            const size_t sample = e / from->elements;
            size_t rest = e % from->elements;
            int64_t at = (int64_t)from->shape.offset, to = (int64_t)node->join.offset[k];
            for (size_t axis = from->shape.rank; axis-- > 0;) {
                const int64_t index = (int64_t)(rest % from->shape.extent[axis]);
                rest /= from->shape.extent[axis];
                at += index * from->shape.stride[axis];
                to += index * node->join.step[axis];
            }
            const size_t source = from->unsampled ? 0 : sample * from->size;
            out[sample * node->size + (size_t)to] = value[node->inputs[k]][source + (size_t)at];
        }
    }
}

/* Nodes that compute nothing, or that have no operator of their own.  Returns whether this is one.
 */
static bool move_node(const setting *s, const interpreter *it, size_t i, double **value)
{
    const dpti_node *node = &s->model->nodes[i];
    const double *from = NULL;
    size_t n = node->elements;
    switch (node->kind) {
    case DPTI_NODE_FLATTEN:
    case DPTI_NODE_VIEW:
        from = value[node->inputs[0]];
        n = COUNT * node->size;
        break;
    case DPTI_NODE_PARAMETER: from = parameter_of(s, it, node->weight); break;
    case DPTI_NODE_CONSTANT: from = it->constants + node->constant; break;
    case DPTI_NODE_JOIN: join(s->model, node, value, value[i]); return true;
    default: return false;
    }
    memcpy(value[i], from, n * sizeof *from);
    return true;
}

/* A node from the values of those before it. */
static void compute_node(const setting *s, const interpreter *it, size_t i, double **value)
{
    const dpti_node *node = &s->model->nodes[i];
    const double *x = value[node->inputs[0]];
    double index[COUNT], moments[2 * COUNT * NET_SIDE * NET_SIDE];
    reference_args args = {
        .in = {x, parameter_of(s, it, node->weight), parameter_of(s, it, node->bias)},
        .out = {value[i], moments},
        .seed = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .epoch = 1};
    for (size_t k = 0; k < COUNT; k++)
        index[k] = records[k];
    if (node->kind == DPTI_NODE_INPUT && s->net->ids) {
        memcpy(value[i], it->images, COUNT * NET_IDS * sizeof *value[i]);
        return;
    }
    if (node->kind == DPTI_NODE_INPUT) {
        const size_t c = s->data->stat_channels;
        for (size_t e = 0; e < COUNT * PIXELS; e++)
            value[i][e] =
                (it->images[e] - (double)s->data->mean[e % c]) * (double)s->data->scale[e % c];
        return;
    }
    if (move_node(s, it, i, value)) return;
    if (node->kind == DPTI_NODE_DROPOUT) args.in[1] = index;
    if (node->kind == DPTI_NODE_EMBEDDING) {
        args.in[0] = args.in[1];
        args.in[1] = x;
    }
    const bool filters_are_value =
        (node->kind == DPTI_NODE_CONV2D || node->kind == DPTI_NODE_CONV2D_TRANSPOSE) &&
        node->n_inputs > 1;
    const bool reads_values =
        filters_are_value || node->kind == DPTI_NODE_ADD || node->kind == DPTI_NODE_PRODUCT ||
        node->kind == DPTI_NODE_ELEMENTWISE || node->kind == DPTI_NODE_PROJECTION ||
        node->kind == DPTI_NODE_RECURRENT || node->kind == DPTI_NODE_ATTENTION;
    for (size_t k = 1; reads_values && k < node->n_inputs; k++)
        args.in[k] = value[node->inputs[k]];
    dpt_op_desc forward = node->forward;
    if (node->kind == DPTI_NODE_RECURRENT) forward.u.recurrent.no_gradient = true;
    if (node->kind == DPTI_NODE_ATTENTION) forward.u.attention.no_gradient = true;
    if (node->kind == DPTI_NODE_BATCH_NORM)
        normalize(node, args);
    else
        reference_run(&forward, node->unsampled ? 1 : COUNT * (node->repeat ? node->repeat : 1),
                      &args);
}

/* By the textbook: not as the library computes it. */
static double loss_of_output(const net *n, double y, double target)
{
    const double a = fabs(y - target), p = 1 / (1 + exp(-y)), delta = (double)n->delta;
    if (n->loss == DPT_LOSS_SQUARED_ERROR) return a * a;
    if (n->loss == DPT_LOSS_ABSOLUTE_ERROR) return a;
    if (n->loss == DPT_LOSS_HUBER) return a <= delta ? a * a / 2 : delta * (a - delta / 2);
    return -target * log(p) - (1 - target) * log(1 - p);
}

static double loss_of_logits(const setting *s, const interpreter *it, const double *logits)
{
    const size_t n = COUNT * s->model->n_labels;
    double results[2 * COUNT * MOST_LABELS], sum = 0;
    const dpt_op_desc desc = {
        .kind = DPT_OP_SOFTMAX_XENT,
        .u.softmax = {.classes = NET_CLASSES, .smoothing = s->net->smoothing}};
    if (dpti_loss_has_targets(s->net->loss)) {
        for (size_t i = 0; i < n * NET_CLASSES; i++)
            sum += loss_of_output(s->net, logits[i], it->labels[i]) / NET_CLASSES;
        return sum / (COUNT * it->labels_per_sample);
    }
    reference_run(&desc, n, &(reference_args){.in = {logits, it->labels}, .out = {results}});
    for (size_t i = 0; i < n; i++)
        if (it->labels[i] >= 0)
            sum +=
                results[2 * i] *
                (s->net->class_weights ? (double)s->net->class_weights[(size_t)it->labels[i]] : 1);
    return sum / (COUNT * it->labels_per_sample);
}

static void node_by_node(test *t, setting *s)
{
    interpreter it;
    const dpt_model *m = s->model;
    double **value = calloc(m->n_nodes, sizeof *value);
    s->options.augment = (dpt_augment_options){.flip = false};
    s->options.rotate = 0;
    if (CHECK(value) && interpret(t, s, &s->options, 1, &it)) {
        for (size_t i = 0; i < m->n_nodes; i++) {
            value[i] = values(COUNT * m->nodes[i].size);
            compute_node(s, &it, i, value);
        }
        CHECK_NEAR(loss_of(&it), loss_of_logits(s, &it, value[m->logits]), 1e-13);
    }
    for (size_t i = 0; value && i < m->n_nodes; i++)
        free(value[i]);
    free(value);
    interpreter_free(&it);
}

static void programs_compute_their_graphs(test *t)
{
    with_nets(t, node_by_node);
}

/* ---- Several devices, several micro-batches -------------------------------------------------- */

static const size_t divisions[][DEVICES] = {{2, 3, 1}, {0, 5, 1}, {0, 0, 6}};

static void check_equal(test *t, const interpreter *a, const interpreter *b, const char *what)
{
    for (size_t i = 0; i < a->model->n_parameters; i++) {
        const dpti_parameter *p = &a->model->parameters[i];
        for (size_t e = p->offset; e < p->offset + p->size; e++)
            if (!CHECK_NEAR(a->gradients[e], b->gradients[e],
                            1e-12 * (1 + fabs(b->gradients[e])))) {
                FAIL("%s: %s", what, p->name);
                break;
            }
    }
}

static void divide_batch(test *t, setting *s)
{
    interpreter one, three;
    dpti_program_options options = s->options;
    options.n_parts = DEVICES;
    options.holds_filters = true;
    if (interpret(t, s, &s->options, 1, &one) && interpret(t, s, &options, DEVICES, &three)) {
        const double loss = loss_of(&one);
        for (size_t i = 0; i < sizeof divisions / sizeof *divisions; i++) {
            CHECK_NEAR(interpreter_compute(&three, records, divisions[i], 1.0 / COUNT), loss,
                       1e-12);
            check_equal(t, &three, &one, "three devices");
        }
    }
    interpreter_free(&one);
    interpreter_free(&three);
}

static void devices_exchange_all_they_need(test *t)
{
    with_nets(t, divide_batch);
}

/* Batch-norms with a ReLU and no shortcut, and those that apply its derivative themselves. */
static size_t count_masks(const dpti_program *program, size_t *n_own)
{
    size_t n = *n_own = 0;
    for (size_t i = 0; i < program->n_instructions; i++) {
        const dpt_op_desc *desc = &program->instructions[i].desc;
        const dpt_batch_norm_desc *d = &desc->u.batch_norm;
        if (desc->kind == DPT_OP_BATCH_NORM_FORWARD)
            n += d->activation == DPT_ACT_RELU && !d->has_residual;
        if (desc->kind == DPT_OP_BATCH_NORM_BACKWARD_PARTIAL)
            *n_own += d->output_activation == DPT_ACT_RELU;
    }
    return n;
}

/* On devices where it is batch-norms that do it, beside those where it is not. */
static void mask_in_norms(test *t, setting *s)
{
    interpreter one, three;
    dpti_program_options options = s->options;
    options.norms_mask = true;
    options.n_parts = DEVICES;
    if (interpret(t, s, &s->options, 1, &one) && interpret(t, s, &options, DEVICES, &three)) {
        const double loss = loss_of(&one);
        CHECK_NEAR(interpreter_compute(&three, records, divisions[0], 1.0 / COUNT), loss, 1e-12);
        check_equal(t, &three, &one, "batch-norms that mask");
        size_t n_of_one, n_of_three;
        const size_t n = count_masks(&three.program, &n_of_three);
        CHECK_SIZE(count_masks(&one.program, &n_of_one), n);
        CHECK_SIZE(n_of_one, 0);
        CHECK_SIZE(n_of_three, n);
    }
    interpreter_free(&one);
    interpreter_free(&three);
}

static void batch_norms_mask_themselves(test *t)
{
    with_nets(t, mask_in_norms);
}

/* ---- Recomputation --------------------------------------------------------------------------- */

static size_t count_again(const dpti_program *program)
{
    size_t n = 0;
    for (size_t i = 0; i < program->n_instructions; i++)
        n += program->instructions[i].again > 0;
    return n;
}

/* The same operators compute the same values again: no bit of a gradient, or of what a batch
   contributes to running statistics, changes. */
static void compute_again(test *t, setting *s)
{
    static size_t n_again;
    for (size_t n_devices = 1; n_devices <= DEVICES; n_devices += DEVICES - 1) {
        interpreter kept, again = {0};
        const size_t whole[] = {COUNT}, *shards = n_devices == 1 ? whole : divisions[0];
        dpti_program_options options = s->options;
        options.n_parts = n_devices;
        options.holds_filters = true;
        bool right = interpret(t, s, &options, n_devices, &kept);
        options.recompute = true;
        right = interpret(t, s, &options, n_devices, &again) && right;
        if (right) {
            const double loss = interpreter_compute(&kept, records, shards, 1.0 / COUNT);
            CHECK_NEAR(interpreter_compute(&again, records, shards, 1.0 / COUNT), loss, 0);
            CHECK(memcmp(again.gradients, kept.gradients,
                         s->model->flat_size * sizeof *kept.gradients) == 0);
            CHECK_SIZE(count_again(&kept.program), 0);
            n_again += count_again(&again.program);
        }
        interpreter_free(&kept);
        interpreter_free(&again);
    }
    if (s->net == &nets[n_nets - 1]) CHECK(n_again >= 20);
}

static void recomputation_has_the_same_bits(test *t)
{
    with_nets(t, compute_again);
}

/* Devices that take their own statistics are micro-batches of one device. */
static void divide_shard(test *t, setting *s)
{
    interpreter three = {0}, in_micro_batches = {0};
    dpti_program_options options = s->options;
    options.accumulate = true;
    if (interpret(t, s, &s->options, DEVICES, &three) &&
        interpret(t, s, &options, 1, &in_micro_batches)) {
        for (size_t i = 0; i < sizeof divisions / sizeof *divisions; i++) {
            const double loss = interpreter_compute(&three, records, divisions[i], 1.0 / COUNT);
            double sum = 0;
            size_t done = 0;
            memset(in_micro_batches.gradients, 0,
                   s->model->flat_size * sizeof *in_micro_batches.gradients);
            for (size_t d = 0; d < DEVICES; done += divisions[i][d++])
                if (divisions[i][d] > 0)
                    sum += interpreter_compute(&in_micro_batches, records + done, &divisions[i][d],
                                               1.0 / COUNT);
            CHECK_NEAR(sum, loss, 1e-12);
            check_equal(t, &in_micro_batches, &three, "micro-batches");
        }
    }
    interpreter_free(&three);
    interpreter_free(&in_micro_batches);
}

static void micro_batches_add_up(test *t)
{
    with_nets(t, divide_shard);
}

/* ---- Frozen parameters ----------------------------------------------------------------------- */

static const size_t whole[] = {COUNT};

static bool is_frozen_place(const setting *s, const dpti_parameter_rule *rules, size_t offset)
{
    for (size_t i = 0; i < s->model->n_parameters; i++) {
        const dpti_parameter *p = &s->model->parameters[i];
        if (offset >= p->offset && offset < p->offset + p->size) return rules[i].frozen;
    }
    return false;
}

/* Whether an instruction computes gradients of frozen parameters and nothing else. */
static bool is_wasted(const setting *s, const dpti_program *p, const dpti_instruction *in,
                      const dpti_parameter_rule *rules)
{
    size_t n = 0;
    for (size_t k = 0; k < DPT_MAX_OUTPUTS; k++) {
        if (in->out[k] == DPTI_NO_TENSOR) continue;
        const dpti_program_tensor *to = &p->tensors[in->out[k]];
        if (to->home != DPTI_HOME_GRADIENTS || !is_frozen_place(s, rules, to->offset)) return false;
        n++;
    }
    return n > 0;
}

static size_t count_instructions(test *t, const setting *s, const dpti_program *p,
                                 const dpti_parameter_rule *rules)
{
    size_t n = 0;
    for (size_t k = 0; k < p->n_segments; k++)
        for (size_t i = p->segments[k].first; i < p->segments[k].last; i++) {
            if (p->segments[k].commits) continue;
            n++;
            if (!CHECK(!is_wasted(s, p, &p->instructions[i], rules)))
                FAIL("%s computes gradients that nobody needs", p->instructions[i].layer);
        }
    return n;
}

/* Gradients of what is trained are those of a program that trains everything, to the bit. */
static void check_frozen(test *t, setting *s, const interpreter *all,
                         const dpti_parameter_rule *rules)
{
    interpreter some;
    dpti_program_options options = s->options;
    options.optimizer.rules = rules;
    options.n_parts = all->n_devices;
    options.holds_filters = true;
    if (interpret(t, s, &options, all->n_devices, &some)) {
        (void)interpreter_compute(&some, records, all->n_devices == 1 ? whole : divisions[0],
                                  1.0 / COUNT);
        for (size_t i = 0; i < s->model->n_parameters; i++) {
            const dpti_parameter *p = &s->model->parameters[i];
            if (rules[i].frozen) continue;
            if (!CHECK(memcmp(some.gradients + p->offset, all->gradients + p->offset,
                              p->size * sizeof *some.gradients) == 0))
                FAIL("the gradient of %s differs", p->name);
        }
        CHECK(count_instructions(t, s, &some.program, rules) <= all->program.n_instructions);
    }
    interpreter_free(&some);
}

/* Each parameter alone, and each with all before it. */
static void freeze(test *t, setting *s)
{
    const size_t n = s->model->n_parameters;
    dpti_parameter_rule *rules = calloc(n, sizeof *rules);
    for (size_t k = 0; k < 2 && CHECK(rules); k++) {
        interpreter all;
        dpti_program_options options = s->options;
        const size_t n_devices = k == 0 ? 1 : DEVICES;
        options.n_parts = n_devices;
        options.holds_filters = true;
        if (!interpret(t, s, &options, n_devices, &all)) break;
        (void)interpreter_compute(&all, records, n_devices == 1 ? whole : divisions[0],
                                  1.0 / COUNT);
        for (size_t i = 0; i < 2 * n; i++) {
            for (size_t p = 0; p < n; p++) {
                const bool alone = i < n && p == i, before = i >= n && p <= i - n;
                const bool chosen = alone || before;
                rules[p] = (dpti_parameter_rule){.frozen = chosen, .lr_factor = 1};
                if (dpti_is_statistic(s->model->parameters[p].role)) rules[p].frozen = false;
            }
            check_frozen(t, s, &all, rules);
        }
        interpreter_free(&all);
    }
    free(rules);
}

static void frozen_parameters_have_no_gradient(test *t)
{
    with_nets(t, freeze);
}

/* ---- The library ----------------------------------------------------------------------------- */

static dpt_trainer_options trainer_options(const setting *s, const char *split)
{
    const dpti_optimizer *o = &s->options.optimizer;
    return (dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                 .batch_size = COUNT,
                                 .split = dpt_split_from(split),
                                 .optimizer = o->kind,
                                 .lr = 0.125f,
                                 .momentum = o->momentum,
                                 .nesterov = o->nesterov,
                                 .weight_decay = o->weight_decay,
                                 .no_bias_decay = o->no_bias_decay,
                                 .clip_norm = o->clip_norm,
                                 .loss = s->net->loss,
                                 .huber_delta = s->net->delta,
                                 .class_weights = s->net->class_weights,
                                 .n_class_weights = s->net->class_weights ? NET_CLASSES : 0,
                                 .label_smoothing = s->net->smoothing,
                                 .augment = s->options.augment,
                                 .rotate = s->options.rotate,
                                 /* Of up to 36: a chunk has rows of two samples, and not all. */
                                 .logit_rows = s->net->n_labels ? 4 : 0,
                                 .seed = seed,
                                 .no_shuffle = true};
}

/* Whether a part of a parameter has a gradient that is 0 but for rounding, which AdamW divides by
   itself: in front of a batch-norm, and the bias of attention's keys, which soft-max ignores. */
static bool gradient_cancels(const dpt_model *model, size_t parameter)
{
    return feeds_batch_norm(model, parameter) ||
           strstr(model->parameters[parameter].name, ".in_proj_bias");
}

/* Every tensor of one kind, with an absolute part for what cancels. */
static void check_flat(test *t, const setting *s, dpt_trainer *trainer, dpt_tensor_kind kind,
                       const double *reference)
{
    const size_t n = dpt_device_set_count(trainer->devices);
    float *flat = calloc(s->model->flat_size, sizeof *flat);
    for (size_t rank = 0; rank < n && CHECK(flat); rank++) {
        if (!CHECK_OK(dpti_trainer_read(trainer, rank, kind, flat))) break;
        for (size_t i = 0; i < s->model->n_parameters; i++) {
            const dpti_parameter *p = &s->model->parameters[i];
            if (kind != DPT_GRADIENT && gradient_cancels(s->model, i)) continue;
            const double error = parameter_error(p, flat, reference);
            if (!CHECK(error <= 1e-5 * parameter_norm(p, reference) + 3e-6))
                FAIL("kind %d of %s on device %zu: off by %g of %g", (int)kind, p->name, rank,
                     error, parameter_norm(p, reference));
        }
    }
    free(flat);
}

static void check_step(test *t, const setting *s, dpt_trainer *trainer, interpreter *it)
{
    dpt_step_metrics metrics = {.size = sizeof metrics};
    const size_t n = dpt_device_set_count(trainer->devices);
    for (size_t rank = 0; rank < n; rank++)
        REQUIRE_OK(dpti_trainer_write(trainer, rank, DPT_PARAMETER, s->parameters));
    REQUIRE_OK(dpt_trainer_step(trainer, &metrics));
    CHECK_NEAR(metrics.loss, loss_of(it), 1e-5);
    interpreter_commit(it);
    check_flat(t, s, trainer, DPT_GRADIENT, it->gradients);
    check_flat(t, s, trainer, DPT_PARAMETER, it->parameters);
    check_flat(t, s, trainer, DPT_VELOCITY, it->velocity);
    if (s->options.optimizer.kind == DPT_OPTIMIZER_ADAMW)
        check_flat(t, s, trainer, DPT_SQUARES, it->squares);
}

/* With the weights that the trainer has now: biases that feed a batch-norm are those of rounding.
 */
static bool interpret_weights(test *t, const setting *s, dpt_trainer *trainer,
                              const dpti_program_options *options, interpreter *out)
{
    float *flat = calloc(s->model->flat_size, sizeof *flat);
    const bool made = interpret(t, s, options, 1, out) && CHECK(flat) &&
                      CHECK_OK(dpti_trainer_read(trainer, 0, DPT_PARAMETER, flat));
    for (size_t i = 0; made && i < s->model->flat_size; i++)
        out->parameters[i] = (double)flat[i];
    free(flat);
    return made;
}

/* Of logits, in place. */
static void softmax(double *row)
{
    double sum = 0;
    for (size_t i = 0; i < NET_CLASSES; i++)
        sum += row[i] = exp(row[i]);
    for (size_t i = 0; i < NET_CLASSES; i++)
        row[i] /= sum;
}

static void sigmoids(double *row)
{
    for (size_t i = 0; i < NET_CLASSES; i++)
        row[i] = 1 / (1 + exp(-row[i]));
}

static void check_prediction(test *t, const setting *s, dpt_trainer *trainer)
{
    interpreter it;
    float out[COUNT * MOST_LABELS * NET_CLASSES];
    const size_t n_rows = s->model->n_labels;
    const dpti_program_options options = {
        .data = s->data, .purpose = DPTI_PURPOSE_PREDICT, .loss = s->net->loss};
    if (interpret_weights(t, s, trainer, &options, &it)) {
        (void)loss_of(&it);
        /* The last samples only: those of records 1 and on. */
        CHECK_OK(dpt_trainer_predict(trainer, s->data, 1, COUNT - 1, out));
        for (size_t i = n_rows; i < COUNT * n_rows; i++) {
            double *row = it.results + i * NET_CLASSES;
            if (s->net->loss == DPT_LOSS_CROSS_ENTROPY) softmax(row);
            if (s->net->loss == DPT_LOSS_BINARY_CROSS_ENTROPY) sigmoids(row);
            for (size_t c = 0; c < NET_CLASSES; c++)
                CHECK_NEAR((double)out[(i - n_rows) * NET_CLASSES + c], row[c], 2e-5);
        }
    }
    interpreter_free(&it);
}

static void check_evaluation(test *t, const setting *s, dpt_trainer *trainer)
{
    interpreter it;
    dpt_evaluation evaluation = {.size = sizeof evaluation};
    const dpti_program_options options = {.data = s->data,
                                          .purpose = DPTI_PURPOSE_EVALUATE,
                                          .loss = s->net->loss,
                                          .huber_delta = s->net->delta};
    if (interpret_weights(t, s, trainer, &options, &it)) {
        CHECK_OK(dpt_trainer_evaluate(trainer, s->data, &evaluation));
        CHECK_NEAR(evaluation.loss, loss_of(&it), 2e-5);
    }
    interpreter_free(&it);
}

static void check_library(test *t, setting *s, const char *devices, const char *split)
{
    dpt_device_set *set = NULL;
    dpt_trainer *trainer = NULL;
    interpreter it = {0};
    const dpt_trainer_options options = trainer_options(s, split);
    if (CHECK_OK(dpt_device_set_open(s->context, devices, &set)) &&
        CHECK_OK(dpt_trainer_create(set, s->model, s->data, &options, &trainer)) &&
        interpret(t, s, &s->options, 1, &it)) {
        check_step(t, s, trainer, &it);
        check_prediction(t, s, trainer);
        check_evaluation(t, s, trainer);
    } else {
        FAIL("%s: %s", devices, dpt_error_message(s->context));
    }
    interpreter_free(&it);
    dpt_trainer_destroy(trainer);
    dpt_device_set_close(set);
}

static void library(test *t, setting *s)
{
    check_library(t, s, "cpu:threads=2", NULL);
    check_library(t, s, "cpu:threads=1,faultstaged:threads=1,cpu:threads=1", "4:0:2");
    check_library(t, s, "faultstaged:threads=1,cpu:threads=1,cpu:threads=1", "1:3:2");
}

static void library_computes_the_same(test *t)
{
    with_nets(t, library);
}

/* ---- The interpreter itself ------------------------------------------------------------------ */

/* A parameter in a checkpoint's layout, at twice the precision that the conversion has. */
static bool export_double(const dpti_parameter *p, const double *flat, double *outside)
{
    float *high = calloc(4 * p->size, sizeof *high);
    float *low = high + p->size, *out_high = low + p->size, *out_low = out_high + p->size;
    if (!high) return false;
    for (size_t i = 0; i < p->size; i++) {
        high[i] = (float)flat[p->offset + i];
        low[i] = (float)(flat[p->offset + i] - (double)high[i]);
    }
    dpti_parameter_export(p, high, out_high);
    dpti_parameter_export(p, low, out_low);
    for (size_t i = 0; i < p->size; i++)
        outside[i] = (double)out_high[i] + (double)out_low[i];
    free(high);
    return true;
}

/* LeNet from the mathematics, which shares nothing with the library. */
static void compare_with_lenet64(test *t, dpt_context *context, const image_set *images)
{
    enum { N = 5 };
    const dpt_model_shape shape = {28, 28, 1, 10};
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = N,
                                       .height = 28,
                                       .width = 28,
                                       .channels = 1,
                                       .outputs = 10,
                                       .dtype = DPT_U8,
                                       .images = images->pixels,
                                       .labels = images->labels};
    dpt_dataset *data = NULL;
    dpt_model *model = NULL;
    dpt_error error = {0};
    interpreter it;
    lenet64 weights, gradients;
    static double pixels[N * 28 * 28];
    static float flat[1 << 18];
    REQUIRE_OK(dpt_dataset_from_memory(context, &memory, &data));
    REQUIRE_OK(dpt_model_by_name(context, "lenet", &shape, &model));
    REQUIRE(lenet64_create(&weights) && lenet64_create(&gradients));
    REQUIRE(interpreter_create(
        model, &(dpti_program_options){.data = data, .purpose = DPTI_PURPOSE_TRAIN}, 1, &it));
    REQUIRE(model->flat_size <= sizeof flat / sizeof *flat);
    REQUIRE_OK(dpti_initialize(model, &(dpti_initial){.seed = 4}, flat, &error));
    for (size_t i = 0; i < model->flat_size; i++)
        it.parameters[i] = (double)flat[i];
    for (int i = 0; i < LENET_TENSORS; i++)
        REQUIRE(export_double(dpti_model_parameter(model, lenet_names[i]), it.parameters,
                              weights.tensor[i]));
    for (size_t i = 0; i < N * 28 * 28; i++)
        pixels[i] = images->pixels[i] * (double)data->scale[0];
    const double loss = lenet64_gradients(&weights, pixels, images->labels, N, &gradients);
    CHECK_NEAR(interpreter_compute(&it, records, (const size_t[]){N}, 1.0 / N), loss, 1e-13);
    for (int i = 0; i < LENET_TENSORS; i++) {
        REQUIRE(export_double(dpti_model_parameter(model, lenet_names[i]), it.gradients,
                              weights.tensor[i]));
        CHECK_NEAR(worst(weights.tensor[i], gradients.tensor[i], lenet_sizes[i]), 0, 1e-13);
    }
    interpreter_free(&it);
    lenet64_free(&weights);
    lenet64_free(&gradients);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
}

static void interpreter_agrees_with_lenet64(test *t)
{
    image_set images;
    dpt_context *context = NULL;
    REQUIRE(images_create(8, 3, &images));
    REQUIRE_OK(dpt_context_create(&context));
    compare_with_lenet64(t, context, &images);
    dpt_context_destroy(context);
    images_free(&images);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"the interpreter agrees with LeNet in double precision", interpreter_agrees_with_lenet64},
        {"programs compute their graphs", programs_compute_their_graphs},
        {"gradients are those of the loss", gradients_are_those_of_the_loss},
        {"neighbours are fused", neighbours_are_fused},
        {"devices exchange all they need", devices_exchange_all_they_need},
        {"batch-norms mask themselves", batch_norms_mask_themselves},
        {"recomputation has the same bits", recomputation_has_the_same_bits},
        {"micro-batches add up", micro_batches_add_up},
        {"frozen parameters have no gradient", frozen_parameters_have_no_gradient},
        {"the library computes the same", library_computes_the_same},
    };
    add_fault_plugins();
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
