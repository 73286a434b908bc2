/* Containment: what a driver does for the first time, it does in a helper process (child.h), since
   a driver may abort the process, crash it, exit or never return.  If the helper survives, this
   process does the same, and finds most of the work done; if not, this process goes on without the
   device, with the driver's own words.

   Asked of a helper are
     - the devices of all platforms, once per process, by a helper that ends then;
     - programs that are not in the cache, by one helper for each open device, which starts with the
       first such program and ends when the device is closed;
     - kernels of devices that are CPUs, once for each size of a group: such drivers compile a
       kernel when it is launched first.  The helper launches the kernel on buffers of zeros.
   With everything in the cache no compiling helper is started.

   $DPTRAIN_OPENCL_CONTAIN=0 asks no helper.  $DPTRAIN_OPENCL_COMPILE_TIMEOUT is how many seconds a
   helper may take for one request; default 300, for listing at most 60.  If the helper cannot be
   found or started, one line on stderr says so, and everything is done in this process. */
#ifndef DPT_OPENCL_CONTAIN_H
#define DPT_OPENCL_CONTAIN_H

#include "child.h"
#include "found.h"

/* Whether helpers are asked: they are not forbidden, and none has failed to start.  Known when
   platforms have been listed. */
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

/* Asks all platforms for their devices in a helper.  Another helper is started behind each platform
   that ends one. */
void dpt_cl_contain_listing(dpt_cl_listing *out);

/* ---- Compiling ------------------------------------------------------------------------------- */

/* What compiles for one open device; it has a helper, or none yet. */
typedef struct dpt_cl_compiler dpt_cl_compiler;

/* NULL without memory. */
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
    DPT_CL_UNTRIED, /* not contained, or the helper could not try it: this process may */
    DPT_CL_GOOD,    /* the helper has done it: this process may */
    DPT_CL_BAD,     /* the compiler refused it, with `code` and a log in `bytes` */
    DPT_CL_FATAL,   /* the helper did not survive it, or not in time: `words`; it has ended */
} dpt_cl_verdict;

typedef struct dpt_cl_trial {
    dpt_cl_verdict verdict;
    cl_int code;
    char *bytes;    /* GOOD: the binary or NULL; BAD: the log.  Allocated, the caller's */
    size_t n_bytes; /* of them */
    char words[400];
} dpt_cl_trial;

/* Compiles in the helper.  A driver that dies while it is asked for the binary of a program that it
   has compiled has compiled it: the verdict is GOOD, without a binary. */
dpt_cl_trial dpt_cl_compiler_build(dpt_cl_compiler *compiler, const dpt_cl_text *text);

/* Whether the helper that runs has built this program: what is launched must be. */
bool dpt_cl_compiler_has(const dpt_cl_compiler *compiler, uint64_t id);

/* A kernel's launch, as clEnqueueNDRangeKernel gets it. */
typedef struct dpt_cl_trial_launch {
    uint64_t id; /* of the program */
    const char *kernel;
    const size_t *n_groups, *group; /* (3) */
    const dpt_cl_argument *arguments;
    const dpt_cl_part *values; /* as many */
    size_t n_arguments;
} dpt_cl_trial_launch;

/* Launches in the helper and waits. */
dpt_cl_trial dpt_cl_compiler_launch(dpt_cl_compiler *compiler, const dpt_cl_trial_launch *launch);

#endif
