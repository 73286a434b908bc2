/* Generates the calls with which one description is tested, and the description as text. */
#include "attention_cases.h"
#include "conformance.h"
#include "device/operator.h"
#include "device/signature.h"
#include "map_cases.h"
#include "matmul_cases.h"
#include "recurrent_cases.h"

#include <stdio.h>
#include <stdlib.h>

/* All false if the description is unsound, which prepare will say. */
static dpti_signature signature_of(const dpt_op_desc *desc)
{
    dpti_signature signature = {.n_in = 0};
    (void)!dpti_op_signature(desc, &signature, NULL);
    return signature;
}

/* Multiply-adds or elements of a sample; 0 for operators that run once a step. */
static size_t work_per_sample(const dpt_op_desc *desc)
{
    const dpt_conv2d_desc *c = &desc->u.conv2d;
    const dpt_pool2d_desc *p = &desc->u.pool2d;
    if (signature_of(desc).per_step) return 0;
    switch (dpt_op_family_of(desc->kind)) {
    case DPT_FAMILY_CONV2D:
        return c->out_h * c->out_w * c->out_channels * c->kernel_h * c->kernel_w * c->in_channels /
               c->groups;
    case DPT_FAMILY_LINEAR: return desc->u.linear.in * desc->u.linear.out;
    case DPT_FAMILY_POOL2D: return p->out_h * p->out_w * p->channels * p->kernel_h * p->kernel_w;
    case DPT_FAMILY_GATHER: return desc->u.gather.count;
    case DPT_FAMILY_ACTIVATION: return desc->u.activation.count;
    case DPT_FAMILY_BATCH_NORM:
        return desc->kind == DPT_OP_BATCH_NORM_MERGE
                   ? 0
                   : desc->u.batch_norm.area * desc->u.batch_norm.channels;
    case DPT_FAMILY_LAYER_NORM: return desc->u.layer_norm.rows * desc->u.layer_norm.channels;
    case DPT_FAMILY_ROW_SOFTMAX: return desc->u.row_softmax.rows * desc->u.row_softmax.columns * 4;
    case DPT_FAMILY_TAKE: /* of the backward pass on a card: every row looks at every index */
        return desc->u.take.count * (desc->u.take.width + desc->u.take.rows);
    case DPT_FAMILY_SOFTMAX: return desc->u.softmax.classes * 4;
    case DPT_FAMILY_ELEMENTWISE: return desc->u.elementwise.count;
    case DPT_FAMILY_MAP: return map_cases_work(&desc->u.map);
    case DPT_FAMILY_MATMUL: return matmul_cases_work(&desc->u.matmul);
    case DPT_FAMILY_RECURRENT: return recurrent_cases_work(&desc->u.recurrent);
    case DPT_FAMILY_ATTENTION: return attention_cases_work(desc);
    case DPT_FAMILY_DROPOUT: return desc->u.dropout.count * 8; /* random numbers */
    case DPT_FAMILY_SQUARED_ERROR: return desc->u.squared_error.count;
    case DPT_FAMILY_CHECK_FINITE: return desc->u.check_finite.count;
    case DPT_FAMILY_SGD:
    case DPT_FAMILY_ADAMW:
    case DPT_FAMILY_CLIP_NORM:
    case DPT_FAMILY_COUNT: break;
    }
    return 0;
}

enum { MAX_CALLS = 32 };

/* Calls of one description, in the order in which they are made. */
typedef struct call_list {
    size_t n;
    op_case calls[MAX_CALLS];
} call_list;

static void add_call(call_list *list, const op_case *c)
{
    if (list->n < MAX_CALLS) list->calls[list->n++] = *c;
}

/* One without a halt word, in all places that it may take, and with one that is 0 or not, in place
   as core does it. */
static void add_places(call_list *list, op_case c)
{
    const int n_places = c.accumulate ? 0 : (int)dpt_op_traits_of(c.desc.kind).in_place;
    c.halt = HALT_NONE;
    for (c.in_place = -1; c.in_place < n_places; c.in_place++)
        add_call(list, &c);
    c.in_place = n_places > 0 ? 0 : -1;
    if (!signature_of(&c.desc).may_halt) return;
    for (c.halt = HALT_ZERO; c.halt <= HALT_SET; c.halt++)
        add_call(list, &c);
}

