/* The recipes, which are engines with their knobs, that cuDNN's heuristics offer for the graph of a
   convolution.  Heuristics take milliseconds to answer, and each alternative of an operator asks
   for a rank in the same list.  The lists are therefore kept. */
#include "dnn_graph.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_OFFERS = 64,            /* of one answer */
    MAX_NOTES = 32,             /* of an engine */
    STRICT_NAN_PROPAGATION = 9, /* a note for which the first versions have no name */
};

/* ---- Offers ---------------------------------------------------------------------------------- */

/* Whether an engine repeats its results to the bit and rounds as the precision promises.
   - Engines with Winograd or Fourier transforms round differently.
   - Engines that convert inputs to fewer bits round differently, too.  Such a conversion is not
     TF32, which has the note of tensor cores, but one to 16 bits, whose workspace is half as large.
   - In bf16, tensor cores take bfloat16 inputs exactly, as bfloat16 or as TF32.
   - An engine that sums in fewer bits than float32 has a note.
   Every note is refused except that of tensor cores, where the precision allows them, and that of
   strict NaN propagation. */
static bool suits(dpt_dnn_maker *m, dpt_dnn_descriptor engine)
{
    const bool true_float32 = dpt_cuda_device_of(m->device)->precision == DPT_PRECISION_FP32;
    cudnnBackendNumericalNote_t notes[MAX_NOTES];
    cudnnBackendBehaviorNote_t behaviours[MAX_NOTES];
    int64_t n_notes = MAX_NOTES, n_behaviours = MAX_NOTES;
    dpt_dnn_get(m, engine,
                &(dpt_dnn_read){CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                &n_notes, notes});
    dpt_dnn_get(m, engine,
                &(dpt_dnn_read){CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                &n_behaviours, behaviours});
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
        /* Every start of the program would wait for cuDNN's compiler. */
        if (behaviours[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) return false;
    }
    return true;
}

