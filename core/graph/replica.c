/* A model on one device. */
#include "graph/replica.h"
#include "base/recorded.h"
#include "device/buffer.h"
#include "device/operator.h"
#include "device/signature.h"
#include "device/stream.h"
#include "graph/chunks.h"
#include "graph/loss.h"

#include "base/bfloat16.h"
#include "dpt_error.h"

#include <stdlib.h>
#include <string.h>

static dpt_status make_numbers(dpti_device *device, size_t n, dpti_buffer *out)
{
    const size_t n_bytes = n * sizeof(float);
    DPT_TRY(dpti_alloc(device, n_bytes, out));
    return dpti_fill(out, 0, 0, n_bytes);
}

static dpt_status upload_class_table(dpti_device *device, const dpti_replica_options *options,
                                     const dpti_buffer *constants)
{
    const size_t n = dpt_model_outputs(options->model), n_bytes = 2 * n * sizeof(float);
    float *table = malloc(n_bytes);
    if (!table)
        return DPT_FAIL(&device->base.error, DPT_E_NO_MEMORY, "no memory for class weights");
    dpti_class_table(options->class_weights, n, table);
    dpt_status status =
        dpti_upload(constants, options->model->n_constants * sizeof(float), table, n_bytes);
    if (status == DPT_OK) status = dpti_sync(device);
    free(table);
    return status;
}

static dpt_status make_constants(dpti_device *device, const dpti_replica_options *options,
                                 dpti_buffer *out)
{
    const dpt_model *model = options->model;
    const size_t n_bytes = model->n_constants * sizeof(float);
    const size_t table_bytes =
        options->class_weights ? 2 * dpt_model_outputs(model) * sizeof(float) : 0;
    if (n_bytes + table_bytes == 0) return DPT_OK;
    DPT_TRY(dpti_alloc(device, n_bytes + table_bytes, out));
    if (n_bytes > 0) DPT_TRY(dpti_upload(out, 0, model->constants, n_bytes));
    return table_bytes > 0 ? upload_class_table(device, options, out) : DPT_OK;
}

/* The summed gradients that the device keeps. */
static dpt_status make_sums(dpti_device *device, const dpti_replica_options *options,
                            size_t n_gradients, dpti_replica *out)
{
    const dpti_optimizer *o = &options->optimizer;
    const size_t n = o->end - o->begin + n_gradients - options->model->flat_trained;
    out->windowed = true;
    out->sums_begin = o->begin;
    out->sums_end = o->end;
    return n > 0 ? make_numbers(device, n, &out->sums) : DPT_OK;
}

static dpt_status make_parameters(dpti_device *device, const dpti_replica_options *options,
                                  dpti_replica *out)
{
    const dpti_optimizer *o = &options->optimizer;
    out->borrows = options->lender != NULL;
    out->gathers = o->divided_parameters;
    if (options->lender) {
        out->parameters = options->lender->parameters;
        return DPT_OK;
    }
    return make_numbers(device, dpti_count_kept(options->model, o), &out->parameters);
}

dpt_status dpti_replica_create(dpti_device *device, const dpti_replica_options *options,
                               dpti_replica *out)
{
    const dpt_model *model = options->model;
    const dpti_optimizer *optimizer = &options->optimizer;
    const size_t capacity = options->capacity;
    const bool adamw = optimizer->kind == DPT_OPTIMIZER_ADAMW;
    const size_t n_state =
        optimizer->divided ? optimizer->end - optimizer->begin : model->flat_gradients;
    const size_t n_gradients = options->n_gradients ? options->n_gradients : model->flat_gradients;
    *out = (dpti_replica){.device = device, .model = model, .capacity = capacity};
    DPT_TRY(make_parameters(device, options, out));
    if (optimizer->divided_sums)
        DPT_TRY(make_sums(device, options, n_gradients, out));
    else if (!options->predicts)
        DPT_TRY(make_numbers(device, n_gradients, &out->gradients));
    if (n_state > 0 && (adamw || optimizer->momentum != 0))
        DPT_TRY(make_numbers(device, n_state, &out->velocity));
    if (n_state > 0 && adamw) DPT_TRY(make_numbers(device, n_state, &out->squares));
    DPT_TRY(make_constants(device, options, &out->constants));
    DPT_TRY(
        dpti_alloc(device, dpti_step_buffer_bytes(capacity, options->mix_elements), &out->step));
    DPT_TRY(dpti_alloc(device, sizeof(float), &out->halt));
    DPT_TRY(dpti_fill(&out->halt, 0, 0, sizeof(float)));
    DPT_TRY(dpti_event_create(device, &out->moving));
    DPT_TRY(dpti_event_create(device, &out->start));
    DPT_TRY(dpti_event_create(device, &out->end));
    DPT_TRY(dpti_event_create(device, &out->fetched));
    return dpti_sync(device);
}

