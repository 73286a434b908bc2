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
    bool *chosen = calloc(n, sizeof *chosen);
    dpt_dataset *rest = create_part(dataset, n - wanted), *taken = create_part(dataset, wanted);
    dpt_error error = {.status = DPT_OK};
    dpt_status status = DPT_OK;
    if (chosen && rest && taken && choose(n, wanted, seed, chosen)) {
        deal(dataset, chosen, rest, taken);
        status = find_contents(rest, taken, &error);
    } else {
        status = DPT_FAIL(&error, DPT_E_NO_MEMORY, "no memory to divide %s", dataset->name);
    }
    free(chosen);
    if (status == DPT_OK) {
        *first = rest;
        *second = taken;
        return DPT_OK;
    }
    dpt_dataset_destroy(taken);
    dpt_dataset_destroy(rest);
    return dpti_context_fail(dataset->context, NULL, &error);
}