static void add_variants(call_list *list, const op_case *plain, test_random *random)
{
    for (int variant = 0; variant < 4; variant++) {
        op_case c = *plain;
        c.integers = (variant & 1) != 0;
        c.accumulate = (variant & 2) != 0;
        if (c.accumulate && !signature_of(&c.desc).may_accumulate) continue;
        c.seed = test_random_u64(random);
        c.arena = test_random_below(random, 2) == 0;
        add_places(list, c);
    }
}

static void shuffle(call_list *list, test_random *random)
{
    for (size_t left = list->n; left > 1; left--) {
        const size_t drawn = test_random_below(random, left);
        const op_case c = list->calls[drawn];
        list->calls[drawn] = list->calls[left - 1];
        list->calls[left - 1] = c;
    }
}

/* What is prepared is used for several calls, of which any may be the first, and also for fewer
   samples, as in the last step of an epoch; some of the calls have it prepared anew. */
static void vary_call(test *t, const op_case *plain, test_random *random)
{
    call_list *list = calloc(1, sizeof *list);
    dpti_op op = {.device = NULL};
    REQUIRE(list);
    add_variants(list, plain, random);
    if (plain->n_samples > 1) {
        op_case fewer = list->calls[test_random_below(random, list->n)];
        fewer.n_samples = test_random_below(random, plain->n_samples);
        add_call(list, &fewer);
    }
    shuffle(list, random);
    bool prepared = conformance_prepare(t, plain, &op);
    for (size_t i = 0; prepared && i < list->n && !conformance_enough(t); i++) {
        conformance_check(t, &op, &list->calls[i]);
        if (test_random_below(random, 8) != 0) continue;
        dpti_release(&op);
        prepared = conformance_prepare(t, plain, &op);
    }
    dpti_release(&op);
    free(list);
}

/* With --turns half of the descriptions, which the seed chooses, run with 3 and 255 samples, and
   the others with 17 and 257. */
static bool takes_turn(const suite *s, size_t n, uint64_t seed)
{
    test_random turn = {~seed};
    const bool first = test_random_below(&turn, 2) == 0;
    if (!s->turns || n <= 1) return true;
    return first == (n == 3 || n == 255);
}

static void vary_samples(test *t, const dpt_op_desc *desc, uint64_t seed)
{
    static const size_t sizes[] = {1, 0, 3, 17, 255, 257};
    test_random random = {seed};
    const size_t work = work_per_sample(desc);
    const bool per_step = signature_of(desc).per_step;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !conformance_enough(t); i++) {
        const size_t n = sizes[i];
        if ((per_step && n != 1) || !takes_turn(suite_of(t), n, seed)) continue;
        if (n * work > (n > 1 ? suite_of(t)->max_work : suite_of(t)->max_single)) continue;
        op_case c = {.desc = *desc, .n_samples = n, .max_samples = n > 0 ? n : 1, .in_place = -1};
        if (!per_step) c.max_samples += test_random_below(&random, 3) * (n + 2);
        vary_call(t, &c, &random);
    }
}

void conformance_vary(test *t, const dpt_op_desc *desc, uint64_t seed)
{
    dpt_op_desc typed = *desc;
    typed.type = suite_of(t)->device->info.activations;
    if (dpt_op_family_of(desc->kind) == DPT_FAMILY_MAP) map_cases_store(&typed, typed.type);
    vary_samples(t, &typed, seed);
    const bool also_f32 = (dpt_op_traits_of(desc->kind).marks & DPT_MARK_ALSO_F32) != 0;
    if (typed.type != DPT_F32 && also_f32) vary_samples(t, desc, seed);
}

void conformance_nan(test *t, const dpt_op_desc *desc)
{
    static const size_t sizes[] = {1, 3, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !conformance_enough(t); i++) {
        op_case c = {.desc = *desc,
                     .n_samples = sizes[i],
                     .max_samples = sizes[i] + i % 2,
                     .nan = true,
                     .in_place = -1,
                     .seed = i};
        dpti_op op;
        c.desc.type = suite_of(t)->device->info.activations;
        if (!conformance_prepare(t, &c, &op)) continue;
        conformance_check(t, &op, &c);
        dpti_release(&op);
    }
}

