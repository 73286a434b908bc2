/* The runtime's error codes: the status that each one means, and what a person can do. */
#include "runtime.h"

#include <string.h>

/* Codes that older toolkits have no name for. */
enum { CONTAINED = 226, MPS_CLIENT_TERMINATED = 810, TENSOR_MEMORY_LEAK = 721 };

typedef struct code_row {
    int code;
    dpt_status status;
    const char *advice; /* what to try, or NULL */
} code_row;

static const char no_memory[] = "take a smaller batch or --micro-batch, or free memory there";
static const char lost[] = "the card's context is broken: restart the program; if it comes again, "
                           "look at the system's log (Xid), the driver's version and the card";
static const char other_build[] = "this build has no kernels for the card: build dptrain with a "
                                  "toolkit that knows it";
static const char setup[] = "the driver is not ready: see nvidia-smi";

static const char captured[] = "graphs=off runs it without CUDA graphs";

static const code_row codes[] = {
    {cudaErrorMemoryAllocation, DPT_E_NO_MEMORY, no_memory},
    {cudaErrorNoDevice, DPT_E_ABSENT, NULL},
    {cudaErrorInsufficientDriver, DPT_E_ABSENT, "update the driver"},
    {cudaErrorDevicesUnavailable, DPT_E_DEVICE, "another process has the card for itself alone"},
    {cudaErrorNoKernelImageForDevice, DPT_E_UNSUPPORTED, other_build},
    {cudaErrorInvalidDeviceFunction, DPT_E_UNSUPPORTED, other_build},
    {cudaErrorUnsupportedPtxVersion, DPT_E_UNSUPPORTED, "update the driver"},
    {cudaErrorPeerAccessUnsupported, DPT_E_UNSUPPORTED, NULL},
    {cudaErrorTooManyPeers, DPT_E_UNSUPPORTED, NULL},
    {cudaErrorStreamCaptureUnsupported, DPT_E_UNSUPPORTED, captured},
    {cudaErrorStreamCaptureInvalidated, DPT_E_UNSUPPORTED, captured},
    {cudaErrorStreamCaptureMerge, DPT_E_UNSUPPORTED, captured},
    {cudaErrorStreamCaptureUnmatched, DPT_E_UNSUPPORTED, captured},
    {cudaErrorStreamCaptureUnjoined, DPT_E_UNSUPPORTED, captured},
    {cudaErrorStreamCaptureIsolation, DPT_E_UNSUPPORTED, captured},
    {cudaErrorStreamCaptureImplicit, DPT_E_UNSUPPORTED, captured},
    {cudaErrorSystemNotReady, DPT_E_DEVICE, setup},
    {cudaErrorSystemDriverMismatch, DPT_E_DEVICE, setup},
    {cudaErrorECCUncorrectable, DPT_E_DEVICE_LOST, lost},
    {cudaErrorNvlinkUncorrectable, DPT_E_DEVICE_LOST, lost},
    {CONTAINED, DPT_E_DEVICE_LOST, lost},
    {cudaErrorIllegalAddress, DPT_E_DEVICE_LOST, lost},
    {cudaErrorLaunchTimeout, DPT_E_DEVICE_LOST, lost},
    {cudaErrorContextIsDestroyed, DPT_E_DEVICE_LOST, lost},
    {cudaErrorAssert, DPT_E_DEVICE_LOST, lost},
    {cudaErrorHardwareStackError, DPT_E_DEVICE_LOST, lost},
    {cudaErrorIllegalInstruction, DPT_E_DEVICE_LOST, lost},
    {cudaErrorMisalignedAddress, DPT_E_DEVICE_LOST, lost},
    {cudaErrorInvalidAddressSpace, DPT_E_DEVICE_LOST, lost},
    {cudaErrorInvalidPc, DPT_E_DEVICE_LOST, lost},
    {cudaErrorLaunchFailure, DPT_E_DEVICE_LOST, lost},
    {TENSOR_MEMORY_LEAK, DPT_E_DEVICE_LOST, lost},
    {cudaErrorMpsRpcFailure, DPT_E_DEVICE_LOST, lost},
    {MPS_CLIENT_TERMINATED, DPT_E_DEVICE_LOST, lost},
    {cudaErrorExternalDevice, DPT_E_DEVICE_LOST, lost},
    {cudaErrorUnknown, DPT_E_DEVICE_LOST, lost},
};

static const code_row *find(cudaError_t code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].code == (int)code) return &codes[i];
    return NULL;
}

dpt_status dpt_cuda_status(cudaError_t code)
{
    const code_row *row = find(code);
    return code == cudaSuccess ? DPT_OK : row ? row->status : DPT_E_DEVICE;
}

/* The length of the function's name, as of "cudaMalloc" in "cudaMalloc(&p, n)". */
static int call_length(const char *what)
{
    return (int)strcspn(what, "(");
}

dpt_status dpt_cuda_fail(dpt_error *error, cudaError_t code, const char *what, const char *file,
                         int line)
{
    const code_row *row = find(code);
    const char *advice = row ? row->advice : NULL;
    (void)cudaGetLastError();
    return dpt_error_set(error, dpt_cuda_status(code), (long)code, file, line,
                         "%.*s: %s (%d, %s)%s%s", call_length(what), what, cudaGetErrorName(code),
                         (int)code, cudaGetErrorString(code), advice ? "; " : "",
                         advice ? advice : "");
}

cudaError_t dpt_cuda_context_failure(cudaStream_t stream)
{
    const cudaError_t code = cudaStreamQuery(stream);
    (void)cudaGetLastError();
    return dpt_cuda_status(code) == DPT_E_DEVICE_LOST ? code : cudaSuccess;
}
