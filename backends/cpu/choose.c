/* Collects the algorithms that apply to an operator, and takes one: by name, or by measurement. */
#include "choose.h"
#include "autotune.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CANDIDATES = 6, KEY_BYTES = 256 };

_Static_assert((int)DPT_CPU_MEASURED_BYTES == (int)DPT_MEASURED_BYTES,
               "what choices say must fit into an operator");

/* A call of fewer operations takes the first algorithm: a measurement would cost more than the
   choice saves. */
static const double least_work = 2e6;

/* Raise this number when a kernel changes.  The name of the cache file contains it, so times that
   older kernels took are forgotten. */
static const char kernels_version[] = "14";

dpt_choices *dpt_cpu_choices_get(const dpt_cpu_host *host)
{
    char file[DPT_HASH_CHARS + 32], digits[DPT_HASH_CHARS + 1];
    dpt_hash hash = dpt_hash_text(dpt_hash_begin(), host->name);
    hash = dpt_hash_text(hash, host->kernels->name);
    hash = dpt_hash_text(hash, kernels_version);
    dpt_hash_print(hash, digits);
    snprintf(file, sizeof file, "cpu/choices-%.16s.txt", digits);
    return dpt_choices_get(file);
}

/* ---- Algorithms ------------------------------------------------------------------------------ */

/* The algorithms that are still considered: the plan of each, which owns its state, and the name.
 */
typedef struct candidates {
    dpt_cpu_plan plans[MAX_CANDIDATES];
    const char *names[MAX_CANDIDATES];
    size_t n;
} candidates;

static bool is_listed(const candidates *all, const char *name)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->names[i], name) == 0) return true;
    return false;
}

/* Adds an algorithm's plan to *out if the algorithm applies and is not listed yet.  op->plan is
   zeroed afterwards. */
static dpt_status try_one(dpt_op *op, dpt_cpu_prepare *prepare, candidates *out, dpt_error *error)
{
    op->plan = (dpt_cpu_plan){0};
    const dpt_status status = prepare(op, error);
    if (status == DPT_OK && !is_listed(out, op->plan.algorithm)) {
        out->names[out->n] = op->plan.algorithm;
        out->plans[out->n++] = op->plan;
    } else {
        free(op->plan.state);
    }
    op->plan = (dpt_cpu_plan){0};
    return status == DPT_E_UNSUPPORTED ? DPT_OK : status;
}

static dpt_status try_all(const dpt_cpu_kernel_set *kernels, dpt_op *op, candidates *out,
                          dpt_error *error)
{
    DPT_TRY(try_one(op, kernels->prepare[op->desc.kind], out, error));
    for (dpt_cpu_prepare *const *next = kernels->ways[op->desc.kind];
         *next && out->n < MAX_CANDIDATES; next++)
        DPT_TRY(try_one(op, *next, out, error));
    return DPT_OK;
}

/* Keeps only the candidate of this name.  DPT_E_UNSUPPORTED if there is none. */
static dpt_status take(candidates *all, const char *name, dpt_error *error)
{
    for (size_t i = 0; i < all->n; i++) {
        if (strcmp(all->names[i], name) != 0) continue;
        const candidates kept = {.plans = {all->plans[i]}, .names = {all->names[i]}, .n = 1};
        for (size_t other = 0; other < all->n; other++)
            if (other != i) free(all->plans[other].state);
        *all = kept;
        return DPT_OK;
    }
    return DPT_FAIL(error, DPT_E_UNSUPPORTED, "'%s' cannot be had for this on these cores", name);
}

/* Keeps the candidates whose names have this beginning.  If no name has it, keeps the first
   candidate only: a person who asks for an algorithm wants no measurement of others. */
static void narrow(candidates *all, const char *beginning)
{
    candidates kept = {.n = 0}, others = {.n = 0};
    for (size_t i = 0; i < all->n; i++) {
        const bool meant = strncmp(all->names[i], beginning, strlen(beginning)) == 0;
        candidates *to = meant ? &kept : &others;
        to->names[to->n] = all->names[i];
        to->plans[to->n++] = all->plans[i];
    }
    if (kept.n == 0) {
        kept = (candidates){.plans = {all->plans[0]}, .names = {all->names[0]}, .n = 1};
        others.plans[0].state = NULL;
    }
    for (size_t i = 0; i < others.n; i++)
        free(others.plans[i].state);
    *all = kept;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static dpt_status measure(dpt_device *device, dpt_op *op, const candidates *all, size_t *best)
{
    char key[KEY_BYTES];
    dpt_cpu_device *cpu = dpt_cpu_device_of(device);
    dpt_cpu_autotune *autotune = NULL;
    const dpt_cpu_autotune_args args = {.op = op, .plans = all->plans, .n_plans = all->n};
    DPT_TRY(dpt_cpu_autotune_create(device, &args, &autotune));
    dpt_cpu_autotune_key(autotune, key, sizeof key);
    const dpt_choice choice = {.key = key,
                               .candidates = all->names,
                               .n_candidates = all->n,
                               .n_rounds = dpt_cpu_autotune_rounds(autotune),
                               .time = dpt_cpu_autotune_time,
                               .argument = autotune,
                               .measured = op->measured};
    const dpt_status status = dpt_choices_find(cpu->choices, &choice, &device->error, best);
    dpt_cpu_autotune_destroy(autotune);
    return status == DPT_E_NO_MEMORY ? DPT_OK : status;
}

/* A deterministic operator has one algorithm, and nothing is measured.  Winograd convolutions have
   names of their own. */
static dpt_status prepare_fixed(const dpt_cpu_kernel_set *kernels, dpt_op *op, dpt_error *error)
{
    const dpt_op_kind kind = op->desc.kind;
    if (kernels->fused) kernels = kernels->fused;
    DPT_TRY((kernels->fixed[kind] ? kernels->fixed[kind] : kernels->prepare[kind])(op, error));
    if (strncmp(op->plan.algorithm ? op->plan.algorithm : "", "fixed-", 6) != 0)
        op->plan.algorithm = "fixed";
    return DPT_OK;
}

dpt_status dpt_cpu_prepare_best(dpt_device *device, dpt_op *op, const char *wanted)
{
    const dpt_cpu_device *cpu = dpt_cpu_device_of(device);
    const dpt_cpu_kernel_set *kernels = cpu->host->kernels;
    const char *asked = cpu->algorithm            ? cpu->algorithm
                        : cpu->host->algorithm[0] ? cpu->host->algorithm
                                                  : NULL;
    if (op->deterministic) return prepare_fixed(kernels, op, &device->error);
    if (!kernels->ways[op->desc.kind]) return kernels->prepare[op->desc.kind](op, &device->error);
    candidates all = {.n = 0};
    size_t best = 0;
    op->asked_for = asked || wanted;
    dpt_status status = try_all(kernels, op, &all, &device->error);
    if (status == DPT_OK && wanted)
        status = take(&all, wanted, &device->error);
    else if (status == DPT_OK && asked)
        narrow(&all, asked);
    const bool worth_it =
        status == DPT_OK && all.plans[0].flops * (double)op->max_samples >= least_work;
    if (all.n > 1 && worth_it) status = measure(device, op, &all, &best);
    for (size_t i = 0; i < all.n; i++) {
        if (status == DPT_OK && i == best)
            op->plan = all.plans[i];
        else
            free(all.plans[i].state);
    }
    return status;
}
