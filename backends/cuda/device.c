/* Probing, describing, opening and closing CUDA devices. */
#include "blas.h"
#include "cache.h"
#include "dnn.h"
#include "size.h"
#include "state.h"
#include "tables.h"

#include <stdlib.h>
#include <string.h>

static const char *const precision_names[] = {
    DPT_PRECISION_NAMES,
};

enum { SWITCHED_OFF, SWITCHED_ON };
static const char *const switches[] = {[SWITCHED_OFF] = "off", [SWITCHED_ON] = "on", NULL};

const dpt_param_spec dpt_cuda_param_specs[] = {
    {.key = "precision",
     .help =
         "fp32, tf32 or bf16: what products and convolutions do with their inputs, and, of bf16, "
         "what activations are stored as (default: fp32, true float32)",
     .type = DPT_PARAM_PRECISION,
     .precisions = 1u << DPT_PRECISION_FP32 | 1u << DPT_PRECISION_TF32 | 1u << DPT_PRECISION_BF16},
    {.key = "graphs",
     .help = "on or off: whether what a step does is recorded once and launched as a CUDA graph "
             "then (default: on)",
     .type = DPT_PARAM_CHOICE,
     .choices = switches},
    {.key = "algorithm",
     .help = "the beginning of the name of the only convolutions and products considered where "
             "they apply: cudnn, cublaslt, local (default: whichever measures faster)"},
    {.key = NULL},
};

enum { LEAST_CAPABILITY = 75 }; /* of the kernels that are compiled in */

/* ---- Probing --------------------------------------------------------------------------------- */

static void version_text(int version, char out[16])
{
    snprintf(out, 16, "%d.%d", version / 1000, version % 1000 / 10);
}

static dpt_status absent(dpt_error *error, cudaError_t code)
{
    int driver = 0;
    char of_driver[16], of_build[16];
    (void)cudaGetLastError();
    if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
    version_text(driver, of_driver);
    version_text(CUDART_VERSION, of_build);
    if (driver == 0)
        return DPT_FAIL_NATIVE(error, DPT_E_ABSENT, (long)code,
                               "no NVIDIA driver: libcuda.so.1 is not there or no card answers it; "
                               "install the card's driver");
    if (code == cudaErrorInsufficientDriver)
        return DPT_FAIL_NATIVE(error, DPT_E_ABSENT, (long)code,
                               "the NVIDIA driver serves CUDA %s and this build is for %s: update "
                               "the driver, or build with an older toolkit",
                               of_driver, of_build);
    if (code == cudaErrorNoDevice)
        return DPT_FAIL_NATIVE(error, DPT_E_ABSENT, (long)code,
                               "no NVIDIA card that can be used (is CUDA_VISIBLE_DEVICES set?)");
    return DPT_FAIL_NATIVE(error, DPT_E_ABSENT, (long)code, "the NVIDIA driver does not work: %s",
                           cudaGetErrorString(code));
}

static dpt_status probe(size_t *n_devices, dpt_error *error)
{
    int n = 0;
    const cudaError_t code = cudaGetDeviceCount(&n);
    if (code != cudaSuccess) return absent(error, code);
    if (n <= 0) return absent(error, cudaErrorNoDevice);
    *n_devices = (size_t)n;
    return DPT_OK;
}

/* ---- Describing ------------------------------------------------------------------------------ */

static void fill_info(int ordinal, const struct cudaDeviceProp *p, dpt_device_properties *info)
{
    int driver = 0;
    char of_driver[16];
    *info = (dpt_device_properties){
        .memory_bytes = p->totalGlobalMem,
        .alignment_bytes = DPT_ALIGNMENT_BYTES,
        .n_threads = (unsigned)p->multiProcessorCount,
        /* Libraries load a kernel at its first use, and their convolutions apply no mask. */
        .flags = DPT_DEVICE_RECORDS_LATE | DPT_DEVICE_NORMS_MASK | DPT_DEVICE_DETERMINISTIC,
    };
    if (cudaDriverGetVersion(&driver) != cudaSuccess) (void)cudaGetLastError();
    version_text(driver, of_driver);
    snprintf(info->name, sizeof info->name, "%.95s", p->name);
    snprintf(info->detail, sizeof info->detail, "compute capability %d.%d, driver for CUDA %s",
             p->major, p->minor, of_driver);
    _Static_assert(sizeof info->uuid == sizeof p->uuid, "16 bytes");
    memcpy(info->uuid, &p->uuid, sizeof info->uuid);
    snprintf(info->pci_id, sizeof info->pci_id, "%04x:%02x:%02x.0", p->pciDomainID & 0xffff,
             p->pciBusID & 0xff, p->pciDeviceID & 0x1f);
    snprintf(info->memory_domain, sizeof info->memory_domain, "cuda:%d", ordinal);
    snprintf(info->compute_domain, sizeof info->compute_domain, "cuda:%d", ordinal);
    snprintf(info->fault_domain, sizeof info->fault_domain, "cuda:%d", ordinal);
}

