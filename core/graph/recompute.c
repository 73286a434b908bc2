/* Recomputation: most values of the forward pass are not kept for the backward pass, but computed
   again in it.

   The nodes are cut into stages, runs of consecutive nodes.  What a later stage reads is kept.
   Before the backward pass of a stage, other than the last one, the forward pass of the stage is
   emitted again.  It writes other tensors, so that the lives of the first ones end with the forward
   pass.  The operators and their inputs are the same, and so are the bits: dropout follows from the
   numbers of the samples, and a batch-norm keeps its moments, whose statistics are taken once.

   The cuts are where little is alive, such as between the blocks of a residual network.  Of several
   sizes of stages the one is taken with which the values that are kept and those of the largest
   stage take the fewest bytes: for n like layers about the square root of n stages. */
#include "graph/compile.h"

#include <stdlib.h>
#include <string.h>

/* ---- Where to cut ---------------------------------------------------------------------------- */

enum { MOST_STAGES = 64 };

/* What is known of the nodes; sizes are in elements of a sample. */
typedef struct nodes {
    size_t n;
    size_t *size;     /* of what a node computes for the backward pass; 0: nothing */
    size_t *last_use; /* the last node that reads a root */
    size_t *crossing; /* the sizes of the roots that are computed up to a node and read behind it */
} nodes;

static size_t size_of(const dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    if (!dpti_computes(c, i) || node->unsampled) return 0;
    if (node->kind == DPTI_NODE_ATTENTION)
        return node->elements + node->forward.u.attention.heads * node->forward.u.attention.queries;
    if (node->kind != DPTI_NODE_RECURRENT) return node->elements;
    return node->elements * (2 + dpt_recurrent_saved(node->forward.u.recurrent.cell));
}

static void describe(const dpti_compiler *c, nodes *of)
{
    const dpt_model *m = c->model;
    for (size_t i = 0; i < of->n; i++) {
        const dpti_node *node = &m->nodes[i];
        const size_t reader = c->root[i];
        of->size[i] = size_of(c, i);
        if (reader != i && c->root[node->inputs[0]] == reader && node->n_inputs == 1) continue;
        for (size_t k = 0; k < node->n_inputs; k++) {
            const size_t root = c->root[node->inputs[k]];
            if (root != reader && of->last_use[root] < reader) of->last_use[root] = reader;
        }
    }
    of->last_use[c->root[m->logits]] = of->n - 1;
    for (size_t i = 0; i < of->n; i++)
        for (size_t at = i; at < of->last_use[i] && of->size[i] > 0; at++)
            of->crossing[at] += of->size[i];
}

/* Cuts before a stage would have more than `most`, where the least crosses; of equal places, at the
   last one. */
static void cut(const dpti_compiler *c, const nodes *of, size_t most)
{
    size_t begin = 0, best = SIZE_MAX, sum = 0;
    for (size_t i = 0; i < of->n; i++) {
        sum += of->size[i];
        if (sum > most && best != SIZE_MAX && best < i) {
            for (size_t k = begin; k <= best; k++)
                c->recompute->stage[k] = c->recompute->n_stages;
            c->recompute->n_stages++;
            begin = best + 1;
            best = SIZE_MAX;
            sum = 0;
            for (size_t k = begin; k <= i; k++) {
                sum += of->size[k];
                if (k < i && (best == SIZE_MAX || of->crossing[k] <= of->crossing[best])) best = k;
            }
        }
        if (best == SIZE_MAX || of->crossing[i] <= of->crossing[best]) best = i;
    }
    for (size_t k = begin; k < of->n; k++)
        c->recompute->stage[k] = c->recompute->n_stages;
    c->recompute->n_stages++;
}

static bool is_kept(const dpti_compiler *c, const nodes *of, size_t i)
{
    const size_t *stage = c->recompute->stage;
    return stage[of->last_use[i]] != stage[i];
}

/* The size of what is kept, and of the largest stage. */
static size_t cost_of(const dpti_compiler *c, const nodes *of)
{
    size_t kept = 0, largest = 0, sum = 0;
    for (size_t i = 0; i < of->n; i++) {
        if (i > 0 && c->recompute->stage[i] != c->recompute->stage[i - 1]) sum = 0;
        sum += of->size[i];
        if (sum > largest) largest = sum;
        if (is_kept(c, of, i)) kept += of->size[i];
    }
    return kept + largest;
}

