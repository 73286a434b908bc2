/* Comparing options and data between processes (header_check.h). */
#include "train/peers/header_check.h"

#include "base/grow.h"
#include "base/print.h"
#include "collective/arrivals.h"
#include "context/context.h"
#include "graph/loss.h"
#include "graph/model_hash.h"
#include "train/components/batch_norm.h"
#include "train/components/checksum.h"
#include "train/components/schedule.h"
#include "train/peers/peers.h"
#include "train/progress/groups.h"
#include "train/state/trainer.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Checksums ------------------------------------------------------------------------------- */

static uint64_t checksum_of_tensors(const dpt_model *m)
{
    uint64_t sum = 1;
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        sum = dpti_checksum(sum, p->name, strlen(p->name));
        sum = dpti_checksum(sum, &p->size, sizeof p->size);
    }
    return sum;
}

/* Of a data set, or a part of one: everything but the images. */
static uint64_t checksum_of_samples(const dpt_dataset *data)
{
    const size_t each = dpti_dataset_labels(data);
    uint64_t sum = dpti_checksum(1, data->mean, sizeof data->mean);
    sum = dpti_checksum(sum, data->scale, sizeof data->scale);
    for (size_t i = 0; i < data->count; i++) {
        const size_t record = dpti_dataset_record(data, i);
        if (data->labels)
            sum = dpti_checksum(sum, data->labels + record * each, each * sizeof *data->labels);
        if (data->targets)
            sum = dpti_checksum(sum, data->targets + record * data->classes,
                                data->classes * sizeof *data->targets);
        sum = dpti_checksum(sum, &record, sizeof record);
    }
    return sum;
}

/* Of those, which are in memory. */
static uint64_t checksum_of_images(const dpt_dataset *data)
{
    const size_t n_bytes = dpti_dataset_image_bytes(data);
    uint64_t sum = 1;
    for (size_t i = 0; i < data->count; i++)
        sum = dpti_checksum(
            sum, (const uint8_t *)data->images + dpti_dataset_record(data, i) * n_bytes, n_bytes);
    return sum;
}

/* ---- What must be the same ------------------------------------------------------------------- */

enum { ENTRY_BYTES = 96 };

/* A value that is as good as any. */
static const char unknown[] = "?";

typedef struct entry {
    char name[ENTRY_BYTES], value[ENTRY_BYTES];
} entry;

/* Entries, in the same order everywhere. */
typedef struct header {
    entry *entries;
    size_t n, capacity;
    bool no_memory; /* an entry is missing */
} header;

DPT_PRINTF(3, 4) static void add(header *f, const char *name, const char *format, ...)
{
    entry *entries = dpti_grow(f->entries, f->n, &f->capacity, sizeof *entries);
    if (!entries) f->no_memory = true;
    if (!entries) return;
    f->entries = entries;
    entry *e = &entries[f->n];
    va_list args;
    va_start(args, format);
    snprintf(e->name, ENTRY_BYTES, "%s", name);
    dpti_print_args(e->value, ENTRY_BYTES, format, args);
    va_end(args);
    f->n++;
}

static const char *on(bool is)
{
    return is ? "on" : "off";
}

/* Values are compared before they are checked: an unknown one is every process's failure. */
static const char *word(const char *const *words, size_t n, int value)
{
    return value >= 0 && (size_t)value < n ? words[value] : "an unknown one";
}
#define WORD(words, value) word(words, sizeof(words) / sizeof *(words), (int)(value))

static const char *const optimizers[] = {
    [DPT_OPTIMIZER_SGD] = "sgd", [DPT_OPTIMIZER_ADAMW] = "adamw"};
static const char *const splits[] = {"measured", "equal", "proportions", "replay"};
static const char *const inits[] = {"default", "normal", "xavier", "he"};
static const char *const parts[] = {[DPT_SHARD_NONE] = "none",
                                    [DPT_SHARD_OPTIMIZER] = "optimizer",
                                    [DPT_SHARD_GRADIENTS] = "gradients",
                                    [DPT_SHARD_PARAMETERS] = "parameters"};
static const char *const compressions[] = {[DPT_COMPRESS_NONE] = "none",
                                           [DPT_COMPRESS_BF16] = "bf16",
                                           [DPT_COMPRESS_INT8] = "int8",
                                           [DPT_COMPRESS_LOWRANK] = "lowrank"};