static dpt_status upload_piece(void *user, size_t offset, const float *values, size_t n)
{
    const dpti_replica *r = user;
    DPT_TRY(dpti_replica_write_kept(r, offset, values, n));
    return dpti_sync(r->device); /* the next piece takes the place of this one */
}

dpt_status dpti_replica_initialize(dpti_replica *replica, const dpti_initial *initial,
                                   dpt_error *error)
{
    const dpti_flat_sink sink = {upload_piece, replica};
    return dpti_initialize_pieces(replica->model, initial, &sink, error);
}

void dpti_replica_destroy(dpti_replica *replica)
{
    if (!replica->device) return;
    dpti_event_destroy(replica->device, &replica->fetched);
    dpti_event_destroy(replica->device, &replica->end);
    dpti_event_destroy(replica->device, &replica->start);
    dpti_event_destroy(replica->device, &replica->moving);
    dpti_free(&replica->halt);
    dpti_free(&replica->step);
    dpti_free(&replica->arena);
    dpti_free(&replica->constants);
    dpti_free(&replica->squares);
    dpti_free(&replica->velocity);
    dpti_grain_nodes_free(&replica->nodes);
    dpti_free(&replica->gradients);
    dpti_free(&replica->sums);
    if (!replica->borrows) dpti_free(&replica->parameters);
    *replica = (dpti_replica){0};
}

size_t dpti_replica_bytes(const dpti_replica *replica)
{
    return replica->parameters.n_bytes + replica->gradients.n_bytes + replica->sums.n_bytes +
           dpti_grain_nodes_bytes(&replica->nodes, replica->nodes.n) + replica->velocity.n_bytes +
           replica->squares.n_bytes + replica->constants.n_bytes + replica->arena.n_bytes +
           replica->step.n_bytes + replica->halt.n_bytes;
}

/* ---- Binding --------------------------------------------------------------------------------- */

typedef struct binder {
    dpti_executable *executable;
    const dpti_plan *plan;
    const dpti_data_places *data;
    const dpti_buffer *arena;
} binder;

dpti_place dpti_gradient_place(const dpti_replica *replica, size_t element)
{
    const dpti_replica *r = replica;
    const size_t at = r->windowed ? dpti_node_place(&r->nodes.places, element) : element;
    return (dpti_place){&r->gradients, at * sizeof(float)};
}

/* Of windowed replicas the sums, which are what the update reads. */
static dpti_place sum_place(const dpti_replica *r, size_t element)
{
    const size_t n_own = r->sums_end - r->sums_begin, trained = r->model->flat_trained;
    if (!r->windowed) return dpti_gradient_place(r, element);
    const size_t at = element < trained ? element - r->sums_begin : n_own + element - trained;
    return (dpti_place){&r->sums, at * sizeof(float)};
}

/* Whether instruction i is in a segment that commits. */
static bool commits(const dpti_program *program, size_t i)
{
    for (size_t s = 0; s < program->n_segments; s++)
        if (i >= program->segments[s].first && i < program->segments[s].last)
            return program->segments[s].commits;
    return false;
}

