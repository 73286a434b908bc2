/* Running a program in double precision (interpreter.h). */
#include "graph/loss.h"
#include "reference/reference.h"
#include "train/interpreter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool create_data(interpreter *it, const dpti_program_options *o)
{
    const dpt_dataset *d = o->data;
    const size_t n = d->n_records * d->height * d->width * d->channels;
    const bool targets = dpti_loss_has_targets(o->loss);
    const size_t width = targets ? d->classes : dpti_dataset_labels(d);
    it->images = calloc(n, sizeof *it->images);
    it->labels = calloc(d->n_records * width, sizeof *it->labels);
    if (!it->images || !it->labels) return false;
    for (size_t i = 0; i < n; i++)
        it->images[i] = d->dtype == DPT_U8    ? (double)((const uint8_t *)d->images)[i]
                        : d->dtype == DPT_I32 ? (double)((const int32_t *)d->images)[i]
                                              : (double)((const float *)d->images)[i];
    for (size_t i = 0; i < d->n_records * width; i++)
        it->labels[i] = targets ? (double)d->targets[i] : (double)d->labels[i];
    it->labels_per_sample = 0;
    for (size_t i = 0; i < d->n_records * width; i++)
        if (targets || it->labels[i] >= 0)
            it->labels_per_sample +=
                o->class_weights ? (double)o->class_weights[(size_t)it->labels[i]] : 1;
    it->labels_per_sample /= (double)(targets ? d->n_records * width : d->n_records);
    return true;
}

static double *make_flat(const dpt_model *model)
{
    return calloc(model->flat_size, sizeof(double));
}

/* Constants are float32, or int32 if they are ids. */
static void take_constants(const dpt_model *model, const float *class_weights, double *out)
{
    for (size_t i = 0; class_weights && i < dpt_model_outputs(model); i++) {
        out[model->n_constants + 2 * i] = (double)class_weights[i];
        out[model->n_constants + 2 * i + 1] = 1;
    }
    for (size_t i = 0; i < model->n_constants; i++)
        out[i] = (double)model->constants[i];
    for (size_t i = 0; i < model->n_nodes; i++) {
        const dpti_node *node = &model->nodes[i];
        if (node->kind != DPTI_NODE_CONSTANT || !node->integer) continue;
        for (size_t e = 0; e < node->elements; e++) {
            int32_t id;
            memcpy(&id, model->constants + node->constant + e, sizeof id);
            out[node->constant + e] = id;
        }
    }
}

bool interpreter_create(const dpt_model *model, const dpti_program_options *options,
                        size_t n_devices, interpreter *out)
{
    dpt_error error = {0};
    *out = (interpreter){
        .model = model, .n_devices = n_devices, .accumulates = options->accumulate, .epoch = 1};
    if (dpti_compile(model, options, &out->program, &error) != DPT_OK) return false;
    out->parameters = make_flat(model);
    out->velocity = make_flat(model);
    out->squares = make_flat(model);
    out->gradients = make_flat(model);
    out->constants =
        calloc(model->n_constants + 2 * dpt_model_outputs(model), sizeof *out->constants);
    out->devices = calloc(n_devices, sizeof *out->devices);
    if (!out->parameters || !out->velocity || !out->squares || !out->gradients || !out->constants ||
        !out->devices)
        return false;
    take_constants(model, options->class_weights, out->constants);
    for (size_t d = 0; d < n_devices; d++) {
        out->devices[d].tensors = calloc(out->program.n_tensors, sizeof(double *));
        out->devices[d].gradients = make_flat(model);
        if (!out->devices[d].tensors || !out->devices[d].gradients) return false;
    }
    return create_data(out, options);
}

static void free_tensors(const interpreter *it, interpreter_device *device)
{
    for (size_t i = 0; device->tensors && i < it->program.n_tensors; i++) {
        free(device->tensors[i]);
        device->tensors[i] = NULL;
    }
    free(device->index);
    device->index = NULL;
}

