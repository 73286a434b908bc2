/* The parts of the helper program, dptrain-opencl-compile. */
#ifndef DPT_OPENCL_HELPER_H
#define DPT_OPENCL_HELPER_H

#include "opencl.h"
#include "protocol.h"

#include <stddef.h>

/* Sends an answer to the backend.  If nobody reads it any more, this process ends. */
void helper_answer(dpt_cl_message_kind kind, cl_int code, const void *bytes, size_t n_bytes);

/* Answer a request, whose n_bytes lie at `bytes`. */
void helper_list(const char *bytes, size_t n_bytes);   /* main.c */
void helper_build(const char *bytes, size_t n_bytes);  /* build.c */
void helper_launch(const char *bytes, size_t n_bytes); /* launch.c */

/* build.c: nothing was asked for some seconds.  A context on a card takes memory there, so it is
   released; a CPU's programs stay, for launches. */
void helper_rest(void);

/* build.c: the context and queue of the device, and a program that was built, or NULL. */
extern cl_context helper_context;
extern cl_command_queue helper_queue;
cl_program helper_program(uint64_t id);

#endif
