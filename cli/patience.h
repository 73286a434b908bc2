/* A line for the user where preparing takes long: kernels that a device has never run are compiled
   and timed, which can take minutes before a first training. */
#ifndef DPTRAIN_CLI_PATIENCE_H
#define DPTRAIN_CLI_PATIENCE_H

#include <pthread.h>
#include <stdbool.h>

typedef struct cli_patience {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool runs, done;
} cli_patience;

/* Prints the line on stdout after CLI_PATIENCE_SECONDS, unless cli_patience_end is called before.
   Without memory for a thread no line is printed.  Until the end nothing else may print on
   stdout. */
enum { CLI_PATIENCE_SECONDS = 15 };
void cli_patience_begin(cli_patience *patience);
void cli_patience_end(cli_patience *patience);

#endif
