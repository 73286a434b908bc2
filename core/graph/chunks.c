/* Chunks of the last layer (dpti_chunks): which layer it is, and which tensors have a chunk's rows.
 */
#include "graph/compile.h"

#include "base/grains.h"
#include "base/size.h"

void dpti_find_chunked(dpti_compiler *c)
{
    const dpt_model *m = c->model;
    const size_t root = c->root[m->logits];
    const dpti_node *node = &m->nodes[root];
    c->chunked = SIZE_MAX;
    if (c->options->chunk_rows == 0 || c->options->purpose == DPTI_PURPOSE_PREDICT) return;
    if (c->options->loss != DPT_LOSS_CROSS_ENTROPY || m->n_labels < 2) return;
    if (node->kind != DPTI_NODE_LINEAR || node->repeat != m->n_labels) return;
    if (c->consumers[root] != 1 || c->activation[root] != DPT_ACT_NONE) return;
    c->chunked = root;
}

void dpti_begin_chunks(const dpti_compiler *c)
{
    c->program->chunks = (dpti_chunks){.first = c->program->n_instructions,
                                       .rows = c->model->n_labels,
                                       .most = c->options->chunk_rows,
                                       .told = c->options->chunk_rows_told};
}

void dpti_end_chunks(const dpti_compiler *c)
{
    c->program->chunks.last = c->program->n_instructions;
}

static bool is_in_chunks(const dpti_chunks *chunks, size_t instruction)
{
    return instruction >= chunks->first && instruction < chunks->last;
}

/* A tensor that an instruction of chunks uses. */
static void place(dpti_program *p, int tensor)
{
    dpti_chunks *chunks = &p->chunks;
    if (tensor == DPTI_NO_TENSOR) return;
    dpti_program_tensor *t = &p->tensors[tensor];
    if (t->home != DPTI_HOME_ARENA || t->chunk_row_bytes > 0) return;
    const bool is_of_chunk = is_in_chunks(chunks, t->first) && is_in_chunks(chunks, t->last);
    if (is_of_chunk && t->fixed_bytes == 0) {
        t->chunk_row_bytes = t->per_sample_bytes / chunks->rows;
        t->per_sample_bytes = 0;
        chunks->row_bytes += t->chunk_row_bytes;
        return;
    }
    if (t->first > chunks->first) t->first = chunks->first;
    if (t->last < chunks->last - 1) t->last = chunks->last - 1;
}

/* The memory in which the sums of grains are added up, which the layer's gradients take. */
static size_t sum_bytes(const dpti_compiler *c)
{
    const dpt_linear_desc *d = &c->model->nodes[c->chunked].forward.u.linear;
    return DPTI_GRAIN_SCRATCH * (d->out * d->in + d->out) * sizeof(float);
}

void dpti_place_chunks(const dpti_compiler *c)
{
    dpti_program *p = c->program;
    for (size_t i = p->chunks.first; i < p->chunks.last; i++) {
        for (size_t s = 0; s < DPT_MAX_INPUTS; s++)
            place(p, p->instructions[i].in[s]);
        for (size_t s = 0; s < DPTI_INSTRUCTION_OUTPUTS; s++)
            place(p, p->instructions[i].out[s]);
    }
    if (p->chunks.last == p->chunks.first || !dpti_is_training(c) || !c->options->deterministic)
        return;
    p->chunks.grain = c->options->grain;
    p->chunks.sum_bytes = sum_bytes(c);
}

/* Chunks of nearly the same size. */
static size_t divide(size_t rows, size_t most)
{
    const size_t n = rows / most + (rows % most != 0);
    return n > 1 ? rows / n + (rows % n != 0) : rows;
}

size_t dpti_rows_of_chunk(const dpti_program *program, size_t max_samples)
{
    const dpti_chunks *chunks = &program->chunks;
    size_t all, saved;
    if (chunks->last == chunks->first) return 0;
    if (!dpti_multiply(chunks->rows, max_samples, &all)) return chunks->most;
    if (all <= chunks->most) return all;
    if (chunks->sum_bytes == 0) return divide(all, chunks->most);
    /* Chunks of grains, where this takes less memory. */
    const size_t grain = chunks->grain * chunks->rows;
    if (chunks->grain == 0 || grain >= all) return all;
    if (chunks->told) return grain;
    if (!dpti_multiply(all - grain, chunks->row_bytes, &saved)) return grain;
    return saved > chunks->sum_bytes ? grain : all;
}
