/* --supervise: the training runs in a child process.  The parent starts it again from its last
   checkpoint when it ends because of its devices (exit status 3) or by a crash.  The parent opens
   no device, so no driver can crash it. */
#include "child.h"
#include "kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The command line of the child: this process's, with --resume before the options, because a -- may
   follow them.  NULL without memory. */
static char **resuming(int argc, char **argv, int first)
{
    static char resume[] = "--resume";
    char **out = calloc((size_t)argc + 2, sizeof *out);
    if (!out) return NULL;
    memcpy(out, argv, (size_t)first * sizeof *out);
    out[first] = resume;
    memcpy(out + first + 1, argv + first, (size_t)(argc - first) * sizeof *out);
    return out;
}

/* The environment variable that marks a child: its parent's process id.  The child has the same
   options. */
static const char variable[] = "DPTRAIN_SUPERVISOR";

bool cli_supervised(void)
{
    const char *text = getenv(variable);
    char *end = NULL;
    const bool is_child = text && *text && strtol(text, &end, 10) == (long)getppid() && !*end;
    (void)unsetenv(variable);
    return is_child;
}

static bool name_child(void)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%ld", (long)getpid());
    return setenv(variable, digits, 1) == 0;
}

/* Whether a has the larger number.  Numbers have at least nine digits, so a longer name is larger.
 */
static bool is_later(const char *a, const char *b)
{
    const size_t n_a = strlen(a), n_b = strlen(b);
    return n_a != n_b ? n_a > n_b : strcmp(a, b) > 0;
}

cli_last_kept cli_find_last(const char *folder)
{
    static const char prefix[] = "checkpoint-", suffix[] = ".safetensors";
    DIR *directory = opendir(folder);
    cli_last_kept last = {.name = ""};
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        const char *name = entry->d_name, *digits = name + sizeof prefix - 1;
        struct stat info;
        if (strncmp(name, prefix, sizeof prefix - 1) != 0 ||
            strcmp(digits + strspn(digits, "0123456789"), suffix) != 0 ||
            !is_later(name, last.name) ||
            fstatat(dirfd(directory), name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        snprintf(last.name, sizeof last.name, "%s", name);
        last.file = info.st_ino;
        last.written = info.st_mtim;
    }
    if (directory) closedir(directory);
    return last;
}

bool cli_has_checkpoint(const char *folder)
{
    return folder && cli_find_last(folder).name[0];
}

bool cli_last_checkpoint(const char *folder, char *out, size_t out_bytes)
{
    const cli_last_kept last = cli_find_last(folder);
    const int n = snprintf(out, out_bytes, "%s/%s", folder, last.name);
    return last.name[0] && n > 0 && (size_t)n < out_bytes;
}

bool cli_is_later_kept(const cli_last_kept *now, const cli_last_kept *before)
{
    return now->name[0] && (strcmp(now->name, before->name) != 0 || now->file != before->file ||
                            now->written.tv_sec != before->written.tv_sec ||
                            now->written.tv_nsec != before->written.tv_nsec);
}

/* Removes the event files of TensorBoard that a child wrote, whose number ends their names.  A
   training that begins anew refuses a folder with event files. */
static void forget_events(const char *folder, pid_t id)
{
    static const char prefix[] = "events.out.tfevents.";
    char suffix[24];
    DIR *directory = folder ? opendir(folder) : NULL;
    snprintf(suffix, sizeof suffix, ".%ld", (long)id);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        const char *name = entry->d_name, *end = strrchr(name, '.');
        if (strncmp(name, prefix, sizeof prefix - 1) == 0 && strcmp(end, suffix) == 0)
            (void)unlinkat(dirfd(directory), name, 0); /* the child refuses what stays */
    }
    if (directory) closedir(directory);
}

static bool crashed(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) == CLI_DEVICES_LOST
                             : cli_child_is_crash(WTERMSIG(status));
}

static int check(const cli_options *options)
{
    if (!options->checkpoint)
        return cli_error(CLI_USAGE,
                         "--supervise needs --checkpoint DIR, from which training continues");
    /* A process of several can join the others only once. */
    if (dpt_processes_launched() > 1)
        return cli_error(
            CLI_USAGE,
            "--supervise is for one process, and this is one of %zu: leave it out, and supervise "
            "the launcher (dptrain supervise -- mpirun ...)",
            dpt_processes_launched());
    return CLI_OK;
}

int cli_supervise(int argc, char **argv, int first, const cli_options *options)
{
    int code = check(options), in_vain = 0;
    if (code != CLI_OK) return code;
    char **again = resuming(argc, argv, first), **arguments = argv;
    if (!again || !name_child()) {
        free(again);
        return cli_error(CLI_FAILURE, "no memory to start the training again");
    }
    cli_child_catch_signals(-1);
    cli_last_kept last = cli_find_last(options->checkpoint);
    for (;;) {
        pid_t id = 0;
        const int status = cli_child_run(NULL, arguments, &id);
        if (status < 0) {
            code = cli_error(CLI_FAILURE, "cannot start the training: %s", strerror(errno));
            break;
        }
        code = cli_child_code(status);
        if (cli_child_passed() || !crashed(status)) break;
        const cli_last_kept now = cli_find_last(options->checkpoint);
        const bool gained = cli_is_later_kept(&now, &last);
        if (now.name[0]) last = now; /* earlier ones may be renamed to old-*, and back */
        in_vain = gained ? 0 : in_vain + 1;
        /* Without a new checkpoint, --resume would continue an earlier training. */
        if (gained) arguments = again;
        if (in_vain == CLI_MOST_IN_VAIN) {
            (void)cli_error(
                code, "training ended %d times without a new checkpoint: it is not started again",
                CLI_MOST_IN_VAIN);
            break;
        }
        (void)cli_error(
            code, "training ended by %s %d; %s", WIFEXITED(status) ? "exit status" : "signal",
            WIFEXITED(status) ? code : WTERMSIG(status),
            arguments == again || options->resume ? "continuing from the last checkpoint"
                                                  : "beginning anew");
        if (arguments == argv && !options->resume) forget_events(options->tensorboard, id);
    }
    free(again);
    return code;
}
