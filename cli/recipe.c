/* The options of optimizer, schedule and batch: which go together, what they mean to the library,
   and how the header of a training shows them. */
#include "recipe.h"
#include "lists.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_BATCH = 256, DEFAULT_EPOCHS = 5 };

const char cli_default_model[] = "lenet";

static const struct {
    const char *name;
    dpt_schedule_kind kind;
} schedules[] = {
    {"constant", DPT_SCHEDULE_CONSTANT},
    {"step", DPT_SCHEDULE_STEP},
    {"cosine", DPT_SCHEDULE_COSINE},
    {"onecycle", DPT_SCHEDULE_ONECYCLE},
    {"cosine-nanogpt", DPT_SCHEDULE_COSINE_NANOGPT},
    {"cosine-transformers", DPT_SCHEDULE_COSINE_TRANSFORMERS},
    {"linear-transformers", DPT_SCHEDULE_LINEAR_TRANSFORMERS},
};

static bool is(const char *value, const char *word)
{
    return value && strcmp(value, word) == 0;
}

static dpt_shard shard_of(const cli_options *options)
{
    if (is(options->shard, "auto")) return DPT_SHARD_AUTO;
    if (is(options->shard, "parameters")) return DPT_SHARD_PARAMETERS;
    if (is(options->shard, "gradients")) return DPT_SHARD_GRADIENTS;
    return is(options->shard, "optimizer") ? DPT_SHARD_OPTIMIZER : DPT_SHARD_NONE;
}

dpt_batch_norm_mode cli_batch_norm(const cli_options *options)
{
    if (options->freeze_batch_norm || is(options->batchnorm, "frozen"))
        return DPT_BATCH_NORM_FROZEN;
    return is(options->batchnorm, "local") ? DPT_BATCH_NORM_LOCAL : DPT_BATCH_NORM_SYNC;
}

static bool is_adamw(const cli_options *options)
{
    return is(options->optimizer, "adamw");
}

/* ---- What goes together ---------------------------------------------------------------------- */

static int check_optimizer(const cli_options *o)
{
    if (is_adamw(o)) {
        if (o->momentum > 0 || o->nesterov)
            return cli_error(CLI_USAGE,
                             "--%s goes with --optimizer sgd; adamw has --beta1 and "
                             "--beta2",
                             o->nesterov ? "nesterov" : "momentum");
        return CLI_OK;
    }
    if (o->beta1 > 0 || o->beta2 > 0 || o->epsilon > 0)
        return cli_error(CLI_USAGE, "--%s goes with --optimizer adamw",
                         o->beta1 > 0   ? "beta1"
                         : o->beta2 > 0 ? "beta2"
                                        : "epsilon");
    if (o->nesterov && !(o->momentum > 0))
        return cli_error(CLI_USAGE, "--nesterov needs --momentum above 0");
    return CLI_OK;
}

static int check_schedule(const cli_options *o)
{
    if ((o->step_every || o->step_factor > 0) && !is(o->schedule, "step"))
        return cli_error(CLI_USAGE, "--%s goes with --schedule step",
                         o->step_every ? "step-every" : "step-factor");
    const bool behind_warmup = is(o->schedule, "cosine-nanogpt") ||
                               is(o->schedule, "cosine-transformers") ||
                               is(o->schedule, "linear-transformers");
    const bool ends = behind_warmup || is(o->schedule, "cosine") || is(o->schedule, "onecycle");
    if ((o->min_lr > 0 || o->schedule_steps) && !behind_warmup)
        return cli_error(CLI_USAGE,
                         "--%s goes with --schedule cosine-nanogpt, cosine-transformers and "
                         "linear-transformers",
                         o->min_lr > 0 ? "min-lr" : "schedule-steps");
    if (ends && !cli_epochs(o) && !o->max_steps && !o->schedule_steps)
        return cli_error(CLI_USAGE,
                         "--schedule %s must know how many steps there are: give "
                         "--epochs or --max-steps beside --max-time",
                         o->schedule);
    return CLI_OK;
}

static int check_checkpoint(const cli_options *o)
{
    const dpt_interval every = o->checkpoint_every;
    /* With several processes only the first needs the folder, and dpt_fit checks that. */
    const bool alone = dpt_processes_launched() <= 1;
    if (o->metrics && !o->log && alone)
        return cli_error(CLI_USAGE, "--metrics goes with --log, which gets them");
    if (o->checkpoint) return CLI_OK;
    if (o->resume && alone)
        return cli_error(CLI_USAGE,
                         "--resume needs --checkpoint DIR, the folder of the training to continue");
    if (o->checkpoint_keep || every.steps || every.epochs || every.seconds > 0)
        return cli_error(CLI_USAGE, "--checkpoint-%s goes with --checkpoint",
                         o->checkpoint_keep ? "keep" : "every");
    if (o->host_copy && alone) return cli_error(CLI_USAGE, "--host-copy goes with --checkpoint");
    if (o->requeue_exit && alone)
        return cli_error(CLI_USAGE, "--requeue-exit goes with --checkpoint");
    return CLI_OK;
}

