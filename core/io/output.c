/* Opens, locks and writes files, with POSIX calls. */
#include "io/output.h"

#include "base/fence.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- Calls ----------------------------------------------------------------------------------- */

int dpti_open_for_writing(const char *path, int flags)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, 0666);
    if (fd < 0) return -1;
    const int now = fcntl(fd, F_GETFL);
    if (now >= 0 && fcntl(fd, F_SETFL, now & ~O_NONBLOCK) == 0) return fd;
    const int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* Calls write(2) with SIGPIPE blocked, and removes a SIGPIPE that the call has raised. */
static ssize_t write_quietly(int fd, const void *bytes, size_t n_bytes)
{
    static const struct timespec now = {.tv_sec = 0};
    sigset_t pipe, before, waiting;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigemptyset(&waiting);
    (void)sigpending(&waiting);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    const ssize_t n = write(fd, bytes, n_bytes);
    const int code = errno;
    if (n < 0 && code == EPIPE && !sigismember(&waiting, SIGPIPE))
        while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = code;
    return n;
}

int dpti_write_all(int fd, const void *bytes, size_t n_bytes)
{
    const uint8_t *from = bytes;
    while (n_bytes > 0) {
        const ssize_t n =
            write_quietly(fd, from, n_bytes < DPTI_MAX_TRANSFER ? n_bytes : DPTI_MAX_TRANSFER);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : EIO;
        from += n;
        n_bytes -= (size_t)n;
    }
    return 0;
}

static const char *advice(int code)
{
    switch (code) {
    case ENOSPC:
    case EDQUOT: return "; free some space or choose another place";
    case ENOENT: return "; create the folder first";
    case ENXIO: return "; start what reads it first";
    case EPIPE: return "; nobody reads it any more";
    default: return "";
    }
}

dpt_status dpti_fail_write(dpt_error *error, const char *what, const char *path, int code)
{
    const dpt_status status = code == ENOMEM ? DPT_E_NO_MEMORY : DPT_E_IO;
    return DPT_FAIL_NATIVE(error, status, code, "cannot write %s%s: %s%s", what, path,
                           strerror(code), advice(code));
}

/* ---- Outputs --------------------------------------------------------------------------------- */

static dpt_status fail(const dpti_output *output, int code, dpt_error *error)
{
    return dpti_fail_write(error, output->what, output->path, code);
}

/* Pipes and devices are not locked, and some file systems have no locks. */
static dpt_status hold(const dpti_output *output, dpt_error *error)
{
    struct stat about;
    if (fstat(output->fd, &about) != 0 || !S_ISREG(about.st_mode)) return DPT_OK;
    if (flock(output->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return DPT_OK;
    return DPT_FAIL_NATIVE(error, DPT_E_STATE, EWOULDBLOCK,
                           "another training writes %s%s: name another file", output->what,
                           output->path);
}

dpt_status dpti_output_open(const char *what, const char *path, dpti_output *out, dpt_error *error)
{
    dpti_output output = {.what = what, .path = dpti_strdup(path), .fd = -1};
    if (!output.path) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for %s%s", what, path);
    output.fd = dpti_open_for_writing(path, O_CREAT);
    dpt_status status = output.fd < 0 ? fail(&output, errno, error) : hold(&output, error);
    if (status == DPT_OK) {
        *out = output;
        return DPT_OK;
    }
    if (output.fd >= 0) close(output.fd);
    free(output.path);
    return status;
}

/* Returns 0 or an error number. */
static int cut(const dpti_output *output, off_t n_bytes)
{
    if (ftruncate(output->fd, n_bytes) != 0) return errno == EINVAL ? 0 : errno;
    return lseek(output->fd, n_bytes, SEEK_SET) < 0 ? errno : 0;
}

dpt_status dpti_output_cut(dpti_output *output, size_t n_bytes, dpt_error *error)
{
    const int code = cut(output, (off_t)n_bytes);
    if (code != 0) return fail(output, code, error);
    output->n_written = (off_t)n_bytes;
    return DPT_OK;
}

dpt_status dpti_output_write(dpti_output *output, const void *bytes, size_t n_bytes,
                             dpt_error *error)
{
    dpti_fence_pass();
    const int code = dpti_write_all(output->fd, bytes, n_bytes);
    if (code != 0) {
        (void)cut(output, output->n_written);
        return fail(output, code, error);
    }
    output->n_written += (off_t)n_bytes;
    return DPT_OK;
}

dpt_status dpti_output_close(dpti_output *output, dpt_error *error)
{
    const int code = close(output->fd) == 0 ? 0 : errno;
    const dpt_status status = code ? fail(output, code, error) : DPT_OK;
    free(output->path);
    *output = (dpti_output){.fd = -1};
    return status;
}
