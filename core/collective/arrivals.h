/* Processes that come to a job that runs: what the job tells them, and whether one waits.

   The text that the first process tells has these parts: a line with the version of dptrain and the
   purpose of the program, a line with the number of devices that the batch still has samples for, a
   line with the number of values of the run header (train/peers/header_check.h), a line "name TAB
   value" for each of them, and what the program says (dpt_process_invite).  Only a process that
   knows the secret of the job gets it or sends it. */
#ifndef DPTI_ARRIVALS_H
#define DPTI_ARRIVALS_H

#include "collective/processes.h"

typedef struct dpt_context dpt_context;

/* Returns the number of processes that can ever be in the job: those of the start and those that
   may come.  The result is the same in all processes. */
size_t dpti_arrivals_most(const dpti_processes *processes);
/* Tells processes that come from now on, if the program invites them: there is room for so many
   devices.  The context tells a failure: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_arrivals_tell(dpt_context *context, size_t room);
/* Keeps the lines of a part of the run header, which are told from the next dpti_arrivals_tell on.
   Takes `lines`, which were allocated with malloc. */
void dpti_arrivals_note(dpt_context *context, size_t part, char *lines);
/* This process has come: the job's value of that name in the run header, up to the end of its line.
   NULL: the job has told none. */
const char *dpti_arrivals_told_value(const dpt_context *context, const char *name);
/* Returns whether a process waits to be let in, as far as this process knows, and the program
   invites processes.  Any thread may call it. */
bool dpti_arrivals_wait(const dpt_context *context);
/* This process has come: checks that the job is of this version and purpose.  DPT_E_INVALID, with
   `prefix` in front of the message. */
DPT_CHECK_RESULT dpt_status dpti_arrivals_check(dpt_context *context, const char *prefix);

#endif