int cli_recipe_check(const cli_options *options)
{
    if (options->freeze_batch_norm && options->batchnorm && !is(options->batchnorm, "frozen"))
        return cli_error(CLI_USAGE, "--freeze-batch-norm and --batchnorm %s: leave one",
                         options->batchnorm);
    const int kept = check_checkpoint(options);
    if (kept != CLI_OK) return kept;
    if (options->offload && (is(options->shard, "none") || is(options->shard, "auto")))
        return cli_error(CLI_USAGE, "--offload and --shard %s: leave one", options->shard);
    if (options->fresh && options->lora)
        return cli_error(CLI_USAGE, "--fresh and --lora: the base keeps the weights of its file");
    if (options->load_partial && options->lora)
        return cli_error(CLI_USAGE,
                         "--load-partial and --lora: the base takes all weights of its file");
    if (options->load_partial && !options->load)
        return cli_error(CLI_USAGE, "--load-partial goes with --load, the file of the weights");
    if (options->fresh && !options->load)
        return cli_error(CLI_USAGE, "--fresh goes with --load, the file of the other layers");
    if (options->patience && !(options->validation > 0))
        return cli_error(CLI_USAGE, "--patience needs --validation, such as --validation 0.1");
    const int code = check_optimizer(options);
    return code == CLI_OK ? check_schedule(options) : code;
}

/* ---- What they mean -------------------------------------------------------------------------- */

dpt_loss cli_loss(const cli_options *options)
{
    static const struct {
        const char *name;
        dpt_loss loss;
    } losses[] = {
        {"squared-error", DPT_LOSS_SQUARED_ERROR},
        {"mse", DPT_LOSS_SQUARED_ERROR},
        {"absolute", DPT_LOSS_ABSOLUTE_ERROR},
        {"huber", DPT_LOSS_HUBER},
        {"binary-cross-entropy", DPT_LOSS_BINARY_CROSS_ENTROPY},
        {"bce", DPT_LOSS_BINARY_CROSS_ENTROPY},
    };
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (is(options->loss, losses[i].name)) return losses[i].loss;
    return DPT_LOSS_CROSS_ENTROPY;
}

dpt_loss cli_loss_of(const cli_options *options, const dpt_weights_info *weights)
{
    return options->loss ? cli_loss(options) : weights->loss;
}

size_t cli_batch_size(const cli_options *options, size_t count)
{
    const size_t size = options->taken.batch_size ? options->taken.batch_size : DEFAULT_BATCH;
    if (options->batch_size) return options->batch_size;
    return count < size ? count : size;
}

size_t cli_epochs(const cli_options *options)
{
    if (options->epochs) return options->epochs;
    return options->max_steps || options->max_time > 0 ? 0 : DEFAULT_EPOCHS;
}

size_t cli_step_samples(const cli_options *options, size_t count)
{
    const size_t batch = cli_batch_size(options, count);
    return options->accumulate > 1 && options->accumulate <= count / batch
               ? batch * options->accumulate
               : batch;
}

static double rate(const cli_options *options)
{
    if (options->lr > 0) return options->lr;
    return is_adamw(options) ? 0.001 : 0.1;
}

static dpt_compression compression(const char *word)
{
    if (is(word, "bf16")) return DPT_COMPRESS_BF16;
    if (is(word, "lowrank")) return DPT_COMPRESS_LOWRANK;
    return is(word, "int8") ? DPT_COMPRESS_INT8 : DPT_COMPRESS_NONE;
}

static void take_local_steps(const cli_options *o, dpt_trainer_options *out)
{
    out->local_steps = o->local_steps;
    out->outer_delay = o->outer_delay;
    out->outer_fragments = o->outer_fragments;
    out->outer_lr = (float)o->outer_lr;
    out->outer_momentum = (float)o->outer_momentum;
    out->no_outer_momentum = o->local_steps > 0 && o->outer_momentum == 0 &&
                             cli_is_given(o, offsetof(cli_options, outer_momentum));
}

