/* The recipe of a model: the settings that it has for options which nobody gives, and how the
 * header of a training shows them. */
#include "recipe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bits of cli_taken.parts. */
enum {
    BATCH = 1 << 0,
    ADAMW = 1 << 1,
    RATE = 1 << 2,
    BASE_BATCH = 1 << 3,
    MOMENTUM = 1 << 4,
    BETAS = 1 << 5,
    DECAY = 1 << 6,
    CLIP = 1 << 7,
    SMOOTHING = 1 << 8,
    SCHEDULE = 1 << 9,
    LEAST_RATE = 1 << 10,
    AUGMENT = 1 << 11,
    INIT = 1 << 12,
};

/* Whether the command line or a file of settings has the option whose value is this field. */
#define GIVEN(options, field) cli_is_given(options, offsetof(cli_options, field))

/* Loaded weights are trained on at this part of the rate. */
static const double part_of_loaded = 0.1;

/* Adapters are new, although the weights of their base are loaded. */
static bool loads(const cli_options *o)
{
    return o->load && !o->lora;
}

static bool is(const char *value, const char *word)
{
    return value && strcmp(value, word) == 0;
}

static bool contains(const char *const *list, const char *word)
{
    for (; *list; list++)
        if (strcmp(*list, word) == 0) return true;
    return false;
}

/* ---- Whether there is one -------------------------------------------------------------------- */

/* Sets *wanted by --recipe or the environment. */
static int find_wanted(const cli_options *o, bool *wanted)
{
    const char *variable = getenv("DPTRAIN_RECIPE");
    const char *word = o->recipe ? o->recipe : variable && *variable ? variable : "default";
    *wanted = is(word, "default");
    if (*wanted || is(word, "none")) return CLI_OK;
    return cli_error(CLI_USAGE, "DPTRAIN_RECIPE: unknown value '%s'; known: default, none", word);
}

/* Why a network of images has no recipe with these options, or NULL. */
static const char *why_none(const cli_options *o)
{
    static const char *const arrays[] = {"npz:", "npy:", "csv:"};
    if (o->loss && !is(o->loss, "cross-entropy")) return "recipes are for cross-entropy";
    for (size_t i = 0; o->dataset && i < sizeof arrays / sizeof *arrays; i++)
        if (strncmp(o->dataset, arrays[i], strlen(arrays[i])) == 0)
            return "arrays need not be images";
    return NULL;
}

/* The number with the digits that it has in the table, as an option gives it. */
static double decimal(float value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.6g", (double)value);
    return strtod(digits, NULL);
}

/* ---- What is taken --------------------------------------------------------------------------- */

/* The option that asks for another optimizer than the recipe's, or NULL. */
static const char *asks_for_other(const cli_options *o, bool adamw)
{
    if (GIVEN(o, optimizer))
        return is(o->optimizer, "adamw") == adamw ? NULL
               : adamw                            ? "optimizer sgd"
                                                  : "optimizer adamw";
    if (adamw) return o->momentum > 0 ? "momentum" : o->nesterov ? "nesterov" : NULL;
    return o->beta1 > 0 ? "beta1" : o->beta2 > 0 ? "beta2" : o->epsilon > 0 ? "epsilon" : NULL;
}

static void take_rate(cli_options *o, const dpt_trainer_options *r)
{
    if (GIVEN(o, lr)) return;
    o->lr = decimal(r->lr) * (loads(o) ? part_of_loaded : 1);
    o->taken.parts |= RATE;
    if (GIVEN(o, lr_base_batch) || !r->lr_base_batch) return;
    o->lr_base_batch = r->lr_base_batch;
    o->taken.parts |= BASE_BATCH;
}

/* The settings whose values suit one optimizer only. */
static void take_optimizer(cli_options *o, const dpt_trainer_options *r)
{
    const bool adamw = r->optimizer == DPT_OPTIMIZER_ADAMW;
    o->taken.no_optimizer = asks_for_other(o, adamw);
    if (o->taken.no_optimizer) return;
    take_rate(o, r);
    if (adamw && !GIVEN(o, optimizer)) {
        o->optimizer = "adamw";
        o->taken.parts |= ADAMW;
    }
    if (!GIVEN(o, momentum) && r->momentum > 0) {
        o->momentum = decimal(r->momentum);
        if (!GIVEN(o, nesterov)) o->nesterov = r->nesterov;
        o->taken.parts |= MOMENTUM;
    }
    if (r->beta1 > 0 && !GIVEN(o, beta1) && !GIVEN(o, beta2)) {
        o->beta1 = decimal(r->beta1);
        o->beta2 = decimal(r->beta2);
        o->taken.parts |= BETAS;
    }
    if (!GIVEN(o, weight_decay) && r->weight_decay > 0) {
        o->weight_decay = decimal(r->weight_decay);
        if (!GIVEN(o, no_bias_decay)) o->no_bias_decay = r->no_bias_decay;
        o->taken.parts |= DECAY;
    }
}

