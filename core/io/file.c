/* Reads and atomically replaces whole files, with POSIX calls. */
#include "io/file.h"

#include "base/fence.h"
#include "base/memory.h"
#include "base/print.h"
#include "base/text.h"
#include "io/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Reading --------------------------------------------------------------------------------- */

static dpt_status fail_read(dpt_error *error, const char *path, int code)
{
    const dpt_status status = code == ENOENT ? DPT_E_NOT_FOUND : DPT_E_IO;
    return DPT_FAIL_NATIVE(error, status, code, "cannot read %s: %s", path, strerror(code));
}

dpt_status dpti_file_open(const char *path, int *fd, struct stat *info, dpt_error *error)
{
    /* O_NONBLOCK: a pipe without a writer is refused below and must not block here. */
    const int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0) return fail_read(error, path, errno);
    if (fstat(opened, info) != 0) {
        const int code = errno;
        close(opened);
        return fail_read(error, path, code);
    }
    if (!S_ISREG(info->st_mode)) {
        close(opened);
        return DPT_FAIL(error, DPT_E_IO, "cannot read %s: it is no regular file", path);
    }
    *fd = opened;
    return DPT_OK;
}

/* A file that is open for reading. */
typedef struct open_file {
    const char *path;
    int fd;
    size_t n_bytes;
} open_file;

static dpt_status open_regular(const char *path, open_file *out, dpt_error *error)
{
    struct stat info;
    DPT_TRY(dpti_file_open(path, &out->fd, &info, error));
    out->path = path;
    out->n_bytes = (size_t)info.st_size;
    return DPT_OK;
}

dpt_status dpti_file_take_memory(const char *path, size_t n_bytes, dpti_content *out,
                                 dpt_error *error)
{
    uint8_t *bytes = n_bytes <= dpti_machine_memory() ? dpti_alloc_aligned(n_bytes) : NULL;
    if (!bytes)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the %zu bytes of %s", n_bytes, path);
    *out = (dpti_content){.bytes = bytes, .n_bytes = n_bytes};
    return DPT_OK;
}

dpt_status dpti_file_check_size(const char *path, size_t n_bytes, size_t max_bytes,
                                dpt_error *error)
{
    if (n_bytes <= max_bytes) return DPT_OK;
    return DPT_FAIL_NATIVE(error, DPT_E_FORMAT, EFBIG,
                           "%s has %zu bytes, more than the %zu that it may", path, n_bytes,
                           max_bytes);
}

/* Calls read(2) until to->n_bytes are read or the file ends.  to->n_bytes becomes the number of
   bytes that were read. */
static dpt_status fill(const open_file *file, dpti_content *to, dpt_error *error)
{
    const size_t capacity = to->n_bytes;
    size_t done = 0;
    while (done < capacity) {
        const size_t want =
            capacity - done < DPTI_MAX_TRANSFER ? capacity - done : DPTI_MAX_TRANSFER;
        const ssize_t got = read(file->fd, to->bytes + done, want);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_read(error, file->path, errno);
        if (got == 0) break;
        done += (size_t)got;
    }
    to->n_bytes = done;
    return DPT_OK;
}

dpt_status dpti_file_read_most(const char *path, size_t max_bytes, dpti_content *out,
                               dpt_error *error)
{
    open_file file = {.fd = -1};
    dpti_content content = {.bytes = NULL};
    DPT_TRY(open_regular(path, &file, error));
    dpt_status status = dpti_file_check_size(path, file.n_bytes, max_bytes, error);
    if (status == DPT_OK) status = dpti_file_take_memory(path, file.n_bytes, &content, error);
    if (status == DPT_OK) status = fill(&file, &content, error);
    if (status == DPT_OK && content.n_bytes != file.n_bytes)
        status = DPT_FAIL(error, DPT_E_IO, "%s became shorter while it was read", path);
    if (status == DPT_OK)
        *out = content;
    else
        free(content.bytes);
    close(file.fd);
    return status;
}

dpt_status dpti_file_read_first(const char *path, size_t most, dpti_content *out, dpt_error *error)
{
    open_file file = {.fd = -1};
    DPT_TRY(open_regular(path, &file, error));
    if (file.n_bytes < most) most = file.n_bytes;
    dpt_status status = DPT_OK;
    dpti_content content = {.bytes = dpti_alloc_aligned(most), .n_bytes = most};
    if (!content.bytes)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for %zu bytes of %s", most, path);
    if (status == DPT_OK) status = fill(&file, &content, error);
    close(file.fd);
    if (status == DPT_OK)
        *out = content;
    else
        free(content.bytes);
    return status;
}

dpt_status dpti_file_read(const char *path, dpti_content *out, dpt_error *error)
{
    return dpti_file_read_most(path, SIZE_MAX, out, error);
}

/* ---- Replacing ------------------------------------------------------------------------------- */

