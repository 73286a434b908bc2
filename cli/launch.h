/* The launcher that `dptrain supervise` starts: the number of processes and the hosts in its
   arguments, and the arguments of the next start with those that are left. */
#ifndef DPTRAIN_CLI_LAUNCH_H
#define DPTRAIN_CLI_LAUNCH_H

#include "cli.h"

enum { CLI_MOST_HOSTS = 256, CLI_HOST_BYTES = 256 };

/* A host as --hosts has it: NAME or NAME:SLOTS. */
typedef struct cli_host {
    char text[CLI_HOST_BYTES], name[CLI_HOST_BYTES];
    size_t slots; /* 1 if none are given */
    bool answers;
} cli_host;

typedef struct cli_launch {
    char *const *words; /* (n) the launcher and its arguments, as given */
    size_t n;
    size_t processes;   /* those of the next start */
    size_t count_word;  /* the word with their number; 0: {processes} is in some words */
    size_t count_begin; /* where the number begins in that word */
    size_t n_hosts;     /* 0: none are given */
    cli_host *hosts;    /* (n_hosts) those of the next start */
    bool exports;      /* the launcher needs to be told that the job's variable goes to all hosts */
    const char *probe; /* the shell command that tells whether host $1 answers */
} cli_launch;

/* Reads the options and the launcher's words.  Sets an environment variable by which srun ends all
   processes when one has died, unless the user has set it.  CLI_OK, or an exit code after one line
   on stderr. */
DPT_CHECK_RESULT int cli_launch_read(const cli_options *options, cli_launch *out);
void cli_launch_free(cli_launch *launch); /* accepts a zeroed struct */
/* Returns the words of the next start, NULL-terminated; NULL without memory. */
char **cli_launch_words(const cli_launch *launch);
void cli_launch_free_words(char **words);
/* Leaves out the hosts that do not answer within some seconds, and their part of the processes.
   Returns their number, and tells of each.  This host counts as one that answers (hosts.c). */
size_t cli_launch_leave_out(cli_launch *launch);
/* Reads a list of hosts.  CLI_OK, or CLI_USAGE after one line on stderr (hosts.c). */
DPT_CHECK_RESULT int cli_hosts_read(const char *text, cli_launch *launch);

#endif
