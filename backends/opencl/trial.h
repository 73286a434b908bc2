/* Trials of launches: a driver of a CPU device compiles a kernel when the kernel is launched first
   with groups of some size.  Such a launch is made in the helper process before (contain.h), on
   buffers of zeros, and remembered: in the kernel, and in the cache beside the program's binary. */
#ifndef DPT_OPENCL_TRIAL_H
#define DPT_OPENCL_TRIAL_H

#include "contain.h"
#include "program.h"

/* What a driver may compile a kernel anew for. */
struct dpt_cl_launch_size {
    size_t group[3];
    bool wide; /* more work items in a dimension than fit in 16 bits: PoCL distinguishes that */
};

/* Reads what the cache has of a program's launches. */
void dpt_cl_trials_read(dpt_cl_program *program);

/* Tries the launch in the helper if it is the first of its size.  DPT_E_DEVICE_LOST, or
   DPT_E_DEVICE while candidates are timed, if the helper did not survive. */
DPT_CHECK_RESULT dpt_status dpt_cl_trial_launched(const dpt_launch *launch,
                                                  const size_t n_groups[3], const size_t group[3]);

/* Records what a helper did not survive while it compiled `what`; returns the status. */
dpt_status dpt_cl_trial_fatal(dpt_device *device, const char *what, const dpt_cl_trial *trial);

/* program.c: compiles the program in the helper, which has to have it for launches. DPT_E_NO_MEMORY
   or DPT_E_INTERNAL if it cannot be sent. */
DPT_CHECK_RESULT dpt_status dpt_cl_program_send(dpt_device *device, dpt_cl_program *program,
                                                dpt_cl_trial *out);

#endif
