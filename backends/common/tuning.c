/* Remembered choices: in the process, and in one cache file for each kind of device, a line
   "key<TAB>candidate" each. */
#include "tuning.h"
#include "cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What is known of one kind of device. */
struct dpt_tuning {
    char *file;  /* in the cache */
    char *lines; /* every choice, "key\tcandidate\n" each; NULL: none */
    size_t n_bytes;
    dpt_tuning *next;
};

/* The process's choices outlive its devices: a device that is opened again chooses alike.  The lock
   is held while a choice is measured. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static dpt_tuning *kinds;

/* ---- Kinds ----------------------------------------------------------------------------------- */

static dpt_tuning *find_kind(const char *file)
{
    dpt_tuning *found = kinds;
    while (found && strcmp(found->file, file) != 0)
        found = found->next;
    if (found) return found;
    found = calloc(1, sizeof *found);
    if (found) found->file = strdup(file);
    if (!found || !found->file) {
        free(found);
        return NULL;
    }
    found->lines = (char *)dpt_cache_read(file, &found->n_bytes);
    found->next = kinds;
    kinds = found;
    return found;
}

dpt_status dpt_tuning_open(dpt_device *device, const char *file, dpt_tuning **out)
{
    pthread_mutex_lock(&lock);
    dpt_tuning *found = find_kind(file);
    pthread_mutex_unlock(&lock);
    if (!found)
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a device's choices");
    *out = found;
    return DPT_OK;
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

static bool recall(const dpt_tuning *of, const dpt_choice *choice, const char *key, size_t *out)
{
    size_t length = 0;
    const char *name = remembered(of->lines, key, &length);
    for (size_t i = 0; name && i < choice->n_candidates; i++) {
        if (strlen(choice->candidates[i]) != length) continue;
        if (memcmp(choice->candidates[i], name, length) != 0) continue;
        *out = i;
        return true;
    }
    return false;
}

/* In front of older lines, so that it counts before one of the same key. */
static void remember(dpt_tuning *of, const char *key, const char *name)
{
    const size_t n = strlen(key) + strlen(name) + 2 + of->n_bytes;
    char *lines = malloc(n + 1);
    if (!lines) return; /* it is measured again next time */
    snprintf(lines, n + 1, "%s\t%s\n%s", key, name, of->lines ? of->lines : "");
    free(of->lines);
    of->lines = lines;
    of->n_bytes = strlen(lines);
    (void)dpt_cache_write(of->file, of->lines, of->n_bytes);
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

dpt_status dpt_choose(dpt_device *device, const dpt_choice *choice, size_t *out)
{
    dpt_tuning *of = dpt_tuner_of(device)->tuning;
    dpt_status status = DPT_OK;
    *out = 0;
    if (choice->n_candidates == 1) return DPT_OK;
    char *key = full_key(choice);
    if (!key) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a choice");
    pthread_mutex_lock(&lock);
    if (!recall(of, choice, key, out)) {
        status = measure_all(choice, out);
        if (status == DPT_OK) remember(of, key, choice->candidates[*out]);
    }
    pthread_mutex_unlock(&lock);
    free(key);
    return status;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

typedef dpt_status enqueue_fn(void *argument, dpt_stream *stream);

static dpt_status run_once(const dpt_tuner *tuner, enqueue_fn *enqueue, void *argument,
                           double *seconds)
{
    const double start = now();
    DPT_TRY(enqueue(argument, tuner->stream));
    DPT_TRY(tuner->finish(tuner->stream));
    *seconds = now() - start;
    return DPT_OK;
}

dpt_status dpt_measure(dpt_device *device, double budget_seconds,
                       dpt_status (*enqueue)(void *argument, dpt_stream *stream), void *argument,
                       double *seconds)
{
    enum { MAX_RUNS = 50 };
    const dpt_tuner *tuner = dpt_tuner_of(device);
    double best = 0.0, one = 0.0;
    DPT_TRY(run_once(tuner, enqueue, argument, &one)); /* the first run compiles and warms up */
    const double start = now();
    for (int i = 0; i < MAX_RUNS && (i < 2 || now() - start < budget_seconds); i++) {
        DPT_TRY(run_once(tuner, enqueue, argument, &one));
        if (i == 0 || one < best) best = one;
    }
    *seconds = best;
    return DPT_OK;
}
