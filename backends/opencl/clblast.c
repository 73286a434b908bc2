/* Finding CLBlast, calling it under one lock, and describing its error codes. */
#include "clblast.h"

#include <string.h>

#ifdef DPT_CL_HAS_CLBLAST

#include "tables.h"
#include "tuning.h"

#include <clblast_c.h>
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

/* The most seconds that a start of the program may wait for CLBlast to compile. */
static const double most_start_seconds = 0.25;

typedef struct library {
    bool tried;
    __typeof__(CLBlastSgemm) *sgemm; /* NULL: not installed */
    __typeof__(CLBlastClearCache) *clear_cache;
    size_t n_users; /* open devices that have called CLBlast */
} library;

/* The state of CLBlast belongs to the process, too.  The lock is held during every call of CLBlast.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static library clblast;

/* Call this with the lock held.  The library is never closed, because it holds state of threads and
   of the driver. */
static bool find_library(void)
{
    if (clblast.tried) return clblast.sgemm != NULL;
    clblast.tried = true;
    void *handle = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle) return false;
    void *sgemm = dlsym(handle, "CLBlastSgemm"), *clear = dlsym(handle, "CLBlastClearCache");
    if (!sgemm || !clear) return false;
    /* C has no conversion from an object pointer to a function pointer; POSIX permits the copy. */
    memcpy(&clblast.sgemm, &sgemm, sizeof sgemm);
    memcpy(&clblast.clear_cache, &clear, sizeof clear);
    return true;
}

