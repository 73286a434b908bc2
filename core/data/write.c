/* Replaces samples of a data set during training. */
#include "context/context.h"
#include "data/data.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

void dpti_dataset_note_reading(const dpt_dataset *data, size_t more, size_t fewer)
{
    /* Readers of a data set do not change it; this call counts them. */
    dpt_dataset *whole = (dpt_dataset *)dpti_dataset_whole(data);
    whole->n_reading += more;
    whole->n_reading -= fewer;
}

static dpt_status check_range(const dpt_dataset *d, size_t first, size_t count, dpt_error *error)
{
    if (!d->writable || d->whole)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s: samples are replaced in a whole data set that was made writable "
                        "(dpt_dataset_memory)",
                        d->name);
    if (first > d->count || count > d->count - first)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "samples %zu to %zu are not in the data set, which has %zu", first,
                        first + count, d->count);
    if (d->n_reading > 0)
        return DPT_FAIL(error, DPT_E_STATE,
                        "a step that reads the data is in flight: collect it before they are "
                        "replaced (in dpt_fit, do it behind an epoch)");
    return DPT_OK;
}

static dpt_status check_given(const dpt_dataset *d, const void *images, const dpti_answers *answers,
                              dpt_error *error)
{
    if (!images) return DPT_FAIL(error, DPT_E_INVALID, "samples have images");
    if ((answers->labels != NULL) != (d->labels != NULL) ||
        (answers->targets != NULL) != (d->targets != NULL))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "samples have labels or targets as the data set was made of: %s",
                        d->labels && d->targets ? "both"
                        : d->labels             ? "labels"
                        : d->targets            ? "targets"
                                                : "neither");
    return DPT_OK;
}

/* Converts the records of the program to those of the model, if they differ.  The caller frees
 *out.  NULL: they do not differ. */
static dpt_status convert(const dpt_dataset *d, const dpti_converted *what, void **out,
                          dpt_error *error)
{
    *out = NULL;
    if (!d->conversion) return DPT_OK;
    const size_t n_bytes = what->samples.count * dpti_dataset_image_bytes(d);
    void *records = dpti_alloc_aligned(n_bytes);
    if (!records)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for %zu bytes of records", n_bytes);
    const dpti_converted all = {what->from, records, what->samples};
    const dpt_status status = dpti_convert(d->conversion, &all, error);
    if (status == DPT_OK)
        *out = records;
    else
        free(records);
    return status;
}

static void copy(const dpt_dataset *d, size_t first, const void *images, const dpti_answers *a)
{
    const size_t image_bytes = dpti_dataset_image_bytes(d);
    const size_t target_bytes = a->count * d->classes * sizeof *a->targets;
    memcpy((uint8_t *)d->images + first * image_bytes, images, a->count * image_bytes);
    if (a->labels) dpti_answers_take_labels(a, d->labels + first * dpti_dataset_labels(d));
    if (a->targets) memcpy(d->targets + first * d->classes, a->targets, target_bytes);
}

dpt_status dpt_dataset_write(dpt_dataset *dataset, size_t first, size_t count, const void *images,
                             const void *labels, const float *targets)
{
    dpt_dataset *d = dataset;
    dpt_error error = {.status = DPT_OK};
    const dpti_answers answers = {.count = count,
                                  .classes = d->classes,
                                  .labels = labels,
                                  .per_sample = d->labels_per_sample,
                                  .label_dtype = d->label_dtype,
                                  .targets = targets};
    dpt_status status = check_range(d, first, count, &error);
    if (status == DPT_OK && count > 0) status = check_given(d, images, &answers, &error);
    if (status == DPT_OK) status = dpti_answers_check(&answers, &error);
    if (status == DPT_OK && count > 0)
        status = dpti_dataset_check_ids(d, images, (dpti_written){first, count}, &error);
    void *records = NULL;
    if (status == DPT_OK && count > 0)
        status = convert(d, &(dpti_converted){.from = images, .samples = {first, count}}, &records,
                         &error);
    if (status != DPT_OK) return dpti_context_fail(d->context, NULL, &error);
    if (count == 0) return DPT_OK;
    copy(d, first, records ? records : images, &answers);
    free(records);
    d->writes[d->n_writes++ % DPTI_WRITES] = (dpti_written){first, count};
    return DPT_OK;
}
