/* Convolutions as cuDNN's graphs of one operation: which ways of its own (engines with their knobs)
   it offers, and plans that execute one. */
#include "dnn_graph.h"

#include <stdlib.h>

enum {
    UID_X = 1,
    UID_W = 2,
    UID_Y = 3,
    ALIGNMENT = 16,             /* of tensors, in bytes: no less than our buffers have */
    MAX_OFFERS = 64,            /* of one list of heuristics */
    MAX_KNOBS = 64,             /* of an engine */
    MAX_NOTES = 32,             /* about an engine */
    STRICT_NAN_PROPAGATION = 9, /* a note that the first versions do not name */
    EXAMPLE_SAMPLES = 128, /* what heuristics are asked about: ranks must not depend on a call */
};

/* ---- A graph --------------------------------------------------------------------------------- */

typedef struct graph {
    dpt_dnn_descriptor x, w, y, conv2d, operation, graph;
} graph;

/* NHWC (or OHWI), by cuDNN's order of names: n, c, h, w. */
static dpt_dnn_descriptor make_tensor(dpt_dnn_maker *m, int64_t uid, const int64_t nchw[4])
{
    const int64_t strides[4] = {nchw[1] * nchw[2] * nchw[3], 1, nchw[1] * nchw[3], nchw[1]};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    dpt_dnn_descriptor tensor = dpt_dnn_create(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    dpt_dnn_set(m, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    dpt_dnn_set(m, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, nchw);
    dpt_dnn_set(m, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    dpt_dnn_set_integer(m, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
    dpt_dnn_set_integer(m, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, ALIGNMENT);
    dpt_dnn_finalize(m, tensor);
    return tensor;
}

static void make_tensors(dpt_dnn_maker *m, const dpt_conv2d_desc *d, size_t n, graph *g)
{
    const int64_t x[4] = {(int64_t)n, (int64_t)d->in_channels, (int64_t)d->in_h, (int64_t)d->in_w};
    const int64_t w[4] = {(int64_t)d->out_channels, (int64_t)(d->in_channels / d->groups),
                          (int64_t)d->kernel_h, (int64_t)d->kernel_w};
    const int64_t y[4] = {(int64_t)n, (int64_t)d->out_channels, (int64_t)d->out_h,
                          (int64_t)d->out_w};
    g->x = make_tensor(m, UID_X, x);
    g->w = make_tensor(m, UID_W, w);
    g->y = make_tensor(m, UID_Y, y);
}

static dpt_dnn_descriptor make_conv2d(dpt_dnn_maker *m, const dpt_conv2d_desc *d)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t pads[2] = {(int64_t)d->pad_h, (int64_t)d->pad_w};
    const int64_t strides[2] = {(int64_t)d->stride_h, (int64_t)d->stride_w};
    const int64_t dilations[2] = {(int64_t)d->dilation_h, (int64_t)d->dilation_w};
    dpt_dnn_descriptor c = dpt_dnn_create(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    dpt_dnn_set(m, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    dpt_dnn_set(m, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    dpt_dnn_set_integer(m, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
    dpt_dnn_set(m, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pads);
    dpt_dnn_set(m, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pads);
    dpt_dnn_set(m, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    dpt_dnn_set(m, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations);
    dpt_dnn_finalize(m, c);
    return c;
}

/* Names of one pass's attributes. */
typedef struct pass {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t alpha, beta, conv2d, x, w, y;
} pass;

static pass pass_of(dpt_op_kind kind)
{
    switch (kind) {
    case DPT_OP_CONV2D_FORWARD:
        return (pass){
            .type = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            .conv2d = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            .x = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            .w = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            .y = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        };
    case DPT_OP_CONV2D_BACKWARD_DATA:
        return (pass){
            .type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            .conv2d = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            .x = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            .w = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            .y = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        };
    default:
        return (pass){
            .type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            .conv2d = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            .x = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            .w = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            .y = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        };
    }
}

static void make_graph(dpt_dnn_maker *m, const dpt_op_desc *desc, size_t n, graph *g)
{
    const pass p = pass_of(desc->kind);
    const float one = 1.0f, zero = 0.0f;
    make_tensors(m, &desc->u.conv2d, n, g);
    g->conv2d = make_conv2d(m, &desc->u.conv2d);
    g->operation = dpt_dnn_create(m, p.type);
    dpt_dnn_set_descriptor(m, g->operation, p.conv2d, g->conv2d);
    dpt_dnn_set_descriptor(m, g->operation, p.x, g->x);
    dpt_dnn_set_descriptor(m, g->operation, p.w, g->w);
    dpt_dnn_set_descriptor(m, g->operation, p.y, g->y);
    dpt_dnn_set(m, g->operation, p.alpha, CUDNN_TYPE_FLOAT, 1, &one);
    dpt_dnn_set(m, g->operation, p.beta, CUDNN_TYPE_FLOAT, 1, &zero);
    dpt_dnn_finalize(m, g->operation);
    g->graph = dpt_dnn_create(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    dpt_dnn_set_handle(m, g->graph, DPT_DNN_GRAPH_HANDLE);
    dpt_dnn_set_descriptor(m, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, g->operation);
    dpt_dnn_finalize(m, g->graph);
}

static void drop_graph(graph *g)
{
    dpt_dnn_drop(g->graph);
    dpt_dnn_drop(g->operation);
    dpt_dnn_drop(g->conv2d);
    dpt_dnn_drop(g->y);
    dpt_dnn_drop(g->w);
    dpt_dnn_drop(g->x);
}

/* ---- Recipes --------------------------------------------------------------------------------- */

typedef struct knob {
    cudnnBackendKnobType_t type;
    int64_t value;
} knob;

struct dpt_cuda_recipe {
    int64_t engine; /* its number, the same for every graph of this pass */
    size_t n_knobs;
    knob knobs[MAX_KNOBS];
};

/* Whether an engine repeats its results to the bit and rounds as the precision promises: Winograd's
   and Fourier's transforms round in other ways.  So do inputs converted to fewer bits: that is not
   TF32, which is the tensor cores', but 16 bits, whose workspaces are half as large. */
static bool suits(dpt_dnn_maker *m, dpt_dnn_descriptor engine)
{
    const bool tf32 = dpt_cuda_device_of(m->device)->precision == DPT_CUDA_TF32;
    cudnnBackendNumericalNote_t notes[MAX_NOTES];
    cudnnBackendBehaviorNote_t behaviours[MAX_NOTES];
    int64_t n_notes = MAX_NOTES, n_behaviours = MAX_NOTES;
    dpt_dnn_get(m, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, &n_notes,
                notes);
    dpt_dnn_get(m, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, &n_behaviours,
                behaviours);
    if (m->code != CUDNN_STATUS_SUCCESS) return false;
    for (int64_t i = 0; i < n_notes && i < MAX_NOTES; i++) {
        switch ((int)notes[i]) {
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
            if (!tf32) return false;
            break;
        case STRICT_NAN_PROPAGATION: break;
        default: return false;
        }
    }
    for (int64_t i = 0; i < n_behaviours && i < MAX_NOTES; i++) {
        /* Every start would wait for its compiler. */
        if (behaviours[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) return false;
    }
    return true;
}

static void read_knobs(dpt_dnn_maker *m, dpt_dnn_descriptor config, dpt_cuda_recipe *out)
{
    dpt_dnn_descriptor choices[MAX_KNOBS] = {NULL};
    int64_t n = MAX_KNOBS, one;
    for (size_t i = 0; i < MAX_KNOBS; i++)
        choices[i] = dpt_dnn_create(m, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    dpt_dnn_get(m, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, &n,
                choices);
    out->n_knobs = n < MAX_KNOBS ? (size_t)n : MAX_KNOBS;
    for (size_t i = 0; i < out->n_knobs; i++) {
        one = 1;
        dpt_dnn_get(m, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, &one,
                    &out->knobs[i].type);
        one = 1;
        dpt_dnn_get(m, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, &one,
                    &out->knobs[i].value);
    }
    for (size_t i = 0; i < MAX_KNOBS; i++)
        dpt_dnn_drop(choices[i]);
}

/* Reads an offer; false if it does not suit or cannot be read, which is no failure. */
static bool read_offer(dpt_device *device, dpt_dnn_descriptor config, dpt_cuda_recipe *out)
{
    dpt_dnn_maker m = {.device = device};
    int64_t one = 1;
    dpt_dnn_descriptor engine = dpt_dnn_create(&m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    dpt_dnn_descriptor const own = engine;
    dpt_dnn_get(&m, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, &one,
                &engine);
    const bool good = suits(&m, engine);
    one = 1;
    dpt_dnn_get(&m, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &one, &out->engine);
    read_knobs(&m, config, out);
    dpt_dnn_drop(own);
    return good && m.code == CUDNN_STATUS_SUCCESS;
}

/* What is looked for in lists of offers. */
typedef struct search {
    dpt_device *device;
    size_t left; /* suitable offers before the wanted one */
    bool found;
    dpt_cuda_recipe recipe;
} search;

static bool is_same(const dpt_cuda_recipe *a, const dpt_cuda_recipe *b)
{
    if (a->engine != b->engine || a->n_knobs != b->n_knobs) return false;
    for (size_t i = 0; i < a->n_knobs; i++)
        if (a->knobs[i].type != b->knobs[i].type || a->knobs[i].value != b->knobs[i].value)
            return false;
    return true;
}

static void look(search *s, dpt_dnn_descriptor *offers, int64_t n)
{
    dpt_cuda_recipe before = {.engine = -1};
    for (int64_t i = 0; i < n && !s->found; i++) {
        if (!read_offer(s->device, offers[i], &s->recipe) || is_same(&s->recipe, &before)) continue;
        before = s->recipe;
        s->found = s->left == 0;
        if (!s->found) s->left--;
    }
}

/* A list of offers that cannot be had is empty. */
static void look_in_mode(search *s, const graph *g, cudnnBackendHeurMode_t mode)
{
    dpt_dnn_maker m = {.device = s->device};
    dpt_dnn_descriptor offers[MAX_OFFERS] = {NULL};
    int64_t n = MAX_OFFERS;
    dpt_dnn_descriptor heuristics = dpt_dnn_create(&m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    dpt_dnn_set_descriptor(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph);
    dpt_dnn_set(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    dpt_dnn_finalize(&m, heuristics);
    for (size_t i = 0; i < MAX_OFFERS; i++)
        offers[i] = dpt_dnn_create(&m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    dpt_dnn_get(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, &n,
                offers);
    if (m.code == CUDNN_STATUS_SUCCESS) look(s, offers, n < MAX_OFFERS ? n : MAX_OFFERS);
    for (size_t i = 0; i < MAX_OFFERS; i++)
        dpt_dnn_drop(offers[i]);
    dpt_dnn_drop(heuristics);
}

dpt_status dpt_cuda_recipe_create(dpt_device *device, const dpt_op_desc *desc, size_t rank,
                                  dpt_cuda_recipe **out)
{
    dpt_dnn_maker m = {.device = device};
    search s = {.device = device, .left = rank};
    graph g = {.x = NULL};
    make_graph(&m, desc, EXAMPLE_SAMPLES, &g);
    if (m.code == CUDNN_STATUS_SUCCESS) {
        look_in_mode(&s, &g, CUDNN_HEUR_MODE_A);
        if (!s.found) look_in_mode(&s, &g, CUDNN_HEUR_MODE_FALLBACK);
    }
    drop_graph(&g);
    DPT_TRY(dpt_dnn_finish(&m, "a convolution for cuDNN"));
    if (!s.found)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "cuDNN has no %zu ways to do this convolution in this precision", rank + 1);
    dpt_cuda_recipe *recipe = malloc(sizeof *recipe);
    if (!recipe) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a convolution");
    *recipe = s.recipe;
    *out = recipe;
    return DPT_OK;
}

void dpt_cuda_recipe_destroy(dpt_cuda_recipe *recipe)
{
    free(recipe);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

/* An engine with its knobs, for a graph; *engine and the choices are dropped with it. */
typedef struct configuration {
    dpt_dnn_descriptor engine, knobs[MAX_KNOBS], config;
} configuration;

static void make_configuration(dpt_dnn_maker *m, const graph *g, const dpt_cuda_recipe *recipe,
                               configuration *c)
{
    c->engine = dpt_dnn_create(m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    dpt_dnn_set_descriptor(m, c->engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, g->graph);
    dpt_dnn_set_integer(m, c->engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, recipe->engine);
    dpt_dnn_finalize(m, c->engine);
    for (size_t i = 0; i < recipe->n_knobs; i++) {
        c->knobs[i] = dpt_dnn_create(m, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        dpt_dnn_set(m, c->knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                    &recipe->knobs[i].type);
        dpt_dnn_set_integer(m, c->knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                            recipe->knobs[i].value);
        dpt_dnn_finalize(m, c->knobs[i]);
    }
    c->config = dpt_dnn_create(m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    dpt_dnn_set_descriptor(m, c->config, CUDNN_ATTR_ENGINECFG_ENGINE, c->engine);
    if (recipe->n_knobs > 0)
        dpt_dnn_set(m, c->config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    recipe->n_knobs, c->knobs);
    dpt_dnn_finalize(m, c->config);
}

static void drop_configuration(configuration *c)
{
    dpt_dnn_drop(c->config);
    for (size_t i = 0; i < MAX_KNOBS; i++)
        dpt_dnn_drop(c->knobs[i]);
    dpt_dnn_drop(c->engine);
}

dpt_status dpt_cuda_plan_create(dpt_device *device, const dpt_op_desc *desc,
                                const dpt_cuda_recipe *recipe, size_t n_samples, dpt_cuda_plan *out)
{
    dpt_dnn_maker m = {.device = device};
    graph g = {.x = NULL};
    configuration c = {.engine = NULL};
    int64_t one = 1, workspace_bytes = 0;
    make_graph(&m, desc, n_samples, &g);
    make_configuration(&m, &g, recipe, &c);
    dpt_dnn_descriptor plan = dpt_dnn_create(&m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    dpt_dnn_set_handle(&m, plan, DPT_DNN_PLAN_HANDLE);
    dpt_dnn_set_descriptor(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, c.config);
    dpt_dnn_finalize(&m, plan);
    dpt_dnn_get(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &one,
                &workspace_bytes);
    drop_configuration(&c);
    drop_graph(&g);
    if (m.code != CUDNN_STATUS_SUCCESS) {
        dpt_dnn_drop(plan);
        return dpt_dnn_finish(&m, "a plan of cuDNN's");
    }
    *out = (dpt_cuda_plan){.n_samples = n_samples,
                           .descriptor = plan,
                           .workspace_bytes = workspace_bytes > 0 ? (size_t)workspace_bytes : 0};
    return DPT_OK;
}

void dpt_cuda_plan_destroy(dpt_cuda_plan *plan)
{
    dpt_dnn_drop(plan->descriptor);
    *plan = (dpt_cuda_plan){.n_samples = 0};
}

dpt_status dpt_cuda_plan_run(const dpt_cuda_plan *plan, dpt_stream *stream,
                             const dpt_cuda_plan_tensors *tensors)
{
    const int64_t uids[] = {UID_X, UID_W, UID_Y};
    void *const pointers[] = {tensors->x, tensors->w, tensors->y};
    const cudnnHandle_t handle = dpt_cuda_device_of(stream->device)->dnn->handle;
    dpt_dnn_maker m = {.device = stream->device};
    dpt_dnn_descriptor pack = dpt_dnn_create(&m, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    dpt_dnn_set(&m, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, uids);
    dpt_dnn_set(&m, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers);
    dpt_dnn_set(&m, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                &tensors->workspace);
    dpt_dnn_finalize(&m, pack);
    if (m.code == CUDNN_STATUS_SUCCESS) m.code = dpt_cudnn.cudnnSetStream(handle, stream->queue);
    if (m.code == CUDNN_STATUS_SUCCESS)
        m.code = dpt_cudnn.cudnnBackendExecute(handle, plan->descriptor, pack);
    dpt_dnn_drop(pack);
    return m.code == CUDNN_STATUS_SUCCESS
               ? DPT_OK
               : dpt_cuda_dnn_fail(stream->device, m.code, "cudnnBackendExecute", __LINE__);
}