dpt_trainer_options cli_trainer_options(const cli_options *options, size_t count)
{
    static const cli_lists none;
    const cli_options *o = options;
    const cli_lists *lists = o->lists ? o->lists : &none;
    dpt_trainer_options out = {
        .size = sizeof(dpt_trainer_options),
        .batch_size = cli_batch_size(o, count),
        .micro_batch = o->micro_batch,
        .accumulate = o->accumulate,
        .no_overlap = is(o->overlap, "off"),
        .no_standby = is(o->standby, "off"),
        .compress = compression(o->compress),
        .compress_rank = o->compress_rank,
        .split = dpt_split_from(o->split),
        .optimizer = is_adamw(o) ? DPT_OPTIMIZER_ADAMW : DPT_OPTIMIZER_SGD,
        .lr = (float)rate(o),
        .lr_base_batch = o->lr_base_batch,
        .momentum = (float)o->momentum,
        .weight_decay = (float)o->weight_decay,
        .nesterov = o->nesterov,
        .no_bias_decay = o->no_bias_decay,
        .beta1 = (float)o->beta1,
        .beta2 = (float)o->beta2,
        .epsilon = (float)o->epsilon,
        .clip_norm = (float)o->clip_norm,
        .loss = cli_loss(o),
        .label_smoothing = (float)o->label_smoothing,
        .huber_delta = (float)o->huber_delta,
        .class_weights = lists->n_class_weights ? lists->class_weights : NULL,
        .n_class_weights = lists->n_class_weights,
        .groups = lists->n_groups ? lists->groups : NULL,
        .n_groups = lists->n_groups,
        .batch_norm = cli_batch_norm(o),
        .augment = o->augment.images,
        .rotate = o->augment.rotate,
        .jitter = o->augment.jitter,
        .randaugment = o->augment.randaugment,
        .mixup = o->augment.mixup,
        .cutmix = o->augment.cutmix,
        .init = o->init,
        .seed = o->seed,
        .no_shuffle = o->no_shuffle,
        .stop_on_loss = o->stop_on_loss,
        .device_timeout = o->device_timeout,
        .verify_replicas = o->verify_replicas,
        .readmit_after = o->readmit_after,
        .deterministic = o->deterministic,
        .recompute = is(o->recompute, "on")    ? DPT_RECOMPUTE_ON
                     : is(o->recompute, "off") ? DPT_RECOMPUTE_OFF
                                               : DPT_RECOMPUTE_AUTO,
        .logit_rows = o->logit_rows,
        .shard = shard_of(o),
        .offload = o->offload,
    };
    take_local_steps(o, &out);
    return out;
}

const char *cli_schedule_name(dpt_schedule_kind kind)
{
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        if (schedules[i].kind == kind) return schedules[i].name;
    return NULL;
}

/* The steps of the warm-up.  That of a recipe is at most a tenth of a training. */
static size_t warmup_steps(const cli_options *o, size_t steps_per_epoch)
{
    const size_t n = o->warmup.epochs ? o->warmup.n * steps_per_epoch : o->warmup.n;
    size_t steps = o->schedule_steps ? o->schedule_steps : o->max_steps;
    if (!o->taken.warmup) return n;
    if (!steps) steps = cli_epochs(o) * steps_per_epoch;
    return steps && steps / 10 < n ? steps / 10 : n;
}

dpt_schedule cli_schedule(const cli_options *options, size_t count)
{
    const size_t batch = cli_step_samples(options, count);
    dpt_schedule schedule = {
        .warmup_steps = warmup_steps(options, (count + batch - 1) / batch),
        .every = options->step_every,
        .factor = (float)options->step_factor,
        .min_lr = (float)options->min_lr,
    };
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        if (is(options->schedule, schedules[i].name)) schedule.kind = schedules[i].kind;
    return schedule;
}

/* ---- How they are shown ---------------------------------------------------------------------- */

