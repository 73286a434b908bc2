/* Options of a trainer (options.h): defaults, and checks of options and data against the model. */
#include "train/options.h"

#include "base/grains.h"
#include "collective/packing.h"
#include "context/context.h"
#include "device/set.h"
#include "graph/loss.h"
#include "train/components/batch_norm.h"
#include "train/evaluation/evaluate.h"
#include "train/feeding/fits.h"
#include "train/membership/presence.h"
#include "train/plan/micro_batches.h"
#include "train/plan/shards.h"
#include "train/programs/worker.h"
#include "train/progress/groups.h"
#include "train/recovery/readmit.h"
#include "train/state/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Defaults -------------------------------------------------------------------------------- */

/* Bytes.  Slices are sized by it, and so bits depend on it. */
enum { LEAST_BUCKET = 256 * 1024 };

static float or_default(float value, float otherwise)
{
    return value != 0 ? value : otherwise;
}

void dpti_trainer_resolve(dpt_trainer_options *options, size_t n_samples)
{
    enum { BATCH = 256 };
    dpt_trainer_options *o = options;
    if (o->batch_size == 0) o->batch_size = n_samples < BATCH ? n_samples : BATCH;
    if (o->accumulate == 0) o->accumulate = 1;
    o->lr = or_default(o->lr, o->optimizer == DPT_OPTIMIZER_ADAMW ? 0.001f : 0.1f);
    if (o->lr_base_batch > 0)
        o->lr *= (float)(o->batch_size * o->accumulate) / (float)o->lr_base_batch;
    o->lr_base_batch = 0;
    o->beta1 = or_default(o->beta1, 0.9f);
    o->beta2 = or_default(o->beta2, 0.999f);
    o->epsilon = or_default(o->epsilon, 1e-8f);
    if (o->loss == DPT_LOSS_HUBER) o->huber_delta = or_default(o->huber_delta, 1.0f);
    if (o->offload && o->shard == DPT_SHARD_NONE) o->shard = DPT_SHARD_OPTIMIZER;
    if (o->compress == DPT_COMPRESS_LOWRANK && o->compress_rank == 0) o->compress_rank = 4;
    if (o->local_steps == 0) return;
    o->outer_lr = or_default(o->outer_lr, 0.7f);
    o->outer_momentum = o->no_outer_momentum ? 0 : or_default(o->outer_momentum, 0.9f);
}

/* One local step with an outer step that changes nothing is the synchronous step, and is taken as
   it. */
static bool is_local(const dpt_trainer_options *o)
{
    return o->local_steps > 1 ||
           (o->local_steps == 1 && !(o->outer_lr == 1 && o->outer_momentum == 0));
}

bool dpti_trainer_chooses_buckets(const dpt_trainer_options *options)
{
    /* In deterministic training the memory of nodes grows with buckets (base/node_places.h).  So do
       windows of gradients, and whether they fit is not to depend on the network. */
    return options->bucket_bytes == 0 && !options->no_overlap && !options->deterministic &&
           options->shard < DPT_SHARD_GRADIENTS && options->compress == DPT_COMPRESS_NONE &&
           !is_local(options);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static dpt_status check_model(dpt_trainer *t)
{
    const dpt_model *m = t->model;
    const dpt_dataset *d = t->data;
    if (!m->finished)
        return dpt_fail(t->context, DPT_E_STATE, "model %s is not finished: call dpt_model_finish",
                        m->name);
    if (!dpti_model_has_gradient(m))
        return dpt_fail(t->context, DPT_E_UNSUPPORTED,
                        "model %s cannot be trained: its output is integers, such as places, which "
                        "have no gradient; give the scores as an output, too",
                        m->name);
    DPT_TRY(dpti_check_inputs(t, d));
    const dpti_extent in = m->nodes[m->input].extent;
    if (in.h != d->height || in.w != d->width || in.c != d->channels)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "model %s takes %zux%zux%zu images, but those of %s are %zux%zux%zu",
                        m->name, in.h, in.w, in.c, d->name, d->height, d->width, d->channels);
    const bool compares = (dpti_dataset_has_labels(d) || d->targets) && !m->gives_loss;
    if (compares && dpt_model_outputs(m) < d->classes)
        return dpt_fail(t->context, DPT_E_INVALID, "model %s has %zu classes, but %s has %zu",
                        m->name, dpt_model_outputs(m), d->name, d->classes);
    return dpti_check_ids(t, d);
}