static void add_optimizer(header *f, const dpt_trainer_options *o)
{
    const bool adamw = o->optimizer == DPT_OPTIMIZER_ADAMW;
    add(f, "optimizer", "%s", WORD(optimizers, o->optimizer));
    add(f, "learning rate", "%.9g", (double)o->lr);
    add(f, "momentum", "%.9g", (double)o->momentum);
    add(f, "weight decay", "%.9g", (double)o->weight_decay);
    add(f, "Nesterov momentum", "%s", on(o->nesterov));
    add(f, "decay of biases", "%s", on(!o->no_bias_decay));
    add(f, "beta1", "%.9g", adamw ? (double)o->beta1 : 0);
    add(f, "beta2", "%.9g", adamw ? (double)o->beta2 : 0);
    add(f, "epsilon", "%.9g", adamw ? (double)o->epsilon : 0);
    add(f, "groups of parameters", "%zu, checksum %016" PRIx64, o->n_groups,
        dpti_groups_checksum(o));
    add(f, "clip norm", "%.9g", (double)o->clip_norm);
}

/* Five of them, whether there are any data or not. */
static void add_data(header *f, const char *what, const dpt_dataset *d)
{
    char name[ENTRY_BYTES];
    add(f, what, "%.90s", d ? d->name : "none");
    snprintf(name, sizeof name, "size of the %s", what);
    add(f, name, "%zu x %zux%zux%zu", d ? d->count : 0, d ? d->height : 0, d ? d->width : 0,
        d ? d->channels : 0);
    snprintf(name, sizeof name, "checksum of the %s", what);
    const bool compared = d && !dpti_dataset_whole(d)->writable;
    add(f, name, "%016" PRIx64, compared ? checksum_of_samples(d) : 0);
    snprintf(name, sizeof name, "checksum of some images of the %s", what);
    add(f, name, "%08" PRIx32, compared ? dpti_dataset_content(d) : 0);
    snprintf(name, sizeof name, "checksum of all images of the %s", what);
    if (compared && d->reader)
        add(f, name, "%s", unknown);
    else
        add(f, name, "%016" PRIx64, compared ? checksum_of_images(d) : 0);
}

/* Of resolved options: what is left out is what is given as the default. */
static void collect_trainer(const dpt_model *model, const dpt_dataset *data,
                            const dpt_trainer_options *o, header *f)
{
    const bool fixed = o->split.kind == DPT_SPLIT_PROPORTIONS && o->split.value;
    const dpt_augment_options *a = &o->augment;
    add(f, "model", "%.90s", model->name);
    add(f, "tensors of the model", "%016" PRIx64, checksum_of_tensors(model));
    add(f, "layers of the model", "%08" PRIx32, dpti_model_hash(model));
    add_data(f, "data", data);
    add(f, "batch size", "%zu", o->batch_size);
    add(f, "batches of a step", "%zu", o->accumulate);
    add(f, "micro-batch", "%zu", o->micro_batch);
    add(f, "overlap", "%s", on(!o->no_overlap));
    add(f, "deterministic", "%s", on(o->deterministic));
    add(f, "parts", "%s", WORD(parts, o->shard));
    add(f, "rows of logits", "%zu", o->logit_rows);
    if (o->bucket_bytes > 0)
        add(f, "least bucket", "%zu bytes", o->bucket_bytes);
    else
        add(f, "least bucket", "none given");
    add(f, "compression", "%s", WORD(compressions, o->compress));
    add(f, "compress rank", "%zu", o->compress_rank);
    add(f, "local steps",
        "%zu, outer rate %.9g, outer momentum %.9g, outer delay %zu, fragments %zu", o->local_steps,
        (double)o->outer_lr, (double)o->outer_momentum, o->outer_delay,
        o->outer_fragments > 1 ? o->outer_fragments : 1);
    add(f, "split", "%.90s", fixed ? o->split.value : WORD(splits, o->split.kind));
    add_optimizer(f, o);
    add(f, "loss", "%s", WORD(dpti_loss_names, o->loss));
    add(f, "Huber's delta", "%.9g", o->loss == DPT_LOSS_HUBER ? (double)o->huber_delta : 0);
    add(f, "class weights", "%zu, checksum %016" PRIx64, o->n_class_weights,
        o->class_weights
            ? dpti_checksum(1, o->class_weights, o->n_class_weights * sizeof *o->class_weights)
            : 0);
    add(f, "label smoothing", "%.9g", (double)o->label_smoothing);
    add(f, "batch-norm", "%s", WORD(dpti_batch_norm_names, o->batch_norm));
    add(f, "augmentation", "crop %zu, flip %s, erase %.9g, resized crop %.9g", a->crop_padding,
        on(a->flip), (double)a->erase, (double)a->resized_crop);
    add(f, "rotation", "%.9g degrees", (double)o->rotate);
    add(f, "jitter", "%.9g:%.9g:%.9g:%.9g", (double)o->jitter.brightness,
        (double)o->jitter.contrast, (double)o->jitter.saturation, (double)o->jitter.hue);
    add(f, "RandAugment", "%zu operations, magnitude %zu", o->randaugment.ops,
        o->randaugment.magnitude);
    add(f, "mixing", "mixup %.9g, cutmix %.9g", (double)o->mixup, (double)o->cutmix);
    add(f, "initialisation", "%s, deviation %.17g", WORD(inits, o->init.kind), o->init.deviation);
    add(f, "seed", "%" PRIu64, o->seed);
    add(f, "shuffling", "%s", on(!o->no_shuffle));
}

