/* Recipes and plans of cuDNN's (backends/cuda/dnn_plan.c), without a card: cuDNN answers for a card
   that is only described to it.  Everything up to the execution is real; dnn.c is compiled with
   other names for two functions, which here give the description in place of a device's handle.

   Skips where cuDNN is missing, or too old to take a description. */
#include "harness.h"

#include "dnn_graph.h"

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
    "\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,\"cudaDeviceId\":0,\"deviceVer\":900,"
    "\"driverVer\":13000,\"deviceName\":\"NVIDIA H200\"}";

/* What the replaced functions add. */
static dpt_dnn_descriptor described;
static bool makes_plans; /* and not asks heuristics, whose engines are theirs */

/* dnn.c's. */
dpt_dnn_descriptor dpt_dnn_create_plain(dpt_dnn_maker *maker, cudnnBackendDescriptorType_t type);

dpt_dnn_descriptor dpt_dnn_create(dpt_dnn_maker *maker, cudnnBackendDescriptorType_t type)
{
    dpt_dnn_descriptor made = dpt_dnn_create_plain(maker, type);
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

static const size_t samples[] = {256, 100, 3, 1};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, N_SAMPLES = sizeof samples / sizeof *samples };

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

/* Counts the numbers of samples that a recipe has plans for. */
static void make_plans(dpt_device *device, const dpt_op_desc *desc, const dpt_cuda_recipe *recipe,
                       size_t n_plans[N_SAMPLES])
{
    makes_plans = true;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        dpt_cuda_plan plan = {.n_samples = 0};
        if (dpt_cuda_plan_create(device, desc, recipe, samples[i], &plan) != DPT_OK) continue;
        n_plans[i] += plan.n_samples == samples[i] && plan.descriptor != NULL;
        dpt_cuda_plan_destroy(&plan);
    }
    makes_plans = false;
}

/* There are recipes, and an end of them; and for each number of samples one that does it. */
static void check_pass(test *t, const dpt_op_desc *desc)
{
    enum { MOST_RECIPES = 200 };
    dpt_device *device = t->user;
    size_t n_plans[N_SAMPLES] = {0}, rank = 0;
    dpt_status status = DPT_OK;
    for (; rank < MOST_RECIPES; rank++) {
        dpt_cuda_recipe *recipe = NULL;
        status = dpt_cuda_recipe_create(device, desc, rank, &recipe);
        if (status != DPT_OK) break;
        if (rank < 6) make_plans(device, desc, recipe, n_plans);
        dpt_cuda_recipe_destroy(recipe);
    }
    CHECK_STATUS(status, DPT_E_UNSUPPORTED);
    if (!CHECK(rank > 0)) printf("  %s\n", device->error.message);
    for (size_t i = 0; i < N_SAMPLES; i++)
        if (!CHECK(n_plans[i] > 0))
            printf("  %zu samples: %s\n", samples[i], device->error.message);
}

static void check_shapes(test *t, dpt_cuda_precision precision)
{
    dpt_device *device = t->user;
    dpt_cuda_device_of(device)->precision = precision;
    for (size_t i = 0; i < N_SHAPES && t->n_failures < 3; i++) {
        for (int kind = DPT_OP_CONV2D_FORWARD; kind <= DPT_OP_CONV2D_BACKWARD_WEIGHTS; kind++) {
            const dpt_op_desc desc = desc_of(&shapes[i], (dpt_op_kind)kind);
            check_pass(t, &desc);
        }
    }
}

static void fp32(test *t)
{
    check_shapes(t, DPT_CUDA_FP32);
}

static void tf32(test *t)
{
    check_shapes(t, DPT_CUDA_TF32);
}

/* ---- The description ------------------------------------------------------------------------- */

static dpt_status describe_card(dpt_device *device)
{
    dpt_dnn_maker maker = {.device = device};
    described = dpt_dnn_create_plain(&maker, (cudnnBackendDescriptorType_t)DEVICE_DESCRIPTOR);
    dpt_dnn_set(&maker, described, (cudnnBackendAttributeName_t)DEVICE_AS_JSON, CUDNN_TYPE_CHAR,
                sizeof h200, h200);
    dpt_dnn_finalize(&maker, described);
    return dpt_dnn_finish(&maker, "the description of a card");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"fp32", fp32}, {"tf32", tf32}};
    dpt_cuda_device cuda = {.ordinal = 0};
    dpt_device device = {.state = &cuda};
    if (dpt_cuda_dnn_open(&device, &cuda.dnn) != DPT_OK || !dpt_cudnn.cudnnGetVersion) {
        puts("skipped: there is no cuDNN");
        return TEST_SKIP_CODE;
    }
    if (describe_card(&device) != DPT_OK) {
        printf("skipped: cuDNN %zu takes no description: %s\n", dpt_cudnn.cudnnGetVersion(),
               device.error.message);
        return TEST_SKIP_CODE;
    }
    const int result = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &device);
    dpt_dnn_drop(described);
    dpt_cuda_dnn_close(cuda.dnn);
    return result;
}
