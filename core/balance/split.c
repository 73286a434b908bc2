/* Division of a batch into equal chunks, or in fixed proportions by the method of largest
   remainders. */
#include "balance/split.h"
#include "base/parse.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_BYTES = 40 };

/* Large enough for images per second, and small enough that no sum of parts overflows. */
static const double max_part = 1e15;

static dpt_status fail_word(const char *text, dpt_error *error)
{
    static const char *const known[] = {"measured", "equal", "replay", NULL};
    const char *near = dpti_nearest(text, known);
    return DPT_FAIL(
        error, DPT_E_INVALID,
        "unknown split \"%.60s\"%s%s%s: use \"measured\", \"equal\", proportions such as "
        "\"2:1\" with one number a device, or, to repeat a training run, "
        "\"replay:LOG\"",
        text, near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
}

/* Copies the text up to the next colon.  Returns the text behind the colon, or NULL at the end. */
static const char *next_part(const char *text, char part[PART_BYTES])
{
    const size_t length = strcspn(text, ":");
    const size_t n_kept = length < PART_BYTES - 1 ? length : PART_BYTES - 1;
    memcpy(part, text, n_kept);
    part[n_kept] = '\0';
    return text[length] ? text + length + 1 : NULL;
}

static dpt_status parse_parts(const char *text, size_t n_devices, dpti_split *split,
                              dpt_error *error)
{
    size_t n_parts = 0;
    double sum = 0.0;
    for (const char *rest = text; rest; n_parts++) {
        char part[PART_BYTES];
        double value;
        rest = next_part(rest, part);
        if (!dpti_parse_real(part, 0.0, max_part, &value))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "split \"%.60s\": \"%s\" is not a number from 0 to %g", text, part,
                            max_part);
        if (n_parts < n_devices) split->parts[n_parts] = value;
        sum += value;
    }
    if (n_parts != n_devices)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "split \"%.60s\" has %zu part%s for %zu device%s: give one for each", text,
                        n_parts, n_parts == 1 ? "" : "s", n_devices, n_devices == 1 ? "" : "s");
    if (!(sum > 0.0))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "split \"%.60s\" is all zero: at least one device must get samples", text);
    return DPT_OK;
}

dpt_status dpti_split_parse(const char *text, size_t n_devices, dpti_split *out, dpt_error *error)
{
    if (n_devices == 0 || n_devices > DPTI_SPLIT_MAX_DEVICES)
        return DPT_FAIL(error, DPT_E_INVALID, "a split is for 1 to %d devices, not for %zu",
                        DPTI_SPLIT_MAX_DEVICES, n_devices);
    dpti_split split = {.n_devices = n_devices};
    if (!text || strcmp(text, "equal") == 0) {
        split.equal = true;
    } else {
        if (!strchr("0123456789.:-+", text[0]) || !*text) return fail_word(text, error);
        DPT_TRY(parse_parts(text, n_devices, &split, error));
    }
    *out = split;
    return DPT_OK;
}

static void equal_rows(size_t n_devices, size_t n_rows, size_t *rows)
{
    const size_t chunk = n_rows / n_devices + (n_rows % n_devices != 0);
    size_t left = n_rows;
    for (size_t i = 0; i < n_devices; i++) {
        rows[i] = left < chunk ? left : chunk;
        left -= rows[i];
    }
}

/* Returns the first device with the largest remainder; SIZE_MAX if all remainders are -1, which
   means used. */
static size_t take_largest(double *remainders, size_t n)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < n; i++)
        if (remainders[i] >= 0.0 && (best == SIZE_MAX || remainders[i] > remainders[best]))
            best = i;
    if (best != SIZE_MAX) remainders[best] = -1.0;
    return best;
}

static void proportional_rows(const dpti_split *split, size_t n_rows, size_t *rows)
{
    const size_t n = split->n_devices;
    double sum = 0.0;
    size_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        sum += split->parts[i];
        if (split->parts[i] > split->parts[largest]) largest = i;
    }
    double remainders[DPTI_SPLIT_MAX_DEVICES];
    size_t left = n_rows;
    for (size_t i = 0; i < n; i++) {
        /* fmod is exact, so whole numbers tie exactly if their quotas do. */
        const double product = (double)n_rows * split->parts[i];
        const double remainder = fmod(product, sum);
        const double quota = floor((product - remainder) / sum + 0.5);
        rows[i] = quota < (double)left ? (size_t)quota : left;
        left -= rows[i];
        remainders[i] = split->parts[i] > 0.0 ? remainder : -1.0;
    }
    while (left > 0) {
        const size_t i = take_largest(remainders, n);
        if (i == SIZE_MAX) break;
        rows[i]++;
        left--;
    }
    rows[largest] += left; /* happens only beyond the precision of a double */
}

void dpti_split_rows(const dpti_split *split, size_t n_rows, size_t *rows)
{
    if (split->equal)
        equal_rows(split->n_devices, n_rows, rows);
    else
        proportional_rows(split, n_rows, rows);
}

/* ---- The split of the public API ------------------------------------------------------------- */

static const char replay_prefix[] = "replay:";

dpt_split dpt_split_from(const char *text)
{
    const size_t length = sizeof replay_prefix - 1;
    if (!text || strcmp(text, "measured") == 0) return (dpt_split){.kind = DPT_SPLIT_MEASURED};
    if (strcmp(text, "equal") == 0) return (dpt_split){.kind = DPT_SPLIT_EQUAL};
    if (strncmp(text, replay_prefix, length) == 0)
        return (dpt_split){.kind = DPT_SPLIT_REPLAY, .value = text + length};
    return (dpt_split){.kind = DPT_SPLIT_PROPORTIONS, .value = text};
}

char *dpti_split_text(dpt_split split)
{
    char *text;
    if (split.kind == DPT_SPLIT_MEASURED) return dpti_strdup("measured");
    if (split.kind == DPT_SPLIT_EQUAL) return dpti_strdup("equal");
    const bool replays = split.kind == DPT_SPLIT_REPLAY;
    if (!split.value || (!replays && split.kind != DPT_SPLIT_PROPORTIONS)) return dpti_strdup("?");
    const size_t n_bytes = strlen(split.value) + sizeof replay_prefix;
    text = malloc(n_bytes);
    if (text) snprintf(text, n_bytes, "%s%s", replays ? replay_prefix : "", split.value);
    return text;
}

dpt_status dpti_split_fixed(dpt_split split, size_t n_devices, dpti_split *out, dpt_error *error)
{
    const bool equal = split.kind == DPT_SPLIT_EQUAL;
    if (!equal && (split.kind != DPT_SPLIT_PROPORTIONS || !split.value))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "a split of kind %d with the value %s: use DPT_SPLIT_EQUAL, or "
                        "DPT_SPLIT_PROPORTIONS with a value such as \"2:1\"",
                        (int)split.kind, split.value ? split.value : "NULL");
    return dpti_split_parse(equal ? NULL : split.value, n_devices, out, error);
}
