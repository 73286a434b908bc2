/* Finds and loads plug-ins.  Knows files, and no devices. */
#ifndef DPTI_PLUGIN_H
#define DPTI_PLUGIN_H

#include "backend.h"

enum { DPTI_MAX_PLUGIN_FOLDERS = 32 };

/* Lists the folders that are searched for plug-ins, in the order of precedence, each once:
   $DPTRAIN_BACKEND_PATH, the folder of the executable, ../lib/dptrain beside it, the folder of
   libdptrain, and its subfolder dptrain.  *n becomes their number, at most DPTI_MAX_PLUGIN_FOLDERS.
   The caller frees the strings.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_plugin_folders(char *folders[DPTI_MAX_PLUGIN_FOLDERS], size_t *n);

/* *name becomes the NAME of "libdptrain-NAME.so", which the caller frees; NULL if the file has
   another name.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_plugin_name(const char *file, char **name);

/* Opens a plug-in, which is never closed, and finds its one symbol.  DPT_E_ABSENT or
   DPT_E_UNSUPPORTED with the loader's message in *error. */
DPT_CHECK_RESULT dpt_status dpti_plugin_symbol(const char *path, const char *name, void **out,
                                               dpt_error *error);

/* Opens a backend's plug-in and asks for its descriptor.  Only the descriptor's ABI number has been
   checked.  DPT_E_ABSENT or DPT_E_UNSUPPORTED with the loader's message in *error. */
DPT_CHECK_RESULT dpt_status dpti_plugin_load(const char *path, const dpt_backend **out,
                                             dpt_error *error);

#endif
