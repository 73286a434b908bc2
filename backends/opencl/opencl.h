/* OpenCL's header, limited to version 1.2 of the interface, and OpenCL's error codes. */
#ifndef DPT_OPENCL_OPENCL_H
#define DPT_OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "backend.h"

/* The name and number of a code, as "CL_OUT_OF_RESOURCES (-5)", in static memory. */
const char *dpt_cl_words(cl_int code);

/* The status that a code means: DPT_E_NO_MEMORY, DPT_E_DEVICE_LOST or DPT_E_DEVICE. */
dpt_status dpt_cl_status(cl_int code);

/* Records a failed call of OpenCL, what the failure means and what a person can try.  Returns the
   status. */
#define DPT_CL_FAIL(error, code, what) dpt_cl_fail((error), (code), (what), __FILE__, __LINE__)
dpt_status dpt_cl_fail(dpt_error *error, cl_int code, const char *what, const char *file, int line);

/* Evaluates a call of OpenCL; on failure records it and returns its status from the caller. */
#define DPT_CL_TRY(device, call)                                                                   \
    do {                                                                                           \
        const cl_int dpt_cl_code = (call);                                                         \
        if (dpt_cl_code != CL_SUCCESS) return DPT_CL_FAIL(&(device)->error, dpt_cl_code, #call);   \
    } while (0)

#endif
