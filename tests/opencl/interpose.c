/* The functions of OpenCL that the backend calls.  Each function has a hook in front
   (interpose.h). */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>

#include "interpose.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Functions that enqueue, and may hand out an event. */
#define ENQUEUE_LIST(X)                                                                            \
    X(clEnqueueBarrierWithWaitList,                                                                \
      (cl_command_queue queue, cl_uint n, const cl_event *wait, cl_event *event),                  \
      (queue, n, wait, event))                                                                     \
    X(clEnqueueCopyBuffer,                                                                         \
      (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset,       \
       size_t n_bytes, cl_uint n, const cl_event *wait, cl_event *event),                          \
      (queue, from, to, from_offset, to_offset, n_bytes, n, wait, event))                          \
    X(clEnqueueFillBuffer,                                                                         \
      (cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_bytes,           \
       size_t offset, size_t n_bytes, cl_uint n, const cl_event *wait, cl_event *event),           \
      (queue, memory, pattern, pattern_bytes, offset, n_bytes, n, wait, event))                    \
    X(clEnqueueMarkerWithWaitList,                                                                 \
      (cl_command_queue queue, cl_uint n, const cl_event *wait, cl_event *event),                  \
      (queue, n, wait, event))                                                                     \
    X(clEnqueueNDRangeKernel,                                                                      \
      (cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *offset,         \
       const size_t *items, const size_t *group, cl_uint n, const cl_event *wait,                  \
       cl_event *event),                                                                           \
      (queue, kernel, dimensions, offset, items, group, n, wait, event))                           \
    X(clEnqueueReadBuffer,                                                                         \
      (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t n_bytes,     \
       void *host, cl_uint n, const cl_event *wait, cl_event *event),                              \
      (queue, memory, blocking, offset, n_bytes, host, n, wait, event))                            \
    X(clEnqueueUnmapMemObject,                                                                     \
      (cl_command_queue queue, cl_mem memory, void *host, cl_uint n, const cl_event *wait,         \
       cl_event *event),                                                                           \
      (queue, memory, host, n, wait, event))                                                       \
    X(clEnqueueWriteBuffer,                                                                        \
      (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t n_bytes,     \
       const void *host, cl_uint n, const cl_event *wait, cl_event *event),                        \
      (queue, memory, blocking, offset, n_bytes, host, n, wait, event))

/* Others that return a code; whether they do their work even when they are to fail. */
#define STATUS_LIST(X)                                                                             \
    X(clFinish, true, (cl_command_queue queue), (queue))                                           \
    X(clFlush, false, (cl_command_queue queue), (queue))                                           \
    X(clGetEventInfo, false,                                                                       \
      (cl_event event, cl_event_info what, size_t n_bytes, void *out, size_t *n_out),              \
      (event, what, n_bytes, out, n_out))                                                          \
    X(clGetEventProfilingInfo, false,                                                              \
      (cl_event event, cl_profiling_info what, size_t n_bytes, void *out, size_t *n_out),          \
      (event, what, n_bytes, out, n_out))                                                          \
    X(clGetMemObjectInfo, false,                                                                   \
      (cl_mem memory, cl_mem_info what, size_t n_bytes, void *out, size_t *n_out),                 \
      (memory, what, n_bytes, out, n_out))                                                         \
    X(clGetKernelInfo, false,                                                                      \
      (cl_kernel kernel, cl_kernel_info what, size_t n_bytes, void *out, size_t *n_out),           \
      (kernel, what, n_bytes, out, n_out))                                                         \
    X(clGetPlatformInfo, false,                                                                    \
      (cl_platform_id platform, cl_platform_info what, size_t n_bytes, void *out, size_t *n_out),  \
      (platform, what, n_bytes, out, n_out))                                                       \
    X(clGetProgramInfo, false,                                                                     \
      (cl_program program, cl_program_info what, size_t n_bytes, void *out, size_t *n_out),        \
      (program, what, n_bytes, out, n_out))                                                        \
    X(clSetKernelArg, false, (cl_kernel kernel, cl_uint i, size_t n_bytes, const void *value),     \
      (kernel, i, n_bytes, value))                                                                 \
    X(clWaitForEvents, true, (cl_uint n, const cl_event *events), (n, events))