static dpt_status read_properties(size_t index, struct cudaDeviceProp *out, dpt_error *error)
{
    size_t n_devices = 0;
    DPT_TRY(probe(&n_devices, error));
    if (index >= n_devices)
        return DPT_FAIL(error, DPT_E_NOT_FOUND, "there is no cuda:%zu: there %s %zu", index,
                        n_devices == 1 ? "is" : "are", n_devices);
    const cudaError_t code = cudaGetDeviceProperties(out, (int)index);
    return code == cudaSuccess ? DPT_OK : DPT_CUDA_FAIL(error, code, "cudaGetDeviceProperties");
}

static dpt_status describe(size_t index, dpt_device_properties *info, dpt_error *error)
{
    struct cudaDeviceProp properties;
    DPT_TRY(read_properties(index, &properties, error));
    fill_info((int)index, &properties, info);
    return DPT_OK;
}

static dpt_status info(dpt_device *device, dpt_device_properties *out)
{
    const dpt_cuda_device *cuda = dpt_cuda_device_of(device);
    fill_info(cuda->ordinal, &cuda->properties, out);
    out->activations = cuda->traits.activations;
    const size_t n = strlen(out->detail);
    snprintf(out->detail + n, sizeof out->detail - n, ", %s, %s, %s",
             precision_names[cuda->precision], dpt_cuda_blas_description(cuda->blas),
             dpt_cuda_dnn_description(cuda->dnn));
    return DPT_OK;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static dpt_status read_precision(dpt_precision precision, dpt_cuda_device *cuda, dpt_error *error)
{
    if (precision != DPT_PRECISION_FP32 && cuda->properties.major < 8)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                        "precision=%s needs compute capability 8.0; %.60s has %d.%d",
                        precision_names[precision], cuda->properties.name, cuda->properties.major,
                        cuda->properties.minor);
    cuda->precision = precision;
    return DPT_OK;
}

static dpt_status read_params(const dpt_device_request *request, dpt_cuda_device *cuda,
                              dpt_error *error)
{
    const dpt_param *graphs = dpt_param_find(request, "graphs");
    const dpt_param *algorithm = dpt_param_find(request, "algorithm");
    DPT_TRY(read_precision(request->precision, cuda, error));
    cuda->has_graphs = !graphs || graphs->number == SWITCHED_ON;
    if (!algorithm) return DPT_OK;
    cuda->algorithm = strdup(algorithm->text);
    if (!cuda->algorithm) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a device");
    return DPT_OK;
}

/* ---- For backends/common --------------------------------------------------------------------- */

static void set_traits(dpt_cuda_device *cuda)
{
    const struct cudaDeviceProp *p = &cuda->properties;
    cuda->traits = (dpt_traits){
        .name = p->name,
        .is_compiled = true,
        .n_units = p->multiProcessorCount > 0 ? (unsigned)p->multiProcessorCount : 1,
        .group_size = 256, /* as GROUP of dialect.h */
        .vector_width = 1,
        .most_group_size = (size_t)p->maxThreadsPerBlock,
        .most_shared_bytes = p->sharedMemPerBlock,
        .activations = cuda->precision == DPT_PRECISION_BF16 ? DPT_BF16 : DPT_F32,
        .input_rounding = cuda->precision == DPT_PRECISION_FP32 ? 0.0 : DPT_CUDA_TF32_ROUNDING,
    };
}

static dpt_status finish(dpt_stream *stream)
{
    DPT_CUDA_TRY(stream->device, cudaStreamSynchronize(stream->queue));
    return DPT_OK;
}

static bool suits(const dpt_device *device, const char *name)
{
    (void)device;
    (void)name;
    return true;
}

/* The choices are shared by cards of one name and precision, with these libraries and this build.
 */
static dpt_status set_tuner(dpt_device *device)
{
    dpt_cuda_device *cuda = dpt_cuda_device_of(device);
    dpt_device_properties all;
    char digits[DPT_HASH_CHARS + 1], file[64];
    DPT_TRY(info(device, &all)); /* its detail names the precision, the driver and the libraries */
    dpt_hash hash = dpt_hash_text(dpt_hash_begin(), all.name);
    hash = dpt_hash_text(hash, all.detail);
    hash = dpt_hash_text(hash, DPT_CUDA_KERNELS_VERSION);
    dpt_hash_print(hash, digits);
    snprintf(file, sizeof file, "cuda/tuning-%.16s.txt", digits);
    cuda->tuner = (dpt_tuner){.capture = &dpt_cuda_capture_ops,
                              .stream = &cuda->scratch,
                              .algorithm = cuda->algorithm,
                              .finish = finish,
                              .suits = suits};
    return dpt_tuning_open(device, file, &cuda->tuner.choices);
}

