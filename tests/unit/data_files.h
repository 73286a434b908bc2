/* Folders of small files for tests of what reads data sets; t->user is the context. */
#ifndef DPT_TEST_DATA_FILES_H
#define DPT_TEST_DATA_FILES_H

#include "data/data.h"
#include "gzip.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline dpt_context *context_of(test *t)
{
    return t->user;
}

/* With the folders above it. */
static inline void make_folder(test *t, const char *path)
{
    char part[256];
    for (size_t i = 1; i <= strlen(path); i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        mkdir(part, 0777);
    }
    CHECK(access(path, W_OK) == 0);
}

/* Compressed if the name says so. */
static inline void write_file(test *t, const char *directory, const char *name,
                              const uint8_t *bytes, size_t n_bytes)
{
    char path[256];
    make_folder(t, directory);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    const bool zipped = strlen(path) > 3 && strcmp(path + strlen(path) - 3, ".gz") == 0;
    size_t n_packed = 0;
    uint8_t *packed = zipped ? pack_gzip(bytes, n_bytes, 6, &n_packed) : NULL;
    REQUIRE(!zipped || packed);
    FILE *out = fopen(path, "wb");
    if (CHECK(out != NULL)) {
        const size_t n_out = zipped ? n_packed : n_bytes;
        CHECK_SIZE(fwrite(zipped ? packed : bytes, 1, n_out, out), n_out);
        CHECK(fclose(out) == 0);
    }
    free(packed);
}

/* That a data set is refused in one line that contains `reason`. */
static inline void check_fails(test *t, const char *name, const char *directory, dpt_part part,
                               dpt_status status, const char *reason)
{
    dpt_dataset *data = NULL;
    if (CHECK_STATUS(dpt_dataset_open(context_of(t), name, directory, part, &data), status))
        CHECK_CONTAINS(dpt_error_message(context_of(t)), reason);
    CHECK(data == NULL);
    CHECK(strchr(dpt_error_message(context_of(t)), '\n') == NULL);
    dpt_dataset_destroy(data);
}

static inline int run_at_home(int argc, char **argv, const test_case *cases, size_t n_cases)
{
    dpt_context *context = NULL;
    if (dpt_context_create(&context) != DPT_OK) return 1;
    const int result = test_main(argc, argv, cases, n_cases, context);
    dpt_context_destroy(context);
    return result;
}

/* Runs the cases in a new folder that is home and working directory, so that only what they put
   there is found.  The folder is removed afterwards, whatever failed. */
static inline int run_in_new_folder(int argc, char **argv, const test_case *cases, size_t n_cases)
{
    char here[TEST_FOLDER_BYTES], home[TEST_FOLDER_BYTES + 8];
    if (!test_enter_folder(here)) return 1;
    snprintf(home, sizeof home, "%s/home", here);
    const bool alone = setenv("HOME", home, 1) == 0 && unsetenv("DPTRAIN_DATA") == 0 &&
                       unsetenv("XDG_CACHE_HOME") == 0;
    const int result = alone ? run_at_home(argc, argv, cases, n_cases) : 1;
    test_remove_folder(here);
    return result;
}

#endif
