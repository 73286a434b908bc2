/* The settings of a trainer as texts.  Numbers have enough digits to distinguish any two floats.
   What is too large for a text, the layers and the data, is stored as a CRC-32. */
#include "checkpoint/settings.h"

#include "base/parse.h"
#include "base/print.h"
#include "graph/loss.h"
#include "graph/model_hash.h"
#include "train/components/batch_norm.h"
#include "train/components/checksum.h"
#include "train/components/schedule.h"
#include "train/progress/groups.h"
#include "train/state/trainer.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *yes(bool is)
{
    return is ? "yes" : "no";
}

static void add_real(dpti_settings *s, const char *key, float value)
{
    dpti_settings_add(s, key, "%.9g", (double)value);
}

/* A data set that was written during training has another content each time, so its content is not
   compared. */
static void add_data(const dpt_dataset *d, dpti_settings *s)
{
    char content[16] = "written";
    if (!dpti_dataset_whole(d)->writable)
        snprintf(content, sizeof content, "%08x", (unsigned)dpti_dataset_content(d));
    dpti_settings_add(s, "dataset", "%.60s, %zu of %zux%zux%zu, %zu classes, %s", d->name, d->count,
                      d->height, d->width, d->channels, d->classes, content);
    dpti_settings_add(s, "normalize", "%.9g %.9g %.9g %.9g by %.9g %.9g %.9g %.9g",
                      (double)d->mean[0], (double)d->mean[1], (double)d->mean[2],
                      (double)d->mean[3], (double)d->scale[0], (double)d->scale[1],
                      (double)d->scale[2], (double)d->scale[3]);
}

/* An option that earlier versions did not have is recorded only if it is used. */
static void add_optimizer(const dpt_trainer *t, dpti_settings *s)
{
    const dpti_optimizer *o = &t->program.optimizer;
    char groups[40] = "";
    const bool adamw = o->kind == DPT_OPTIMIZER_ADAMW;
    if (o->rules) dpti_print(groups, sizeof groups, ", groups %016" PRIx64, dpti_rules_checksum(t));
    dpti_settings_add(s, "optimizer", "%s%s", adamw ? "adamw" : "sgd", groups);
    add_real(s, "momentum", o->momentum);
    dpti_settings_add(s, "nesterov", "%s", yes(o->nesterov));
    add_real(s, "beta1", adamw ? o->beta1 : 0);
    add_real(s, "beta2", adamw ? o->beta2 : 0);
    add_real(s, "epsilon", adamw ? o->epsilon : 0);
    add_real(s, "weight-decay", o->weight_decay);
    dpti_settings_add(s, "no-bias-decay", "%s", yes(o->no_bias_decay));
    add_real(s, "clip-norm", o->clip_norm);
}

/* An option that earlier versions did not have is recorded only if it is used. */
static void add_augment(const dpti_program_options *p, dpti_settings *s)
{
    const dpt_augment_options *a = &p->augment;
    const dpt_jitter_options *j = &p->jitter;
    char crop[48] = "", rotate[48] = "", jitter[96] = "";
    if (a->resized_crop > 0)
        dpti_print(crop, sizeof crop, ", resized crop %.9g", (double)a->resized_crop);
    if (p->rotate > 0) dpti_print(rotate, sizeof rotate, ", rotate %.9g", (double)p->rotate);
    if (j->brightness > 0 || j->contrast > 0 || j->saturation > 0 || j->hue > 0)
        dpti_print(jitter, sizeof jitter, ", jitter %.9g:%.9g:%.9g:%.9g", (double)j->brightness,
                   (double)j->contrast, (double)j->saturation, (double)j->hue);
    dpti_settings_add(s, "augment", "crop %zu, flip %s, erase %.9g%s%s%s", a->crop_padding,
                      yes(a->flip), (double)a->erase, crop, rotate, jitter);
}

/* An option that earlier versions did not have is recorded only if it is used. */
static void add_loss(const dpt_trainer *t, dpti_settings *s)
{
    const size_t n_bytes = dpt_model_outputs(t->model) * sizeof *t->class_weights;
    char weights[48] = "";
    if (t->class_weights)
        dpti_print(weights, sizeof weights, ", class weights %016" PRIx64,
                   dpti_checksum(1, t->class_weights, n_bytes));
    dpti_settings_add(s, "loss", "%s%s", dpti_loss_names[t->program.loss], weights);
}

static void add_local_steps(const dpt_trainer *t, dpti_settings *s)
{
    char delay[48] = "", fragments[48] = ""; /* files of version 0.2 have none */
    if (t->outer_delay > 0) snprintf(delay, sizeof delay, ", outer delay %zu", t->outer_delay);
    if (t->n_fragments > 1)
        snprintf(fragments, sizeof fragments, ", outer fragments %zu", t->n_fragments);
    if (t->local_steps > 0)
        dpti_settings_add(s, "local-steps", "%zu, outer rate %.9g, outer momentum %.9g%s%s",
                          t->local_steps, (double)t->outer_lr, (double)t->outer_momentum, delay,
                          fragments);
    else
        dpti_settings_add(s, "local-steps", "none");
}