static bool in_range(float value, float min, float max)
{
    return value >= min && value <= max; /* false for NaN */
}

static dpt_status check_optimizer(dpt_trainer *t, const dpti_optimizer *o)
{
    dpt_context *context = t->context;
    const bool adamw = o->kind == DPT_OPTIMIZER_ADAMW;
    if (o->kind != DPT_OPTIMIZER_SGD && !adamw)
        return dpt_fail(context, DPT_E_INVALID, "unknown optimizer %d", (int)o->kind);
    if (!(o->momentum >= 0 && o->momentum < 1))
        return dpt_fail(context, DPT_E_INVALID, "a momentum of %g is not in [0, 1)",
                        (double)o->momentum);
    if (adamw && (o->momentum != 0 || o->nesterov))
        return dpt_fail(context, DPT_E_INVALID,
                        "AdamW has no momentum and no Nesterov's rule: set beta1 instead");
    if (o->nesterov && o->momentum == 0)
        return dpt_fail(context, DPT_E_INVALID,
                        "Nesterov's rule needs a momentum greater than 0, such as 0.9");
    if (!(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1))
        return dpt_fail(context, DPT_E_INVALID, "betas of %g and %g are not in [0, 1)",
                        (double)o->beta1, (double)o->beta2);
    if (!(o->epsilon >= 1e-30f && o->epsilon < 1))
        return dpt_fail(context, DPT_E_INVALID, "an epsilon of %g is not in [1e-30, 1)",
                        (double)o->epsilon);
    if (!in_range(o->weight_decay, 0, 1e3f))
        return dpt_fail(context, DPT_E_INVALID, "a weight decay of %g is not in [0, 1000]",
                        (double)o->weight_decay);
    if (o->clip_norm != 0 && !in_range(o->clip_norm, 1e-20f, 1e20f))
        return dpt_fail(context, DPT_E_INVALID, "a largest norm of %g is not in [1e-20, 1e20]",
                        (double)o->clip_norm);
    return DPT_OK;
}

static dpt_status take_optimizer(dpt_trainer *t, const dpt_trainer_options *o)
{
    t->program.optimizer = (dpti_optimizer){.kind = o->optimizer,
                                            .nesterov = o->nesterov,
                                            .no_bias_decay = o->no_bias_decay,
                                            .momentum = o->momentum,
                                            .weight_decay = o->weight_decay,
                                            .beta1 = o->beta1,
                                            .beta2 = o->beta2,
                                            .epsilon = o->epsilon,
                                            .clip_norm = o->clip_norm};
    t->lr = o->lr;
    if (!in_range(t->lr, 0, 1e6f))
        return dpt_fail(t->context, DPT_E_INVALID, "a learning rate of %g is not in (0, 1e6]",
                        (double)t->lr);
    return check_optimizer(t, &t->program.optimizer);
}

static dpt_status check_loss(dpt_trainer *t)
{
    const dpti_program_options *p = &t->program;
    if (!dpti_loss_exists(p->loss))
        return dpt_fail(t->context, DPT_E_INVALID, "unknown loss %d", (int)p->loss);
    if (t->model->gives_loss && p->loss != DPT_LOSS_OUTPUT)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "the output of model %s is a loss, which %s cannot be computed of: leave "
                        "the loss out",
                        t->model->name, dpti_loss_names[p->loss]);
    if (dpti_loss_is_own(p->loss) && !p->own_loss)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "the loss %s is a function of the program: set own_loss",
                        dpti_loss_names[p->loss]);
    if (!dpti_loss_is_own(p->loss) && (p->own_loss || p->own_loss_user))
        return dpt_fail(t->context, DPT_E_INVALID,
                        "own_loss is for a loss of the program's own, not for the loss %s",
                        dpti_loss_names[p->loss]);
    if (!(p->label_smoothing >= 0 && p->label_smoothing < 1))
        return dpt_fail(t->context, DPT_E_INVALID, "a label smoothing of %g is not in [0, 1)",
                        (double)p->label_smoothing);
    if (p->loss != DPT_LOSS_CROSS_ENTROPY && p->label_smoothing != 0)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "label smoothing is for cross-entropy, not for the loss %s",
                        dpti_loss_names[p->loss]);
    if (p->loss == DPT_LOSS_HUBER && !in_range(p->huber_delta, 1e-20f, 1e20f))
        return dpt_fail(t->context, DPT_E_INVALID, "a Huber delta of %g is not in [1e-20, 1e20]",
                        (double)p->huber_delta);
    if (p->loss != DPT_LOSS_HUBER && p->huber_delta != 0)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "a Huber delta is for the Huber loss, not for "
                        "the loss %s",
                        dpti_loss_names[p->loss]);
    return DPT_OK;
}

