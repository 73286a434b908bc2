/* A folder of numbered files such as checkpoint-000000120.safetensors: listing them, locking the
   folder for one process, and cleaning up after killed processes. */
#ifndef DPTI_FOLDER_H
#define DPTI_FOLDER_H

#include "dpt_error.h"

/* Returns the path of file `number`; NULL if there is no memory.  The caller frees the string. */
char *dpti_folder_path(const char *folder, size_t number);
/* Returns whether a file name, without a folder, is the name of such a file. */
bool dpti_folder_numbers(const char *name);
/* Lists the numbers of the existing files, the greatest first.  The caller frees the array.
   Errors: DPT_E_IO. */
DPT_CHECK_RESULT dpt_status dpti_folder_list(const char *folder, size_t **numbers, size_t *n,
                                             dpt_error *error);
/* Renames the existing files and best.safetensors to old-..., such as
   old-checkpoint-000000120.safetensors.  Renamed files are not listed.  Errors: DPT_E_IO. */
DPT_CHECK_RESULT dpt_status dpti_folder_set_aside(const char *folder, dpt_error *error);
/* dpti_folder_put_back renames these files back, except where another file has the name by now.
   dpti_folder_delete_aside deletes them.  Both continue after a failure with the next file. */
void dpti_folder_put_back(const char *folder);
void dpti_folder_delete_aside(const char *folder);
/* Returns the number of numbered files that are renamed to "old-" names. */
size_t dpti_folder_count_aside(const char *folder);
/* Locks the folder for this process until *lock is closed; the end of the process closes it too.
   *lock is -1 if the file system has no locks.  Errors: DPT_E_STATE if another process holds the
   lock. */
DPT_CHECK_RESULT dpt_status dpti_folder_lock(const char *folder, int *lock, dpt_error *error);
/* Called before the file of that path is replaced.  The folder may come from an untrusted source,
   so an entry that is neither a file nor a folder (a link, a pipe) is removed.  So nothing is
   written outside the folder. */
void dpti_folder_claim(const char *path);
/* Removes the temporary files (io/file.h) of processes that no longer exist.  Returns their
   number. */
size_t dpti_folder_clean(const char *folder);

#endif
