/* Data whose samples are ids. */
#include "data/data.h"

dpt_status dpti_dataset_check_ids(const dpt_dataset *data, const void *images, dpti_written samples,
                                  dpt_error *error)
{
    const int32_t *ids = images;
    const size_t n = data->height * data->width * data->channels;
    if (data->dtype != DPT_I32 || data->declared) return DPT_OK;
    for (size_t i = 0; i < samples.count * n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= data->vocabulary)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "id %d at place %zu of sample %zu is out of range: the vocabulary has "
                            "%zu ids, from 0",
                            (int)ids[i], i % n, samples.first + i / n, data->vocabulary);
    return DPT_OK;
}
