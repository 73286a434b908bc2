/* Tests recipes and plans of cuDNN (backends/cuda/dnn_recipe.c, dnn_plan*.c) without a card: cuDNN
   answers for a card that is only described to it.  Everything before the execution is real.
   dnn_descriptor.c is compiled with other names for three functions, which here return the
   description instead of a device's handle, and another number of an engine.

   Skips if cuDNN is missing or too old to accept a description. */
#include "harness.h"

#include "dnn_graph.h"
#include "dnn_plans.h"

#include <stdio.h>
#include <string.h>

/* Attributes of descriptions, by number: older headers do not name them. */
enum {
    DEVICE_DESCRIPTOR = 38,
    DEVICE_AS_JSON = 2702,
    DEVICE_OF_HEURISTICS = 204,
    DEVICE_OF_ENGINE = 1307,
    DEVICE_OF_PLAN = 407,
};

static const char h200[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
    "\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":150000000000,\"smClockRateKHz\":1980000,"
    "\"memClockRateKHz\":3201000,\"memoryBusWidth\":6144,\"l2CacheSize\":62914560,"
    "\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,\"deviceName\":\"NVIDIA H200\"}";

/* What the replaced functions add. */
static dpt_dnn_descriptor described;
static bool makes_plans; /* and not asks heuristics, whose engines are theirs */
static size_t n_asked;   /* how often heuristics were */
static struct {
    int64_t is, shown; /* the number of an engine, and what it is read as */
} disguise;

/* The functions of dnn_descriptor.c under their other names. */
dpt_dnn_descriptor dpt_dnn_create_plain(dpt_dnn_maker *maker, cudnnBackendDescriptorType_t type);
void dpt_dnn_get_plain(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                       const dpt_dnn_read *read);

dpt_dnn_descriptor dpt_dnn_create(dpt_dnn_maker *maker, cudnnBackendDescriptorType_t type)
{
    dpt_dnn_descriptor made = dpt_dnn_create_plain(maker, type);
    n_asked += type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
    if (type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        dpt_dnn_set_descriptor(maker, made, (cudnnBackendAttributeName_t)DEVICE_OF_HEURISTICS,
                               described);
    if (type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && makes_plans)
        dpt_dnn_set_descriptor(maker, made, (cudnnBackendAttributeName_t)DEVICE_OF_ENGINE,
                               described);
    return made;
}

void dpt_dnn_set_handle(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor, int name)
{
    if (name == DPT_DNN_PLAN_HANDLE)
        dpt_dnn_set_descriptor(maker, descriptor, (cudnnBackendAttributeName_t)DEVICE_OF_PLAN,
                               described);
}

void dpt_dnn_get(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor, const dpt_dnn_read *read)
{
    int64_t *number = read->values;
    dpt_dnn_get_plain(maker, descriptor, read);
    if (read->name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX && *read->n > 0 && *number == disguise.is)
        *number = disguise.shown;
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

/* Input, output channels; kernel, stride, padding and dilation in both directions; groups. */
typedef struct shape {
    size_t h, w, c, o, kernel, stride, pad, dilation, groups;
} shape;

static const shape shapes[] = {
    {28, 28, 1, 6, 5, 1, 2, 1, 1},    {14, 14, 6, 16, 5, 1, 0, 1, 1},  /* LeNet */
    {28, 28, 1, 64, 3, 1, 1, 1, 1},   {28, 28, 64, 64, 3, 1, 1, 1, 1}, /* ResNet-18 */
    {28, 28, 64, 128, 3, 2, 1, 1, 1}, {28, 28, 64, 128, 1, 2, 0, 1, 1},
    {4, 4, 512, 512, 3, 1, 1, 1, 1},  {11, 10, 2, 3, 3, 1, 2, 2, 1}, /* dilated */
    {6, 6, 8, 8, 3, 1, 1, 1, 8},      {6, 5, 6, 9, 3, 1, 1, 1, 3},   /* groups */
    {3, 3, 2, 2, 5, 1, 2, 1, 1},      {5, 5, 3, 4, 2, 4, 1, 1, 1}, /* large kernel, large stride */
};

/* All that LeNet and ResNet-18 have, of images of 28 x 28 and of 32 x 32. */
static const shape models[] = {
    {28, 28, 1, 6, 5, 1, 2, 1, 1},     {14, 14, 6, 16, 5, 1, 0, 1, 1},
    {32, 32, 3, 64, 3, 1, 1, 1, 1},    {32, 32, 64, 64, 3, 1, 1, 1, 1},
    {32, 32, 64, 128, 3, 2, 1, 1, 1},  {32, 32, 64, 128, 1, 2, 0, 1, 1},
    {16, 16, 128, 128, 3, 1, 1, 1, 1}, {16, 16, 128, 256, 3, 2, 1, 1, 1},
    {16, 16, 128, 256, 1, 2, 0, 1, 1}, {8, 8, 256, 256, 3, 1, 1, 1, 1},
    {8, 8, 256, 512, 3, 2, 1, 1, 1},   {8, 8, 256, 512, 1, 2, 0, 1, 1},
    {4, 4, 512, 512, 3, 1, 1, 1, 1},
};

static const size_t samples[] = {256, 100, 3, 1};
enum {
    N_SHAPES = sizeof shapes / sizeof *shapes,
    N_MODELS = sizeof models / sizeof *models,
    N_SAMPLES = sizeof samples / sizeof *samples,
};

static size_t out_extent(size_t in, const shape *s)
{
    return (in + 2 * s->pad - s->dilation * (s->kernel - 1) - 1) / s->stride + 1;
}

static dpt_op_desc desc_of(const shape *s, dpt_op_kind kind)
{
    return (dpt_op_desc){.kind = kind,
                         .u.conv2d = {.in_h = s->h,
                                      .in_w = s->w,
                                      .in_channels = s->c,
                                      .out_h = out_extent(s->h, s),
                                      .out_w = out_extent(s->w, s),
                                      .out_channels = s->o,
                                      .kernel_h = s->kernel,
                                      .kernel_w = s->kernel,
                                      .stride_h = s->stride,
                                      .stride_w = s->stride,
                                      .pad_h = s->pad,
                                      .pad_w = s->pad,
                                      .dilation_h = s->dilation,
                                      .dilation_w = s->dilation,
                                      .groups = s->groups}};
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* What cuDNN has for one pass. */
typedef struct finding {
    size_t n_recipes;               /* that suit */
    size_t n_repeated;              /* of them one that was there before */
    size_t n_plans[N_SAMPLES];      /* of the first few of them, for samples[] */
    size_t least_bytes, most_bytes; /* of workspace, with samples[0] */
} finding;

enum { TRIED_RECIPES = 6, MOST_RECIPES = 200 };

static bool is_among(const dpt_cuda_recipe *recipe, dpt_cuda_recipe *const *before, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (dpt_cuda_recipe_is(recipe, before[i])) return true;
    return false;
}

static void make_plans(dpt_device *device, const dpt_cuda_convolution *convolution,
                       const dpt_cuda_recipe *recipe, finding *f)
{
    makes_plans = true;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        dpt_cuda_plan plan = {.n_samples = 0};
        if (dpt_cuda_plan_create(device, &(dpt_cuda_plan_request){convolution, recipe, samples[i]},
                                 &plan) != DPT_OK)
            continue;
        const bool first = f->n_plans[i] == 0;
        f->n_plans[i] += plan.n_samples == samples[i] && plan.descriptor != NULL;
        if (i == 0 && (first || plan.workspace_bytes < f->least_bytes))
            f->least_bytes = plan.workspace_bytes;
        if (i == 0 && plan.workspace_bytes > f->most_bytes) f->most_bytes = plan.workspace_bytes;
        dpt_cuda_plan_destroy(&plan);
    }
    makes_plans = false;
}

/* There are recipes, each once, and an end of them; and for each number of samples one that does
 * it. */
static finding check_pass(test *t, const dpt_cuda_convolution *convolution)
{
    dpt_device *device = t->user;
    finding f = {.n_recipes = 0};
    dpt_cuda_recipe *all[MOST_RECIPES];
    dpt_status status = DPT_OK;
    for (; f.n_recipes < MOST_RECIPES; f.n_recipes++) {
        dpt_cuda_recipe *recipe = NULL;
        const dpt_cuda_algorithm way = {.example = 128, .rank = f.n_recipes};
        status = dpt_cuda_recipe_create(device, convolution, way, &recipe);
        if (status != DPT_OK) break;
        if (f.n_recipes < TRIED_RECIPES) make_plans(device, convolution, recipe, &f);
        f.n_repeated += is_among(recipe, all, f.n_recipes);
        all[f.n_recipes] = recipe;
    }
    for (size_t i = 0; i < f.n_recipes; i++)
        dpt_cuda_recipe_destroy(all[i]);
    CHECK_STATUS(status, DPT_E_UNSUPPORTED);
    CHECK_SIZE(f.n_repeated, 0);
    if (!CHECK(f.n_recipes > 0)) printf("  %s\n", device->error.message);
    for (size_t i = 0; i < N_SAMPLES; i++)
        if (!CHECK(f.n_plans[i] > 0))
            printf("  %zu samples: %s\n", samples[i], device->error.message);
    return f;
}

static void check_shapes(test *t, dpt_precision precision)
{
    dpt_device *device = t->user;
    dpt_cuda_device_of(device)->precision = precision;
    for (size_t i = 0; i < N_SHAPES && t->n_failures < 3; i++) {
        for (int kind = DPT_OP_CONV2D_FORWARD; kind <= DPT_OP_CONV2D_BACKWARD_WEIGHTS; kind++) {
            const dpt_op_desc desc = desc_of(&shapes[i], (dpt_op_kind)kind);
            dpt_cuda_convolution convolution = {.desc = &desc, .type = DPT_F32};
            (void)check_pass(t, &convolution);
            if (kind != DPT_OP_CONV2D_FORWARD) continue;
            convolution.has_bias = true; /* and what follows in the same pass */
            (void)check_pass(t, &convolution);
            convolution.has_relu = true;
            (void)check_pass(t, &convolution);
        }
    }
}

static void fp32(test *t)
{
    check_shapes(t, DPT_PRECISION_FP32);
}

static void tf32(test *t)
{
    check_shapes(t, DPT_PRECISION_TF32);
}

/* ---- bfloat16 -------------------------------------------------------------------------------- */

/* What conv2d_dnn_bf16.c asks for: everything in bfloat16; or bfloat16 that was widened, in TF32.
 */
typedef struct form {
    const char *name;
    dpt_op_kind kind;
    dpt_dtype type;
    bool has_bias, has_relu;
} form;

static const form forms[] = {
    {"forward", DPT_OP_CONV2D_FORWARD, DPT_BF16, false, false},
    {"forward, bias", DPT_OP_CONV2D_FORWARD, DPT_BF16, true, false},
    {"forward, bias, ReLU", DPT_OP_CONV2D_FORWARD, DPT_BF16, true, true},
    {"forward, widened", DPT_OP_CONV2D_FORWARD, DPT_F32, false, false},
    {"data", DPT_OP_CONV2D_BACKWARD_DATA, DPT_BF16, false, false},
    {"data, widened", DPT_OP_CONV2D_BACKWARD_DATA, DPT_F32, false, false},
    {"weights", DPT_OP_CONV2D_BACKWARD_WEIGHTS, DPT_BF16, false, false},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

static void check_forms(test *t, const shape *s, bool tell)
{
    if (tell)
        printf("  %zux%zux%zu to %zu, %zux%zu, stride %zu\n", s->h, s->w, s->c, s->o, s->kernel,
               s->kernel, s->stride);
    for (size_t i = 0; i < N_FORMS; i++) {
        const dpt_op_desc desc = desc_of(s, forms[i].kind);
        const dpt_cuda_convolution convolution = {.desc = &desc,
                                                  .type = forms[i].type,
                                                  .has_bias = forms[i].has_bias,
                                                  .has_relu = forms[i].has_relu};
        const finding f = check_pass(t, &convolution);
        if (tell)
            printf("    %-20s %2zu ways, of %zu that were tried %zu have plans, "
                   "workspaces %zu to %zu KiB\n",
                   forms[i].name, f.n_recipes,
                   f.n_recipes < TRIED_RECIPES ? f.n_recipes : TRIED_RECIPES, f.n_plans[0],
                   f.least_bytes / 1024, f.most_bytes / 1024);
    }
}

static void bf16(test *t)
{
    dpt_cuda_device_of(t->user)->precision = DPT_PRECISION_BF16;
    for (size_t i = 0; i < N_SHAPES && t->n_failures < 3; i++)
        check_forms(t, &shapes[i], false);
}

static void bf16_models(test *t)
{
    dpt_cuda_device_of(t->user)->precision = DPT_PRECISION_BF16;
    for (size_t i = 0; i < N_MODELS && t->n_failures < 3; i++)
        check_forms(t, &models[i], true);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

enum { TWO_MODES = 2 }; /* of heuristics, both of which are asked before a list has an end */

/* Goes through the list of an example to its end. */
static size_t count_recipes(test *t, const dpt_cuda_convolution *convolution, size_t example)
{
    size_t n = 0;
    dpt_status status = DPT_OK;
    while (n < MOST_RECIPES && status == DPT_OK) {
        dpt_cuda_recipe *recipe = NULL;
        const dpt_cuda_algorithm way = {.example = example, .rank = n};
        status = dpt_cuda_recipe_create(t->user, convolution, way, &recipe);
        n += status == DPT_OK;
        dpt_cuda_recipe_destroy(recipe);
    }
    CHECK_STATUS(status, DPT_E_UNSUPPORTED);
    return n;
}

/* Whether the first way is found, and how often heuristics were asked for it. */
static size_t asked_for_first(test *t, const dpt_cuda_convolution *convolution)
{
    dpt_cuda_recipe *recipe = NULL;
    const size_t before = n_asked;
    CHECK_OK(dpt_cuda_recipe_create(t->user, convolution, (dpt_cuda_algorithm){.example = 128},
                                    &recipe));
    dpt_cuda_recipe_destroy(recipe);
    return n_asked - before;
}

static void asks_once(test *t)
{
    dpt_device *device = t->user;
    for (int kind = DPT_OP_CONV2D_FORWARD; kind <= DPT_OP_CONV2D_BACKWARD_WEIGHTS; kind++) {
        const dpt_op_desc desc = desc_of(&shapes[3], (dpt_op_kind)kind);
        const dpt_cuda_convolution convolution = {.desc = &desc, .type = DPT_F32};
        dpt_dnn_lists_clear(dpt_cuda_device_of(device)->dnn);
        dpt_cuda_device_of(device)->precision = DPT_PRECISION_FP32;
        n_asked = 0;
        const size_t few = count_recipes(t, &convolution, 128);
        const size_t many = count_recipes(t, &convolution, 1024);
        CHECK_SIZE(count_recipes(t, &convolution, 128), few);
        CHECK_SIZE(count_recipes(t, &convolution, 1024), many);
        CHECK_SIZE(n_asked, 2 * TWO_MODES);
        dpt_cuda_device_of(device)->precision = DPT_PRECISION_TF32;
        CHECK_SIZE(asked_for_first(t, &convolution), 1);
        CHECK_SIZE(asked_for_first(t, &convolution), 0);
    }
}

/* Nothing that heuristics are told is taken for something else. */
static void tells_convolutions_apart(test *t)
{
    dpt_op_desc desc = desc_of(&shapes[3], DPT_OP_CONV2D_FORWARD);
    dpt_conv2d_desc *d = &desc.u.conv2d;
    dpt_cuda_convolution convolution = {.desc = &desc, .type = DPT_F32};
    size_t *const extents[] = {&d->in_h,       &d->in_w,         &d->in_channels, &d->out_h,
                               &d->out_w,      &d->out_channels, &d->kernel_h,    &d->kernel_w,
                               &d->stride_h,   &d->stride_w,     &d->pad_h,       &d->pad_w,
                               &d->dilation_h, &d->dilation_w};
    dpt_dnn_lists_clear(dpt_cuda_device_of(t->user)->dnn);
    dpt_cuda_device_of(t->user)->precision = DPT_PRECISION_TF32;
    CHECK_SIZE(asked_for_first(t, &convolution), 1);
    convolution.has_bias = true;
    CHECK_SIZE(asked_for_first(t, &convolution), 1);
    convolution.has_relu = true;
    CHECK_SIZE(asked_for_first(t, &convolution), 1);
    convolution.has_bias = convolution.has_relu = false;
    convolution.type = DPT_BF16;
    CHECK_SIZE(asked_for_first(t, &convolution), 1);
    convolution.type = DPT_F32;
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        dpt_cuda_recipe *recipe = NULL;
        const dpt_cuda_algorithm way = {.example = 128};
        /* No convolution at all, or one that is not in the list; in no case the one before. */
        const size_t before = n_asked;
        ++*extents[i];
        const dpt_status status = dpt_cuda_recipe_create(t->user, &convolution, way, &recipe);
        dpt_cuda_recipe_destroy(recipe);
        --*extents[i];
        CHECK(status != DPT_OK || n_asked > before);
    }
    CHECK_SIZE(asked_for_first(t, &convolution), 0);
}

static void forgets_the_oldest(test *t)
{
    shape s = shapes[3];
    const dpt_op_desc first = desc_of(&s, DPT_OP_CONV2D_FORWARD);
    const dpt_cuda_convolution oldest = {.desc = &first, .type = DPT_F32};
    dpt_cuda_device_of(t->user)->precision = DPT_PRECISION_TF32;
    dpt_dnn_lists_clear(dpt_cuda_device_of(t->user)->dnn);
    (void)asked_for_first(t, &oldest);
    for (size_t i = 1; i < DPT_DNN_LISTS_KEPT; i++) {
        s.w++;
        const dpt_op_desc desc = desc_of(&s, DPT_OP_CONV2D_FORWARD);
        const dpt_cuda_convolution other = {.desc = &desc, .type = DPT_F32};
        CHECK_SIZE(asked_for_first(t, &other), 1);
        if (i == 1) CHECK_SIZE(asked_for_first(t, &oldest), 0);
    }
    s.w++;
    const dpt_op_desc last = desc_of(&s, DPT_OP_CONV2D_FORWARD);
    CHECK_SIZE(asked_for_first(t, &(dpt_cuda_convolution){.desc = &last, .type = DPT_F32}), 1);
    CHECK_SIZE(asked_for_first(t, &oldest), 0); /* it was used since */
    s.w = shapes[3].w + 1;
    const dpt_op_desc second = desc_of(&s, DPT_OP_CONV2D_FORWARD);
    CHECK_SIZE(asked_for_first(t, &(dpt_cuda_convolution){.desc = &second, .type = DPT_F32}), 1);
}

/* Whether one of the alternatives for few samples is this way. */
static bool is_among_few(test *t, const dpt_cuda_convolution *convolution,
                         const dpt_cuda_recipe *recipe)
{
    bool found = false;
    for (size_t i = 0; i < DPT_CUDA_N_ALGORITHMS; i++) {
        dpt_cuda_recipe *other = NULL;
        const dpt_cuda_algorithm way = {.example = DPT_CUDA_FEW, .rank = i};
        if (dpt_cuda_recipe_create(t->user, convolution, way, &other) != DPT_OK) break;
        found = found || dpt_cuda_recipe_is(recipe, other);
        dpt_cuda_recipe_destroy(other);
    }
    return found;
}

/* An alternative for many samples is a way that is none of those for few, and there are some. */
static void offers_each_way_once(test *t)
{
    size_t n_open = 0, n_refused = 0;
    dpt_cuda_device_of(t->user)->precision = DPT_PRECISION_TF32;
    for (size_t i = 0; i < N_SHAPES; i++) {
        const dpt_op_desc desc = desc_of(&shapes[i], DPT_OP_CONV2D_FORWARD);
        const dpt_cuda_convolution convolution = {.desc = &desc, .type = DPT_F32};
        (void)count_recipes(t, &convolution, DPT_CUDA_FEW);
        const size_t n = count_recipes(t, &convolution, DPT_CUDA_MANY);
        makes_plans = true; /* heuristics have been asked */
        for (size_t rank = 0; rank < n && rank < DPT_CUDA_N_ALGORITHMS; rank++) {
            dpt_cuda_recipe *recipe = NULL;
            dpt_cuda_plans plans = {.device = NULL};
            const dpt_cuda_algorithm way = {
                .example = DPT_CUDA_MANY, .rank = rank, .n_few = DPT_CUDA_N_ALGORITHMS};
            CHECK_OK(dpt_cuda_recipe_create(t->user, &convolution, way, &recipe));
            const dpt_status status = dpt_cuda_plans_open(
                t->user, &(dpt_cuda_plans_request){&convolution, way, samples[0]}, &plans);
            if (is_among_few(t, &convolution, recipe)) {
                CHECK_STATUS(status, DPT_E_UNSUPPORTED);
                n_refused++;
            }
            n_open += status == DPT_OK;
            dpt_cuda_plans_close(&plans);
            dpt_cuda_recipe_destroy(recipe);
        }
        makes_plans = false;
    }
    CHECK(n_open > 0);
    CHECK(n_refused > 0);
}

/* ---- Errata ---------------------------------------------------------------------------------- */

/* Engine numbers.  A described card is not offered the engines that are refused, so the tests show
   an engine that it is offered under the refused number. */
enum {
    OFFERED = 1,         /* every pass without ReLU is offered this one */
    OFFERED_RELU = 11,   /* the forward pass with bias and ReLU is offered this one */
    MISLABELLED = 17,    /* refused for gradients of filters: its notes do not name its rounding */
    RELU_DROPS_NAN = 39, /* refused for the forward pass with ReLU: NaN becomes a number */
};

/* The number of recipes of a convolution that belong to an engine. */
static size_t count_of_engine(test *t, const dpt_cuda_convolution *convolution, int64_t engine)
{
    dpt_dnn_lists_clear(dpt_cuda_device_of(t->user)->dnn);
    const size_t n = count_recipes(t, convolution, 128);
    size_t n_found = 0;
    for (size_t i = 0; i < n; i++) {
        dpt_cuda_recipe *recipe = NULL;
        const dpt_cuda_algorithm way = {.example = 128, .rank = i};
        if (CHECK_OK(dpt_cuda_recipe_create(t->user, convolution, way, &recipe)))
            n_found += recipe->engine == engine;
        dpt_cuda_recipe_destroy(recipe);
    }
    return n_found;
}

/* Shows engine `offered` under the number `shown`, and checks how many of its recipes are left. */
static void check_shown(test *t, const dpt_cuda_convolution *convolution, int64_t offered,
                        int64_t shown, bool refused)
{
    const size_t n = count_of_engine(t, convolution, offered);
    CHECK(n > 0);
    disguise.is = offered;
    disguise.shown = shown;
    CHECK_SIZE(count_of_engine(t, convolution, shown), refused ? 0 : n);
    disguise.is = disguise.shown = 0;
}

static void refuses_what_is_mislabelled(test *t)
{
    for (int precision = DPT_PRECISION_FP32; precision <= DPT_PRECISION_BF16; precision++) {
        dpt_cuda_device_of(t->user)->precision = (dpt_precision)precision;
        for (int kind = DPT_OP_CONV2D_FORWARD; kind <= DPT_OP_CONV2D_BACKWARD_WEIGHTS; kind++) {
            const dpt_op_desc desc = desc_of(&shapes[1], (dpt_op_kind)kind);
            const dpt_cuda_convolution convolution = {.desc = &desc, .type = DPT_F32};
            check_shown(t, &convolution, OFFERED, MISLABELLED,
                        kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS);
        }
    }
}

/* The engine serves a forward pass without ReLU, and no forward pass with one. */
static void refuses_a_relu_that_drops_nan(test *t)
{
    for (int precision = DPT_PRECISION_FP32; precision <= DPT_PRECISION_BF16; precision++) {
        dpt_cuda_device_of(t->user)->precision = (dpt_precision)precision;
        const dpt_op_desc desc = desc_of(&shapes[1], DPT_OP_CONV2D_FORWARD);
        dpt_cuda_convolution convolution = {.desc = &desc, .type = DPT_F32};
        check_shown(t, &convolution, OFFERED, RELU_DROPS_NAN, false);
        convolution.has_bias = convolution.has_relu = true;
        check_shown(t, &convolution, OFFERED_RELU, RELU_DROPS_NAN, true);
    }
}

/* ---- The description ------------------------------------------------------------------------- */

static dpt_status describe_card(dpt_device *device)
{
    dpt_dnn_maker maker = {.device = device};
    described = dpt_dnn_create_plain(&maker, (cudnnBackendDescriptorType_t)DEVICE_DESCRIPTOR);
    dpt_dnn_set(&maker, described,
                &(dpt_dnn_attribute){(cudnnBackendAttributeName_t)DEVICE_AS_JSON, CUDNN_TYPE_CHAR,
                                     sizeof h200, h200});
    dpt_dnn_finalize(&maker, described);
    return dpt_dnn_finish(&maker, "the description of a card");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"fp32", fp32},
        {"tf32", tf32},
        {"bf16", bf16},
        {"bf16: LeNet and ResNet-18", bf16_models},
        {"heuristics are asked once", asks_once},
        {"convolutions are told apart", tells_convolutions_apart},
        {"the oldest list is forgotten", forgets_the_oldest},
        {"each way is offered once", offers_each_way_once},
        {"what is mislabelled is refused", refuses_what_is_mislabelled},
        {"a ReLU that drops NaN is refused", refuses_a_relu_that_drops_nan},
    };
    dpt_cuda_dnn without_card = {.handle = NULL};
    dpt_cuda_device cuda = {.ordinal = 0};
    dpt_device device = {.state = &cuda};
    if (dpt_cuda_dnn_open(&device, &cuda.dnn) != DPT_OK || !dpt_cudnn.cudnnGetVersion) {
        puts("skipped: there is no cuDNN");
        return TEST_SKIP_CODE;
    }
    if (!cuda.dnn) cuda.dnn = &without_card;
    if (describe_card(&device) != DPT_OK) {
        printf("skipped: cuDNN %zu takes no description: %s\n", dpt_cudnn.cudnnGetVersion(),
               device.error.message);
        return TEST_SKIP_CODE;
    }
    const int result = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &device);
    dpt_dnn_drop(described);
    dpt_dnn_lists_clear(&without_card);
    if (cuda.dnn != &without_card) dpt_cuda_dnn_close(cuda.dnn);
    return result;
}