const dpt_traits *dpt_traits_of(const dpt_device *device)
{
    return &dpt_cuda_device_of(device)->traits;
}

dpt_tuner *dpt_tuner_of(const dpt_device *device)
{
    return &dpt_cuda_device_of(device)->tuner;
}

dpt_device *dpt_stream_device(const dpt_stream *stream)
{
    return stream->device;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Makes the card's context and chooses the card for the driver thread.  All replicas on a card
   share the card's primary context, which makes them one fault domain. */
static dpt_status enter_context(dpt_device *device)
{
    const dpt_cuda_device *cuda = dpt_cuda_device_of(device);
    size_t n_free, n_all;
    DPT_CUDA_TRY(device, cudaSetDevice(cuda->ordinal));
    /* Threads that wait sleep, also if another library has made the context. */
    if (cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync) != cudaSuccess) (void)cudaGetLastError();
    DPT_CUDA_TRY(device, cudaMemGetInfo(&n_free, &n_all)); /* makes the context */
    return DPT_OK;
}

/* Creates a pool for this device alone, which keeps freed memory for the next allocation. */
static dpt_status create_pool(dpt_device *device)
{
    dpt_cuda_device *cuda = dpt_cuda_device_of(device);
    int has_pools = 0;
    uint64_t keep = UINT64_MAX;
    const struct cudaMemPoolProps properties = {
        .allocType = cudaMemAllocationTypePinned,
        .handleTypes = cudaMemHandleTypeNone,
        .location = {.type = cudaMemLocationTypeDevice, .id = cuda->ordinal},
    };
    DPT_CUDA_TRY(
        device, cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, cuda->ordinal));
    if (!has_pools) return DPT_OK;
    DPT_CUDA_TRY(device, cudaMemPoolCreate(&cuda->pool, &properties));
    DPT_CUDA_TRY(device,
                 cudaMemPoolSetAttribute(cuda->pool, cudaMemPoolAttrReleaseThreshold, &keep));
    return DPT_OK;
}

static dpt_status open_device(dpt_device *device, const dpt_open_args *args)
{
    const dpt_device_request *request = &args->requests[args->self];
    dpt_cuda_device *cuda = calloc(1, sizeof *cuda);
    if (!cuda) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory to open a device");
    device->state = cuda;
    cuda->scratch.device = device;
    DPT_TRY(read_properties(request->index, &cuda->properties, &device->error));
    cuda->ordinal = (int)request->index;
    DPT_TRY(read_params(request, cuda, &device->error));
    if (cuda->properties.major * 10 + cuda->properties.minor < LEAST_CAPABILITY)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "%.60s has compute capability %d.%d; 7.5 is the least", //
                        cuda->properties.name, cuda->properties.major, cuda->properties.minor);
    set_traits(cuda);
    DPT_TRY(enter_context(device));
    DPT_CUDA_TRY(device, cudaStreamCreateWithFlags(&cuda->scratch.queue, cudaStreamNonBlocking));
    DPT_TRY(create_pool(device));
    DPT_TRY(dpt_kernel_of(device, "fill.cu", "dpt_fill", &cuda->fill));
    DPT_TRY(dpt_kernel_of(device, "fill.cu", "dpt_move", &cuda->move));
    DPT_TRY(dpt_cuda_blas_open(device, &cuda->blas));
    DPT_TRY(dpt_cuda_dnn_open(device, &cuda->dnn));
    return set_tuner(device);
}

static void ignore(cudaError_t code)
{
    if (code != cudaSuccess) (void)cudaGetLastError(); /* the device is lost */
}

static void close_device(dpt_device *device)
{
    dpt_cuda_device *cuda = dpt_cuda_device_of(device);
    if (!cuda) return;
    ignore(dpt_cuda_choose(device));
    dpt_cuda_dnn_close(cuda->dnn);
    dpt_cuda_blas_close(cuda->blas);
    /* Frees are enqueued on this stream and must be done before the pool is destroyed. */
    if (cuda->scratch.queue) ignore(cudaStreamSynchronize(cuda->scratch.queue));
    if (cuda->pool) ignore(cudaMemPoolDestroy(cuda->pool));
    if (cuda->scratch.queue) ignore(cudaStreamDestroy(cuda->scratch.queue));
    free(cuda->algorithm);
    free(cuda);
    device->state = NULL;
}

const dpt_device_ops dpt_cuda_device_ops = {
    .probe = probe,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .info = info,
};
