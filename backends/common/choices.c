/* Remembered choices: in the process, and in one cache file for each kind of device, a line
   "key<TAB>candidate" each. */
#include "choices.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct dpt_choices {
    char *file;
    char *lines; /* what this process has chosen, "key\tcandidate\n" each; NULL: nothing */
    dpt_choices *next;
};

/* The lock is held while a choice is measured. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dpt_choices *kinds;

static dpt_choices *find_kind(const char *file)
{
    dpt_choices *found = kinds;
    while (found && strcmp(found->file, file) != 0)
        found = found->next;
    if (found) return found;
    found = calloc(1, sizeof *found);
    if (!found) return NULL;
    found->file = strdup(file);
    if (!found->file) {
        free(found);
        return NULL;
    }
    found->next = kinds;
    kinds = found;
    return found;
}

dpt_choices *dpt_choices_get(const char *file)
{
    pthread_mutex_lock(&lock);
    dpt_choices *found = find_kind(file);
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- Remembering ----------------------------------------------------------------------------- */

/* What stands behind a key in a list of lines, of *length characters, or NULL. */
static const char *remembered(const char *lines, const char *key, size_t *length)
{
    const size_t n = strlen(key);
    for (const char *at = lines; at && *at;) {
        const size_t line = strcspn(at, "\n");
        if (line > n && memcmp(at, key, n) == 0 && at[n] == '\t') {
            *length = line - n - 1;
            return at + n + 1;
        }
        at += line + (at[line] == '\n');
    }
    return NULL;
}

static bool recall(const char *lines, const dpt_choice *choice, const char *key, size_t *out)
{
    size_t length = 0;
    const char *name = remembered(lines, key, &length);
    for (size_t i = 0; name && i < choice->n_candidates; i++) {
        if (strlen(choice->candidates[i]) != length) continue;
        if (memcmp(choice->candidates[i], name, length) != 0) continue;
        *out = i;
        return true;
    }
    return false;
}

/* A new line in front of others, so that it counts before one of the same key; allocated. */
static char *with_line(const char *lines, const char *key, const char *name)
{
    const char *rest = lines ? lines : "";
    const size_t n = strlen(key) + strlen(name) + strlen(rest) + 3;
    char *all = malloc(n);
    if (all) snprintf(all, n, "%s\t%s\n%s", key, name, rest);
    return all;
}

/* Without memory it is looked up or measured again next time. */
static void keep(dpt_choices *of, const char *key, const char *name)
{
    char *lines = with_line(of->lines, key, name);
    if (!lines) return;
    free(of->lines);
    of->lines = lines;
}

static char *read_lines(const dpt_choices *of)
{
    size_t n_bytes = 0;
    return (char *)dpt_cache_read(of->file, &n_bytes);
}

static bool recall_from_file(const dpt_choices *of, const dpt_choice *choice, const char *key,
                             size_t *out)
{
    char *lines = read_lines(of);
    const bool found = recall(lines, choice, key, out);
    free(lines);
    return found;
}

/* *out becomes what another process has written meanwhile, if one has. */
static void write_down(const dpt_choices *of, const dpt_choice *choice, const char *key,
                       size_t *out)
{
    const int lock_of_file = dpt_cache_lock(of->file);
    char *lines = read_lines(of);
    if (!recall(lines, choice, key, out)) {
        char *all = with_line(lines, key, choice->candidates[*out]);
        if (all) (void)dpt_cache_write(of->file, all, strlen(all));
        free(all);
    }
    free(lines);
    dpt_cache_unlock(lock_of_file);
}

/* The key with the names of the candidates in it: a choice counts among the same ones only.
   Allocated, or NULL. */
static char *full_key(const dpt_choice *choice)
{
    dpt_hash hash = dpt_hash_begin();
    for (size_t i = 0; i < choice->n_candidates; i++)
        hash = dpt_hash_text(hash, choice->candidates[i]);
    char digits[DPT_HASH_CHARS + 1];
    dpt_hash_print(hash, digits);
    const size_t n_bytes = strlen(choice->key) + 16;
    char *key = malloc(n_bytes);
    if (key) snprintf(key, n_bytes, "%s of %.8s", choice->key, digits);
    return key;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static bool passed_over(dpt_status status)
{
    return status == DPT_E_UNSUPPORTED || status == DPT_E_NO_MEMORY;
}

static dpt_status measure_all(const dpt_choice *choice, size_t *out)
{
    double best = 0.0;
    dpt_status first = DPT_OK;
    bool any = false;
    for (size_t i = 0; i < choice->n_candidates; i++) {
        double seconds = 0.0;
        const dpt_status status = choice->time(choice->argument, choice->candidates[i], &seconds);
        if (status != DPT_OK && !passed_over(status)) return status;
        if (first == DPT_OK) first = status;
        if (status != DPT_OK || (any && !(seconds < best))) continue;
        best = seconds;
        *out = i;
        any = true;
    }
    return any ? DPT_OK : first;
}

static dpt_status find_or_measure(dpt_choices *of, const dpt_choice *choice, const char *key,
                                  size_t *out)
{
    if (recall(of->lines, choice, key, out)) return DPT_OK;
    if (!recall_from_file(of, choice, key, out)) {
        DPT_TRY(measure_all(choice, out));
        write_down(of, choice, key, out);
    }
    keep(of, key, choice->candidates[*out]);
    return DPT_OK;
}

dpt_status dpt_choices_find(dpt_choices *of, const dpt_choice *choice, dpt_error *error,
                            size_t *out)
{
    size_t best = 0;
    *out = 0;
    if (choice->n_candidates == 1) return DPT_OK;
    char *key = full_key(choice);
    if (!key) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a choice");
    pthread_mutex_lock(&lock);
    const dpt_status status = find_or_measure(of, choice, key, &best);
    pthread_mutex_unlock(&lock);
    free(key);
    if (status == DPT_OK) *out = best;
    return status;
}
