/* Starts the helper process (child.h).  posix_spawn starts it, which is safe in a process with
   threads.  The helper has a process group of its own, so that a signal to the group of this
   process does not reach it.  Of the descriptors of this process it has one end of a socket pair
   and the write end of a pipe, which is its stdout and stderr. */
#ifndef DPT_OPENCL_START_H
#define DPT_OPENCL_START_H

#include "backend.h"

#include <sys/types.h>

typedef struct dpt_cl_spawned {
    pid_t pid;
    int socket;  /* the end of this process */
    int printed; /* reads what the helper prints; reading does not block */
} dpt_cl_spawned;

/* Returns the path of the helper, which lies beside the library that has this code.  The caller
   frees the path.  NULL: the path is unknown, or memory is short. */
char *dpt_cl_helper_path(void);

/* Starts the helper at `path`.  The caller closes both descriptors and waits for the process.
   DPT_E_ABSENT with the reason. */
DPT_CHECK_RESULT dpt_status dpt_cl_spawn(const char *path, dpt_cl_spawned *out, dpt_error *error);

#endif