/* Functions that return an object and write a code. */
#define CREATE_LIST(X)                                                                             \
    X(cl_mem, clCreateBuffer,                                                                      \
      (cl_context context, cl_mem_flags flags, size_t n_bytes, void *host, cl_int *code),          \
      (context, flags, n_bytes, host, code))                                                       \
    X(cl_command_queue, clCreateCommandQueue,                                                      \
      (cl_context context, cl_device_id device, cl_command_queue_properties properties,            \
       cl_int * code),                                                                             \
      (context, device, properties, code))                                                         \
    X(cl_context, clCreateContext,                                                                 \
      (const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,            \
       void(CL_CALLBACK * notify)(const char *, const void *, size_t, void *), void *data,         \
       cl_int *code),                                                                              \
      (properties, n, devices, notify, data, code))                                                \
    X(cl_kernel, clCreateKernel, (cl_program program, const char *name, cl_int *code),             \
      (program, name, code))                                                                       \
    X(cl_program, clCreateProgramWithBinary,                                                       \
      (cl_context context, cl_uint n, const cl_device_id *devices, const size_t *n_bytes,          \
       const unsigned char **binaries, cl_int *states, cl_int *code),                              \
      (context, n, devices, n_bytes, binaries, states, code))                                      \
    X(cl_program, clCreateProgramWithSource,                                                       \
      (cl_context context, cl_uint n, const char **lines, const size_t *lengths, cl_int *code),    \
      (context, n, lines, lengths, code))

#define RELEASE_LIST(X)                                                                            \
    X(cl_command_queue, clReleaseCommandQueue)                                                     \
    X(cl_context, clReleaseContext)                                                                \
    X(cl_event, clReleaseEvent)                                                                    \
    X(cl_kernel, clReleaseKernel)                                                                  \
    X(cl_mem, clReleaseMemObject)                                                                  \
    X(cl_program, clReleaseProgram)

/* ---- What is planted ------------------------------------------------------------------------- */

static struct {
    char function[64];
    char end[8]; /* how the process ends instead; empty: the call fails */
    size_t n, n_calls, n_objects;
    int code;
    bool for_good, fired;
    cl_device_info what; /* of this the device tells `value`; 0: of none */
    cl_ulong value;
    cl_program unbuilt; /* the program whose building was failed */
} state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *const functions[] = {
#define CREATE_NAME(type, name, parameters, arguments) #name,
#define ENQUEUE_NAME(name, parameters, arguments)      #name,
#define STATUS_NAME(name, late, parameters, arguments) #name,
    CREATE_LIST(CREATE_NAME) ENQUEUE_LIST(ENQUEUE_NAME) STATUS_LIST(STATUS_NAME)
#undef CREATE_NAME
#undef ENQUEUE_NAME
#undef STATUS_NAME
        "clBuildProgram",
    "clEnqueueMapBuffer",
    "clGetDeviceIDs",
    "clGetDeviceInfo",
    "clGetPlatformIDs",
    "clGetProgramBuildInfo",
    NULL};

EXPORT const char *interpose_function(size_t i)
{
    return functions[i];
}

EXPORT void interpose_plant(const char *function, size_t n, int code, bool for_good)
{
    pthread_mutex_lock(&lock);
    snprintf(state.function, sizeof state.function, "%s", function ? function : "");
    state.n = n;
    state.n_calls = 0;
    state.code = code;
    state.for_good = for_good;
    state.fired = false;
    state.unbuilt = NULL;
    pthread_mutex_unlock(&lock);
}

EXPORT bool interpose_fired(void)
{
    pthread_mutex_lock(&lock);
    const bool fired = state.fired;
    pthread_mutex_unlock(&lock);
    return fired;
}

EXPORT size_t interpose_objects(void)
{
    pthread_mutex_lock(&lock);
    const size_t n = state.n_objects;
    pthread_mutex_unlock(&lock);
    return n;
}

