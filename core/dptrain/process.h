/* Several processes that train together: joining, ranks, the measured cost of a sum, and which
   process reports a failure.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_PROCESS_H
#define DPTRAIN_PROCESS_H

#include "dptrain/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Joins the processes that a launcher of MPI (mpirun) has started together with this one, or that
   have the same DPTRAIN_ADDRESS in the environment and join through TCP.  After the call trainers
   of this context train on the devices of all processes (docs/processes.md).  All processes must
   then make the same calls on trainers, in the same order.  Without a launcher, or with
   DPTRAIN_TRANSPORT=none in the environment, the call does nothing.  Call it once, before the first
   trainer is created.

   Errors: DPT_E_ABSENT if the plug-in of the transport or the MPI library is missing.  DPT_E_IO
   if processes have not joined in time or a connection fails.  DPT_E_INVALID if the processes have
   different versions of dptrain or are different programs, the launcher's variable is not a number,
   a variable of the TCP transport is wrong, or DPTRAIN_TRANSPORT_DELAY is not a time. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_processes_join(dpt_context *context);
/* Joins as dpt_processes_join does, for a program that has several commands.  `purpose` names this
   command in a few words.  Errors: as dpt_processes_join; DPT_E_INVALID also if another process has
   another purpose, which the message names. dpt_processes_join has the purpose "". */
DPT_API DPT_CHECK_RESULT dpt_status dpt_processes_join_for(dpt_context *context,
                                                           const char *purpose);
/* Returns how many processes would join according to the environment variables.  Returns
   1 if this process is alone or the variables cannot be read.  Cannot fail. */
DPT_API size_t dpt_processes_launched(void);
/* Returns the number of joined processes; 1 if this process is alone.  Cannot fail. */
DPT_API size_t dpt_process_count(const dpt_context *context);
/* Returns the rank of this process, from 0.  Cannot fail. */
DPT_API size_t dpt_process_rank(const dpt_context *context);
/* Writes the name of the transport between processes as text for a person: "mpi" or "tcp", or "mpi,
   delayed by 5 ms" if some messages are delayed.  Writes "" if this process has joined no others.
   `out` has n_bytes bytes.  Cannot fail. */
DPT_API void dpt_process_transport(const dpt_context *context, char *out, size_t n_bytes);
/* The measured cost of a sum over processes, and the route that collectives take because of that
   cost. */
typedef struct dpt_link {
    size_t size;        /* sizeof(dpt_link), to be set before the call */
    double alpha, beta; /* seconds, and seconds per byte: a sum of n bytes takes alpha + beta n
                           seconds; both are 0 if there is one process */
    const char *route;  /* "direct": each process sends to all others; "ring": each process sends to
                           its neighbour */
    size_t window;      /* largest number of chunks of 256 KiB that are in flight */
} dpt_link;
/* Measures some sums between the processes and chooses the route and the window from the measured
   times.  All processes make the call and choose the same.  The choice changes no bit of any
   result.  Creating a trainer includes this measurement.  Without a measurement collectives use the
   direct route and three chunks at a time.  `out` may be NULL.  Errors: DPT_E_NO_MEMORY; the
   failure of the transport. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_processes_measure(dpt_context *context, dpt_link *out);
/* Returns the time in seconds by which process `rank` delays the messages that the process
   receives.  The process sets that time with DPTRAIN_TRANSPORT_DELAY.  `rank` must be below
   dpt_process_count.  Cannot fail. */
DPT_API double dpt_process_delay(const dpt_context *context, size_t rank);
/* Returns whether a training goes on when another process dies: MPI has ULFM, and the launcher has
   enabled it (`mpirun --with-ft ulfm` of Open MPI 5).  The result is the same in all processes.
   False if this process has joined no others.  Cannot fail. */
DPT_API bool dpt_process_survives(const dpt_context *context);
/* Returns the number of seconds after which a process that stands still, for example stopped by a
   signal, counts as dead and ends; 0: such a process never ends by itself.  Open MPI 5 has this
   timeout if the launcher has enabled its failure detector (docs/processes.md).  A process that
   goes on after a longer time ends at once with status 1 and a line on stderr.  Processes that have
   joined through TCP have another one, DPTRAIN_PROCESS_TIMEOUT, and this function returns 0: the
   others tell such a process whether they have gone on without it.  The result is the same in all
   processes.  Cannot fail. */
