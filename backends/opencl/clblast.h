/* CLBlast, a library of tuned matrix products, opened at run time where it is installed.

   Two threads that have it compile the same kernel at once make it fail or worse (1.5.3), so one
   lock of the process is held over every call of it.  What it compiles it keeps in memory only, and
   compiles again at every start. */
#ifndef DPT_OPENCL_CLBLAST_H
#define DPT_OPENCL_CLBLAST_H

#include "gemm.h"

/* *offered: whether CLBlast is a candidate for products on this device.  It is not

   - where it is not installed, or was not known when this was built;
   - on CPUs, for which it has no tuned parameters: on PoCL it reached a tenth of what our tiles do
     (bench/results/opencl.md), and compiling it to find that out takes seconds;
   - where each start of the program would wait for it: the second start of a command is to compile
     nothing, and CLBlast's kernels are compiled from source each time.  What that takes with the
     driver's own cache of compiled kernels warm is measured once, and remembered with the other
     choices of this device.

   algorithm=clblast of the device, or `wanted` (may be NULL), has it offered wherever it is
   installed. */
DPT_CHECK_RESULT dpt_status dpt_cl_clblast_offered(dpt_device *device, const char *wanted,
                                                   bool *offered);

/* C (m,n) [+]= op(A) * op(B), one matrix, without bias, activation or mask; k > 0. */
DPT_CHECK_RESULT dpt_status dpt_cl_clblast_run(dpt_stream *stream, dpt_cl_gemm_form form,
                                               const dpt_cl_gemm_args *args);

/* Before a device is closed: CLBlast lets go of what it keeps once no device uses it any more. */
void dpt_cl_clblast_leave(dpt_device *device);

#endif