__attribute__((constructor)) static void plant_from_environment(void)
{
    const char *text = getenv("DPTRAIN_CL_PLANT");
    char function[64];
    size_t n;
    int code;
    if (text && sscanf(text, "%63[^:]:%zu:%d", function, &n, &code) == 3)
        interpose_plant(function, n, code, false);
    text = getenv("DPTRAIN_CL_END");
    if (text && sscanf(text, "%63[^:]:%zu:%7s", function, &n, state.end) == 3)
        interpose_plant(function, n, 0, false);
    text = getenv("DPTRAIN_CL_TELL");
    if (text) {
        char *end;
        state.what = (cl_device_info)strtoul(text, &end, 0);
        state.value = *end == ':' ? strtoull(end + 1, NULL, 0) : 0;
    }
}

/* What a driver does that does not survive a call, and prints before. */
static void end_process(const char *how)
{
    fputs("pass 7 of 9\nLLVM ERROR: planted: no fixpoint after 1 iterations\nStack dump:\n",
          stderr);
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "exit") == 0) _exit(7);
    if (strcmp(how, "segv") == 0) { /* PoCL handles this signal, and goes on behind raise */
        (void)signal(SIGSEGV, SIG_DFL);
        (void)raise(SIGSEGV);
    }
    for (;;)
        (void)pause();
}

/* ---- Hooks ----------------------------------------------------------------------------------- */

/* The loader is opened by the plug-in, where RTLD_NEXT does not look. */
static void *real(const char *name)
{
    static void *library;
    pthread_mutex_lock(&lock);
    if (!library) library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *function = library ? dlsym(library, name) : NULL;
    pthread_mutex_unlock(&lock);
    if (!function) {
        fprintf(stderr, "interpose: there is no %s\n", name);
        abort();
    }
    return function;
}

static bool works_on_device(const char *name)
{
    return strncmp(name, "clEnqueue", 9) == 0 || strcmp(name, "clFinish") == 0 ||
           strcmp(name, "clFlush") == 0 || strcmp(name, "clWaitForEvents") == 0;
}

/* Counts a call; whether it is to fail. */
static bool fails(const char *name, int *code)
{
    pthread_mutex_lock(&lock);
    const bool turn = strcmp(state.function, name) == 0 && ++state.n_calls == state.n;
    const bool later = state.fired && state.for_good && works_on_device(name);
    if (turn) state.fired = true;
    *code = state.code;
    pthread_mutex_unlock(&lock);
    if (turn && state.end[0]) end_process(state.end);
    return turn || later;
}

static void count(bool made, bool released)
{
    pthread_mutex_lock(&lock);
    state.n_objects += made;
    state.n_objects -= released;
    pthread_mutex_unlock(&lock);
}

