/* The algorithms that devices took, in checkpoints and between processes (algorithms.h). */
#include "train/algorithms.h"

#include "base/recorded.h"
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/recovery/recover.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

static dpt_status no_memory(dpt_trainer *t)
{
    return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for choices");
}

/* ---- Between processes ----------------------------------------------------------------------- */

/* Algorithms are sent as texts, each with its NUL: for each device its number of operations, and
   for each operation its layer, its kind and its algorithm. */
static void put(FILE *to, const char *text)
{
    fputs(text, to);
    fputc('\0', to);
}

static void put_device(FILE *to, const dpti_recorded_choices *choices)
{
    fprintf(to, "%zu", choices->n);
    fputc('\0', to);
    for (size_t i = 0; i < choices->n; i++) {
        put(to, choices->items[i].layer);
        put(to, choices->items[i].kind);
        put(to, choices->items[i].algorithm);
    }
}

/* Those of this process's devices; *texts is to be freed. */
static dpt_status put_own(dpt_trainer *t, char **texts, size_t *n_bytes)
{
    dpt_status status = DPT_OK;
    FILE *to = open_memstream(texts, n_bytes);
    if (!to) return no_memory(t);
    for (size_t i = 0; status == DPT_OK && i < t->n_workers; i++) {
        dpti_recorded_choices own = {.n = 0};
        status = dpti_algorithms_of(t, t->first_device + i, &own);
        if (status == DPT_OK) put_device(to, &own);
        dpti_recorded_choices_free(&own);
    }
    const bool failed = ferror(to) != 0;
    if (fclose(to) != 0 || failed || status != DPT_OK) return no_memory(t);
    return DPT_OK;
}

static const char *take(const char **at)
{
    const char *text = *at;
    *at += strlen(text) + 1;
    return text;
}

static bool take_device(const char **at, dpti_recorded_choices *out)
{
    const size_t n = strtoul(take(at), NULL, 10);
    bool complete = dpti_recorded_choices_reserve(n, out);
    for (size_t i = 0; complete && i < n; i++) {
        const char *layer = take(at), *kind = take(at), *algorithm = take(at);
        complete = dpti_recorded_choices_add(out, layer, kind, algorithm);
    }
    return complete;
}

static void free_all(dpti_recorded_choices *choices, size_t n)
{
    for (size_t i = 0; choices && i < n; i++)
        dpti_recorded_choices_free(&choices[i]);
    free(choices);
}

void dpti_algorithms_free(dpt_trainer *trainer)
{
    free_all(trainer->algorithms, trainer->n_devices);
    trainer->algorithms = NULL;
}

/* Without memory the algorithms of before stay. */
static dpt_status take_all(dpt_trainer *t, const char *at)
{
    dpti_recorded_choices *all = calloc(t->n_devices, sizeof *all);
    bool complete = all != NULL;
    for (size_t i = 0; complete && i < t->n_devices; i++)
        complete = take_device(&at, &all[i]);
    if (!complete) {
        free_all(all, t->n_devices);
        return no_memory(t);
    }
    dpti_algorithms_free(t);
    t->algorithms = all;
    return DPT_OK;
}

dpt_status dpti_algorithms_gather(dpt_trainer *trainer, dpt_status mine)
{
    dpt_trainer *t = trainer;
    dpti_gathered all = {.data = NULL};
    char *texts = NULL;
    size_t n_bytes = 0;
    if (!t->processes) return mine;
    if (mine == DPT_OK) mine = put_own(t, &texts, &n_bytes);
    dpt_status status = dpti_peers_all_gather(t, mine, (dpti_bytes){texts, n_bytes}, &all);
    free(texts);
    if (status == DPT_OK) status = take_all(t, (const char *)all.data);
    dpti_gathered_free(&all);
    return status;
}

dpt_status dpti_algorithms_of(const dpt_trainer *trainer, size_t device, dpti_recorded_choices *out)
{
    const dpt_trainer *t = trainer;
    *out = (dpti_recorded_choices){.n = 0};
    if (dpti_peers_is_own(t, device)) {
        const dpti_worker *w = &t->workers[device - t->first_device];
        return dpti_is_lost(w) ? DPT_OK : dpti_executable_choices(&w->train, out);
    }
    return dpti_recorded_choices_copy(&t->algorithms[device], out) ? DPT_OK : DPT_E_NO_MEMORY;
}

/* ---- In checkpoints -------------------------------------------------------------------------- */

