/* Replaces a text file: writes a temporary file beside it, syncs it and renames it. */
#include "new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct new_file {
    int fd;
    char *path;      /* with links resolved */
    char *temporary; /* NULL: the file is written directly */
} new_file;

bool cli_is_same_file(const char *a, const char *b)
{
    struct stat at_a, at_b;
    return stat(a, &at_a) == 0 && stat(b, &at_b) == 0 && at_a.st_dev == at_b.st_dev &&
           at_a.st_ino == at_b.st_ino;
}

static int fail(const char *path, int code)
{
    const char *advice = "";
    if (code == ENOENT) advice = "; create the folder first";
    if (code == ENOSPC) advice = "; free some space or choose another place";
    if (code == ENXIO) advice = "; start what reads it first";
    return cli_error(CLI_FAILURE, "cannot write %s: %s%s", path, strerror(code), advice);
}

/* Opens a file that is not replaced.  A pipe without a reader gives ENXIO.  Writes wait as usual.
 */
static int open_direct(const char *path, int *fd)
{
    *fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (*fd < 0) return errno;
    const int flags = fcntl(*fd, F_GETFL);
    return flags >= 0 && fcntl(*fd, F_SETFL, flags & ~O_NONBLOCK) == 0 ? 0 : errno;
}

/* Opens a file for writing.  Returns 0 or an error number. */
static int open_new(const char *path, new_file *out)
{
    struct stat about;
    *out = (new_file){.fd = -1};
    const bool exists = stat(path, &about) == 0;
    if (exists && !S_ISREG(about.st_mode)) return open_direct(path, &out->fd);
    /* A rename would replace even a file without permission to write. */
    if (exists && access(path, W_OK) != 0) return errno;
    out->path = exists ? realpath(path, NULL) : strdup(path);
    const size_t n_bytes = out->path ? strlen(out->path) + 32 : 0;
    out->temporary = malloc(n_bytes + 1);
    if (!out->path || !out->temporary) return ENOMEM;
    snprintf(out->temporary, n_bytes, "%s.%ld.tmp", out->path, (long)getpid());
    out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return out->fd < 0 ? errno : 0;
}

/* Closes the file, and renames it into place if there was no error.  Returns 0 or the first error
   number. */
static int close_new(new_file *file, int code, bool keep)
{
    const bool replaces = file->fd >= 0 && file->temporary;
    if (replaces && keep && code == 0 && fsync(file->fd) != 0) code = errno;
    if (file->fd >= 0 && close(file->fd) != 0 && code == 0) code = errno;
    if (replaces && keep && code == 0 && rename(file->temporary, file->path) != 0) code = errno;
    if (replaces && (!keep || code != 0)) unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    return code;
}

static int write_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(fd, text, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return errno;
        text += done;
        n -= (size_t)done;
    }
    return 0;
}

int cli_new_file_check(const char *path)
{
    struct stat about;
    new_file file;
    /* A pipe is not opened, because its reader would see its end. */
    if (stat(path, &about) == 0 && S_ISFIFO(about.st_mode))
        return access(path, W_OK) == 0 ? CLI_OK : fail(path, errno);
    int code = open_new(path, &file);
    code = close_new(&file, code, false);
    return code ? fail(path, code) : CLI_OK;
}

int cli_new_file_write(const char *path, const char *text)
{
    new_file file;
    int code = open_new(path, &file);
    if (code == 0) code = write_all(file.fd, text, strlen(text));
    if (code == 0) code = write_all(file.fd, "\n", 1);
    code = close_new(&file, code, true);
    return code ? fail(path, code) : CLI_OK;
}
