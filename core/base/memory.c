/* Host memory.  A container or a job may limit the memory of the machine. */
#include "base/memory.h"
#include "base/parse.h"
#include "base/size.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = PATH_MAX + 64 };

/* Returns the number in a file; SIZE_MAX if there is no number, as in "max". */
static size_t read_number(const char *path)
{
    char line[32] = "";
    size_t value;
    FILE *file = fopen(path, "r");
    if (!file) return SIZE_MAX;
    if (!fgets(line, sizeof line, file)) line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return dpti_parse_size(line, 0, SIZE_MAX, &value) ? value : SIZE_MAX;
}

/* Returns the least limit of a group and of its parent groups.  `group` is cut in place. */
static size_t read_limits(const char *base, char *group, const char *name)
{
    size_t least = SIZE_MAX;
    for (;;) {
        char path[2 * PATH_MAX];
        const size_t length = strlen(group);
        snprintf(path, sizeof path, "%s%s/%s", base, length > 1 ? group : "", name);
        const size_t limit = read_number(path);
        least = limit < least ? limit : least;
        char *slash = strrchr(group, '/');
        if (!slash || length <= 1) return least;
        slash[slash == group ? 1 : 0] = '\0';
    }
}

/* Returns whether a list of words with commas between them has this word. */
static bool has(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == '\0')) return true;
    return false;
}

size_t dpti_group_memory(const char *groups, const char *root)
{
    char line[LINE_BYTES], base[PATH_MAX];
    size_t least = SIZE_MAX;
    FILE *file = fopen(groups, "r");
    while (file && fgets(line, sizeof line, file)) {
        /* NUMBER:CONTROLLERS:GROUP; version 2 names none. */
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        const bool second = *++controllers == '\0';
        if (!second && !has(controllers, "memory")) continue;
        snprintf(base, sizeof base, "%s%s", root, second ? "" : "/memory");
        const size_t limit =
            read_limits(base, group, second ? "memory.max" : "memory.limit_in_bytes");
        least = limit < least ? limit : least;
    }
    if (file) fclose(file);
    return least;
}

static size_t find_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const size_t limit = dpti_group_memory("/proc/self/cgroup", "/sys/fs/cgroup");
    size_t n_bytes = SIZE_MAX;
    if (pages <= 0 || page <= 0 || !dpti_multiply((size_t)pages, (size_t)page, &n_bytes))
        return limit;
    return limit < n_bytes ? limit : n_bytes;
}

size_t dpti_machine_memory(void)
{
    static atomic_size_t known; /* 0: not read yet; all threads read the same number */
    size_t n_bytes = atomic_load(&known);
    if (n_bytes == 0) atomic_store(&known, n_bytes = find_memory());
    return n_bytes;
}

void *dpti_alloc_aligned(size_t n_bytes)
{
    static const size_t alignment = 64;
    if (n_bytes > SIZE_MAX - alignment) return NULL;
    return aligned_alloc(alignment, dpti_round_up(n_bytes ? n_bytes : 1, alignment));
}
