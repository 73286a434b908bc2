/* Where plug-ins are looked for, and loading one.  Knows files; knows no devices. */
#ifndef DPTI_PLUGIN_H
#define DPTI_PLUGIN_H

#include "backend.h"

enum { DPTI_MAX_PLUGIN_FOLDERS = 32 };

/* The folders, in the order of precedence, each once: $DPTRAIN_BACKEND_PATH, the executable's,
   ../lib/dptrain beside it, that of libdptrain and its subfolder dptrain.  Allocated strings; at
   most DPTI_MAX_PLUGIN_FOLDERS, of which *n is the number.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_plugin_folders(char *folders[DPTI_MAX_PLUGIN_FOLDERS], size_t *n);

/* The NAME of "libdptrain-NAME.so", allocated; NULL in *name if a file is called otherwise. */
DPT_CHECK_RESULT dpt_status dpti_plugin_name(const char *file, char **name);

/* Opens a plug-in, for good, and finds its one symbol.  DPT_E_ABSENT or DPT_E_UNSUPPORTED with the
   loader's words in *error. */
DPT_CHECK_RESULT dpt_status dpti_plugin_symbol(const char *path, const char *name, void **out,
                                               dpt_error *error);

/* Opens a backend's plug-in and asks for its descriptor, whose ABI number has been checked but
   nothing else.  DPT_E_ABSENT or DPT_E_UNSUPPORTED with the loader's words in *error. */
DPT_CHECK_RESULT dpt_status dpti_plugin_load(const char *path, const dpt_backend **out,
                                             dpt_error *error);

#endif
