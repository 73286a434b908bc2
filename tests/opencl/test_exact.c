/* Tests that the functions of backends/kernels/exact.h have the bits of the CPU on OpenCL devices:
   on the first device of each platform. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "exact/compare.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PLATFORMS = 16, GROUP_SIZE = 64 };

typedef struct opencl {
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
} opencl;

static bool succeeded(test *t, cl_int code, const char *what)
{
    if (code != CL_SUCCESS) FAIL("%s: %d", what, code);
    return code == CL_SUCCESS;
}

static bool build(test *t, opencl *cl, cl_device_id device)
{
    static const char source[] = "#include \"evaluate.cl\"\n";
    const char *text = source;
    char options[1024], log[2048] = "";
    cl_int code;
    snprintf(options, sizeof options,
             "-cl-std=CL1.2 -w -DGROUP=%d -I%s/exact -I%s/../backends/kernels", GROUP_SIZE,
             DPT_TEST_SOURCE_DIR, DPT_TEST_SOURCE_DIR);
    cl->program = clCreateProgramWithSource(cl->context, 1, &text, NULL, &code);
    if (!succeeded(t, code, "clCreateProgramWithSource")) return false;
    code = clBuildProgram(cl->program, 1, &device, options, NULL, NULL);
    if (code != CL_SUCCESS) {
        clGetProgramBuildInfo(cl->program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        FAIL("clBuildProgram: %d: %.1000s", code, log);
        return false;
    }
    cl->kernel = clCreateKernel(cl->program, "test_exact", &code);
    return succeeded(t, code, "clCreateKernel");
}

static bool open_device(test *t, opencl *cl, cl_device_id device)
{
    cl_int code;
    cl->context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (!succeeded(t, code, "clCreateContext")) return false;
    cl->queue = clCreateCommandQueue(cl->context, device, 0, &code);
    return succeeded(t, code, "clCreateCommandQueue") && build(t, cl, device);
}

static void close_device(opencl *cl)
{
    if (cl->kernel) clReleaseKernel(cl->kernel);
    if (cl->program) clReleaseProgram(cl->program);
    if (cl->queue) clReleaseCommandQueue(cl->queue);
    if (cl->context) clReleaseContext(cl->context);
}

static cl_int launch(opencl *cl, const exact_call *call, const cl_mem memory[3])
{
    const cl_uint function = (cl_uint)call->function, n = call->n;
    const cl_ulong place = 0;
    const size_t group = GROUP_SIZE, items = (n + group - 1) / group * group;
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < 3; i++) {
        code |= clSetKernelArg(cl->kernel, 2 * i, sizeof memory[i], &memory[i]);
        code |= clSetKernelArg(cl->kernel, 2 * i + 1, sizeof place, &place);
    }
    code |= clSetKernelArg(cl->kernel, 6, sizeof function, &function);
    code |= clSetKernelArg(cl->kernel, 7, sizeof n, &n);
    if (code != CL_SUCCESS) return code;
    code = clEnqueueNDRangeKernel(cl->queue, cl->kernel, 1, NULL, &items, &group, 0, NULL, NULL);
    if (code != CL_SUCCESS) return code;
    return clEnqueueReadBuffer(cl->queue, memory[0], CL_TRUE, 0, n * sizeof *call->y, call->y, 0,
                               NULL, NULL);
}

static bool evaluate(test *t, void *device, const exact_call *call)
{
    opencl *cl = device;
    const void *const host[3] = {call->y, call->a, call->b};
    cl_mem memory[3] = {NULL};
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < 3 && code == CL_SUCCESS; i++)
        memory[i] = clCreateBuffer(cl->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                   call->n * sizeof *call->y, (void *)(uintptr_t)host[i], &code);
    if (code == CL_SUCCESS) code = launch(cl, call, memory);
    for (int i = 0; i < 3; i++)
        if (memory[i]) clReleaseMemObject(memory[i]);
    return succeeded(t, code, "a kernel");
}

static void devices_are_equal(test *t)
{
    cl_platform_id platforms[MOST_PLATFORMS];
    cl_uint n_platforms = 0, n_devices = 0;
    const char *required = getenv("DPTRAIN_TEST_REQUIRE");
    if (clGetPlatformIDs(MOST_PLATFORMS, platforms, &n_platforms) != CL_SUCCESS) n_platforms = 0;
    for (cl_uint i = 0; i < n_platforms; i++) {
        cl_device_id device;
        opencl cl = {.context = NULL};
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
            continue;
        n_devices++;
        if (open_device(t, &cl, device)) exact_compare(t, evaluate, &cl);
        close_device(&cl);
    }
    if (n_devices == 0 && !test_list_has(required ? required : "", "opencl"))
        SKIP("no OpenCL device");
    CHECK(n_devices > 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"devices are equal", devices_are_equal}};
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
