/* Running the instructions of chunks (chunks.h). */
#include "graph/chunks.h"

#include "graph/replica.h"

enum {
    CHUNK_BYTES = 16 << 20, /* of logits, if these are enough rows: */
    LEAST_ROWS_OF_HOST = 256,
    LEAST_ROWS = 4096, /* a card computes more in the time in which it reads the weights */
};

void dpti_choose_chunk_rows(const dpt_model *model, const dpti_device *device,
                            dpti_program_options *options)
{
    const dpt_model *m = model;
    const dpt_device_properties *info = &device->info;
    const size_t least = info->cache_bytes > 0 ? LEAST_ROWS_OF_HOST : LEAST_ROWS;
    const size_t classes = m->nodes[m->logits].elements / m->n_labels;
    const size_t rows = CHUNK_BYTES / dpt_dtype_bytes(info->activations) / classes;
    options->chunk_rows_told = options->chunk_rows > 0;
    if (!options->chunk_rows_told) options->chunk_rows = rows > least ? rows : least;
}

bool dpti_is_divided(const dpti_executable *executable, size_t i)
{
    const dpti_executable *x = executable;
    const dpti_chunks *chunks = &x->program.chunks;
    return i >= chunks->first && i < chunks->last &&
           x->chunk_rows < chunks->rows * x->replica->capacity;
}

size_t dpti_samples_at_once(const dpti_executable *executable, size_t i, size_t n)
{
    const dpti_instruction *instruction = &executable->program.instructions[i];
    if (instruction->per_step) return 1;
    if (dpti_is_divided(executable, i)) return executable->chunk_rows;
    return instruction->repeat ? instruction->repeat * n : n;
}

bool dpti_begins_chunks(const dpti_executable *executable, size_t i, size_t n_samples)
{
    const dpti_chunks *chunks = &executable->program.chunks;
    return i == chunks->first && i < chunks->last &&
           n_samples * chunks->rows > executable->chunk_rows;
}

/* Rows of the samples of a run. */
typedef struct rows {
    size_t first, n;
    bool adds; /* sums over samples add to what chunks before have written */
} rows;

/* Whether a tensor has the rows of one chunk alone. */
static bool is_of_chunk(const dpti_executable *x, int tensor)
{
    return x->program.tensors[tensor].chunk_row_bytes > 0;
}

static void move_on(dpt_location *location, const dpti_slot *slot, size_t n_rows)
{
    location->offset_bytes += n_rows * slot->per_sample * dpt_dtype_bytes(slot->dtype);
}

/* Whether an instruction sums over samples. */
static bool sums(const dpti_signature *signature)
{
    for (size_t s = 0; s < signature->n_out; s++)
        if (signature->out[s].per_sample == 0) return true;
    return false;
}

static dpt_status run_rows(dpti_executable *x, size_t i, rows of)
{
    const dpti_op *op = &x->ops[i];
    const dpti_instruction *instruction = &x->program.instructions[i];
    const dpti_signature *signature = &op->signature;
    dpt_op_args args = x->args[i];
    for (size_t s = 0; s < signature->n_in; s++)
        if (!is_of_chunk(x, instruction->in[s])) move_on(&args.in[s], &signature->in[s], of.first);
    for (size_t s = 0; s < signature->n_out; s++)
        if (!is_of_chunk(x, instruction->out[s]))
            move_on(&args.out[s], &signature->out[s], of.first);
    if (of.adds && sums(signature)) args.flags |= DPT_RUN_ACCUMULATE;
    return dpti_run(op, of.n, &args);
}

static dpt_status run_chunks_of_rows(dpti_executable *x, size_t n_rows)
{
    const dpti_chunks *chunks = &x->program.chunks;
    const size_t n_chunks = n_rows / x->chunk_rows + (n_rows % x->chunk_rows != 0);
    const size_t most = n_rows / n_chunks + (n_rows % n_chunks != 0);
    for (size_t first = 0; first < n_rows; first += most) {
        const size_t left = n_rows - first;
        const rows of = {.first = first, .n = left < most ? left : most, .adds = first > 0};
        for (size_t i = chunks->first; i < chunks->last; i++)
            DPT_TRY(run_rows(x, i, of));
    }
    return DPT_OK;
}

/* One step of the work over grains: a chunk, or a sum of the sums of chunks. */
static dpt_status run_step(dpti_executable *x, const dpti_grain_run *run,
                           const dpti_grain_step *step)
{
    const dpti_chunks *chunks = &x->program.chunks;
    const dpti_grains *g = &run->grains;
    const size_t before = dpti_grain_begin(g, run->first);
    rows of = {.n = 0};
    if (!step->is_sum) {
        const size_t begin = dpti_grain_begin(g, step->grains.begin);
        of = (rows){.first = (begin - before) * chunks->rows,
                    .n = (dpti_grain_begin(g, step->grains.end) - begin) * chunks->rows};
    }
    for (size_t i = chunks->first; i < chunks->last; i++) {
        if (dpti_sums_over_grains(x, i))
            DPT_TRY(dpti_grain_sums_run_step(x, i, run, step));
        else if (!step->is_sum)
            DPT_TRY(run_rows(x, i, of));
    }
    return DPT_OK;
}

static dpt_status run_grains(dpti_executable *x, size_t n_samples, const dpti_grain_run *run)
{
    dpti_grain_list list = run->before;
    dpti_grain_work work;
    (void)dpti_grains_plan(&list, dpti_grains_of_run(run, n_samples), run->grains.n, &work);
    for (size_t k = 0; k < work.n_steps; k++)
        DPT_TRY(run_step(x, run, &work.steps[k]));
    return DPT_OK;
}

dpt_status dpti_chunks_run(dpti_executable *executable, size_t n_samples, const dpti_grain_run *run)
{
    dpti_executable *x = executable;
    const dpti_chunks *chunks = &x->program.chunks;
    if (run && chunks->sum_bytes > 0) return run_grains(x, n_samples, run);
    return run_chunks_of_rows(x, n_samples * chunks->rows);
}
