/* A job that `dptrain supervise` starts, on one host: a folder in memory that outlives processes,
   and a file there whose locks tell who is alive.

   The folder has the copy of the training state (dpt_fit_options.copies), the file `lock`, and the
   file `ended` once the training has ended in good order.  The supervisor has a write lock on byte
   0 of `lock`.  A process of start N has a read lock on byte N, from its beginning to its end.  The
   kernel removes a lock when its process ends, however it ends. */
#ifndef DPTRAIN_CLI_JOB_H
#define DPTRAIN_CLI_JOB_H

#include "cli.h"

#include <limits.h>
#include <sys/types.h>

/* Bytes of the lock: of the supervisor, and of all starts from here on. */
enum { CLI_JOB_SUPERVISOR = 0, CLI_JOB_STARTS = 1 };

/* The environment variable by which processes know their job: START:FOLDER. */
#define CLI_JOB_VARIABLE "DPTRAIN_JOB"

typedef struct cli_job {
    char folder[PATH_MAX]; /* "": none */
    int lock;              /* file descriptor; -1: none.  Nothing else opens this file: closing any
                              descriptor of it would drop the locks */
    size_t start;          /* from 1 */
} cli_job;

/* ---- The supervisor -------------------------------------------------------------------------- */

/* Makes a folder for a new job in `memory`, a folder of a file system in memory, and locks it.
   CLI_OK, or an exit code after one line on stderr. */
DPT_CHECK_RESULT int cli_job_create(const char *memory, cli_job *out);
/* Sets the environment variable for start job->start.  False: no memory. */
DPT_CHECK_RESULT bool cli_job_name(const cli_job *job);
/* Waits until all processes of the job on this host have ended, and kills those that have not after
   some seconds.  CLI_OK, or an exit code after one line on stderr. */
DPT_CHECK_RESULT int cli_job_await_end(const cli_job *job);
/* Whether the training has ended in good order on this host. */
bool cli_job_has_ended(const cli_job *job);
/* Deletes the folder, and closes the lock.  Accepts a job that was not created. */
void cli_job_remove(cli_job *job);

/* ---- A process of the job -------------------------------------------------------------------- */

/* If the environment names a job: takes part in it, and sets `copies` and `again` of the options.
   Waits until processes of earlier starts have ended on this host, as cli_job_await_end does.
   CLI_OK, or an exit code after one line on stderr.  The job must stay until cli_job_leave. */
DPT_CHECK_RESULT int cli_job_enter(cli_job *job, cli_options *options);
/* Called at the end with the exit status.  If that tells of an end in good order, the folder is
   left to the supervisor, or deleted on hosts without one. */
void cli_job_leave(cli_job *job, int code, const cli_options *options);

/* Returns the process, other than this one, that holds a lock on this byte or, from CLI_JOB_STARTS
   on, a higher one; 0: none; -1: one whose number is not known here.  May be called by a signal
   handler. */
pid_t cli_job_holder(int lock, int byte);

#endif
