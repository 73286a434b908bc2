/* Which ways of its own (engines with their knobs) cuDNN offers for a graph of a convolution, and
   plans that execute one. */
#include "dnn_graph.h"

#include <stdlib.h>

enum {
    MAX_OFFERS = 64,            /* of one list of heuristics */
    MAX_KNOBS = 64,             /* of an engine */
    MAX_NOTES = 32,             /* about an engine */
    STRICT_NAN_PROPAGATION = 9, /* a note that the first versions do not name */
};

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
   TF32, which is the tensor cores', but 16 bits, whose workspaces are half as large.  In bf16
   tensor cores take bfloat16 as it is, or as TF32, which holds it exactly; what is summed up in
   fewer bits than float32 has a note, and is refused like every other. */
static bool suits(dpt_dnn_maker *m, dpt_dnn_descriptor engine)
{
    const bool true_float32 = dpt_cuda_device_of(m->device)->precision == DPT_CUDA_FP32;
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
            if (true_float32) return false;
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

/* What is found in lists of offers, until there are enough. */
typedef struct search {
    dpt_device *device;
    size_t n, enough;
    dpt_cuda_recipe *recipes; /* (2 MAX_OFFERS) that suit, each once */
} search;

bool dpt_cuda_recipe_is(const dpt_cuda_recipe *a, const dpt_cuda_recipe *b)
{
    if (a->engine != b->engine || a->n_knobs != b->n_knobs) return false;
    for (size_t i = 0; i < a->n_knobs; i++)
        if (a->knobs[i].type != b->knobs[i].type || a->knobs[i].value != b->knobs[i].value)
            return false;
    return true;
}

/* Lists repeat what is in them and in each other. */
static bool is_new(const search *s, const dpt_cuda_recipe *recipe)
{
    for (size_t i = 0; i < s->n; i++)
        if (dpt_cuda_recipe_is(recipe, &s->recipes[i])) return false;
    return true;
}

static void look(search *s, dpt_dnn_descriptor *offers, int64_t n)
{
    for (int64_t i = 0; i < n && s->n < s->enough; i++) {
        dpt_cuda_recipe *recipe = &s->recipes[s->n];
        if (read_offer(s->device, offers[i], recipe) && is_new(s, recipe)) s->n++;
    }
}

/* A list of offers that cannot be had is empty. */
static void look_in_mode(search *s, const dpt_dnn_graph *g, cudnnBackendHeurMode_t mode)
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

static dpt_status search_lists(search *s, const dpt_cuda_convolution *convolution, size_t example)
{
    dpt_dnn_maker m = {.device = s->device};
    dpt_dnn_graph g = {.x = NULL};
    dpt_dnn_graph_make(&m, convolution, example, &g);
    if (m.code == CUDNN_STATUS_SUCCESS) {
        look_in_mode(s, &g, CUDNN_HEUR_MODE_A);
        if (s->n < s->enough) look_in_mode(s, &g, CUDNN_HEUR_MODE_FALLBACK);
    }
    dpt_dnn_graph_drop(&g);
    return dpt_dnn_finish(&m, "a convolution for cuDNN");
}

dpt_status dpt_cuda_recipe_create(dpt_device *device, const dpt_cuda_convolution *convolution,
                                  dpt_cuda_way way, dpt_cuda_recipe **out)
{
    search s = {.device = device, .enough = way.rank + 1};
    dpt_cuda_recipe *recipe = malloc(sizeof *recipe);
    s.recipes = calloc((size_t)2 * MAX_OFFERS, sizeof *s.recipes);
    dpt_status status = DPT_OK;
    if (!recipe || !s.recipes)
        status = DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a convolution");
    if (status == DPT_OK) status = search_lists(&s, convolution, way.example);
    if (status == DPT_OK && s.n <= way.rank)
        status = DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                          "cuDNN has no %zu ways to do this convolution in this precision",
                          way.rank + 1);
    if (status == DPT_OK) {
        *recipe = s.recipes[way.rank];
        *out = recipe;
    } else {
        free(recipe);
    }
    free(s.recipes);
    return status;
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

static void make_configuration(dpt_dnn_maker *m, const dpt_dnn_graph *g,
                               const dpt_cuda_recipe *recipe, configuration *c)
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

dpt_status dpt_cuda_plan_create(dpt_device *device, const dpt_cuda_convolution *convolution,
                                const dpt_cuda_recipe *recipe, size_t n_samples, dpt_cuda_plan *out)
{
    dpt_dnn_maker m = {.device = device};
    dpt_dnn_graph g = {.x = NULL};
    configuration c = {.engine = NULL};
    int64_t one = 1, workspace_bytes = 0;
    dpt_dnn_graph_make(&m, convolution, n_samples, &g);
    make_configuration(&m, &g, recipe, &c);
    dpt_dnn_descriptor plan = dpt_dnn_create(&m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    dpt_dnn_set_handle(&m, plan, DPT_DNN_PLAN_HANDLE);
    dpt_dnn_set_descriptor(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, c.config);
    dpt_dnn_finalize(&m, plan);
    dpt_dnn_get(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &one,
                &workspace_bytes);
    drop_configuration(&c);
    dpt_dnn_graph_drop(&g);
    if (m.code != CUDNN_STATUS_SUCCESS) {
        dpt_dnn_drop(plan);
        return dpt_dnn_finish(&m, "a plan of cuDNN's");
    }
    *out = (dpt_cuda_plan){.n_samples = n_samples,
                           .descriptor = plan,
                           .workspace_bytes = workspace_bytes > 0 ? (size_t)workspace_bytes : 0,
                           .has_bias = convolution->has_bias};
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
    const int64_t uids[] = {DPT_DNN_UID_X, DPT_DNN_UID_W, DPT_DNN_UID_Y, DPT_DNN_UID_BIAS};
    void *const pointers[] = {tensors->x, tensors->w, tensors->y, tensors->bias};
    const size_t n = plan->has_bias ? 4 : 3;
    const cudnnHandle_t handle = dpt_cuda_device_of(stream->device)->dnn->handle;
    dpt_dnn_maker m = {.device = stream->device};
    dpt_dnn_descriptor pack = dpt_dnn_create(&m, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    dpt_dnn_set(&m, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, uids);
    dpt_dnn_set(&m, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointers);
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