#define DEFINE_CREATE(type, name, parameters, arguments)                                           \
    EXPORT type CL_API_CALL name parameters                                                        \
    {                                                                                              \
        type(*call) parameters;                                                                    \
        int planted;                                                                               \
        if (fails(#name, &planted)) {                                                              \
            if (code) *code = planted;                                                             \
            return NULL;                                                                           \
        }                                                                                          \
        *(void **)&call = real(#name);                                                             \
        const type object = call arguments;                                                        \
        count(object != NULL, false);                                                              \
        return object;                                                                             \
    }
CREATE_LIST(DEFINE_CREATE)

#define DEFINE_RELEASE(type, name)                                                                 \
    EXPORT cl_int CL_API_CALL name(type object)                                                    \
    {                                                                                              \
        cl_int (*call)(type);                                                                      \
        *(void **)&call = real(#name);                                                             \
        const cl_int code = call(object);                                                          \
        count(false, code == CL_SUCCESS);                                                          \
        return code;                                                                               \
    }
RELEASE_LIST(DEFINE_RELEASE)

#define DEFINE_ENQUEUE(name, parameters, arguments)                                                \
    EXPORT cl_int CL_API_CALL name parameters                                                      \
    {                                                                                              \
        cl_int(*call) parameters;                                                                  \
        int planted;                                                                               \
        if (fails(#name, &planted)) return planted;                                                \
        *(void **)&call = real(#name);                                                             \
        const cl_int code = call arguments;                                                        \
        count(code == CL_SUCCESS && event, false);                                                 \
        return code;                                                                               \
    }
ENQUEUE_LIST(DEFINE_ENQUEUE)

#define DEFINE_STATUS(name, late, parameters, arguments)                                           \
    EXPORT cl_int CL_API_CALL name parameters                                                      \
    {                                                                                              \
        cl_int(*call) parameters;                                                                  \
        int planted;                                                                               \
        const bool failed = fails(#name, &planted);                                                \
        if (failed && !late) return planted;                                                       \
        *(void **)&call = real(#name);                                                             \
        const cl_int code = call arguments;                                                        \
        return failed ? planted : code;                                                            \
    }
STATUS_LIST(DEFINE_STATUS)

EXPORT void *CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                            cl_map_flags flags, size_t offset, size_t n_bytes,
                                            cl_uint n, const cl_event *wait, cl_event *event,
                                            cl_int *code)
{
    void *(*call)(cl_command_queue, cl_mem, cl_bool, cl_map_flags, size_t, size_t, cl_uint,
                  const cl_event *, cl_event *, cl_int *);
    int planted;
    if (fails("clEnqueueMapBuffer", &planted)) {
        if (code) *code = planted;
        return NULL;
    }
    *(void **)&call = real("clEnqueueMapBuffer");
    void *host = call(queue, memory, blocking, flags, offset, n_bytes, n, wait, event, code);
    count(host && event, false);
    return host;
}

EXPORT cl_int CL_API_CALL clGetPlatformIDs(cl_uint n, cl_platform_id *out, cl_uint *n_out)
{
    cl_int (*call)(cl_uint, cl_platform_id *, cl_uint *);
    int planted;
    if (fails("clGetPlatformIDs", &planted)) {
        if (n_out) *n_out = 0;
        return planted;
    }
    *(void **)&call = real("clGetPlatformIDs");
    return call(n, out, n_out);
}

EXPORT cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id platform, cl_device_type types, cl_uint n,
                                         cl_device_id *out, cl_uint *n_out)
{
    cl_int (*call)(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
    int planted;
    if (fails("clGetDeviceIDs", &planted)) {
        if (n_out) *n_out = 0;
        return planted;
    }
    *(void **)&call = real("clGetDeviceIDs");
    return call(platform, types, n, out, n_out);
}

EXPORT cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t n_bytes,
                                          void *out, size_t *n_out)
{
    cl_int (*call)(cl_device_id, cl_device_info, size_t, void *, size_t *);
    int planted;
    if (fails("clGetDeviceInfo", &planted)) return planted;
    *(void **)&call = real("clGetDeviceInfo");
    const cl_int code = call(device, what, n_bytes, out, n_out);
    if (code == CL_SUCCESS && what == state.what && what != 0 && out &&
        n_bytes <= sizeof state.value)
        memcpy(out, &state.value, n_bytes); /* little-endian */
    return code;
}

/* ---- Building, and its log ------------------------------------------------------------------- */

EXPORT cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices,
                                         const char *options,
                                         void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    cl_int (*call)(cl_program, cl_uint, const cl_device_id *, const char *,
                   void(CL_CALLBACK *)(cl_program, void *), void *);
    int planted;
    if (fails("clBuildProgram", &planted)) {
        pthread_mutex_lock(&lock);
        state.unbuilt = program;
        pthread_mutex_unlock(&lock);
        return planted;
    }
    *(void **)&call = real("clBuildProgram");
    return call(program, n, devices, options, notify, data);
}

EXPORT cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                                cl_program_build_info what, size_t n_bytes,
                                                void *out, size_t *n_out)
{
    static const char log[] = "a first line\nplanted.cl:7:3: error: planted\n";
    cl_int (*call)(cl_program, cl_device_id, cl_program_build_info, size_t, void *, size_t *);
    int planted;
    if (fails("clGetProgramBuildInfo", &planted)) return planted;
    pthread_mutex_lock(&lock);
    const bool unbuilt = what == CL_PROGRAM_BUILD_LOG && program == state.unbuilt;
    pthread_mutex_unlock(&lock);
    if (!unbuilt) {
        *(void **)&call = real("clGetProgramBuildInfo");
        return call(program, device, what, n_bytes, out, n_out);
    }
    if (out && n_bytes < sizeof log) return CL_INVALID_VALUE;
    if (out) memcpy(out, log, sizeof log);
    if (n_out) *n_out = sizeof log;
    return CL_SUCCESS;
}
