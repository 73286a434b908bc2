/* Labels: one or several for each sample. */
#include "context/context.h"
#include "data/data.h"

#include <string.h>

static size_t n_of(const dpti_answers *answers)
{
    return answers->count * (answers->per_sample ? answers->per_sample : 1);
}

static int64_t label_at(const dpti_answers *a, size_t i)
{
    return a->label_dtype == DPT_I32 ? ((const int32_t *)a->labels)[i]
                                     : ((const uint8_t *)a->labels)[i];
}

void dpti_answers_take_labels(const dpti_answers *answers, int32_t *out)
{
    for (size_t i = 0; i < n_of(answers); i++)
        out[i] = (int32_t)label_at(answers, i);
}

dpt_status dpti_answers_check_labels(const dpti_answers *answers, dpt_error *error)
{
    const dpti_answers *a = answers;
    const size_t each = a->per_sample ? a->per_sample : 1;
    for (size_t i = 0; a->labels && i < n_of(a); i++) {
        const int64_t label = label_at(a, i);
        if ((label >= 0 && (uint64_t)label < a->classes) ||
            (each > 1 && label == DPT_IGNORED_LABEL))
            continue;
        if (each == 1)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "label %d of sample %zu is out of range, there are %zu classes",
                            (int)label, i, a->classes);
        return DPT_FAIL(
            error, DPT_E_INVALID,
            "label %d at place %zu of sample %zu is out of range, there are %zu classes; "
            "%d is ignored",
            (int)label, i % each, i / each, a->classes, DPT_IGNORED_LABEL);
    }
    return DPT_OK;
}

size_t dpti_dataset_count_labels(const dpt_dataset *data, const uint32_t *records, size_t n)
{
    const size_t each = dpti_dataset_labels(data);
    size_t count = 0;
    if (data->reads_labels) return n * each;
    if (each == 1 || !data->labels) return n;
    for (size_t i = 0; i < n; i++) {
        const int32_t *labels = data->labels + records[i] * each;
        for (size_t k = 0; k < each; k++)
            count += labels[k] >= 0;
    }
    return count;
}

double dpti_dataset_weigh_labels(const dpt_dataset *data, const uint32_t *records, size_t n,
                                 const float *weights)
{
    const size_t each = dpti_dataset_labels(data);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const int32_t *labels = data->labels + records[i] * each;
        for (size_t k = 0; k < each; k++)
            if (labels[k] >= 0) sum += (double)weights[labels[k]];
    }
    return sum;
}

dpt_status dpt_dataset_count_classes(const dpt_dataset *dataset, size_t *counts)
{
    const dpt_dataset *d = dataset;
    const size_t each = dpti_dataset_labels(d);
    if (!d->labels)
        return dpt_fail(d->context, DPT_E_INVALID, "%s has no labels in memory to be counted",
                        d->name);
    memset(counts, 0, d->classes * sizeof *counts);
    for (size_t i = 0; i < d->count; i++) {
        const int32_t *labels = d->labels + dpti_dataset_record(d, i) * each;
        for (size_t k = 0; k < each; k++)
            if (labels[k] >= 0) counts[labels[k]]++;
    }
    return DPT_OK;
}
