/* Compares one operator call with the reference (conformance_check). */
#include "conformance.h"
#include "device/operator.h"
#include "device/signature.h"
#include "device/stream.h"
#include "inputs.h"
#include "reference/reference.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where the slots of a call are in the arena. */
typedef struct call {
    const op_case *c;
    char text[512];
    const dpti_op *op;
    arena arena;
    size_t in[DPT_MAX_INPUTS], out[DPT_MAX_OUTPUTS], workspace, step, halt;
    dpt_step_block block;
} call;

static size_t n_grains_of(const op_case *c)
{
    return c->grain > 0 && c->n_samples > 0 ? (c->n_samples + c->grain - 1) / c->grain : 1;
}

static size_t slot_elements(const dpti_slot *slot, const op_case *c)
{
    if (slot->per_grain) return slot->fixed * n_grains_of(c);
    return slot->per_sample ? slot->per_sample * c->n_samples : slot->fixed;
}

/* ---- Setting up ------------------------------------------------------------------------------ */

static void add_tensors(call *k)
{
    const op_case *c = k->c;
    const dpti_signature *s = &k->op->signature;
    arena *a = &k->arena;
    for (size_t i = 0; i < s->n_in; i++) {
        k->in[i] = arena_add(a, &(tensor){.name = s->in[i].name,
                                          .dtype = s->in[i].dtype,
                                          .n = slot_elements(&s->in[i], c),
                                          .written = c->in_place == (int)i});
    }
    for (size_t i = 0; i < s->n_out; i++) {
        k->out[i] = i == 0 && c->in_place >= 0
                        ? k->in[c->in_place]
                        : arena_add(a, &(tensor){.name = s->out[i].name,
                                                 .dtype = s->out[i].dtype,
                                                 .n = slot_elements(&s->out[i], c),
                                                 .written = true});
    }
    k->workspace = arena_add(a, &(tensor){.name = "workspace",
                                          .dtype = DPT_U8,
                                          .n = k->op->info.workspace_bytes,
                                          .written = true,
                                          .scratch = true});
    k->step = arena_add(a, &(tensor){.name = "step", .dtype = DPT_U8, .n = sizeof(dpt_step_block)});
    if (c->halt != HALT_NONE)
        k->halt = arena_add(a, &(tensor){.name = "halt", .dtype = DPT_F32, .n = 1});
}

/* Whether the call reads an output too: the optimizer's, those that are accumulated to, and those
   that may be left alone.  The others keep their poison: who adds to them is seen. */
static bool reads_output(const call *k, size_t output)
{
    if (k->c->halt == HALT_SET) return true;
    if (dpt_op_traits_of(k->c->desc.kind).marks & DPT_MARK_UPDATES) return true;
    return k->c->accumulate && k->op->signature.out[output].accumulates;
}

/* The values of a tensor: in place, or for one of bfloat16 in float32, to be rounded into it. */
static void *values_begin(const call *k, size_t index)
{
    const tensor *t = &k->arena.tensors[index];
    void *const place = arena_before(&k->arena, index);
    return t->dtype == DPT_BF16 ? calloc(t->n + 1, sizeof(float)) : place;
}

static void values_end(const call *k, size_t index, void *values)
{
    const tensor *t = &k->arena.tensors[index];
    if (t->dtype != DPT_BF16) return;
    uint16_t *const place = arena_before(&k->arena, index);
    for (size_t i = 0; i < t->n; i++)
        place[i] = inputs_bfloat16(((const float *)values)[i]);
    free(values);
}