static void cut_into(const dpti_compiler *c, const nodes *of, size_t n_stages)
{
    size_t all = 0;
    for (size_t i = 0; i < of->n; i++)
        all += of->size[i];
    c->recompute->n_stages = 0;
    cut(c, of, all / n_stages);
}

dpt_status dpti_cut_stages(dpti_compiler *c)
{
    nodes of = {.n = c->model->n_nodes};
    size_t best = 1, least = SIZE_MAX;
    if (!c->recompute) return DPT_OK;
    of.size = calloc(3 * of.n, sizeof *of.size);
    if (!of.size)
        return DPT_FAIL(c->error, DPT_E_NO_MEMORY, "no memory to compile model %s", c->model->name);
    of.last_use = of.size + of.n;
    of.crossing = of.last_use + of.n;
    describe(c, &of);
    for (size_t n = 1; n <= MOST_STAGES; n++) {
        cut_into(c, &of, n);
        const size_t cost = cost_of(c, &of);
        if (cost < least) {
            least = cost;
            best = n;
        }
    }
    cut_into(c, &of, best);
    for (size_t i = 0; i < of.n; i++)
        c->recompute->kept[i] = is_kept(c, &of, i);
    c->recompute->at = c->recompute->n_stages - 1;
    free(of.size);
    return DPT_OK;
}

/* ---- Computing again ------------------------------------------------------------------------- */

/* A function of the program is called once.  A recurrence is computed again although its output is
   kept, because its gates are not. */
static bool is_computed_again(const dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    if (!dpti_computes(c, i) || node->unsampled || node->kind == DPTI_NODE_CALL) return false;
    if (c->recompute->kept[i] && node->kind != DPTI_NODE_RECURRENT) return false;
    return !c->recompute->unread || !c->recompute->unread[i];
}

dpt_status dpti_emit_stage_again(dpti_compiler *c, size_t node)
{
    dpti_recomputation *r = c->recompute;
    if (!r || r->stage[node] == r->at) return DPT_OK;
    r->at = r->stage[node];
    for (size_t i = 0; i < c->model->n_nodes; i++) {
        if (r->stage[i] != r->at || !is_computed_again(c, i)) continue;
        r->again = i + 1;
        const dpt_status status = dpti_emit_forward(c, i);
        r->again = 0;
        DPT_TRY(status);
    }
    return DPT_OK;
}

dpt_status dpti_find_unread(const dpt_model *model, const dpti_program *program, bool *unread)
{
    bool *read = calloc(program->n_tensors, sizeof *read);
    if (!read) return DPT_E_NO_MEMORY;
    for (size_t i = 0; i < model->n_nodes; i++)
        unread[i] = true;
    for (size_t i = program->n_instructions; i-- > 0;) {
        const dpti_instruction *instruction = &program->instructions[i];
        bool is_read = instruction->again == 0;
        for (size_t s = 0; s < DPTI_INSTRUCTION_OUTPUTS; s++)
            if (instruction->out[s] != DPTI_NO_TENSOR && read[instruction->out[s]]) is_read = true;
        if (!is_read) continue;
        if (instruction->again > 0) unread[instruction->again - 1] = false;
        for (size_t s = 0; s < DPT_MAX_INPUTS; s++)
            if (instruction->in[s] != DPTI_NO_TENSOR) read[instruction->in[s]] = true;
    }
    free(read);
    return DPT_OK;
}

/* ---- State ----------------------------------------------------------------------------------- */

dpti_recomputation *dpti_recomputation_create(const dpt_model *model, const bool *unread)
{
    const size_t n = model->n_nodes;
    dpti_recomputation *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->unread = unread;
    r->stage = calloc(n, sizeof *r->stage);
    r->kept = calloc(n, sizeof *r->kept);
    if (r->stage && r->kept) return r;
    dpti_recomputation_destroy(r);
    return NULL;
}

void dpti_recomputation_destroy(dpti_recomputation *recomputation)
{
    if (!recomputation) return;
    free(recomputation->stage);
    free(recomputation->kept);
    free(recomputation);
}
