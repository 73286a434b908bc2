/* Which algorithms a device took. */
#include "base/recorded.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

void dpti_recorded_choices_free(dpti_recorded_choices *choices)
{
    for (size_t i = 0; i < choices->n; i++) {
        free(choices->items[i].layer);
        free(choices->items[i].kind);
        free(choices->items[i].algorithm);
    }
    free(choices->items);
    *choices = (dpti_recorded_choices){.n = 0};
}

bool dpti_recorded_choices_copy(const dpti_recorded_choices *choices, dpti_recorded_choices *out)
{
    dpti_recorded_choices copy = {.n = 0};
    *out = copy;
    if (choices->n == 0) return true;
    copy.items = calloc(choices->n, sizeof *copy.items);
    bool complete = copy.items != NULL;
    for (size_t i = 0; complete && i < choices->n; i++) {
        const dpti_recorded_choice *from = &choices->items[i];
        dpti_recorded_choice *to = &copy.items[copy.n++];
        *to = (dpti_recorded_choice){.layer = dpti_strdup(from->layer),
                                     .kind = dpti_strdup(from->kind),
                                     .algorithm = dpti_strdup(from->algorithm)};
        complete = to->layer && to->kind && to->algorithm;
    }
    if (complete)
        *out = copy;
    else
        dpti_recorded_choices_free(&copy);
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
