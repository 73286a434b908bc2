/* Opening and closing cuDNN, and what its errors mean. */
#include "dnn_graph.h"
#include "library.h"

#include <pthread.h>
#include <stdlib.h>

#define STRING_(x)   #x
#define STRING(x)    STRING_(x)
#define LIBRARY_NAME "libcudnn.so." STRING(CUDNN_MAJOR)

dpt_cuda_dnn_functions dpt_cudnn;

/* Part of a device's detail if cuDNN is missing; constant once a device is open. */
static char without[96] = "no cuDNN";

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
        library = dpt_cuda_library_open(
            LIBRARY_NAME, (dpt_cuda_symbols){symbols, sizeof symbols / sizeof *symbols}, problem,
            sizeof problem);
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

dpt_status dpt_cuda_dnn_fail(dpt_device *device, cudnnStatus_t code, const char *what, int line)
{
    const cudaError_t behind = dpt_cuda_context_failure_of(device);
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
        /* cuDNN is installed in part, or does not support this card: our own kernels do its work.
         */
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