/* Why class weights are refused; NULL: they are not. */
static const char *fault_of_weights(const float *weights, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (!in_range(weights[i], 0, 1e20f)) return "a class weight is not in [0, 1e20]";
        any = any || weights[i] > 0;
    }
    return any ? NULL : "all class weights are 0";
}

static dpt_status take_class_weights(dpt_trainer *t, const dpt_trainer_options *o)
{
    const size_t n = o->n_class_weights, classes = dpt_model_outputs(t->model);
    if (!o->class_weights && n == 0) return DPT_OK;
    if (o->loss != DPT_LOSS_CROSS_ENTROPY || o->label_smoothing != 0)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "class weights are for cross-entropy without label smoothing");
    if (t->data->reads_labels)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "class weights need the labels in memory; those of %s are read",
                        t->data->name);
    if (!o->class_weights || n != classes)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "%zu class weights are given, but model %s has %zu classes",
                        o->class_weights ? n : 0, t->model->name, classes);
    const char *fault = fault_of_weights(o->class_weights, n);
    if (fault) return dpt_fail(t->context, DPT_E_INVALID, "%s", fault);
    t->class_weights = malloc(n * sizeof *t->class_weights);
    if (!t->class_weights)
        return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for class weights");
    memcpy(t->class_weights, o->class_weights, n * sizeof *t->class_weights);
    t->program.class_weights = t->class_weights;
    return DPT_OK;
}

static dpt_status check_distortion(dpt_trainer *t)
{
    const dpt_jitter_options *j = &t->program.jitter;
    const dpt_augment all = dpti_augment_of(&t->program, t->data);
    if (!in_range(t->program.rotate, 0, 180))
        return dpt_fail(t->context, DPT_E_INVALID, "a rotation by %g degrees is not in [0, 180]",
                        (double)t->program.rotate);
    if (!in_range(j->brightness, 0, 1) || !in_range(j->contrast, 0, 1) ||
        !in_range(j->saturation, 0, 1) || !in_range(j->hue, 0, 0.5f))
        return dpt_fail(t->context, DPT_E_INVALID,
                        "a jitter of %g, %g, %g, %g: brightness, contrast and saturation are in "
                        "[0, 1], the hue in [0, 0.5]",
                        (double)j->brightness, (double)j->contrast, (double)j->saturation,
                        (double)j->hue);
    const char *name = all.ops > 0 ? "RandAugment" : "jitter";
    if (all.ops > 6 || all.magnitude > 30)
        return dpt_fail(
            t->context, DPT_E_INVALID,
            "RandAugment with %zu operations of magnitude %zu: give up to 6, and 0 to 30", all.ops,
            all.magnitude);
    if ((all.ops > 0 || dpt_jitters(&all)) &&
        (t->data->dtype != DPT_U8 || (t->data->channels != 1 && t->data->channels != 3)))
        return dpt_fail(
            t->context, DPT_E_INVALID,
            "%s changes images of bytes with 1 or 3 channels; %s has %s with %zu: leave "
            "%s out",
            name, t->data->name, t->data->dtype == DPT_U8 ? "bytes" : "real numbers",
            t->data->channels, all.ops > 0 ? name : "the jitter");
    return DPT_OK;
}