/* Describes a device as it was asked for, with its driver, libraries and kernels, but not its host:
   a job may get other hosts, with the same devices.  JSON needs UTF-8. */
static void describe(const dpt_trainer *t, size_t device, char kind[DPTI_RECORDED_KIND_BYTES])
{
    dpt_device_info d = {.size = sizeof d};
    kind[0] = '\0';
    if (dpt_trainer_device(t, device, &d) != DPT_OK) return;
    snprintf(kind, DPTI_RECORDED_KIND_BYTES, "%s: %s, %s", d.id, d.name, d.detail);
    for (char *c = kind; *c; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f) *c = '?';
}

/* A device without samples has chosen algorithms for the optimizer alone, which are not recorded.
 */
static bool note_device(const dpt_trainer *t, size_t device, dpti_recorded_choices *out)
{
    if (dpti_peers_is_own(t, device))
        return dpti_recorded_choices_copy(&t->workers[device - t->first_device].kept, out);
    return dpti_peers_device(t, device)->at_once == 0 ||
           dpti_recorded_choices_copy(&t->algorithms[device], out);
}

bool dpti_algorithms_note(const dpt_trainer *trainer, dpti_recorded_devices *out)
{
    const dpt_trainer *t = trainer;
    out->items = calloc(t->n_devices, sizeof *out->items);
    if (!out->items) return false;
    for (size_t i = 0; i < t->n_devices; i++) {
        dpti_recorded_device *a = &out->items[out->n++];
        describe(t, i, a->kind);
        if (!note_device(t, i, &a->choices)) return false;
    }
    return true;
}

/* Whether a worker's device has to be prepared anew to take these algorithms. */
static bool differs(const dpt_trainer *t, const dpti_worker *w, const dpti_recorded_device *then)
{
    char kind[DPTI_RECORDED_KIND_BYTES];
    describe(t, t->first_device + w->rank, kind);
    return !dpti_is_lost(w) && w->kept.n > 0 && then->choices.n > 0 &&
           strcmp(kind, then->kind) == 0 && !dpti_recorded_choices_equal(&w->kept, &then->choices);
}

/* Notes what the worker takes from now on.  An algorithm that is not available any more is another
   one. */
static dpt_status keep_anew(dpt_trainer *t, dpti_worker *w)
{
    dpti_recorded_choices now;
    if (dpti_is_lost(w) || w->replica.capacity == 0) return DPT_OK;
    if (dpti_executable_choices(&w->train, &now) != DPT_OK) return no_memory(t);
    dpti_recorded_choices_free(&w->kept);
    w->kept = now;
    return DPT_OK;
}

/* Notes what this process's devices are to take.  *any: some take other algorithms so far. */
static dpt_status want_own(dpt_trainer *t, const dpti_recorded_devices *all, bool *any)
{
    if (t->replay.choices || all->n != t->n_devices) return DPT_OK;
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_recorded_choices wanted, *kept = &t->workers[i].kept;
        const dpti_recorded_device *then = &all->items[t->first_device + i];
        if (!differs(t, &t->workers[i], then)) continue;
        if (!dpti_recorded_choices_copy(&then->choices, &wanted)) return no_memory(t);
        dpti_recorded_choices_free(kept);
        *kept = wanted;
        *any = true;
    }
    return DPT_OK;
}

/* *any: some device of any process does.  All processes tell each other, if none has failed. */
static dpt_status shard(dpt_trainer *t, dpt_status mine, bool *any)
{
    dpti_gathered all = {.data = NULL};
    const bool own = *any;
    if (!t->processes) return mine;
    DPT_TRY(dpti_peers_all_gather(t, mine, (dpti_bytes){&own, sizeof own}, &all));
    for (size_t r = 0; r < dpti_processes_count(t->processes); r++)
        *any = *any || all.data[r];
    dpti_gathered_free(&all);
    return DPT_OK;
}

dpt_status dpti_algorithms_resume(dpt_trainer *trainer, dpt_status mine,
                                  const dpti_recorded_devices *then)
{
    dpt_trainer *t = trainer;
    bool any = false;
    if (mine == DPT_OK) mine = want_own(t, then, &any);
    DPT_TRY(shard(t, mine, &any));
    if (!any) return DPT_OK;
    DPT_TRY(dpti_trainer_rebuild(t));
    for (size_t i = 0; i < t->n_workers; i++)
        DPT_TRY(keep_anew(t, &t->workers[i]));
    return DPT_OK;
}