void interpreter_free(interpreter *it)
{
    for (size_t d = 0; it->devices && d < it->n_devices; d++) {
        free_tensors(it, &it->devices[d]);
        free(it->devices[d].tensors);
        free(it->devices[d].gradients);
    }
    free(it->devices);
    free(it->images);
    free(it->labels);
    free(it->parameters);
    free(it->velocity);
    free(it->squares);
    free(it->gradients);
    free(it->constants);
    free(it->results);
    dpti_program_free(&it->program);
    *it = (interpreter){0};
}

static double *poisoned(size_t n)
{
    double *out = malloc((n + 1) * sizeof *out);
    if (!out) abort();
    for (size_t i = 0; i < n; i++)
        out[i] = NAN;
    return out;
}

/* ---- One device ------------------------------------------------------------------------------ */

static void prepare_device(const interpreter *it, interpreter_device *device,
                           const uint32_t *records, size_t n)
{
    const dpti_program *p = &it->program;
    free_tensors(it, device);
    device->n_samples = n;
    device->index = poisoned(n);
    for (size_t i = 0; i < n; i++)
        device->index[i] = records[i];
    for (size_t i = 0; i < p->n_tensors; i++) {
        const dpti_program_tensor *t = &p->tensors[i];
        if (t->home == DPTI_HOME_ARENA)
            device->tensors[i] = poisoned((n * t->per_sample_bytes + t->fixed_bytes) / 4);
    }
    for (size_t i = 0; i < it->model->flat_size; i++)
        device->gradients[i] = it->accumulates ? it->gradients[i] : NAN;
}

static double *place_of(const interpreter *it, const interpreter_device *device, int tensor)
{
    if (tensor == DPTI_NO_TENSOR) return NULL;
    const dpti_program_tensor *t = &it->program.tensors[tensor];
    switch (t->home) {
    case DPTI_HOME_ARENA: return (device ? device : it->devices)->tensors[tensor];
    case DPTI_HOME_PARAMETERS: return it->parameters + t->offset;
    case DPTI_HOME_GRADIENTS: return (device ? device->gradients : it->gradients) + t->offset;
    case DPTI_HOME_VELOCITY: return it->velocity + t->offset;
    case DPTI_HOME_SQUARES: return it->squares + t->offset;
    case DPTI_HOME_CONSTANTS: return it->constants + t->offset;
    case DPTI_HOME_IMAGES: return it->images;
    case DPTI_HOME_LABELS: return it->labels;
    case DPTI_HOME_INDEX: return device->index;
    case DPTI_HOME_ROWS: break; /* the data are all there: nothing is fed, */
    case DPTI_HOME_HALT: break; /* and this one has a vote */
    case DPTI_HOME_PARTNERS:    /* nothing is mixed */
    case DPTI_HOME_PARTNER_ROWS:
    case DPTI_HOME_MIX: break;
    }
    return NULL;
}

