/* Finds and loads plug-ins.  Plug-ins are never unloaded: vendors' libraries start threads and
   register handlers that would still run after dlclose. */
#include "device/plugin.h"
#include "base/environment.h"
#include "base/print.h"
#include "base/text.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Folders --------------------------------------------------------------------------------- */

typedef struct folder_list {
    char **folders;
    size_t n;
} folder_list;

/* Adds the first `length` characters of a path, resolved; leaves out what is no path or is there
   already. */
static dpt_status add_folder(folder_list *list, const char *path, size_t length)
{
    if (length == 0 || length >= PATH_MAX || list->n == DPTI_MAX_PLUGIN_FOLDERS) return DPT_OK;
    char *copy = dpti_strndup(path, length);
    if (!copy) return DPT_E_NO_MEMORY;
    char *resolved = realpath(copy, NULL);
    free(copy);
    if (!resolved) return DPT_OK;
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->folders[i], resolved) == 0) {
            free(resolved);
            return DPT_OK;
        }
    }
    list->folders[list->n++] = resolved;
    return DPT_OK;
}

/* Adds the folder of `file`, or the place `relative` to that folder if `relative` is not NULL. */
static dpt_status add_beside(folder_list *list, const char *file, const char *relative)
{
    const char *slash = strrchr(file, '/');
    if (!slash) return DPT_OK;
    char *path = dpti_format("%.*s/%s", (int)(slash - file), file, relative ? relative : "");
    if (!path) return DPT_E_NO_MEMORY;
    const dpt_status status = add_folder(list, path, strlen(path));
    free(path);
    return status;
}

static dpt_status add_environment(folder_list *list)
{
    const char *rest = dpti_environment_trusted("DPTRAIN_BACKEND_PATH");
    while (rest && *rest) {
        const size_t length = strcspn(rest, ":");
        DPT_TRY(add_folder(list, rest, length));
        rest += length + (rest[length] == ':');
    }
    return DPT_OK;
}

static dpt_status add_executable(folder_list *list)
{
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) return DPT_OK;
    path[length] = '\0';
    DPT_TRY(add_beside(list, path, NULL));
    return add_beside(list, path, "../lib/dptrain");
}

static dpt_status add_library(folder_list *list)
{
    static const char here = 0; /* an address within libdptrain */
    Dl_info info;
    if (!dladdr(&here, &info) || !info.dli_fname || !strchr(info.dli_fname, '/')) return DPT_OK;
    /* A link such as libdptrain.so may be in another folder than the plug-ins. */
    char *file = realpath(info.dli_fname, NULL);
    if (!file) return DPT_OK;
    dpt_status status = add_beside(list, file, NULL);
    if (status == DPT_OK) status = add_beside(list, file, "dptrain");
    free(file);
    return status;
}

dpt_status dpti_plugin_folders(char *folders[DPTI_MAX_PLUGIN_FOLDERS], size_t *n)
{
    folder_list list = {.folders = folders};
    dpt_status status = add_environment(&list);
    if (status == DPT_OK) status = add_executable(&list);
    if (status == DPT_OK) status = add_library(&list);
    if (status != DPT_OK) {
        while (list.n > 0)
            free(folders[--list.n]);
        return status;
    }
    *n = list.n;
    return DPT_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

dpt_status dpti_plugin_name(const char *file, char **name)
{
    static const char prefix[] = "libdptrain-", suffix[] = ".so";
    const size_t n_prefix = sizeof prefix - 1, n_suffix = sizeof suffix - 1;
    const size_t length = strlen(file);
    *name = NULL;
    if (length <= n_prefix + n_suffix || strncmp(file, prefix, n_prefix) != 0 ||
        strcmp(file + length - n_suffix, suffix) != 0)
        return DPT_OK;
    *name = dpti_strndup(file + n_prefix, length - n_prefix - n_suffix);
    return *name ? DPT_OK : DPT_E_NO_MEMORY;
}

static const char *loader_words(void)
{
    const char *words = dlerror();
    return words ? words : "the loader gives no reason";
}

dpt_status dpti_plugin_symbol(const char *path, const char *name, void **out, dpt_error *error)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return DPT_FAIL(error, DPT_E_ABSENT, "cannot be loaded: %s", loader_words());
    *out = dlsym(handle, name);
    if (*out) return DPT_OK;
    return DPT_FAIL(error, DPT_E_UNSUPPORTED, "%s is no plug-in: %s", path, loader_words());
}

dpt_status dpti_plugin_load(const char *path, const dpt_backend **out, dpt_error *error)
{
    void *symbol;
    dpt_backend_entry_fn entry;
    DPT_TRY(dpti_plugin_symbol(path, DPT_BACKEND_ENTRY_NAME, &symbol, error));
    memcpy(&entry, &symbol, sizeof entry); /* C has no cast from a pointer to a function's */
    const dpt_backend *backend = entry(DPT_BACKEND_ABI);
    if (!backend || backend->abi != DPT_BACKEND_ABI)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                        "%s is built for another version of dptrain (ABI %u, wanted %u): rebuild "
                        "or reinstall it",
                        path, backend ? backend->abi : 0u, DPT_BACKEND_ABI);
    *out = backend;
    return DPT_OK;
}
