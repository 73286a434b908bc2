/* Whether samples are what a model reads. */
#include "train/feeding/fits.h"

dpt_status dpti_check_ids(const dpt_trainer *trainer, const dpt_dataset *data)
{
    const dpt_model *m = trainer->model;
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
