/* The control groups of Linux (versions 1 and 2) that this process is in.  They limit what a
   container or a job may use of the machine. */
#ifndef DPTI_CONTROL_GROUP_H
#define DPTI_CONTROL_GROUP_H

#include "dpt_types.h"

/* Where groups are described. */
typedef struct dpti_group_tree {
    const char *groups; /* a file in the format of /proc/self/cgroup */
    const char *root;   /* where the groups are mounted, as /sys/fs/cgroup */
} dpti_group_tree;

/* What is called for a group and each of its parents: the folder of the group's files. */
typedef void dpti_group_visit(void *user, const char *folder, bool second);

/* Visits the groups that limit what `controller` controls ("memory", "cpu"), and their parents, in
   both versions; `second` tells version 2.  A tree that cannot be read has no groups. */
void dpti_control_groups(const dpti_group_tree *tree, const char *controller,
                         dpti_group_visit *visit, void *user);
/* Reads the first line of FOLDER/NAME, without its end; "" if there is none. */
void dpti_group_line(const char *folder, const char *name, char *line, size_t n_bytes);
/* The tree of this process.  For tests $DPTRAIN_TEST_CONTROL_GROUPS names a folder that has the
   file `self` and the folders of the groups instead; `path` (n_bytes) then holds the file's path.
 */
dpti_group_tree dpti_group_tree_of_process(char *path, size_t n_bytes);

#endif
