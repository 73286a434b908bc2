/* The files of a text, in a fixed order. */
#ifndef DPTI_TEXT_PATHS_H
#define DPTI_TEXT_PATHS_H

#include "dpt_error.h"

typedef struct dpti_paths {
    size_t n, room;
    char **items; /* owned */
} dpti_paths;

/* Lists files.  `given` is the path of a file or a folder, or several with commas between them; a
   path that exists is never cut at a comma.  A folder stands for all files in it that are not
   empty, also those of its folders.  Its entries are sorted by the bytes of their names, hidden
   ones are left out, and so are links that lead to a folder or nowhere.

   With `test`, a path counts as the one that dpti_test_name gives, if that exists for all paths.
   Without them the test part is the training part.  Errors: DPT_E_NOT_FOUND; DPT_E_IO;
   DPT_E_INVALID if no file is left; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_text_paths(const char *given, bool test, dpti_paths *out,
                                            dpt_error *error);
/* Accepts a zeroed struct. */
void dpti_paths_free(dpti_paths *paths);

#endif
