/* Buckets: the places where the backward pass is cut, so that gradients that are complete are
   exchanged while the rest is computed.

   Weights are in the flat buffer in the order of the layers, and the backward pass writes their
   gradients from the last layer to the first.  So the written gradients are always the end of this
   part of the buffer, and a bucket is a run of it.  The rest of the buffer (biases, norms,
   statistics) is small, and is exchanged after the last bucket.

   The first bucket is small, so that the exchange begins early.  The other buckets are larger, but
   no larger than what is still to be written: buckets shrink towards the end, because no
   computation hides the last exchange.  No bucket is smaller than the first one; below that size a
   message costs more than its transfer.  Sizes are chosen by the measured cost of sums between the
   processes (train/components/bandwidth_model.h), or follow from the model: the smallest size
   first, then an eighth of all weights.

   A linear layer may have more than an eighth of all weights.  Its gradient is then computed in
   slices of rows, each of about an eighth of all weights, of the frozen ones, too.  So the exchange
   does not wait for the whole layer, and the end of the step does not wait for the whole first
   layer.  A product with fewer rows may round differently.  So slices depend on the model, on the
   smallest size, and on whether there is an exchange at all, but not on the time of the exchange or
   on the size of buckets.  A slice is one bucket; if buckets are larger, several slices are one
   bucket. */
#include "base/size.h"
#include "graph/compile.h"

enum {
    PARTS = 8,
    /* Products with fewer rows are slower.  For 512 samples and 1024 columns, on a core with
       AVX-512, a product of all 1024 rows takes 9 % longer in slices of 256 rows, 17 % in slices
       of 128, and 35 % in slices of 32.  A multiple of 64 keeps slices aligned. */
    LEAST_ROWS = 128,
};

dpti_bucket_sizes dpti_default_buckets(const dpt_model *model, size_t least_bucket)
{
    const size_t part = model->flat_weights / PARTS;
    return (dpti_bucket_sizes){.first = least_bucket,
                               .others = part > least_bucket ? part : least_bucket};
}

size_t dpti_slice_begin(const dpti_compiler *c, const dpti_node *linear, size_t end)
{
    const size_t in = linear->forward.u.linear.in, out = linear->forward.u.linear.out;
    const size_t least = c->options->least_bucket, part = c->model->all_weights / PARTS;
    if (least == 0) return 0;
    const size_t n_slices = in * out / (part > least ? part : least) + 1;
    const size_t shard = (out + n_slices - 1) / n_slices, fill = (least + in - 1) / in;
    const size_t rows = dpti_round_up(shard > fill ? shard : fill, LEAST_ROWS);
    return end > rows ? (end - rows) / LEAST_ROWS * LEAST_ROWS : 0;
}

/* Returns how many elements are enough for a bucket after the last n written elements of this
   weight. */
static size_t enough(const dpti_compiler *c, const dpti_parameter *p, size_t n)
{
    const size_t whole = c->model->flat_weights;
    const bool is_large = p->size > whole / PARTS, is_chosen = c->options->buckets.first > 0;
    if (is_large && !is_chosen) return c->options->least_bucket;
    const dpti_bucket_sizes sizes =
        is_chosen ? c->options->buckets : dpti_default_buckets(c->model, c->options->least_bucket);
    size_t size = c->written < sizes.others ? c->written : sizes.others;
    if (c->bucketed == whole || size < sizes.first) size = sizes.first;
    /* Takes the number of slices, or of whole layers, that is nearest to the size: one more may be
       far too much. */
    return is_large && size > n / 2 ? size - n / 2 : size;
}

dpt_status dpti_end_bucket(dpti_compiler *c, size_t parameter, size_t from)
{
    const dpti_parameter *p = &c->model->parameters[parameter];
    const size_t begin = p->offset + from;
    const size_t end = p->offset + dpti_round_up(p->size, DPTI_PARAMETER_ALIGNMENT);
    if (c->options->least_bucket == 0 || c->options->exchange_at_end) return DPT_OK;
    if (p->role == DPTI_ROLE_TENSOR) return DPT_OK; /* other layers may still add to it */
    /* If a layer was computed out of order, the gradients before it wait for the end. */
    const size_t before = c->written;
    if (begin < c->written && c->written <= end) c->written = begin;
    if (c->written == 0 || c->bucketed - c->written < enough(c, p, before - c->written))
        return DPT_OK;
    const dpti_segment bucket = {
        .exchange = DPTI_EXCHANGE_BUCKET, .begin = c->written, .end = c->bucketed};
    c->bucketed = c->written;
    return dpti_end_segment(c, bucket);
}