static void collect_course(const dpt_fit_options *o, header *f)
{
    const bool limited = o->epochs > 0 || o->max_steps > 0 || o->max_seconds > 0;
    const bool in_steps = o->schedule.kind == DPT_SCHEDULE_STEP;
    dpt_schedule s = o->schedule;
    dpti_schedule_resolve(&s);
    add(f, "number of epochs", "%zu", limited ? o->epochs : 1);
    add(f, "number of steps", "%zu", o->max_steps);
    add(f, "time limit", "%.9g s", o->max_seconds);
    add(f, "schedule", "%s", WORD(dpti_schedule_names, s.kind));
    add(f, "warm-up", "%zu steps", s.warmup_steps);
    add(f, "lowest learning rate", "%.9g", (double)s.min_lr);
    add(f, "steps of the schedule", "%zu", o->schedule_steps);
    add(f, "schedule's interval", "%zu epochs", in_steps ? s.every : 0);
    add(f, "schedule's factor", "%.9g", in_steps ? (double)s.factor : 0);
    add(f, "patience", "%zu", o->patience);
    add(f, "resuming", "%s", on(o->resume));
    add(f, "supervision", "%s%s", on(o->copies != NULL), o->again ? ", started again" : "");
    add(f, "metrics", "%s", on(o->metrics));
    add_data(f, "validation data", o->validation);
    add_data(f, "test data", o->test);
}

static const entry *entries_of(const dpti_gathered *all, size_t process)
{
    return (const entry *)(all->data + all->begins[process]);
}

static size_t n_entries_of(const dpti_gathered *all, size_t process)
{
    return (all->begins[process + 1] - all->begins[process]) / sizeof(entry);
}

static bool is_known(const char *value)
{
    return strcmp(value, unknown) != 0;
}

/* Two processes with different values of an entry. */
typedef struct difference {
    size_t first; /* the first process that knows its value */
    size_t other; /* the first process with another value */
} difference;

/* In entry i; false: there is no difference. */
static bool find_difference(const dpt_trainer *t, const dpti_gathered *all, size_t i, difference *d)
{
    const size_t n = dpti_processes_count(t->processes);
    d->first = 0;
    while (d->first < n && !is_known(entries_of(all, d->first)[i].value))
        ++d->first;
    for (size_t r = d->first + 1; r < n; r++) {
        const char *value = entries_of(all, r)[i].value;
        if (!is_known(value) || strcmp(value, entries_of(all, d->first)[i].value) == 0) continue;
        d->other = r;
        return true;
    }
    return false;
}

/* Names the first entry in which processes differ. */
static dpt_status compare_headers(dpt_trainer *t, const dpti_gathered *all)
{
    difference d;
    const size_t n = n_entries_of(all, 0);
    for (size_t r = 1; r < dpti_processes_count(t->processes); r++)
        if (n_entries_of(all, r) != n && !dpti_peers_is_others_affair(t, r))
            return dpt_fail(t->context, DPT_E_INVALID,
                            "process 0 and process %zu are of different versions of dptrain; "
                            "start the same version everywhere",
                            r);
    for (size_t i = 0; i < n; i++)
        if (find_difference(t, all, i, &d) && !dpti_peers_is_others_affair(t, d.other))
            return dpt_fail(t->context, DPT_E_INVALID,
                            "%s differs: process %zu has %s, process %zu has %s; start all "
                            "processes with the same options and the same data",
                            entries_of(all, 0)[i].name, d.first, entries_of(all, d.first)[i].value,
                            d.other, entries_of(all, d.other)[i].value);
    return DPT_OK;
}