static bool fill_tensors(call *k, test_random *random)
{
    const op_case *c = k->c;
    const dpti_signature *s = &k->op->signature;
    for (size_t i = 0; i < s->n_in; i++) {
        void *values = values_begin(k, k->in[i]);
        if (!values) return false;
        inputs_fill(&c->desc, i, c->integers, random, values, k->arena.tensors[k->in[i]].n);
        if (c->nan && i == 0) ((float *)values)[k->arena.tensors[k->in[i]].n / 2] = NAN;
        values_end(k, k->in[i], values);
    }
    for (size_t i = 0; i < s->n_out; i++) {
        if (!reads_output(k, i)) continue;
        void *values = values_begin(k, k->out[i]);
        if (!values) return false;
        inputs_fill_output(&c->desc, i, c->integers, random, values, k->arena.tensors[k->out[i]].n);
        values_end(k, k->out[i], values);
    }
    k->block = (dpt_step_block){
        .lr = c->integers ? 0.5f : 0.037f,
        .inv_batch = c->integers ? 0.25f : 1.0f / (float)(c->n_samples + 5),
        .step = 7,
        .epoch = 3,
        .seed_low = 1,
        .seed_high = 2,
        .first = 11,
        .adam_scale_m = c->integers ? 2.0f : 1.7f,
        .adam_scale_v = c->integers ? 0.5f : 3.1f,
        .inv_labels = c->integers ? 0.125f : 1.0f / (float)(c->n_samples + 9),
    };
    memcpy(arena_before(&k->arena, k->step), &k->block, sizeof k->block);
    if (c->halt != HALT_NONE)
        *(float *)arena_before(&k->arena, k->halt) = c->halt == HALT_SET ? 1.0f : 0.0f;
    return true;
}

static dpti_place place_of(const call *k, size_t index)
{
    const tensor *t = &k->arena.tensors[index];
    return (dpti_place){.buffer = &k->arena.buffers[t->buffer], .offset_bytes = t->offset_bytes};
}

static dpt_status bind(const call *k, dpt_op_args *args)
{
    const dpti_signature *s = &k->op->signature;
    dpti_binding binding = {.flags = k->c->accumulate ? DPT_RUN_ACCUMULATE : 0u};
    for (size_t i = 0; i < s->n_in; i++)
        binding.in[i] = place_of(k, k->in[i]);
    for (size_t i = 0; i < s->n_out; i++)
        binding.out[i] = place_of(k, k->out[i]);
    if (k->op->info.workspace_bytes > 0) binding.workspace = place_of(k, k->workspace);
    if (s->reads_step) binding.step = place_of(k, k->step);
    if (k->c->halt != HALT_NONE) binding.halt = place_of(k, k->halt);
    return dpti_bind(k->op, k->c->n_samples, &binding, args);
}

