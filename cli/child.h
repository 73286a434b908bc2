/* A child process that a supervisor waits for: starting it, and passing signals on to it. */
#ifndef DPTRAIN_CLI_CHILD_H
#define DPTRAIN_CLI_CHILD_H

#include "cli.h"

#include <sys/types.h>

/* Installs the handlers of a supervisor.  SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed
   on to the child.  `job`: the lock of a job (job.h), or -1.  With a job the first signal goes to a
   training process of this host, if there is one: all processes end with it in good order, and a
   launcher would kill them soon. */
void cli_child_catch_signals(int job);
/* The last signal that asks for the end and was passed on; 0: none. */
int cli_child_passed(void);
/* Starts a program, or this one again if `program` is NULL, and waits for its end.  Returns its
   status as of waitpid, or -1 with errno set, and its process id in *was.  The child ends as by
   SIGTERM if this process is killed.  If the program cannot be started, the child says so, and its
   exit status is CLI_USAGE.  If a signal has asked for the end before, nothing is started: the
   status is that of an end by this signal, and *was is 0. */
int cli_child_run(const char *program, char **arguments, pid_t *was);
/* Whether a number is that of a signal by which a crash, or a lack of memory, ends a process. */
bool cli_child_is_crash(int number);
/* The exit status that stands for a status of waitpid. */
int cli_child_code(int status);

#endif