static dpt_status check_mixing(dpt_trainer *t)
{
    const float alphas[2] = {t->program.mixup, t->program.cutmix};
    static const char *const names[2] = {"mixup", "cutmix"};
    for (size_t i = 0; i < 2; i++) {
        if (alphas[i] == 0) continue;
        if (!in_range(alphas[i], 0.01f, 100))
            return dpt_fail(t->context, DPT_E_INVALID, "%s with an alpha of %g: give 0.01 to 100",
                            names[i], (double)alphas[i]);
        if (t->program.loss != DPT_LOSS_CROSS_ENTROPY)
            return dpt_fail(t->context, DPT_E_INVALID,
                            "%s mixes the labels of classes, and the loss is %s: use cross-entropy "
                            "or leave %s out",
                            names[i], dpti_loss_names[t->program.loss], names[i]);
        if (t->model->n_labels != 1)
            return dpt_fail(t->context, DPT_E_INVALID,
                            "%s needs one label a sample, and model %s has %zu: leave %s out",
                            names[i], t->model->name, t->model->n_labels, names[i]);
        if (t->class_weights)
            return dpt_fail(t->context, DPT_E_INVALID,
                            "%s and class weights do not go together: leave one out", names[i]);
    }
    return DPT_OK;
}

static dpt_status check_augment(dpt_trainer *t)
{
    const dpt_augment_options *a = &t->program.augment;
    const size_t side = t->data->height < t->data->width ? t->data->height : t->data->width;
    const dpt_augment all = dpti_augment_of(&t->program, t->data);
    const bool augments = dpt_augments(&all) || t->program.mixup != 0 || t->program.cutmix != 0;
    if (t->model->vocabulary && augments)
        return dpt_fail(t->context, DPT_E_INVALID, "ids are no images: leave the augmentation out");
    if (t->model->n_inputs > 1 && augments)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "model %s has several inputs: leave the augmentation out", t->model->name);
    if (a->crop_padding > side)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "a crop with %zu pixels of padding from images of %zux%zu; use at most %zu",
                        a->crop_padding, t->data->height, t->data->width, side);
    if (!in_range(a->resized_crop, 0, 1))
        return dpt_fail(t->context, DPT_E_INVALID,
                        "a resized crop of at least %g of a picture's area: give a part of 0 to 1",
                        (double)a->resized_crop);
    if (a->resized_crop > 0 && !t->data->crops)
        return dpt_fail(
            t->context, DPT_E_INVALID,
            "a resized crop is taken from pictures in folders that are read as they are "
            "needed, as folder:224x224:stream; %s has images of one size",
            t->data->reader ? t->data->source : t->data->name);
    if (!in_range(a->erase, 0, 1))
        return dpt_fail(t->context, DPT_E_INVALID, "an erasing probability of %g is not in [0, 1]",
                        (double)a->erase);
    DPT_TRY(check_distortion(t));
    return check_mixing(t);
}

/* The variance of a single value is nothing to divide by.  `samples` are those whose statistics are
   taken together, called `what`; `remedy` is what else than the batch size to choose. */
static dpt_status check_batch_norms(dpt_trainer *t, size_t samples, const char *what,
                                    const char *remedy)
{
    if (t->batch_norm == DPT_BATCH_NORM_FROZEN) return DPT_OK;
    for (size_t i = 0; i < t->model->n_nodes; i++) {
        const dpti_node *node = &t->model->nodes[i];
        if (node->kind != DPTI_NODE_BATCH_NORM || samples != 1 ||
            node->forward.u.batch_norm.area != 1)
            continue;
        return dpt_fail(t->context, DPT_E_INVALID,
                        "layer %s: batch-norm over a single value: %s has one sample of 1x1; "
                        "choose another batch size%s",
                        node->name, what, remedy);
    }
    return DPT_OK;
}

/* Elements; 0 where nobody is met. */
static size_t least_bucket(const dpt_trainer *t, const dpt_trainer_options *o)
{
    const size_t n_bytes = o->bucket_bytes > 0 ? o->bucket_bytes : (size_t)LEAST_BUCKET;
    if (dpti_step_devices(t) == 1) return 0;
    return n_bytes / sizeof(float) + (n_bytes % sizeof(float) != 0);
}

/* Whether devices exchange statistics within a batch. */
static bool meets_in_batch(const dpt_trainer *t, const dpt_trainer_options *o)
{
    return o->batch_norm == DPT_BATCH_NORM_SYNC && dpti_model_has_batch_norm(t->model);
}