/* ---- In words -------------------------------------------------------------------------------- */

static const char *const activation_words[] = {
#define WORD(name, value, derivative, formula) [value] = (value) == DPT_ACT_NONE ? "" : " " #name,
    DPT_ACTIVATION_LIST(WORD)
#undef WORD
};

static void describe_conv(const dpt_conv2d_desc *d, char *out, size_t n)
{
    snprintf(out, n,
             "%zux%zux%zu -> %zux%zux%zu kernel %zux%zu stride %zu,%zu pad %zu,%zu "
             "dilation %zu,%zu groups %zu%s%s mask%s",
             d->in_h, d->in_w, d->in_channels, d->out_h, d->out_w, d->out_channels, d->kernel_h,
             d->kernel_w, d->stride_h, d->stride_w, d->pad_h, d->pad_w, d->dilation_h,
             d->dilation_w, d->groups, d->has_bias ? " bias" : "", activation_words[d->activation],
             d->input_activation ? activation_words[d->input_activation] : " none");
}

/* Layers and norms: what describe_desc has in a function of its own. */
static void describe_layer(const dpt_op_desc *desc, char *out, size_t n)
{
    const dpt_linear_desc *l = &desc->u.linear;
    const dpt_pool2d_desc *p = &desc->u.pool2d;
    const dpt_batch_norm_desc *b = &desc->u.batch_norm;
    const dpt_layer_norm_desc *ln = &desc->u.layer_norm;
    switch (dpt_op_family_of(desc->kind)) {
    case DPT_FAMILY_LINEAR:
        snprintf(out, n, "%zu -> %zu rows %zu from %zu%s%s mask%s", l->in, l->out, l->rows,
                 l->first, l->has_bias ? " bias" : "", activation_words[l->activation],
                 l->input_activation ? activation_words[l->input_activation] : " none");
        return;
    case DPT_FAMILY_POOL2D:
        snprintf(out, n,
                 "%s %zux%zux%zu -> %zux%zu kernel %zux%zu stride %zu,%zu pad %zu,%zu mask%s",
                 p->kind == DPT_POOL_MAX ? "max" : "average", p->in_h, p->in_w, p->channels,
                 p->out_h, p->out_w, p->kernel_h, p->kernel_w, p->stride_h, p->stride_w, p->pad_h,
                 p->pad_w, p->input_activation ? activation_words[p->input_activation] : " none");
        return;
    case DPT_FAMILY_BATCH_NORM:
        snprintf(out, n, "area %zu channels %zu parts %zu%s%s mask%s%s", b->area, b->channels,
                 b->n_parts, b->has_residual ? " residual" : "", activation_words[b->activation],
                 b->input_activation ? activation_words[b->input_activation] : " none",
                 b->output_activation ? " own relu" : "");
        return;
    case DPT_FAMILY_LAYER_NORM:
        snprintf(out, n, "rows %zu channels %zu mask%s", ln->rows, ln->channels,
                 ln->input_activation ? activation_words[ln->input_activation] : " none");
        return;
    default: describe_conv(&desc->u.conv2d, out, n);
    }
}