static void read_knobs(dpt_dnn_maker *m, dpt_dnn_descriptor config, dpt_cuda_recipe *out)
{
    dpt_dnn_descriptor choices[DPT_DNN_MAX_KNOBS] = {NULL};
    int64_t n = DPT_DNN_MAX_KNOBS, one;
    for (size_t i = 0; i < DPT_DNN_MAX_KNOBS; i++)
        choices[i] = dpt_dnn_create(m, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    dpt_dnn_get(m, config,
                &(dpt_dnn_read){CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                &n, choices});
    out->n_knobs = n < DPT_DNN_MAX_KNOBS ? (size_t)n : DPT_DNN_MAX_KNOBS;
    for (size_t i = 0; i < out->n_knobs; i++) {
        one = 1;
        dpt_dnn_get(m, choices[i],
                    &(dpt_dnn_read){CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, &one,
                                    &out->knobs[i].type});
        one = 1;
        dpt_dnn_get(m, choices[i],
                    &(dpt_dnn_read){CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, &one,
                                    &out->knobs[i].value});
    }
    for (size_t i = 0; i < DPT_DNN_MAX_KNOBS; i++)
        dpt_dnn_drop(choices[i]);
}

/* Engines whose results are not what their notes promise.  The engine numbers are refused in every
   version of cuDNN. */
typedef struct erratum {
    dpt_op_kind pass;
    int64_t engine;
    bool only_with_relu; /* the engine is refused only where it fuses a ReLU */
} erratum;

static const erratum errata[] = {
    /* Winograd's for filters of 5x5, without any note (kernels winogradForwardData9x9_5x5 and
       winogradWgradDelta9x9_5x5).  On an H200, cuDNN 9.19, float32: the rms of its errors was
       4.4e-4 to 7.6e-4 of the results' standard deviation; direct ones' is 3e-7, and TF32's 3e-4.
       (Others without notes, all with 1e-7 to 4e-7 there: forward 0, 1, 11, 28, 44 and 70; data 0,
       1, 2 and 74; weights 0, 1 and 67.) */
    {.pass = DPT_OP_CONV2D_BACKWARD_WEIGHTS, .engine = 17},
    /* The fused ReLU turns NaN into a number, although the graph asks for NaN propagation: training
       that diverges would go on unseen.  Seen on an H200, cuDNN 9.19, tf32: a 1x1 convolution of
       7x7x16 to 7x7x32 with bias and ReLU, with knob 25 = 0.  Values 1 and 2 of that knob kept the
       NaN there; all values are refused, since no note tells which kernel a value selects. */
    {.pass = DPT_OP_CONV2D_FORWARD, .engine = 39, .only_with_relu = true},
};

static bool has_erratum(const dpt_cuda_convolution *convolution, int64_t engine)
{
    for (const erratum *e = errata; e < errata + sizeof errata / sizeof *errata; e++) {
        if (e->pass == convolution->desc->kind && e->engine == engine &&
            (convolution->has_relu || !e->only_with_relu))
            return true;
    }
    return false;
}

/* Reads an offer; false if it does not suit or cannot be read, which is no failure. */
static bool read_offer(dpt_device *device, dpt_dnn_descriptor config, dpt_cuda_recipe *out)
{
    dpt_dnn_maker m = {.device = device};
    int64_t one = 1;
    dpt_dnn_descriptor engine = dpt_dnn_create(&m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    dpt_dnn_descriptor const own = engine;
    dpt_dnn_get(
        &m, config,
        &(dpt_dnn_read){CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, &one, &engine});
    const bool good = suits(&m, engine);
    one = 1;
    dpt_dnn_get(
        &m, engine,
        &(dpt_dnn_read){CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &one, &out->engine});
    if (good) read_knobs(&m, config, out);
    dpt_dnn_drop(own);
    return good && m.code == CUDNN_STATUS_SUCCESS;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* The modes in which heuristics are asked, one after the other until enough offers suit. */
static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
enum { N_MODES = sizeof modes / sizeof *modes };

/* The question to heuristics, and the list of the offers that suit. */
typedef struct search {
    dpt_device *device;
    const dpt_cuda_convolution *convolution;
    size_t example;
    dpt_dnn_list *list;
} search;

bool dpt_cuda_recipe_is(const dpt_cuda_recipe *a, const dpt_cuda_recipe *b)
{
    if (a->engine != b->engine || a->n_knobs != b->n_knobs) return false;
    for (size_t i = 0; i < a->n_knobs; i++)
        if (a->knobs[i].type != b->knobs[i].type || a->knobs[i].value != b->knobs[i].value)
            return false;
    return true;
}

/* Whether the list does not hold the recipe yet.  Heuristics offer the same recipe several times.
 */
static bool is_new(const dpt_dnn_list *list, const dpt_cuda_recipe *recipe)
{
    for (size_t i = 0; i < list->n; i++)
        if (dpt_cuda_recipe_is(recipe, &list->recipes[i])) return false;
    return true;
}

static dpt_status append(const search *s, const dpt_cuda_recipe *recipe)
{
    dpt_dnn_list *list = s->list;
    dpt_cuda_recipe *recipes = realloc(list->recipes, (list->n + 1) * sizeof *recipes);
    if (!recipes)
        return DPT_FAIL(&s->device->error, DPT_E_NO_MEMORY, "no memory for a convolution");
    recipes[list->n++] = *recipe;
    list->recipes = recipes;
    return DPT_OK;
}

static dpt_status read_offers(const search *s, const dpt_dnn_descriptor *offers, int64_t n)
{
    dpt_cuda_recipe recipe;
    for (int64_t i = 0; i < n; i++)
        if (read_offer(s->device, offers[i], &recipe) &&
            !has_erratum(s->convolution, recipe.engine) && is_new(s->list, &recipe))
            DPT_TRY(append(s, &recipe));
    return DPT_OK;
}

/* Adds the offers of one mode to the list.  If heuristics refuse to answer, there are no offers. */
static dpt_status ask_in_mode(const search *s, const dpt_dnn_graph *g, cudnnBackendHeurMode_t mode)
{
    dpt_dnn_maker m = {.device = s->device};
    dpt_dnn_descriptor offers[MAX_OFFERS] = {NULL};
    int64_t n = MAX_OFFERS;
    dpt_status status = DPT_OK;
    dpt_dnn_descriptor heuristics = dpt_dnn_create(&m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    dpt_dnn_set_descriptor(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph);
    dpt_dnn_set(&m, heuristics,
                &(dpt_dnn_attribute){CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode});
    dpt_dnn_finalize(&m, heuristics);
    for (size_t i = 0; i < MAX_OFFERS; i++)
        offers[i] = dpt_dnn_create(&m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    dpt_dnn_get(
        &m, heuristics,
        &(dpt_dnn_read){CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, &n, offers});
    if (m.code == CUDNN_STATUS_SUCCESS)
        status = read_offers(s, offers, n < MAX_OFFERS ? n : MAX_OFFERS);
    for (size_t i = 0; i < MAX_OFFERS; i++)
        dpt_dnn_drop(offers[i]);
    dpt_dnn_drop(heuristics);
    /* A lack of memory is reported, so that this mode is asked again the next time. */
    if (status == DPT_OK && m.code != CUDNN_STATUS_SUCCESS) {
        const dpt_status failed = dpt_dnn_finish(&m, "cuDNN's heuristics");
        if (failed == DPT_E_NO_MEMORY || failed == DPT_E_DEVICE_LOST) return failed;
    }
    return status;
}

/* Asks heuristics in the next mode. */
static dpt_status ask_more(const search *s)
{
    dpt_dnn_maker m = {.device = s->device};
    dpt_dnn_graph g = {.x = NULL};
    dpt_dnn_graph_make(&m, s->convolution, s->example, &g);
    dpt_status status = dpt_dnn_finish(&m, "a convolution for cuDNN");
    if (status == DPT_OK) status = ask_in_mode(s, &g, modes[s->list->n_modes]);
    if (status == DPT_OK) s->list->n_modes++;
    dpt_dnn_graph_drop(&g);
    return status;
}

/* ---- Lists that are kept --------------------------------------------------------------------- */

/* The key of a list: the whole question to heuristics, and what decides which offers suit. */
static void write_key(const dpt_device *device, const dpt_cuda_convolution *c, size_t example,
                      size_t key[DPT_DNN_KEY_LENGTH])
{
    const dpt_conv2d_desc *d = &c->desc->u.conv2d;
    const size_t all[] = {
        (size_t)dpt_cuda_device_of(device)->precision,
        (size_t)c->desc->kind,
        (size_t)c->type,
        c->has_bias,
        c->has_relu,
        example,
        d->in_h,
        d->in_w,
        d->in_channels,
        d->out_h,
        d->out_w,
        d->out_channels,
        d->kernel_h,
        d->kernel_w,
        d->stride_h,
        d->stride_w,
        d->pad_h,
        d->pad_w,
        d->dilation_h,
        d->dilation_w,
        d->groups,
    };
    _Static_assert(sizeof all == DPT_DNN_KEY_LENGTH * sizeof *all, "a key of another length");
    memcpy(key, all, sizeof all);
}

static void forget(dpt_dnn_list *list)
{
    free(list->recipes);
    *list = (dpt_dnn_list){.last_use = 0};
}

void dpt_dnn_lists_clear(dpt_cuda_dnn *dnn)
{
    for (size_t i = 0; i < DPT_DNN_LISTS_KEPT; i++)
        forget(&dnn->lists[i]);
}

/* The list of a key.  A new list replaces the one that was not used for the longest time. */
static dpt_dnn_list *find_list(dpt_cuda_dnn *dnn, const size_t key[DPT_DNN_KEY_LENGTH])
{
    const size_t key_bytes = DPT_DNN_KEY_LENGTH * sizeof *key;
    dpt_dnn_list *found = &dnn->lists[0];
    for (dpt_dnn_list *l = dnn->lists; l < dnn->lists + DPT_DNN_LISTS_KEPT; l++) {
        if (l->last_use > 0 && memcmp(l->key, key, key_bytes) == 0) {
            l->last_use = ++dnn->n_uses;
            return l;
        }
        if (l->last_use < found->last_use) found = l;
    }
    forget(found);
    memcpy(found->key, key, key_bytes);
    found->last_use = ++dnn->n_uses;
    return found;
}

/* ---- Recipes --------------------------------------------------------------------------------- */

dpt_status dpt_cuda_recipe_create(dpt_device *device, const dpt_cuda_convolution *convolution,
                                  dpt_cuda_algorithm algorithm, dpt_cuda_recipe **out)
{
    size_t key[DPT_DNN_KEY_LENGTH];
    write_key(device, convolution, algorithm.example, key);
    dpt_dnn_list *list = find_list(dpt_cuda_device_of(device)->dnn, key);
    const search s = {
        .device = device, .convolution = convolution, .example = algorithm.example, .list = list};
    while (list->n <= algorithm.rank && list->n_modes < N_MODES)
        DPT_TRY(ask_more(&s));
    if (list->n <= algorithm.rank)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "cuDNN has no %zu algorithms for this convolution in this precision",
                        algorithm.rank + 1);
    dpt_cuda_recipe *recipe = malloc(sizeof *recipe);
    if (!recipe) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a convolution");
    *recipe = list->recipes[algorithm.rank];
    *out = recipe;
    return DPT_OK;
}

void dpt_cuda_recipe_destroy(dpt_cuda_recipe *recipe)
{
    free(recipe);
}