static dpt_status fail_write(dpt_error *error, const char *path, int code)
{
    return dpti_fail_write(error, "", path, code);
}

/* The folder of a path, as an allocated string. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return dpti_strdup(".");
    return slash == path ? dpti_strdup("/") : dpti_strndup(path, (size_t)(slash - path));
}

/* Creates a file with a unique name beside `path`.  Returns the descriptor, or -1 with errno. */
static int open_temporary(const char *path, char **name)
{
    char *folder = folder_of(path);
    if (!folder) {
        errno = ENOMEM;
        return -1;
    }
    int fd = -1;
    char *temporary = NULL;
    /* O_EXCL prevents a collision; the numbers only shorten the search among files of killed
       runs. */
    for (unsigned attempt = 0; fd < 0 && attempt < 1000; attempt++) {
        free(temporary);
        temporary = dpti_format("%s/.dptrain-%ld-%u.tmp", folder, (long)getpid(), attempt);
        if (!temporary) {
            errno = ENOMEM;
            break;
        }
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    const int code = errno;
    free(folder);
    if (fd < 0) {
        free(temporary);
        errno = code;
        return -1;
    }
    *name = temporary;
    return fd;
}

/* Opens an existing file; *direct is true if it is not a regular file and cannot be replaced. */
static int open_existing(dpti_new_file *file, const struct stat *info, bool *direct)
{
    *direct = !S_ISREG(info->st_mode);
    if (S_ISDIR(info->st_mode)) {
        errno = EISDIR;
        return -1;
    }
    if (*direct) return dpti_open_for_writing(file->path, 0);
    /* rename needs no permission on the file that it replaces.  A file that was made read-only
       must not be replaced. */
    if (access(file->path, W_OK) != 0) return -1;
    const int fd = open_temporary(file->path, &file->temporary);
    if (fd >= 0 && fchmod(fd, info->st_mode & 0777) != 0) {
        const int code = errno;
        close(fd);
        unlink(file->temporary);
        errno = code;
        return -1;
    }
    return fd;
}

dpt_status dpti_new_file_create(const char *path, dpti_new_file *out, dpt_error *error)
{
    dpti_new_file file = {.name = path, .fd = -1};
    file.path = realpath(path, NULL);
    if (!file.path) file.path = dpti_strdup(path);
    if (!file.path) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to write %s", path);

    struct stat info;
    bool direct = false;
    if (stat(file.path, &info) == 0) {
        file.fd = open_existing(&file, &info, &direct);
    } else if (errno == ENOENT) {
        file.fd = open_temporary(file.path, &file.temporary);
    }
    if (file.fd < 0) {
        const dpt_status status = fail_write(error, path, errno);
        free(file.temporary);
        free(file.path);
        return status;
    }
    *out = file;
    return DPT_OK;
}

dpt_status dpti_new_file_check(const char *path, dpt_error *error)
{
    dpti_new_file file;
    struct stat info;
    /* A pipe is not opened here, because its reader would see the end when it is closed again. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return access(path, W_OK) == 0 ? DPT_OK : fail_write(error, path, errno);
    DPT_TRY(dpti_new_file_create(path, &file, error));
    dpti_new_file_discard(&file);
    return DPT_OK;
}

dpt_status dpti_new_file_write(dpti_new_file *file, const void *bytes, size_t n_bytes,
                               dpt_error *error)
{
    const int code = dpti_write_all(file->fd, bytes, n_bytes);
    return code ? fail_write(error, file->name, code) : DPT_OK;
}

/* fsync of the folder, so that the rename survives a power failure.  Some file systems have no
   fsync for folders and return EINVAL; they need none. */
static int sync_folder(const char *path)
{
    char *folder = folder_of(path);
    if (!folder) return ENOMEM;
    int code = 0;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        if (fsync(fd) != 0 && errno != EINVAL) code = errno;
        close(fd);
    } else if (errno != EACCES) { /* a folder that may be written but not read */
        code = errno;
    }
    free(folder);
    return code;
}

static void release(dpti_new_file *file)
{
    if (file->fd >= 0) close(file->fd);
    if (file->temporary) unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    *file = (dpti_new_file){.fd = -1};
}

dpt_status dpti_new_file_commit(dpti_new_file *file, dpt_error *error)
{
    int code = 0;
    if (file->temporary && fsync(file->fd) != 0) code = errno;
    if (close(file->fd) != 0 && code == 0) code = errno;
    file->fd = -1;
    if (file->temporary && code == 0) {
        dpti_fence_pass();
        if (rename(file->temporary, file->path) != 0) {
            code = errno;
        } else {
            free(file->temporary);
            file->temporary = NULL;
            code = sync_folder(file->path);
        }
    }
    const dpt_status status = code ? fail_write(error, file->name, code) : DPT_OK;
    release(file);
    return status;
}

void dpti_new_file_discard(dpti_new_file *file)
{
    release(file);
}
