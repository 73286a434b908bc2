/* Files that ranks in several processes append to and read (fault_mail.h). */
#include "fault_mail.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct fault_mail {
    size_t first, n, n_ranks;
    char name[96];
    struct {
        int fd;
        off_t read;
    } ranks[FAULT_MOST_RANKS];
};

void fault_mail_name(char out[96])
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(out, 96, "fault-mail-%ld-%ld-%ld", (long)getpid(), (long)now.tv_sec, now.tv_nsec);
}

static bool is_here(const fault_mail *mail, size_t rank)
{
    return rank >= mail->first && rank - mail->first < mail->n;
}

static bool write_all(int fd, const void *data, size_t n_bytes)
{
    for (const char *at = data; n_bytes > 0;) {
        const ssize_t n = write(fd, at, n_bytes);
        if (n <= 0) return false;
        at += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

static bool read_all(int fd, void *data, size_t n_bytes, off_t from)
{
    for (char *at = data; n_bytes > 0;) {
        const ssize_t n = pread(fd, at, n_bytes, from);
        if (n <= 0) return false;
        at += n;
        from += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

static void path_of(const fault_mail *mail, size_t rank, char out[128])
{
    snprintf(out, 128, "%s.%zu", mail->name, rank);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static dpt_status open_own(fault_mail *mail, size_t rank, uint64_t word, dpt_error *error)
{
    char path[128];
    path_of(mail, rank, path);
    mail->ranks[rank].fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
    mail->ranks[rank].read = sizeof word;
    if (mail->ranks[rank].fd >= 0 && write_all(mail->ranks[rank].fd, &word, sizeof word))
        return DPT_OK;
    return DPT_FAIL(error, DPT_E_DEVICE, "cannot write %s", path);
}

static dpt_status open_other(fault_mail *mail, size_t rank, uint64_t word, double timeout_seconds,
                             dpt_error *error)
{
    char path[128];
    uint64_t found = 0;
    path_of(mail, rank, path);
    for (double waited = 0; waited < timeout_seconds; waited += 0.001) {
        if (mail->ranks[rank].fd < 0) mail->ranks[rank].fd = open(path, O_RDONLY | O_CLOEXEC);
        if (mail->ranks[rank].fd >= 0 && read_all(mail->ranks[rank].fd, &found, sizeof found, 0)) {
            mail->ranks[rank].read = sizeof found;
            if (found == word) return DPT_OK;
            return DPT_FAIL(error, DPT_E_UNSUPPORTED, "rank %zu has another island=", rank);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return DPT_FAIL(error, DPT_E_DEVICE, "rank %zu does not come", rank);
}

static dpt_status open_all(fault_mail *mail, uint64_t word, double timeout_seconds,
                           dpt_error *error)
{
    for (size_t r = mail->first; r < mail->first + mail->n; r++)
        DPT_TRY(open_own(mail, r, word, error));
    for (size_t r = 0; r < mail->n_ranks; r++)
        if (!is_here(mail, r)) DPT_TRY(open_other(mail, r, word, timeout_seconds, error));
    return DPT_OK;
}

/* Who has opened a file reads on; what was not opened by all stays. */
static void end(fault_mail *mail, bool all_have_it)
{
    char path[128];
    for (size_t r = 0; mail && r < mail->n_ranks; r++) {
        if (mail->ranks[r].fd < 0) continue;
        close(mail->ranks[r].fd);
        path_of(mail, r, path);
        if (is_here(mail, r) && all_have_it) (void)unlink(path);
    }
    free(mail);
}

dpt_status fault_mail_open(const dpt_group *group, const char *name, uint64_t word,
                           fault_mail **out, dpt_error *error)
{
    fault_mail *mail = calloc(1, sizeof *mail);
    if (!mail) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory");
    mail->first = group->first_rank;
    mail->n = group->n_devices;
    mail->n_ranks = group->n_ranks;
    snprintf(mail->name, sizeof mail->name, "%s", name);
    for (size_t r = 0; r < FAULT_MOST_RANKS; r++)
        mail->ranks[r].fd = -1;
    const dpt_status status = open_all(mail, word, group->timeout_seconds, error);
    if (status == DPT_OK)
        *out = mail;
    else
        end(mail, false);
    return status;
}

void fault_mail_close(fault_mail *mail)
{
    end(mail, true);
}

/* ---- Letters --------------------------------------------------------------------------------- */

bool fault_mail_send(fault_mail *mail, size_t rank, const fault_letter *letter, const float *data)
{
    const int fd = mail->ranks[rank].fd;
    return write_all(fd, letter, sizeof *letter) &&
           write_all(fd, data, letter->count * sizeof *data);
}

bool fault_mail_has_come(fault_mail *mail)
{
    for (size_t r = 0; r < mail->n_ranks; r++) {
        const int fd = mail->ranks[r].fd;
        const off_t at = mail->ranks[r].read;
        fault_letter letter;
        struct stat file;
        if (!read_all(fd, &letter, sizeof letter, at) || fstat(fd, &file) != 0) return false;
        if (file.st_size < at + (off_t)(sizeof letter + letter.count * sizeof(float))) return false;
    }
    return true;
}

bool fault_mail_read(fault_mail *mail, size_t rank, fault_letter *letter, float *data, size_t most)
{
    const int fd = mail->ranks[rank].fd;
    off_t *at = &mail->ranks[rank].read;
    if (!read_all(fd, letter, sizeof *letter, *at) || letter->count > most) return false;
    *at += (off_t)sizeof *letter;
    if (!read_all(fd, data, letter->count * sizeof *data, *at)) return false;
    *at += (off_t)(letter->count * sizeof *data);
    return true;
}
