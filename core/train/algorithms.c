/* The algorithms that devices took, in checkpoints (algorithms.h). */
#include "train/algorithms.h"

#include "base/base.h"
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

/* What a device is, as it was asked for, with its driver, libraries and kernels; JSON is UTF-8. */
static void describe(const dpt_trainer *t, size_t device, char kind[DPTI_RUN_KIND_BYTES])
{
    dpt_device_description d;
    kind[0] = '\0';
    if (dpt_trainer_device(t, device, &d) != DPT_OK) return;
    snprintf(kind, DPTI_RUN_KIND_BYTES, "%s: %s, %s", d.id, d.name, d.detail);
    for (char *c = kind; *c; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f) *c = '?';
}

bool dpti_algorithms_note(const dpt_trainer *trainer, dpti_run_state *state)
{
    const dpt_trainer *t = trainer;
    if (t->processes) return true;
    state->algorithms = calloc(t->n_workers, sizeof *state->algorithms);
    if (!state->algorithms) return false;
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_run_algorithms *a = &state->algorithms[state->n_algorithms++];
        describe(t, i, a->kind);
        if (!dpti_recorded_choices_copy(&t->workers[i].kept, &a->choices)) return false;
    }
    return true;
}

/* Whether a device is to be prepared anew, for these. */
static bool differs(const dpt_trainer *t, size_t device, const dpti_run_algorithms *then)
{
    char kind[DPTI_RUN_KIND_BYTES];
    const dpti_worker *w = &t->workers[device];
    describe(t, device, kind);
    return !w->gone && w->kept.n > 0 && then->choices.n > 0 && strcmp(kind, then->kind) == 0 &&
           !dpti_recorded_choices_equal(&w->kept, &then->choices);
}

/* What it takes from now on; one that it could not have is another. */
static dpt_status keep_anew(dpt_trainer *t, dpti_worker *w)
{
    dpti_recorded_choices now;
    if (w->gone || w->replica.capacity == 0) return DPT_OK;
    if (dpti_executable_choices(&w->train, &now) != DPT_OK)
        return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for choices");
    dpti_recorded_choices_free(&w->kept);
    w->kept = now;
    return DPT_OK;
}

dpt_status dpti_algorithms_resume(dpt_trainer *trainer, const dpti_run_state *state)
{
    dpt_trainer *t = trainer;
    bool any = false;
    if (t->processes || t->replay.choices || state->n_algorithms != t->n_workers) return DPT_OK;
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_recorded_choices *kept = &t->workers[i].kept;
        if (!differs(t, i, &state->algorithms[i])) continue;
        dpti_recorded_choices_free(kept);
        if (!dpti_recorded_choices_copy(&state->algorithms[i].choices, kept))
            return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for choices");
        any = true;
    }
    if (!any) return DPT_OK;
    DPT_TRY(dpti_trainer_rebuild(t));
    for (size_t i = 0; i < t->n_workers; i++)
        DPT_TRY(keep_anew(t, &t->workers[i]));
    return DPT_OK;
}
