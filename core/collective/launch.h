/* Finds the other processes of a job: what the launcher says, and the plug-in of the transport. */
#ifndef DPTI_LAUNCH_H
#define DPTI_LAUNCH_H

#include "collective/processes.h"

/* *n becomes how many processes a launcher says that it started with this one; 1 if no launcher
   says so.  *which becomes the environment variable that said it, or NULL.  DPT_E_INVALID if such a
   variable is not a number. */
DPT_CHECK_RESULT dpt_status dpti_launched(size_t *n, const char **which, dpt_error *error);
/* *rank becomes the rank that the launcher gives this process; 0 if no launcher has started it.
   Returns false if several processes were started and no variable tells which of them this one is.
 */
bool dpti_launched_rank(size_t *rank);
/* The first exchange of the processes.  DPT_E_INVALID in all processes if they do not have the same
   version or the same purpose. */
DPT_CHECK_RESULT dpt_status dpti_processes_introduce(dpti_processes *processes, const char *version,
                                                     const char *purpose, dpt_error *error);
/* *out becomes the delay that DPTRAIN_TRANSPORT_DELAY asks for; 0 if it is not set.  DPT_E_INVALID
   says what to give. */
DPT_CHECK_RESULT dpt_status dpti_delay_wanted(double *out, dpt_error *error);
/* Opens the plug-in of a transport.  DPT_E_ABSENT if there is none or a library that it needs is
   missing. */
DPT_CHECK_RESULT dpt_status dpti_transport_load(const char *name, const dpt_transport **out,
                                                dpt_error *error);

#endif
