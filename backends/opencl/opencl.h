/* OpenCL's header as this backend uses it: version 1.2 of the interface and nothing newer. */
#ifndef DPT_OPENCL_OPENCL_H
#define DPT_OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "backend.h"

/* "CL_OUT_OF_RESOURCES (-5)", static. */
const char *dpt_cl_words(cl_int code);

/* What a code means for the caller: out of memory, device lost, or device error. */
dpt_status dpt_cl_status(cl_int code);

/* Records a failed call of OpenCL with what it means and what to try; returns the status. */
#define DPT_CL_FAIL(error, code, what) dpt_cl_fail((error), (code), (what), __FILE__, __LINE__)
dpt_status dpt_cl_fail(dpt_error *error, cl_int code, const char *what, const char *file, int line);

/* Evaluates a call of OpenCL; on failure records it and returns its status from the caller. */
#define DPT_CL_TRY(device, call)                                                                   \
    do {                                                                                           \
        const cl_int dpt_cl_code = (call);                                                         \
        if (dpt_cl_code != CL_SUCCESS) return DPT_CL_FAIL(&(device)->error, dpt_cl_code, #call);   \
    } while (0)

#endif