/* Batches and steps. */
static dpt_status take_sizes(dpt_trainer *t, const dpt_trainer_options *o)
{
    t->batch_size = o->batch_size;
    t->seed = o->seed;
    t->micro_batch = o->micro_batch;
    t->accumulate = o->accumulate;
    t->joined = 1;
    if (t->batch_size > t->data->count)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "a batch of %zu is more than the %zu samples of %s; use a smaller batch "
                        "size",
                        t->batch_size, t->data->count, t->data->name);
    if (t->accumulate > t->data->count / t->batch_size)
        return dpt_fail(
            t->context, DPT_E_INVALID,
            "a step of %zu batches of %zu is more than the %zu samples of %s; accumulate "
            "fewer",
            t->accumulate, t->batch_size, t->data->count, t->data->name);
    if (t->data->count > INT32_MAX)
        return dpt_fail(t->context, DPT_E_INVALID, "%s has more than %d samples", t->data->name,
                        INT32_MAX);
    return DPT_OK;
}

static dpt_status take_compression(dpt_trainer *t, const dpt_trainer_options *o)
{
    enum { MOST_RANK = 256 };
    const bool low_rank = o->compress == DPT_COMPRESS_LOWRANK;
    if (o->compress != DPT_COMPRESS_NONE && !low_rank && !dpti_packing_of(o->compress))
        return dpt_fail(t->context, DPT_E_INVALID, "unknown compression %d", (int)o->compress);
    if (!low_rank && o->compress_rank != 0)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "a compress rank is that of the matrices that travel: give compress "
                        "lowrank, too");
    if (o->compress_rank > MOST_RANK)
        return dpt_fail(t->context, DPT_E_INVALID, "a compress rank of %zu is not in [1, %d]",
                        o->compress_rank, MOST_RANK);
    t->compress = o->compress;
    t->compress_rank = o->compress_rank;
    return DPT_OK;
}

static dpt_status take_modes(dpt_trainer *t, const dpt_trainer_options *o)
{
    if (!dpti_batch_norm_mode_exists(o->batch_norm))
        return dpt_fail(t->context, DPT_E_INVALID, "unknown mode of batch-norm %d",
                        (int)o->batch_norm);
    t->batch_norm = o->batch_norm;
    DPT_TRY(take_compression(t, o));
    if ((int)o->shard < 0 || o->shard > DPT_SHARD_AUTO)
        return dpt_fail(t->context, DPT_E_INVALID, "unknown way to shard %d", (int)o->shard);
    return DPT_OK;
}

/* What cannot be combined with local steps.  NULL: nothing. */
static const char *find_unlocal(const dpt_trainer_options *o)
{
    if (o->accumulate > 1) return "accumulate: take more local steps instead";
    if (o->compress == DPT_COMPRESS_LOWRANK)
        return "compress lowrank, which is for the gradients of a step: use bf16 or int8";
    if (o->shard != DPT_SHARD_NONE)
        return "shard: each process updates all parameters by itself, so leave shard out";
    if (o->deterministic)
        return "deterministic, because the result depends on which process has which samples";
    return NULL;
}

/* What several processes cannot do, whatever they exchange. */
static dpt_status check_over_processes(dpt_trainer *t, const dpt_trainer_options *o)
{
    if (o->offload)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "a CPU holds the optimizer's state of other devices within one process, "
                        "not over several: leave offload out");
    if (o->shard == DPT_SHARD_AUTO)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "shard auto chooses what the devices of one process hold in parts, and "
                        "there are several processes: choose optimizer, gradients or parameters, "
                        "or leave shard out");
    if (o->verify_replicas > 0)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "replicas are compared within one process, not over several: leave "
                        "verify-replicas out");
    if (o->readmit_after > 0)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "a job of several processes ends where a device is lost: leave "
                        "readmit out");
    return DPT_OK;
}

