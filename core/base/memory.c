/* Host memory.  A container or a job may limit the memory of the machine. */
#include "base/memory.h"
#include "base/parse.h"
#include "base/size.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static void take_limit(void *user, const char *folder, bool second)
{
    char line[32];
    size_t limit, *least = user;
    dpti_group_line(folder, second ? "memory.max" : "memory.limit_in_bytes", line, sizeof line);
    if (dpti_parse_size(line, 0, SIZE_MAX, &limit) && limit < *least) *least = limit;
}

size_t dpti_group_memory(const dpti_group_tree *tree)
{
    size_t least = SIZE_MAX;
    dpti_control_groups(tree, "memory", take_limit, &least);
    return least;
}

static size_t find_memory(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    char path[PATH_MAX];
    const dpti_group_tree tree = dpti_group_tree_of_process(path, sizeof path);
    const size_t limit = dpti_group_memory(&tree);
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
