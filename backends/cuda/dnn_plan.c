/* cuDNN's execution plans: a plan executes the graph of a convolution with one recipe. */
#include "dnn_graph.h"

/* A recipe's descriptors for a graph, which are dropped together. */
typedef struct configuration {
    dpt_dnn_descriptor engine, knobs[DPT_DNN_MAX_KNOBS], config;
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
        dpt_dnn_set(m, c->knobs[i],
                    &(dpt_dnn_attribute){CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                                         &recipe->knobs[i].type});
        dpt_dnn_set_integer(m, c->knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                            recipe->knobs[i].value);
        dpt_dnn_finalize(m, c->knobs[i]);
    }
    c->config = dpt_dnn_create(m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    dpt_dnn_set_descriptor(m, c->config, CUDNN_ATTR_ENGINECFG_ENGINE, c->engine);
    if (recipe->n_knobs > 0)
        dpt_dnn_set(m, c->config,
                    &(dpt_dnn_attribute){CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, recipe->n_knobs, c->knobs});
    dpt_dnn_finalize(m, c->config);
}

static void drop_configuration(configuration *c)
{
    dpt_dnn_drop(c->config);
    for (size_t i = 0; i < DPT_DNN_MAX_KNOBS; i++)
        dpt_dnn_drop(c->knobs[i]);
    dpt_dnn_drop(c->engine);
}

dpt_status dpt_cuda_plan_create(dpt_device *device, const dpt_cuda_plan_request *request,
                                dpt_cuda_plan *out)
{
    const dpt_cuda_convolution *convolution = request->convolution;
    const size_t n_samples = request->n_samples;
    dpt_dnn_maker m = {.device = device};
    dpt_dnn_graph g = {.x = NULL};
    configuration c = {.engine = NULL};
    int64_t one = 1, workspace_bytes = 0;
    dpt_dnn_graph_make(&m, convolution, n_samples, &g);
    make_configuration(&m, &g, request->recipe, &c);
    dpt_dnn_descriptor plan = dpt_dnn_create(&m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    dpt_dnn_set_handle(&m, plan, DPT_DNN_PLAN_HANDLE);
    dpt_dnn_set_descriptor(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, c.config);
    dpt_dnn_finalize(&m, plan);
    dpt_dnn_get(&m, plan,
                &(dpt_dnn_read){CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &one,
                                &workspace_bytes});
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
    dpt_dnn_set(
        &m, pack,
        &(dpt_dnn_attribute){CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, uids});
    dpt_dnn_set(&m, pack,
                &(dpt_dnn_attribute){CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n,
                                     pointers});
    dpt_dnn_set(&m, pack,
                &(dpt_dnn_attribute){CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                                     &tensors->workspace});
    dpt_dnn_finalize(&m, pack);
    if (m.code == CUDNN_STATUS_SUCCESS) m.code = dpt_cudnn.cudnnSetStream(handle, stream->queue);
    if (m.code == CUDNN_STATUS_SUCCESS)
        m.code = dpt_cudnn.cudnnBackendExecute(handle, plan->descriptor, pack);
    dpt_dnn_drop(pack);
    return m.code == CUDNN_STATUS_SUCCESS
               ? DPT_OK
               : dpt_cuda_dnn_fail(stream->device, m.code, "cudnnBackendExecute", __LINE__);
}