static void describe_desc(const dpt_op_desc *desc, char *out, size_t n)
{
    const dpt_gather_desc *g = &desc->u.gather;
    const dpt_elementwise_desc *e = &desc->u.elementwise;
    const dpt_sgd_desc *s = &desc->u.sgd;
    const dpt_adamw_desc *w = &desc->u.adamw;
    switch (dpt_op_family_of(desc->kind)) {
    case DPT_FAMILY_GATHER:
        snprintf(out, n,
                 "dtype %d count %zu records %zu channels %zu image %zux%zu pad %zu%s erase %g "
                 "rotate %g "
                 "jitter %g %g %g %g randaugment %zu %zu",
                 (int)g->dtype, g->count, g->n_records, g->channels, g->augment.height,
                 g->augment.width, g->augment.pad, g->augment.flip ? " flip" : "",
                 (double)g->augment.erase, (double)g->augment.rotate, (double)g->augment.brightness,
                 (double)g->augment.contrast, (double)g->augment.saturation, (double)g->augment.hue,
                 g->augment.ops, g->augment.magnitude);
        return;
    case DPT_FAMILY_CONV2D:
    case DPT_FAMILY_LINEAR:
    case DPT_FAMILY_POOL2D:
    case DPT_FAMILY_BATCH_NORM:
    case DPT_FAMILY_LAYER_NORM: describe_layer(desc, out, n); return;
    case DPT_FAMILY_ACTIVATION:
        snprintf(out, n, "count %zu%s", desc->u.activation.count,
                 activation_words[desc->u.activation.kind]);
        return;
    case DPT_FAMILY_ROW_SOFTMAX:
        snprintf(out, n, "rows %zu columns %zu%s", desc->u.row_softmax.rows,
                 desc->u.row_softmax.columns, desc->u.row_softmax.log ? " log" : "");
        return;
    case DPT_FAMILY_TAKE:
        snprintf(out, n, "count %zu width %zu rows %zu", desc->u.take.count, desc->u.take.width,
                 desc->u.take.rows);
        return;
    case DPT_FAMILY_SOFTMAX:
        snprintf(out, n, "classes %zu smoothing %g", desc->u.softmax.classes,
                 (double)desc->u.softmax.smoothing);
        return;
    case DPT_FAMILY_DROPOUT:
        snprintf(out, n, "count %zu p %g stream %u", desc->u.dropout.count,
                 (double)desc->u.dropout.p, desc->u.dropout.stream);
        return;
    case DPT_FAMILY_SQUARED_ERROR:
        snprintf(out, n, "count %zu", desc->u.squared_error.count);
        return;
    case DPT_FAMILY_ELEMENTWISE:
        snprintf(out, n, "count %zu alpha %g beta %g", e->count, (double)e->alpha, (double)e->beta);
        return;
    case DPT_FAMILY_SGD:
        snprintf(out, n, "count %zu decay %zu momentum %g weight decay %g%s", s->count,
                 s->decay_count, (double)s->momentum, (double)s->weight_decay,
                 s->nesterov ? " nesterov" : "");
        return;
    case DPT_FAMILY_ADAMW:
        snprintf(out, n, "count %zu decay %zu betas %g, %g epsilon %g weight decay %g", w->count,
                 w->decay_count, (double)w->beta1, (double)w->beta2, (double)w->epsilon,
                 (double)w->weight_decay);
        return;
    case DPT_FAMILY_CLIP_NORM:
        snprintf(out, n, "count %zu norm %g", desc->u.clip_norm.count,
                 (double)desc->u.clip_norm.max_norm);
        return;
    case DPT_FAMILY_CHECK_FINITE: snprintf(out, n, "count %zu", desc->u.check_finite.count); return;
    case DPT_FAMILY_MAP: map_cases_describe(&desc->u.map, out, n); return;
    case DPT_FAMILY_MATMUL: matmul_cases_describe(&desc->u.matmul, out, n); return;
    case DPT_FAMILY_RECURRENT: recurrent_cases_describe(&desc->u.recurrent, out, n); return;
    case DPT_FAMILY_ATTENTION: attention_cases_describe(&desc->u.attention, out, n); return;
    case DPT_FAMILY_COUNT: break;
    }
    snprintf(out, n, "?");
}

static const char *const halt_words[N_HALT_CASES] = {"", ", halt word 0", ", halted"};

void conformance_describe(const op_case *c, char *out, size_t n_bytes)
{
    char desc[320];
    describe_desc(&c->desc, desc, sizeof desc);
    snprintf(out, n_bytes, "%s%s %s, n %zu of %zu%s%s%s%s%s%s", dpti_op_name(c->desc.kind),
             c->desc.type == DPT_BF16 ? " in bfloat16" : "", desc, c->n_samples, c->max_samples,
             c->accumulate ? ", accumulate" : "", halt_words[c->halt],
             c->integers ? ", integers" : "", c->nan ? ", a NaN" : "",
             c->arena ? ", one buffer" : "", c->in_place >= 0 ? ", in place" : "");
}
