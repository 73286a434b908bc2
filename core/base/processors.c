/* Counts the processors that this process may use (processors.h). */
#include "base/processors.h"
#include "base/parse.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PROCESSORS = 4096, LINE_BYTES = 8192 };

static void take_less(size_t *least, size_t n)
{
    if (n < 1) n = 1;
    if (n < *least) *least = n;
}

/* The quota is the time in microseconds that all threads together may run in a period. */
static void take_quota(void *user, const char *folder, bool second)
{
    char quota[64], period[64];
    size_t time, within;
    dpti_group_line(folder, second ? "cpu.max" : "cpu.cfs_quota_us", quota, sizeof quota);
    if (second) {
        const size_t n = strcspn(quota, " "); /* "QUOTA PERIOD"; QUOTA may be "max" */
        strcpy(period, quota + n + (quota[n] == ' '));
        quota[n] = '\0';
    } else {
        dpti_group_line(folder, "cpu.cfs_period_us", period, sizeof period);
    }
    /* Version 1 has -1 where there is no quota. */
    if (dpti_parse_size(quota, 1, SIZE_MAX, &time) && dpti_parse_size(period, 1, SIZE_MAX, &within))
        take_less(user, time / within);
}

/* Counts the processors of a list such as "0-3,8"; 0 if it is no such list. */
static size_t count_list(char *list)
{
    size_t n = 0;
    for (char *rest = NULL, *run = strtok_r(list, ",", &rest); run;
         run = strtok_r(NULL, ",", &rest)) {
        size_t first, last;
        char *dash = strchr(run, '-');
        if (dash) *dash = '\0';
        if (!dpti_parse_size(run, 0, INT_MAX, &first) ||
            !dpti_parse_size(dash ? dash + 1 : run, first, INT_MAX, &last))
            return 0;
        n += last - first + 1;
    }
    return n;
}

static void take_set(void *user, const char *folder, bool second)
{
    char list[LINE_BYTES];
    dpti_group_line(folder, second ? "cpuset.cpus.effective" : "cpuset.effective_cpus", list,
                    sizeof list);
    const size_t n = count_list(list);
    if (n > 0) take_less(user, n);
}

size_t dpti_processors_of(const dpti_group_tree *tree, size_t n_allowed)
{
    size_t least = n_allowed > 0 ? n_allowed : 1;
    dpti_control_groups(tree, "cpu", take_quota, &least);
    dpti_control_groups(tree, "cpuset", take_set, &least);
    return least;
}

static size_t count_allowed(void)
{
    cpu_set_t *set = CPU_ALLOC(MOST_PROCESSORS);
    const size_t n_bytes = CPU_ALLOC_SIZE(MOST_PROCESSORS);
    size_t n = 0;
    if (set && sched_getaffinity(0, n_bytes, set) == 0) n = (size_t)CPU_COUNT_S(n_bytes, set);
    if (set) CPU_FREE(set);
    return n;
}

static size_t found;

static void find(void)
{
    char path[PATH_MAX];
    const dpti_group_tree tree = dpti_group_tree_of_process(path, sizeof path);
    found = dpti_processors_of(&tree, count_allowed());
}

size_t dpti_processors(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
    return found;
}