static dpti_place place_of(const binder *b, int tensor)
{
    const dpti_replica *r = b->executable->replica;
    if (tensor == DPTI_NO_TENSOR) return (dpti_place){0};
    const dpti_program_tensor *t = &b->executable->program.tensors[tensor];
    switch (t->home) {
    case DPTI_HOME_ARENA: return (dpti_place){b->arena, b->plan->tensor_offsets[tensor]};
    case DPTI_HOME_PARAMETERS: return dpti_parameter_place(r, t->offset);
    case DPTI_HOME_GRADIENTS:
        return commits(&b->executable->program, t->first) ? sum_place(r, t->offset)
                                                          : dpti_gradient_place(r, t->offset);
    case DPTI_HOME_VELOCITY: return (dpti_place){&r->velocity, t->offset * sizeof(float)};
    case DPTI_HOME_SQUARES: return (dpti_place){&r->squares, t->offset * sizeof(float)};
    case DPTI_HOME_CONSTANTS: return (dpti_place){&r->constants, t->offset * sizeof(float)};
    case DPTI_HOME_IMAGES: return (dpti_place){b->data->images, 0};
    case DPTI_HOME_LABELS: return (dpti_place){b->data->answers, 0};
    case DPTI_HOME_INDEX: return (dpti_place){&r->step, DPTI_STEP_INDEX_OFFSET};
    case DPTI_HOME_HALT: return (dpti_place){&r->halt, 0};
    case DPTI_HOME_ROWS: return (dpti_place){b->data->rows, 0};
    case DPTI_HOME_PARTNERS: return (dpti_place){&r->step, dpti_step_partners_offset(r->capacity)};
    case DPTI_HOME_PARTNER_ROWS: return (dpti_place){b->data->rows, b->data->partner_rows};
    case DPTI_HOME_MIX: return (dpti_place){&r->step, dpti_step_mix_offset(r->capacity)};
    }
    return (dpti_place){0};
}

static dpt_status bind_instruction(const binder *b, size_t i)
{
    dpti_executable *x = b->executable;
    const dpti_instruction *instruction = &x->program.instructions[i];
    dpti_binding binding = {.flags = instruction->flags};
    for (size_t s = 0; s < DPT_MAX_INPUTS; s++)
        binding.in[s] = place_of(b, instruction->in[s]);
    for (size_t s = 0; s < DPT_MAX_OUTPUTS; s++)
        binding.out[s] = place_of(b, instruction->out[s]);
    if (x->ops[i].info.workspace_bytes)
        binding.workspace = (dpti_place){b->arena, b->plan->workspace_offsets[i]};
    if (x->ops[i].signature.reads_step) binding.step = (dpti_place){&x->replica->step, 0};
    if (instruction->halts) binding.halt = (dpti_place){&x->replica->halt, 0};
    return dpti_bind(&x->ops[i], x->ops[i].max_samples, &binding, &x->args[i]);
}

/* Returns whether the device prepares instruction i.  A device without samples prepares only what
   commits. */
static bool takes_part(const dpti_executable *x, size_t i)
{
    if (x->replica->capacity > 0) return true;
    return commits(&x->program, i);
}

static bool is_call(const dpti_executable *x, size_t i)
{
    return x->program.instructions[i].call.kind != DPTI_CALL_NONE;
}

/* Returns whether the device prepares an operator for instruction i. */
static bool has_operator(const dpti_executable *x, size_t i)
{
    return takes_part(x, i) && !is_call(x, i);
}

/* Returns the recorded algorithm of the n-th operation (from 0) of this kind of this layer; NULL:
   none. */
static const char *recorded_algorithm(const dpti_recorded_choices *of, const char *layer,
                                      const char *kind, size_t n)
{
    for (size_t i = 0; of && i < of->n; i++) {
        const dpti_recorded_choice *c = &of->items[i];
        if (strcmp(c->layer, layer) != 0 || strcmp(c->kind, kind) != 0) continue;
        if (n-- == 0) return c->algorithm;
    }
    return NULL;
}

/* An operator that a log lists without an algorithm must be used without one. */
static const char *wanted_algorithm(const dpti_executable *x, size_t i)
{
    const dpti_instruction *all = x->program.instructions;
    const char *kind = dpti_op_name(all[i].desc.kind);
    size_t before = 0;
    if (!x->replica->wanted) return NULL;
    for (size_t k = 0; k < i; k++)
        if (has_operator(x, k) && strcmp(all[k].layer, all[i].layer) == 0 &&
            strcmp(dpti_op_name(all[k].desc.kind), kind) == 0)
            before++;
    const char *name = recorded_algorithm(x->replica->wanted, all[i].layer, kind, before);
    return name && *name ? name : NULL;
}

