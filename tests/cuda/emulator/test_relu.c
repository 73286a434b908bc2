/* A library's ReLU behind a product is used if it keeps NaN, and only then (backends/cuda/relu.c).
   Which it is shows in the workspace of a layer in bfloat16, where what is not whole lies there. */
#include "harness.h"

#include "device/device.h"

#include <stdlib.h>
#include <string.h>

typedef struct layers {
    dpt_status status;
    size_t plain_bytes, relu_bytes; /* of workspace */
} layers;

static dpt_status workspace_of(dpti_device *device, dpt_activation activation, size_t *n_bytes)
{
    const dpt_op_desc desc = {
        .kind = DPT_OP_LINEAR_FORWARD,
        .type = DPT_BF16,
        .u.linear = {.in = 30, .out = 20, .has_bias = true, .activation = activation}};
    dpti_op op = {.device = NULL};
    DPT_TRY(dpti_prepare(device, &desc, 100, &op));
    *n_bytes = op.info.workspace_bytes;
    dpti_release(&op);
    return DPT_OK;
}

static void run(dpti_device *device, void *argument)
{
    layers *l = argument;
    l->status = workspace_of(device, DPT_ACT_NONE, &l->plain_bytes);
    if (l->status == DPT_OK) l->status = workspace_of(device, DPT_ACT_RELU, &l->relu_bytes);
}

static void is_used_if_it_keeps_nan(test *t)
{
    const char *libraries = getenv("CUDA_EMULATED_LIBRARIES");
    layers l = {.status = DPT_OK};
    dpt_context *context = NULL;
    dpt_device_set *set = NULL;
    REQUIRE(libraries);
    REQUIRE_OK(dpt_context_create(&context));
    if (CHECK_OK(dpt_devices_open(context, "cuda:0:precision=bf16:algorithm=cublaslt", &set))) {
        dpti_driver_call(set->devices[0], run, &l);
        CHECK_OK(l.status);
        if (strstr(libraries, "loses-nan"))
            CHECK(l.relu_bytes > l.plain_bytes);
        else
            CHECK_SIZE(l.relu_bytes, l.plain_bytes);
    }
    dpt_devices_close(set);
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"is used if it keeps NaN", is_used_if_it_keeps_nan}};
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
