/* A job that `dptrain supervise` starts, on one host (job.h). */
#include "job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static const char lock_name[] = "lock", ended_name[] = "ended";

/* How long processes have to end by themselves, and then when they are killed. */
static const double patience_seconds = 5;

/* ---- Files ----------------------------------------------------------------------------------- */

/* Whether a path of the folder fits. */
static bool place(const cli_job *job, const char *name, char out[PATH_MAX])
{
    const int n = snprintf(out, PATH_MAX, "%s/%s", job->folder, name);
    return n > 0 && n < PATH_MAX;
}

/* Nobody else may enter the folder: what is in it is trusted. */
static int check_folder(const cli_job *job)
{
    struct stat about;
    if (lstat(job->folder, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid() &&
        (about.st_mode & 077) == 0)
        return CLI_OK;
    return cli_error(CLI_USAGE,
                     "%s is not a folder that only this user may enter: unset " CLI_JOB_VARIABLE
                     ", or start the job with dptrain supervise",
                     job->folder);
}

static int check_memory(const char *memory)
{
    enum { TMPFS = 0x01021994, RAMFS = 0x858458f6 & 0x7fffffff };
    struct statfs about;
    if (statfs(memory, &about) != 0)
        return cli_error(CLI_USAGE, "--memory: %s: %s", memory, strerror(errno));
    const unsigned long kind = (unsigned long)about.f_type & 0x7fffffff;
    if (kind == TMPFS || kind == RAMFS) return CLI_OK;
    return cli_error(CLI_USAGE,
                     "--memory: %s is on a disk: give a folder of a file system in memory (tmpfs), "
                     "such as /dev/shm",
                     memory);
}

static int open_lock(cli_job *job)
{
    char path[PATH_MAX];
    job->lock = place(job, lock_name, path)
                    ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)
                    : -1;
    if (job->lock >= 0) return CLI_OK;
    return cli_error(CLI_FAILURE, "cannot open %s/%s: %s", job->folder, lock_name, strerror(errno));
}

static int take(const cli_job *job, short kind, size_t byte)
{
    struct flock what = {.l_type = kind, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
    if (fcntl(job->lock, F_SETLK, &what) == 0) return CLI_OK;
    return cli_error(CLI_FAILURE, "cannot lock %s/%s: %s", job->folder, lock_name, strerror(errno));
}

/* Returns the holder of a lock on one of n bytes (0: on all from `first` on). */
static pid_t find_holder(int lock, size_t first, size_t n)
{
    struct flock what = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)first, .l_len = (off_t)n};
    if (fcntl(lock, F_GETLK, &what) != 0 || what.l_type == F_UNLCK) return 0;
    return what.l_pid > 0 ? what.l_pid : -1;
}

pid_t cli_job_holder(int lock, int byte)
{
    return find_holder(lock, (size_t)byte, byte == CLI_JOB_SUPERVISOR ? 1 : 0);
}

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Waits until nobody holds a lock on n bytes.  A launcher ends its processes, but not at once, and
   not if it was killed itself. */
static int await_end(const cli_job *job, size_t n)
{
    static const struct timespec a_while = {.tv_nsec = 20 * 1000 * 1000};
    const double began = seconds();
    for (pid_t who; (who = find_holder(job->lock, CLI_JOB_STARTS, n)) != 0;) {
        const double waited = seconds() - began;
        if (waited > 2 * patience_seconds)
            return cli_error(CLI_FAILURE,
                             "process %ld of the job has lost the others and does not end, also by "
                             "SIGKILL: the job is not started again",
                             (long)who);
        if (waited > patience_seconds && who > 0) kill(who, SIGKILL);
        (void)nanosleep(&a_while, NULL);
    }
    return CLI_OK;
}

static void delete_folder(const cli_job *job)
{
    DIR *directory = opendir(job->folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory) closedir(directory);
    (void)rmdir(job->folder);
}

/* ---- The supervisor -------------------------------------------------------------------------- */