/* When what has changed is exchanged. */
static dpt_status check_outer_delay(dpt_trainer *t, const dpt_trainer_options *o)
{
    const size_t n_fragments = o->outer_fragments > 1 ? o->outer_fragments : 1;
    if (n_fragments > 1 && o->outer_delay == 0)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "%zu outer fragments are exchanged while steps go on: give outer-delay, "
                        "too",
                        n_fragments);
    if (o->outer_delay < o->local_steps / n_fragments || o->outer_delay == 0) return DPT_OK;
    if (n_fragments == 1)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "an outer delay of %zu steps is not less than the %zu local steps of a "
                        "round: lower outer-delay, or raise local-steps",
                        o->outer_delay, o->local_steps);
    return dpt_fail(t->context, DPT_E_INVALID,
                    "an outer delay of %zu steps is not less than the %zu steps from one of %zu "
                    "outer fragments to the next: lower outer-delay or outer-fragments, or raise "
                    "local-steps",
                    o->outer_delay, o->local_steps / n_fragments, n_fragments);
}

static dpt_status check_outer_step(dpt_trainer *t, const dpt_trainer_options *o)
{
    const bool any = o->outer_lr != 0 || o->outer_momentum != 0 || o->no_outer_momentum;
    if (o->local_steps == 0 && (any || o->outer_delay > 0 || o->outer_fragments > 0))
        return dpt_fail(t->context, DPT_E_INVALID,
                        "an outer learning rate, an outer momentum, an outer delay and outer "
                        "fragments belong to local steps: give local-steps, too");
    if (o->local_steps == 0) return DPT_OK;
    DPT_TRY(check_outer_delay(t, o));
    if (!in_range(o->outer_lr, 1e-6f, 10))
        return dpt_fail(t->context, DPT_E_INVALID,
                        "an outer learning rate of %g is not in [1e-6, 10]", (double)o->outer_lr);
    if (!(o->outer_momentum >= 0 && o->outer_momentum < 1))
        return dpt_fail(t->context, DPT_E_INVALID, "an outer momentum of %g is not in [0, 1)",
                        (double)o->outer_momentum);
    return DPT_OK;
}

dpt_status dpti_trainer_check_rounds(dpt_trainer *trainer, const dpt_trainer_options *options,
                                     bool *takes_rounds)
{
    DPT_TRY(check_outer_step(trainer, options));
    if (options->local_steps > 0) DPT_TRY(check_over_processes(trainer, options));
    const char *with = is_local(options) ? find_unlocal(options) : NULL;
    if (with)
        return dpt_fail(trainer->context, DPT_E_INVALID, "local steps cannot be combined with %s",
                        with);
    *takes_rounds = is_local(options);
    return DPT_OK;
}

static dpt_status take_local_steps(dpt_trainer *t, const dpt_trainer_options *o)
{
    bool takes_rounds = false;
    DPT_TRY(check_outer_step(t, o));
    if (o->local_steps > 0 && (!t->processes || dpti_processes_count(t->processes) == 1))
        return dpt_fail(t->context, DPT_E_INVALID,
                        "local steps are taken by several processes, and there is one: start two "
                        "or more with mpirun, or train without local steps");
    DPT_TRY(dpti_trainer_check_rounds(t, o, &takes_rounds));
    if (!takes_rounds) return DPT_OK;
    t->local_steps = o->local_steps;
    t->outer_lr = o->outer_lr;
    t->outer_momentum = o->outer_momentum;
    t->outer_delay = o->outer_delay;
    t->n_fragments = o->outer_fragments > 1 ? o->outer_fragments : 1;
    return DPT_OK;
}

/* What happens when a device fails. */
static dpt_status take_recovery(dpt_trainer *t, const dpt_trainer_options *o)
{
    if (!(o->device_timeout >= 0 && o->device_timeout <= 1e9))
        return dpt_fail(t->context, DPT_E_INVALID, "a device timeout of %g s is not in [0, 1e9]",
                        o->device_timeout);
    if (!(o->readmit_after >= 0 && o->readmit_after <= 1e9))
        return dpt_fail(t->context, DPT_E_INVALID, "readmission after %g s is not in [0, 1e9]",
                        o->readmit_after);
    if (o->readmit_after > 0 && o->stop_on_loss)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "stop-on-loss ends training where a device is lost, and readmit waits for "
                        "it to come back: leave one of them out");
    dpti_readmit_after(t, o->readmit_after);
    return DPT_OK;
}

