/* Buckets: where backward is cut so that gradients which are written travel while the rest is
   computed.

   Weights lie in the flat buffer in the order of the layers, and backward writes their gradients
   from the last to the first: what is written is always the end of that part of the buffer, and a
   bucket is a run of it.  What lies behind the weights (biases, norms, statistics) is small, and is
   exchanged with what the last bucket leaves.

   Sizes follow from the model.  The first bucket is as small as the least one, so that the exchange
   begins early.  The others are an eighth of all weights, but no more than what is still to be
   written: towards the end they shrink, since what is left for the end is what no backward hides.
   None is below the least size, by which a message takes longer than it takes to be sent. */
#include "base/base.h"
#include "graph/compile.h"

enum { PARTS = 8 };

static size_t least_size(const dpti_compiler *c)
{
    const size_t least = c->options->least_bucket, whole = c->model->flat_weights;
    size_t size = c->written < whole / PARTS ? c->written : whole / PARTS;
    if (c->bucketed == whole || size < least) size = least;
    return size;
}

dpt_status dpti_end_bucket(dpti_compiler *c, size_t parameter)
{
    const dpti_parameter *p = &c->model->parameters[parameter];
    const size_t end = p->offset + dpti_round_up(p->size, DPTI_PARAMETER_ALIGNMENT);
    if (c->options->least_bucket == 0) return DPT_OK;
    /* Of a layer that was computed out of turn what lies before it waits for the end. */
    if (end == c->written) c->written = p->offset;
    if (c->written == 0 || c->bucketed - c->written < least_size(c)) return DPT_OK;
    const dpti_segment bucket = {
        .exchange = DPTI_EXCHANGE_BUCKET, .begin = c->written, .end = c->bucketed};
    c->bucketed = c->written;
    return dpti_end_segment(c, bucket);
}