static dpt_status run_once(const call *k, unsigned char *const images[])
{
    dpt_op_args args;
    DPT_TRY(arena_upload(&k->arena));
    DPT_TRY(bind(k, &args));
    args.grain = k->c->grain;
    DPT_TRY(dpti_run(k->op, k->c->n_samples, &args));
    DPT_TRY(dpti_sync(k->arena.device));
    return arena_download(&k->arena, images);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Tensors of a call in double precision, in slots as the reference takes them. */
typedef struct doubles {
    double *in[DPT_MAX_INPUTS], *out[DPT_MAX_OUTPUTS], *magnitude[DPT_MAX_OUTPUTS];
    size_t n_in[DPT_MAX_INPUTS], n_out[DPT_MAX_OUTPUTS];
} doubles;

static double widened(uint16_t upper)
{
    const uint32_t bits = (uint32_t)upper << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double element(const void *data, dpt_dtype dtype, size_t i)
{
    switch (dtype) {
    case DPT_BF16: return widened(((const uint16_t *)data)[i]);
    case DPT_F32: return (double)((const float *)data)[i];
    case DPT_U8: return ((const uint8_t *)data)[i];
    case DPT_I32: return ((const int32_t *)data)[i];
    case DPT_U32: return ((const uint32_t *)data)[i];
    }
    return NAN;
}

/* A copy of a tensor, as it was before the run. */
static double *widen(const call *k, size_t index)
{
    const tensor *t = &k->arena.tensors[index];
    double *out = calloc(t->n + 1, sizeof *out);
    for (size_t i = 0; out && i < t->n; i++)
        out[i] = element(arena_before(&k->arena, index), t->dtype, i);
    return out;
}

static bool doubles_create(const call *k, doubles *d)
{
    bool enough = true;
    for (size_t i = 0; i < k->op->signature.n_in; i++) {
        d->in[i] = widen(k, k->in[i]);
        d->n_in[i] = k->arena.tensors[k->in[i]].n;
        enough = enough && d->in[i];
    }
    for (size_t i = 0; i < k->op->signature.n_out; i++) {
        d->out[i] = widen(k, k->out[i]);
        d->magnitude[i] = widen(k, k->out[i]);
        d->n_out[i] = k->arena.tensors[k->out[i]].n;
        enough = enough && d->out[i] && d->magnitude[i];
    }
    return enough;
}

static void doubles_destroy(doubles *d)
{
    for (size_t i = 0; i < DPT_MAX_INPUTS; i++)
        free(d->in[i]);
    for (size_t i = 0; i < DPT_MAX_OUTPUTS; i++) {
        free(d->out[i]);
        free(d->magnitude[i]);
    }
}

static reference_args reference_arguments(const call *k, const doubles *d, double *const *out)
{
    reference_args args = {.lr = (double)k->block.lr,
                           .inv_batch = (double)k->block.inv_batch,
                           .inv_labels = (double)k->block.inv_labels,
                           .adam_scale_m = (double)k->block.adam_scale_m,
                           .adam_scale_v = (double)k->block.adam_scale_v,
                           .seed = {k->block.seed_low, k->block.seed_high},
                           .epoch = k->block.epoch,
                           .accumulate = k->c->accumulate};
    for (size_t i = 0; i < DPT_MAX_INPUTS; i++)
        args.in[i] = d->in[i];
    for (size_t i = 0; i < DPT_MAX_OUTPUTS; i++)
        args.out[i] = out[i];
    return args;
}

/* Float32 in any order of summation stays within this of the true value; one rounding of the
   output, and flushing of what is too small for a normal number, come on top. */
static double tolerance_at(double expected, double magnitude, size_t terms)
{
    static const double c = 4.0;
    return c * (double)FLT_EPSILON * sqrt((double)terms) * magnitude +
           (double)FLT_EPSILON * fabs(expected) + (double)FLT_MIN;
}

/* Where both factors of every product are rounded first, each may be off in the same direction. */
static double input_tolerance(const call *k, size_t output, double magnitude)
{
    const double each = output == 0 ? k->op->info.input_rounding : 0.0;
    return (2.0 * each + each * each) * magnitude;
}

/* A result as it is stored: exactly known ones are rounded once, and by how much others may be off
   for it. */
static double stored(double exact, dpt_dtype dtype)
{
    return dtype == DPT_BF16 ? widened(inputs_bfloat16((float)exact)) : exact;
}

static double storing_tolerance(double expected, double tolerance, dpt_dtype dtype)
{
    return dtype == DPT_BF16 ? 0x1p-8 * (fabs(expected) + tolerance) : 0.0;
}

/* What the NaN goes into is NaN.  (In what else a transform has it does not matter.) */
static void compare_nan(test *t, const call *k, const doubles *d)
{
    const tensor *out = &k->arena.tensors[k->out[0]];
    const void *data = arena_after(&k->arena, k->out[0]);
    size_t n_lost = 0, n_expected = 0;
    for (size_t i = 0; i < out->n; i++) {
        if (!isnan(d->out[0][i])) continue;
        n_expected++;
        if (!isnan(element(data, out->dtype, i))) n_lost++;
    }
    if (!CHECK(n_expected > 0 && n_lost == 0))
        FAIL("%s [%s]: of %zu NaNs %zu are none", k->text, k->op->info.algorithm, n_expected,
             n_lost);
}

/* Whether a result is what is expected.  A NaN must be a NaN, and an infinity the same infinity. */
static bool agrees(double actual, double expected, double tolerance)
{
    if (isnan(expected)) return isnan(actual);
    if (isinf(expected)) return actual == expected;
    return fabs(actual - expected) <= tolerance;
}

static void compare_output(test *t, const call *k, size_t output, const doubles *d)
{
    const op_case *c = k->c;
    const tensor *out = &k->arena.tensors[k->out[output]];
    const void *data = arena_after(&k->arena, k->out[output]);
    const bool real = out->dtype == DPT_F32 || out->dtype == DPT_BF16;
    const bool exact = !real || (k->op->info.exact && c->integers && inputs_exact(&c->desc));
    const size_t terms =
        reference_terms(&c->desc, c->n_samples, output) + (output == 0 ? k->op->info.mixes : 0);
    for (size_t i = 0; i < out->n; i++) {
        const double actual = element(data, out->dtype, i), ideal = d->out[output][i];
        const double magnitude = d->magnitude[output][i];
        const double computing =
            tolerance_at(ideal, magnitude, terms) + input_tolerance(k, output, magnitude);
        const double expected = exact ? stored(ideal, out->dtype) : ideal;
        const double tolerance =
            exact ? 0.0 : computing + storing_tolerance(ideal, computing, out->dtype);
        if (!agrees(actual, expected, tolerance)) {
            FAIL("%s [%s]: %s[%zu of %zu] is %.9g, expected %.9g within %.3g", k->text,
                 k->op->info.algorithm, out->name, i, out->n, actual, expected, tolerance);
            return;
        }
    }
    CHECK(out->n == d->n_out[output]);
}

/* The sizes of the terms, before reference_run has written d->out. */
static bool find_magnitudes(const call *k, doubles *d)
{
    const reference_args args = reference_arguments(k, d, d->magnitude);
    return reference_magnitude(&k->c->desc, k->c->n_samples, &args, d->n_in, d->n_out) &&
           (k->op->info.mixes == 0 ||
            reference_mixed_magnitude(&k->c->desc, k->c->n_samples, &args, d->out[0]));
}

static void compare(test *t, const call *k)
{
    doubles d = {.n_in = {0}};
    if (CHECK(doubles_create(k, &d))) {
        const reference_args args = reference_arguments(k, &d, d.out);
        if (CHECK(find_magnitudes(k, &d))) {
            if (k->c->halt != HALT_SET) reference_run(&k->c->desc, k->c->n_samples, &args);
            for (size_t i = 0; i < k->op->signature.n_out && !k->c->nan; i++)
                compare_output(t, k, i, &d);
            if (k->c->nan) compare_nan(t, k, &d);
        }
    }
    doubles_destroy(&d);
}

/* ---- Bits ------------------------------------------------------------------------------------ */

static void write_bits(const call *k, FILE *file)
{
    for (size_t i = 0; i < k->op->signature.n_out; i++) {
        const tensor *out = &k->arena.tensors[k->out[i]];
        fprintf(file, "%s, seed %016llx: %s %016llx\n", k->text, (unsigned long long)k->c->seed,
                out->name,
                (unsigned long long)conformance_bits(arena_after(&k->arena, k->out[i]), out->dtype,
                                                     out->n));
    }
}

/* Compares elements of the first output with the chains that define them: some of many. */
static void check_chains(test *t, const call *k)
{
    enum { MOST = 400 };
    const tensor *out = &k->arena.tensors[k->out[0]];
    const float *data = arena_after(&k->arena, k->out[0]);
    const size_t step = 1 + out->n / MOST;
    conformance_tensors of = {.n = k->c->n_samples};
    if (k->c->nan || !conformance_has_chain(&k->c->desc)) return;
    for (size_t i = 0; i < k->op->signature.n_in; i++)
        of.in[i] = arena_before(&k->arena, k->in[i]);
    if (k->c->accumulate) of.before = arena_before(&k->arena, k->out[0]);
    for (size_t i = k->c->seed % step; i < out->n; i += step) {
        const float expected = conformance_chain(&k->c->desc, &of, i);
        if (CHECK(memcmp(&data[i], &expected, sizeof expected) == 0)) continue;
        FAIL("%s: %s[%zu] is %a, its chain %a", k->text, out->name, i, (double)data[i],
             (double)expected);
        return;
    }
}

/* Copies a tensor of the whole call to the call with some of its samples. */
static void copy_part(const call *whole, const call *some, size_t from, size_t to, size_t first)
{
    const tensor *all = &whole->arena.tensors[from], *part = &some->arena.tensors[to];
    const size_t width = dpt_dtype_bytes(all->dtype);
    const size_t each = all->n == part->n ? 0 : all->n / whole->c->n_samples;
    memcpy(arena_before(&some->arena, to),
           (const unsigned char *)arena_before(&whole->arena, from) + first * each * width,
           part->n * width);
}

/* Whether the outputs of a call with some of the samples have the bits that they have in the whole
   call.  Sums over samples are compared if all samples are there. */
static bool same_bits(const call *whole, const call *some, size_t first)
{
    bool same = true;
    for (size_t i = 0; i < some->op->signature.n_out; i++) {
        const tensor *part = &some->arena.tensors[some->out[i]];
        const size_t each = some->op->signature.out[i].per_sample;
        const unsigned char *all = arena_after(&whole->arena, whole->out[i]);
        if (each == 0 && some->c->n_samples < whole->c->n_samples) continue;
        all += first * each * dpt_dtype_bytes(part->dtype);
        same = same &&
               conformance_bits(all, part->dtype, part->n) ==
                   conformance_bits(arena_after(&some->arena, some->out[i]), part->dtype, part->n);
    }
    return same;
}

static void part_destroy(call *k)
{
    dpti_op op;
    if (!k) return;
    op = *k->op;
    arena_destroy(&k->arena);
    dpti_release(&op);
    free(k);
}

/* Runs samples of a call by themselves, as the operator *op of the case *c, which live as long as
   the result.  NULL after a failure. */
static call *run_part(test *t, const call *whole, const op_case *c, size_t first, dpti_op *op)
{
    test_random random = {c->seed};
    const dpti_signature *s = &whole->op->signature;
    call *k = calloc(1, sizeof *k);
    if (!CHECK(k) || !conformance_prepare(t, c, op)) {
        free(k);
        return NULL;
    }
    k->c = c;
    k->op = op;
    add_tensors(k);
    dpt_status status = arena_create(&k->arena, whole->arena.device, c->arena, &random);
    if (status == DPT_OK) {
        for (size_t i = 0; i < s->n_in; i++)
            copy_part(whole, k, whole->in[i], k->in[i], first);
        for (size_t i = 0; i < s->n_out; i++)
            if (reads_output(k, i)) copy_part(whole, k, whole->out[i], k->out[i], first);
        memcpy(arena_before(&k->arena, k->step), &whole->block, sizeof whole->block);
        status = run_once(k, k->arena.after);
    }
    if (CHECK_OK(status)) {
        snprintf(k->text, sizeof k->text, "%zu samples from %zu on, grains of %zu: %.430s",
                 c->n_samples, first, c->grain, whole->text);
        arena_check_guards(t, &k->arena, k->text);
        return k;
    }
    part_destroy(k);
    return NULL;
}

/* Compares the bits of some samples alone with those of the whole call. */
static void check_part(test *t, const call *whole, op_case c, size_t first)
{
    dpti_op op;
    call *k = run_part(t, whole, &c, first, &op);
    if (k && !CHECK(same_bits(whole, k, first)))
        FAIL("%s: other bits with samples %zu to %zu alone, of at most %zu", whole->text, first,
             first + c.n_samples - 1, c.max_samples);
    part_destroy(k);
}

/* All samples as another operator, one sample alone, and some samples without the others. */
static void check_parts(test *t, const call *k, test_random *random)
{
    op_case c = *k->c;
    const size_t n = c.n_samples;
    if (k->op->signature.per_step || c.halt != HALT_NONE || n == 0) return;
    c.max_samples = n + test_random_below(random, 3 * n + 9);
    check_part(t, k, c, 0);
    if (n == 1) return;
    c.n_samples = c.max_samples = 1;
    check_part(t, k, c, test_random_below(random, n));
    c.n_samples = 1 + test_random_below(random, n - 1);
    c.max_samples = c.n_samples + test_random_below(random, n);
    check_part(t, k, c, test_random_below(random, n - c.n_samples + 1));
}

/* ---- Grains ---------------------------------------------------------------------------------- */

/* A call whose grains were also computed one by one. */
typedef struct grain_calls {
    size_t n;
    op_case cases[DPT_MOST_GRAINS];
    dpti_op ops[DPT_MOST_GRAINS];
    call *grains[DPT_MOST_GRAINS];
} grain_calls;

/* Element i of an output of a grain's call. */
static float element_of_grain(const grain_calls *g, size_t grain, size_t output, size_t i)
{
    const call *k = g->grains[grain];
    return ((const float *)arena_after(&k->arena, k->out[output]))[i];
}

/* Element i of an output: the sum of the `size` grains from `first` on, as far as they exist. */
static float sum_of_node(const grain_calls *g, size_t output, size_t i, size_t first, size_t size)
{
    if (size == 1) return element_of_grain(g, first, output, i);
    const float left = sum_of_node(g, output, i, first, size / 2);
    if (first + size / 2 >= g->n) return left;
    return left + sum_of_node(g, output, i, first + size / 2, size / 2);
}

/* Element i of an output as the grains' calls have it: of a sum that of their tree, of a part that
   of a grain.  What is neither is the same for all grains. */
static float expected_of(const call *k, const grain_calls *g, size_t output, size_t i)
{
    const dpti_slot *slot = &k->op->signature.out[output];
    if (slot->per_grain) return element_of_grain(g, i / slot->fixed, output, i % slot->fixed);
    return slot->accumulates ? sum_of_node(g, output, i, 0, DPT_MOST_GRAINS)
                             : element_of_grain(g, 0, output, i);
}

static void compare_grains(test *t, const call *k, const grain_calls *g, size_t output)
{
    const bool adds = k->c->accumulate && k->op->signature.out[output].accumulates;
    const tensor *out = &k->arena.tensors[k->out[output]];
    const float *data = arena_after(&k->arena, k->out[output]);
    const float *before = arena_before(&k->arena, k->out[output]);
    for (size_t i = 0; i < out->n; i++) {
        float expected = expected_of(k, g, output, i);
        if (adds) expected = before[i] + expected;
        if (CHECK(memcmp(&data[i], &expected, sizeof expected) == 0 ||
                  (isnan(data[i]) && isnan(expected))))
            continue;
        FAIL("%s: %s[%zu] is %a, of the grains alone %a", k->text, out->name, i, (double)data[i],
             (double)expected);
        return;
    }
}

/* All samples as some grains, against each grain alone and the tree.  Writes the bits to `file`
   unless it is NULL. */
static void check_grains(test *t, const call *whole, test_random *random, FILE *file)
{
    grain_calls g = {.n = 0};
    dpti_op op;
    op_case c = *whole->c;
    const size_t n = c.n_samples, n_grains = 1 + test_random_below(random, DPT_MOST_GRAINS);
    if (!whole->op->info.has_grains || n == 0) return;
    c.grain = (n + n_grains - 1) / n_grains;
    /* Often no more room than the call needs, so that what it writes behind its workspace is seen.
     */
    c.max_samples = n + (test_random_below(random, 2) ? test_random_below(random, n) : 0);
    call *all = run_part(t, whole, &c, 0, &op);
    bool complete = all != NULL;
    for (size_t at = 0; at < n && complete; at += c.grain, g.n++) {
        op_case *one = &g.cases[g.n];
        *one = *whole->c;
        one->accumulate = false;
        one->n_samples = one->max_samples = n - at < c.grain ? n - at : c.grain;
        g.grains[g.n] = run_part(t, whole, one, at, &g.ops[g.n]);
        complete = g.grains[g.n] != NULL;
    }
    if (complete) {
        snprintf(all->text, sizeof all->text, "grains of %zu: %.470s", c.grain, whole->text);
        for (size_t i = 0; i < op.signature.n_out; i++)
            compare_grains(t, all, &g, i);
        if (file) write_bits(all, file);
    }
    for (size_t i = 0; i < DPT_MOST_GRAINS; i++)
        part_destroy(g.grains[i]);
    part_destroy(all);
}

/* ---- A call ---------------------------------------------------------------------------------- */

static bool is_product(dpt_op_kind kind)
{
    const dpt_op_family family = dpt_op_family_of(kind);
    return family == DPT_FAMILY_CONV2D || family == DPT_FAMILY_LINEAR;
}

static void count_way(suite *s, const char *algorithm, dpt_op_kind kind)
{
    for (size_t i = 0; i < MAX_WAYS; i++) {
        suite_way *way = &s->ways[i];
        if (way->n == 0) snprintf(way->name, sizeof way->name, "%s", algorithm);
        if (strncmp(way->name, algorithm, sizeof way->name - 1) != 0) continue;
        way->n++;
        way->of_product = way->of_product || is_product(kind);
        return;
    }
}

bool conformance_prepare(test *t, const op_case *c, dpti_op *op)
{
    suite *s = suite_of(t);
    char text[512];
    const dpt_op_request request = {
        .desc = &c->desc, .max_samples = c->max_samples, .deterministic = s->deterministic};
    const dpt_status status = dpti_prepare_as(s->device, &request, op);
    const char *message = s->device->base.error.message;
    conformance_describe(c, text, sizeof text);
    if (status == DPT_OK) {
        if (!CHECK(op->info.algorithm && op->info.flops >= 0.0)) FAIL("%s", text);
        if (*s->algorithm && op->info.algorithm &&
            strncmp(op->info.algorithm, s->algorithm, strlen(s->algorithm)) == 0)
            s->n_named++;
        return true;
    }
    if (status == DPT_E_UNSUPPORTED && !s->complete) {
        s->n_unsupported++;
        if (message[0] == '\0') FAIL("%s: unsupported, but the record has no reason", text);
    } else {
        FAIL("%s: prepare fails with %s: %s", text, dpt_status_name(status), message);
    }
    return false;
}

void conformance_check(test *t, const dpti_op *op, const op_case *c)
{
    suite *s = suite_of(t);
    test_random random = {c->seed};
    call *k = calloc(1, sizeof *k);
    REQUIRE(k);
    k->c = c;
    k->op = op;
    conformance_describe(c, k->text, sizeof k->text);
    add_tensors(k);
    dpt_status status = arena_create(&k->arena, s->device, c->arena, &random);
    if (status == DPT_OK) {
        status = fill_tensors(k, &random) ? run_once(k, k->arena.after) : DPT_E_NO_MEMORY;
    }
    if (status == DPT_OK) status = run_once(k, k->arena.again);
    if (status == DPT_OK) {
        s->n_compared++;
        if (op->info.algorithm) count_way(s, op->info.algorithm, op->desc.kind);
        arena_check(t, &k->arena, k->text);
        if (!s->bits_alone) compare(t, k);
        if (s->bits) write_bits(k, s->bits);
        if (s->deterministic && !s->bits_alone) check_chains(t, k);
        if (s->deterministic) check_parts(t, k, &random);
        if (s->deterministic) check_grains(t, k, &random, s->bits);
    } else {
        FAIL("%s: %s: %s", k->text, dpt_status_name(status), s->device->base.error.message);
    }
    arena_destroy(&k->arena);
    free(k);
}