/* Gradients of all samples of a deterministic step are added up along one tree.  So its batches are
   one batch, of which no device computes more at once than its part of one of them
   (micro_batches.h). */
static void join_batches(dpt_trainer *t)
{
    t->joined = t->accumulate;
    t->batch_size *= t->accumulate;
    t->accumulate = 1;
}

/* Functions of the program compute each sample by itself.  Whether their bits are the same
   everywhere only the program knows. */
static dpt_status check_functions(dpt_trainer *t, const dpt_trainer_options *o)
{
    dpt_error error = {.status = DPT_OK};
    if (dpti_check_calls_declared(t->model, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    if (dpti_loss_is_own(o->loss) && !o->own_loss_deterministic)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "the loss is a function of the program that does not say that its bits "
                        "are the same everywhere: set own_loss_deterministic if they are, or "
                        "leave deterministic out");
    return DPT_OK;
}

/* What cannot be combined with deterministic training. */
static dpt_status take_deterministic(dpt_trainer *t, const dpt_trainer_options *o)
{
    const char *with = NULL;
    if (!o->deterministic) return DPT_OK;
    if (o->compress != DPT_COMPRESS_NONE)
        with = "compress, which rounds sums of processes";
    else if (t->accumulate > 1 && meets_in_batch(t, o))
        with = "several batches in a step, of each of which a batch-norm takes statistics: use a "
               "larger batch size, or batch-norm frozen";
    else if (t->batch_norm == DPT_BATCH_NORM_LOCAL && dpti_model_has_batch_norm(t->model))
        with = "batch-norm local, whose statistics depend on the shares: use sync or frozen";
    if (with)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "deterministic training cannot be combined with %s", with);
    DPT_TRY(check_functions(t, o));
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_device *device = t->devices->devices[i];
        if ((device->info.flags & DPT_DEVICE_DETERMINISTIC) != 0) continue;
        return dpt_fail(
            t->context, DPT_E_UNSUPPORTED,
            "%s: devices of the backend %s do not compute with the same bits as others: "
            "leave the device or deterministic out",
            device->id, device->base.backend->name);
    }
    join_batches(t);
    return DPT_OK;
}

/* Batch-norms' statistics that are combined: those of devices, or of grains. */
static size_t n_parts(const dpt_trainer *t, const dpt_trainer_options *o)
{
    if (!meets_in_batch(t, o)) return 1;
    return o->deterministic ? DPTI_GRAINS : dpti_step_devices(t);
}

static dpti_program_options program_of(const dpt_trainer *t, const dpt_trainer_options *o)
{
    return (dpti_program_options){
        .data = t->data,
        .purpose = DPTI_PURPOSE_TRAIN,
        .loss =
            t->model->gives_loss && o->loss == DPT_LOSS_CROSS_ENTROPY ? DPT_LOSS_OUTPUT : o->loss,
        .huber_delta = o->huber_delta,
        .own_loss = o->own_loss,
        .own_loss_user = o->own_loss_user,
        .label_smoothing = o->label_smoothing,
        .chunk_rows = o->logit_rows,
        .augment = o->augment,
        .rotate = o->rotate,
        .jitter = o->jitter,
        .randaugment = o->randaugment,
        .mixup = o->mixup,
        .cutmix = o->cutmix,
        .least_bucket = least_bucket(t, o),
        .exchange_at_end = o->no_overlap || o->compress == DPT_COMPRESS_LOWRANK,
        .n_parts = n_parts(t, o),
        .alone = dpti_step_devices(t) == 1,
        .deterministic = o->deterministic,
        .grain = o->deterministic ? dpti_grains_of(t->batch_size).size : 0,
        .norms_frozen = o->batch_norm == DPT_BATCH_NORM_FROZEN,
        /* Other processes hear of a part when it is taken (allgather.h). */
        .holds_filters = !dpti_step_processes(t)};
}

static dpt_status count_gradients(dpt_trainer *t)
{
    dpt_error error = {.status = DPT_OK};
    if (dpti_count_gradients(t->model, &t->program, &t->n_gradients, &error) == DPT_OK)
        return DPT_OK;
    return dpti_context_fail(t->context, NULL, &error);
}

