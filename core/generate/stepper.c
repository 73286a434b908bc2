/* The programs of a generator, and what its device's driver thread does (generator.h). */
#include "generate/generator.h"

#include "context/context.h"
#include "device/arithmetic_test.h"
#include "device/stream.h"
#include "dpt_error.h"

#include <string.h>

/* ---- The model ------------------------------------------------------------------------------- */

static size_t fresh_elements(const dpti_steps *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_kept; i++)
        n += s->kept[i].width * (s->kept[i].by_place ? s->length : 1);
    return n;
}

dpt_status dpti_stepper_build(dpt_generator *generator, size_t length, dpti_stepper *out)
{
    const dpti_recipe *recipe = &generator->model->recipe;
    dpt_model *model;
    dpt_value ids;
    DPT_TRY(dpt_model_create(generator->context, generator->model->name, &model));
    dpti_steps_begin(model, generator->capacity, length, &ids);
    const dpt_value logits = recipe->build(model, ids, recipe->how);
    const bool gives = length == 1;
    const dpt_status status = dpti_steps_finish(model, gives ? logits : (dpt_value){0});
    if (status != DPT_OK) {
        dpt_model_destroy(model);
        return status;
    }
    *out = (dpti_stepper){
        .model = model, .gives_logits = gives, .fresh = fresh_elements(model->steps)};
    return DPT_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Uploads the parameters of the model and the tables that steps need.  What is kept stays zero. */
static dpt_status upload_weights(const dpti_stepper *s, const dpti_stepper_source *source)
{
    for (size_t i = 0; i < s->model->n_parameters; i++) {
        const dpti_parameter *p = &s->model->parameters[i];
        const dpti_parameter *from = dpti_model_parameter(source->model, p->name);
        const float *values = from ? source->flat + from->offset : p->initial;
        if (values)
            DPT_TRY(dpti_upload(&s->replica.parameters, p->offset * sizeof *values, values,
                                p->size * sizeof *values));
    }
    return dpti_sync(s->replica.device);
}

/* The step block and the number of the record are those of every step. */
static dpt_status upload_constants(const dpti_stepper *s)
{
    uint8_t staging[DPTI_STEP_INDEX_OFFSET + 4] = {0};
    const dpt_step_block block = {.inv_batch = 1.0f};
    memcpy(staging, &block, sizeof block);
    DPT_TRY(dpti_upload(&s->replica.step, 0, staging, sizeof staging));
    DPT_TRY(dpti_fill(&s->rows, 0, 0, sizeof(uint32_t)));
    return dpti_sync(s->replica.device);
}

static dpt_status create_buffers(dpti_device *device, dpti_stepper *s)
{
    const size_t n_bytes = 2 * s->model->steps->length * sizeof(int32_t);
    void *ids, *result;
    DPT_TRY(dpti_alloc(device, n_bytes, &s->record));
    DPT_TRY(dpti_alloc(device, sizeof(uint32_t), &s->rows));
    DPT_TRY(dpti_host_alloc(device, n_bytes, &ids));
    s->ids = ids;
    DPT_TRY(dpti_host_alloc(device, dpt_model_outputs(s->model) * sizeof(float), &result));
    s->result = result;
    return DPT_OK;
}

static dpt_status create(dpti_device *device, const dpti_stepper_source *source, dpti_stepper *s,
                         dpt_error *error)
{
    const dpt_dataset samples = {
        .name = s->model->name, .dtype = DPT_I32, .vocabulary = s->model->vocabulary};
    const dpti_replica_options kind = {.model = s->model,
                                       .capacity = 1,
                                       .predicts = true,
                                       .lender = source->lender ? &source->lender->replica : NULL};
    if (source->deterministic) DPT_TRY(dpti_arithmetic_test(device, error));
    DPT_TRY(dpti_replica_create(device, &kind, &s->replica));
    if (!source->lender) DPT_TRY(upload_weights(s, source));
    DPT_TRY(create_buffers(device, s));
    DPT_TRY(upload_constants(s));
    const dpti_executable_options options = {
        .program = {.data = &samples,
                    .purpose = DPTI_PURPOSE_PREDICT,
                    .fed = 1,
                    .deterministic = source->deterministic},
        .data = {.images = &s->record, .answers = &s->record, .rows = &s->rows}};
    return dpti_executable_create(&s->replica, &options, &s->forward, error);
}

dpt_status dpti_stepper_create(dpti_device *device, const dpti_stepper_source *source,
                               dpti_stepper *stepper, dpt_error *error)
{
    *error = (dpt_error){.status = DPT_OK};
    const dpt_status status = create(device, source, stepper, error);
    if (status != DPT_OK && error->status == DPT_OK) *error = *dpti_device_error(device);
    return status;
}

void dpti_stepper_release(dpti_device *device, dpti_stepper *stepper)
{
    dpti_stepper *s = stepper;
    void *ids = s->ids, *result = s->result;
    s->ids = NULL;
    dpti_host_free(device, ids);
    s->result = NULL;
    dpti_host_free(device, result);
    dpti_executable_destroy(&s->forward);
    dpti_free(&s->record);
    dpti_free(&s->rows);
    dpti_replica_destroy(&s->replica);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Writes the rows of the first n places of a step, and the states behind it, to where they are
   kept. */
static dpt_status keep(const dpt_generator *g, const dpti_stepper *s, size_t n)
{
    const dpti_steps *steps = s->model->steps;
    const float *from = s->result;
    for (size_t i = 0; i < steps->n_kept; i++) {
        const dpti_kept *k = &steps->kept[i];
        const size_t first = k->by_place ? g->n_tokens : 0, rows = k->by_place ? n : 1;
        const size_t at = s->model->parameters[k->parameter].offset + first * k->width;
        DPT_TRY(dpti_upload(&s->replica.parameters, at * sizeof *from, from,
                            rows * k->width * sizeof *from));
        from += k->width * (k->by_place ? steps->length : 1);
    }
    return DPT_OK;
}

/* Reads n tokens, as many as the stepper takes, or fewer. */
static dpt_status step(dpt_generator *g, dpti_stepper *s, const int32_t *ids, size_t n)
{
    const size_t length = s->model->steps->length;
    for (size_t i = 0; i < length; i++) {
        const size_t place = g->n_tokens + i;
        s->ids[i] = i < n ? ids[i] : 0;
        s->ids[length + i] = (int32_t)(place < g->capacity ? place : g->capacity - 1);
    }
    DPT_TRY(dpti_upload(&s->record, 0, s->ids, 2 * length * sizeof *s->ids));
    DPT_TRY(dpti_executable_run(&s->forward, 0, 1, NULL));
    DPT_TRY(dpti_executable_record(&s->forward, 0, 1, NULL));
    DPT_TRY(dpti_executable_result(&s->forward, 1, s->result));
    DPT_TRY(dpti_sync(g->device));
    dpti_executable_widen(&s->forward, 1, s->result);
    DPT_TRY(keep(g, s, n));
    DPT_TRY(dpti_sync(g->device));
    g->n_tokens += n;
    if (s->gives_logits) memcpy(g->logits, s->result + s->fresh, g->vocabulary * sizeof(float));
    return DPT_OK;
}

dpt_status dpti_generator_advance(dpt_generator *generator, const int32_t *ids, size_t n)
{
    enum { WORTH = 8 }; /* so many single steps take longer than one of many */
    dpt_generator *g = generator;
    const size_t most = g->many.model ? g->many.model->steps->length : 0;
    /* The last token is read alone, since only that program gives logits.  States behind a step of
       many are those behind its last place, so it must be full. */
    const size_t least = g->has_states ? most : WORTH;
    while (most > 0 && n - 1 >= least) {
        const size_t part = n - 1 < most ? n - 1 : most;
        DPT_TRY(step(g, &g->many, ids, part));
        ids += part;
        n -= part;
    }
    for (; n > 0; n--)
        DPT_TRY(step(g, &g->one, ids++, 1));
    return DPT_OK;
}

dpt_status dpti_generator_clear(dpt_generator *generator)
{
    const dpti_stepper *s = &generator->one;
    for (size_t i = 0; i < s->model->steps->n_kept; i++) {
        const dpti_parameter *p = &s->model->parameters[s->model->steps->kept[i].parameter];
        DPT_TRY(dpti_fill(&s->replica.parameters, p->offset * sizeof(float), 0,
                          p->size * sizeof(float)));
    }
    return dpti_sync(generator->device);
}