static dpt_status prepare_one(dpti_executable *x, size_t i, dpt_error *error)
{
    dpti_device *device = x->replica->device;
    const dpti_instruction *instruction = &x->program.instructions[i];
    const char *kind = dpti_op_name(instruction->desc.kind);
    dpt_op_request request = {
        .desc = &instruction->desc,
        .max_samples = dpti_samples_at_once(x, i, x->replica->capacity),
        .wanted = x->sums ? NULL : wanted_algorithm(x, i),
        .deterministic = x->sums != NULL,
    };
    dpt_status status = dpti_prepare_as(device, &request, &x->ops[i]);
    if (status == DPT_E_UNSUPPORTED && request.wanted && !x->replica->insists) {
        request.wanted = NULL;
        status = dpti_prepare_as(device, &request, &x->ops[i]);
    }
    if (status == DPT_E_UNSUPPORTED && request.wanted)
        return DPT_FAIL(error, status,
                        "layer %s (%s): the log that is replayed has '%.60s', which cannot be had "
                        "(%.200s); train with another --split, or where the log comes from",
                        instruction->layer, kind, request.wanted, device->base.error.message);
    if (status != DPT_OK)
        return DPT_FAIL(error, status, "layer %s (%s): %s", instruction->layer, kind,
                        device->base.error.message);
    return DPT_OK;
}

static dpt_status prepare_all(dpti_executable *x, size_t *workspace_bytes, dpt_error *error)
{
    for (size_t i = 0; i < x->program.n_instructions; i++) {
        if (!has_operator(x, i)) continue;
        DPT_TRY(prepare_one(x, i, error));
        workspace_bytes[i] = x->ops[i].info.workspace_bytes;
    }
    return DPT_OK;
}

/* The arena of the first program is used by every later program that fits into it, because
   programs never run at the same time. */
static dpt_status provide_arena(dpti_executable *x, size_t n_bytes, const dpti_buffer **out)
{
    dpti_replica *r = x->replica;
    dpti_buffer *arena = r->arena.handle && n_bytes > r->arena.n_bytes ? &x->arena : &r->arena;
    if (!arena->handle && n_bytes > 0) DPT_TRY(dpti_alloc(r->device, n_bytes, arena));
    *out = arena;
    return DPT_OK;
}

static dpt_status device_failure(const dpti_executable *x, dpt_status status, dpt_error *error)
{
    if (status != DPT_OK) *error = x->replica->device->base.error;
    return status;
}

/* Makes the gradients of a windowed replica, whose size depends on its program of training. */
static dpt_status provide_window(dpti_executable *x, const dpti_program_options *options,
                                 dpt_error *error)
{
    dpti_replica *r = x->replica;
    const dpti_program *p = &x->program;
    if (!r->windowed || options->purpose != DPTI_PURPOSE_TRAIN) return DPT_OK;
    if (p->segments[p->n_segments - 2].commits)
        return DPT_FAIL(
            error, DPT_E_INVALID,
            "model %s has gradients that follow from sums over the batch, as of weights "
            "that several layers share: in deterministic training every device needs "
            "all sums, so divide the optimizer's state alone",
            r->model->name);
    dpti_grain_nodes_place(x, false);
    return device_failure(x, make_numbers(r->device, r->nodes.places.n_elements, &r->gradients),
                          error);
}

