/* A library between the backend and OpenCL.  It forwards every call, counts the objects that are
   created and released, and fails one call that a test plants.  A program links it, or a command
   loads it by LD_PRELOAD with $DPTRAIN_CL_PLANT, "FUNCTION:N:CODE".  In both cases it is in front
   of the ICD loader, which the plug-in links.  LD_PRELOAD loads the library into the backend's
   helper processes, too, and each process counts its own calls.

   $DPTRAIN_CL_END, "FUNCTION:N:HOW", ends the process in that call.  Before, it prints three lines
   on stderr, of which the second begins with "LLVM ERROR: planted".  HOW is abort, exit (with
   status 7), segv, or hang: the call never returns.

   $DPTRAIN_CL_TELL, "WHAT:VALUE", is what clGetDeviceInfo tells of every device: VALUE for the
   number WHAT of a cl_device_info, such as 0x1032:0 for a device without double precision. */
#ifndef DPT_TEST_OPENCL_INTERPOSE_H
#define DPT_TEST_OPENCL_INTERPOSE_H

#include <stdbool.h>
#include <stddef.h>

/* From now on the N-th call (from 1) of a function fails with a code of OpenCL; NULL: none does.
   clFinish and clWaitForEvents do what they should before they fail.  With code 0 clGetPlatformIDs
   and clGetDeviceIDs find nothing.  With `for_good` every later call that enqueues or waits fails
   likewise, as on a device that is gone.  A program that is not built has a log with two lines of
   which the second begins "planted.cl:7:3: error: planted". */
void interpose_plant(const char *function, size_t n, int code, bool for_good);
/* Whether the planted call has come. */
bool interpose_fired(void);
/* Contexts, queues, buffers, programs, kernels and events that exist. */
size_t interpose_objects(void);
/* The functions that can be failed, in alphabetical order; NULL behind the last. */
const char *interpose_function(size_t i);

#endif
