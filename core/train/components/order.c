/* The order of samples (order.h): Fisher-Yates, with random numbers keyed by seed and epoch. */
#include "train/components/order.h"

#include "base/random.h"

#include <stdlib.h>

bool dpti_order_create(const dpt_dataset *data, const dpti_order_options *options, dpti_order *out)
{
    uint32_t *permutation = calloc(data->count, sizeof *permutation);
    if (!permutation) return false;
    *out = (dpti_order){.data = data,
                        .batch_size = options->batch_size,
                        .seed = options->seed,
                        .shuffle = options->shuffle,
                        .permutation = permutation};
    return true;
}

void dpti_order_free(dpti_order *order)
{
    free(order->permutation);
    *order = (dpti_order){0};
}

static void permute(dpti_order *order, size_t epoch)
{
    for (size_t i = 0; i < order->data->count; i++)
        order->permutation[i] = (uint32_t)dpti_dataset_record(order->data, i);
    order->epoch = epoch;
    if (!order->shuffle) return;
    dpti_random random;
    dpti_random_init(&random, order->seed, DPTI_RANDOM_SHUFFLE, epoch);
    for (size_t i = order->data->count - 1; i > 0; i--) {
        const size_t j = dpti_random_below(&random, (uint32_t)i + 1);
        const uint32_t other = order->permutation[j];
        order->permutation[j] = order->permutation[i];
        order->permutation[i] = other;
    }
}

static size_t batch_samples(const dpti_order *order, const dpti_cursor *cursor)
{
    const size_t left = order->data->count - cursor->position;
    return left < order->batch_size ? left : order->batch_size;
}

const uint32_t *dpti_order_batch(dpti_order *order, const dpti_cursor *cursor, size_t *n_samples)
{
    if (order->epoch != cursor->epoch) permute(order, cursor->epoch);
    *n_samples = batch_samples(order, cursor);
    return order->permutation + cursor->position;
}

dpti_cursor dpti_order_next(const dpti_order *order, dpti_cursor cursor)
{
    cursor.step++;
    cursor.position += batch_samples(order, &cursor);
    if (cursor.position == order->data->count) {
        cursor.position = 0;
        cursor.epoch++;
    }
    return cursor;
}
