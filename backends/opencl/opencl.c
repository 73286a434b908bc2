/* OpenCL's error codes: their names, what they mean for the caller, and what a person can do. */
#include "opencl.h"

#include <string.h>

/* Values of extensions that the header of version 1.2 does not have. */
enum { NO_PLATFORM = -1001, NVIDIA_ILLEGAL_ACCESS = -9999 };

typedef struct code_row {
    cl_int code;
    const char *words;
    dpt_status status;
    const char *advice; /* what to try, or NULL */
} code_row;

#define ROW(name, value, status, advice)                                                           \
    {                                                                                              \
        value, #name " (" #value ")", status, advice                                               \
    }

static const char no_memory[] = "take a smaller batch or --micro-batch, or free memory there";
static const char lost[] = "the driver gave the device up: restart the program; if it comes again, "
                           "look at the system's log, the driver's version and the card";

static const code_row codes[] = {
    ROW(CL_DEVICE_NOT_FOUND, -1, DPT_E_ABSENT, NULL),
    ROW(CL_DEVICE_NOT_AVAILABLE, -2, DPT_E_DEVICE_LOST, lost),
    ROW(CL_COMPILER_NOT_AVAILABLE, -3, DPT_E_DEVICE, "this driver cannot compile kernels"),
    ROW(CL_MEM_OBJECT_ALLOCATION_FAILURE, -4, DPT_E_NO_MEMORY, no_memory),
    ROW(CL_OUT_OF_RESOURCES, -5, DPT_E_NO_MEMORY, no_memory),
    ROW(CL_OUT_OF_HOST_MEMORY, -6, DPT_E_NO_MEMORY, "the host is out of memory"),
    ROW(CL_PROFILING_INFO_NOT_AVAILABLE, -7, DPT_E_DEVICE, NULL),
    ROW(CL_MAP_FAILURE, -12, DPT_E_DEVICE, NULL),
    ROW(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14, DPT_E_DEVICE_LOST, lost),
    ROW(CL_BUILD_PROGRAM_FAILURE, -11, DPT_E_DEVICE, NULL),
    ROW(CL_COMPILE_PROGRAM_FAILURE, -15, DPT_E_DEVICE, NULL),
    ROW(CL_LINKER_NOT_AVAILABLE, -16, DPT_E_DEVICE, NULL),
    ROW(CL_LINK_PROGRAM_FAILURE, -17, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_VALUE, -30, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_PLATFORM, -32, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_DEVICE, -33, DPT_E_DEVICE_LOST, lost),
    ROW(CL_INVALID_CONTEXT, -34, DPT_E_DEVICE_LOST, lost),
    ROW(CL_INVALID_QUEUE_PROPERTIES, -35, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_COMMAND_QUEUE, -36, DPT_E_DEVICE_LOST, lost),
    ROW(CL_INVALID_HOST_PTR, -37, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_MEM_OBJECT, -38, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_BINARY, -42, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_BUILD_OPTIONS, -43, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_PROGRAM, -44, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_PROGRAM_EXECUTABLE, -45, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_KERNEL_NAME, -46, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_KERNEL_DEFINITION, -47, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_KERNEL, -48, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_ARG_INDEX, -49, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_ARG_VALUE, -50, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_ARG_SIZE, -51, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_KERNEL_ARGS, -52, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_WORK_DIMENSION, -53, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_WORK_GROUP_SIZE, -54, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_WORK_ITEM_SIZE, -55, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_GLOBAL_OFFSET, -56, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_EVENT_WAIT_LIST, -57, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_EVENT, -58, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_OPERATION, -59, DPT_E_DEVICE, NULL),
    ROW(CL_INVALID_BUFFER_SIZE, -61, DPT_E_NO_MEMORY, no_memory),
    ROW(CL_INVALID_GLOBAL_WORK_SIZE, -63, DPT_E_DEVICE, NULL),
    {NO_PLATFORM, "CL_PLATFORM_NOT_FOUND_KHR (-1001)", DPT_E_ABSENT,
     "no OpenCL driver is installed: install the vendor's, or PoCL for this machine's cores"},
    {NVIDIA_ILLEGAL_ACCESS, "illegal access (-9999)", DPT_E_DEVICE_LOST, lost},
};

static const code_row *find(cl_int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].code == code) return &codes[i];
    return NULL;
}

const char *dpt_cl_words(cl_int code)
{
    const code_row *row = find(code);
    return row ? row->words : "a code that OpenCL does not name";
}

dpt_status dpt_cl_status(cl_int code)
{
    const code_row *row = find(code);
    return code == CL_SUCCESS ? DPT_OK : row ? row->status : DPT_E_DEVICE;
}

/* "clFinish" of "clFinish(stream->queue)". */
static int call_length(const char *what)
{
    return (int)strcspn(what, "(");
}

dpt_status dpt_cl_fail(dpt_error *error, cl_int code, const char *what, const char *file, int line)
{
    const code_row *row = find(code);
    const char *advice = row ? row->advice : NULL;
    return dpt_error_set(error, dpt_cl_status(code), code, file, line, "%.*s: %s%s%s",
                         call_length(what), what, dpt_cl_words(code), advice ? "; " : "",
                         advice ? advice : "");
}
