/* The helper process: a program of ours, dptrain-opencl-compile, which lies beside the plug-in and
   does for this process what a driver may not survive.  This file starts it, exchanges messages
   with it and ends it; contain.h says what it is asked.

   The helper has a process group of its own, so that a signal to the group of this process does not
   reach it, and none of this process's file descriptors but one end of a socket pair.  It ends when
   that pair is closed, so when this process ends, however that happens.  What it and the driver in
   it print does not reach the user: the end of it is kept, for messages.  It is started by
   posix_spawn, which is safe in a process with threads.

   One thread at a time uses a dpt_cl_child. */
#ifndef DPT_OPENCL_CHILD_H
#define DPT_OPENCL_CHILD_H

#include "backend.h"
#include "protocol.h"

typedef struct dpt_cl_child dpt_cl_child;

/* DPT_E_ABSENT with the reason if the helper is not found or does not start; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpt_cl_child_start(dpt_cl_child **out, dpt_error *error);
/* Ends the process and waits for its end.  Accepts NULL. */
void dpt_cl_child_end(dpt_cl_child *child);

/* Parts of a request, sent one behind the other. */
typedef struct dpt_cl_part {
    const void *bytes;
    size_t n_bytes;
} dpt_cl_part;

/* An answer; `bytes` is allocated, ends with a NUL that n_bytes does not count, and is the
   caller's. */
typedef struct dpt_cl_answer {
    dpt_cl_message head;
    char *bytes;
} dpt_cl_answer;

/* Both return false when the process has ended or *seconds, from which the time is taken, are over.
   The process is ended then, and dpt_cl_child_ending tells.  Time is counted in short waits: a
   process that was stopped has not waited. */
bool dpt_cl_child_send(dpt_cl_child *child, dpt_cl_message_kind kind, const dpt_cl_part *parts,
                       size_t n_parts, double *seconds);
bool dpt_cl_child_receive(dpt_cl_child *child, dpt_cl_answer *out, double *seconds);

/* How the process ended and what it printed, in one line: "by signal 6 (aborted): \"LLVM ERROR:
   ...\"".  Of what it printed, the part that begins with the first line that speaks of an error,
   else the end.  Belongs to the child. */
const char *dpt_cl_child_ending(const dpt_cl_child *child);

#endif
