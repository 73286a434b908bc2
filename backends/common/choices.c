/* Remembered choices: in the process, and in one cache file for each kind of device.  A choice is a
   line "key<TAB>candidate<TAB>times". */
#include "choices.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct dpt_choices {
    char *file;
    char *lines; /* the choices of this process, in the form of the file; NULL: none */
    dpt_choices *next;
};

/* Protects `kinds`, and is held while a choice is measured, so that devices do not disturb each
   other's times. */
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

/* The rest of the line that begins with a key, *length characters, or NULL if there is no such
   line: the candidate, and behind a tabulator the times, if they are known. */
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

/* The chosen candidate, and the times of all as text. */
typedef struct answer {
    size_t best;
    char measured[DPT_MEASURED_BYTES];
} answer;

static bool recall(const char *lines, const dpt_choice *choice, const char *key, answer *out)
{
    size_t length = 0;
    const char *name = remembered(lines, key, &length);
    if (!name) return false;
    const char *tab = memchr(name, '\t', length);
    const size_t n = tab ? (size_t)(tab - name) : length;
    for (size_t i = 0; i < choice->n_candidates; i++) {
        if (strlen(choice->candidates[i]) != n) continue;
        if (memcmp(choice->candidates[i], name, n) != 0) continue;
        out->best = i;
        snprintf(out->measured, sizeof out->measured, "%.*s", tab ? (int)(length - n - 1) : 0,
                 tab ? tab + 1 : "");
        return true;
    }
    return false;
}

/* `lines` with a new line in front, which therefore precedes an older line of the same key.  The
   caller frees the result; NULL without memory. */
static char *with_line(const char *lines, const dpt_choice *choice, const char *key,
                       const answer *new)
{
    const char *name = choice->candidates[new->best], *rest = lines ? lines : "";
    const size_t n = strlen(key) + strlen(name) + strlen(new->measured) + strlen(rest) + 4;
    char *all = malloc(n);
    if (all) snprintf(all, n, "%s\t%s\t%s\n%s", key, name, new->measured, rest);
    return all;
}

/* Remembers a choice in the process.  Without memory, the choice is looked up or measured again the
   next time. */
static void keep(dpt_choices *of, const dpt_choice *choice, const char *key, const answer *new)
{
    char *lines = with_line(of->lines, choice, key, new);
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
                             answer *out)
{
    char *lines = read_lines(of);
    const bool found = recall(lines, choice, key, out);
    free(lines);
    return found;
}

/* Writes a choice to the cache file.  If another process has written the same choice meanwhile,
 *out becomes the choice of that process. */
static void write_down(const dpt_choices *of, const dpt_choice *choice, const char *key,
                       answer *out)
{
    const int lock_of_file = dpt_cache_lock(of->file);
    char *lines = read_lines(of);
    if (!recall(lines, choice, key, out)) {
        char *all = with_line(lines, choice, key, out);
        if (all) (void)dpt_cache_write(of->file, all, strlen(all));
        free(all);
    }
    free(lines);
    dpt_cache_unlock(lock_of_file);
}

/* The key with a hash of the candidates' names: a remembered choice is valid among the same
   candidates only.  The caller frees the key; NULL without memory. */
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

/* Whether a failure leaves out one candidate and lets the choice go on.  If the device itself
   fails, all candidates fail, and the choice fails with the first failure. */
static bool passed_over(dpt_status status)
{
    return status == DPT_E_UNSUPPORTED || status == DPT_E_NO_MEMORY || status == DPT_E_DEVICE;
}

/* The candidate of the shortest time that is not negative, or n_candidates if there is none.  Of
   equal times, the first. */
static size_t next_fastest(const dpt_choice *choice, const double *seconds)
{
    size_t best = choice->n_candidates;
    for (size_t i = 0; i < choice->n_candidates; i++)
        if (seconds[i] >= 0.0 && (best == choice->n_candidates || seconds[i] < seconds[best]))
            best = i;
    return best;
}

