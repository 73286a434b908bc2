/* A folder of numbered files, checkpoint-000000120.safetensors: which there are, that one process
   at a time writes them, and what killed ones have left behind. */
#ifndef DPTI_FOLDER_H
#define DPTI_FOLDER_H

#include "backend.h"

/* The path of file `number`; NULL without memory.  To be freed. */
char *dpti_folder_path(const char *folder, size_t number);
/* Whether a name without a folder is that of such a file. */
bool dpti_folder_numbers(const char *name);
/* The numbers of the files that there are, the greatest first; *numbers is to be freed.  DPT_E_IO.
 */
DPT_CHECK_RESULT dpt_status dpti_folder_list(const char *folder, size_t **numbers, size_t *n,
                                             dpt_error *error);
/* Gives the files that there are, and best.safetensors, other names,
   old-checkpoint-000000120.safetensors, under which they are not listed.  DPT_E_IO. */
DPT_CHECK_RESULT dpt_status dpti_folder_set_aside(const char *folder, dpt_error *error);
/* Gives those their names again, as far as nothing else has them by now; or deletes them.  Both try
   what they can. */
void dpti_folder_put_back(const char *folder);
void dpti_folder_delete_aside(const char *folder);
/* How many numbered files are set aside. */
size_t dpti_folder_count_aside(const char *folder);
/* Holds the folder for this process until *lock is closed, which the end of the process does too.
   DPT_E_STATE if another one holds it.  *lock is -1 where the file system knows no locks. */
DPT_CHECK_RESULT dpt_status dpti_folder_lock(const char *folder, int *lock, dpt_error *error);
/* Before a file of that path is replaced: a folder may come from anywhere, and what is neither a
   file nor a folder there (a link, a pipe) is removed, so that nothing is written outside of it. */
void dpti_folder_claim(const char *path);
/* Removes the temporary files (io/file.h) of processes that are gone; how many. */
size_t dpti_folder_clean(const char *folder);

#endif