static dpt_status take_recompute(dpt_trainer *t, const dpt_trainer_options *o)
{
    t->recompute = o->recompute;
    if ((int)o->recompute >= 0 && o->recompute <= DPT_RECOMPUTE_ON) return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID, "unknown way to recompute %d", (int)o->recompute);
}

dpt_status dpti_trainer_take_options(dpt_trainer *trainer, const dpt_trainer_options *options)
{
    dpt_trainer *t = trainer;
    DPT_TRY(check_model(t));
    DPT_TRY(take_sizes(t, options));
    DPT_TRY(take_modes(t, options));
    if (t->processes) DPT_TRY(check_over_processes(t, options));
    DPT_TRY(take_local_steps(t, options));
    DPT_TRY(take_recovery(t, options));
    DPT_TRY(take_deterministic(t, options));
    DPT_TRY(take_recompute(t, options));
    t->program = program_of(t, options);
    DPT_TRY(take_optimizer(t, options));
    DPT_TRY(dpti_trainer_take_groups(t, options));
    DPT_TRY(check_loss(t));
    DPT_TRY(take_class_weights(t, options));
    DPT_TRY(dpti_trainer_check_answers(t, t->data));
    DPT_TRY(check_augment(t));
    DPT_TRY(check_batch_norms(t, t->batch_size, "a batch", ""));
    DPT_TRY(count_gradients(t));
    return check_batch_norms(t, t->data->count % t->batch_size, "the last batch of an epoch", "");
}

/* Checks the micro-batches in which this process's devices compute these shards, one a device. */
static dpt_status check_micro_batches(dpt_trainer *t, const size_t *shards)
{
    const size_t *rows = shards + t->first_device;
    const bool any = dpti_any_has_micro_batches(t);
    for (size_t i = 0; i < t->n_workers; i++) {
        const size_t most = t->workers[i].replica.capacity;
        if (dpti_is_lost(&t->workers[i])) continue; /* others take its shard */
        if (rows[i] <= most) {
            DPT_TRY(check_batch_norms(t, rows[i], "a device's shard",
                                      any ? ", split or micro-batch"
                                          : ", split or batch-norm over all devices"));
        } else {
            const size_t n = dpti_count_micro_batches(rows[i], most), least = rows[i] / n;
            DPT_TRY(check_batch_norms(t, least, "a micro-batch", " or micro-batch"));
        }
    }
    return DPT_OK;
}

/* The same of a process whose devices take statistics together, in steps of its own. */
static dpt_status check_group(dpt_trainer *t, const size_t *shards)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        n += shards[t->first_device + i];
    return check_batch_norms(t, n, "the part of a process", " or split");
}

static dpt_status check_replayed(dpt_trainer *t)
{
    size_t rows[DPTI_SPLIT_MAX_DEVICES];
    for (size_t s = 0; s < t->replay.n_steps; s++) {
        const size_t *shards = t->replay.shards + s * t->n_devices;
        size_t n = 0;
        for (size_t i = 0; i < t->n_devices; i++)
            n += shards[i];
        for (size_t b = 0; b < dpti_trainer_n_batches(t, n); b++) {
            dpti_trainer_batch_rows(t, &(dpti_step_batch){shards, n, b}, rows);
            DPT_TRY(check_micro_batches(t, rows));
        }
    }
    return DPT_OK;
}

dpt_status dpti_trainer_check_shards(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    const size_t batches[] = {t->batch_size, t->data->count % t->batch_size};
    if (t->program.n_parts > 1 && t->local_steps == 0) return DPT_OK;
    if (t->program.n_parts == 1) DPT_TRY(check_replayed(t));
    /* Measured shards are not known: a statistic over a single value has no variance there. */
    if (t->replay.n_steps > 0 || t->measured) return DPT_OK;
    size_t *rows = calloc(t->n_devices, sizeof *rows);
    if (!rows) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    dpt_status status = DPT_OK;
    for (size_t b = 0; status == DPT_OK && b < sizeof batches / sizeof *batches; b++) {
        dpti_trainer_split_left(t, dpti_shards_split(t), batches[b], rows);
        status = t->program.n_parts > 1 ? check_group(t, rows) : check_micro_batches(t, rows);
    }
    free(rows);
    return status;
}
