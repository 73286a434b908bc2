/* Which algorithms devices took. */
#include "base/recorded.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static void free_one(const dpti_recorded_choice *choice)
{
    free(choice->layer);
    free(choice->kind);
    free(choice->algorithm);
}

void dpti_recorded_choices_free(dpti_recorded_choices *choices)
{
    for (size_t i = 0; i < choices->n; i++)
        free_one(&choices->items[i]);
    free(choices->items);
    *choices = (dpti_recorded_choices){.n = 0};
}

void dpti_recorded_devices_free(dpti_recorded_devices *devices)
{
    for (size_t i = 0; i < devices->n; i++)
        dpti_recorded_choices_free(&devices->items[i].choices);
    free(devices->items);
    *devices = (dpti_recorded_devices){.n = 0};
}

bool dpti_recorded_choices_reserve(size_t n, dpti_recorded_choices *out)
{
    *out = (dpti_recorded_choices){.n = 0};
    if (n == 0) return true;
    out->items = calloc(n, sizeof *out->items);
    return out->items != NULL;
}

bool dpti_recorded_choices_add(dpti_recorded_choices *choices, const char *layer, const char *kind,
                               const char *algorithm)
{
    const dpti_recorded_choice one = {.layer = dpti_strdup(layer),
                                      .kind = dpti_strdup(kind),
                                      .algorithm = dpti_strdup(algorithm)};
    const bool complete = one.layer && one.kind && one.algorithm;
    if (complete)
        choices->items[choices->n++] = one;
    else
        free_one(&one);
    return complete;
}

bool dpti_recorded_choices_copy(const dpti_recorded_choices *choices, dpti_recorded_choices *out)
{
    bool complete = dpti_recorded_choices_reserve(choices->n, out);
    for (size_t i = 0; complete && i < choices->n; i++) {
        const dpti_recorded_choice *from = &choices->items[i];
        complete = dpti_recorded_choices_add(out, from->layer, from->kind, from->algorithm);
    }
    if (!complete) dpti_recorded_choices_free(out);
    return complete;
}

bool dpti_recorded_choices_equal(const dpti_recorded_choices *a, const dpti_recorded_choices *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const dpti_recorded_choice *x = &a->items[i], *y = &b->items[i];
        if (strcmp(x->layer, y->layer) != 0 || strcmp(x->kind, y->kind) != 0 ||
            strcmp(x->algorithm, y->algorithm) != 0)
            return false;
    }
    return true;
}