/* device: NULL in the committing segment, which works on what all have. */
static void run_segment(const interpreter *it, const interpreter_device *device, size_t segment,
                        double inv_batch)
{
    const dpti_segment *s = &it->program.segments[segment];
    for (size_t i = s->first; i < s->last; i++) {
        const dpti_instruction *instruction = &it->program.instructions[i];
        reference_args args = {.lr = it->lr,
                               .inv_batch = inv_batch,
                               .inv_labels = inv_batch / it->labels_per_sample,
                               .adam_scale_m = it->adam_scale_m,
                               .adam_scale_v = it->adam_scale_v,
                               .seed = {(uint32_t)it->seed, (uint32_t)(it->seed >> 32)},
                               .epoch = it->epoch,
                               .accumulate = (instruction->flags & DPT_RUN_ACCUMULATE) != 0};
        for (size_t k = 0; k < DPT_MAX_INPUTS; k++)
            args.in[k] = place_of(it, device, instruction->in[k]);
        for (size_t k = 0; k < DPT_MAX_OUTPUTS; k++)
            args.out[k] = place_of(it, device, instruction->out[k]);
        const size_t rows = instruction->repeat ? instruction->repeat : 1;
        reference_run(&instruction->desc, instruction->per_step ? 1 : rows * device->n_samples,
                      &args);
    }
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Row d of everybody's parts is device d's part; zeros if it has no samples. */
static void exchange_part(interpreter *it, const dpti_part *p)
{
    for (size_t to = 0; to < it->n_devices; to++)
        for (size_t from = 0; from < it->n_devices; from++) {
            double *row = it->devices[to].tensors[p->parts] + from * p->count;
            const double *part = it->devices[from].tensors[p->part];
            for (size_t i = 0; i < p->count; i++)
                row[i] = it->devices[from].n_samples ? part[i] : 0;
        }
}

/* What no parameter covers stays zero. */
static void sum_gradients(interpreter *it)
{
    memset(it->gradients, 0, it->model->flat_size * sizeof *it->gradients);
    for (size_t i = 0; i < it->model->n_parameters; i++) {
        const dpti_parameter *p = &it->model->parameters[i];
        for (size_t d = 0; d < it->n_devices; d++)
            for (size_t e = 0; it->devices[d].n_samples && e < p->size; e++)
                it->gradients[p->offset + e] += it->devices[d].gradients[p->offset + e];
    }
}

static double collect_results(interpreter *it, size_t n, double inv_batch)
{
    const size_t width = it->program.result_elements;
    double loss = 0;
    size_t at = 0;
    free(it->results);
    it->results = poisoned(n * width);
    for (size_t d = 0; d < it->n_devices; d++) {
        const size_t count = it->devices[d].n_samples * width;
        memcpy(it->results + at, it->devices[d].tensors[it->program.result],
               count * sizeof *it->results);
        at += count;
    }
    for (size_t i = 0; i < n; i++)
        loss += it->results[width * i] * inv_batch / it->labels_per_sample;
    return loss;
}

double interpreter_compute(interpreter *it, const uint32_t *records, const size_t *shards,
                           double inv_batch)
{
    size_t n = 0;
    bool trains = false;
    for (size_t d = 0; d < it->n_devices; n += shards[d++])
        prepare_device(it, &it->devices[d], records + n, shards[d]);
    for (size_t s = 0; s < it->program.n_segments; s++) {
        const dpti_segment *segment = &it->program.segments[s];
        if (segment->commits) break;
        for (size_t d = 0; d < it->n_devices; d++)
            if (shards[d] > 0) run_segment(it, &it->devices[d], s, inv_batch);
        for (size_t i = 0; segment->exchange == DPTI_EXCHANGE_TAKE && i < segment->n_parts; i++)
            exchange_part(it, &segment->parts[i]);
        trains = trains || segment->exchange == DPTI_EXCHANGE_GRADIENTS;
    }
    if (trains) sum_gradients(it);
    return collect_results(it, n, inv_batch);
}

void interpreter_commit(interpreter *it)
{
    run_segment(it, NULL, it->program.n_segments - 1, 1);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

double parameter_norm(const dpti_parameter *p, const double *flat)
{
    double sum = 0;
    for (size_t i = 0; i < p->size; i++)
        sum += pow(flat[p->offset + i], 2);
    return sqrt(sum);
}

double parameter_error(const dpti_parameter *p, const float *flat, const double *reference)
{
    double sum = 0;
    for (size_t i = 0; i < p->size; i++)
        sum += pow((double)flat[p->offset + i] - reference[p->offset + i], 2);
    return sqrt(sum);
}

bool feeds_batch_norm(const dpt_model *model, size_t parameter)
{
    for (size_t i = 0; i < model->n_nodes; i++) {
        const dpti_node *before = &model->nodes[model->nodes[i].inputs[0]];
        if (model->nodes[i].kind != DPTI_NODE_BATCH_NORM) continue;
        if (before->bias == parameter) return true;
        if (before->kind == DPTI_NODE_BATCH_NORM && before->weight == parameter) return true;
    }
    return false;
}
