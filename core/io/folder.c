/* Numbered checkpoint files in a folder, and the best weights beside them. */
#include "io/folder.h"

#include "base/grow.h"
#include "base/parse.h"
#include "base/print.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "checkpoint-", suffix[] = ".safetensors", aside[] = "old-";
static const char best[] = "best.safetensors";

char *dpti_folder_path(const char *folder, size_t number)
{
    return dpti_format("%s/%s%09zu%s", folder, prefix, number, suffix);
}

static bool parse_name(const char *name, size_t *number)
{
    char digits[24];
    const size_t length = strlen(name), n_prefix = sizeof prefix - 1, n_suffix = sizeof suffix - 1;
    if (length <= n_prefix + n_suffix || strncmp(name, prefix, n_prefix) != 0 ||
        strcmp(name + length - n_suffix, suffix) != 0)
        return false;
    const size_t n = length - n_prefix - n_suffix;
    if (n >= sizeof digits) return false;
    memcpy(digits, name + n_prefix, n);
    digits[n] = '\0';
    /* Accepts only names that dpti_folder_path makes; so each number has one name. */
    return dpti_parse_size(digits, 0, SIZE_MAX, number) && (n == 9 || (n > 9 && digits[0] != '0'));
}

bool dpti_folder_numbers(const char *name)
{
    size_t number;
    return parse_name(name, &number);
}

static int descending(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x < y) - (x > y);
}

static bool append(size_t **numbers, size_t *n, size_t *capacity, size_t number)
{
    size_t *grown = dpti_grow(*numbers, *n, capacity, sizeof *grown);
    if (!grown) return false;
    *numbers = grown;
    (*numbers)[(*n)++] = number;
    return true;
}

dpt_status dpti_folder_list(const char *folder, size_t **numbers, size_t *n, dpt_error *error)
{
    size_t *found = NULL, n_found = 0, capacity = 0, number = 0;
    DIR *directory = opendir(folder);
    bool complete = true;
    if (!directory)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, errno, "cannot read the folder %s: %s", folder,
                               strerror(errno));
    for (const struct dirent *entry; complete && (entry = readdir(directory));)
        if (parse_name(entry->d_name, &number))
            complete = append(&found, &n_found, &capacity, number);
    closedir(directory);
    if (!complete) {
        free(found);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the files of %s", folder);
    }
    if (n_found > 0) qsort(found, n_found, sizeof *found, descending);
    *numbers = found;
    *n = n_found;
    return DPT_OK;
}

/* ---- An earlier training's ------------------------------------------------------------------- */

/* A file that does not exist needs no rename. */
static dpt_status rename_aside(const char *folder, const char *name, dpt_error *error)
{
    char *from = dpti_format("%s/%s", folder, name);
    char *to = dpti_format("%s/%s%s", folder, aside, name);
    dpt_status status = DPT_OK;
    if (!from || !to)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the files of %s", folder);
    else if (rename(from, to) != 0 && errno != ENOENT)
        status =
            DPT_FAIL_NATIVE(error, DPT_E_IO, errno, "cannot rename %s: %s", from, strerror(errno));
    free(from);
    free(to);
    return status;
}

/* The file with the greatest number is renamed last, because it tells which training the files
   belong to.  The best weights follow it: whoever resumes from these checkpoints needs them. */
dpt_status dpti_folder_set_aside(const char *folder, dpt_error *error)
{
    char name[64];
    size_t *numbers = NULL, n = 0;
    dpt_status status = dpti_folder_list(folder, &numbers, &n, error);
    while (status == DPT_OK && n > 0) {
        snprintf(name, sizeof name, "%s%09zu%s", prefix, numbers[--n], suffix);
        status = rename_aside(folder, name, error);
    }
    free(numbers);
    return status == DPT_OK ? rename_aside(folder, best, error) : status;
}

/* An action on each renamed file; `name` is its former name. */
typedef void aside_action(int folder, const char *old_name, const char *name, void *user);

static void for_each_aside(const char *folder, aside_action *act, void *user)
{
    DIR *directory = opendir(folder);
    if (!directory) return;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        const char *name = entry->d_name + sizeof aside - 1;
        if (strncmp(entry->d_name, aside, sizeof aside - 1) == 0 &&
            (dpti_folder_numbers(name) || strcmp(name, best) == 0))
            act(dirfd(directory), entry->d_name, name, user);
    }
    closedir(directory);
}

static void put_one_back(int folder, const char *old_name, const char *name, void *user)
{
    struct stat about;
    (void)user;
    if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0)
        (void)renameat(folder, old_name, folder, name);
}

void dpti_folder_put_back(const char *folder)
{
    for_each_aside(folder, put_one_back, NULL);
}

static void count_numbered(int folder, const char *old_name, const char *name, void *user)
{
    size_t *n = user;
    (void)folder;
    (void)old_name;
    *n += dpti_folder_numbers(name);
}

size_t dpti_folder_count_aside(const char *folder)
{
    size_t n = 0;
    for_each_aside(folder, count_numbered, &n);
    return n;
}

static void delete_one(int folder, const char *old_name, const char *name, void *user)
{
    (void)name;
    (void)user;
    (void)unlinkat(folder, old_name, 0);
}

void dpti_folder_delete_aside(const char *folder)
{
    for_each_aside(folder, delete_one, NULL);
}

/* ---- One process at a time, new files -------------------------------------------------------- */

dpt_status dpti_folder_lock(const char *folder, int *lock, dpt_error *error)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, errno, "cannot open the folder %s: %s", folder,
                               strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *lock = fd;
        return DPT_OK;
    }
    const int code = errno;
    close(fd);
    if (code == EWOULDBLOCK)
        return DPT_FAIL_NATIVE(error, DPT_E_STATE, code,
                               "another training writes its checkpoints to %s: choose another "
                               "folder",
                               folder);
    *lock = -1;
    return DPT_OK;
}

void dpti_folder_claim(const char *path)
{
    struct stat about;
    if (lstat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode))
        (void)unlink(path); /* if it cannot be removed, writing reports it */
}

/* ---- Leftovers ------------------------------------------------------------------------------- */

/* Returns whether a name is ".dptrain-PID-N.tmp" of a process that no longer exists, or of this
   process, which has none open at this time. */
static bool is_leftover(const char *name)
{
    static const char begin[] = ".dptrain-", end[] = ".tmp";
    char digits[24];
    size_t pid = 0;
    const size_t length = strlen(name);
    if (strncmp(name, begin, sizeof begin - 1) != 0 || length < sizeof begin + sizeof end ||
        strcmp(name + length - (sizeof end - 1), end) != 0)
        return false;
    const char *const text = name + sizeof begin - 1;
    const size_t n = strcspn(text, "-");
    if (n >= sizeof digits || text[n] != '-') return false;
    memcpy(digits, text, n);
    digits[n] = '\0';
    if (!dpti_parse_size(digits, 1, INT32_MAX, &pid)) return false;
    return (pid_t)pid == getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

size_t dpti_folder_clean(const char *folder)
{
    size_t n = 0;
    DIR *directory = opendir(folder);
    if (!directory) return 0;
    for (const struct dirent *entry; (entry = readdir(directory));)
        if (is_leftover(entry->d_name) && unlinkat(dirfd(directory), entry->d_name, 0) == 0) n++;
    closedir(directory);
    return n;
}
