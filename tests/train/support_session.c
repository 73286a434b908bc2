#include "train/session.h"

void session_end(session *s)
{
    dpt_trainer_destroy(s->trainer);
    dpt_model_destroy(s->model);
    dpt_dataset_destroy(s->data);
    dpt_device_set_close(s->devices);
    dpt_context_destroy(s->context);
    *s = (session){.context = NULL};
}

dpt_status session_linear(session *s, size_t inputs, size_t outputs)
{
    const dpt_linear_options options = {.size = sizeof options, .out = outputs};
    DPT_TRY(dpt_model_create(s->context, "linear", &s->model));
    const dpt_value x = dpt_flatten(s->model, dpt_input(s->model, 1, 1, inputs));
    return dpt_model_finish(s->model, dpt_linear(s->model, x, "fc", &options));
}

bool session_train(test *t, const session *s, size_t n, double *losses)
{
    for (size_t i = 0; i < n; i++) {
        dpt_step_metrics m = {.size = sizeof m};
        if (!CHECK_OK(dpt_trainer_step(s->trainer, &m))) return false;
        if (losses) losses[i] = m.loss;
    }
    return true;
}
