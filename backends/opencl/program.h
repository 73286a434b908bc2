/* The programs of an open device, and their kernels.  A program is compiled when a kernel of it is
   asked for first (compile.h), and kept until the device is closed. */
#ifndef DPT_OPENCL_PROGRAM_H
#define DPT_OPENCL_PROGRAM_H

#include "kernel.h"
#include "state.h"

/* This folder defines dpt_kernel_get (backends/common/launch.h).  A kernel is one object: its
   arguments are set and it is enqueued without another use in between.  dpt_kernel_get fails as
   dpt_cl_program_make does. */

/* A device's programs. */
DPT_CHECK_RESULT dpt_status dpt_cl_programs_create(dpt_device *device, dpt_cl_programs **out);
void dpt_cl_programs_destroy(dpt_cl_programs *programs); /* accepts NULL */

#endif
