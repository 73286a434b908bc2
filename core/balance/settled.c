/* The divisions of a step that devices have already computed (settled.h). */
#include "balance/settled.h"

#include <stdlib.h>
#include <string.h>

/* The first step loads kernels and records.  The second step may begin while work of the first is
   still in flight. */
enum { FIRST_STEPS = 2 };

bool dpti_settled_create(size_t n_devices, size_t n_kept, dpti_settled *out)
{
    *out = (dpti_settled){.n_devices = n_devices, .n_kept = n_kept};
    out->shards = calloc(DPTI_SETTLED * n_devices, sizeof *out->shards);
    return out->shards != NULL;
}

void dpti_settled_destroy(dpti_settled *settled)
{
    free(settled->shards);
    *settled = (dpti_settled){.shards = NULL};
}

void dpti_settled_forget(dpti_settled *settled)
{
    for (size_t i = 0; i < DPTI_SETTLED; i++)
        settled->n_steps[i] = 0;
}

/* Returns the slot of these shards, or the slot to use for them: a free one or the oldest. */
static size_t find(dpti_settled *s, const size_t *shards)
{
    size_t oldest = 0;
    for (size_t i = 0; i < s->n_kept; i++) {
        const size_t *kept = s->shards + i * s->n_devices;
        if (s->n_steps[i] > 0 && memcmp(kept, shards, s->n_devices * sizeof *shards) == 0) return i;
        if (s->n_steps[oldest] > 0 && (s->n_steps[i] == 0 || s->used[i] < s->used[oldest]))
            oldest = i;
    }
    s->n_steps[oldest] = 0;
    return oldest;
}

bool dpti_settled_step(dpti_settled *settled, const size_t *shards)
{
    dpti_settled *s = settled;
    const size_t i = find(s, shards);
    const bool known = s->n_steps[i] >= FIRST_STEPS;
    memcpy(s->shards + i * s->n_devices, shards, s->n_devices * sizeof *shards);
    if (!known) s->n_steps[i]++;
    s->used[i] = ++s->clock;
    return known;
}
