/* Compiles programs for one device, and keeps them for launches. */
#include "helper/helper.h"
#include "inquire.h"

#include <stdlib.h>
#include <string.h>

typedef struct kept {
    uint64_t id;
    cl_program program;
    struct kept *next;
} kept;

cl_context helper_context;
cl_command_queue helper_queue;
static cl_device_id device; /* the context's */
static bool device_is_cpu;
static kept *programs;

cl_program helper_program(uint64_t id)
{
    for (const kept *k = programs; k; k = k->next)
        if (k->id == id) return k->program;
    return NULL;
}

static void fail(cl_int code, const char *call)
{
    helper_answer(DPT_CL_FAILED, code, call, strlen(call));
}

/* The device that the backend means: by its places, if their names are what the backend knows. */
static bool find_device(const dpt_cl_build_request *request, cl_platform_id *platform)
{
    cl_platform_id platforms[DPT_CL_ASKED_PLATFORMS];
    cl_device_id devices[DPT_CL_MOST_DEVICES];
    cl_uint n = 0;
    dpt_cl_found found;
    if (dpt_cl_ask_platforms(platforms, &n) != CL_SUCCESS || request->platform >= n) return false;
    n = dpt_cl_ask_device_ids(platforms[request->platform], devices);
    if (request->device >= n) return false;
    *platform = platforms[request->platform];
    device = devices[request->device];
    if (!dpt_cl_ask_device(*platform, device, &found)) return false;
    device_is_cpu = found.is_cpu;
    return strcmp(found.platform_name, request->platform_name) == 0 &&
           strcmp(found.version, request->device_version) == 0;
}

/* false: a failure was answered. */
static bool open_device(const dpt_cl_build_request *request)
{
    cl_platform_id platform;
    cl_int code;
    if (helper_context) return true;
    if (!find_device(request, &platform)) {
        fail(0, "no such device");
        return false;
    }
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)platform, 0};
    helper_context = clCreateContext(properties, 1, &device, NULL, NULL, &code);
    if (!helper_context) {
        fail(code, "clCreateContext");
        return false;
    }
    helper_queue = clCreateCommandQueue(helper_context, device, 0, &code);
    if (helper_queue) return true;
    (void)clReleaseContext(helper_context);
    helper_context = NULL;
    fail(code, "clCreateCommandQueue");
    return false;
}

static void refuse(cl_program program, cl_int code)
{
    char *log = NULL;
    size_t n = 0;
    if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &n) == CL_SUCCESS)
        log = calloc(1, n + 1);
    if (log) (void)clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, n, log, NULL);
    helper_answer(DPT_CL_REFUSED, code, log, log ? strlen(log) : 0);
    free(log);
}

static void answer_binary(cl_program program, bool wanted)
{
    size_t n = 0;
    unsigned char *binary = NULL;
    if (wanted &&
        (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof n, &n, NULL) != CL_SUCCESS ||
         n > DPT_CL_MOST_MESSAGE_BYTES))
        n = 0;
    if (n > 0) binary = malloc(n);
    if (binary && clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) !=
                      CL_SUCCESS) {
        free(binary);
        binary = NULL;
    }
    helper_answer(DPT_CL_DONE, 0, binary, binary ? n : 0);
    free(binary);
}

/* NULL: a failure was answered. */
static cl_program compile(const char *source, size_t n_source, const char *options)
{
    cl_int code;
    const cl_program program =
        clCreateProgramWithSource(helper_context, 1, &source, &n_source, &code);
    if (!program) {
        fail(code, "clCreateProgramWithSource");
        return NULL;
    }
    code = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (code == CL_SUCCESS) return program;
    refuse(program, code);
    (void)clReleaseProgram(program);
    return NULL;
}

/* The compiled program of a request, kept from an earlier one or new.  NULL: a failure was
   answered. */
static cl_program get_program(const dpt_cl_build_request *request, const char *text)
{
    cl_program program = helper_program(request->id);
    if (program) return program;
    if (!open_device(request)) return NULL;
    char *options = strndup(text, request->n_options);
    kept *k = malloc(sizeof *k);
    if (options && k)
        program = compile(text + request->n_options, request->n_source, options);
    else
        fail(CL_OUT_OF_HOST_MEMORY, "malloc");
    free(options);
    if (!program) {
        free(k);
        return NULL;
    }
    *k = (kept){request->id, program, programs};
    programs = k;
    return program;
}

void helper_rest(void)
{
    if (device_is_cpu || !helper_context) return;
    while (programs) {
        kept *k = programs;
        programs = k->next;
        (void)clReleaseProgram(k->program);
        free(k);
    }
    (void)clReleaseCommandQueue(helper_queue);
    (void)clReleaseContext(helper_context);
    helper_queue = NULL;
    helper_context = NULL;
}

void helper_build(const char *bytes, size_t n_bytes)
{
    dpt_cl_build_request request;
    if (n_bytes < sizeof request) {
        fail(0, "a request that is none");
        return;
    }
    memcpy(&request, bytes, sizeof request);
    n_bytes -= sizeof request;
    if (request.n_options > n_bytes || request.n_source != n_bytes - request.n_options) {
        fail(0, "a request that is none");
        return;
    }
    const cl_program program = get_program(&request, bytes + sizeof request);
    if (!program) return;
    helper_answer(DPT_CL_BUILT, 0, NULL, 0);
    answer_binary(program, request.wants_binary);
}
