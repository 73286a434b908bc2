/* cuDNN's descriptors: creating, setting, reading, finalizing (dnn_graph.h). */
#include "dnn_graph.h"

dpt_dnn_descriptor dpt_dnn_create(dpt_dnn_maker *maker, cudnnBackendDescriptorType_t type)
{
    dpt_dnn_descriptor descriptor = NULL;
    if (maker->code != CUDNN_STATUS_SUCCESS) return NULL;
    maker->code = dpt_cudnn.cudnnBackendCreateDescriptor(type, &descriptor);
    return maker->code == CUDNN_STATUS_SUCCESS ? descriptor : NULL;
}

void dpt_dnn_set(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                 const dpt_dnn_attribute *attribute)
{
    const dpt_dnn_attribute *a = attribute;
    if (maker->code != CUDNN_STATUS_SUCCESS) return;
    maker->code =
        dpt_cudnn.cudnnBackendSetAttribute(descriptor, a->name, a->type, (int64_t)a->n, a->values);
}

void dpt_dnn_set_integer(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                         cudnnBackendAttributeName_t name, int64_t value)
{
    dpt_dnn_set(maker, descriptor, &(dpt_dnn_attribute){name, CUDNN_TYPE_INT64, 1, &value});
}

void dpt_dnn_set_descriptor(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                            cudnnBackendAttributeName_t name, dpt_dnn_descriptor value)
{
    dpt_dnn_set(maker, descriptor,
                &(dpt_dnn_attribute){name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value});
}

void dpt_dnn_set_handle(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor, int name)
{
    const cudnnHandle_t handle = dpt_cuda_device_of(maker->device)->dnn->handle;
    dpt_dnn_set(
        maker, descriptor,
        &(dpt_dnn_attribute){(cudnnBackendAttributeName_t)name, CUDNN_TYPE_HANDLE, 1, &handle});
}

void dpt_dnn_get(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor, const dpt_dnn_read *read)
{
    const int64_t room = *read->n;
    *read->n = 0;
    if (maker->code != CUDNN_STATUS_SUCCESS) return;
    maker->code = dpt_cudnn.cudnnBackendGetAttribute(descriptor, read->name, read->type, room,
                                                     read->n, read->values);
}

void dpt_dnn_finalize(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor)
{
    if (maker->code != CUDNN_STATUS_SUCCESS) return;
    maker->code = dpt_cudnn.cudnnBackendFinalize(descriptor);
}

void dpt_dnn_drop(dpt_dnn_descriptor descriptor)
{
    if (descriptor) (void)dpt_cudnn.cudnnBackendDestroyDescriptor(descriptor);
}

dpt_status dpt_dnn_finish(const dpt_dnn_maker *maker, const char *what)
{
    if (maker->code == CUDNN_STATUS_SUCCESS) return DPT_OK;
    const dpt_status status = dpt_cuda_dnn_fail(maker->device, maker->code, what, __LINE__);
    if (status != DPT_E_DEVICE) return status;
    maker->device->error.status = DPT_E_UNSUPPORTED;
    return DPT_E_UNSUPPORTED;
}