static bool is_installed(void)
{
    pthread_mutex_lock(&lock);
    const bool found = find_library();
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- Codes ----------------------------------------------------------------------------------- */

/* The names of CLBlast's codes that are no codes of OpenCL. */
static const char *words(CLBlastStatusCode code)
{
    switch ((int)code) {
    case CLBlastNotImplemented: return "not implemented";
    case CLBlastInvalidMatrixA: return "A is no valid buffer";
    case CLBlastInvalidMatrixB: return "B is no valid buffer";
    case CLBlastInvalidMatrixC: return "C is no valid buffer";
    case CLBlastInvalidDimension: return "a dimension is zero";
    case CLBlastInvalidLeadDimA: return "rows of A overlap";
    case CLBlastInvalidLeadDimB: return "rows of B overlap";
    case CLBlastInvalidLeadDimC: return "rows of C overlap";
    case CLBlastInsufficientMemoryA: return "the buffer of A is too small";
    case CLBlastInsufficientMemoryB: return "the buffer of B is too small";
    case CLBlastInsufficientMemoryC: return "the buffer of C is too small";
    case CLBlastInsufficientMemoryTemp: return "its scratch buffer is too small";
    case CLBlastInvalidLocalMemUsage: return "the device has too little local memory";
    case CLBlastDatabaseError: return "it has no parameters for the device";
    case CLBlastUnexpectedError: return "an exception that it did not expect";
    default: return "an unknown error";
    }
}

static dpt_status failed(dpt_error *error, CLBlastStatusCode code)
{
    enum { FIRST_OF_ITS_OWN = -1000 };
    if ((int)code > FIRST_OF_ITS_OWN) return DPT_CL_FAIL(error, (cl_int)code, "CLBlastSgemm");
    return DPT_FAIL_NATIVE(error, DPT_E_DEVICE, code, "CLBlastSgemm: %s (%d)", words(code),
                           (int)code);
}

/* ---- Running --------------------------------------------------------------------------------- */

static CLBlastStatusCode call(dpt_stream *stream, dpt_cl_gemm_form form,
                              const dpt_cl_gemm_args *args)
{
    return clblast.sgemm(
        CLBlastLayoutRowMajor, form.a_transposed ? CLBlastTransposeYes : CLBlastTransposeNo,
        form.b_transposed ? CLBlastTransposeYes : CLBlastTransposeNo, args->m, args->n, args->k,
        1.0f, args->a.buffer->memory, args->a.offset_bytes / sizeof(float), args->lda,
        args->b.buffer->memory, args->b.offset_bytes / sizeof(float), args->ldb,
        args->accumulate ? 1.0f : 0.0f, args->c.buffer->memory,
        args->c.offset_bytes / sizeof(float), args->ldc, &stream->queue, NULL);
}

/* Counts the device as a user at its first call.  Call this with the lock held. */
static void enter(dpt_cl_device *device)
{
    if (device->uses_clblast) return;
    device->uses_clblast = true;
    clblast.n_users++;
}

dpt_status dpt_cl_clblast_run(dpt_stream *stream, dpt_cl_gemm_form form,
                              const dpt_cl_gemm_args *args)
{
    pthread_mutex_lock(&lock);
    enter(dpt_cl_device_of(stream->device));
    const CLBlastStatusCode code = call(stream, form, args);
    pthread_mutex_unlock(&lock);
    return code == CLBlastSuccess ? DPT_OK : failed(&stream->device->error, code);
}

void dpt_cl_clblast_leave(dpt_device *device)
{
    dpt_cl_device *cl = dpt_cl_device_of(device);
    if (!cl->uses_clblast) return;
    cl->uses_clblast = false;
    pthread_mutex_lock(&lock);
    /* CLBlast's programs hold their contexts until this call.  No context is therefore freed
       before, and none is mistaken for a newer one at the same address. */
    if (--clblast.n_users == 0) (void)clblast.clear_cache();
    pthread_mutex_unlock(&lock);
}

/* ---- The time that a start would wait -------------------------------------------------------- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Computes a small product, whose values do not matter. */
static dpt_status multiply(dpt_stream *stream, dpt_buffer *buffer)
{
    enum { N = 64 };
    const dpt_location all = {buffer, 0};
    const dpt_location c = {buffer, N * N * sizeof(float)};
    const dpt_cl_gemm_args args = {.m = N,
                                   .n = N,
                                   .k = N,
                                   .n_batches = 1,
                                   .a = all,
                                   .b = all,
                                   .c = c,
                                   .lda = N,
                                   .ldb = N,
                                   .ldc = N};
    DPT_TRY(dpt_cl_memory_ops.fill(stream, all, 0, 2 * N * N * sizeof(float)));
    DPT_TRY(dpt_cl_clblast_run(stream, (dpt_cl_gemm_form){.finished = false}, &args));
    DPT_CL_TRY(stream->device, clFinish(stream->queue));
    return DPT_OK;
}

/* A dpt_choice_time: the seconds of the first product of a process whose predecessor has used
   CLBlast already, against the most that a start may wait. */
static dpt_status time_start(void *argument, const char *candidate, double *seconds)
{
    enum { N_BYTES = 2 * 64 * 64 * sizeof(float) };
    dpt_device *device = argument;
    dpt_stream stream = {.device = device, .queue = dpt_cl_device_of(device)->queue};
    dpt_buffer *buffer = NULL;
    *seconds = most_start_seconds;
    if (strcmp(candidate, "no") == 0) return DPT_OK;
    DPT_TRY(dpt_cl_memory_ops.alloc(device, N_BYTES, &buffer));
    dpt_status status = multiply(&stream, buffer); /* warms the driver's cache */
    pthread_mutex_lock(&lock);
    (void)clblast.clear_cache();
    pthread_mutex_unlock(&lock);
    const double start = now();
    if (status == DPT_OK) status = multiply(&stream, buffer);
    *seconds = now() - start;
    (void)clFinish(stream.queue);
    dpt_cl_memory_ops.free(device, buffer);
    /* If CLBlast cannot serve the device, our own tiles do. */
    return status == DPT_E_DEVICE ? DPT_E_UNSUPPORTED : status;
}

dpt_status dpt_cl_clblast_offered(dpt_device *device, const char *wanted, bool *offered)
{
    static const char *const answers[] = {"no", "yes"};
    const dpt_cl_device *cl = dpt_cl_device_of(device);
    const char *asked = wanted ? wanted : cl->params.algorithm;
    const bool named = asked && strcmp(asked, "clblast") == 0;
    *offered = false;
    if ((cl->found->is_cpu && !named) || !is_installed()) return DPT_OK;
    const dpt_choice choice = {.key = "clblast at start",
                               .candidates = answers,
                               .n_candidates = 2,
                               .time = time_start,
                               .argument = device};
    size_t answer = 1;
    if (!named) DPT_TRY(dpt_choose(device, &choice, &answer));
    *offered = answer == 1;
    return DPT_OK;
}

#else

dpt_status dpt_cl_clblast_offered(dpt_device *device, const char *wanted, bool *offered)
{
    (void)device;
    (void)wanted;
    *offered = false;
    return DPT_OK;
}

dpt_status dpt_cl_clblast_run(dpt_stream *stream, dpt_cl_gemm_form form,
                              const dpt_cl_gemm_args *args)
{
    (void)form;
    (void)args;
    return DPT_FAIL(&stream->device->error, DPT_E_INTERNAL, "built without CLBlast");
}

void dpt_cl_clblast_leave(dpt_device *device)
{
    (void)device;
}

#endif
