/* Counts of classes (class_counts.h). */
#include "base/class_counts.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

bool dpti_class_counts_create(size_t n_classes, dpti_class_counts *out)
{
    const size_t n = n_classes;
    const bool confuses = n <= DPTI_MOST_CONFUSED;
    *out = (dpti_class_counts){.n_classes = n};
    out->samples = n <= SIZE_MAX / 3 ? calloc(3 * n, sizeof *out->samples) : NULL;
    if (confuses) out->confusion = calloc(n * n, sizeof *out->confusion);
    if (!out->samples || (confuses && !out->confusion)) {
        dpti_class_counts_free(out);
        return false;
    }
    out->predicted = out->samples + n;
    out->own = out->samples + 2 * n;
    return true;
}

void dpti_class_counts_free(dpti_class_counts *counts)
{
    free(counts->samples);
    free(counts->confusion);
    *counts = (dpti_class_counts){.samples = NULL};
}

/* Returns whether the class of the sample is among the most likely ones. */
static bool is_on_top(const float *p, size_t n, size_t label)
{
    size_t before = 0;
    for (size_t k = 0; k < n; k++)
        before += p[k] > p[label] || (p[k] == p[label] && k > label);
    return before < DPTI_TOP;
}

size_t dpti_class_counts_add(dpti_class_counts *counts, size_t label, const float *probabilities)
{
    const float *p = probabilities;
    const size_t n = counts->n_classes;
    size_t guess = 0;
    for (size_t k = 1; k < n; k++)
        if (p[k] > p[guess] || isnan(p[guess])) guess = k;
    counts->n_samples++;
    counts->samples[label]++;
    counts->predicted[guess]++;
    counts->hits += guess == label;
    counts->own[label] += guess == label;
    counts->top_hits += is_on_top(p, n, label);
    if (counts->confusion) counts->confusion[label * n + guess]++;
    return guess;
}

static double part(size_t of, size_t all)
{
    return all > 0 ? (double)of / (double)all : 0;
}

dpti_class_figures dpti_class_figures_of(const dpti_class_counts *counts, size_t class)
{
    const size_t own = counts->own[class], samples = counts->samples[class],
                 predicted = counts->predicted[class];
    return (dpti_class_figures){.precision = part(own, predicted),
                                .recall = part(own, samples),
                                .f1 = part(2 * own, samples + predicted)};
}

dpti_class_figures dpti_class_means(const dpti_class_counts *counts, bool weighted)
{
    dpti_class_figures sum = {.f1 = 0};
    double weights = 0;
    for (size_t i = 0; i < counts->n_classes; i++) {
        if (counts->samples[i] == 0 && counts->predicted[i] == 0) continue;
        const dpti_class_figures f = dpti_class_figures_of(counts, i);
        const double weight = weighted ? (double)counts->samples[i] : 1;
        weights += weight;
        sum.precision += weight * f.precision;
        sum.recall += weight * f.recall;
        sum.f1 += weight * f.f1;
    }
    if (!(weights > 0)) return sum;
    return (dpti_class_figures){sum.precision / weights, sum.recall / weights, sum.f1 / weights};
}
