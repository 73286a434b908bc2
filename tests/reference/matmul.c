/* MATMUL in double precision. */
#include "reference.h"

/* The element of an operand at an index of the batch and of its matrix. */
static size_t element_of(const dpt_matmul_operand *o, size_t sample, const size_t batch[3],
                         const size_t index[2])
{
    size_t at = o->offset + (o->per_sample ? sample * o->elements : 0);
    for (size_t i = 0; i < DPT_MATMUL_AXES; i++)
        at += batch[i] * o->batch_stride[i];
    return at + index[0] * o->row_stride + index[1] * o->column_stride;
}

static void product(const dpt_matmul_desc *d, size_t sample, const size_t batch[3],
                    const reference_args *args)
{
    for (size_t i = 0; i < d->rows; i++) {
        for (size_t j = 0; j < d->columns; j++) {
            const size_t at = element_of(&d->y, sample, batch, (size_t[2]){i, j});
            double sum = 0.0;
            for (size_t l = 0; l < d->inner; l++)
                sum += args->in[0][element_of(&d->a, sample, batch, (size_t[2]){i, l})] *
                       args->in[1][element_of(&d->b, sample, batch, (size_t[2]){l, j})];
            args->out[0][at] = (args->accumulate ? args->out[0][at] : 0.0) + (double)d->alpha * sum;
        }
    }
}

void reference_matmul(const dpt_matmul_desc *d, size_t n, const reference_args *args)
{
    const size_t n_batch = d->batch[0] * d->batch[1] * d->batch[2];
    for (size_t i = 0; i < n * n_batch; i++) {
        const size_t at = i % n_batch;
        const size_t batch[3] = {at / d->batch[2] / d->batch[1], at / d->batch[2] % d->batch[1],
                                 at % d->batch[2]};
        product(d, i / n_batch, batch, args);
    }
}