/* Names of data and splits may have any bytes, and a line has none that control. */
static char plain(char c)
{
    return iscntrl((unsigned char)c) ? '?' : c;
}

/* A name and its value, on one line. */
static void write_line(FILE *out, const entry *e)
{
    for (const char *c = e->name; *c; c++)
        putc(*c, out);
    putc('\t', out);
    for (const char *c = e->value; *c; c++)
        putc(plain(*c), out);
    putc('\n', out);
}

/* Keeps the header for processes that come, if any can. */
static dpt_status note_header(const dpt_trainer *t, dpti_header_part part, const header *mine)
{
    const dpti_processes *p = t->processes;
    char *text = NULL;
    size_t n_bytes = 0;
    if (dpti_arrivals_most(p) == dpti_processes_first_count(p)) return DPT_OK;
    FILE *out = open_memstream(&text, &n_bytes);
    for (size_t i = 0; out && i < mine->n; i++)
        write_line(out, &mine->entries[i]);
    if (!out || fclose(out) != 0) {
        free(text);
        return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for processes that come");
    }
    dpti_arrivals_note(t->context, part, text);
    return DPT_OK;
}

/* Frees `mine`. */
static dpt_status check_header(dpt_trainer *t, dpti_header_part part, header *mine)
{
    dpti_gathered all = {.data = NULL};
    dpt_status status = mine->no_memory ? dpt_fail(t->context, DPT_E_NO_MEMORY,
                                                   "no memory to compare what processes do")
                                        : note_header(t, part, mine);
    status = dpti_peers_all_gather(
        t, status, (dpti_bytes){mine->entries, mine->n * sizeof *mine->entries}, &all);
    if (status == DPT_OK) status = dpti_peers_agree(t, compare_headers(t, &all));
    dpti_gathered_free(&all);
    free(mine->entries);
    return status;
}

dpt_status dpti_header_check_trainer(dpt_trainer *trainer, const dpt_trainer_options *options)
{
    if (!trainer->processes) return DPT_OK;
    header mine = {.n = 0};
    collect_trainer(trainer->model, trainer->data, options, &mine);
    return check_header(trainer, DPTI_HEADER_TRAINER, &mine);
}

dpt_status dpti_header_check_course(dpt_trainer *trainer, const dpt_fit_options *options)
{
    if (!trainer->processes) return DPT_OK;
    header mine = {.n = 0};
    collect_course(options, &mine);
    return check_header(trainer, DPTI_HEADER_COURSE, &mine);
}

/* ---- The process that comes ------------------------------------------------------------------ */

/* Compares an entry with the job's, which ends with its line. */
static dpt_status compare_told(dpt_context *context, const entry *mine)
{
    const char *told = dpti_arrivals_told_value(context, mine->name);
    char theirs[ENTRY_BYTES], own[ENTRY_BYTES];
    if (!told || !is_known(mine->value)) return DPT_OK;
    snprintf(theirs, sizeof theirs, "%.*s", (int)strcspn(told, "\n"), told);
    snprintf(own, sizeof own, "%s", mine->value);
    for (char *c = own; *c; c++)
        *c = plain(*c);
    if (!is_known(theirs) || strcmp(theirs, own) == 0) return DPT_OK;
    return dpt_fail(context, DPT_E_INVALID,
                    "%s differs: the job has %s, this process has %s; come with the job's data and "
                    "options",
                    mine->name, theirs, own);
}

dpt_status dpti_header_compare(const dpt_model *model, const dpt_dataset *data,
                               const dpt_trainer_options *trainer, const dpt_fit_options *fit)
{
    dpt_context *context = model->context;
    header mine = {.n = 0};
    collect_trainer(model, data, trainer, &mine);
    collect_course(fit, &mine);
    dpt_status status = mine.no_memory ? dpt_fail(context, DPT_E_NO_MEMORY,
                                                  "no memory to compare what processes do")
                                       : DPT_OK;
    for (size_t i = 0; i < mine.n && status == DPT_OK; i++)
        status = compare_told(context, &mine.entries[i]);
    free(mine.entries);
    return status;
}
