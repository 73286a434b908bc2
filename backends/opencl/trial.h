/* Trials of launches: a driver of a CPU device compiles a kernel when the kernel is launched first
   with groups of some size.  Such a launch is made in the helper process before (contain.h), on
   buffers of zeros, and remembered: in the kernel, and in the cache beside the program's binary. */
#ifndef DPT_OPENCL_TRIAL_H
#define DPT_OPENCL_TRIAL_H

#include "launch.h"

/* Tries the launch in the helper if it is the first of its size.  DPT_E_DEVICE_LOST, or
   DPT_E_DEVICE while candidates are timed, if the helper did not survive. */
DPT_CHECK_RESULT dpt_status dpt_cl_trial_launched(const dpt_launch *launch,
                                                  const size_t n_groups[3], const size_t group[3]);

#endif