static dpt_status bind_all(dpti_executable *x, const dpti_data_places *data, const dpti_plan *plan,
                           dpt_error *error)
{
    const dpti_buffer *arena = NULL;
    DPT_TRY(device_failure(x, provide_arena(x, plan->arena_bytes, &arena), error));
    const binder b = {.executable = x, .plan = plan, .data = data, .arena = arena};
    for (size_t i = 0; i < x->program.n_instructions; i++)
        if (has_operator(x, i)) DPT_TRY(device_failure(x, bind_instruction(&b, i), error));
    for (size_t s = 0; s < x->program.n_segments; s++) {
        const dpti_segment *segment = &x->program.segments[s];
        for (size_t i = 0; i < segment->n_parts; i++)
            x->exchanges[s][i] =
                (dpti_exchange_places){.part = place_of(&b, segment->parts[i].part),
                                       .parts = place_of(&b, segment->parts[i].parts)};
    }
    x->result_bytes = plan->tensor_offsets[x->program.result];
    dpti_fetches_place(x, arena, plan);
    return dpti_calls_create(x, plan, error);
}

dpt_status dpti_executable_create(dpti_replica *replica, const dpti_executable_options *options,
                                  dpti_executable *out, dpt_error *error)
{
    dpti_plan plan = {0};
    dpti_executable *x = out;
    *x = (dpti_executable){.replica = replica};
    dpti_program_options own = options->program;
    own.type = replica->device->info.activations;
    own.norms_mask =
        (replica->device->info.flags & DPT_DEVICE_NORMS_MASK) != 0 && !own.deterministic;
    dpti_choose_chunk_rows(replica->model, replica->device, &own);
    DPT_TRY(dpti_compile(replica->model, &own, &x->program, error));
    x->chunk_rows = dpti_rows_of_chunk(&x->program, replica->capacity);
    const size_t n = x->program.n_instructions, n_segments = x->program.n_segments;
    size_t *workspace_bytes = calloc(n, sizeof *workspace_bytes);
    x->ops = calloc(n, sizeof *x->ops);
    x->args = calloc(n, sizeof *x->args);
    x->exchanges = calloc(n_segments, sizeof *x->exchanges);
    x->recorded = calloc(n_segments, sizeof *x->recorded);
    if (own.deterministic) x->sums = dpti_grain_sums_create();
    dpt_status status = DPT_OK;
    if (!workspace_bytes || !x->ops || !x->args || !x->exchanges || !x->recorded ||
        (own.deterministic && !x->sums))
        status =
            DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to bind model %s", replica->model->name);
    if (status == DPT_OK) status = prepare_all(x, workspace_bytes, error);
    if (status == DPT_OK) status = provide_window(x, &own, error);
    if (status == DPT_OK) status = dpti_fetches_find(x, error);
    if (status == DPT_OK)
        status = dpti_plan_memory(
            &(dpti_plan_request){&x->program, replica->capacity, workspace_bytes}, &plan, error);
    if (status == DPT_OK) status = bind_all(x, &options->data, &plan, error);
    if (status == DPT_OK && x->sums) status = dpti_grain_sums_prepare(x, error);
    dpti_plan_free(&plan);
    free(workspace_bytes);
    return status;
}

static void release_recordings(dpti_executable *x)
{
    for (size_t s = 0; x->recorded && s < x->program.n_segments; s++)
        for (size_t i = 0; i < DPTI_RECORDINGS; i++)
            dpti_recording_release(x->replica->device, &x->recorded[s][i].recording);
}

void dpti_executable_destroy(dpti_executable *executable)
{
    dpti_executable *x = executable;
    if (!x->replica) return;
    release_recordings(x);
    dpti_calls_destroy(x);
    dpti_grain_sums_destroy(x->sums);
    for (size_t i = 0; x->ops && i < x->program.n_instructions; i++)
        dpti_release(&x->ops[i]);
    dpti_free(&x->arena);
    free(x->fetches.items);
    free(x->recorded);
    free(x->exchanges);
    free(x->args);
    free(x->ops);
    dpti_program_free(&x->program);
    *x = (dpti_executable){0};
}

double dpti_executable_flops(const dpti_executable *executable, size_t n_samples, bool again)
{
    const dpti_program *p = &executable->program;
    double sum = 0;
    for (size_t i = 0; i < p->n_instructions; i++) {
        const dpti_instruction *instruction = &p->instructions[i];
        const double rows = instruction->repeat ? (double)instruction->repeat : 1.0;
        if (again && instruction->again == 0) continue;
        sum += executable->ops[i].info.flops *
               (instruction->per_step ? 1.0 : rows * (double)n_samples);
    }
    return sum;
}

