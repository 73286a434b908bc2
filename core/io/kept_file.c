/* A file that stays open (kept_file.h). */
#include "io/kept_file.h"

#include "base/text.h"
#include "io/file.h"
#include "io/output.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dpti_kept_file {
    atomic_size_t n_users;
    char *path; /* for messages */
    int fd;
    struct stat opened; /* what the file was when it was opened */
};

static dpt_status make(const dpti_kept_file *like, const char *path, dpti_kept_file **out,
                       dpt_error *error)
{
    dpti_kept_file *file = malloc(sizeof *file);
    char *copy = dpti_strdup(path);
    if (!file || !copy) {
        free(file);
        free(copy);
        close(like->fd);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", path);
    }
    *file = (dpti_kept_file){.path = copy, .fd = like->fd, .opened = like->opened};
    atomic_init(&file->n_users, 1);
    *out = file;
    return DPT_OK;
}

dpt_status dpti_kept_file_open(const char *path, dpti_kept_file **out, dpt_error *error)
{
    dpti_kept_file like = {.path = NULL};
    DPT_TRY(dpti_file_open(path, &like.fd, &like.opened, error));
    return make(&like, path, out, error);
}

dpt_status dpti_kept_file_take(int fd, const char *path, dpti_kept_file **out, dpt_error *error)
{
    dpti_kept_file like = {.fd = fd};
    if (fstat(fd, &like.opened) == 0) return make(&like, path, out, error);
    const int code = errno;
    close(fd);
    return DPT_FAIL_NATIVE(error, DPT_E_IO, code, "cannot read %s: %s", path, strerror(code));
}

dpti_kept_file *dpti_kept_file_share(dpti_kept_file *file)
{
    if (file) atomic_fetch_add(&file->n_users, 1);
    return file;
}

void dpti_kept_file_release(dpti_kept_file *file)
{
    if (!file || atomic_fetch_sub(&file->n_users, 1) > 1) return;
    close(file->fd);
    free(file->path);
    free(file);
}

size_t dpti_kept_file_size(const dpti_kept_file *file)
{
    return (size_t)file->opened.st_size;
}

const char *dpti_kept_file_path(const dpti_kept_file *file)
{
    return file->path;
}

/* Whether nothing was written since the file was opened. */
static bool is_as_opened(const dpti_kept_file *file)
{
    struct stat now;
    const struct stat *then = &file->opened;
    return fstat(file->fd, &now) == 0 && now.st_size == then->st_size &&
           now.st_mtim.tv_sec == then->st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == then->st_mtim.tv_nsec;
}

static dpt_status fail_written(const dpti_kept_file *file, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_IO,
                    "%s was written after it was opened, and its content is still needed: start "
                    "again, and rename a new file into its place instead of writing into it",
                    file->path);
}

dpt_status dpti_file_part_read(const dpti_file_part *part, void *to, dpt_error *error)
{
    const dpti_kept_file *file = part->file;
    char *at = to;
    for (size_t done = 0; done < part->n_bytes;) {
        const size_t left = part->n_bytes - done;
        const size_t want = left < DPTI_MAX_TRANSFER ? left : DPTI_MAX_TRANSFER;
        const ssize_t got = pread(file->fd, at + done, want, (off_t)(part->offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return DPT_FAIL_NATIVE(error, DPT_E_IO, errno, "cannot read %s: %s", file->path,
                                   strerror(errno));
        if (got == 0) break;
        done += (size_t)got;
    }
    /* Behind the reading, so that nothing was written before it ended. */
    if (is_as_opened(file)) return DPT_OK;
    return fail_written(file, error);
}

dpt_status dpti_file_part_check(const dpti_file_part *part, uint32_t crc, dpt_error *error)
{
    return crc == part->crc ? DPT_OK : fail_written(part->file, error);
}

dpt_status dpti_kept_file_read(dpti_kept_file *file, size_t max_bytes, dpti_content *out,
                               dpt_error *error)
{
    const dpti_file_part all = {.file = file, .n_bytes = (size_t)file->opened.st_size};
    dpti_content content;
    DPT_TRY(dpti_file_check_size(file->path, all.n_bytes, max_bytes, error));
    DPT_TRY(dpti_file_take_memory(file->path, all.n_bytes, &content, error));
    const dpt_status status = dpti_file_part_read(&all, content.bytes, error);
    if (status == DPT_OK)
        *out = content;
    else
        free(content.bytes);
    return status;
}
