/* Reads the tree of control groups (control_group.h). */
#include "base/control_group.h"
#include "base/environment.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = PATH_MAX + 64 };

void dpti_group_line(const char *folder, const char *name, char *line, size_t n_bytes)
{
    char path[2 * PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    line[0] = '\0';
    FILE *file = fopen(path, "r");
    if (!file) return;
    if (!fgets(line, (int)n_bytes, file)) line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

/* Returns whether a list of words with commas between them has this word. */
static bool has(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == '\0')) return true;
    return false;
}

/* Who visits, and in which version. */
typedef struct tour {
    dpti_group_visit *visit;
    void *user;
    bool second;
} tour;

/* Visits a group and its parents.  `group` is cut in place. */
static void go_up(const tour *t, const char *base, char *group)
{
    for (;;) {
        char folder[2 * PATH_MAX];
        const size_t length = strlen(group);
        snprintf(folder, sizeof folder, "%s%s", base, length > 1 ? group : "");
        t->visit(t->user, folder, t->second);
        char *slash = strrchr(group, '/');
        if (!slash || length <= 1) return;
        slash[slash == group ? 1 : 0] = '\0';
    }
}

void dpti_control_groups(const dpti_group_tree *tree, const char *controller,
                         dpti_group_visit *visit, void *user)
{
    char line[LINE_BYTES], base[PATH_MAX];
    FILE *file = fopen(tree->groups, "r");
    while (file && fgets(line, sizeof line, file)) {
        /* NUMBER:CONTROLLERS:GROUP; version 2 names none. */
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        const bool second = *++controllers == '\0';
        if (!second && !has(controllers, controller)) continue;
        snprintf(base, sizeof base, "%s%s%s", tree->root, second ? "" : "/",
                 second ? "" : controller);
        go_up(&(tour){visit, user, second}, base, group);
    }
    if (file) fclose(file);
}

dpti_group_tree dpti_group_tree_of_process(char *path, size_t n_bytes)
{
    const char *tests = dpti_environment("DPTRAIN_TEST_CONTROL_GROUPS");
    if (!tests) return (dpti_group_tree){"/proc/self/cgroup", "/sys/fs/cgroup"};
    snprintf(path, n_bytes, "%s/self", tests);
    return (dpti_group_tree){path, tests};
}
