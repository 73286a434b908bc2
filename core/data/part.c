/* Divides a data set.  A part is a list of record numbers of the whole data set; no image is
   copied. */
#include "context/context.h"
#include "data/data.h"

#include "base/random.h"
#include "base/text.h"

#include <stdlib.h>

static dpt_dataset *create_part(const dpt_dataset *of, size_t count)
{
    dpt_dataset *part = dpti_dataset_allocate();
    if (!part) return NULL;
    *part = *of;
    part->whole = of->whole ? of->whole : of;
    part->count = count;
    part->name = dpti_strdup(of->name);
    part->source = dpti_strdup(of->source);
    part->samples = calloc(count, sizeof *part->samples);
    if (part->name && part->source && part->samples) return part;
    dpt_dataset_destroy(part);
    return NULL;
}

/* Chooses `wanted` of n: the first ones of a shuffled list.  Returns false if memory is short. */
static bool choose(size_t n, size_t wanted, uint64_t seed, bool *chosen)
{
    dpti_random random;
    uint32_t *shuffled = calloc(n, sizeof *shuffled);
    if (!shuffled) return false;
    dpti_random_init(&random, seed, DPTI_RANDOM_SPLIT, 0);
    for (size_t i = 0; i < n; i++)
        shuffled[i] = (uint32_t)i;
    for (size_t i = 0; i < wanted; i++) {
        const size_t j = i + dpti_random_below(&random, (uint32_t)(n - i));
        const uint32_t other = shuffled[j];
        shuffled[j] = shuffled[i];
        shuffled[i] = other;
        chosen[other] = true;
    }
    free(shuffled);
    return true;
}

/* Both parts are in the order of the data, so that reading them in order goes through memory
   once. */
static void deal(const dpt_dataset *data, const bool *chosen, dpt_dataset *first,
                 dpt_dataset *second)
{
    size_t n_first = 0, n_second = 0;
    for (size_t i = 0; i < data->count; i++) {
        const uint32_t record = (uint32_t)dpti_dataset_record(data, i);
        if (chosen[i])
            second->samples[n_second++] = record;
        else
            first->samples[n_first++] = record;
    }
}

/* Deals the samples at random.  Returns false if memory is short. */
static bool deal_randomly(const dpt_dataset *data, uint64_t seed, dpt_dataset *first,
                          dpt_dataset *second)
{
    bool *chosen = calloc(data->count, sizeof *chosen);
    const bool dealt = chosen && choose(data->count, second->count, seed, chosen);
    if (dealt) deal(data, chosen, first, second);
    free(chosen);
    return dealt;
}

/* The end of a text becomes the second part.  Windows that are drawn at random would have
   neighbours in the first part, which share words with them. */
static void cut(const dpt_dataset *data, dpt_dataset *first, dpt_dataset *second)
{
    for (size_t i = 0; i < first->count; i++)
        first->samples[i] = (uint32_t)dpti_dataset_record(data, i);
    for (size_t i = 0; i < second->count; i++)
        second->samples[i] = (uint32_t)dpti_dataset_record(data, data->count - second->count + i);
}

static dpt_status find_contents(dpt_dataset *first, dpt_dataset *second, dpt_error *error)
{
    if (!first->reader) return DPT_OK;
    DPT_TRY(dpti_dataset_find_content(first, error));
    return dpti_dataset_find_content(second, error);
}

dpt_status dpt_dataset_split(const dpt_dataset *dataset, double fraction, uint64_t seed,
                             dpt_dataset **first, dpt_dataset **second)
{
    const size_t n = dataset->count;
    if (!(fraction > 0 && fraction < 1))
        return dpt_fail(dataset->context, DPT_E_INVALID,
                        "a fraction of %g divides no data set; choose one between 0 and 1",
                        fraction);
    const size_t wanted = (size_t)(fraction * (double)n + 0.5);
    if (wanted == 0 || wanted >= n)
        return dpt_fail(dataset->context, DPT_E_INVALID,
                        "a fraction of %g of the %zu samples of %s leaves one part empty", fraction,
                        n, dataset->name);
    /* A training window may be shifted into the window behind it (data/text.c): the window between
       the parts of a text is in neither. */
    const size_t between = dataset->reads_labels && n - wanted > 1 ? 1 : 0;
    dpt_dataset *rest = create_part(dataset, n - wanted - between);
    dpt_dataset *taken = create_part(dataset, wanted);
    dpt_error error = {.status = DPT_OK};
    dpt_status status = DPT_OK;
    bool dealt = rest && taken;
    if (dealt && dataset->reads_labels)
        cut(dataset, rest, taken);
    else if (dealt)
        dealt = deal_randomly(dataset, seed, rest, taken);
    if (dealt)
        status = find_contents(rest, taken, &error);
    else
        status = DPT_FAIL(&error, DPT_E_NO_MEMORY, "no memory to divide %s", dataset->name);
    if (status == DPT_OK) {
        *first = rest;
        *second = taken;
        return DPT_OK;
    }
    dpt_dataset_destroy(taken);
    dpt_dataset_destroy(rest);
    return dpti_context_fail(dataset->context, NULL, &error);
}
