/* Attention: two products with a softmax between them, which every reader of ONNX knows. */
#include "export/state.h"

/* What is added to the score of a key that a query does not read.  It is finite, so that no device
   computes with infinities. */
#define MASKED (-1e30f)

/* Matrices of all heads in an input or in the output: (heads of keys, heads that share them, rows,
   columns), or (heads, rows, columns) if no heads share keys. */
typedef struct heads {
    const dpt_attention_desc *d;
    size_t n; /* heads of the tensor: those of queries, or those of keys */
    size_t offset, pitch;
} heads;

/* rows and columns: the extents of (length, channels), exchanged if `exchanged`. */
static dpti_shape matrices(const heads *h, size_t length, bool exchanged)
{
    const size_t width = h->d->width, group = h->n / h->d->key_heads;
    dpti_shape s = {.offset = h->offset};
    s.extent[s.rank] = h->d->key_heads;
    s.stride[s.rank++] = (int32_t)(group * width);
    if (h->d->heads != h->d->key_heads) {
        s.extent[s.rank] = group;
        s.stride[s.rank++] = (int32_t)width;
    }
    const size_t row = s.rank + exchanged, column = s.rank + !exchanged;
    s.extent[row] = length;
    s.stride[row] = (int32_t)h->pitch;
    s.extent[column] = width;
    s.stride[column] = 1;
    s.rank += 2;
    return s;
}

/* Queries, keys or values, which are part 0, 1 or 2. */
static dpti_draft_value *take(dpti_exporter *e, const dpti_node *n, size_t part)
{
    const dpt_attention_desc *d = &n->forward.u.attention;
    const size_t first[] = {0, d->heads * d->width, (d->heads + d->key_heads) * d->width};
    heads h = {.d = d, .n = part == 0 ? d->heads : d->key_heads};
    h.offset = d->packed ? first[part] : 0;
    h.pitch = d->packed ? dpt_attention_pitch(d) : h.n * d->width;
    const dpti_shape shape = matrices(&h, part == 0 ? d->queries : d->keys, part == 1);
    return dpti_export_take(e, n->inputs[d->packed ? 0 : part],
                            (dpti_export_want){&shape, DPTI_ONNX_FLOAT});
}

/* (queries, keys): MASKED for keys that a query does not read, else 0. */
static dpti_draft_value *mask(dpti_exporter *e, const dpt_attention_desc *d)
{
    if (e->mask && e->mask_extents[0] == d->queries && e->mask_extents[1] == d->keys)
        return e->mask;
    dpti_draft *draft = e->draft;
    float *numbers = dpti_onnx_take(&draft->arena, d->queries * d->keys, sizeof *numbers);
    if (!numbers) {
        draft->status = DPT_E_NO_MEMORY;
        return &draft->spare_value;
    }
    for (size_t i = 0; i < d->queries; i++)
        for (size_t j = i + d->keys - d->queries + 1; j < d->keys; j++)
            numbers[i * d->keys + j] = MASKED;
    e->mask = dpti_draft_name(draft, "val_mask", DPTI_ONNX_FLOAT);
    e->mask_extents[0] = d->queries;
    e->mask_extents[1] = d->keys;
    dpti_draft_tensor *tensor =
        dpti_draft_initialiser(draft, e->mask, numbers, d->queries * d->keys * sizeof *numbers);
    tensor->rank = 2;
    tensor->extents[0] = (int64_t)d->queries;
    tensor->extents[1] = (int64_t)d->keys;
    return e->mask;
}

dpt_status dpti_export_attention(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpt_attention_desc *d = &n->forward.u.attention;
    const heads out = {.d = d, .n = d->heads, .pitch = d->heads * d->width};
    const dpti_shape shape = matrices(&out, d->queries, false);
    dpti_draft_value *q = take(e, n, 0), *k = take(e, n, 1), *v = take(e, n, 2);
    dpti_draft_value *x = dpti_draft_binary(e->draft, "MatMul", q, k);
    if (d->scale != 1.0f)
        x = dpti_draft_binary(e->draft, "Mul", x, dpti_draft_number(e->draft, d->scale));
    if (d->causal) x = dpti_draft_binary(e->draft, "Add", x, mask(e, d));
    dpti_draft_node *softmax = dpti_draft_call(e->draft, "Softmax", &x, 1);
    dpti_draft_int(softmax, "axis", -1);
    dpti_export_hold(e, node, dpti_draft_binary(e->draft, "MatMul", softmax->output, v), &shape);
    return DPT_OK;
}