int cli_job_create(const char *memory, cli_job *out)
{
    unsigned char random[8];
    char name[2 * sizeof random + 1] = "";
    cli_job job = {.lock = -1};
    if (memory[0] != '/') /* processes may start in another folder */
        return cli_error(CLI_USAGE, "--memory: give the whole path of %s, from / on", memory);
    int code = check_memory(memory);
    if (code != CLI_OK) return code;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return cli_error(CLI_FAILURE, "no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(name + 2 * i, 3, "%02x", random[i]);
    const int n = snprintf(job.folder, sizeof job.folder, "%s/dptrain-%s", memory, name);
    if (n < 0 || (size_t)n >= sizeof job.folder)
        return cli_error(CLI_USAGE, "--memory: the path is too long");
    if (mkdir(job.folder, 0700) != 0)
        return cli_error(CLI_FAILURE, "cannot make the folder %s: %s", job.folder, strerror(errno));
    code = open_lock(&job);
    if (code == CLI_OK) code = take(&job, F_WRLCK, CLI_JOB_SUPERVISOR);
    if (code == CLI_OK)
        *out = job;
    else
        cli_job_remove(&job);
    return code;
}

bool cli_job_name(const cli_job *job)
{
    char text[PATH_MAX + 32];
    snprintf(text, sizeof text, "%zu:%s", job->start, job->folder);
    return setenv(CLI_JOB_VARIABLE, text, 1) == 0;
}

int cli_job_await_end(const cli_job *job)
{
    return await_end(job, 0);
}

bool cli_job_has_ended(const cli_job *job)
{
    char path[PATH_MAX];
    return place(job, ended_name, path) && access(path, F_OK) == 0;
}

void cli_job_remove(cli_job *job)
{
    if (job->folder[0]) delete_folder(job);
    if (job->lock >= 0) close(job->lock);
    *job = (cli_job){.lock = -1};
}

/* ---- A process of the job -------------------------------------------------------------------- */

/* Reads the environment variable, START:FOLDER. */
static int read_variable(const char *text, cli_job *job)
{
    char digits[24];
    const size_t n = strcspn(text, ":");
    if (n < sizeof digits && text[n] == ':' && text[n + 1] == '/' &&
        strlen(text + n + 1) < sizeof job->folder) {
        memcpy(digits, text, n);
        digits[n] = '\0';
        snprintf(job->folder, sizeof job->folder, "%s", text + n + 1);
        if (cli_parse_count(digits, 1, 1000000000, &job->start)) return CLI_OK;
    }
    job->folder[0] = '\0';
    return cli_error(CLI_USAGE, CLI_JOB_VARIABLE
                     " is not START:FOLDER: dptrain supervise sets it, so unset it");
}

/* Other hosts than the supervisor's have no folder yet. */
static int make_folder(const cli_job *job)
{
    const bool made = mkdir(job->folder, 0700) == 0;
    if (!made && errno != EEXIST)
        return cli_error(CLI_FAILURE, "cannot make the folder %s: %s", job->folder,
                         strerror(errno));
    int code = check_folder(job);
    if (code == CLI_OK) code = check_memory(job->folder);
    if (code != CLI_OK && made) (void)rmdir(job->folder);
    return code;
}

static int check_options(const cli_options *options)
{
    if (options->supervise)
        return cli_error(CLI_USAGE, "leave out --supervise: dptrain supervise starts this training "
                                    "again with its launcher");
    if (options->checkpoint) return CLI_OK;
    return cli_error(CLI_USAGE, "dptrain supervise needs --checkpoint DIR among the options of the "
                                "training, from which it continues if no copy is left in memory");
}

int cli_job_enter(cli_job *job, cli_options *options)
{
    const char *text = getenv(CLI_JOB_VARIABLE);
    *job = (cli_job){.lock = -1};
    if (!text) return CLI_OK;
    int code = read_variable(text, job);
    (void)unsetenv(CLI_JOB_VARIABLE); /* this process's children are not of the job */
    if (code == CLI_OK) code = check_options(options);
    if (code == CLI_OK) code = make_folder(job);
    if (code == CLI_OK) code = open_lock(job);
    if (code == CLI_OK) code = take(job, F_RDLCK, job->start);
    if (code == CLI_OK && job->start > 1) code = await_end(job, job->start - 1);
    options->copies = job->folder;
    options->again = job->start > 1;
    return code;
}

/* Whether the exit status is that of a training that has ended, or was asked to end and has written
   its checkpoint. */
static bool is_in_good_order(int code, const cli_options *options)
{
    return code == CLI_OK || code == 128 + SIGINT || code == 128 + SIGTERM ||
           code == 128 + SIGHUP || (code > 0 && (size_t)code == options->requeue_exit);
}

void cli_job_leave(cli_job *job, int code, const cli_options *options)
{
    char path[PATH_MAX];
    if (job->lock < 0 || !is_in_good_order(code, options)) return;
    if (cli_job_holder(job->lock, CLI_JOB_SUPERVISOR) == 0) {
        delete_folder(job);
        return;
    }
    const int fd = place(job, ended_name, path)
                       ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)
                       : -1;
    if (fd >= 0) close(fd);
}
