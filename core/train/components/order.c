/* The order of samples (order.h), with random numbers keyed by seed and epoch: Fisher-Yates if it
   is kept, else a permutation that is computed element by element. */
#include "train/components/order.h"

#include "base/permutation.h"

#include <stdlib.h>

static bool is_kept(const dpt_dataset *data)
{
    return data->count <= DPTI_ORDER_KEPT;
}

bool dpti_order_create(const dpt_dataset *data, const dpti_order_options *options, dpti_order *out)
{
    const size_t n = is_kept(data) ? data->count : options->batch_size;
    uint32_t *records = calloc(n, sizeof *records);
    if (!records) return false;
    *out = (dpti_order){.data = data,
                        .batch_size = options->batch_size,
                        .seed = options->seed,
                        .shuffle = options->shuffle,
                        .records = records};
    return true;
}

void dpti_order_free(dpti_order *order)
{
    free(order->records);
    *order = (dpti_order){0};
}

static void permute(dpti_order *order, size_t epoch)
{
    for (size_t i = 0; i < order->data->count; i++)
        order->records[i] = (uint32_t)dpti_dataset_record(order->data, i);
    order->epoch = epoch;
    if (!order->shuffle) return;
    dpti_random random;
    dpti_random_init(&random, order->seed, DPTI_RANDOM_SHUFFLE, epoch);
    for (size_t i = order->data->count - 1; i > 0; i--) {
        const size_t j = dpti_random_below(&random, (uint32_t)i + 1);
        const uint32_t other = order->records[j];
        order->records[j] = order->records[i];
        order->records[i] = other;
    }
}

static size_t batch_samples(const dpti_order *order, const dpti_cursor *cursor)
{
    const size_t left = order->data->count - cursor->position;
    return left < order->batch_size ? left : order->batch_size;
}

static void compute_batch(dpti_order *order, const dpti_cursor *cursor, size_t n_samples)
{
    const dpti_permutation p = {order->seed, cursor->epoch, DPTI_RANDOM_PLACE,
                                (uint32_t)order->data->count};
    for (size_t i = 0; i < n_samples; i++) {
        const size_t place = cursor->position + i;
        const size_t sample = order->shuffle ? dpti_permutation_at(&p, (uint32_t)place) : place;
        order->records[i] = (uint32_t)dpti_dataset_record(order->data, sample);
    }
}

const uint32_t *dpti_order_batch(dpti_order *order, const dpti_cursor *cursor, size_t *n_samples)
{
    *n_samples = batch_samples(order, cursor);
    if (!is_kept(order->data)) {
        compute_batch(order, cursor, *n_samples);
        return order->records;
    }
    if (order->epoch != cursor->epoch) permute(order, cursor->epoch);
    return order->records + cursor->position;
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
