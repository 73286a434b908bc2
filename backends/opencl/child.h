/* The helper process: the program dptrain-opencl-compile, which lies beside the plug-in.  It makes
   the calls of a driver that may end a process.  This file exchanges messages with the helper and
   ends it.  start.h starts it, and contain.h says which requests it gets.

   The helper ends when its socket pair is closed, so it ends whenever this process ends.  What the
   helper and the driver in it print does not reach the user.  The end of it is kept for messages
   (printed.h).

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

/* A part of a request. */
typedef struct dpt_cl_part {
    const void *bytes;
    size_t n_bytes;
} dpt_cl_part;

/* A request.  Its parts are sent one after the other. */
typedef struct dpt_cl_request {
    dpt_cl_message_kind kind;
    const dpt_cl_part *parts; /* (n_parts) */
    size_t n_parts;
} dpt_cl_request;

/* An answer.  The caller frees `bytes`.  A NUL follows them that head.n_bytes does not count. */
typedef struct dpt_cl_answer {
    dpt_cl_message head;
    char *bytes;
} dpt_cl_answer;

/* Both functions subtract the time that they wait from *seconds.  They return false when the
   process has ended or when *seconds are over.  In both cases the process is ended afterwards, and
   dpt_cl_child_ending has the reason.  A wait counts for 0.2 seconds at most: time during which
   this process was stopped does not count. */
bool dpt_cl_child_send(dpt_cl_child *child, const dpt_cl_request *request, double *seconds);
bool dpt_cl_child_receive(dpt_cl_child *child, dpt_cl_answer *out, double *seconds);

/* Returns how the process ended and what it printed, in one line: "by signal 6 (aborted):
   \"LLVM ERROR: ...\"".  dpt_cl_printed_part chooses the part of what it printed.  The text belongs
   to the child.  It is empty while the process runs. */
const char *dpt_cl_child_ending(const dpt_cl_child *child);

#endif
