/* Opening cuDNN, its errors, and descriptors (dnn_graph.h). */
#include "dnn_graph.h"
#include "library.h"

#include <pthread.h>
#include <stdlib.h>

#define STRING_(x)   #x
#define STRING(x)    STRING_(x)
#define LIBRARY_NAME "libcudnn.so." STRING(CUDNN_MAJOR)

dpt_cuda_dnn_functions dpt_cudnn;

/* In a device's detail, where there is none; constant once a device is open. */
static char without[96] = "no cuDNN";

/* ---- The library ----------------------------------------------------------------------------- */

static bool load(void)
{
#define SYMBOL(name) {#name, &dpt_cudnn.name},
    static const dpt_cuda_symbol symbols[] = {DPT_CUDA_DNN_FUNCTIONS(SYMBOL)};
#undef SYMBOL
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool tried;
    static void *library;
    char problem[128] = "";
    pthread_mutex_lock(&lock);
    if (!tried)
        library = dpt_cuda_library_open(LIBRARY_NAME, symbols, sizeof symbols / sizeof *symbols,
                                        problem, sizeof problem);
    if (!tried && !library) snprintf(without, sizeof without, "no cuDNN (%.80s)", problem);
    tried = true;
    pthread_mutex_unlock(&lock);
    return library != NULL;
}

static dpt_status status_of(cudnnStatus_t code)
{
    enum { OK = 0, BAD_PARAMETER = 2, NOT_SUPPORTED = 3 };
    switch ((int)code / 1000) {
    case OK: return DPT_OK;
    case BAD_PARAMETER:
    case NOT_SUPPORTED: return DPT_E_UNSUPPORTED;
    default:
        return code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
                       code == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
                   ? DPT_E_NO_MEMORY
                   : DPT_E_DEVICE;
    }
}

/* A failure may be that of work before it. */
dpt_status dpt_cuda_dnn_fail(dpt_device *device, cudnnStatus_t code, const char *what, int line)
{
    const cudaError_t behind = dpt_cuda_behind(device);
    if (behind != cudaSuccess) return dpt_cuda_fail(&device->error, behind, what, __FILE__, line);
    return dpt_error_set(&device->error, status_of(code), (long)code, __FILE__, line, "%s: %s (%d)",
                         what, dpt_cudnn.cudnnGetErrorString(code), (int)code);
}

static void describe(dpt_cuda_dnn *dnn)
{
    const size_t version = dpt_cudnn.cudnnGetVersion(); /* 91900 of 9.19.0 */
    snprintf(dnn->description, sizeof dnn->description, "cuDNN %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
}

dpt_status dpt_cuda_dnn_open(dpt_device *device, dpt_cuda_dnn **out)
{
    if (!load()) return DPT_OK;
    dpt_cuda_dnn *dnn = calloc(1, sizeof *dnn);
    if (!dnn) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory to open cuDNN");
    describe(dnn);
    const cudnnStatus_t code = dpt_cudnn.cudnnCreate(&dnn->handle);
    if (code != CUDNN_STATUS_SUCCESS) {
        free(dnn);
        const dpt_status status = dpt_cuda_dnn_fail(device, code, "cudnnCreate", __LINE__);
        /* Half of it is installed, or it is not for this card: our own kernels do its work. */
        return status == DPT_E_DEVICE_LOST || status == DPT_E_NO_MEMORY ? status : DPT_OK;
    }
    *out = dnn;
    return DPT_OK;
}

void dpt_cuda_dnn_close(dpt_cuda_dnn *dnn)
{
    if (!dnn) return;
    (void)dpt_cudnn.cudnnDestroy(dnn->handle);
    dpt_dnn_lists_clear(dnn);
    free(dnn);
}

const char *dpt_cuda_dnn_description(const dpt_cuda_dnn *dnn)
{
    return dnn ? dnn->description : without;
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

dpt_dnn_descriptor dpt_dnn_create(dpt_dnn_maker *maker, cudnnBackendDescriptorType_t type)
{
    dpt_dnn_descriptor descriptor = NULL;
    if (maker->code != CUDNN_STATUS_SUCCESS) return NULL;
    maker->code = dpt_cudnn.cudnnBackendCreateDescriptor(type, &descriptor);
    return maker->code == CUDNN_STATUS_SUCCESS ? descriptor : NULL;
}

void dpt_dnn_set(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                 cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t n,
                 const void *values)
{
    if (maker->code != CUDNN_STATUS_SUCCESS) return;
    maker->code = dpt_cudnn.cudnnBackendSetAttribute(descriptor, name, type, (int64_t)n, values);
}

void dpt_dnn_set_integer(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                         cudnnBackendAttributeName_t name, int64_t value)
{
    dpt_dnn_set(maker, descriptor, name, CUDNN_TYPE_INT64, 1, &value);
}

void dpt_dnn_set_descriptor(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                            cudnnBackendAttributeName_t name, dpt_dnn_descriptor value)
{
    dpt_dnn_set(maker, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void dpt_dnn_set_handle(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor, int name)
{
    const cudnnHandle_t handle = dpt_cuda_device_of(maker->device)->dnn->handle;
    dpt_dnn_set(maker, descriptor, (cudnnBackendAttributeName_t)name, CUDNN_TYPE_HANDLE, 1,
                &handle);
}

void dpt_dnn_get(dpt_dnn_maker *maker, dpt_dnn_descriptor descriptor,
                 cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t *n,
                 void *values)
{
    const int64_t room = *n;
    *n = 0;
    if (maker->code != CUDNN_STATUS_SUCCESS) return;
    maker->code = dpt_cudnn.cudnnBackendGetAttribute(descriptor, name, type, room, n, values);
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