DPT_API double dpt_process_timeout(const dpt_context *context);
/* Returns whether dpt_fit has failed, or a trainer could not be created, because a process has
   died or waits to be let in (dpt_process_invite), and the training can go on with the processes
   that are there.  The context has the training
   state in host memory then, unless no step was submitted.  False with local steps.  Cannot fail.
 */
DPT_API bool dpt_process_can_go_on(const dpt_context *context);
/* Goes on without the processes that have died, and with one that waits to be let in.  All
   processes that live must make the call or end. Ranks and their number may change.  The program
   destroys its trainers before the call.  Then it creates a trainer with the same options, and
   calls dpt_fit with the same options.  This dpt_fit continues the training, and takes nothing from
   a file, or begins it if no process has a training state (dpt_process_has_state).  A split of
   proportions keeps the numbers of the devices that are left.  If dpt_process_can_go_on is true
   again after a failure, also after one of this call, the program may repeat this.  Errors:
   DPT_E_STATE if dpt_process_can_go_on is false; DPT_E_IO if messages fail; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_process_go_on(dpt_context *context);
/* After dpt_process_go_on: returns whether the next dpt_fit continues from a training state in host
   memory.  The result is the same in all processes.  If it is false, no process had done a step,
   and the program loads weights, if it does, into the new trainer as it did at first.  Cannot
   fail. */
DPT_API bool dpt_process_has_state(const dpt_context *context);
/* ---- Processes that come to a job that runs (docs/processes.md) -------------------------------

   Processes that have joined through TCP with DPTRAIN_JOINERS in the environment let others in. */

/* Invites processes that come, and gives the text that each of them gets (dpt_process_told), which
   is copied.  From then on dpt_fit fails when a process waits to be let in: between two steps,
   after the same step in all processes, with the training state in host memory.
   dpt_process_can_go_on is true then.  The program does what it does when a process has died: after
   dpt_process_go_on the new process is one of them.  Does nothing if no process can come.  All
   processes make the call before dpt_fit.  Errors: DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_process_invite(dpt_context *context, const char *text);
/* Returns how many processes there can ever be: those of the start, and those that may come.  1 if
   this process is alone.  Cannot fail. */
DPT_API size_t dpt_process_most(const dpt_context *context);
/* Returns how many more processes may come.  A process that comes in place of one that has died
   counts too.  0 if this process is alone.  Cannot fail. */
DPT_API size_t dpt_process_may_come(const dpt_context *context);
/* Returns whether this process has come to a job that runs (DPTRAIN_JOIN in the environment) and is
   not let in yet.  dpt_processes_join has connected it to all processes of the job then, and
   nothing else.  It opens its devices and its data, makes the model, compares them with those of
   the job (dpt_process_check), and calls dpt_process_go_on, which waits until it is let in.  Then
   it creates a trainer with the options that the job has, and calls dpt_fit, like all others.  If
   it fails before its first step, it ends and the others go on. Cannot fail. */
DPT_API bool dpt_process_comes(const dpt_context *context);
/* Returns what the program has told with dpt_process_invite; NULL unless dpt_process_comes is true.
   The text is valid until dpt_process_go_on.  Cannot fail. */
DPT_API const char *dpt_process_told(const dpt_context *context);
/* Returns with how many devices this process may come, so that each device of the job can have a
   sample of the batch; SIZE_MAX unless dpt_process_comes is true.  Cannot fail. */
DPT_API size_t dpt_process_room(const dpt_context *context);

/* Returns whether this process should report the last failure to the user.  True for rank 0, and
   for a process whose failure the other processes do not know.  Cannot fail. */
DPT_API bool dpt_process_speaks(const dpt_context *context);
/* Returns whether all processes know of the last failure.  True if there is only one process.
   Cannot fail. */
DPT_API bool dpt_process_agreed(const dpt_context *context);
/* Returns whether messages to other processes have failed, as when another process or its host has
   ended, and this process has not gone on since.  A job that is started again may succeed.  Cannot
   fail. */
DPT_API bool dpt_process_cut_off(const dpt_context *context);
/* Declares that this process has failed and will exit with a nonzero status.  The launcher then
   ends the other processes.  If they have joined through TCP, they learn of it by this call, and go
   on without this process as if it had died.  After the call the context does not wait for the
   other processes.  The call does nothing if all processes know of the failure already.  Cannot
   fail. */
DPT_API void dpt_process_give_up(dpt_context *context);

#ifdef __cplusplus
}
#endif

#endif
