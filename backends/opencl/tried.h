/* Which launches of kernels were tried (trial.h): with groups of which size.  Known of a kernel as
   long as its device is open, and kept in the cache, in a file beside the program's binary. */
#ifndef DPT_OPENCL_TRIED_H
#define DPT_OPENCL_TRIED_H

#include "kernel.h"

/* Reads what the cache has of a program's launches. */
void dpt_cl_tried_read(dpt_cl_program *program);
/* Whether a launch of this size needs no trial any more. */
bool dpt_cl_tried_has(dpt_kernel *kernel, const dpt_cl_launch_size *size);
/* From now on it needs none; with `keep` in later processes, too. */
void dpt_cl_tried_add(dpt_kernel *kernel, const dpt_cl_launch_size *size, bool keep);

#endif