/* A schedule that falls must know how many steps there are. */
static void take_schedule(cli_options *o, const dpt_schedule *schedule, double rate)
{
    if (GIVEN(o, schedule)) return;
    if (!cli_epochs(o) && !o->max_steps && !o->schedule_steps) {
        o->taken.no_schedule = "max-time alone";
        return;
    }
    o->schedule = cli_schedule_name(schedule->kind);
    o->taken.parts |= SCHEDULE;
    if (!GIVEN(o, min_lr) && schedule->min_lr > 0 && o->lr > 0) {
        const double factor = o->lr / rate; /* 1 if the rate is the recipe's */
        o->min_lr = factor * decimal(schedule->min_lr);
        o->taken.parts |= LEAST_RATE;
    }
    if (!GIVEN(o, warmup) && schedule->warmup_steps) {
        o->warmup = (cli_span){.n = schedule->warmup_steps};
        o->taken.warmup = true;
    }
}

/* Only of these images it is known that their mirror images have the same class. */
static void take_augment(cli_options *o, const dpt_augment_options *augment)
{
    static const char *const mirrored[] = {"fashion-mnist", "cifar10", "cifar100",
                                           "cifar100:coarse", NULL};
    if (GIVEN(o, augment)) return;
    o->augment = (cli_augment){.images = *augment};
    o->augment.images.flip = augment->flip && (!o->dataset || contains(mirrored, o->dataset));
    if (augment->crop_padding || o->augment.images.flip) o->taken.parts |= AUGMENT;
}

static void take(cli_options *o, const dpt_trainer_options *r, const dpt_schedule *schedule)
{
    if (!GIVEN(o, batch_size)) {
        o->taken.batch_size = r->batch_size;
        o->taken.parts |= BATCH;
    }
    take_optimizer(o, r);
    take_schedule(o, schedule, decimal(r->lr));
    take_augment(o, &r->augment);
    if (!GIVEN(o, clip_norm) && r->clip_norm > 0) {
        o->clip_norm = decimal(r->clip_norm);
        o->taken.parts |= CLIP;
    }
    if (!GIVEN(o, label_smoothing) && !o->class_weights && r->label_smoothing > 0) {
        o->label_smoothing = decimal(r->label_smoothing);
        o->taken.parts |= SMOOTHING;
    }
    if (!GIVEN(o, init) && r->init.kind == DPT_INIT_HE) {
        o->init = r->init;
        o->taken.parts |= INIT;
    }
}

int cli_recipe_take(cli_options *options)
{
    cli_options *o = options;
    dpt_trainer_options trainer = {.size = sizeof trainer};
    dpt_schedule schedule;
    const char *model = o->model ? o->model : cli_default_model;
    bool wanted;
    const int code = find_wanted(o, &wanted);
    if (code != CLI_OK || !wanted) return code;
    if (contains(dpt_model_names(), model)) o->taken.none = why_none(o);
    if (o->taken.none) return CLI_OK;
    if (!dpt_training_recipe(model, &trainer, &schedule)) {
        o->taken.none = "this model has none";
        return CLI_OK;
    }
    o->taken.model = model;
    take(o, &trainer, &schedule);
    return CLI_OK;
}

/* ---- How it is shown ------------------------------------------------------------------------- */

/* The options, as they would be given without the recipe. */
static void print_optimizer(const cli_options *o, size_t samples)
{
    const unsigned parts = o->taken.parts;
    if (parts & ADAMW) printf(" --optimizer adamw");
    if (parts & RATE) printf(" --lr %g", o->lr);
    if (parts & BASE_BATCH && o->lr_base_batch != samples)
        printf(" --lr-base-batch %zu", o->lr_base_batch);
    if (parts & MOMENTUM) printf(" --momentum %g%s", o->momentum, o->nesterov ? " --nesterov" : "");
    if (parts & BETAS) printf(" --beta1 %g --beta2 %g", o->beta1, o->beta2);
    if (parts & DECAY)
        printf(" --weight-decay %g%s", o->weight_decay, o->no_bias_decay ? " --no-bias-decay" : "");
    if (parts & CLIP) printf(" --clip-norm %g", o->clip_norm);
}

static void print_rest(const cli_options *o, const dpt_schedule *schedule)
{
    const unsigned parts = o->taken.parts;
    if (parts & SMOOTHING) printf(" --label-smoothing %g", o->label_smoothing);
    if (parts & SCHEDULE) printf(" --schedule %s", o->schedule);
    if (o->taken.warmup) printf(" --warmup %zu", schedule->warmup_steps);
    if (parts & LEAST_RATE) printf(" --min-lr %g", o->min_lr);
    if (parts & AUGMENT) {
        const dpt_augment_options *a = &o->augment.images;
        printf(" --augment ");
        if (a->crop_padding) printf("crop:%zu", a->crop_padding);
        if (a->flip) printf("%sflip", a->crop_padding ? "," : "");
    }
    if (parts & INIT) printf(" --init he");
}

void cli_recipe_print_taken(const cli_options *options, size_t count)
{
    const cli_taken *t = &options->taken;
    if (t->none) printf("%-10snone, because %s\n", "recipe", t->none);
    if (!t->model) return;
    const dpt_schedule schedule = cli_schedule(options, count);
    printf("%-10s%s:", "recipe", t->model);
    if (t->parts & BATCH) printf(" --batch-size %zu", cli_batch_size(options, count));
    print_optimizer(options, cli_step_samples(options, count));
    print_rest(options, &schedule);
    if (!t->parts && !t->warmup) printf(" nothing, because options say all");
    if (t->parts & RATE && loads(options)) printf("; a tenth of its rate, because of --load");
    if (t->no_optimizer) printf("; not its optimizer, because of --%s", t->no_optimizer);
    if (t->no_schedule) printf("; not its schedule, because of --%s", t->no_schedule);
    printf("\n");
}
