/* The plug-in: one device, memory of the host's, and streams whose work is done at once. */
#include "stand_in.h"

#include "alternatives.h"
#include "dnn.h"
#include "operators.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers --------------------------------------------------------------------------------- */

static float widened(uint16_t half_word)
{
    const uint32_t bits = (uint32_t)half_word << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Nearest, ties to even. */
static uint16_t narrowed(double value)
{
    const float rounded = (float)value;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    if (isnan(value)) return 0x7fc0;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float cut_off(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= ~0x1fffu;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double *stand_in_read(const void *from, dpt_dtype type, size_t n, bool cut)
{
    double *out = malloc((n + 1) * sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const float value =
            type == DPT_BF16 ? widened(((const uint16_t *)from)[i]) : ((const float *)from)[i];
        out[i] = (double)(cut ? cut_off(value) : value);
    }
    return out;
}

void stand_in_write(void *to, dpt_dtype type, const double *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (type == DPT_BF16)
            ((uint16_t *)to)[i] = narrowed(from[i]);
        else
            ((float *)to)[i] = (float)from[i];
    }
}

void stand_in_scribble(void *to, size_t n_bytes)
{
    if (n_bytes > 0) memset(to, 0xff, n_bytes); /* NaN in every type */
}

/* ---- The device ------------------------------------------------------------------------------ */

static const dpt_param_spec params[] = {
    {.key = "precision", .help = "fp32, tf32 or bf16"},
    {.key = "cudnn", .help = "0 or 2: the way that convolutions take"},
    {.key = "cublaslt", .help = "on or off"},
    {.key = NULL},
};

static dpt_status probe(size_t *n_devices, dpt_error *error)
{
    (void)error;
    *n_devices = 1;
    return DPT_OK;
}

static dpt_status describe(size_t index, dpt_device_info *info, dpt_error *error)
{
    (void)index;
    (void)error;
    *info = (dpt_device_info){.name = "a card in words",
                              .memory_bytes = (size_t)1 << 32,
                              .alignment_bytes = DPT_ALIGNMENT_BYTES,
                              .memory_domain = "cudahost",
                              .compute_domain = "cudahost",
                              .fault_domain = "cudahost"};
    return DPT_OK;
}

static dpt_status info(dpt_device *device, dpt_device_info *out)
{
    DPT_TRY(describe(0, out, &device->error));
    out->activations = dpt_cuda_device_of(device)->traits.activations;
    return DPT_OK;
}

static bool suits(const dpt_device *device, const char *name)
{
    (void)device;
    (void)name;
    return true;
}

static dpt_status open_device(dpt_device *device, const dpt_open_args *args)
{
    const dpt_device_request *request = &args->requests[args->self];
    dpt_cuda_device *cuda = calloc(1, sizeof *cuda);
    if (!cuda) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory to open a device");
    device->state = cuda;
    cuda->scratch.device = device;
    cuda->blas = (dpt_cuda_blas *)cuda; /* which nobody looks into */
    cuda->dnn = (dpt_cuda_dnn *)cuda;
    cuda->tuner.algorithm = "cudnn-0";
    cuda->tuner.suits = suits;
    for (size_t i = 0; i < request->n_params; i++) {
        const dpt_param *param = &request->params[i];
        if (strcmp(param->key, "cudnn") == 0)
            cuda->tuner.algorithm = strcmp(param->value, "2") == 0 ? "cudnn-2" : "cudnn-0";
        else if (strcmp(param->key, "cublaslt") == 0)
            cuda->blas = strcmp(param->value, "off") == 0 ? NULL : cuda->blas;
        else if (strcmp(param->value, "bf16") == 0)
            cuda->precision = DPT_CUDA_BF16;
        else if (strcmp(param->value, "tf32") == 0)
            cuda->precision = DPT_CUDA_TF32;
    }
    cuda->traits = (dpt_traits){
        .name = "a card in words",
        .is_compiled = true,
        .n_units = 1,
        .group_size = 256,
        .vector_width = 1,
        .most_group_size = 1024,
        .most_shared_bytes = 48 << 10,
        .activations = cuda->precision == DPT_CUDA_BF16 ? DPT_BF16 : DPT_F32,
    };
    return DPT_OK;
}

static void close_device(dpt_device *device)
{
    free(device->state);
    device->state = NULL;
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

const dpt_alternative *const *dpt_conv2d_families(const dpt_device *device)
{
    static const dpt_alternative *const families[] = {dpt_cuda_conv2d_dnn, NULL};
    (void)device;
    return families;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static dpt_status alloc(dpt_device *device, size_t n_bytes, dpt_buffer **out)
{
    dpt_buffer *buffer = malloc(sizeof *buffer);
    const size_t rounded = (n_bytes + DPT_ALIGNMENT_BYTES - 1) & ~(size_t)(DPT_ALIGNMENT_BYTES - 1);
    void *memory = aligned_alloc(DPT_ALIGNMENT_BYTES, rounded);
    if (!buffer || !memory) {
        free(buffer);
        free(memory);
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a buffer");
    }
    *buffer = (dpt_buffer){.memory = memory, .n_bytes = n_bytes};
    *out = buffer;
    return DPT_OK;
}

static void free_buffer(dpt_device *device, dpt_buffer *buffer)
{
    (void)device;
    if (buffer) free(buffer->memory);
    free(buffer);
}

static dpt_status upload(dpt_stream *stream, dpt_location to, const void *host, size_t n_bytes)
{
    (void)stream;
    if (n_bytes > 0) memcpy(dpt_cuda_pointer(to), host, n_bytes);
    return DPT_OK;
}

static dpt_status download(dpt_stream *stream, void *host, dpt_location from, size_t n_bytes)
{
    (void)stream;
    if (n_bytes > 0) memcpy(host, dpt_cuda_pointer(from), n_bytes);
    return DPT_OK;
}

static dpt_status copy(dpt_stream *stream, dpt_location to, dpt_location from, size_t n_bytes)
{
    return upload(stream, to, dpt_cuda_pointer(from), n_bytes);
}

/* Like the real one, which repeats a byte wherever that is enough. */
static dpt_status fill(dpt_stream *stream, dpt_location to, uint32_t pattern, size_t n_bytes)
{
    unsigned char *bytes = dpt_cuda_pointer(to);
    (void)stream;
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (unsigned char)(pattern >> 8 * (i % 4));
    return DPT_OK;
}

const dpt_memory_ops dpt_cuda_memory_ops = {
    .alloc = alloc,
    .free = free_buffer,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fill = fill,
};

/* ---- Streams --------------------------------------------------------------------------------- */

struct dpt_event {
    char unused;
};

static dpt_status create(dpt_device *device, dpt_stream **out)
{
    dpt_stream *stream = malloc(sizeof *stream);
    if (!stream) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a stream");
    *stream = (dpt_stream){.device = device};
    *out = stream;
    return DPT_OK;
}

static void destroy(dpt_stream *stream)
{
    free(stream);
}

static dpt_status pass(dpt_stream *stream)
{
    (void)stream;
    return DPT_OK;
}

static dpt_status event_create(dpt_device *device, dpt_event **out)
{
    dpt_event *event = malloc(sizeof *event);
    if (!event) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for an event");
    *out = event;
    return DPT_OK;
}

static void event_destroy(dpt_event *event)
{
    free(event);
}

static dpt_status event_record(dpt_event *event, dpt_stream *stream)
{
    (void)event;
    return pass(stream);
}

static dpt_status event_wait(dpt_stream *stream, dpt_event *event)
{
    return event_record(event, stream);
}

static dpt_status event_query(dpt_event *event, bool *done)
{
    (void)event;
    *done = true;
    return DPT_OK;
}

static dpt_status event_sync(dpt_event *event)
{
    (void)event;
    return DPT_OK;
}

static dpt_status event_elapsed(dpt_event *start, dpt_event *end, double *seconds)
{
    (void)start;
    (void)end;
    *seconds = 0.0;
    return DPT_OK;
}

/* ---- The descriptor -------------------------------------------------------------------------- */

static const dpt_device_ops device_ops = {
    .probe = probe,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .info = info,
};

static const dpt_stream_ops stream_ops = {
    .create = create,
    .destroy = destroy,
    .sync = pass,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_query = event_query,
    .event_sync = event_sync,
    .event_elapsed = event_elapsed,
};

static const dpt_backend backend = {
    .abi = DPT_BACKEND_ABI,
    .name = "cudahost",
    .description = "CUDA's host code without CUDA, for tests",
    .params = params,
    .device = &device_ops,
    .memory = &dpt_cuda_memory_ops,
    .stream = &stream_ops,
    .operators = &dpt_common_operator_ops,
};

DPT_API const dpt_backend *dpt_backend_entry(uint32_t abi);

const dpt_backend *dpt_backend_entry(uint32_t abi)
{
    return abi == DPT_BACKEND_ABI ? &backend : NULL;
}
