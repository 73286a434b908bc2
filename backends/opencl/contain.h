/* Containment.  A driver may abort the process that calls it, crash it, end it, or never return.
   For this reason a helper process (child.h) makes each new request of a driver first.  If the
   helper survives, this process makes the same request, and most of the work is done already.  If
   the helper ends, this process continues without the device, and its message quotes the driver.

   A helper gets these requests:
     - The devices of all platforms, once in a process.  This helper ends after the answer.
     - Programs that are not in the cache.  Each open device has one helper for them.  It starts
   with the first such program and ends when the device is closed.
     - Launches of kernels on devices that are CPUs, once for each size of a group, because such a
       driver compiles a kernel when it is launched first.  The helper launches the kernel on
   buffers of zeros. If the cache has everything, no helper for programs is started.

   With $DPTRAIN_OPENCL_CONTAIN=0 there is no helper.  $DPTRAIN_OPENCL_COMPILE_TIMEOUT is the number
   of seconds that a helper may take for one request.  The default is 300.  A list of devices may
   take 60 at most.  If the helper cannot be found or started, one line on stderr says so, and this
   process makes all requests itself. */
#ifndef DPT_OPENCL_CONTAIN_H
#define DPT_OPENCL_CONTAIN_H

#include "child.h"
#include "found.h"

/* Returns whether helpers are used: they are not forbidden, and none has failed to start.  The
   answer is final when the platforms have been listed. */
bool dpt_cl_contained(void);

/* ---- Listing --------------------------------------------------------------------------------- */

enum { DPT_CL_MOST_PLATFORMS = 32 };

/* A platform that ended the helper when it was asked. */
typedef struct dpt_cl_absent {
    uint32_t ordinal; /* in the order of clGetPlatformIDs */
    char name[DPT_CL_TEXT_BYTES];
    char words[300]; /* "ended its process ..." */
} dpt_cl_absent;

typedef struct dpt_cl_listing {
    size_t n_absent;
    dpt_cl_absent absent[DPT_CL_MOST_PLATFORMS];
    bool unusable; /* the loader ended the helper before any platform was asked: */
    char words[300];
} dpt_cl_listing;

/* Asks all platforms for their devices in a helper.  If a platform ends the helper, another helper
   asks the platforms after it. */
void dpt_cl_contain_listing(dpt_cl_listing *out);

/* ---- Compiling ------------------------------------------------------------------------------- */

/* Compiles for one open device.  It starts a helper when it needs one. */
typedef struct dpt_cl_compiler dpt_cl_compiler;

/* Returns NULL if memory is short. */
dpt_cl_compiler *dpt_cl_compiler_create(const dpt_cl_found *found);
void dpt_cl_compiler_destroy(dpt_cl_compiler *compiler); /* ends the helper; accepts NULL */

/* A program for the compiler. */
typedef struct dpt_cl_text {
    uint64_t id; /* of the program, not 0 */
    const char *source;
    size_t n_source;
    const char *options;
    bool wants_binary;
} dpt_cl_text;

typedef enum dpt_cl_verdict {
    DPT_CL_UNTRIED, /* there is no helper, or it could not try the request: this process tries */
    DPT_CL_GOOD,    /* the helper has done it: this process may do it */
    DPT_CL_BAD,     /* the compiler refused it; `code` and `bytes`, a log, say why */
    DPT_CL_FATAL,   /* the helper ended or gave no answer in time; `words` say how it ended */
} dpt_cl_verdict;

typedef struct dpt_cl_trial {
    dpt_cl_verdict verdict;
    cl_int code;
    char *bytes;    /* GOOD: the binary or NULL; BAD: the log.  The caller frees them. */
    size_t n_bytes; /* in `bytes` */
    char words[400];
} dpt_cl_trial;

/* Compiles in the helper.  If the driver ends the helper while it makes the binary of a program
   that it has compiled, the verdict is GOOD and there is no binary. */
dpt_cl_trial dpt_cl_compiler_build(dpt_cl_compiler *compiler, const dpt_cl_text *text);

/* Returns whether the running helper has built this program, which a launch requires. */
bool dpt_cl_compiler_has(const dpt_cl_compiler *compiler, uint64_t id);

/* The launch of a kernel, with the arguments of clEnqueueNDRangeKernel. */
typedef struct dpt_cl_trial_launch {
    uint64_t id; /* of the program */
    const char *kernel;
    const size_t *n_groups, *group; /* (3) */
    const dpt_cl_argument *arguments;
    const dpt_cl_part *values; /* as many */
    size_t n_arguments;
} dpt_cl_trial_launch;

/* Launches a kernel in the helper and waits for its end. */
dpt_cl_trial dpt_cl_compiler_launch(dpt_cl_compiler *compiler, const dpt_cl_trial_launch *launch);

#endif