void dpti_settings_of_trainer(const dpt_trainer *trainer, dpti_settings *settings)
{
    const dpt_trainer *t = trainer;
    const dpti_program_options *p = &t->program;
    dpti_settings *s = settings;
    dpti_settings_add(s, "model", "%.60s, %zu parameters, %08x", t->model->name, t->model->scalars,
                      (unsigned)dpti_model_hash(t->model));
    if (t->accumulate > 1) /* the last number belongs to --accumulate */
        dpti_settings_add(s, "batch-size", "%zu x %zu", t->batch_size, t->accumulate);
    else
        dpti_settings_add(s, "batch-size", "%zu", t->batch_size);
    dpti_settings_add(s, "seed", "%llu", (unsigned long long)t->seed);
    add_data(t->data, s);
    dpti_settings_add(s, "no-shuffle", "%s", yes(!t->shuffle));
    add_optimizer(t, s);
    add_loss(t, s);
    if (p->loss == DPT_LOSS_HUBER) add_real(s, "huber-delta", p->huber_delta);
    add_real(s, "label-smoothing", p->label_smoothing);
    dpti_settings_add(s, "batchnorm", "%s", dpti_batch_norm_names[t->batch_norm]);
    add_augment(p, s);
    if (p->randaugment.ops > 0)
        dpti_settings_add(s, "randaugment", "%zu operations, magnitude %zu", p->randaugment.ops,
                          p->randaugment.magnitude);
    else
        dpti_settings_add(s, "randaugment", "%s", yes(false));
    if (dpti_mixes(p))
        dpti_settings_add(s, "mixing", "mixup %.9g, cutmix %.9g", (double)p->mixup,
                          (double)p->cutmix);
    else
        dpti_settings_add(s, "mixing", "%s", yes(false));
    dpti_settings_add(s, "deterministic", "%s", yes(p->deterministic));
    add_local_steps(t, s);
}

void dpti_settings_of_course(const dpt_schedule *schedule, double lr, size_t total_steps,
                             dpti_settings *settings)
{
    const dpt_schedule *c = schedule;
    const bool ends = c->kind != DPT_SCHEDULE_CONSTANT && c->kind != DPT_SCHEDULE_STEP;
    dpti_settings *s = settings;
    dpti_settings_add(s, "lr", "%.9g", lr);
    dpti_settings_add(s, "schedule", "%s", dpti_schedule_names[c->kind]);
    dpti_settings_add(s, "warmup", "%zu steps", c->warmup_steps);
    if (c->kind == DPT_SCHEDULE_STEP) {
        dpti_settings_add(s, "step-every", "%zu epochs", c->every);
        add_real(s, "step-factor", c->factor);
    }
    if (dpti_schedule_counts_behind_warmup(c->kind)) {
        add_real(s, "min-lr", c->min_lr);
        dpti_settings_add(s, "schedule-steps", "%zu steps", total_steps);
    } else if (ends) {
        dpti_settings_add(s, "epochs", "%zu steps in all", total_steps);
    }
}

void dpti_setting_option(const dpti_setting *setting, char *text, size_t n_bytes)
{
    /* Settings that have another name than their option, or that come from several options. */
    static const struct {
        const char *key, *options;
    } others[] = {
        {.key = "model", .options = " (--model, --lora)"},
        {.key = "schedule-steps", .options = " (--schedule-steps, or --epochs and --max-steps)"},
        {.key = "dataset", .options = " (--dataset, --data, --validation)"},
        {.key = "batch-size", .options = " (--batch-size, --accumulate)"},
        {.key = "local-steps",
         .options = " (--local-steps, --outer-lr, --outer-momentum, --outer-delay, "
                    "--outer-fragments)"},
        {.key = "optimizer", .options = " (--optimizer, --freeze, --group)"},
        {.key = "loss", .options = " (--loss, --class-weights)"},
        {.key = "epochs", .options = " (--epochs, --max-steps)"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(setting->key, others[i].key) == 0) {
            snprintf(text, n_bytes, "%s", others[i].options);
            return;
        }
    snprintf(text, n_bytes, " (--%s)", setting->key);
}

void dpti_setting_show(const char *setting, char *text, size_t n_bytes)
{
    enum { MOST_DIGITS = 9 };
    double value, shown;
    if (strchr(setting, '.') && dpti_parse_real(setting, -FLT_MAX, FLT_MAX, &value))
        for (int digits = 1; digits <= MOST_DIGITS; digits++) {
            dpti_print(text, n_bytes, "%.*g", digits, value);
            if (dpti_parse_real(text, -FLT_MAX, FLT_MAX, &shown) && (float)shown == (float)value)
                return;
        }
    snprintf(text, n_bytes, "%s", setting);
}

const dpti_setting *dpti_settings_differ(const dpti_settings *now, const dpti_settings *then,
                                         const char **was)
{
    for (size_t i = 0; i < now->n; i++) {
        *was = dpti_settings_find(then, now->list[i].key);
        /* The version that wrote the checkpoint did not have this option. */
        if (!*was && strcmp(now->list[i].text, yes(false)) == 0) continue;
        if (!*was || strcmp(*was, now->list[i].text) != 0) return &now->list[i];
    }
    return NULL;
}
