/* Tests OpenCL failures at every call (train/failing.h): in a training on the device alone and in
   one beside the CPU.  Calls that are made once per process, for platforms, devices and cached
   programs, are tested in cli/opencl.sh. */
#include "opencl/interpose.h"

#include "train/failing.h"

#include <stdlib.h>
#include <string.h>

static const failing_code codes[] = {
    {"clBuildProgram", -11, "planted.cl:7:3: error: planted", .cold = true},
    {"clCreateBuffer", -4, "CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)", .cold = false},
    {"clCreateContext", -6, "CL_OUT_OF_HOST_MEMORY (-6)", .cold = false},
    {"clCreateProgramWithSource", -6, "CL_OUT_OF_HOST_MEMORY (-6)", .cold = true},
    {"clCreateKernel", -46, "CL_INVALID_KERNEL_NAME (-46)", .cold = false},
    {"clEnqueueMapBuffer", -12, "CL_MAP_FAILURE (-12)", .cold = false},
    {"clFinish", -2, "CL_DEVICE_NOT_AVAILABLE (-2)", .cold = false},
    {"clWaitForEvents", -2, "CL_DEVICE_NOT_AVAILABLE (-2)", .cold = false},
};

/* A place where there is no cache and none can be made, so that programs are compiled. */
static void use_cache(const failing_code *code)
{
    static char *kept;
    const char *now = getenv("XDG_CACHE_HOME");
    if (!kept) kept = strdup(now ? now : "");
    setenv("XDG_CACHE_HOME", code && code->cold ? "/proc/no-cache" : kept, 1);
}

static void alone(test *t)
{
    failing_in_turn(t, "opencl:0", false);
}

static void beside_the_cpu(test *t)
{
    failing_in_turn(t, "cpu,opencl:0", true);
}

static void gone_for_good(test *t)
{
    static const failing_code gone = {"clFinish", -2, "CL_DEVICE_NOT_AVAILABLE (-2)",
                                      .sticky = true};
    failing_for_good(t, "cpu,opencl:0", &gone, false);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"alone", alone},
        {"beside the CPU", beside_the_cpu},
        {"gone for good", gone_for_good},
    };
    static const failing_face face = {
        .backend = "opencl",
        .codes = codes,
        .n_codes = sizeof codes / sizeof *codes,
        .otherwise = {NULL, -5, "CL_OUT_OF_RESOURCES (-5)", .cold = false},
        .plant = interpose_plant,
        .fired = interpose_fired,
        .objects = interpose_objects,
        .function = interpose_function,
        .prepare = use_cache,
    };
    return failing_main(argc, argv, &face, cases, sizeof cases / sizeof *cases);
}