bool dpti_executable_operation(const dpti_executable *executable, size_t i, dpt_operation *out)
{
    const dpti_executable *x = executable;
    for (size_t k = 0; k < x->program.n_instructions; k++) {
        const dpti_instruction *instruction = &x->program.instructions[k];
        if (!has_operator(x, k) || i-- > 0) continue;
        *out = (dpt_operation){.size = sizeof(dpt_operation),
                               .layer = instruction->layer,
                               .kind = dpti_op_name(instruction->desc.kind),
                               .algorithm = x->ops[k].info.algorithm,
                               .measured = x->ops[k].info.measured};
        return true;
    }
    return false;
}

dpt_status dpti_executable_choices(const dpti_executable *executable, dpti_recorded_choices *out)
{
    dpt_operation o = {.size = sizeof o};
    size_t n = 0;
    while (dpti_executable_operation(executable, n, &o))
        n++;
    bool complete = dpti_recorded_choices_reserve(n, out);
    for (size_t i = 0; complete && dpti_executable_operation(executable, i, &o); i++)
        complete = dpti_recorded_choices_add(out, o.layer, o.kind, o.algorithm);
    if (complete) return DPT_OK;
    dpti_recorded_choices_free(out);
    return DPT_E_NO_MEMORY;
}

/* ---- Running --------------------------------------------------------------------------------- */

static dpt_status run_instruction(dpti_executable *x, size_t i, size_t n_samples,
                                  const dpti_grain_run *run)
{
    if (is_call(x, i)) return dpti_calls_run(x, i, n_samples);
    if (run && dpti_sums_over_grains(x, i)) return dpti_grain_sums_run(x, i, n_samples, run);
    const dpti_instruction *instruction = &x->program.instructions[i];
    const size_t rows = instruction->repeat ? instruction->repeat * n_samples : n_samples;
    return dpti_run(&x->ops[i], instruction->per_step ? 1 : rows, &x->args[i]);
}

static dpt_status enqueue(dpti_executable *x, size_t segment, size_t n_samples,
                          const dpti_grain_run *run)
{
    const dpti_segment *s = &x->program.segments[segment];
    const bool trains = x->program.n_gradients > 0;
    if (trains && (run || x->replica->windowed)) DPT_TRY(dpti_grain_nodes_clear(x, segment));
    for (size_t i = s->first; i < s->last; i++) {
        const dpti_instruction *instruction = &x->program.instructions[i];
        x->touched = x->touched || instruction->halts;
        DPT_TRY(dpti_fetches_run(x, i));
        if (dpti_begins_chunks(x, i, n_samples)) {
            DPT_TRY(dpti_chunks_run(x, n_samples, run));
            i = x->program.chunks.last - 1;
            continue;
        }
        DPT_TRY(run_instruction(x, i, n_samples, run));
    }
    return DPT_OK;
}

/* What a segment is run for. */
typedef struct run_key {
    size_t n_samples;
    dpti_grain_run run;
} run_key;

static run_key key_of(size_t n_samples, const dpti_grain_run *run)
{
    return (run_key){.n_samples = n_samples, .run = run ? *run : (dpti_grain_run){.first = 0}};
}

static const dpti_grain_run *run_of(const dpti_recorded *entry)
{
    return entry->run.grains.n > 0 ? &entry->run : NULL;
}

static bool is_for(const dpti_recorded *entry, const run_key *key)
{
    return entry->used > 0 && entry->n_samples == key->n_samples &&
           memcmp(&entry->run, &key->run, sizeof entry->run) == 0;
}

/* Returns the entry for this run, or the least recently used entry. */
static dpti_recorded *find_recorded(dpti_recorded *recorded, const run_key *key)
{
    dpti_recorded *oldest = recorded;
    for (size_t i = 0; i < DPTI_RECORDINGS; i++) {
        if (is_for(&recorded[i], key)) return &recorded[i];
        if (recorded[i].used < oldest->used) oldest = &recorded[i];
    }
    return oldest;
}

