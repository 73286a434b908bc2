/* The newest checkpoint of a folder, by which a supervisor sees that a training has got further. */
#ifndef DPTRAIN_CLI_KEPT_H
#define DPTRAIN_CLI_KEPT_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

/* The number of starts in a row without a new checkpoint, after which a supervisor gives up. */
enum { CLI_MOST_IN_VAIN = 3 };

/* The checkpoint of the last step in a folder.  Its name, file and time of writing together tell
   whether it is another one, even if the clock was changed. */
typedef struct cli_last_kept {
    char name[NAME_MAX + 1]; /* "": there is none */
    ino_t file;
    struct timespec written;
} cli_last_kept;

cli_last_kept cli_find_last(const char *folder);
/* Whether there is a checkpoint now, and it is another one than before. */
bool cli_is_later_kept(const cli_last_kept *now, const cli_last_kept *before);

#endif