/* Writes the times to out->measured, the shortest first.  Destroys `seconds`. */
static void tell(const dpt_choice *choice, double *seconds, answer *out)
{
    size_t used = 0;
    out->measured[0] = '\0';
    for (;;) {
        const size_t i = next_fastest(choice, seconds);
        if (i == choice->n_candidates) return;
        const size_t room = sizeof out->measured - used;
        const int n = snprintf(out->measured + used, room, "%s%s %.3g ms", used > 0 ? ", " : "",
                               choice->candidates[i], 1e3 * seconds[i]);
        if (n < 0 || (size_t)n >= room) {
            out->measured[used] = '\0';
            return;
        }
        used += (size_t)n;
        seconds[i] = -1.0;
    }
}

/* A candidate whose shortest time is more than this multiple of the best is not timed again. */
static const double hopeless = 2.5;

/* Times a candidate once more.  *least becomes its shortest time, or negative after a failure. */
static dpt_status time_one(const dpt_choice *choice, size_t i, double *least)
{
    double seconds = 0.0;
    const dpt_status status = choice->time(choice->argument, choice->candidates[i], &seconds);
    if (status != DPT_OK)
        *least = -1.0;
    else if (!(*least > 0.0 && *least <= seconds))
        *least = seconds;
    return status;
}

/* The shortest time of all candidates, 0 if none has been timed yet. */
static double least_of(const dpt_choice *choice, const double *seconds)
{
    const size_t best = next_fastest(choice, seconds);
    return best < choice->n_candidates ? seconds[best] : 0.0;
}

/* seconds (n_candidates): 0 at first, then the shortest time, or negative for a candidate that is
   left out. */
static dpt_status time_all(const dpt_choice *choice, double *seconds)
{
    const size_t n_rounds = choice->n_rounds > 0 ? choice->n_rounds : 1;
    dpt_status first = DPT_OK;
    for (size_t round = 0; round < n_rounds; round++) {
        const double limit = round < 2 ? 0.0 : hopeless * least_of(choice, seconds);
        for (size_t i = 0; i < choice->n_candidates; i++) {
            if (seconds[i] < 0.0 || (limit > 0.0 && seconds[i] > limit)) continue;
            const dpt_status status = time_one(choice, i, &seconds[i]);
            if (status != DPT_OK && !passed_over(status)) return status;
            if (first == DPT_OK) first = status;
        }
    }
    return next_fastest(choice, seconds) < choice->n_candidates ? DPT_OK : first;
}

static dpt_status measure_all(const dpt_choice *choice, answer *out, dpt_error *error)
{
    double *seconds = calloc(choice->n_candidates, sizeof *seconds);
    if (!seconds) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a choice");
    const dpt_status status = time_all(choice, seconds);
    if (status == DPT_OK) {
        out->best = next_fastest(choice, seconds);
        tell(choice, seconds, out);
    }
    free(seconds);
    return status;
}

/* A choice, its full key, and the choices among which it is looked up. */
typedef struct question {
    dpt_choices *of;
    const dpt_choice *choice;
    const char *key;
} question;

static dpt_status find_or_measure(const question *q, answer *out, dpt_error *error)
{
    if (recall(q->of->lines, q->choice, q->key, out)) return DPT_OK;
    if (!recall_from_file(q->of, q->choice, q->key, out)) {
        DPT_TRY(measure_all(q->choice, out, error));
        write_down(q->of, q->choice, q->key, out);
    }
    keep(q->of, q->choice, q->key, out);
    return DPT_OK;
}

dpt_status dpt_choices_find(dpt_choices *of, const dpt_choice *choice, dpt_error *error,
                            size_t *out)
{
    answer found = {.best = 0};
    *out = 0;
    if (choice->measured) choice->measured[0] = '\0';
    if (choice->n_candidates == 1) return DPT_OK;
    char *key = full_key(choice);
    if (!key) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a choice");
    pthread_mutex_lock(&lock);
    const dpt_status status = find_or_measure(&(const question){of, choice, key}, &found, error);
    pthread_mutex_unlock(&lock);
    free(key);
    if (status != DPT_OK) return status;
    *out = found.best;
    if (choice->measured) snprintf(choice->measured, DPT_MEASURED_BYTES, "%s", found.measured);
    return DPT_OK;
}
