/* Areas under ROC curves (auc.h). */
#include "base/auc.h"

#include <math.h>
#include <stdlib.h>

bool dpti_auc_create(size_t n_classes, const size_t *samples, dpti_auc *out)
{
    *out = (dpti_auc){.n_classes = n_classes};
    out->begins = calloc(n_classes + 1, sizeof *out->begins);
    out->n_kept = calloc(n_classes + 1, sizeof *out->n_kept);
    out->pairs = calloc(n_classes + 1, sizeof *out->pairs);
    for (size_t i = 0; out->begins && i < n_classes; i++)
        out->begins[i + 1] = out->begins[i] + samples[i];
    if (out->begins) out->own = calloc(out->begins[n_classes] + 1, sizeof *out->own);
    if (out->own && out->n_kept && out->pairs) return true;
    dpti_auc_free(out);
    return false;
}

void dpti_auc_free(dpti_auc *auc)
{
    free(auc->pairs);
    free(auc->own);
    free(auc->n_kept);
    free(auc->begins);
    *auc = (dpti_auc){.own = NULL};
}

void dpti_auc_keep(dpti_auc *auc, size_t label, float probability)
{
    auc->own[auc->begins[label] + auc->n_kept[label]++] = probability;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void dpti_auc_sort(dpti_auc *auc)
{
    for (size_t i = 0; i < auc->n_classes; i++)
        qsort(auc->own + auc->begins[i], auc->n_kept[i], sizeof *auc->own, by_value);
}

/* Returns how many of n ascending values are less than `value`, or, with `equal`, not greater. */
static size_t count_less(const float *values, size_t n, float value, bool equal)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (values[middle] < value || (equal && values[middle] == value))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Most samples are less likely of a class than all samples of the class, so that is looked at
   first. */
void dpti_auc_compare(dpti_auc *auc, size_t label, const float *probabilities)
{
    for (size_t i = 0; i < auc->n_classes; i++) {
        const float *own = auc->own + auc->begins[i], p = probabilities[i];
        const size_t n = auc->n_kept[i];
        if (i == label || n == 0) continue;
        if (p < own[0]) {
            auc->pairs[i] += 2 * (uint64_t)n;
            continue;
        }
        const size_t less = count_less(own, n, p, false);
        const size_t equal = less < n && own[less] == p ? count_less(own, n, p, true) - less : 0;
        auc->pairs[i] += 2 * (uint64_t)(n - less - equal) + equal;
    }
}

double dpti_auc_of(const dpti_auc *auc, size_t class)
{
    const size_t all = auc->begins[auc->n_classes], own = auc->n_kept[class];
    if (own == 0 || own == all) return (double)NAN;
    return (double)auc->pairs[class] / 2 / (double)own / (double)(all - own);
}
