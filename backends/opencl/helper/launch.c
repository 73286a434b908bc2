/* Launches a kernel once, on buffers of zeros, so that a driver that compiles a kernel when it is
   launched first compiles it here. */
#include "helper/helper.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 64 };

/* Memory of the buffers, which the driver uses in place: pages that a kernel does not touch take
   none. */
typedef struct buffers {
    cl_mem memory[MOST_ARGUMENTS];
    void *host[MOST_ARGUMENTS];
} buffers;

static cl_int set_buffer(cl_kernel kernel, cl_uint i, size_t n_bytes, buffers *b)
{
    cl_int code = CL_SUCCESS;
    if (n_bytes > 0) {
        b->host[i] = calloc(1, n_bytes);
        if (!b->host[i]) return CL_OUT_OF_HOST_MEMORY;
        b->memory[i] = clCreateBuffer(helper_context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                      n_bytes, b->host[i], &code);
        if (!b->memory[i]) return code;
    }
    return clSetKernelArg(kernel, i, sizeof(cl_mem), &b->memory[i]);
}

static cl_int set_arguments(cl_kernel kernel, const dpt_cl_launch_request *request,
                            const char *bytes, buffers *b)
{
    const size_t n = request->n_arguments;
    const char *value = bytes + n * sizeof(dpt_cl_argument);
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < n && code == CL_SUCCESS; i++) {
        dpt_cl_argument argument;
        memcpy(&argument, bytes + i * sizeof argument, sizeof argument);
        if (argument.is_buffer)
            code = set_buffer(kernel, i, (size_t)argument.buffer_bytes, b);
        else
            code = clSetKernelArg(kernel, i, argument.n_bytes, value);
        value += argument.n_bytes;
    }
    return code;
}

static void release(buffers *b)
{
    for (size_t i = 0; i < MOST_ARGUMENTS; i++) {
        if (b->memory[i]) (void)clReleaseMemObject(b->memory[i]);
        free(b->host[i]);
    }
}

static cl_int run(cl_kernel kernel, const dpt_cl_launch_request *request)
{
    size_t items[3], group[3];
    for (size_t i = 0; i < 3; i++) {
        group[i] = (size_t)request->group[i];
        items[i] = (size_t)request->n_groups[i] * group[i];
    }
    const cl_int code =
        clEnqueueNDRangeKernel(helper_queue, kernel, 3, NULL, items, group, 0, NULL, NULL);
    return code == CL_SUCCESS ? clFinish(helper_queue) : code;
}

static bool whole(const dpt_cl_launch_request *request, const char *bytes, size_t n_bytes)
{
    const size_t n = request->n_arguments;
    if (n > MOST_ARGUMENTS || n_bytes < n * sizeof(dpt_cl_argument)) return false;
    n_bytes -= n * sizeof(dpt_cl_argument);
    for (size_t i = 0; i < n; i++) {
        dpt_cl_argument argument;
        memcpy(&argument, bytes + i * sizeof argument, sizeof argument);
        if (argument.n_bytes > n_bytes) return false;
        n_bytes -= argument.n_bytes;
    }
    return n_bytes == 0;
}

static void fail(cl_int code, const char *call)
{
    helper_answer(DPT_CL_FAILED, code, call, strlen(call));
}

void helper_launch(const char *bytes, size_t n_bytes)
{
    dpt_cl_launch_request request;
    buffers b = {.memory = {NULL}};
    cl_int code;
    if (n_bytes < sizeof request) {
        fail(0, "a request that is none");
        return;
    }
    memcpy(&request, bytes, sizeof request);
    bytes += sizeof request;
    if (!whole(&request, bytes, n_bytes - sizeof request)) {
        fail(0, "a request that is none");
        return;
    }
    const cl_program program = helper_program(request.id);
    if (!program) {
        fail(0, "no such program");
        return;
    }
    request.kernel[sizeof request.kernel - 1] = '\0';
    const cl_kernel kernel = clCreateKernel(program, request.kernel, &code);
    if (!kernel) {
        fail(code, "clCreateKernel");
        return;
    }
    code = set_arguments(kernel, &request, bytes, &b);
    if (code == CL_SUCCESS) code = run(kernel, &request);
    release(&b);
    (void)clReleaseKernel(kernel);
    if (code == CL_SUCCESS)
        helper_answer(DPT_CL_DONE, 0, NULL, 0);
    else
        fail(code, "a launch");
}
