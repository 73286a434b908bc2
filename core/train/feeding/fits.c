/* Whether samples are what a model reads. */
#include "train/feeding/fits.h"
#include "context/context.h"
#include "graph/inputs.h"

dpt_status dpti_check_inputs(const dpt_trainer *trainer, const dpt_dataset *data)
{
    dpt_error error = {.status = DPT_OK};
    const bool unarranged = data->declared && !data->arranged;
    if (trainer->model->n_inputs <= 1 && data->n_inputs <= 1 && !unarranged) return DPT_OK;
    if (dpti_check_records(trainer->model, data, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(trainer->context, NULL, &error);
}

dpt_status dpti_check_ids(const dpt_trainer *trainer, const dpt_dataset *data)
{
    const dpt_model *m = trainer->model;
    if (m->n_inputs > 1) return DPT_OK; /* dpti_check_inputs has looked at each input */
    if (m->vocabulary && data->dtype != DPT_I32)
        return dpt_fail(trainer->context, DPT_E_INVALID,
                        "model %s reads ids, but %s holds images; make a data set of DPT_I32",
                        m->name, data->name);
    if (!m->vocabulary && data->dtype == DPT_I32)
        return dpt_fail(trainer->context, DPT_E_INVALID,
                        "%s holds ids, but model %s reads numbers; begin the model with "
                        "dpt_input_ids, or give the data as DPT_F32",
                        data->name, m->name);
    if (data->vocabulary > m->vocabulary)
        return dpt_fail(trainer->context, DPT_E_INVALID,
                        "the vocabulary of %s has %zu ids, but the smallest table of model %s has "
                        "%zu rows",
                        data->name, data->vocabulary, m->name, m->vocabulary);
    return DPT_OK;
}

dpt_status dpti_check_labels(const dpt_trainer *trainer, const dpt_dataset *data)
{
    const size_t wanted = dpt_model_labels(trainer->model), given = dpti_dataset_labels(data);
    if (given == wanted) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_INVALID,
                    "model %s scores %zu labels a sample, but the samples of %s have %zu (see "
                    "labels_per_sample)",
                    trainer->model->name, wanted, data->name, given);
}

size_t dpti_count_all_labels(const dpt_dataset *data)
{
    size_t count = 0;
    for (size_t i = 0; i < data->count; i++) {
        const uint32_t record = (uint32_t)dpti_dataset_record(data, i);
        count += dpti_dataset_count_labels(data, &record, 1);
    }
    return count;
}
