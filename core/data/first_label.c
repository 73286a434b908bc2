/* Labels that do not begin at 0 (first_label.h). */
#include "data/first_label.h"

#include "base/parse.h"
#include "base/print.h"
#include "base/text.h"
#include "context/context.h"
#include "data/class_names.h"

#include <stdlib.h>
#include <string.h>

static const char words[] = ":labels-from=";

dpt_status dpti_first_label_parse(const char *name, char **base, size_t *first, dpt_error *error)
{
    const char *at = strstr(name, words);
    for (const char *next = at; next; next = strstr(next + 1, words))
        at = next;
    const size_t length = at ? (size_t)(at - name) : strlen(name);
    size_t n = 0;
    if (at && !dpti_parse_size(at + sizeof words - 1, 1, DPTI_MAX_CLASSES - 1, &n))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "'%.200s': the first label is a number from 1 to %d, as in %s1", name,
                        DPTI_MAX_CLASSES - 1, words);
    *base = dpti_strndup(name, length);
    if (!*base) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to open a data set");
    *first = n;
    return DPT_OK;
}

static size_t n_labels_of(const dpt_dataset *data)
{
    return data->n_records * dpti_dataset_labels(data);
}

static const char *place_of(const dpt_dataset *data)
{
    return data->file ? data->file : data->source ? data->source : data->name;
}

/* Gives the classes the names that are left, or their labels. */
static dpt_status rename_classes(dpt_dataset *data, size_t first, dpt_error *error)
{
    if (data->class_names) {
        data->class_names += first;
        return DPT_OK;
    }
    data->own_names = dpti_class_names_count(first, data->classes);
    data->class_names = data->own_names;
    if (data->own_names) return DPT_OK;
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names of classes");
}

dpt_status dpti_first_label_shift(dpt_dataset *data, size_t first, dpt_error *error)
{
    if (!data->labels)
        return DPT_FAIL(error, DPT_E_INVALID, "%s has no labels, which could begin at %zu",
                        place_of(data), first);
    for (size_t i = 0; i < n_labels_of(data); i++) {
        if (data->labels[i] < 0) continue; /* it is ignored */
        if ((size_t)data->labels[i] < first)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "the labels of %s are to begin at %zu (--labels-from), but sample %zu "
                            "has label %d",
                            place_of(data), first, i / dpti_dataset_labels(data),
                            (int)data->labels[i]);
        data->labels[i] -= (int32_t)first;
    }
    data->classes = data->classes < first + 2 ? 2 : data->classes - first;
    char *name = dpti_format("%s%s%zu", data->name, words, first);
    if (!name) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to open a data set");
    free(data->name);
    data->name = name;
    data->first_label = first;
    return rename_classes(data, first, error);
}

void dpti_first_label_tell(const dpt_dataset *data, const dpt_context *context)
{
    int32_t least = INT32_MAX, most = -1;
    if (!data->labels || !data->part || strcmp(data->part, "training") != 0) return;
    for (size_t i = 0; i < n_labels_of(data); i++) {
        const int32_t label = data->labels[i];
        if (label >= 0 && label < least) least = label;
        if (label > most) most = label;
    }
    if (most < 0 || least == 0 || data->first_label > 0) return;
    dpti_context_notice(context,
                        "the labels of %s are %d to %d; 0 does not occur, and is a class of its "
                        "own; --labels-from %d makes label %d the first class",
                        place_of(data), (int)least, (int)most, (int)least, (int)least);
}