/* Reuses an entry for a run that is not recorded yet. */
static dpt_status begin_entry(dpti_device *device, dpti_recorded *entry, const run_key *key)
{
    if (entry->recording) {
        /* Work in the stream may still use the old recording. */
        DPT_TRY(dpti_sync(device));
        dpti_recording_release(device, &entry->recording);
    }
    *entry = (dpti_recorded){.n_samples = key->n_samples, .run = key->run};
    return DPT_OK;
}

/* If the segment cannot be recorded, the end of the recording reports it, or a run that would
   otherwise succeed: prepare has promised that. */
static dpt_status record(dpti_executable *x, size_t segment, dpti_recorded *entry)
{
    dpti_device *device = x->replica->device;
    dpt_recording *recording = NULL;
    const dpt_status begun = dpti_recording_begin(device);
    entry->refused = begun == DPT_E_UNSUPPORTED;
    if (begun != DPT_OK) return entry->refused ? DPT_OK : begun;

    const dpt_status status = enqueue(x, segment, entry->n_samples, run_of(entry));
    const dpt_error first = device->base.error;
    const dpt_status ended = dpti_recording_end(device, &recording);
    if (ended == DPT_OK && status == DPT_OK) {
        entry->recording = recording;
        return DPT_OK;
    }
    if (ended == DPT_OK) dpti_recording_release(device, &recording);
    entry->refused = ended == DPT_E_UNSUPPORTED || (ended == DPT_OK && status == DPT_E_UNSUPPORTED);
    if (entry->refused) return DPT_OK;
    if (status != DPT_OK) device->base.error = first;
    return status != DPT_OK ? status : ended;
}

static bool can_record(const dpti_executable *x, size_t segment)
{
    return dpti_can_record(x->replica->device) && !x->program.segments[segment].calls &&
           !dpti_fetches_any(x, segment);
}

dpt_status dpti_executable_run(dpti_executable *executable, size_t segment, size_t n_samples,
                               const dpti_grain_run *run)
{
    dpti_executable *x = executable;
    dpti_device *device = x->replica->device;
    x->touched = x->first_run = false;
    if (!can_record(x, segment)) return enqueue(x, segment, n_samples, run);
    const run_key key = key_of(n_samples, run);
    dpti_recorded *entry = find_recorded(x->recorded[segment], &key);
    if (!is_for(entry, &key)) DPT_TRY(begin_entry(device, entry, &key));
    entry->used = ++x->clock;
    if (!dpti_records_late(device) && !entry->recording && !entry->refused) {
        const dpt_status recorded = record(x, segment, entry);
        x->touched = false; /* nothing has run yet */
        DPT_TRY(recorded);
    }
    if (entry->recording) return dpti_recording_replay(device, entry->recording);
    x->first_run = dpti_records_late(device) && !entry->ran;
    DPT_TRY(enqueue(x, segment, n_samples, run));
    entry->ran = true;
    return DPT_OK;
}

dpt_status dpti_executable_record(dpti_executable *executable, size_t segment, size_t n_samples,
                                  const dpti_grain_run *run)
{
    dpti_executable *x = executable;
    dpti_device *device = x->replica->device;
    if (!can_record(x, segment) || !dpti_records_late(device)) return DPT_OK;
    const run_key key = key_of(n_samples, run);
    dpti_recorded *entry = find_recorded(x->recorded[segment], &key);
    const bool due = is_for(entry, &key) && entry->ran && !entry->recording && !entry->refused;
    return due ? record(x, segment, entry) : DPT_OK;
}

dpt_status dpti_executable_result(dpti_executable *executable, size_t n_samples, float *host)
{
    const dpti_executable *x = executable;
    const dpti_buffer *arena = x->arena.handle ? &x->arena : &x->replica->arena;
    return dpti_download(host, arena, x->result_bytes,
                         n_samples * x->program.result_elements *
                             dpt_dtype_bytes(x->program.result_type));
}

void dpti_executable_widen(const dpti_executable *executable, size_t n_samples, float *host)
{
    const dpti_program *program = &executable->program;
    if (program->result_type == DPT_BF16)
        dpti_bfloat16_unpack(host, n_samples * program->result_elements);
}
