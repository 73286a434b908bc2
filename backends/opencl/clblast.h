/* CLBlast, a library of tuned matrix products, which is opened at run time if it is installed.

   If two threads make CLBlast compile the same kernel at once, it fails or crashes (1.5.3).  One
   lock of the process is therefore held during every call.  CLBlast keeps compiled kernels in
   memory only, and compiles them again at every start. */
#ifndef DPT_OPENCL_CLBLAST_H
#define DPT_OPENCL_CLBLAST_H

#include "gemm.h"

/* *offered: whether CLBlast is a candidate for products on this device.  It is none

   - if it is not installed, or its header was missing when the backend was built;
   - on CPUs, for which it has no tuned parameters: on PoCL it reached a tenth of the speed of our
     tiles (bench/results/opencl.md), and compiling it to measure that takes seconds;
   - if every start of the program would wait for it.  The second start of a command should compile
     nothing, and CLBlast compiles its kernels from source at every start.  The time of that with a
     warm cache of the driver is measured once, and remembered with the other choices of the device.

   If algorithm=clblast of the device or `wanted` (may be NULL) names CLBlast, it is offered
   wherever it is installed.  Fails as dpt_choose does. */
DPT_CHECK_RESULT dpt_status dpt_cl_clblast_offered(dpt_device *device, const char *wanted,
                                                   bool *offered);

/* Enqueues C (m,n) [+]= op(A) * op(B): one matrix, without bias, activation or mask, and k > 0.
   DPT_E_UNSUPPORTED, DPT_E_NO_MEMORY or DPT_E_DEVICE by CLBlast's code. */
DPT_CHECK_RESULT dpt_status dpt_cl_clblast_run(dpt_stream *stream, dpt_cl_gemm_form form,
                                               const dpt_cl_gemm_args *args);

/* Call this before a device is closed.  When no device uses CLBlast any more, its caches are
   cleared. */
void dpt_cl_clblast_leave(dpt_device *device);

#endif