static void print_optimizer(const cli_options *o, size_t batch)
{
    if (o->lr_base_batch && !(o->taken.model && o->lr_base_batch == batch))
        printf(", lr %g (%g at batch %zu)", rate(o) * (double)batch / (double)o->lr_base_batch,
               rate(o), o->lr_base_batch);
    else
        printf(", lr %g", rate(o));
    if (!is_adamw(o)) printf(", momentum %g%s", o->momentum, o->nesterov ? " (nesterov)" : "");
    printf(", weight decay %g%s", o->weight_decay,
           o->no_bias_decay ? " (not on biases and norms)" : "");
    if (o->freeze) printf(", frozen %s", o->freeze);
    if (o->lora) printf(", adapters %s", o->lora);
    if (o->group) printf(", groups %s", o->group);
    if (o->clip_norm > 0) printf(", gradient norm up to %g", o->clip_norm);
    if (cli_loss(o) == DPT_LOSS_SQUARED_ERROR)
        printf(", squared error");
    else if (cli_loss(o) != DPT_LOSS_CROSS_ENTROPY)
        printf(", loss %s", o->loss);
    if (o->class_weights) printf(", class weights %s", o->class_weights);
    if (o->huber_delta > 0) printf(", delta %g", o->huber_delta);
    if (o->label_smoothing > 0) printf(", label smoothing %g", o->label_smoothing);
    if (cli_batch_norm(o) == DPT_BATCH_NORM_LOCAL) printf(", batch-norm local");
    if (cli_batch_norm(o) == DPT_BATCH_NORM_FROZEN) printf(", batch-norm frozen");
    if (compression(o->compress) != DPT_COMPRESS_NONE)
        printf(", %s between processes", o->compress);
    if (o->compress_rank > 0) printf(" (rank %zu)", o->compress_rank);
    if (o->local_steps > 0) printf(", rounds of %zu local steps", o->local_steps);
    if (o->outer_delay > 0) printf(" (outer step %zu steps later", o->outer_delay);
    if (o->outer_fragments > 1) printf(", in %zu fragments", o->outer_fragments);
    if (o->outer_delay > 0) printf(")");
    if (is(o->recompute, "on")) printf(", activations computed again");
}

static void print_parts(const dpt_trainer *trainer)
{
    const dpt_shard parts = dpt_trainer_sharded(trainer);
    if (parts == DPT_SHARD_PARAMETERS)
        printf(", parameters, gradients and optimizer's state in parts");
    if (parts == DPT_SHARD_GRADIENTS) printf(", gradients and optimizer's state in parts");
    if (parts == DPT_SHARD_OPTIMIZER) printf(", optimizer's state in parts");
    if (dpt_trainer_offloaded(trainer)) printf(" on CPUs");
}

/* Begins the line, or continues it. */
DPT_PRINTF(2, 3) static void print_word(bool *begun, const char *format, ...)
{
    va_list arguments;
    if (*begun)
        printf(", ");
    else
        printf("%-10s", "augment");
    *begun = true;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
}

static void print_augment(const cli_augment *all)
{
    const dpt_augment_options *a = &all->images;
    const dpt_jitter_options *j = &all->jitter;
    bool begun = false;
    if (a->resized_crop > 0)
        print_word(&begun, "crops of at least %g of the area", (double)a->resized_crop);
    if (a->crop_padding) print_word(&begun, "crop with padding %zu", a->crop_padding);
    if (a->flip) print_word(&begun, "flip");
    if (all->rotate > 0) print_word(&begun, "rotation up to %g degrees", (double)all->rotate);
    if (all->randaugment.ops > 0)
        print_word(&begun, "RandAugment, %zu operations of magnitude %zu", all->randaugment.ops,
                   all->randaugment.magnitude);
    if (cli_jitters(j))
        print_word(&begun, "jitter %g:%g:%g:%g", (double)j->brightness, (double)j->contrast,
                   (double)j->saturation, (double)j->hue);
    if (a->erase > 0) print_word(&begun, "erase with probability %g", (double)a->erase);
    if (all->mixup > 0) print_word(&begun, "mixup with alpha %g", (double)all->mixup);
    if (all->cutmix > 0) print_word(&begun, "cutmix with alpha %g", (double)all->cutmix);
    if (begun) printf("\n");
}

void cli_recipe_print(const cli_options *options, size_t count, const dpt_trainer *trainer)
{
    const cli_options *o = options;
    const size_t step = cli_step_samples(o, count);
    const dpt_schedule schedule = cli_schedule(o, count);
    cli_recipe_print_taken(o, count);
    printf("%-10sbatch %zu, ", "training", cli_batch_size(o, count));
    if (o->accumulate > 1) printf("%zu a step, ", o->accumulate);
    printf("%s", is_adamw(o) ? "adamw" : "sgd");
    print_optimizer(o, step);
    print_parts(trainer);
    if (o->deterministic) printf(", deterministic");
    printf(", seed %zu\n", o->seed);
    if (schedule.kind != DPT_SCHEDULE_CONSTANT || schedule.warmup_steps) {
        printf("%-10s%s", "schedule", o->schedule ? o->schedule : "constant");
        if (schedule.kind == DPT_SCHEDULE_STEP)
            printf(", times %g after every %zu epoch%s", o->step_factor > 0 ? o->step_factor : 0.1,
                   o->step_every ? o->step_every : 30, o->step_every == 1 ? "" : "s");
        if (o->min_lr > 0) printf(", down to %g", o->min_lr);
        if (o->schedule_steps) printf(" at step %zu", o->schedule_steps);
        if (schedule.warmup_steps) printf(", warm-up over %zu steps", schedule.warmup_steps);
        printf("\n");
    }
    print_augment(&o->augment);
}
